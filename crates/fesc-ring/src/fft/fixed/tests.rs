//! Roots and slots against big integers, equal bits on all paths, the way back, and conversions.
#![allow(clippy::unwrap_used)]

use super::super::{Fft, MAX_SLOTS};
use super::*;
use crate::Prg;
use crate::automorphism::rotation;
use num_bigint::{BigInt, Sign};

/// Fractional bits of the references.
const P: usize = 300;
/// Fractional bits of slots that are read.
const READ: i32 = 20;

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

/// The integer of three words.
fn integer(words: Words) -> BigInt {
    words.iter().rev().fold(BigInt::from(0), |acc, &x| (acc << WORD_BITS) + x)
}

/// All numbers times `2^READ`, exactly, since slots of small integers have far more bits.
fn read(numbers: &Numbers) -> Vec<BigInt> {
    let n = numbers.words.len() / PLANES;
    let word = |k: usize, i: usize| numbers.words[(k / n * WORDS + i) * n + k % n];
    let raised = integer(RAISED);
    let one = |k: usize| (integer([0, 1, 2].map(|i| word(k, i))) - &raised) << (P - numbers.shift as usize);
    (0..2 * n).map(one).collect()
}

/// Uniform integers of this many bits and a sign.
fn integers(prg: &mut Prg, degree: usize, bits: u32) -> Vec<i128> {
    (0..degree).map(|_| prg.next_u128() as i128 >> (127 - bits)).collect()
}

fn numbers(fft: &FixedFft, values: &[i128], bits: u32) -> Numbers {
    let mut numbers = fft.numbers(bits);
    values.iter().enumerate().for_each(|(k, &x)| numbers.set(k, x));
    numbers
}

/// Largest error of the real and the imaginary part of some slots, relative to `2^bits`.
fn error(values: &[i128], roots: &[Big], got: &[BigInt], bits: u32, slots: impl Iterator<Item = usize>) -> f64 {
    let (degree, n) = (values.len(), values.len() / 2);
    let mut most: f64 = 0.0;
    for j in slots {
        let e = rotation(degree, j as i64) as usize;
        let mut want = [BigInt::from(0), BigInt::from(0)];
        for (k, &x) in values.iter().enumerate() {
            let root = &roots[e * k % (2 * degree)];
            want[0] += &root[0] * x;
            want[1] += &root[1] * x;
        }
        for (part, want) in want.iter().enumerate() {
            most = most.max(magnitude(&(&got[part * n + j] - want)));
        }
    }
    most / 2f64.powi(bits as i32)
}

#[test]
fn roots_have_148_bits_and_length_one() {
    for order in [8, 64, 4096, 4 * MAX_SLOTS] {
        let (roots, big) = (Roots::new(order), powers(order));
        let one = BigInt::from(1) << 155;
        // Where a part is 1, it has no raised form.
        for (k, want) in big.iter().enumerate().filter(|(k, _)| *k != 0 && *k != order / 4) {
            let got = roots.get_raised(k).map(|x| integer(x) - &one);
            for (got, want) in got.iter().zip(want) {
                let error = magnitude(&((got << (P - 155)) - want));
                assert!(error <= 2f64.powi(-148), "{order} {k}: 2^{}", error.log2());
            }
            let square: BigInt = got.iter().map(|x| x * x).sum();
            assert!(magnitude(&((square - &one * &one) >> (310 - P))) <= 2f64.powi(-147), "{order} {k}");
        }
        // A quarter, an eighth and half a turn are what they are, not just near.
        let [zero, half] = [RAISED, [0; WORDS]];
        assert_eq!(roots.get(0), [1.0, 0.0]);
        assert_eq!(roots.get_raised(order / 2), [half, zero]);
        assert_eq!(roots.get_raised(3 * order / 4), [zero, half]);
        let [cos, sin] = roots.get_raised(order / 8);
        assert_eq!(cos, sin);
    }
}

#[test]
fn slots_are_within_the_bound_of_big_integers() {
    let mut prg = Prg::from_seed([41; 16]);
    for log in [1, 2, 3, 5, 7, 15, 16] {
        let degree = 1usize << log;
        let plan = Fft::new(degree / 2).unwrap();
        let (fft, roots) = (plan.fixed(), powers(2 * degree));
        let sizes: &[u32] = if log > 10 { &[124] } else { &[0, 30, 60, 106, 118, 124] };
        for &bits in sizes {
            let limit = 1i128 << bits;
            // Coefficients of one magnitude whose signs add up in slot 0: the largest of all results.
            let sign = |k: usize| if roots[k][0].sign() == Sign::Minus { -1 } else { 1 };
            let signed = |x: i128| (0..degree).map(|k| sign(k) * x).collect::<Vec<i128>>();
            // Twice the limit is what is carried yet, but for the sign.
            let extremes = [signed(limit), signed(1 - 2 * limit), vec![-2 * limit; degree]];
            let random = integers(&mut prg, degree, bits);
            for values in extremes.iter().chain([&random]) {
                let mut x = numbers(fft, values, bits);
                fft.forward(&mut x);
                // All slots, or the first and 16 of many.
                let slots = (0..degree / 2).step_by((degree / 32).max(1));
                let error = error(values, &roots, &read(&x), bits, slots);
                assert!(error <= fft.error(), "{degree} {bits}: 2^{} of 2^{}", error.log2(), fft.error().log2());
            }
        }
    }
    // As planned: 124 bits, scale 2^40 and 20 fractional bits leave far less than a unit.
    for (log, planned) in [(15, 2f64.powi(-19)), (16, 2f64.powi(-17))] {
        let plan = Fft::new(1 << (log - 1)).unwrap();
        assert!(plan.fixed().error() * 2f64.powi(124 + 20 - 40) < planned);
    }
}

#[test]
fn every_path_gives_the_same_bits_and_the_inverse_comes_back() {
    let mut prg = Prg::from_seed([42; 16]);
    for log in 0..=15 {
        let degree = 2usize << log;
        let plan = Fft::new(degree / 2).unwrap();
        let fft = plan.fixed();
        let mut values = integers(&mut prg, degree, 124);
        // Zeros and small numbers too.
        values.iter_mut().step_by(3).for_each(|x| *x >>= 100);
        values.iter_mut().step_by(5).for_each(|x| *x = 0);
        for forward in [true, false] {
            let run = |path: Path| {
                let mut x = numbers(fft, &values, 124);
                if forward {
                    fft.forward_with(path, &mut x)
                } else {
                    fft.inverse_with(path, &mut x)
                };
                x
            };
            let portable = run(Path::Portable);
            for path in Path::available() {
                assert!(run(path).words[..] == portable.words[..], "{degree} {path:?} {forward}");
            }
            // Back again, and it is the integers that come back.
            let mut back = portable;
            if forward {
                fft.inverse(&mut back)
            } else {
                fft.forward(&mut back)
            };
            let one = Factor::new(1.0);
            assert!((0..degree).all(|k| back.times(k, &one) == values[k]), "{degree} {forward}");
        }
    }
}

#[test]
fn order_and_roots_are_those_of_the_plain_transform() {
    let mut prg = Prg::from_seed([43; 16]);
    for log in 0..=15 {
        let n = 1usize << log;
        let plan = Fft::new(n).unwrap();
        let values = integers(&mut prg, 2 * n, 40);
        for forward in [true, false] {
            let plain: Vec<f64> = values.iter().map(|&x| x as f64).collect();
            let (mut re, mut im) = (plain[..n].to_vec(), plain[n..].to_vec());
            let (mut wide, mut scratch) = (numbers(plan.fixed(), &values, 40), vec![0.0; plan.scratch()]);
            if forward {
                plan.forward(&mut re, &mut im, &mut scratch);
                plan.fixed().forward(&mut wide);
            } else {
                plan.inverse(&mut re, &mut im, &mut scratch);
                plan.fixed().inverse(&mut wide);
            }
            let factor = Factor::new(2f64.powi(READ));
            let same = |k: usize, x: f64| (wide.times(k, &factor) as f64 / 2f64.powi(READ) - x).abs();
            let bound = 2f64.powi(40 - 50) * (2.0 * n as f64).sqrt();
            assert!(re.iter().chain(&im).enumerate().all(|(k, &x)| same(k, x) < bound), "{n} {forward}");
        }
    }
}

/// `floor(a / b + 1/2)` modulo `2^128`, for a positive `b`.
fn quotient(a: &BigInt, b: &BigInt) -> u128 {
    let (a, b): (BigInt, BigInt) = (a * 2 + b, b * 2);
    let floor = (&a - ((&a % &b) + &b) % &b) / &b;
    (floor & BigInt::from(u128::MAX)).iter_u64_digits().rev().fold(0, |acc, d| acc << 64 | u128::from(d))
}

#[test]
fn numbers_are_reduced_and_factors_round_to_the_nearest() {
    let mut prg = Prg::from_seed([44; 16]);
    let plan = Fft::new(1).unwrap();
    let get = |x: i128, bits: u32, factor: Factor| numbers(plan.fixed(), &[0, x], bits).times(1, &factor);
    for bits in [0, 1, 7, 40, 63, 64, 99, 124] {
        let (limit, around) = (1i128 << bits, 4i128 << bits);
        let random = prg.next_u128() as i128 >> (127 - bits);
        for x in [0, 1, -1, limit, -limit, 2 * limit - 1, -2 * limit, random] {
            assert_eq!(get(x, bits, Factor::new(1.0)), x, "{bits}");
            assert_eq!(get(x.wrapping_add(around), bits, Factor::new(1.0)), x, "{bits}: reduced");
            for log in [-129, -63, -20, -3, -1, 0, 1, 11, 129] {
                let mantissa = prg.next_u64() >> 11 | 1 << 52;
                let factor = mantissa as f64 * 2f64.powi(log - 52);
                let (top, bottom) = (BigInt::from(mantissa) << 129, BigInt::from(1) << (129 + 52 - log));
                let want = quotient(&(&top * x), &bottom);
                assert_eq!(get(x, bits, Factor::new(factor)) as u128, want, "{x} {factor}");
                // The inverse is not exact: it shows in results of more than 154 bits.
                let want = quotient(&(&bottom * x), &top);
                let off = (get(x, bits, Factor::over(factor)) as u128).wrapping_sub(want) as i128;
                let most = (x as f64).abs() / factor * 2f64.powi(-154);
                assert!(off == 0 || off.unsigned_abs() as f64 <= most.max(1.0), "{x} / {factor}: {off}");
                assert!(off == 0 || most > 2f64.powi(-20), "{x} / {factor}: {off}");
            }
        }
    }
    // Powers of two are exact both ways, and halves go up.
    for (x, d, want) in [(1, 2.0, 1), (-1, 2.0, 0), (3, 4.0, 1), (-5, 1.0, -5), (-7, 2f64.powi(-40), -7 << 40)] {
        assert_eq!([Factor::over(d), Factor::new(1.0 / d)].map(|f| get(x, 20, f)), [want; 2], "{x} / {d}");
    }
}
