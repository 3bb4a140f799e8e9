use fesc_ring::Ring;

use super::support::{KINDS, bit, both, pair, prg};
use crate::{CotKind, OtReceiver, OtSender, SilentParams};

/// Zero, one, odd, and sizes that cross many frames and iterations of the tiny set.
const SIZES: [usize; 8] = [0, 1, 3, 64, 101, 1000, 2500, 1];

#[test]
fn correlated_ot_holds_across_refills() {
    for kind in KINDS {
        let ((delta, q), t) = pair(
            kind,
            |s, ch| (s.delta(), SIZES.map(|m| s.correlated(ch, m).unwrap())),
            |r, ch| SIZES.map(|m| r.correlated(ch, m).unwrap()),
        );
        assert_eq!(delta & 1, 1);
        for ((q, t), m) in q.iter().zip(&t).zip(SIZES) {
            assert_eq!((q.len(), t.len()), (m, m));
            for (q, t) in q.iter().zip(t) {
                assert_eq!(q & 1, 0);
                assert_eq!(*t, q ^ if t & 1 == 1 { delta } else { 0 });
            }
        }
        let all: std::collections::HashSet<u128> = q.iter().flatten().copied().collect();
        assert_eq!(all.len(), SIZES.iter().sum::<usize>(), "no correlation is given twice");
    }
}

#[test]
fn random_ot_gives_the_chosen_pad_and_hides_the_other() {
    for kind in KINDS {
        let (pads, chosen) = pair(
            kind,
            |s, ch| SIZES.map(|m| s.random(ch, m).unwrap()),
            |r, ch| SIZES.map(|m| r.random(ch, m).unwrap()),
        );
        for ((pads, (choices, got)), m) in pads.iter().zip(&chosen).zip(SIZES) {
            assert_eq!((pads.len(), choices.len(), got.len()), (m, m.div_ceil(64), m));
            for i in 0..m {
                let c = bit(choices, i) as usize;
                assert_eq!(got[i], pads[i][c]);
                assert_ne!(got[i], pads[i][1 - c]);
            }
            if m % 64 != 0 {
                assert_eq!(choices[m / 64] >> (m % 64), 0, "unused choice bits are zero");
            }
        }
    }
}

#[test]
fn one_of_eight_gives_the_pad_of_the_digit_only() {
    for kind in KINDS {
        let (pads, chosen) = pair(
            kind,
            |s, ch| SIZES.map(|m| s.random_1of8(ch, m).unwrap()),
            |r, ch| SIZES.map(|m| r.random_1of8(ch, m).unwrap()),
        );
        let mut seen = [0usize; 8];
        for ((pads, (digits, got)), m) in pads.iter().zip(&chosen).zip(SIZES) {
            assert_eq!((pads.len(), digits.len(), got.len()), (m, m, m));
            for i in 0..m {
                seen[usize::from(digits[i])] += 1;
                for (v, pad) in pads[i].iter().enumerate() {
                    assert_eq!(*pad == got[i], v == usize::from(digits[i]));
                }
            }
        }
        let total: usize = SIZES.iter().sum();
        assert!(seen.iter().all(|&s| s.abs_diff(total / 8) < total / 16), "{seen:?}");
    }
}

#[test]
fn chosen_and_correlated_over_a_ring() {
    for kind in KINDS {
        for (bits, m) in [(1, 5), (13, 0), (13, 77), (48, 1), (64, 300)] {
            let ring = Ring::new(bits).unwrap();
            let messages: Vec<[u64; 2]> = prg(3).ring_vec(ring, 2 * m).as_chunks::<2>().0.to_vec();
            let w = prg(4).ring_vec(ring, m);
            let mut choices = vec![0; m.div_ceil(64)];
            prg(5).fill_u64(&mut choices);
            let (x, (chosen, y)) = pair(
                kind,
                |s, ch| {
                    s.send_chosen(ch, ring, &messages).unwrap();
                    s.send_correlated(ch, ring, &w).unwrap()
                },
                |r, ch| {
                    let chosen = r.receive_chosen(ch, ring, &choices, m).unwrap();
                    (chosen, r.receive_correlated(ch, ring, &choices, m).unwrap())
                },
            );
            for i in 0..m {
                let c = bit(&choices, i);
                assert_eq!(chosen[i], messages[i][c as usize]);
                assert_eq!(y[i], ring.add(x[i], c.wrapping_mul(w[i])));
            }
        }
    }
}

#[test]
fn both_roles_share_one_channel() {
    let params = SilentParams::insecure_for_tests();
    let run = |first: bool, ch: &mut fesc_net::Channel| {
        let mut g = prg(10 + u8::from(first));
        let sender = |ch: &mut _, g: &mut _| OtSender::setup_with(ch, CotKind::Silent, &params, g).unwrap();
        let receiver = |ch: &mut _, g: &mut _| OtReceiver::setup_with(ch, CotKind::Silent, &params, g).unwrap();
        let (mut s, mut r);
        if first {
            s = sender(ch, &mut g);
            r = receiver(ch, &mut g);
        } else {
            r = receiver(ch, &mut g);
            s = sender(ch, &mut g);
        }
        let mut sent = Vec::new();
        let mut got = Vec::new();
        for m in [10, 700, 3, 2000] {
            if first {
                sent.extend(s.random(ch, m).unwrap());
                got.extend(r.random_1of8(ch, m).unwrap().1);
            } else {
                got.extend(r.random(ch, m).unwrap().1);
                sent.extend(s.random_1of8(ch, m).unwrap().iter().map(|p| [p[0], p[5]]));
            }
        }
        (sent, got)
    };
    let ((sent0, got0), (sent1, got1)) = both(|ch| run(true, ch), |ch| run(false, ch));
    assert!(sent0.iter().zip(&got1).all(|(p, g)| p.contains(g)));
    let hits = sent1.iter().zip(&got0).filter(|(p, g)| p.contains(g)).count();
    assert!(hits.abs_diff(got0.len() / 4) < got0.len() / 10, "digits 0 and 5 come up a quarter of the time: {hits}");
}

#[test]
fn threads_change_nothing() {
    let run = |parallel: bool| {
        pair(
            CotKind::Silent,
            |s, ch| {
                s.set_parallel(parallel);
                SIZES.map(|m| s.correlated(ch, m).unwrap())
            },
            |r, ch| {
                r.set_parallel(parallel);
                SIZES.map(|m| r.correlated(ch, m).unwrap())
            },
        )
    };
    assert!(run(false) == run(true));
}
