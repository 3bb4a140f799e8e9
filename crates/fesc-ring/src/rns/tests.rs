//! Every kernel on every path against 128-bit arithmetic: random operands and the largest ones, all lengths
//! around a register.
#![allow(clippy::unwrap_used)]

mod convert;
mod sum;

use super::*;
use crate::Prg;
use crate::automorphism::Table;
use crate::primes::ntt_primes;

const LENGTHS: [usize; 10] = [0, 1, 2, 7, 8, 9, 31, 32, 41, 100];
const BITS: [u32; 6] = [20, 30, 40, 46, 49, 50];

fn prime(bits: u32) -> Prime {
    Prime::new(Modulus::new(ntt_primes(bits, 1024, 1).unwrap()[0]).unwrap()).unwrap()
}

/// Vectors of residues: random, or all `p - 1`.
fn residues(prg: &mut Prg, p: u64, count: usize, len: usize, largest: bool) -> Vec<Vec<u64>> {
    let mut one = || if largest { p - 1 } else { prg.next_u64() % p };
    (0..count).map(|_| (0..len).map(|_| one()).collect()).collect()
}

fn slices(v: &[Vec<u64>]) -> Vec<&[u64]> {
    v.iter().map(Vec::as_slice).collect()
}

#[test]
fn sums_of_products_are_exact_on_every_path() {
    let mut prg = Prg::from_seed([1; 16]);
    for prime in BITS.map(prime) {
        let p = prime.modulus().value();
        for digits in [0, 1, 2, 3, 6, 11, 12, 13, 14, 15, 25, 64] {
            for (k, len) in LENGTHS.into_iter().enumerate() {
                let largest = k % 2 == digits % 2;
                let [a, b0, b1, start] =
                    [digits, digits, digits, 2].map(|count| residues(&mut prg, p, count, len, largest));
                let want = |b: &[Vec<u64>], start: u64, i: usize| {
                    let terms = a.iter().zip(b).map(|(a, b)| u128::from(a[i]) * u128::from(b[i]) % u128::from(p));
                    ((terms.sum::<u128>() + u128::from(start)) % u128::from(p)) as u64
                };
                for (path, add) in Path::available().flat_map(|path| [(path, false), (path, true)]) {
                    let mode = Mode { add, ..Mode::default() };
                    let [mut o0, mut o1] = [start[0].clone(), start[1].clone()];
                    let keys = [&*slices(&b0), &*slices(&b1)];
                    prime.dot2_with(path, mode, &slices(&a), keys, [&mut o0, &mut o1]);
                    let from = |o: usize, i: usize| if add { start[o][i] } else { 0 };
                    for i in 0..len {
                        let expected = (want(&b0, from(0, i), i), want(&b1, from(1, i), i));
                        assert_eq!((o0[i], o1[i]), expected, "{p} {digits} {len} {path:?} {add}");
                    }
                    let mut single = start[0].clone();
                    prime.dot_with(path, mode, &slices(&a), &slices(&b0), &mut single);
                    assert_eq!(single, o0);
                }
            }
        }
    }
}

#[test]
fn a_permuted_sum_is_the_sum_of_permuted_digits() {
    let mut prg = Prg::from_seed([2; 16]);
    for (prime, n) in BITS.map(prime).into_iter().zip([2, 4, 8, 16, 64, 256]) {
        let p = prime.modulus().value();
        let [a, b0, b1, start] = [15, 15, 15, 2].map(|count| residues(&mut prg, p, count, n, false));
        for g in [1, 3, 5, 2 * n as u64 - 1] {
            let table = Table::new(n, g).unwrap();
            let permuted: Vec<Vec<u64>> = a.iter().map(|a| (0..n).map(|i| a[table.source(i)]).collect()).collect();
            for (path, add) in Path::available().flat_map(|path| [(path, false), (path, true)]) {
                let run = |digits: &[Vec<u64>], order| {
                    let [mut o0, mut o1] = [start[0].clone(), start[1].clone()];
                    let keys = [&*slices(&b0), &*slices(&b1)];
                    prime.dot2_with(path, Mode { add, order, from: 0 }, &slices(digits), keys, [&mut o0, &mut o1]);
                    (o0, o1)
                };
                assert_eq!(run(&a, Some(&table)), run(&permuted, None), "{p} {n} {g} {path:?}");
            }
        }
    }
}

#[test]
fn packed_factors_give_the_sum_of_plain_ones_on_every_path() {
    let mut prg = Prg::from_seed([6; 16]);
    for bits in 20..=50 {
        let prime = prime(bits);
        let p = prime.modulus().value();
        for (len, slack) in [(0, 0), (1, 0), (8, 0), (9, 64), (31, 1), (32, 63), (64, 64), (100, 0), (256, 64)] {
            let table = Table::new(len, 3).ok();
            let [a, b0, b1] = [13, 13, 13].map(|count| residues(&mut prg, p, count, len, bits % 3 == 0));
            let pack = |values: &Vec<u64>| {
                let mut bytes = crate::Ring::new(bits).unwrap().pack(values);
                // What follows does not matter.
                bytes.resize(bytes.len() + slack, 0xa5);
                bytes
            };
            let packed = [&b0, &b1].map(|b| b.iter().map(pack).collect::<Vec<_>>());
            let views: [Vec<Packed>; 2] =
                packed.each_ref().map(|b| b.iter().map(|b| Packed::new(&prime, len, b).unwrap()).collect());
            for path in Path::available() {
                for order in [None, table.as_ref()] {
                    let mode = Mode { order, ..Mode::default() };
                    let [mut x0, mut x1, mut y0, mut y1] = [1, 2, 3, 4].map(|x| vec![x; len]);
                    prime.dot2_packed_with(path, mode, &slices(&a), [&views[0], &views[1]], [&mut x0, &mut x1]);
                    prime.dot2_with(path, mode, &slices(&a), [&slices(&b0), &slices(&b1)], [&mut y0, &mut y1]);
                    assert_eq!((&x0, &x1), (&y0, &y1), "{bits} {len} {slack} {path:?}");
                    // A part of the result is the same numbers.
                    for (from, end) in [(0, 0), (0, 5), (0, 8), (8, 31), (8, 64), (24, 56), (96, 100), (40, 256)] {
                        if end > len {
                            continue;
                        }
                        let mode = Mode { from, ..mode };
                        let [mut z0, mut z1] = [vec![5; end - from], vec![6; end - from]];
                        prime.dot2_packed_with(path, mode, &slices(&a), [&views[0], &views[1]], [&mut z0, &mut z1]);
                        assert_eq!(
                            (&*z0, &*z1),
                            (&x0[from..end], &x1[from..end]),
                            "{bits} {from}..{end} of {len} {path:?}"
                        );
                    }
                }
            }
        }
    }
    let short = Packed::new(&prime(50), 8, &[0; 49]).err();
    assert_eq!(short, Some(RnsError::Packed { count: 8, bits: 50, got: 49 }));
}

#[test]
fn tensor_and_square_are_the_products_on_every_path() {
    let mut prg = Prg::from_seed([3; 16]);
    for prime in BITS.map(prime) {
        let m = prime.modulus();
        for (k, len) in LENGTHS.into_iter().enumerate() {
            let v = residues(&mut prg, m.value(), 4, len, k % 2 == 1);
            let (a, b) = ([&*v[0], &*v[1]], [&*v[2], &*v[3]]);
            for path in Path::available() {
                let mut out = vec![vec![1; len]; 6];
                let [o0, o1, o2, s0, s1, s2] = &mut out[..] else { unreachable!() };
                prime.tensor_with(path, a, b, [o0, o1, o2]);
                prime.square_with(path, a, [s0, s1, s2]);
                for i in 0..len {
                    let product = |x: &[u64], y: &[u64]| m.mul(x[i], y[i]);
                    let cross = |b: [&[u64]; 2]| m.add(product(a[0], b[1]), product(a[1], b[0]));
                    let got: Vec<u64> = out.iter().map(|o| o[i]).collect();
                    let tensor = [product(a[0], b[0]), cross(b), product(a[1], b[1])];
                    let square = [product(a[0], a[0]), cross(a), product(a[1], a[1])];
                    assert_eq!(got, [tensor, square].concat(), "{} {len} {path:?}", m.value());
                }
            }
        }
    }
}

#[test]
fn passes_over_vectors_are_the_formulas_on_every_path() {
    let mut prg = Prg::from_seed([4; 16]);
    for prime in BITS.map(prime) {
        let (m, p) = (prime.modulus(), prime.modulus().value());
        for (k, len) in LENGTHS.into_iter().enumerate() {
            let mut v = residues(&mut prg, p, 3, len, k % 3 == 1);
            if k % 3 == 2 {
                // The widest differences: 0 - (p - 1) and back.
                v[0].iter_mut().enumerate().for_each(|(i, x)| *x = if i % 2 == 0 { 0 } else { p - 1 });
                v[1].iter_mut().enumerate().for_each(|(i, x)| *x = if i % 2 == 1 { 0 } else { p - 1 });
            }
            let (a, b, c) = (&v[0], &v[1], &v[2]);
            let w = m.shoup(if k % 2 == 0 { p - 1 } else { prg.next_u64() % p });
            let zip =
                |f: &dyn Fn(u64, u64, u64) -> u64| -> Vec<u64> { (0..len).map(|i| f(a[i], b[i], c[i])).collect() };
            for path in Path::available() {
                let (mut sum, mut difference) = (vec![1; len], vec![1; len]);
                prime.add_with(path, a, b, &mut sum);
                prime.sub_with(path, a, b, &mut difference);
                assert_eq!(sum, zip(&|a, b, _| m.add(a, b)), "{path:?}");
                assert_eq!(difference, zip(&|a, b, _| m.sub(a, b)), "{path:?}");
                let (mut x, mut y) = (a.clone(), a.clone());
                prime.add_assign_with(path, &mut x, b);
                prime.sub_assign_with(path, &mut y, b);
                assert_eq!((x, y), (sum, difference), "{path:?}");

                let scaled = |a: u64, b: u64| m.mul(m.sub(a, b), w.value);
                let mut out = c.clone();
                prime.sub_scale_add_with(path, w, a, b, &mut out);
                assert_eq!(out, zip(&|a, b, c| m.add(c, scaled(a, b))), "{path:?}");
                prime.sub_scale_with(path, w, a, b, &mut out);
                assert_eq!(out, zip(&|a, b, _| scaled(a, b)), "{path:?}");
                let mut x = a.clone();
                prime.sub_scale_assign_with(path, w, &mut x, b);
                assert_eq!(x, out, "{path:?}");
                // Operands up to 2^52, of any other prime.
                let wide: Vec<u64> = a.iter().enumerate().map(|(i, &x)| (1 << 52) - 1 - x * (i as u64 % 4)).collect();
                let mut x = wide.clone();
                prime.scale_assign_with(path, w, &mut x);
                let want: Vec<u64> = wide.iter().map(|&x| m.mul(m.reduce(x), w.value)).collect();
                assert_eq!(x, want, "{path:?}");
            }
            let (mut minus, mut product) = (vec![1; len], vec![1; len]);
            prime.neg(a, &mut minus);
            prime.mul(a, b, &mut product);
            assert_eq!((minus, product), (zip(&|a, _, _| m.neg(a)), zip(&|a, b, _| m.mul(a, b))));
        }
    }
}

#[test]
fn signed_integers_of_any_size_are_reduced_on_every_path() {
    let mut prg = Prg::from_seed([5; 16]);
    for prime in BITS.map(prime) {
        let p = prime.modulus().value() as i64;
        let mut values = vec![0, 1, -1, p, -p, p - 1, 1 - p, i64::MAX, i64::MIN, i64::MIN + 1, 1 << 52, -(1 << 52)];
        values.extend((0..99).map(|i| (prg.next_u64() as i64) >> (i % 64)));
        let want: Vec<u64> = values.iter().map(|v| v.rem_euclid(p) as u64).collect();
        for path in Path::available() {
            let mut out = vec![0; values.len()];
            prime.reduce_signed_with(path, &values, &mut out);
            assert_eq!(out, want, "{p} {path:?}");
        }
    }
}

#[test]
fn refuses_primes_from_2_50_on() {
    let m = Modulus::new(ntt_primes(51, 1024, 1).unwrap()[0]).unwrap();
    assert_eq!(Prime::new(m), Err(RnsError::TooLarge { value: m.value() }));
}
