//! Products in `Z_2^l[X] / (X^N + 1)`, `l <= 64`, of a full-size polynomial by a small one: the ring of the
//! RLWE linear layer (`N = 2048`, `l = 48`, ternary or Gaussian small factors).
//!
//! `2^l` has no roots of unity, so the product is taken over the integers modulo one NTT prime `p` just below
//! `2^50` and read back exactly. The full factor is cut into `d` balanced digits of `b = ceil(l / d)` bits,
//! `a = sum_i a_i 2^(b i)` with `|a_i| <= 2^(b-1)`. Each coefficient of `a_i s` is a sum of `N` terms, so
//! with `|s_j| <= B` it is exact when
//!
//! ```text
//! N * B * 2^(b-1) <= (p - 1) / 2
//! ```
//!
//! and `a s = sum_i (a_i s) 2^(b i) mod 2^l`. `d` is the least number of digits for which this holds: 2 for
//! `l = 48, N = 2048` up to `B = 2^15 - 1`, and for `l = 64` up to `B = 127`.
//!
//! Cost: `d` transforms to prepare the full factor, **one** for the small factor, `d` back per product. Two
//! primes with CRT would need `2, 2, 2` and the recombination, so digits win by one transform in each use of
//! a fresh small factor (the client's `s`). Time does not depend on the coefficients.

use crate::modulus::Modulus;
use crate::ntt::Ntt;
use crate::primes::{PrimeError, ntt_primes};
use crate::ring::Ring;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bits of the prime: the largest that the SIMD kernels take.
const PRIME_BITS: u32 = 50;
/// More digits than this would mean small factors that are not small.
const MAX_DIGITS: u32 = 4;

/// Why a product cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolyError {
    /// No digit size makes the product exact.
    #[error(
        "degree {degree}, small factors up to {bound}, {bits} bits: not exact modulo {prime} with {digits} digits; lower the bound"
    )]
    Bound {
        /// Degree of the ring.
        degree: usize,
        /// Largest magnitude of a small coefficient.
        bound: u64,
        /// Width of the coefficients.
        bits: u32,
        /// The prime of the transform.
        prime: u64,
        /// Digits tried.
        digits: u32,
    },
    /// A polynomial has the wrong number of coefficients.
    #[error("a polynomial of this ring has {expected} coefficients, got {got}")]
    Length {
        /// The degree.
        expected: usize,
        /// Coefficients given.
        got: usize,
    },
    /// A small coefficient is above the bound of the ring.
    #[error("a small factor has a coefficient above the bound {bound} that this ring was built for")]
    NotSmall {
        /// The bound.
        bound: u64,
    },
    /// A prepared factor was made by another ring.
    #[error(
        "a prepared factor was made for {got} digits of {got_bits} bits in all, this ring has {expected} of {bits}; prepare it here"
    )]
    Foreign {
        /// Digits of this ring.
        expected: u32,
        /// Width of this ring's coefficients.
        bits: u32,
        /// Digits of the factor.
        got: u32,
        /// Width of the factor's coefficients.
        got_bits: u32,
    },
    /// No prime or no root of unity for this degree.
    #[error(transparent)]
    Prime(#[from] PrimeError),
}

/// The ring `Z_2^l[X] / (X^N + 1)` with its transform.
pub struct PolyRing {
    ring: Ring,
    ntt: Ntt,
    bound: u64,
    digits: u32,
    digit_bits: u32,
}

/// A full-size factor, transformed: one row of `N` values per digit. Not zeroised: for public or masked
/// polynomials.
pub struct PreparedFull {
    rows: Vec<u64>,
    bits: u32,
    digits: u32,
}

/// A small factor, transformed. Zeroised on drop, since secrets are what is small.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct PreparedSmall {
    values: Vec<u64>,
    /// The bound of the ring that made it.
    bound: u64,
}

impl PolyRing {
    /// The ring for small factors of coefficients up to `bound` in magnitude.
    pub fn new(ring: Ring, degree: usize, bound: u64) -> Result<Self, PolyError> {
        let prime = ntt_primes(PRIME_BITS, degree, 1)?[0];
        let modulus = Modulus::new(prime).map_err(PrimeError::from)?;
        let exact = |digits: u32| {
            let half_digit = 1u128 << (ring.bits().div_ceil(digits) - 1);
            // Saturating: at 64 bits, degree 2^16 and bounds from 2^49 on the product passes 2^128.
            let largest = (degree as u128 * u128::from(bound.max(1))).saturating_mul(half_digit);
            largest <= u128::from((prime - 1) / 2)
        };
        let digits = (1..=MAX_DIGITS.min(ring.bits())).find(|&d| exact(d)).ok_or(PolyError::Bound {
            degree,
            bound,
            bits: ring.bits(),
            prime,
            digits: MAX_DIGITS,
        })?;
        Ok(Self { ring, ntt: Ntt::new(modulus, degree)?, bound, digits, digit_bits: ring.bits().div_ceil(digits) })
    }

    /// The ring of the coefficients.
    pub fn ring(&self) -> Ring {
        self.ring
    }

    /// The degree `N`.
    pub fn degree(&self) -> usize {
        self.ntt.degree()
    }

    /// Largest magnitude of a coefficient of a small factor.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Digits of a full factor, which are also the backward transforms per product.
    pub fn digits(&self) -> u32 {
        self.digits
    }

    fn check(&self, got: usize) -> Result<(), PolyError> {
        let expected = self.degree();
        if got == expected { Ok(()) } else { Err(PolyError::Length { expected, got }) }
    }

    /// Transforms a full-size factor; its coefficients are read modulo `2^l`.
    pub fn prepare_full(&self, a: &[u64]) -> Result<PreparedFull, PolyError> {
        self.check(a.len())?;
        let (bits, step, modulus) = (self.ring.bits(), self.digit_bits, self.ntt.modulus());
        // Adding half a digit at every position turns unsigned digits into balanced ones.
        let widths = (0..self.digits).map(|i| (i * step, step.min(bits.saturating_sub(i * step))));
        let widths: Vec<(u32, u32)> = widths.filter(|&(_, width)| width > 0).collect();
        let halves = widths.iter().fold(0u64, |sum, &(at, width)| sum | 1 << (at + width - 1));
        let mut rows = vec![0; self.digits as usize * a.len()];
        for (row, &(at, width)) in rows.chunks_exact_mut(a.len()).zip(&widths) {
            let (mask, half) = (u64::MAX >> (64 - width), 1i64 << (width - 1));
            for (r, &x) in row.iter_mut().zip(a) {
                let digit = self.ring.add(x, halves) >> at & mask;
                *r = modulus.from_small_signed(digit as i64 - half);
            }
            self.ntt.forward(row);
        }
        Ok(PreparedFull { rows, bits, digits: self.digits })
    }

    /// Transforms a small factor.
    pub fn prepare_small(&self, s: &[i64]) -> Result<PreparedSmall, PolyError> {
        self.check(s.len())?;
        // One verdict for the whole polynomial, so that time does not say where a coefficient is large.
        let above = s.iter().fold(false, |bad, &x| bad | (x.unsigned_abs() > self.bound));
        if above {
            return Err(PolyError::NotSmall { bound: self.bound });
        }
        let mut values: Vec<u64> = s.iter().map(|&x| self.ntt.modulus().from_small_signed(x)).collect();
        self.ntt.forward(&mut values);
        Ok(PreparedSmall { values, bound: self.bound })
    }

    /// `out += a s`.
    pub fn mul_add(&self, out: &mut [u64], a: &PreparedFull, s: &PreparedSmall) -> Result<(), PolyError> {
        self.check(out.len())?;
        self.check(s.values.len())?;
        self.check(a.rows.len() / a.digits as usize)?;
        // A ring with fewer digits may allow larger factors; here their product would not be exact.
        if s.bound > self.bound {
            return Err(PolyError::NotSmall { bound: self.bound });
        }
        if (a.bits, a.digits) != (self.ring.bits(), self.digits) {
            return Err(PolyError::Foreign {
                expected: self.digits,
                bits: self.ring.bits(),
                got: a.digits,
                got_bits: a.bits,
            });
        }
        let modulus = self.ntt.modulus();
        let mut product = vec![0; out.len()];
        for (i, row) in a.rows.chunks_exact(out.len()).enumerate() {
            product.copy_from_slice(row);
            self.ntt.mul_assign(&mut product, &s.values);
            self.ntt.inverse(&mut product);
            let at = i as u32 * self.digit_bits;
            for (o, &x) in out.iter_mut().zip(&product) {
                *o = self.ring.add(*o, (modulus.to_signed(x) as u64) << at);
            }
        }
        // The product of a known factor and a secret one is as secret as the latter.
        product.zeroize();
        Ok(())
    }

    /// `a s`.
    pub fn mul(&self, a: &PreparedFull, s: &PreparedSmall) -> Result<Vec<u64>, PolyError> {
        let mut out = vec![0; self.degree()];
        self.mul_add(&mut out, a, s)?;
        Ok(out)
    }
}
