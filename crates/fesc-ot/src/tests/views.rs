//! What each party sees. Every claim of independence has a control that fails.

use curve25519_dalek::constants::RISTRETTO_BASEPOINT_TABLE;
use curve25519_dalek::ristretto::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;
use fesc_net::Channel;

use super::support::{KINDS, bit, both, pair, prg};
use crate::base;
use crate::iknp::IknpReceiver;
use crate::messages::{TAG_BASE_A, TAG_BASE_B, TAG_FLIPS};
use crate::{CotKind, OtReceiver, OtSender};

/// Standard deviations of a count of agreements from one half.
fn deviation(agreements: u64, total: u64) -> f64 {
    (agreements as f64 - total as f64 / 2.0) / (total as f64 / 4.0).sqrt()
}

const LIMIT: f64 = 5.5;

/// Real parameters: the choices are balanced, without lag-one correlation, and no bit of `q` tells anything
/// about them.
#[test]
fn choices_are_balanced_and_independent_of_q() {
    let m = 1 << 17;
    for kind in KINDS {
        let (q, t) = both(
            |ch| OtSender::setup(ch, kind, &mut prg(7)).unwrap().correlated(ch, m).unwrap(),
            |ch| OtReceiver::setup(ch, kind, &mut prg(8)).unwrap().correlated(ch, m).unwrap(),
        );
        let c: Vec<u64> = t.iter().map(|t| *t as u64 & 1).collect();
        assert!(deviation(c.iter().sum(), m as u64).abs() < LIMIT);
        let repeats = c.windows(2).filter(|w| w[0] == w[1]).count() as u64;
        assert!(deviation(repeats, m as u64 - 1).abs() < LIMIT);
        let worst = |view: &[u128]| {
            let agree = |b: u32| view.iter().zip(&c).filter(|(v, c)| (*v >> b) as u64 & 1 == **c).count() as u64;
            (1..128).map(|b| deviation(agree(b), m as u64).abs()).fold(0.0, f64::max)
        };
        assert!(worst(&q) < LIMIT, "{kind:?}: {}", worst(&q));
        // Control: one bit of the view replaced by the choice itself is noticed.
        let leaky: Vec<u128> = q.iter().zip(&c).map(|(q, c)| q & !(1 << 77) | u128::from(*c) << 77).collect();
        assert!(worst(&leaky) > LIMIT);
    }
}

/// The points of base OT are `b G + c A` with a fresh `b` each: their bits are balanced for any choices.
/// Control: with one `b` for two choices the difference of the points is `A`, and the choices are read.
#[test]
fn base_points_hide_the_choices() {
    let big_a = RISTRETTO_BASEPOINT_TABLE * &Scalar::from(77u64);
    let answer = |choices: u128, seed: u8| -> Vec<u8> {
        let (mut ours, mut theirs) = Channel::memory_pair();
        let first = [&big_a.compress().to_bytes()[..], &[5; 16]].concat();
        theirs.send(TAG_BASE_A, first).unwrap();
        base::receive(&mut ours, 1, choices, &mut prg(seed)).unwrap();
        theirs.recv(TAG_BASE_B, 128 * 32 + 16).unwrap()[..128 * 32].to_vec()
    };
    let points = |answer: &[u8]| -> Vec<RistrettoPoint> {
        answer.chunks_exact(32).enumerate().map(|(i, p)| base::point(p, i).unwrap().0).collect()
    };
    let choices = prg(21).next_u128();
    for choices in [0, u128::MAX, choices] {
        let sent = answer(choices, 22);
        for bit in 1..255 {
            let ones = sent.chunks_exact(32).filter(|p| p[bit / 8] >> (bit % 8) & 1 == 1).count() as u64;
            assert!(deviation(ones, 128).abs() < LIMIT, "bit {bit} of the points");
        }
    }
    let read = |zero: &[u8], other: &[u8]| -> u128 {
        let pairs = points(zero).into_iter().zip(points(other)).enumerate();
        pairs.fold(0, |found, (i, (zero, p))| found | u128::from(p - zero == big_a) << i)
    };
    assert_eq!(read(&answer(0, 23), &answer(choices, 23)), choices, "one scalar for two choices");
    assert_eq!(read(&answer(0, 23), &answer(choices, 24)), 0);
}

/// The IKNP sender removes from the message all that it knows; the rest must not correlate with the choices.
#[test]
fn iknp_message_hides_the_choices() {
    let batch = 1 << 13;
    // The worst correlation with the choices over all columns, for a sender that knows key `own[j]` of column
    // `j`.
    let leak = |keys: &[[u128; 2]], own: &[u128]| {
        let mut t = Vec::new();
        let message = IknpReceiver::new(keys).extend(batch, &mut t);
        let mut worst: f64 = 0.0;
        for (column, key) in message.chunks_exact(batch / 8).zip(&own[1..]) {
            let mut stream = vec![0u8; batch / 8];
            fesc_ring::Prg::from_seed(key.to_le_bytes()).fill_bytes(&mut stream);
            let left = |i: usize| u128::from((column[i / 8] ^ stream[i / 8]) >> (i % 8) & 1);
            let agree = (0..batch).filter(|&i| left(i) == t[i] & 1).count();
            worst = worst.max(deviation(agree as u64, batch as u64).abs());
        }
        worst
    };
    let mut g = prg(9);
    let keys: Vec<[u128; 2]> = (0..128).map(|_| [g.next_u128(), g.next_u128()]).collect();
    let delta = g.next_u128() | 1;
    let own: Vec<u128> = keys.iter().enumerate().map(|(j, k)| k[(delta >> j & 1) as usize]).collect();
    assert!(leak(&keys, &own) < LIMIT);
    // Control: if the other key's stream of one column is no secret (here: equal keys, which cancel), the
    // column is the choices.
    let mut weak = keys;
    weak[64] = [1, 1];
    let mut t = Vec::new();
    let message = IknpReceiver::new(&weak).extend(batch, &mut t);
    let column = &message[63 * batch / 8..64 * batch / 8];
    assert!((0..batch).all(|i| u128::from(column[i / 8] >> (i % 8) & 1) == t[i] & 1));
}

/// The correction bits of chosen OT are the choices under a fresh random bit.
#[test]
fn corrections_hide_the_choices() {
    let m = 20_000usize;
    let ring = fesc_ring::Ring::new(8).unwrap();
    let mut choices = vec![0u64; m.div_ceil(64)];
    // A very biased input: one choice in 64 is set.
    choices.iter_mut().for_each(|w| *w = 1 << 17);
    for kind in KINDS {
        let (flips, ()) = pair(
            kind,
            |s, ch| {
                s.random(ch, m).unwrap();
                ch.recv(TAG_FLIPS, m.div_ceil(8)).unwrap()
            },
            |r, ch| {
                // The peer stops after the corrections: the call ends in an error, not in a panic or a hang.
                assert!(r.receive_chosen(ch, ring, &choices, m).is_err());
            },
        );
        let ones = |bytes: &[u8]| bytes.iter().map(|b| u64::from(b.count_ones())).sum::<u64>();
        assert!(deviation(ones(&flips), m as u64).abs() < LIMIT);
        let agree = (0..m).filter(|i| u64::from(flips[i / 8] >> (i % 8) & 1) == bit(&choices, *i)).count() as u64;
        assert!(deviation(agree, m as u64).abs() < LIMIT);
        // Control: sent without the random bit, the same choices are noticed at once.
        let bare: Vec<u8> = choices.iter().flat_map(|w| w.to_le_bytes()).take(m / 8).collect();
        assert!(deviation(ones(&bare), m as u64).abs() > LIMIT);
    }
}

/// Without the hash two opened OTs give Delta, and with it every other pad; with the hash they give nothing.
#[test]
fn delta_is_recovered_from_raw_pads_and_not_from_hashed_ones() {
    let m = 100;
    let ((delta, raw, hashed), (t, (choices, got))) = pair(
        CotKind::Iknp,
        |s, ch| {
            let raw: Vec<[u128; 2]> = s.correlated(ch, m).unwrap().iter().map(|q| [*q, q ^ s.delta()]).collect();
            (s.delta(), raw, s.random(ch, m).unwrap())
        },
        |r, ch| (r.correlated(ch, m).unwrap(), r.random(ch, m).unwrap()),
    );
    // The receiver's attack: XOR the two pads of an opened OT, check on a second, apply to a third.
    let attack = |opened: &[[u128; 2]], mine: u128| {
        let guess = opened[0][0] ^ opened[0][1];
        (opened[1][0] ^ opened[1][1] == guess).then_some((guess, mine ^ guess))
    };
    for i in 2..m {
        let c = (t[i] & 1) as usize;
        assert_eq!(attack(&raw, t[i]), Some((delta, raw[i][1 - c])));
        let c = bit(&choices, i) as usize;
        assert_eq!(got[i], hashed[i][c]);
        assert_eq!(attack(&hashed, got[i]), None);
        assert_ne!(hashed[i][0] ^ hashed[i][1], delta);
    }
}

/// The messages of the trees look uniform to the receiver, bit by bit, although leaves and Delta hide behind
/// them.
#[test]
fn tree_messages_are_balanced() {
    use fesc_ring::block::Aes;
    let mut g = prg(20);
    let delta = g.next_u128() | 1;
    let (mut blocks, mut differences) = (Vec::new(), Vec::new());
    for tree in 0..600u128 {
        let paths: Vec<u128> = (0..6).map(|_| g.next_u128() & !1).collect();
        let choices: Vec<u128> = paths.iter().map(|_| g.next_u128() & 1).collect();
        let t: Vec<u128> = paths.iter().zip(&choices).map(|(q, c)| q ^ (delta & 0u128.wrapping_sub(*c))).collect();
        let (mut leaves, mut message) = (vec![0; 64], [[0u8; 16]; 6]);
        crate::tree::send(&Aes::new(tree), delta, g.next_u128(), &paths, &mut leaves, &mut message);
        for (m, t) in message.iter().zip(&t) {
            blocks.push(u128::from_le_bytes(*m) ^ t);
        }
        let mut received = vec![0; 64];
        crate::tree::receive(&Aes::new(tree), &t, &message, &mut received);
        let different: Vec<usize> = (0..64).filter(|&i| received[i] != leaves[i]).collect();
        assert_eq!(different.len(), 1);
        assert_eq!(received[different[0]] ^ leaves[different[0]], delta);
        differences.push(different[0]);
    }
    let n = blocks.len() as u64;
    for b in 0..128 {
        let ones = blocks.iter().filter(|x| *x >> b & 1 == 1).count() as u64;
        assert!(deviation(ones, n).abs() < LIMIT, "bit {b}");
    }
    // The hidden place is uniform over the 64 leaves: every bit of its index is balanced.
    for b in 0..6 {
        let ones = differences.iter().filter(|d| **d >> b & 1 == 1).count() as u64;
        assert!(deviation(ones, 600).abs() < LIMIT, "place bit {b}");
    }
}
