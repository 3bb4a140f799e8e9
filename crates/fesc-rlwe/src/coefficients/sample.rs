//! Public polynomials from seeds, and products modulo `2^104` by a ternary polynomial.
//!
//! A factor of 104 bits is cut into 3 balanced digits of 35 bits, `|digit| <= 2^34`: the product of a digit
//! by a ternary polynomial is at most `2^46` in magnitude and exact modulo one prime of 50 bits. Like
//! [`fesc_ring::poly`], which ends at 64 bits: 3 transforms there, 3 back.

use fesc_ring::Prg;
use fesc_ring::derive::Derive;
use fesc_ring::modulus::Modulus;
use fesc_ring::ntt::Ntt;
use fesc_ring::primes::ntt_primes;
use fesc_ring::sample::{gaussian, ternary};
use fesc_ring::wide::{WORD, WORD_BITS};
use zeroize::{Zeroize, Zeroizing};

use super::{DEGREE, LOG_Q, SEED_BYTES};
use crate::Result;

const DIGIT: u32 = LOG_Q.div_ceil(3);
const PRIME_BITS: u32 = 50;

/// Modulo `2^104`.
pub(super) const Q_MASK: u128 = (1 << LOG_Q) - 1;

/// What a seed is expanded for. Streams of different purposes are independent.
#[derive(Clone, Copy)]
pub(super) enum SeedPurpose {
    /// `a` of an upload.
    Upload,
    /// `p1` of a public key.
    Key,
    /// `d0'` of an answer.
    Mask,
    /// Public halves of automorphism keys.
    Switch,
}

/// A seed for a public polynomial.
pub(super) fn fresh_seed(prg: &mut Prg) -> [u8; SEED_BYTES] {
    prg.public_bytes()
}

/// The stream of a seed.
pub(super) fn stream(purpose: SeedPurpose, seed: &[u8; SEED_BYTES]) -> Prg {
    Derive::new(b"fesc coefficients v1").bytes(&[purpose as u8]).bytes(seed).stream()
}

/// `a`, uniform modulo `2^104`: its low and its high words.
pub(super) fn uniform(seed: &[u8; SEED_BYTES]) -> [Vec<u64>; 2] {
    let mut prg = stream(SeedPurpose::Upload, seed);
    std::array::from_fn(|_| {
        let mut words = vec![0; DEGREE];
        prg.fill_u64(&mut words);
        words.iter_mut().for_each(|w| *w &= WORD);
        words
    })
}

/// A ternary polynomial.
pub(super) fn small(prg: &mut Prg) -> Zeroizing<Vec<i64>> {
    let mut out = Zeroizing::new(vec![0; DEGREE]);
    ternary(prg, &mut out);
    out
}

/// A Gaussian polynomial.
pub(super) fn errors(prg: &mut Prg) -> Zeroizing<Vec<i64>> {
    let mut out = Zeroizing::new(vec![0; DEGREE]);
    gaussian(prg, &mut out);
    out
}

/// The transform that products modulo `2^104` are taken with, and the secret in it. Wiped on drop.
pub(super) struct Secret {
    ntt: Ntt,
    values: Zeroizing<Vec<u64>>,
}

impl Secret {
    pub(super) fn new(s: &[i64]) -> Result<Self> {
        let prime = ntt_primes(PRIME_BITS, DEGREE, 1)?[0];
        let modulus = Modulus::new(prime)?;
        let ntt = Ntt::new(modulus, DEGREE)?;
        let mut values = Zeroizing::new(s.iter().map(|&x| modulus.from_small_signed(x)).collect::<Vec<_>>());
        ntt.forward(&mut values);
        Ok(Self { ntt, values })
    }

    /// `out -= a s mod 2^104`.
    pub(super) fn mul_sub(&self, out: &mut [u128], a: &[Vec<u64>; 2]) {
        let modulus = self.ntt.modulus();
        // Adding half a digit at every place turns unsigned digits into balanced ones.
        let half = 1u128 << (DIGIT - 1);
        let halves = half | half << DIGIT | half << (2 * DIGIT);
        let mut digit = vec![0; DEGREE];
        for place in 0..3 {
            for (d, (&lo, &hi)) in digit.iter_mut().zip(a[0].iter().zip(&a[1])) {
                let number = u128::from(lo) | u128::from(hi) << WORD_BITS;
                let shifted = number.wrapping_add(halves) >> (DIGIT * place);
                *d = modulus.from_small_signed((shifted as u64 & ((1 << DIGIT) - 1)) as i64 - half as i64);
            }
            self.ntt.forward(&mut digit);
            self.ntt.mul_assign(&mut digit, &self.values);
            self.ntt.inverse(&mut digit);
            for (o, &x) in out.iter_mut().zip(&digit) {
                let product = i128::from(modulus.to_signed(x)) as u128;
                *o = o.wrapping_sub(product << (DIGIT * place)) & Q_MASK;
            }
        }
        // The product of a known factor by the secret is as secret as the latter.
        digit.zeroize();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The negacyclic product by definition.
    fn schoolbook(a: &[u128], s: &[i64]) -> Vec<u128> {
        let mut out = vec![0u128; DEGREE];
        for (i, &a) in a.iter().enumerate() {
            for (j, &s) in s.iter().enumerate().filter(|(_, s)| **s != 0) {
                let at = i + j;
                let sign = if at >= DEGREE { -s } else { s };
                let o = &mut out[at % DEGREE];
                *o = o.wrapping_add(a.wrapping_mul(i128::from(sign) as u128));
            }
        }
        out.iter_mut().for_each(|o| *o &= Q_MASK);
        out
    }

    #[test]
    fn products_modulo_the_ciphertext_modulus_are_exact() {
        let mut prg = Prg::from_seed([1; 16]);
        let s = small(&mut prg);
        let secret = Secret::new(&s).unwrap();
        let random = uniform(&fresh_seed(&mut prg));
        let largest: [Vec<u64>; 2] = [vec![WORD; DEGREE], vec![WORD; DEGREE]];
        // Digits at both ends of their range.
        let edge = ((1u128 << (DIGIT - 1)) * (1 | 1 << DIGIT | 1 << (2 * DIGIT))) & Q_MASK;
        let edges = [vec![edge as u64 & WORD; DEGREE], vec![(edge >> WORD_BITS) as u64; DEGREE]];
        for (a, all) in [(random, false), (largest, true), (edges, true)] {
            let secret = if all { &Secret::new(&[1; DEGREE]).unwrap() } else { &secret };
            let s = if all { vec![1; DEGREE] } else { s.to_vec() };
            let numbers: Vec<u128> =
                a[0].iter().zip(&a[1]).map(|(&lo, &hi)| u128::from(lo) | u128::from(hi) << WORD_BITS).collect();
            let mut got = vec![5; DEGREE];
            secret.mul_sub(&mut got, &a);
            let want: Vec<u128> = schoolbook(&numbers, &s).iter().map(|&x| 5u128.wrapping_sub(x) & Q_MASK).collect();
            assert!(got == want);
        }
    }

    #[test]
    fn purposes_and_seeds_give_different_streams() {
        let mut first: Vec<u64> = [SeedPurpose::Upload, SeedPurpose::Key, SeedPurpose::Mask, SeedPurpose::Switch]
            .into_iter()
            .flat_map(|p| [stream(p, &[0; 16]).next_u64(), stream(p, &[1; 16]).next_u64()])
            .collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 8);
    }
}
