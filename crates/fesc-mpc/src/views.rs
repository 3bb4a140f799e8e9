//! View tests (anchors D3, 16, 17, 23): what a party receives does not depend on the other's input; remove
//! any one mask and the same test fails.
//!
//! The adversary's own shares are fixed and its own masks are zero (it knows them, so this only renames its
//! view). The victim's shares are one constant for all elements, the same for every element, so that anything
//! unmasked is glaring. The statistic looks at the bytes received and at their XOR with what the adversary
//! sent.
//!
//! Every mask of every correlation that a primitive takes is removed in turn: each must be missed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod transfers;

use std::sync::{Arc, Mutex};

use fesc_approx::paper::PaperPlan;
use fesc_approx::paper::even::{EvenResidual as EvenForm, Residual};
use fesc_net::Channel;
use fesc_ring::{LongRing, Ring};

use crate::activation::{Activation, Guarded, Piecewise};
use crate::correlation::{BitProducts, BitTriples, Bundle, DaBits, Leaves, LongBitProducts, Transfers, select};
use crate::protocol::{ArgMax, Bilinear, BitToArithmetic, Compare, Convert, Extend, Mux, Sender, Thresholds};
use crate::provider::Seeded;
use crate::testing::ring;
use crate::{MpcError, Party, Request, Role, Shared, SharedBits};

const N: usize = 1 << 13;

/// The fields of a half that mask messages.
fn masks(request: &Request, role: Role) -> Vec<usize> {
    match request {
        Request::Bundle(b) => (0..b.masks.len()).collect(),
        Request::Select(_) => vec![select::field::MASK, select::field::BITS],
        Request::BitTriples(t) => {
            std::iter::once(BitTriples::COMMON).chain((0..t.width).map(BitTriples::operand)).collect()
        }
        Request::BitProducts(_) => vec![BitProducts::BITS],
        Request::LongBitProducts(_) => vec![LongBitProducts::BITS],
        Request::DaBits(_) => vec![DaBits::BITS],
        Request::Leaves(l) if l.sender == role => vec![Leaves::PLANES],
        Request::Leaves(_) => vec![Leaves::DIGITS],
        Request::Transfers(_) => vec![Transfers::OFFSETS, Transfers::CHOICES],
    }
}

/// A protocol under test: `run(party, constant share of this party)`.
type Protocol<'a> = dyn Fn(&mut Party, u64) -> Result<(), MpcError> + Sync + 'a;

/// All payloads that each party received.
type Transcript = [Vec<Vec<u8>>; 2];

/// Runs the protocol; the victim's share is `secret`, the adversary's 0. `removed` is the victim's mask that
/// is missing.
fn observe(
    protocol: &Protocol<'_>,
    victim: Role,
    secret: u64,
    seed: u8,
    demand: &[Request],
    removed: Option<(usize, usize)>,
) -> (Transcript, Vec<Request>) {
    let demand = demand.to_vec();
    let blank = Arc::new(move |number: usize, role: Role, field: usize| {
        if role == victim {
            return removed == Some((number, field));
        }
        demand.get(number).is_some_and(|r| masks(r, role).contains(&field))
    });
    let (c0, c1) = Channel::memory_pair();
    let logs: [Arc<Mutex<Vec<Vec<u8>>>>; 2] = Default::default();
    let mut taken = None;
    let mut parties = [(Role::P0, c0), (Role::P1, c1)].map(|(role, mut channel)| {
        let log = logs[role.index()].clone();
        channel.set_tap(Box::new(move |_, payload| log.lock().unwrap().push(payload.clone())));
        let source = Seeded::without(role, seed, blank.clone());
        taken = Some(source.taken.clone());
        Party::new(role, channel, Box::new(source))
    });
    let share = |role| if role == victim { secret } else { 0 };
    let [p0, p1] = &mut parties;
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| protocol(p1, share(Role::P1)).unwrap());
        protocol(p0, share(Role::P0)).unwrap();
        peer.join().unwrap();
    });
    let taken = taken.unwrap().lock().unwrap().clone();
    (logs.map(|l| std::mem::take(&mut *l.lock().unwrap())), taken)
}

/// Standard deviations by which a byte histogram is off uniform, the worse of chi-square and bit balance.
fn deviation(bytes: &[u8]) -> f64 {
    let mut bins = [0f64; 256];
    bytes.iter().for_each(|&b| bins[b as usize] += 1.0);
    let expected = bytes.len() as f64 / 256.0;
    let chi: f64 = bins.iter().map(|b| (b - expected).powi(2) / expected).sum();
    let ones: u32 = bytes.iter().map(|b| b.count_ones()).sum();
    let bits = 8.0 * bytes.len() as f64;
    ((chi - 255.0) / 510f64.sqrt()).abs().max((f64::from(ones) - bits / 2.0).abs() / (bits / 4.0).sqrt())
}

/// Two-sample chi-square between byte histograms of equal size, in standard deviations.
fn difference(a: &[u8], b: &[u8]) -> f64 {
    let mut bins = [[0f64; 256]; 2];
    a.iter().for_each(|&v| bins[0][v as usize] += 1.0);
    b.iter().for_each(|&v| bins[1][v as usize] += 1.0);
    let used = (0..256).filter(|&i| bins[0][i] + bins[1][i] > 0.0);
    let (mut chi, mut count) = (0.0, 0.0);
    for i in used {
        chi += (bins[0][i] - bins[1][i]).powi(2) / (bins[0][i] + bins[1][i]);
        count += 1.0;
    }
    (chi - (count - 1.0)) / (2.0 * (count - 1.0)).sqrt().max(1.0)
}

/// The largest deviation in a view, over all messages.
fn worst(transcript: &Transcript, adversary: Role) -> f64 {
    let (received, sent) = (&transcript[adversary.index()], &transcript[adversary.other().index()]);
    let mut worst: f64 = 0.0;
    for (i, message) in received.iter().enumerate().filter(|(_, m)| !m.is_empty()) {
        worst = worst.max(deviation(message));
        if let Some(own) = sent.get(i).filter(|s| s.len() == message.len()) {
            let xor: Vec<u8> = message.iter().zip(own).map(|(a, b)| a ^ b).collect();
            worst = worst.max(deviation(&xor));
        }
    }
    worst
}

/// False alarms at six standard deviations are far below one in a million.
const LIMIT: f64 = 6.0;

fn check(name: &str, protocol: &Protocol<'_>, secrets: [u64; 2]) {
    check_controls(name, protocol, secrets, &|_| true);
}

/// As [`check`], with controls only for the requests that `control` selects.
fn check_controls(name: &str, protocol: &Protocol<'_>, secrets: [u64; 2], control: &dyn Fn(&Request) -> bool) {
    for victim in [Role::P0, Role::P1] {
        let adversary = victim.other();
        let (_, demand) = observe(protocol, victim, secrets[0], 1, &[], None);
        let (first, _) = observe(protocol, victim, secrets[0], 1, &demand, None);
        let (second, _) = observe(protocol, victim, secrets[1], 2, &demand, None);
        for view in [&first, &second] {
            let w = worst(view, adversary);
            assert!(w < LIMIT, "{name}: {adversary:?}'s view is {w} standard deviations off uniform");
        }
        for (a, b) in first[adversary.index()].iter().zip(&second[adversary.index()]) {
            let d = difference(a, b);
            assert!(d < LIMIT, "{name}: views of {adversary:?} under two inputs differ by {d}");
        }
        let mut controls = 0;
        for (number, request) in demand.iter().enumerate().filter(|(_, r)| control(r)) {
            for mask in masks(request, victim) {
                let (view, _) = observe(protocol, victim, secrets[0], 1, &demand, Some((number, mask)));
                let w = worst(&view, adversary);
                assert!(w > 3.0 * LIMIT, "{name}: mask {mask} of {victim:?} in '{request}' is not missed ({w})");
                controls += 1;
            }
        }
        assert!(controls > 0, "{name}: nothing is masked");
    }
}

fn constant(r: Ring, value: u64) -> Shared {
    Shared::new(r, vec![value; N])
}

fn constant_bits(value: u64) -> SharedBits {
    SharedBits::new(N, vec![(value & 1).wrapping_neg(); N / 64]).unwrap()
}

#[test]
fn multiply() {
    let r = ring(48);
    let step = Bilinear { bundle: Bundle::triples(r, N) };
    check("multiply", &|p, s| step.run(p, &[&constant(r, s), &constant(r, s)]).map(drop), [0x1234_5678_9abc, 3]);
}

#[test]
fn square_and_matmul() {
    let r = ring(48);
    let step = Bilinear { bundle: Bundle::squares(r, N) };
    check("square", &|p, s| step.run(p, &[&constant(r, s)]).map(drop), [0x1234_5678_9abc, 3]);
    let step = Bilinear { bundle: Bundle::matmul(r, N / 16, 4, 4, 4) };
    check("matmul", &|p, s| step.run(p, &[&constant(r, s), &constant(r, s)]).map(drop), [0x1234_5678_9abc, 3]);
}

#[test]
fn a_product_of_a_product() {
    // x y y: the composition that leaks when an intermediate share is not re-randomised.
    let r = ring(48);
    let step = Bilinear { bundle: Bundle::triples(r, N) };
    let run = |p: &mut Party, s: u64| {
        let y = constant(r, s);
        let xy = step.run(p, &[&y, &y])?.swap_remove(0);
        step.run(p, &[&xy, &y]).map(drop)
    };
    check("x y y", &run, [0x0f0f_1234_5678, 1]);
}

#[test]
fn truncate_and_extend() {
    let r = ring(48);
    let step = Convert::truncate(r, 16, N).unwrap();
    check("truncate", &|p, s| step.run(p, &constant(r, s)).map(drop), [0x1234_5678_9abc, 1 << 47]);
    let step = Convert::new(ring(20), r, 0, N).unwrap();
    check("extend", &|p, s| step.run(p, &constant(ring(20), s)).map(drop), [0x2_5678, 0]);
    let step = Extend::new(r, 24, LongRing::new(92).unwrap(), N).unwrap();
    check("extend to integers", &|p, s| step.run(p, &constant(r, s)).map(drop), [0x123_4567, 1 << 24]);
}

#[test]
fn compare() {
    let r = ring(13);
    for sender in [Sender::Split, Sender::Only(Role::P1)] {
        let step = Compare::new(r, N, 3, sender).unwrap();
        let run = |p: &mut Party, s: u64| {
            let hidden = matches!(sender, Sender::Only(role) if role != p.role());
            let tau = if hidden { Thresholds::Peer } else { Thresholds::Same(&[5, 100, 1000]) };
            step.run(p, &constant(r, s), tau).map(drop)
        };
        check("compare", &run, [0x0a5c, 7]);
    }
}

#[test]
fn mux_and_dabit() {
    let r = ring(48);
    let mux = Mux { ring: r, count: N };
    check("mux", &|p, s| mux.run(p, &constant_bits(s), &constant(r, s)).map(drop), [0x1234_5678_9abd, 0]);
    let step = BitToArithmetic { ring: r, count: N };
    check("daBit", &|p, s| step.run(p, &constant_bits(s)).map(drop), [1, 0]);
}

#[test]
fn arg_max_and_silu() {
    let r = ring(48);
    let step = ArgMax { ring: r, rows: N / 2, columns: 2 };
    check("arg-max", &|p, s| step.run(p, &constant(r, s)).map(drop), [0x34_5678, 9]);
    let table = fesc_approx::silu::preset().unwrap();
    let act = Piecewise::new(table).into_ring(r);
    // The last truncation works on shares that are uniform by themselves, so removing its mask does not show
    // in one message; `truncate_and_extend` removes it where the shares are fixed.
    let inner = |r: &Request| !matches!(r, Request::BitProducts(_));
    let run = |p: &mut Party, s: u64| act.run(p, &constant(table.ring(), s)).map(drop);
    check_controls("SiLU", &run, [0x1_8000, 0xffff_ffff_0000], &inner);
}

/// The server's threshold rides in the comparison of MoSoft: a client sees the same whatever it is.
#[test]
fn a_secret_threshold_beside_a_polynomial() {
    let plan = PaperPlan { ring: ring(48), frac: 21, cmp_shift: 15, cmp_bits: 14 };
    let form = EvenForm::paper(Residual::Softplus, 4).unwrap().fixed(&plan).unwrap();
    let step = Guarded::even(form);
    let run = |p: &mut Party, s: u64| match p.role() {
        Role::P0 => step.run(p, &constant(plan.ring, s), &[]).map(drop),
        Role::P1 => step.run(p, &constant(plan.ring, 0), &vec![s as i64; N]).map(drop),
    };
    // What follows the comparison works on shares that are uniform by themselves.
    check_controls("MoSoft with a threshold", &run, [1_234, 77], &|r| matches!(r, Request::Leaves(_)));
}

/// One correlation for two tensors: their difference is open. The honest run shows nothing.
#[test]
fn a_mask_used_twice_shows_the_difference() {
    let r = ring(48);
    let step = Bilinear { bundle: Bundle::squares(r, N) };
    let run = |seeds: [u8; 2]| {
        let secrets = [0x1111_2222_3333, 0x1111_2222_3344u64];
        let views = [0, 1].map(|i| {
            let (view, _) =
                observe(&|p, s| step.run(p, &[&constant(r, s)]).map(drop), Role::P0, secrets[i], seeds[i], &[], None);
            r.unpack(&view[1][0], N).unwrap()
        });
        let difference: Vec<u64> = views[0].iter().zip(&views[1]).map(|(&a, &b)| r.sub(b, a)).collect();
        (deviation(&r.pack(&difference)), difference.iter().all(|&d| d == 0x11))
    };
    let (fresh, constant) = run([1, 2]);
    assert!(fresh < LIMIT && !constant, "{fresh}");
    let (reused, constant) = run([1, 1]);
    assert!(reused > 3.0 * LIMIT && constant, "the difference of the two tensors is there to read");
}

/// The masks that the real providers hand out are uniform, and one party's say nothing about the other's.
#[test]
fn masks_of_real_providers_are_random_and_unrelated() {
    use crate::correlation::Select;
    use crate::provider::{Budget, Correlations, Dealer, TwoParty, serve_dealer};
    use fesc_ring::Prg;
    let r = ring(64);
    let requests = [
        Request::Bundle(Bundle::scalar_vector(r, 128, 2)),
        Request::Select(Select { ring: r, count: 1024, thresholds: 2, degree: 1 }),
        Request::BitTriples(BitTriples { words: 128, width: 2 }),
        Request::BitProducts(BitProducts { ring: r, words: 128 }),
        Request::DaBits(DaBits { ring: r, words: 128 }),
        Request::Leaves(Leaves { sender: Role::P0, count: 1024, planes: 8 }),
        Request::Transfers(Transfers { ring: r, words: 128 }),
    ];
    for dealt in [false, true] {
        let (mut links, mut dealer) = (vec![], vec![]);
        for _ in 0..2 {
            let (a, b) = Channel::memory_pair();
            links.push(a);
            dealer.push(b);
        }
        let (d1, d0) = (dealer.pop().unwrap(), dealer.pop().unwrap());
        let (l1, l0) = (links.pop().unwrap(), links.pop().unwrap());
        std::thread::spawn(move || serve_dealer(d0, d1, &mut Prg::from_seed([1; 16]), &Budget::unlimited()));
        let (mut c0, mut c1) = Channel::memory_pair();
        let take = |role: Role, c: &mut Channel, link: Channel| {
            let mut source: Box<dyn Correlations> = if dealt {
                Box::new(Dealer::new(role, link))
            } else {
                let prg = Prg::from_seed([role.index() as u8; 16]);
                Box::new(TwoParty::setup(role, c, fesc_ot::CotKind::Iknp, prg).unwrap())
            };
            let half = |q: &Request| -> Vec<Vec<u8>> {
                let half = source.take(c, q).unwrap();
                let bytes = |&f: &usize| match &half.fields[f] {
                    crate::correlation::Field::Ring(v) => v.iter().flat_map(|w| w.to_le_bytes()).collect(),
                    // Digits have three bits each: two of them, once they are shuffled into bytes.
                    crate::correlation::Field::Bytes(v) => v
                        .chunks_exact(8)
                        .flat_map(|c| c.iter().fold(0, |a, &d| a << 3 | u32::from(d & 7)).to_le_bytes()[..3].to_vec())
                        .collect(),
                };
                masks(q, role).iter().map(bytes).collect()
            };
            requests.iter().map(half).collect::<Vec<_>>()
        };
        let (m0, m1) = std::thread::scope(|s| {
            let p = s.spawn(|| take(Role::P1, &mut c1, l1));
            (take(Role::P0, &mut c0, l0), p.join().unwrap())
        });
        for ((q, a), b) in requests.iter().zip(&m0).zip(&m1) {
            for (x, y) in a.iter().zip(b) {
                let xor: Vec<u8> = x.iter().zip(y).map(|(x, y)| x ^ y).collect();
                for (what, bytes) in [("P0", x), ("P1", y), ("xor", &xor)] {
                    let d = deviation(bytes);
                    assert!(d < LIMIT, "dealt {dealt}, {q}: {what} is {d} standard deviations off");
                }
            }
        }
    }
}
