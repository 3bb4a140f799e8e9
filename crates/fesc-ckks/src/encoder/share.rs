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
//! (53 bits) are off by `2^32` units, the transform on wide integers ([`fesc_ring::fft::fixed`]) is not. Each
//! share errs by 1/2 from rounding and by at most [`DECODE_UNITS`] from the transform, whatever the
//! coefficients are ([`Encoder::share_width`] refuses more): together `|e| <= 5`, and 1 unless scale and
//! fraction are far from the usual.
//!
//! The way back takes shares that add up over the integers, without a wrap: [`Encoder::encode_share`].
//! Neither party needs the other's arithmetic, each rounds its own part; but all machines give the same bits.
//!
//! **No reaction.** Shares come out of a decryption, and a client whose error, retry or time depended on them
//! would tell the server about its key. So the widths are public numbers that the protocol fixes, they are
//! what is checked, and a number beyond its width is reduced silently: `bits` is the width of the mask, a
//! share `phase + mask` may exceed it a little, and every number is taken modulo `2^(bits + 2)`, centred. All
//! arithmetic is on integers, without a division or a branch that depends on them.
//!
//! Cost at `N = 32768`, processor time of one thread of a busy AMD EPYC: 2.5 ms to decode, 1.5 to encode with
//! AVX-512, 5.3 and 6.4 portable.

#[cfg(test)]
mod tests;

use fesc_ring::Ring;
use fesc_ring::fft::Fft;
use fesc_ring::fft::fixed::{Factor, MAX_BITS};

use super::Encoder;
use crate::{CkksError, Result};

/// Logarithm of the largest scale.
const MAX_LOG_SCALE: i32 = 120;
/// Most fractional bits.
const MAX_FRACTION: u32 = 63;
/// Units by which the transform of one share may be off.
const DECODE_UNITS: f64 = 2.0;
/// Error of a slot that encoded shares may have, as a number: `2^-21`.
const ENCODE_ERROR: f64 = 1.0 / (1 << 21) as f64;
/// Largest coefficient of an encoded share, in bits: two of them fit 128.
const COEFFICIENT_BITS: i32 = 125;

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
    ((most / error).log2().floor() as u32).min(MAX_BITS)
}

impl Encoder {
    /// The widest shares that [`Encoder::decode_share`] takes at this scale and fraction: 124 bits, the most
    /// there are, for `S = 2^40` and up to 40 fractional bits at `N = 32768`, 38 at 65536.
    ///
    /// # Errors
    /// [`CkksError::ShareScale`].
    pub fn share_width(&self, scale: f64, fraction: u32) -> Result<u32> {
        Ok(width(self.params.fft().fixed().error() * unit(scale, fraction)? / scale, DECODE_UNITS))
    }

    /// What [`Encoder::decode_share`] may be off by for shares of this width, beside rounding: a bound, in
    /// units of the last place.
    ///
    /// # Errors
    /// [`CkksError::ShareScale`], and [`CkksError::ShareTooLarge`] for a width above
    /// [`Encoder::share_width`].
    pub fn decode_error(&self, bits: u32, scale: f64, fraction: u32) -> Result<f64> {
        check(bits, self.share_width(scale, fraction)?, scale, fraction)?;
        Ok(self.params.fft().fixed().error() * f64::from(bits).exp2() * unit(scale, fraction)? / scale)
    }

    /// One party's part of the slots, from its integer part of the coefficients: real and imaginary parts,
    /// rounded to `fraction` fractional bits and reduced. `bits` is the width of the mask, which the protocol
    /// fixes; coefficients beyond it are reduced silently.
    ///
    /// # Errors
    /// [`CkksError::Length`] unless there are `N` coefficients, and those of [`Encoder::decode_error`]. None
    /// depends on the coefficients.
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
        self.decode_error(bits, scale, fraction)?;
        let fft = self.params.fft().fixed();
        let mut numbers = fft.numbers(bits);
        for (k, &x) in coefficients.iter().enumerate() {
            numbers.set(k, x);
        }
        fft.forward(&mut numbers);
        // The quotient is exact: 2^f is a power of two.
        let factor = Factor::over(scale / unit(scale, fraction)?);
        let share = |k: usize| ring.reduce(numbers.times(k, &factor) as u64);
        Ok((0..n).map(|j| [share(j), share(n + j)]).collect())
    }

    /// What [`Encoder::encode_share`] may be off by for values of this width, beside rounding: a bound, in
    /// units of a coefficient.
    ///
    /// # Errors
    /// [`CkksError::ShareScale`], and [`CkksError::ShareTooLarge`] for a width whose slots would be off by
    /// more than `2^-21`, or whose coefficients do not fit 126 bits.
    pub fn encode_error(&self, bits: u32, fraction: u32, scale: f64) -> Result<f64> {
        let unit = unit(scale, fraction)?;
        let (fft, factor) = (self.params.fft().fixed(), scale / unit);
        // The errors of N coefficients may add up in a slot; and a coefficient is at most sqrt(2) slots.
        let (slot, coefficient) = (2.0 * fft.error() / unit, factor.max(1.0));
        let most = width(slot, ENCODE_ERROR).min(width(coefficient, 2f64.powi(COEFFICIENT_BITS)));
        check(bits, most, scale, fraction)?;
        Ok(fft.inverse_error() * f64::from(bits).exp2() * factor)
    }

    /// One party's integer part of the coefficients at a scale, from its integer part of the slots: real and
    /// imaginary parts of `bits` bits, a public number that the protocol fixes, `fraction` of them
    /// fractional. Slots that are not given are zero, values beyond the width are reduced silently.
    ///
    /// Parts that add up over the integers are encoded to parts that add up, each to within 1/2 and
    /// [`Encoder::encode_error`] of a coefficient. 101 bits at `S = 2^40` with 16 fractional bits: then
    /// coefficients have all bits that they may have.
    ///
    /// # Errors
    /// [`CkksError::TooMany`] slots, and those of [`Encoder::encode_error`]. None depends on the values.
    pub fn encode_share(&self, values: &[[i128; 2]], bits: u32, fraction: u32, scale: f64) -> Result<Vec<i128>> {
        let (degree, n) = (self.params.degree(), self.params.slots());
        if values.len() > n {
            return Err(CkksError::TooMany { what: "slots", got: values.len(), max: n });
        }
        self.encode_error(bits, fraction, scale)?;
        let fft = self.params.fft().fixed();
        let mut numbers = fft.numbers(bits);
        for (j, &[re, im]) in values.iter().enumerate() {
            numbers.set(j, re);
            numbers.set(n + j, im);
        }
        fft.inverse(&mut numbers);
        let factor = Factor::new(scale / unit(scale, fraction)?);
        Ok((0..degree).map(|k| numbers.times(k, &factor)).collect())
    }
}

/// Where part `part` of `parts`, a power of two, stands in a packed polynomial `sum_k X^k m_k(X^parts)`: at
/// its number with the bits reversed, so that halving the polynomial again and again keeps neighbours
/// together.
pub fn place_of_part(part: usize, parts: usize) -> usize {
    let bits = parts.trailing_zeros();
    if bits == 0 { 0 } else { part.reverse_bits() >> (usize::BITS - bits) }
}

impl Encoder {
    /// [`Encoder::encode_share`] of several vectors in one polynomial: `values` are `parts` runs, a power of
    /// two, of `n / parts` slots each. Part `m_k` alone is a vector that repeats its run, and whoever holds
    /// an encryption of the packed polynomial can take it apart by rotations.
    ///
    /// # Errors
    /// As there, and [`CkksError::Parts`] for a number of parts that does not divide the slots.
    pub fn encode_share_parts(
        &self,
        values: &[[i128; 2]],
        parts: usize,
        bits: u32,
        fraction: u32,
        scale: f64,
    ) -> Result<Vec<i128>> {
        if parts == 1 {
            return self.encode_share(values, bits, fraction, scale);
        }
        let (degree, n) = (self.params.degree(), self.params.slots());
        if values.len() > n {
            return Err(CkksError::TooMany { what: "slots", got: values.len(), max: n });
        }
        let refused = CkksError::Parts { parts, slots: n };
        if !parts.is_power_of_two() || parts > n {
            return Err(refused);
        }
        self.encode_error(bits, fraction, scale)?;
        let run = n / parts;
        let plan = Fft::new(run).map_err(|_| refused)?;
        let (fft, factor) = (plan.fixed(), Factor::new(scale / unit(scale, fraction)?));
        let mut out = vec![0; degree];
        for (part, values) in values.chunks(run).enumerate() {
            let mut numbers = fft.numbers(bits);
            for (j, &[re, im]) in values.iter().enumerate() {
                numbers.set(j, re);
                numbers.set(run + j, im);
            }
            fft.inverse(&mut numbers);
            let places = out.iter_mut().skip(place_of_part(part, parts)).step_by(parts);
            places.enumerate().for_each(|(k, to)| *to = numbers.times(k, &factor));
        }
        Ok(out)
    }
}

/// Refuses a width.
fn check(bits: u32, max: u32, scale: f64, fraction: u32) -> Result<()> {
    if bits <= max { Ok(()) } else { Err(CkksError::ShareTooLarge { bits, max, scale, fraction }) }
}
