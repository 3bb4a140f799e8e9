use fesc_net::{Channel, Phase, Tag};

use super::support::{KINDS, both, pair, prg};
use crate::{CotKind, OtCost, OtReceiver, OtSender, SilentParams, setup_cost, source};

/// What the sender's end of the channel counted.
fn counted(p: Phase) -> OtCost {
    OtCost { sender_to_receiver: p.sent_bytes, receiver_to_sender: p.received_bytes, rounds: p.rounds }
}

/// The same from the receiver's end.
fn mirrored(p: Phase) -> OtCost {
    OtCost { sender_to_receiver: p.received_bytes, receiver_to_sender: p.sent_bytes, rounds: p.rounds }
}

/// A ping and its answer, so that the first message of the next step answers the peer's last one, as in
/// lock-step. The party that will speak first is the one that gets the answer.
fn level(ch: &mut Channel, speaks_first: bool) -> Phase {
    if speaks_first {
        ch.send(Tag(1), Vec::new()).unwrap();
        ch.recv(Tag(1), 0).unwrap();
    } else {
        ch.recv(Tag(1), 0).unwrap();
        ch.send(Tag(1), Vec::new()).unwrap();
    }
    ch.stats().total
}

#[test]
fn declared_setup_is_what_the_channel_counts() {
    for kind in KINDS {
        let run = |ch: &mut Channel, sender: bool| {
            let before = level(ch, !sender);
            if sender {
                OtSender::setup(ch, kind, &mut prg(1)).unwrap();
            } else {
                OtReceiver::setup(ch, kind, &mut prg(2)).unwrap();
            }
            ch.stats().total.since(before)
        };
        let (s, r) = both(|ch| run(ch, true), |ch| run(ch, false));
        assert_eq!(counted(s), setup_cost(kind), "{kind:?}");
        assert_eq!(mirrored(r), setup_cost(kind), "{kind:?}");
    }
    let tiny = source::setup_cost(CotKind::Silent, &SilentParams::insecure_for_tests());
    assert_eq!(tiny.rounds, 4);
}

const STEPS: [(u8, usize); 14] = [
    (0, 0),
    (0, 1),
    (1, 5),
    (2, 1),
    (0, 63),
    (1, 700),
    (2, 333),
    (3, 40),
    (3, 2000),
    (1, 1),
    (2, 2),
    (0, 16_385),
    (2, 11_000),
    (1, 40_000),
];

#[test]
fn declared_refills_are_what_the_channel_counts() {
    for kind in KINDS {
        let (s, r) = pair(
            kind,
            |s, ch| {
                STEPS.map(|(what, m)| {
                    let before = level(ch, kind == CotKind::Silent);
                    let declared = s.declared(if what == 2 { 3 * m } else { m });
                    let available = s.available();
                    match what {
                        0 => drop(s.correlated(ch, m).unwrap()),
                        1 => drop(s.random(ch, m).unwrap()),
                        2 => drop(s.random_1of8(ch, m).unwrap()),
                        _ => s.reserve(ch, m).unwrap(),
                    }
                    (declared, counted(ch.stats().total.since(before)), available, s.available())
                })
            },
            |r, ch| {
                STEPS.map(|(what, m)| {
                    let before = level(ch, kind == CotKind::Iknp);
                    let declared = r.declared(if what == 2 { 3 * m } else { m });
                    let available = r.available();
                    match what {
                        0 => drop(r.correlated(ch, m).unwrap()),
                        1 => drop(r.random(ch, m).unwrap()),
                        2 => drop(r.random_1of8(ch, m).unwrap()),
                        _ => r.reserve(ch, m).unwrap(),
                    }
                    (declared, mirrored(ch.stats().total.since(before)), available, r.available())
                })
            },
        );
        for ((s, r), step) in s.iter().zip(&r).zip(STEPS) {
            let (declared, counted, available, after) = s;
            assert_eq!(s, r, "{kind:?} {step:?}");
            assert_eq!(declared, counted, "{kind:?} {step:?}");
            let (what, m) = step;
            let used = if what == 2 { 3 * m } else { m };
            if used <= *available {
                assert_eq!(*counted, OtCost::default(), "what is available costs nothing");
            }
            if what == 3 {
                assert!(*after >= m);
            }
            if kind == CotKind::Silent {
                assert_eq!(counted.receiver_to_sender, 0, "the silent receiver says nothing");
            }
        }
    }
}

#[test]
fn a_silent_cot_costs_a_fraction_of_a_byte() {
    let params = SilentParams::standard().unwrap();
    let main = params.main();
    let per_iteration = main.n() - main.reserve();
    let cost = crate::silent::Iteration::cost_once(main, main.n());
    let each = cost.sender_to_receiver as f64 / per_iteration as f64;
    assert!(each < 0.33, "{each} bytes per COT");
}
