#![allow(clippy::unwrap_used)]

use super::*;
use crate::seed;
use crate::testing::{centred, integers, tiny};
use fesc_ring::Prg;
use num_bigint::BigInt;

fn uniform(params: &Params, limbs: usize, seed: u8) -> Poly {
    let mut poly = Poly::scratch(params, limbs);
    seed::uniform(params, &mut Prg::from_seed([seed; 16]), &mut poly);
    poly
}

fn product(params: &Params, primes: impl Iterator<Item = usize>) -> BigInt {
    primes.map(|i| BigInt::from(params.modulus(i).value())).product()
}

/// Each digit modulo every prime is the centred remainder of the polynomial modulo the digit's primes.
#[test]
fn digits_are_centred_remainders() {
    let params = tiny(4, 4);
    let tables = Tables::new(&params).unwrap();
    for level in 0..=4 {
        let poly = uniform(&params, level + 1, level as u8);
        let whole = integers(&params, &poly);
        let source = LazyDigits::new(&params, &tables, &poly, level);
        assert_eq!(source.count(), params.digits(level));
        let mut scratch = vec![0; source.count() * params.degree()];
        for j in (0..=level).chain(params.first_special()..params.primes()) {
            source.convert(&params, &[j], &mut scratch);
            for (d, limb) in source.at(&params, j, &mut scratch).into_iter().enumerate() {
                let q = product(&params, params.digit(d, level));
                let mut limb = limb.to_vec();
                params.ntt(j).inverse(&mut limb);
                let p = BigInt::from(params.modulus(j).value());
                let want = whole.iter().map(|x| {
                    let x = ((x % &q) + &q) % &q;
                    let x = if &x * 2 > q { x - &q } else { x };
                    ((x % &p) + &p) % &p
                });
                assert!(want.eq(limb.iter().map(|&x| BigInt::from(x))), "level {level} prime {j} digit {d}");
            }
        }
    }
}

/// Division by `P`, by `P q_l` and by `q_l` is rounding to the nearest.
#[test]
fn divisions_round_to_the_nearest() {
    let params = tiny(4, 3);
    let tables = Tables::new(&params).unwrap();
    // At the highest level limbs are in the order of the primes.
    let (level, all) = (params.levels(), params.primes());
    let cases = [
        (tables.by_specials(level), all, params.first_special()..all),
        (tables.by_both(level).unwrap(), all, level..all),
        (tables.by_last(level).unwrap(), level + 1, level..level + 1),
    ];
    for (division, limbs, primes) in cases {
        let poly = uniform(&params, limbs, limbs as u8);
        let divisor = product(&params, primes);
        let got = integers(&params, &division.divide(&params, &poly));
        let want = integers(&params, &poly).into_iter().map(|x| {
            let shifted: BigInt = x + (&divisor - 1) / 2;
            let rest = ((&shifted % &divisor) + &divisor) % &divisor;
            centred(&params, division.kept(), &((shifted - rest) / &divisor))
        });
        assert!(want.eq(got), "{limbs} limbs");
    }
    assert!(tables.by_both(0).is_none() && tables.by_last(0).is_none());
}

/// The counts that measurements are judged by, against a count by hand for six digits of three primes.
#[test]
fn the_cost_of_chain_3_is_as_counted_by_hand() {
    let params = crate::sets::CHAIN_3.params().unwrap();
    let cost = SwitchCost::new(&params, 17, false);
    // 18 inverse, 6 digits to 21 primes but their own, 6 remainders back, 36 forward.
    assert_eq!((cost.transforms, cost.sums, cost.digits), (18 + 108 + 6 + 36, 21, 6));
    assert_eq!((cost.conversions, cost.key_bytes), (108 + 36, params.key_memory()));
    let fused = SwitchCost::new(&params, 17, true);
    assert_eq!((fused.transforms, fused.conversions), (168, 142));
}
