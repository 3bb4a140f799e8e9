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
//! share errs by 1/2 from rounding and by at most [`DECODE_UNITS`] from the transform
//! ([`Encoder::share_width`] refuses more): together `|e| <= 5`, and 1 unless the width is at its limit.
//!
//! The way back takes shares that add up over the integers, without a wrap. [`Encoder::encode_share`] is
//! right to one unit of a coefficient, [`Encoder::encode_share_wide`] to [`WIDE_ERROR`] of a slot.
//!
//! **No reaction.** Shares come out of a decryption, and a client whose error, retry or time depended on them
//! would tell the server about its key. So the widths are public numbers that the protocol fixes, they are
//! what is checked, and a number beyond its width is reduced silently: `bits` is the width of the mask, a
//! share `phase + mask` may exceed it a little, and every number is taken modulo `2^(bits + 2)`, centred.
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
/// Widest shares: reduced to two bits more, they are what a double-double takes.
const WIDEST_BITS: u32 = 124;
/// Units by which the transform of one share may be off.
const DECODE_UNITS: f64 = 2.0;
/// Error of a slot that wide shares may have, as a number: `2^-21`.
const WIDE_ERROR: f64 = 1.0 / (1 << 21) as f64;

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

/// The largest width whose error, `error` for each unit of magnitude, is at most `most`.
fn width(error: f64, most: f64) -> u32 {
    // Saturates at 0.
    ((most / error).log2().floor() as u32).min(WIDEST_BITS)
}

/// `x` modulo `2^(bits + 2)`, centred, for `bits` up to [`WIDEST_BITS`].
fn reduced(x: i128, bits: u32) -> i128 {
    let unused = WIDEST_BITS + 2 - bits.min(WIDEST_BITS);
    (x << unused) >> unused
}

impl Encoder {
    /// The widest shares that [`Encoder::decode_share`] takes at this scale and fraction: 120 bits for `S =
    /// 2^40`, `f = 16`, `N = 32768`, by `2 S / 2^f / (2^-105 sqrt(log2(N) N))`. At most 124.
    ///
    /// # Errors
    /// [`CkksError::ShareScale`].
    pub fn share_width(&self, scale: f64, fraction: u32) -> Result<u32> {
        Ok(width(self.params.fft().double().error() * unit(scale, fraction)? / scale, DECODE_UNITS))
    }

    /// One party's part of the slots, from its integer part of the coefficients: real and imaginary parts,
    /// rounded to `fraction` fractional bits and reduced. `bits` is the width of the mask, which the protocol
    /// fixes; coefficients beyond it are reduced silently.
    ///
    /// # Errors
    /// [`CkksError::Length`] unless there are `N` coefficients, [`CkksError::ShareScale`], and
    /// [`CkksError::ShareTooLarge`] for a width above [`Encoder::share_width`]. None depends on the
    /// coefficients.
    pub fn decode_share(
        &self,
        coefficients: &[i128],
        bits: u32,
        scale: f64,
        fraction: u32,
        ring: Ring,
    ) -> Result<Vec<[u64; 2]>> {
        let (degree, n) = (self.params.degree(), self.params.slots());
        if coefficients.len() != degree {
            return Err(CkksError::Length { what: "coefficients", got: coefficients.len(), expected: degree });
        }
        check(bits, self.share_width(scale, fraction)?, scale, fraction)?;
        let (mut numbers, mut scratch) = (Doubles::zeroed(degree), Doubles::zeroed(degree));
        for (k, &x) in coefficients.iter().enumerate() {
            numbers.set(k, Double::from_integer(reduced(x, bits)));
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
    /// coefficient may be wrong by more than a unit: `2^(63 - f) S` above `2^104 / sqrt(log2 N)`.
    pub fn encode_share(&self, values: &[[i64; 2]], fraction: u32, scale: f64) -> Result<Vec<i128>> {
        let factor = scale / unit(scale, fraction)?;
        let most = width(self.params.fft().double().inverse_error() * factor, 0.5);
        check(i64::BITS - 1, most, scale, fraction)?;
        self.embed_integers(values.iter().map(|z| z.map(i128::from)), values.len(), factor)
    }

    /// [`Encoder::encode_share`] for integers of `bits` bits, a public number that the protocol fixes; values
    /// beyond it are reduced silently. Up to 90 bits with 16 fractional bits at `N = 32768`: parts that add
    /// up over the integers are encoded to parts whose slots add up to within `2^-21`.
    ///
    /// # Errors
    /// [`CkksError::TooMany`] slots, [`CkksError::ShareScale`], and [`CkksError::ShareTooLarge`] for a width
    /// with a larger error, or whose coefficients do not fit 126 bits. None depends on the values.
    pub fn encode_share_wide(&self, values: &[[i128; 2]], bits: u32, fraction: u32, scale: f64) -> Result<Vec<i128>> {
        let unit = unit(scale, fraction)?;
        let (double, factor) = (self.params.fft().double(), scale / unit);
        // A slot errs like the square root of N coefficients; and a coefficient is at most sqrt(2) slots.
        let most = width(double.error() / unit, WIDE_ERROR).min(width(factor.max(1.0), 2f64.powi(125)));
        check(bits, most, scale, fraction)?;
        self.embed_integers(values.iter().map(|z| z.map(|x| reduced(x, bits))), values.len(), factor)
    }

    /// Slots to coefficients, times a factor, rounded.
    fn embed_integers(&self, values: impl Iterator<Item = [i128; 2]>, count: usize, factor: f64) -> Result<Vec<i128>> {
        let (degree, n) = (self.params.degree(), self.params.slots());
        if count > n {
            return Err(CkksError::TooMany { what: "slots", got: count, max: n });
        }
        let (mut numbers, mut scratch) = (Doubles::zeroed(degree), Doubles::zeroed(degree));
        for (j, [re, im]) in values.enumerate() {
            numbers.set(j, Double::from_integer(re));
            numbers.set(n + j, Double::from_integer(im));
        }
        self.params.fft().double().inverse(&mut numbers.0, &mut scratch.0);
        Ok((0..degree).map(|k| numbers.get(k).times(factor).round()).collect())
    }
}

/// Refuses a width.
fn check(bits: u32, max: u32, scale: f64, fraction: u32) -> Result<()> {
    if bits <= max { Ok(()) } else { Err(CkksError::ShareTooLarge { bits, max, scale, fraction }) }
}
