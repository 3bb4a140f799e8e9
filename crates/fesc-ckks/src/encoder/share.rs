//! The share boundary: integer polynomials that two parties hold, to fixed-point shares of the slots and
//! back.
//!
//! After a bounded mask the client has the integers `phase + mask`, the server `-mask` ([`crate::mask`]).
//! Their sum is the phase, but the sum of their residues modulo `2^l` is not a sum of slots: the roots are
//! irrational, and a multiple of `2^l` does not stay one. So each party decodes its own *integers*, rounds,
//! and only then reduces:
//!
//! ```text
//! share_j                     = round(2^f m(zeta^(5^j)) / S) mod 2^l
//! share_client + share_server = round(2^f z_j) + e        mod 2^l
//! ```
//!
//! A share is some 70 bits wider than the phase, and what is left of it after the sum must be right: doubles
//! (53 bits) are off by `2^32` units, the double-double transform ([`fesc_ring::fft::double`]) is not. Each
//! share errs by 1/2 from rounding and by at most 1/2 from the transform ([`Encoder::share_limit`] refuses
//! more): together `|e| <= 2`, and 1 unless all that meets at once.
//!
//! The way back, `encode_share`, takes shares that add up over the integers, without a wrap.
//!
//! Cost at `N = 32768` on one thread of a busy Sapphire Rapids: 3.3 ms to decode, 2.6 to encode with AVX-512,
//! 5.6 and 4.5 portable. More than half is conversions.
//!
//! # What is not guaranteed
//! The limit expects coefficients that are spread, as a mask spreads them; see the transform's module for
//! what chosen coefficients could do.

#[cfg(test)]
mod tests;

use fesc_ring::Ring;
use fesc_ring::aligned::Aligned;
use fesc_ring::double::Double;
use zeroize::Zeroizing;

use super::Encoder;
use crate::{CkksError, Result};

/// Logarithm of the largest scale.
const MAX_LOG_SCALE: i32 = 120;
/// Most fractional bits.
const MAX_FRACTION: u32 = 63;
/// Widest integers that a double-double takes.
const WIDEST: u128 = 1 << 126;

/// `N` double-doubles: high parts, then low parts. Wiped on drop.
struct Doubles(Zeroizing<Aligned<f64>>);

impl Doubles {
    fn zeroed(degree: usize) -> Self {
        Self(Zeroizing::new(Aligned::zeroed(2 * degree)))
    }

    fn set(&mut self, k: usize, x: Double) {
        let degree = self.0.len() / 2;
        (self.0[k], self.0[degree + k]) = (x.hi, x.lo);
    }

    fn get(&self, k: usize) -> Double {
        Double { hi: self.0[k], lo: self.0[self.0.len() / 2 + k] }
    }
}

/// `2^fraction`, if scale and fraction are usable.
fn unit(scale: f64, fraction: u32) -> Result<f64> {
    if (1.0..=2f64.powi(MAX_LOG_SCALE)).contains(&scale) && fraction <= MAX_FRACTION {
        return Ok((1u64 << fraction) as f64);
    }
    Err(CkksError::ShareScale { scale, fraction, max_log_scale: MAX_LOG_SCALE, max_fraction: MAX_FRACTION })
}

/// The largest magnitude whose error, `error` for each unit of it, is at most one half.
fn limit(error: f64) -> u128 {
    // Saturates.
    ((0.5 / error) as u128).min(WIDEST)
}

/// The largest magnitude.
fn largest(values: impl Iterator<Item = u128>) -> u128 {
    values.fold(0, u128::max)
}

impl Encoder {
    /// The largest coefficient that [`Encoder::decode_share`] takes at this scale and fraction:
    /// `S / 2^(f+1) / (2^-105 sqrt(log2(N) N))`, about `2^118` for `S = 2^40`, `f = 16`, `N = 32768`. At most
    /// `2^126`.
    ///
    /// # Errors
    /// [`CkksError::ShareScale`].
    pub fn share_limit(&self, scale: f64, fraction: u32) -> Result<u128> {
        Ok(limit(self.params.fft().double().error() * unit(scale, fraction)? / scale))
    }

    /// One party's part of the slots, from its integer part of the coefficients: real and imaginary parts,
    /// rounded to `fraction` fractional bits and reduced.
    ///
    /// # Errors
    /// [`CkksError::Length`] unless there are `N` coefficients, [`CkksError::ShareScale`], and
    /// [`CkksError::ShareTooLarge`] for a coefficient above [`Encoder::share_limit`].
    pub fn decode_share(&self, coefficients: &[i128], scale: f64, fraction: u32, ring: Ring) -> Result<Vec<[u64; 2]>> {
        let (degree, n) = (self.params.degree(), self.params.slots());
        if coefficients.len() != degree {
            return Err(CkksError::Length { what: "coefficients", got: coefficients.len(), expected: degree });
        }
        let limit = self.share_limit(scale, fraction)?;
        check(largest(coefficients.iter().map(|x| x.unsigned_abs())), limit, scale, fraction)?;
        let (mut numbers, mut scratch) = (Doubles::zeroed(degree), Doubles::zeroed(degree));
        for (k, &x) in coefficients.iter().enumerate() {
            numbers.set(k, Double::from_integer(x));
        }
        self.params.fft().double().forward(&mut numbers.0, &mut scratch.0);
        // Exact: 2^f is a power of two.
        let divisor = scale / unit(scale, fraction)?;
        let share = |k: usize| ring.reduce(numbers.get(k).over(divisor).round() as u64);
        Ok((0..n).map(|j| [share(j), share(n + j)]).collect())
    }

    /// One party's integer part of the coefficients at a scale, from its integer part of the slots: real and
    /// imaginary parts with `fraction` fractional bits. Slots that are not given are zero.
    ///
    /// Parts that add up over the integers are encoded to parts that add up, to within one unit of a
    /// coefficient; the caller sees to it that there is no wrap.
    ///
    /// # Errors
    /// [`CkksError::TooMany`] slots, [`CkksError::ShareScale`], and [`CkksError::ShareTooLarge`] if a
    /// coefficient may be wrong by more than a unit: `max 2^-f S` above `2^104 / sqrt(log2 N)`.
    pub fn encode_share(&self, values: &[[i64; 2]], fraction: u32, scale: f64) -> Result<Vec<i128>> {
        let (degree, n) = (self.params.degree(), self.params.slots());
        if values.len() > n {
            return Err(CkksError::TooMany { what: "slots", got: values.len(), max: n });
        }
        let double = self.params.fft().double();
        let factor = scale / unit(scale, fraction)?;
        let magnitudes = values.as_flattened().iter().map(|x| u128::from(x.unsigned_abs()));
        check(largest(magnitudes), limit(double.inverse_error() * factor), scale, fraction)?;
        let (mut numbers, mut scratch) = (Doubles::zeroed(degree), Doubles::zeroed(degree));
        for (j, &[re, im]) in values.iter().enumerate() {
            numbers.set(j, Double::from_integer(re.into()));
            numbers.set(n + j, Double::from_integer(im.into()));
        }
        double.inverse(&mut numbers.0, &mut scratch.0);
        Ok((0..degree).map(|k| numbers.get(k).times(factor).round()).collect())
    }
}

fn check(largest: u128, limit: u128, scale: f64, fraction: u32) -> Result<()> {
    if largest <= limit {
        return Ok(());
    }
    let (bits, max) = ((largest as f64).log2(), (limit as f64).log2());
    Err(CkksError::ShareTooLarge { bits, max, scale, fraction })
}
