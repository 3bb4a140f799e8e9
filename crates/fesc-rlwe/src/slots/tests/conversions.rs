//! The conversions between primes against integers.

use super::super::basis::{KEPT, LIMBS, PLAIN};
use super::*;
use crate::RlweError;

const MASK: u64 = u64::MAX >> 16;

fn residues(params: &SlotParams, x: i128) -> Vec<u64> {
    params.basis().limbs[..PLAIN].iter().map(|l| x.rem_euclid(i128::from(l.modulus.value())) as u64).collect()
}

/// The key holder's rule: the sum of both lifts less `t`, modulo `2^48`.
fn rule(params: &SlotParams, m: i128, own: &[u64]) -> u64 {
    let limbs = &params.basis().limbs;
    let mut own = own.to_vec();
    let mut other: Vec<u64> =
        residues(params, m).iter().zip(&own).zip(limbs).map(|((&m, &o), l)| l.modulus.sub(m, o)).collect();
    let sum = params.basis().lift(&mut own)[0].wrapping_add(params.basis().lift(&mut other)[0]);
    sum.wrapping_sub(params.basis().t()) & MASK
}

#[test]
fn shares_modulo_t_become_shares_modulo_2_48() {
    let params = SlotParams::standard().unwrap();
    let mut rng = prg(30);
    let limbs = &params.basis().limbs;
    for m in [0, 1, -1, 1 << 94, -(1 << 94), (1 << 101) - 1, -(1 << 101), 0x1234_5678_9abc_def0_1122_3344, -77_777_777]
    {
        for _ in 0..200 {
            let own: Vec<u64> = limbs[..PLAIN].iter().map(|l| rng.next_u64() % l.modulus.value()).collect();
            assert_eq!(rule(&params, m, &own), m as u64 & MASK, "{m}");
        }
        // Where the rule ends, exactly: own share m (m >= 0) or t + m + 1 (m < 0); one beside it is right.
        let t = params.basis().t();
        if m >= 0 {
            assert_eq!(rule(&params, m, &residues(&params, m)), (m as u64).wrapping_sub(t) & MASK, "{m}");
            assert_eq!(rule(&params, m, &residues(&params, m + 1)), m as u64 & MASK, "{m}");
        } else {
            let wrong = if m == -1 { m as u64 } else { (m as u64).wrapping_add(t) };
            assert_eq!(rule(&params, m, &residues(&params, m + 1)), wrong & MASK, "{m}");
            assert_eq!(rule(&params, m, &residues(&params, m)), m as u64 & MASK, "{m}");
        }
    }
}

#[test]
fn rescaling_rounds_to_the_nearest() {
    let params = SlotParams::standard().unwrap();
    let (limbs, mut rng) = (&params.basis().limbs, prg(31));
    let prime = |i: usize| limbs[i].modulus.value();
    for round in 0..200 {
        // x = y D + k P5 P6 has the quotient y for |k| < P7 / 2.
        let y = (rng.next_u64() as i64) >> (round % 50);
        let k = ((rng.next_u64() >> 16) % (prime(7) / 2 - 1)) as i64 * if round % 2 == 0 { 1 } else { -1 };
        let signed = |m: fesc_ring::modulus::Modulus, v: i64| i128::from(v).rem_euclid(i128::from(m.value())) as u64;
        let mut rows: Vec<u64> = limbs
            .iter()
            .map(|l| {
                let m = l.modulus;
                let two = m.mul(m.reduce(prime(5)), m.reduce(prime(6)));
                let whole = m.mul(m.mul(two, m.reduce(prime(7))), signed(m, y));
                m.add(whole, m.mul(two, signed(m, k)))
            })
            .collect();
        assert_eq!(rows.len(), LIMBS);
        params.basis().rescale(&mut rows);
        for (&got, limb) in rows[..KEPT].iter().zip(limbs) {
            assert_eq!(got, signed(limb.modulus, y), "{y} {k}");
        }
    }
}

#[test]
fn unfit_sets_are_refused() {
    assert!(matches!(SlotParams::new(8192, 48, 29, 49), Err(RlweError::Weak { log_q: 349, limit: 212, .. })));
    for (plain, kept, dropped) in [(46, 29, 49), (51, 29, 49), (48, 19, 49), (48, 51, 49), (48, 29, 44), (48, 29, 51)] {
        assert!(matches!(SlotParams::new(16384, plain, kept, dropped), Err(RlweError::Slots { .. })));
    }
    // Groups of one size do not share a prime.
    let same = SlotParams::new(16384, 50, 50, 50).unwrap();
    let primes: std::collections::HashSet<u64> = same.basis().limbs.iter().map(|l| l.modulus.value()).collect();
    assert_eq!(primes.len(), LIMBS);
}

#[test]
fn unfit_values_are_refused() {
    let (holder, evaluator) = parties(32);
    let n = holder.params().slots();
    let (large, many) = ([0, (1 << 47) + 1], vec![0; n + 1]);
    assert!(matches!(holder.encrypt(&large, &mut prg(0)), Err(RlweError::Range { bits: 47, .. })));
    assert!(matches!(holder.encrypt(&[i64::MIN], &mut prg(0)), Err(RlweError::Range { .. })));
    assert!(matches!(holder.encrypt(&many, &mut prg(0)), Err(RlweError::Length { .. })));
    assert!(matches!(evaluator.multiplier(&large, 1), Err(RlweError::Range { .. })));
    assert!(matches!(evaluator.multiplier(&[0, 0], n), Err(RlweError::Length { .. })));
    for run in [0, 3, 2 * n] {
        assert!(matches!(evaluator.multiplier(&[], run), Err(RlweError::Run { .. })));
    }
    let cipher = evaluator.receive(&holder.encrypt(&[1], &mut prg(0)).unwrap()).unwrap();
    let sums = combine(&evaluator, &[cipher], 1, 64, |_, _| false, |_, _, r| if r == 200 { i64::MAX } else { 0 });
    assert!(matches!(sums, Err(RlweError::Range { .. })));
}
