//! Products modulo `2^l` against the schoolbook, at the bounds that make them exact.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fesc_ring::poly::{PolyError, PolyRing};
use fesc_ring::{Prg, Ring};
use proptest::prelude::*;

fn schoolbook(ring: Ring, a: &[u64], s: &[i64]) -> Vec<u64> {
    let n = a.len();
    let mut out = vec![0; n];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in s.iter().enumerate() {
            let t = ring.mul(x, ring.from_signed(if i + j < n { y } else { -y }));
            out[(i + j) % n] = ring.add(out[(i + j) % n], t);
        }
    }
    out
}

fn largest_bound(ring: Ring, degree: usize, digits: u32) -> u64 {
    // The largest bound with that many digits, by bisection on the constructor's own answer.
    let fits = |b: u64| PolyRing::new(ring, degree, b).is_ok_and(|r| r.digits() <= digits);
    let (mut low, mut high) = (0, 1u64 << 50);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

#[test]
fn the_linear_layer_needs_two_digits() {
    let ring = Ring::new(48).unwrap();
    assert_eq!(PolyRing::new(ring, 2048, 1).unwrap().digits(), 2);
    assert_eq!(PolyRing::new(ring, 2048, (1 << 15) - 1).unwrap().digits(), 2);
    assert_eq!(PolyRing::new(ring, 2048, 1 << 15).unwrap().digits(), 3);
    assert_eq!(PolyRing::new(Ring::new(64).unwrap(), 2048, 127).unwrap().digits(), 2);
    assert_eq!(PolyRing::new(Ring::new(64).unwrap(), 2048, 128).unwrap().digits(), 3);
}

#[test]
fn matches_the_schoolbook_at_full_size() {
    let ring = Ring::new(48).unwrap();
    let poly = PolyRing::new(ring, 2048, 41).unwrap();
    let mut prg = Prg::from_seed([7; 16]);
    let a = prg.ring_vec(ring, 2048);
    let s: Vec<i64> = (0..2048).map(|_| (prg.next_u64() % 83) as i64 - 41).collect();
    let (full, small) = (poly.prepare_full(&a).unwrap(), poly.prepare_small(&s).unwrap());
    let want = schoolbook(ring, &a, &s);
    assert_eq!(poly.mul(&full, &small).unwrap(), want);
    // A prepared factor serves again, and products add up.
    let mut twice = want.clone();
    poly.mul_add(&mut twice, &full, &small).unwrap();
    let doubled: Vec<u64> = want.iter().map(|&x| ring.add(x, x)).collect();
    assert_eq!(twice, doubled);
}

#[test]
fn exact_at_the_largest_bound_with_the_worst_signs() {
    for bits in [1, 2, 7, 31, 47, 48, 63, 64] {
        let ring = Ring::new(bits).unwrap();
        for (degree, digits) in [(8, 1), (64, 2), (64, 3), (128, 4)] {
            let bound = largest_bound(ring, degree, digits);
            if bound == 0 {
                continue;
            }
            let poly = PolyRing::new(ring, degree, bound).unwrap();
            let b = bound as i64;
            // Digits of 0x80..0 and 0x7f..f are the extreme ones; all terms of coefficient N-1 have the sign
            // of s.
            for value in [ring.mask(), 1 << (bits - 1), (1 << (bits - 1)) - 1, 0x8080_8080_8080_8080 & ring.mask()] {
                for s in [vec![b; degree], vec![-b; degree]] {
                    let a = vec![value; degree];
                    let (full, small) = (poly.prepare_full(&a).unwrap(), poly.prepare_small(&s).unwrap());
                    assert_eq!(poly.mul(&full, &small).unwrap(), schoolbook(ring, &a, &s), "{bits} {degree} {value:x}");
                }
            }
        }
    }
}

#[test]
fn refusals_carry_the_numbers() {
    let ring = Ring::new(48).unwrap();
    let poly = PolyRing::new(ring, 16, 3).unwrap();
    assert_eq!(poly.prepare_full(&[0; 15]).err(), Some(PolyError::Length { expected: 16, got: 15 }));
    assert_eq!(poly.prepare_small(&[0; 17]).err(), Some(PolyError::Length { expected: 16, got: 17 }));
    for x in [4, -4, i64::MIN, i64::MAX] {
        let mut s = [0; 16];
        s[9] = x;
        assert_eq!(poly.prepare_small(&s).err(), Some(PolyError::NotSmall { bound: 3 }));
    }
    // Factors prepared by another ring: other width, other degree.
    let other = PolyRing::new(Ring::new(40).unwrap(), 16, 3).unwrap();
    let (full, small) = (other.prepare_full(&[1; 16]).unwrap(), poly.prepare_small(&[1; 16]).unwrap());
    // Bounds whose product with degree and digit wraps around 2^128.
    for bound in [1 << 49, 1 << 50, 1 << 62, 1 << 63, u64::MAX] {
        for degree in [4, 65_536] {
            let wrapped = PolyRing::new(Ring::new(64).unwrap(), degree, bound);
            assert!(matches!(wrapped, Err(PolyError::Bound { .. })), "degree {degree}, bound {bound}");
        }
    }
    // A small factor of a ring that allows larger ones.
    let (wide, tight) = (Ring::new(8).unwrap(), Ring::new(40).unwrap());
    let (wide, tight) = (PolyRing::new(wide, 64, 1 << 25).unwrap(), PolyRing::new(tight, 64, 1).unwrap());
    let product = tight.mul(&tight.prepare_full(&[1; 64]).unwrap(), &wide.prepare_small(&[1 << 25; 64]).unwrap());
    assert_eq!(product.unwrap_err(), PolyError::NotSmall { bound: 1 });
    let foreign = PolyError::Foreign { expected: poly.digits(), bits: 48, got: other.digits(), got_bits: 40 };
    assert_eq!(poly.mul(&full, &small), Err(foreign));
    let other = PolyRing::new(ring, 32, 3).unwrap();
    let (long, long_small) = (other.prepare_full(&[1; 32]).unwrap(), other.prepare_small(&[1; 32]).unwrap());
    assert_eq!(poly.mul(&long, &small), Err(PolyError::Length { expected: 16, got: 32 }));
    let full = poly.prepare_full(&[1; 16]).unwrap();
    assert_eq!(poly.mul(&full, &long_small), Err(PolyError::Length { expected: 16, got: 32 }));
    assert!(matches!(PolyRing::new(ring, 2048, 1 << 40), Err(PolyError::Bound { bound, .. }) if bound == 1 << 40));
    assert!(matches!(PolyRing::new(ring, 100, 1), Err(PolyError::Prime(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn matches_the_schoolbook(bits in 1u32..=64, log in 1u32..8, bound in 1u64..100, seed: [u8; 16]) {
        let (ring, n) = (Ring::new(bits).unwrap(), 1usize << log);
        let poly = PolyRing::new(ring, n, bound).unwrap();
        let mut prg = Prg::from_seed(seed);
        let a = prg.ring_vec(ring, n);
        let s: Vec<i64> = (0..n).map(|_| (prg.next_u64() % (2 * bound + 1)) as i64 - bound as i64).collect();
        let got = poly.mul(&poly.prepare_full(&a).unwrap(), &poly.prepare_small(&s).unwrap()).unwrap();
        prop_assert_eq!(got, schoolbook(ring, &a, &s));
    }
}
