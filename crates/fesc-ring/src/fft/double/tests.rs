//! Roots and slots against big integers, equal bits on all paths, and the way back.
#![allow(clippy::unwrap_used)]

use super::super::{Fft, MAX_SLOTS};
use super::*;
use crate::Prg;
use crate::automorphism::rotation;
use crate::double::Double;
use num_bigint::BigInt;

/// Fractional bits of the references.
const P: usize = 300;

/// `x 2^P`, exactly.
fn fixed(x: f64) -> BigInt {
    let (bits, sign) = (x.abs().to_bits(), if x < 0.0 { -1 } else { 1 });
    if bits == 0 {
        return BigInt::from(0);
    }
    let (exponent, fraction) = ((bits >> 52) as i64, bits & ((1 << 52) - 1));
    let shift = P as i64 + exponent - 1075;
    assert!(exponent > 0 && shift >= 0, "below the reference's bits");
    (BigInt::from(fraction | 1 << 52) * sign) << shift
}

fn fixed_double(x: Double) -> BigInt {
    fixed(x.hi) + fixed(x.lo)
}

/// `|x| / 2^P`.
fn magnitude(x: &BigInt) -> f64 {
    let (_, digits) = x.to_u64_digits();
    digits.iter().rev().fold(0.0, |acc, &d| acc * 2f64.powi(64) + d as f64) / 2f64.powi(P as i32)
}

type Big = [BigInt; 2];

fn product(a: &Big, b: &Big) -> Big {
    [(&a[0] * &b[0] - &a[1] * &b[1]) >> P, (&a[0] * &b[1] + &a[1] * &b[0]) >> P]
}

/// `exp(2 pi i / order)` by half angles from a quarter turn: another way than that of the tables.
fn first_root(order: usize) -> Big {
    let one = BigInt::from(1) << P;
    let (mut root, mut of) = ([BigInt::from(0), one.clone()], 4);
    while of < order {
        // cos(x / 2) = sqrt((1 + cos x) / 2), sin(x / 2) = sin x / (2 cos(x / 2)).
        let cos = ((&one + &root[0]) << (P - 1)).sqrt();
        root = [cos.clone(), (&root[1] << (P - 1)) / &cos];
        of *= 2;
    }
    root
}

/// All powers of it.
fn powers(order: usize) -> Vec<Big> {
    let root = first_root(order);
    let mut all = vec![[BigInt::from(1) << P, BigInt::from(0)]];
    while all.len() < order {
        all.push(product(&all[all.len() - 1], &root));
    }
    all
}

/// Uniform integers of this many bits and a sign, as the numbers of a transform.
fn integers(prg: &mut Prg, degree: usize, bits: u32) -> Vec<i128> {
    (0..degree).map(|_| prg.next_u128() as i128 >> (127 - bits)).collect()
}

fn numbers(values: &[i128]) -> Vec<f64> {
    let doubles: Vec<Double> = values.iter().map(|&x| Double::from_integer(x)).collect();
    doubles.iter().map(|d| d.hi).chain(doubles.iter().map(|d| d.lo)).collect()
}

fn transformed(fft: &DoubleFft, path: Path, forward: bool, x: &[f64]) -> Vec<f64> {
    let (mut x, mut scratch) = (x.to_vec(), vec![f64::NAN; fft.numbers()]);
    if forward {
        fft.forward_with(path, &mut x, &mut scratch);
    } else {
        fft.inverse_with(path, &mut x, &mut scratch);
    }
    x
}

/// Errors of the real and the imaginary part of some slots, relative to `sqrt(N) max`.
fn errors(values: &[i128], roots: &[Big], got: &[f64], slots: impl Iterator<Item = usize>) -> Vec<f64> {
    let (degree, n) = (values.len(), values.len() / 2);
    let largest = values.iter().map(|x| x.unsigned_abs()).max().unwrap() as f64;
    let mut out = Vec::new();
    for j in slots {
        let e = rotation(degree, j as i64) as usize;
        let mut want = [BigInt::from(0), BigInt::from(0)];
        for (k, &x) in values.iter().enumerate() {
            let root = &roots[e * k % (2 * degree)];
            want[0] += &root[0] * x;
            want[1] += &root[1] * x;
        }
        for (part, want) in want.iter().enumerate() {
            let got = fixed(got[part * n + j]) + fixed(got[degree + part * n + j]);
            out.push(magnitude(&(got - want)) / (degree as f64).sqrt() / largest);
        }
    }
    out
}

fn deviation(errors: &[f64]) -> f64 {
    (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt()
}

fn largest(errors: &[f64]) -> f64 {
    errors.iter().copied().fold(0.0, f64::max)
}

#[test]
fn roots_have_107_bits() {
    for order in [8, 64, 4096, 4 * MAX_SLOTS] {
        let (roots, big) = (Roots::new(order), powers(order));
        for (k, want) in big.iter().enumerate() {
            for (got, want) in roots.get_double(k).into_iter().zip(want) {
                let error = magnitude(&(fixed_double(got) - want));
                assert!(error <= 2f64.powi(-107), "{order} {k}: {error:e}");
                assert_eq!(got.hi + got.lo, got.hi);
            }
        }
        // A quarter, an eighth and half a turn are what they are, not just near.
        let [one, zero] = [1.0, 0.0].map(|hi| Double { hi, lo: 0.0 });
        assert_eq!(roots.get_double(0), [one, zero]);
        assert_eq!(roots.get_double(order / 4), [zero, one]);
        assert_eq!(roots.get_double(order / 2)[0], one.times_power(-1.0));
        let [cos, sin] = roots.get_double(order / 8);
        assert_eq!(cos, sin);
    }
}

#[test]
fn slots_agree_with_big_integers() {
    let mut prg = Prg::from_seed([41; 16]);
    for log in [1, 2, 3, 5, 7, 15] {
        let degree = 1usize << log;
        let plan = Fft::new(degree / 2).unwrap();
        let (fft, roots) = (plan.double(), powers(2 * degree));
        let sizes: &[u32] = if log > 10 { &[118] } else { &[60, 106, 118, 126] };
        for &bits in sizes {
            let values = integers(&mut prg, degree, bits);
            let got = transformed(fft, cpu::path(), true, &numbers(&values));
            // All slots, or 32 of many.
            let errors = errors(&values, &roots, &got, (0..degree / 2).step_by((degree / 64).max(1)));
            let planned = fft.error() / (degree as f64).sqrt();
            assert!(largest(&errors) <= planned, "{degree} {bits}: 2^{}", largest(&errors).log2());
            // And the plan is not far off: ten deviations.
            let sure = errors.len() >= 64;
            assert!(!sure || deviation(&errors) >= planned / 25.0, "{degree}: 2^{}", deviation(&errors).log2());
            assert!(!sure || deviation(&errors) <= planned / 6.0, "{degree}: 2^{}", deviation(&errors).log2());
        }
        // Worst case: coefficients of one magnitude whose signs add up in slot 0.
        let values: Vec<i128> =
            (0..degree).map(|k| if roots[k][0] < BigInt::from(0) { -(1 << 126) } else { 1 << 126 }).collect();
        let got = transformed(fft, cpu::path(), true, &numbers(&values));
        let errors = errors(&values, &roots, &got, 0..1);
        let bound = 4.25 * 2f64.powi(-104) * f64::from(log) * (degree as f64 / 2.0).sqrt();
        assert!(largest(&errors) <= bound, "{degree}: 2^{}", largest(&errors).log2());
    }
}

#[test]
fn every_path_gives_the_same_bits_and_the_inverse_comes_back() {
    let mut prg = Prg::from_seed([42; 16]);
    for log in 0..=15 {
        let degree = 2usize << log;
        let plan = Fft::new(degree / 2).unwrap();
        let fft = plan.double();
        assert_eq!(fft.numbers(), 2 * degree);
        let mut values = integers(&mut prg, degree, 118);
        // Zeros and small numbers too: their signs and low parts.
        values.iter_mut().step_by(3).for_each(|x| *x >>= 100);
        values.iter_mut().step_by(5).for_each(|x| *x = 0);
        let x = numbers(&values);
        let slots = transformed(fft, Path::Portable, true, &x);
        let back = transformed(fft, Path::Portable, false, &slots);
        let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
        for path in Path::available() {
            assert_eq!(bits(&transformed(fft, path, true, &x)), bits(&slots), "{degree} {path:?}");
            assert_eq!(bits(&transformed(fft, path, false, &slots)), bits(&back), "{degree} {path:?}");
        }
        let rest = |k: usize| Double { hi: back[k], lo: back[degree + k] }.plus(Double::from_integer(-values[k])).hi;
        let errors: Vec<f64> = (0..degree).map(|k| rest(k).abs() / 2f64.powi(118)).collect();
        // Both ways: the slots' errors come back with the weight sqrt(2 / N), and there are as many again.
        assert!(largest(&errors) <= 2.0 * fft.inverse_error(), "{degree}: 2^{}", largest(&errors).log2());
        assert!(log < 8 || deviation(&errors) > fft.inverse_error() / 50.0, "{degree}: too good");
    }
}

#[test]
fn order_and_roots_are_those_of_the_plain_transform() {
    let mut prg = Prg::from_seed([43; 16]);
    for log in 0..=15 {
        let n = 1usize << log;
        let plan = Fft::new(n).unwrap();
        let values = integers(&mut prg, 2 * n, 40);
        let wide = transformed(plan.double(), cpu::path(), true, &numbers(&values));
        let plain: Vec<f64> = values.iter().map(|&x| x as f64).collect();
        let (mut re, mut im) = (plain[..n].to_vec(), plain[n..].to_vec());
        plan.forward(&mut re, &mut im, &mut vec![0.0; plan.scratch()]);
        let bound = 2f64.powi(40 - 50) * (2.0 * n as f64).sqrt();
        assert!(re.iter().chain(&im).zip(&wide).all(|(a, b)| (a - b).abs() < bound), "{n}");
    }
}
