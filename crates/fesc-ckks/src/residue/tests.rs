#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{crt, tiny};
use fesc_ring::Prg;
use num_bigint::BigInt;

const CORNERS: [i128; 13] = [
    0,
    1,
    -1,
    2,
    i64::MAX as i128,
    i64::MIN as i128,
    (1 << 64) - 1,
    1 << 64,
    -(1 << 64),
    i128::MAX,
    i128::MIN,
    i128::MIN + 1,
    1 << 100,
];

#[test]
fn reduction_of_any_integer() {
    let params = tiny(4, 2);
    let mut prg = Prg::from_seed([1; 16]);
    for i in 0..params.primes() {
        let modulus = params.modulus(i);
        let (reducer, p) = (Reducer::new(modulus), i128::from(modulus.value()));
        let random: Vec<i128> = (0..200).map(|k| prg.next_u128() as i128 >> (k % 127)).collect();
        for x in CORNERS.into_iter().chain(random) {
            assert_eq!(i128::from(reducer.reduce(x)), x.rem_euclid(p), "{x} mod {p}");
        }
    }
}

/// The work on a share is that of the largest one: no row is left out, whatever it holds.
#[test]
fn all_digits_of_a_share_are_worked_on() {
    let params = tiny(4, 3);
    for value in [0, 1, 1 << 60] {
        let mut poly = Poly::scratch(&params, 4);
        lift_wide(&params, &[value; 16], |i| i, &mut poly);
        let share = Digits::of_share(&params, &poly);
        assert!(share.rows.len() == 4 && share.rows.iter().all(|row| row.len() == 16));
        assert_eq!(share.to_wrapped(), [value; 16]);
        // The control: a message is cheaper.
        assert!(Digits::of(&params, &poly).rows.len() < 4);
    }
}

#[test]
fn digits_agree_with_big_integers_at_all_levels() {
    let params = tiny(4, 4);
    let primes: Vec<u64> = (0..5).map(|i| params.modulus(i).value()).collect();
    let mut prg = Prg::from_seed([2; 16]);
    for level in 0..=4 {
        let q: BigInt = primes[..=level].iter().map(|&p| BigInt::from(p)).product();
        let half: BigInt = (&q - 1) / 2;
        for round in 0..20 {
            // Full-size numbers, then corners: the ends of the range, numbers just above a partial product,
            // small ones.
            let numbers: Vec<BigInt> = (0..16)
                .map(|k| match (round, k) {
                    (0, 0) => half.clone(),
                    (0, 1) => -half.clone(),
                    (0, 2) => half.clone() - 1,
                    (0, _) => BigInt::from(k) - 8,
                    (1, _) => (BigInt::from(primes[0]) * (k - 8) + k) % &half,
                    _ => BigInt::from(prg.next_u128()) * BigInt::from(prg.next_u128()) % &q - &half,
                })
                .collect();
            let mut poly = Poly::scratch(&params, level + 1);
            for (i, &q) in primes.iter().enumerate().take(level + 1) {
                let residue = |x: &BigInt| u64::try_from(((x % q) + q) % q).unwrap();
                poly.limb_mut(i).iter_mut().zip(&numbers).for_each(|(o, x)| *o = residue(x));
            }
            // The reference agrees with itself, so that it can judge.
            for (k, x) in numbers.iter().enumerate() {
                let residues: Vec<u64> = (0..=level).map(|i| poly.limb(i)[k]).collect();
                assert_eq!(crt(&residues, &primes[..=level]), *x, "reference");
            }
            poly.for_each_limb(|i, limb| params.ntt(i).forward(limb));
            let digits = Digits::of(&params, &poly);
            let mut floats = vec![0.0; 16];
            digits.to_f64(&mut floats);
            for (x, &f) in numbers.iter().zip(&floats) {
                let exact: f64 = x.to_string().parse().unwrap();
                assert!((f - exact).abs() <= exact.abs() * 2f64.powi(-50), "{f} for {x}");
            }
            match digits.to_integers(level) {
                Ok(integers) => assert!(integers.iter().zip(&numbers).all(|(&i, x)| BigInt::from(i) == *x)),
                Err(e) => {
                    let large = numbers.iter().position(|x| i128::try_from(x.clone()).is_err());
                    assert_eq!(e, CkksError::Integer { index: large.unwrap(), level });
                }
            }
        }
    }
}

#[test]
fn lifting_and_reading_back_is_the_identity() {
    let params = tiny(5, 2);
    let mut prg = Prg::from_seed([3; 16]);
    for level in 0..=2 {
        let bits = [48, 88, 126][level];
        for count in [0, 1, 7, 31, 32] {
            let values: Vec<i128> = (0..count).map(|_| prg.next_u128() as i128 >> (128 - bits)).collect();
            let mut poly = Poly::scratch(&params, level + 1);
            lift_wide(&params, &values, |i| i, &mut poly);
            let mut padded = values.clone();
            padded.resize(32, 0);
            assert_eq!(Digits::of(&params, &poly).to_integers(level).unwrap(), padded);
            let short: Vec<i64> = values.iter().map(|&x| x as i64 >> 15).collect();
            lift(&params, &short, |i| i, &mut poly);
            let got = Digits::of(&params, &poly).to_integers(level).unwrap();
            assert!(got.iter().take(count).zip(&short).all(|(&g, &x)| g == i128::from(x)));
        }
    }
}
