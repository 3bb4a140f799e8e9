//! The paper's four forms, fitted by Remez, with their integer twins (paper: "Even-Residual SiLU and
//! Softplus", "Split Inverse-RMS Normalization", "Private Selective-Decay Exponential", and the appendix on
//! nonlinear details).
//!
//! The order of the operations is that of the paper's algorithms. What the paper leaves open is fixed here,
//! and each module lists it step by step: the scale of every intermediate and where it is truncated. Common
//! rules:
//!
//! - A share of scale `2F` is what a product gives. Public constants that are added to it have that scale
//!   too, and one truncation serves the whole sum ("c times x is local" is false in fixed point unless a
//!   truncation is shared).
//! - Every truncation is "subtract 1, known-sign truncation" ([`crate::trunc::round`]): floor or ceiling of
//!   the true quotient.
//! - Variables are scaled to about one by a power of two, which is only another name for the same integer or
//!   another number of dropped bits. High coefficients then keep their bits, and rounding errors do not grow
//!   through Horner's rule.
//! - A comparison takes `x' = TR(x)` as in [`crate::fixed`]; `cmp_shift = 0` with `cmp_bits = l` is the
//!   paper's full-width comparison.
//! - Outside `[-tau, tau]` the polynomial's share is garbage, and the mux multiplies it by an exact 0.

pub mod even;
pub mod mmexp;
pub mod nerms;

use crate::error::ApproxError;
use crate::plan::RING48;
use crate::trunc::{round, trunc};
use fesc_ring::Ring;

/// Ring, fraction and comparison of the paper's forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaperPlan {
    /// `Z_2^l`.
    pub ring: Ring,
    /// Fractional bits `F` of inputs and outputs.
    pub frac: u32,
    /// Bits dropped before a comparison.
    pub cmp_shift: u32,
    /// Width of the comparison ring.
    pub cmp_bits: u32,
}

impl PaperPlan {
    /// Our default: `l = 48`, `F = 16`, comparisons on 13 bits.
    pub const DEFAULT: Self = Self { ring: RING48, frac: 16, cmp_shift: 11, cmp_bits: 13 };

    /// The paper's `l = 44`, `F = 19` with full-width comparisons.
    ///
    /// # Errors
    /// None: 44 bits are a ring.
    pub fn paper() -> Result<Self, ApproxError> {
        let ring =
            Ring::new(44).map_err(|_| ApproxError::CompareWidth { cmp_bits: 44, cmp_shift: 0, ring_bits: 44 })?;
        Ok(Self { ring, frac: 19, cmp_shift: 0, cmp_bits: 44 })
    }

    /// Inputs of smaller size compare rightly: half the comparison ring, less a threshold of at most half of
    /// that.
    pub fn limit(&self) -> f64 {
        (f64::from(self.cmp_bits + self.cmp_shift) - 2.0 - f64::from(self.frac)).exp2()
    }

    /// The unit of the comparison ring as a real number.
    pub fn unit(&self) -> f64 {
        (f64::from(self.cmp_shift) - f64::from(self.frac)).exp2()
    }

    /// How far left of a threshold an input may still compare as at or above it.
    fn zone(&self) -> f64 {
        if self.cmp_shift == 0 { 0.0 } else { self.unit() }
    }

    /// A threshold of the comparison ring as a signed integer.
    fn signed(&self, threshold: u64) -> i64 {
        let half = 1i128 << (self.cmp_bits - 1);
        ((i128::from(threshold) ^ half) - half) as i64
    }

    /// Inputs for which `x'` lies in `from ..= to`, both in units of the comparison, for every carry.
    fn inputs(&self, from: i128, to: i128) -> (i64, i64) {
        // The larger of the two results of a truncate-reduce is one more than the floor.
        let last = if self.cmp_shift == 0 { to } else { (to << self.cmp_shift) - 1 };
        let held = |v: i128| v.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        (held(from << self.cmp_shift), held(last))
    }

    /// A ring with room for a sign and an offset, and a fraction inside it.
    fn check(&self) -> Result<(), ApproxError> {
        if self.ring.bits() < 4 || self.frac == 0 || self.frac >= self.ring.bits() {
            return Err(ApproxError::Parameter {
                what: "frac",
                value: self.frac.into(),
                remedy: "from 1 to l - 1, l at least 4",
            });
        }
        Ok(())
    }

    /// The comparison ring, if it fits.
    fn cmp_ring(&self) -> Result<Ring, ApproxError> {
        let refuse = ApproxError::CompareWidth {
            cmp_bits: self.cmp_bits,
            cmp_shift: self.cmp_shift,
            ring_bits: self.ring.bits(),
        };
        if self.cmp_bits < 2 || u64::from(self.cmp_bits) + u64::from(self.cmp_shift) > self.ring.bits().into() {
            return Err(refuse);
        }
        Ring::new(self.cmp_bits).map_err(|_| refuse)
    }

    /// The threshold for the real `t`, its zone of chance to the left of it.
    fn threshold(&self, t: f64) -> Result<u64, ApproxError> {
        let cmp = self.cmp_ring()?;
        let value = (t / self.unit()).round();
        if value.abs() * 2.0 >= f64::from(self.cmp_bits - 1).exp2() {
            return Err(ApproxError::ThresholdRange { value: value as i128, cmp_bits: self.cmp_bits });
        }
        Ok(cmp.from_signed(value as i64))
    }

    /// `[x' >= tau]` for the carry `j`.
    fn at_least(&self, x: u64, tau: u64, j: bool) -> u64 {
        let reduced = trunc(self.ring, x, self.cmp_shift, j);
        let mask = u64::MAX >> (64 - self.cmp_bits);
        1 - ((reduced.wrapping_sub(tau) & mask) >> (self.cmp_bits - 1))
    }

    /// `round(a b + c)` by `shift` bits.
    fn mul_add(&self, a: u64, b: u64, c: u64, shift: u32, carry: bool) -> u64 {
        round(self.ring, self.ring.add(self.ring.mul(a, b), c), shift, carry)
    }

    /// A real constant at `frac` bits; refuses what does not fit the range of a truncation.
    fn constant(&self, what: &'static str, value: f64, frac: u32) -> Result<u64, ApproxError> {
        let scaled = (value * f64::from(frac).exp2()).round();
        let limit = self.ring.bits() - 2;
        if scaled.abs() >= f64::from(limit).exp2() {
            return Err(ApproxError::Overflow { what, log2: scaled.abs().log2(), shift: 0, limit });
        }
        Ok(self.ring.from_signed(scaled as i64))
    }

    /// Refuses a magnitude (as log2, at its scale) that the known-sign truncation cannot take.
    fn room(&self, what: &'static str, log2: f64, shift: u32) -> Result<(), ApproxError> {
        let limit = self.ring.bits() - 2;
        if log2.exp2() + f64::from(shift).exp2() >= f64::from(limit).exp2() {
            return Err(ApproxError::Overflow { what, log2, shift, limit });
        }
        Ok(())
    }
}

/// Largest size that any partial sum of Horner's rule takes on `[lo, hi]` (dense search, 1 % added); the last
/// sum gets `plus(t)` on top.
fn horner_max(coeffs: &[f64], lo: f64, hi: f64, plus: impl Fn(f64) -> f64) -> f64 {
    let points = 512;
    let mut worst: f64 = 0.0;
    for i in 0..=points {
        let t = lo + (hi - lo) * f64::from(i) / f64::from(points);
        let mut sum = 0.0;
        for c in coeffs.iter().rev() {
            sum = sum * t + c;
            worst = worst.max(sum.abs());
        }
        worst = worst.max((sum + plus(t)).abs());
    }
    1.01 * worst
}

#[cfg(test)]
mod tests;
