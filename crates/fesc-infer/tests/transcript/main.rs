//! An audit of every message of whole sessions, against the table of [`fesc_infer::audit`].
//!
//! Sessions of all modes run over sockets, with somebody on every wire (`wire.rs`). Checked: each message is
//! listed, with its way, its phase and its size; each kind that a mode should show is there; phases and
//! declared costs add up to the byte; what is said to be masked is uniform, in each direction and in the
//! exclusive or of the two, which is what an opening without its mask would show; no masked payload comes
//! twice. For a document of one repeated token, and a random one.
//!
//! What is public is the same, byte for byte, for two documents and the same randomness. So is all that is
//! sent before the protocol starts, and for two models of one outline the making of correlations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod fixed;
mod kept;
mod rerandomised;
mod statistic;
mod wire;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use common::*;
use fesc_infer::Reveal;
use fesc_infer::audit::{Cover, End, Message, MessagePhase as Phase, Sessions, message, messages};
use fesc_infer::session::{Randomness, Report};
use fesc_infer::{Schedule, ServerSetup};
use fesc_model::plan::{Activations, HeScanKernel, Projection, Scan};
use fesc_model::twin::{Calibration, Plan, Twin};
use fesc_model::{Config, Model, Shape, Weights};
use fesc_mpc::Role;
use fesc_mpc::provider::dealer_cost;
use fesc_net::HEADER_BYTES;
use fesc_ring::{Prg, Ring};
use statistic::{LIMIT, covered, encrypted, excess};
use wire::{Frame, Mode, Transcript, session, session_with};

type Way = (End, End);
/// One direction of one connection.
type Line = (Way, usize);
type Sent<'a> = (u16, &'a [u8]);

const TOKENS: usize = 128;
const UP: Way = (End::Client, End::Server);
const DOWN: Way = (End::Server, End::Client);

/// A model of the same outline for every seed: ranges are those of one of them. Its states are wide enough
/// for both engines of products.
fn model(seed: u8) -> ServerSetup {
    model_of(seed, Plan::FAST)
}

/// The fast plan with projections and scan under CKKS, on the sets that `statistic.rs` knows: ciphertexts and
/// keys travel, blocks of linear layers do not.
const ENCRYPTED: Plan = Plan { projection: Projection::Ckks, scan: Scan::HeScan(HeScanKernel::Dual), ..Plan::FAST };

/// The fast plan with SiLU from sign and magnitude.
const FOLDED: Plan = Plan { activations: Activations::Folded, ..Plan::FAST };

fn model_of(seed: u8, plan: Plan) -> ServerSetup {
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 32, norm_groups: 1, ..shape() };
    let random = |seed: u8| {
        let config = Config::new(small).unwrap();
        let weights = Weights::random(&config, Some(5), &mut Prg::from_seed([seed; 16]));
        Model::new(config, weights).unwrap()
    };
    let documents = [document(60, 101), document(40, 102), document(1, 103)];
    let ranges = Calibration::collect(&random(5), &documents).unwrap();
    ServerSetup::new(Twin::new(&random(seed), &ranges, plan).unwrap(), [7; 32]).unwrap()
}

fn documents() -> [Vec<u32>; 2] {
    [vec![7; 5], document(TOKENS, 9)]
}

fn known(frame: &Frame) -> &'static Message {
    message(frame.tag).unwrap_or_else(|| panic!("{:#06x} is not in the table", frame.tag))
}

fn bytes<'a>(frames: impl Iterator<Item = &'a Frame>) -> u64 {
    frames.map(|f| (f.payload.len() + HEADER_BYTES) as u64).sum()
}

fn way(frame: &Frame) -> Way {
    (frame.from, frame.to)
}

/// The tags that a session of a mode shows, by the table.
fn expected(mode: Mode, reveal: Reveal, verify: bool, plan: &Plan) -> BTreeSet<u16> {
    let shows = |message: &&Message| match message.sessions {
        Sessions::All => true,
        Sessions::Logits => reveal == Reveal::Logits,
        Sessions::Verify => verify,
        Sessions::Dealer => mode == Mode::Dealer,
        Sessions::Generator => mode != Mode::Dealer,
        Sessions::Prepared => mode == Mode::Prepared,
        Sessions::Rlwe => plan.projection == Projection::Rlwe,
        Sessions::Ckks => plan.encrypts(),
        Sessions::Folded => plan.activations == Activations::Folded,
        // `download.rs` has a test of it.
        Sessions::Large => false,
    };
    messages().filter(sent).filter(shows).map(|message| message.tag).collect()
}

/// Sessions send it, not measurements alone.
fn sent(message: &&Message) -> bool {
    !message.phases.is_empty() && !message.phases.contains(&Phase::Measurement)
}

/// Kind, way, size and order of every message.
fn check_kinds(mode: Mode, frames: &[Frame], expected: &BTreeSet<u16>) {
    let seen: BTreeSet<u16> = frames.iter().map(|f| f.tag).collect();
    assert_eq!(&seen, expected, "{mode:?}: what is sent, and what is expected");
    for frame in frames {
        let kind = known(frame);
        assert!(kind.ways.contains(&way(frame)), "{:#06x} from {:?} to {:?}", frame.tag, frame.from, frame.to);
        assert!(kind.size.allows(frame.payload.len()), "{:#06x}: {} bytes", frame.tag, frame.payload.len());
        assert!(frame.to != End::Dealer || kind.cover == Cover::Public, "{:#06x} to the dealer", frame.tag);
        assert!(!kind.phases.is_empty() && !kind.phases.contains(&Phase::Measurement), "{:#06x}", frame.tag);
        // Which connection may carry what: the second one of `ahead` makes correlations, the first one of
        // `prepare` too.
        let between = frame.from != End::Dealer && frame.to != End::Dealer;
        let (online, offline) = (kind.phases == [Phase::Online], kind.phases == [Phase::Offline]);
        let (making, using) = match mode {
            Mode::Inline => (0, 0),
            Mode::Ahead => (1, 0),
            Mode::Prepared => (0, 1),
            Mode::Dealer => (usize::MAX, 0),
        };
        let misplaced = online && frame.connection != using || offline && frame.connection != making;
        assert!(!(between && misplaced), "{mode:?}: {:#06x} on connection {}", frame.tag, frame.connection);
    }
    let mut begun = BTreeSet::new();
    let mut agreed = BTreeSet::new();
    for frame in frames {
        let line = (way(frame), frame.connection);
        assert_eq!(begun.insert(line), frame.tag == 0x0100, "a hello first, and once");
        agreed.extend((frame.tag == 0x0682).then_some(line));
        let early = known(frame).phases == [Phase::Online] && !agreed.contains(&line);
        assert!(!early, "{:#06x} before the handshakes are compared", frame.tag);
    }
}

/// What an end counted by phase is what was on its wires, by the phases of the table; online also what the
/// schedule declares.
fn check_sizes(mode: Mode, transcript: &Transcript, schedule: &Schedule) {
    let Transcript { frames, client, server, .. } = transcript;
    let sum = |reports: &[Report], spent: fn(&Report) -> u64| reports.iter().map(spent).sum::<u64>();
    for (end, reports) in [(End::Client, client), (End::Server, server)] {
        let wire = |phases: &[Phase]| {
            bytes(frames.iter().filter(|f| (f.from == end || f.to == end) && known(f).phases == phases))
        };
        let (setup, offline) = (sum(reports, |r| r.setup.bytes()), sum(reports, |r| r.offline.bytes()));
        let trees = wire(&[Phase::Setup, Phase::Offline]);
        assert_eq!(sum(reports, |r| r.online.bytes()), wire(&[Phase::Online]), "{mode:?}, {end:?}: online");
        assert_eq!(setup + offline, wire(&[Phase::Setup]) + wire(&[Phase::Offline]) + trees, "{mode:?}, {end:?}");
        assert!((wire(&[Phase::Setup])..=wire(&[Phase::Setup]) + trees).contains(&setup), "{mode:?}, {end:?}: setup");
    }
    let declared = schedule.costs().unwrap();
    let online = |w| bytes(frames.iter().filter(|f| way(f) == w && known(f).phases == [Phase::Online]));
    assert_eq!(online(UP), declared.iter().map(|c| c.online.p0_to_p1_bytes).sum::<u64>(), "declared, to the server");
    assert_eq!(online(DOWN), declared.iter().map(|c| c.online.p1_to_p0_bytes).sum::<u64>(), "declared, to the client");
    if mode == Mode::Dealer {
        for (role, end) in [(Role::P0, End::Client), (Role::P1, End::Server)] {
            let offline = |w| bytes(frames.iter().filter(|f| way(f) == w && known(f).phases == [Phase::Offline]));
            let costs = schedule.demand().map(|r| dealer_cost(&r.unwrap(), role));
            let (up, down) = costs.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
            assert_eq!((offline((end, End::Dealer)), offline((End::Dealer, end))), (up, down), "{end:?} and dealer");
        }
    }
}

/// Masked kinds are uniform in each direction; so is the exclusive or of what two parties exchange; and
/// nothing comes twice.
fn check_masks(mode: Mode, frames: &[Frame]) {
    let mut by = BTreeMap::<(u16, Way), Vec<&[u8]>>::new();
    for frame in frames {
        by.entry((frame.tag, way(frame))).or_default().push(&frame.payload);
    }
    let mut distinct = HashSet::new();
    for ((tag, way), payloads) in &by {
        let cover = message(*tag).unwrap().cover;
        let excess_of = excess(&covered(cover, payloads));
        assert!(excess_of < LIMIT, "{mode:?}, {tag:#06x}, {way:?}: {excess_of:.1} deviations");
        if matches!(cover, Cover::Uniform | Cover::Points | Cover::Ciphertexts) {
            let long = payloads.iter().filter(|p| p.len() >= 16);
            long.for_each(|p| assert!(distinct.insert(*p), "{mode:?}, {tag:#06x}, {way:?}: a payload comes twice"));
        }
        if let (UP, Some(back)) = (*way, by.get(&(*tag, DOWN)))
            && message(*tag).unwrap().phases == [Phase::Online]
        {
            let opened = openings(payloads, back);
            let excess = excess(&opened);
            assert!(excess < LIMIT, "{mode:?}, {tag:#06x}, opened: {excess:.1} deviations of {} bytes", opened.len());
        }
    }
}

/// The exclusive or of what the two sides send at once. For shares of one value it is far from uniform,
/// however uniform each share is.
fn openings(ours: &[&[u8]], theirs: &[&[u8]]) -> Vec<u8> {
    assert_eq!(ours.len(), theirs.len());
    let pairs = ours.iter().zip(theirs).filter(|(a, b)| a.len() == b.len());
    pairs.flat_map(|(a, b)| a.iter().zip(*b).map(|(a, b)| a ^ b).take(a.len().saturating_sub(1))).collect()
}

/// What is public about the ciphertexts and keys of every line, in order.
fn headers(frames: &[Frame]) -> BTreeMap<Line, Vec<(u16, Vec<u8>)>> {
    let public = |(tag, payload): Sent<'_>| {
        (tag, encrypted(payload).iter().flat_map(|object| object.header).collect::<Vec<u8>>())
    };
    let lines = lines(frames, |k| k.cover == Cover::Ciphertexts);
    lines.into_iter().map(|(line, sent)| (line, sent.into_iter().map(public).collect())).collect()
}

/// Every line's messages, in order, of the kinds that `keep`.
fn lines(frames: &[Frame], keep: impl Fn(&Message) -> bool) -> BTreeMap<Line, Vec<Sent<'_>>> {
    let mut lines: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for f in frames.iter().filter(|f| keep(known(f))) {
        lines.entry((way(f), f.connection)).or_default().push((f.tag, f.payload.as_slice()));
    }
    lines
}

fn audit(mode: Mode, reveal: Reveal) {
    audit_of(mode, reveal, Plan::FAST);
}

fn audit_of(mode: Mode, reveal: Reveal, plan: Plan) {
    let setup = model_of(5, plan);
    let schedule = Schedule::new(setup.outline().unwrap(), TOKENS, reveal).unwrap();
    let [first, second] = documents().map(|ids| {
        let transcript = session(model_of(5, plan), &ids, reveal, mode, false);
        check_kinds(mode, &transcript.frames, &expected(mode, reveal, false, &plan));
        check_sizes(mode, &transcript, &schedule);
        check_masks(mode, &transcript.frames);
        let answers = transcript.frames.iter().filter(|f| known(f).cover == Cover::Answer).count();
        assert_eq!(answers, 1, "one message, to the client");
        transcript.frames
    });
    independent(mode, &first, &second);
}

/// Two documents and the same randomness: nothing public differs, nor what is sent before the protocol, nor a
/// length.
fn independent(mode: Mode, first: &[Frame], second: &[Frame]) {
    let shape = |frames| -> Vec<(_, Vec<(u16, usize)>)> {
        let lengths = |(line, sent): (_, Vec<Sent<'_>>)| (line, sent.iter().map(|(t, p)| (*t, p.len())).collect());
        lines(frames, |_| true).into_iter().map(lengths).collect()
    };
    assert!(
        shape(first) == shape(second),
        "{mode:?}: five or 128 tokens, the same kinds and lengths in the same order"
    );
    let public = |k: &Message| k.cover == Cover::Public;
    assert!(lines(first, public) == lines(second, public), "{mode:?}: a public message depends on the document");
    assert!(headers(first) == headers(second), "{mode:?}: a header depends on the document");
    // The dealer's randomness is spread over connections as they come, so its bytes differ from run to run.
    let before = |k: &Message| !k.phases.contains(&Phase::Online) && k.tag != 0x0403;
    assert!(lines(first, before) == lines(second, before), "{mode:?}: before the protocol, something depends on it");
}

#[test]
fn every_message_is_known_and_masked_inline() {
    audit(Mode::Inline, Reveal::Label);
}

#[test]
fn every_message_is_known_and_masked_ahead() {
    audit(Mode::Ahead, Reveal::Logits);
}

#[test]
fn every_message_is_known_and_masked_prepared() {
    audit(Mode::Prepared, Reveal::Label);
}

#[test]
fn every_message_is_known_and_masked_dealer() {
    audit(Mode::Dealer, Reveal::Logits);
}

#[test]
fn every_message_is_known_and_masked_under_encryption() {
    audit_of(Mode::Dealer, Reveal::Label, ENCRYPTED);
}

#[test]
fn every_message_is_known_and_masked_folded() {
    audit_of(Mode::Prepared, Reveal::Label, FOLDED);
}

/// Shares are given away only where the server was started for it, and the table is whole: what no mode
/// shows, no session sends.
#[test]
fn the_modes_show_the_whole_table() {
    let transcript = session(model(5), &documents()[0], Reveal::Logits, Mode::Dealer, true);
    let shown = |mode, verify, plan| expected(mode, Reveal::Logits, verify, plan);
    check_kinds(Mode::Dealer, &transcript.frames, &shown(Mode::Dealer, true, &Plan::FAST));
    assert!(transcript.finished.seen.is_some());
    let mut all = shown(Mode::Prepared, false, &Plan::FAST);
    all.extend(shown(Mode::Dealer, true, &ENCRYPTED));
    all.extend(shown(Mode::Dealer, true, &FOLDED));
    let large = |k: &&Message| k.sessions == Sessions::Large;
    all.extend(messages().filter(large).map(|k| k.tag));
    assert_eq!(all, messages().filter(sent).map(|k| k.tag).collect());
}

/// Another model of the same outline: the making of correlations is the same bytes, and all messages have the
/// same lengths.
#[test]
fn correlations_do_not_depend_on_the_weights() {
    let [first, second] = [5, 6].map(|seed| {
        let setup = model(seed);
        let outline = setup.outline().unwrap().digest().unwrap();
        (outline, session(setup, &documents()[1], Reveal::Label, Mode::Inline, false).frames)
    });
    assert_eq!(first.0, second.0, "one outline");
    let (first, second) = (first.1, second.1);
    let made =
        |k: &Message| k.phases.contains(&Phase::Offline) || k.phases == [Phase::Setup] && k.owner != "fesc-infer";
    assert!(lines(&first, made) == lines(&second, made));
    let public = |frames: &[Frame]| frames.iter().filter(|f| f.tag == 0x0683).flat_map(|f| f.payload.clone()).collect();
    let (a, b): (Vec<u8>, Vec<u8>) = (public(&first), public(&second));
    assert_eq!(a.len(), b.len());
    assert_ne!(a, b, "hints and table are of other weights");
}

/// The statistics find what has no mask: a stream in clear, one with a mask of 44 of its 48 bits, bits that
/// are rarely set, and an opening of two shares, each of which is uniform.
#[test]
fn without_a_mask_the_test_fails() {
    let ring = Ring::new(48).unwrap();
    let values: Vec<u64> = integers(2000, 1 << 17, 1).into_iter().map(|v| ring.from_signed(v)).collect();
    assert!(excess(&ring.pack(&values)) > 10.0 * LIMIT);
    let mask = Prg::from_seed([1; 16]).ring_vec(Ring::new(44).unwrap(), values.len());
    let narrow: Vec<u64> = values.iter().zip(&mask).map(|(v, m)| ring.add(v & ring.mask() >> 30, *m)).collect();
    assert!(excess(&ring.pack(&narrow)) > LIMIT);
    let mask = Prg::from_seed([1; 16]).ring_vec(ring, values.len());
    let masked: Vec<u64> = values.iter().zip(&mask).map(|(v, m)| ring.add(*v, *m)).collect();
    assert!(excess(&ring.pack(&masked)) < LIMIT);

    // Bits of a comparison: one in four is set.
    let mut prg = Prg::from_seed([2; 16]);
    let bits: Vec<u8> = (0..100).map(|_| (prg.next_u64() & prg.next_u64()) as u8).collect();
    assert!(excess(&bits) > LIMIT);
    let masked: Vec<u8> = bits.iter().map(|b| b ^ prg.next_u64() as u8).collect();
    assert!(excess(&masked) < LIMIT);

    // The same values as shares, opened as they are and under a mask.
    let [ours, theirs] = [mask.clone(), values.iter().zip(&mask).map(|(v, m)| ring.sub(*v, *m)).collect()];
    let sent = |share: &[u64]| ring.pack(share);
    assert!(excess(&sent(&ours)) < LIMIT && excess(&sent(&theirs)) < LIMIT, "a share alone is uniform");
    assert!(excess(&openings(&[&sent(&ours)], &[&sent(&theirs)])) > 10.0 * LIMIT, "and both together are not");
    let hidden: Vec<u64> = theirs.iter().zip(prg.ring_vec(ring, theirs.len())).map(|(t, r)| ring.sub(*t, r)).collect();
    assert!(excess(&openings(&[&sent(&ours)], &[&sent(&hidden)])) < LIMIT);
}

/// Masked messages that two sessions have in common, of all that the first has.
fn in_common(first: &Transcript, second: &Transcript) -> (usize, usize) {
    let masked = |t: &Transcript| -> Vec<Vec<u8>> {
        // Shorter ones are the same by chance.
        let covered = |f: &&Frame| {
            f.payload.len() >= 32 && message(f.tag).is_some_and(|k| matches!(k.cover, Cover::Uniform | Cover::Dealt))
        };
        t.frames.iter().filter(covered).map(|f| f.payload.clone()).collect()
    };
    let (first, second) = (masked(first), masked(second).into_iter().collect::<HashSet<_>>());
    (first.iter().filter(|payload| second.contains(*payload)).count(), first.len())
}

/// A process whose memory is copied (a virtual machine that is cloned, or resumed twice from a snapshot) has
/// no generator in it that two connections could share. The control is a process that keeps one.
#[test]
fn connections_of_a_copied_process_share_no_mask() {
    let ids = document(20, 1);
    for mode in [Mode::Ahead, Mode::Dealer] {
        let run = |generators: [Randomness; 3]| session_with(model(1), &ids, Reveal::Label, mode, false, &generators);
        // All that a process has is the same twice: its sources of generators.
        let os = [1, 9, 2].map(|_| Randomness::os());
        let (common, all) = in_common(&run(os.clone()), &run(os));
        assert!(common == 0 && all > 20, "{common} of {all}");
        let kept = || [1, 9, 2].map(common::serving::fresh);
        let (common, all) = in_common(&run(kept()), &run(kept()));
        assert!(common == all && all > 20, "the control: {common} of {all}");
    }
}
