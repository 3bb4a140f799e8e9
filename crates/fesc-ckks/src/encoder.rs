//! Numbers to plaintexts and back: slots (the canonical embedding) and coefficients.
//!
//! With `n = N/2` slots and `zeta = exp(i pi / N)`, slot `j` of the polynomial `m` at scale `S` is
//! `m(zeta^(5^j)) / S` (CKKS 2017, section 3; HEAAN's order, so that `X -> X^5` rotates by one slot to the
//! left). Because `zeta^(n 5^j) = i`, the `N` real coefficients are `n` complex numbers `c_k + i c_(k+n)`,
//! and a transform of `n` points does it all. Encoding rounds each coefficient to the nearest integer (ties
//! to even): an error of at most `sqrt(N/12) / S` in a slot on average, besides that of `f64` itself
//! (relative `2^-53` times about `log2 N`, of the largest slot).
//!
//! Coefficient encoding takes integers as they are; that is what the share boundary uses. Values that do not
//! fit below the modulus are refused with the numbers.
//!
//! Cost: one transform of `n` complex points, then one number-theoretic transform per limb.

mod periodic;
mod share;

pub use share::place_of_part;

use fesc_ring::aligned::Aligned;
use fesc_ring::fft::{self, Fft};
use num_complex::Complex64;
use zeroize::{Zeroize, Zeroizing};

use crate::poly::Poly;
use crate::residue::{self, Digits};
use crate::{CkksError, Params, Plaintext, Result};

/// Coefficients below this fit 64 bits.
const SHORT: f64 = (1u64 << 62) as f64;
/// Wide integers hold coefficients below this.
const WIDEST_BITS: f64 = 126.0;
/// Sums of `N` values below this stay finite.
const HUGE: f64 = 1e300;
const NAN: Complex64 = Complex64::new(f64::NAN, f64::NAN);

/// Encodes and decodes for one set. Immutable; share it freely.
pub struct Encoder {
    params: Params,
}

/// Floating-point numbers of a message, wiped on drop.
struct Numbers(Aligned<f64>);

impl Numbers {
    /// Real parts, imaginary parts and scratch space of `n` slots.
    fn parts(&mut self) -> (&mut [f64], &mut [f64], &mut [f64]) {
        let n = self.0.len() / 4;
        let (re, rest) = self.0.split_at_mut(n);
        let (im, scratch) = rest.split_at_mut(n);
        (re, im, scratch)
    }

    /// Real and imaginary parts one after the other: the coefficients.
    fn coefficients(&self) -> &[f64] {
        &self.0[..self.0.len() / 2]
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Rounded coefficients.
enum Rounded {
    Short(Zeroizing<Vec<i64>>),
    Wide(Zeroizing<Vec<i128>>),
}

impl Encoder {
    /// For this set.
    pub fn new(params: &Params) -> Self {
        Self { params: params.clone() }
    }

    /// The parameter set.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Encodes slots; those that are not given are zero.
    ///
    /// # Errors
    /// A level or scale that does not exist, too many or infinite values, coefficients above the modulus.
    pub fn encode(&self, values: &[Complex64], level: usize, scale: f64) -> Result<Plaintext> {
        let poly = self.encode_poly(values, level, scale, 0)?;
        Plaintext::new(&self.params, level, scale, poly)
    }

    /// [`Encoder::encode`] of real numbers.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_real(&self, values: &[f64], level: usize, scale: f64) -> Result<Plaintext> {
        let mut complex: Vec<Complex64> = values.iter().map(|&x| Complex64::new(x, 0.0)).collect();
        let encoded = self.encode(&complex, level, scale);
        complex.iter_mut().for_each(|z| z.re.zeroize());
        encoded
    }

    /// Over `q_0 .. q_level` and then the first `specials` special primes: for plaintexts that meet undivided
    /// key switches.
    pub(crate) fn encode_poly(&self, values: &[Complex64], level: usize, scale: f64, specials: usize) -> Result<Poly> {
        self.params.check_scale(level, scale)?;
        let rounded = self.round(&self.embed(self.params.fft(), values, scale)?, level, scale)?;
        let mut poly = Poly::scratch(&self.params, level + 1 + specials);
        let prime = |i: usize| if i <= level { i } else { self.params.first_special() + i - level - 1 };
        match rounded {
            Rounded::Short(integers) => residue::lift(&self.params, &integers, prime, &mut poly),
            Rounded::Wide(integers) => residue::lift_wide(&self.params, &integers, prime, &mut poly),
        }
        Ok(poly)
    }

    /// The coefficients at a scale, which must fit the level.
    fn round(&self, embedded: &Numbers, level: usize, scale: f64) -> Result<Rounded> {
        let mut integers = Zeroizing::new(vec![0; embedded.coefficients().len()]);
        let largest = fft::scale_and_round(embedded.coefficients(), scale, &mut integers);
        let max = (self.params.log_q(level)? - 1.0).min(WIDEST_BITS);
        if largest.log2() >= max {
            return Err(CkksError::TooLarge { bits: largest.log2(), level, max });
        }
        if largest < SHORT {
            return Ok(Rounded::Short(integers));
        }
        let wide = embedded.coefficients().iter().map(|x| (x * scale).round_ties_even() as i128);
        Ok(Rounded::Wide(Zeroizing::new(wide.collect())))
    }

    /// The integer coefficients of an encoding, before any prime is involved.
    ///
    /// # Errors
    /// As [`Encoder::encode`]; coefficients must be below `2^62` in magnitude, and `out` must have `N`
    /// elements.
    pub fn encode_slots_to_integers(&self, values: &[Complex64], scale: f64, out: &mut [i64]) -> Result<()> {
        if out.len() != self.params.degree() {
            return Err(CkksError::TooMany { what: "coefficients", got: out.len(), max: self.params.degree() });
        }
        self.params.check_scale(self.params.levels(), scale)?;
        let embedded = self.embed(self.params.fft(), values, scale)?;
        let largest = fft::scale_and_round(embedded.coefficients(), scale, out);
        if largest >= SHORT {
            let (bits, max) = (largest.log2(), SHORT.log2());
            return Err(CkksError::TooLarge { bits, level: self.params.levels(), max });
        }
        Ok(())
    }

    /// Encodes integer coefficients; those that are not given are zero.
    ///
    /// # Errors
    /// A level or scale that does not exist, too many values, or a value above the modulus.
    pub fn encode_coefficients<T: Copy + Into<i128>>(
        &self,
        values: &[T],
        level: usize,
        scale: f64,
    ) -> Result<Plaintext> {
        self.params.check_scale(level, scale)?;
        if values.len() > self.params.degree() {
            let max = self.params.degree();
            return Err(CkksError::TooMany { what: "coefficients", got: values.len(), max });
        }
        let wide: Zeroizing<Vec<i128>> = Zeroizing::new(values.iter().map(|&x| x.into()).collect());
        let largest = wide.iter().fold(0, |m, x| m.max(x.unsigned_abs()));
        if !self.params.holds(level, largest) {
            let max = self.params.log_q(level)? - 1.0;
            return Err(CkksError::TooLarge { bits: (largest as f64).log2(), level, max });
        }
        let mut poly = Poly::scratch(&self.params, level + 1);
        residue::lift_wide(&self.params, &wide, |i| i, &mut poly);
        Plaintext::new(&self.params, level, scale, poly)
    }

    /// All slots of a plaintext, as well as `f64` holds them: a slot's error is about `2^-50` of the largest
    /// one, so a *share*, which is `2^70` times its message, has its own way.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`] for a plaintext of another set, [`CkksError::NoMessage`] if a number is
    /// too large for `f64`.
    pub fn decode(&self, message: &Plaintext) -> Result<Vec<Complex64>> {
        self.params.check_same(&message.params)?;
        let n = self.params.slots();
        let mut numbers = Numbers(Aligned::zeroed(4 * n));
        Digits::of(&self.params, &message.poly).to_f64(&mut numbers.0[..2 * n]);
        let (re, im, scratch) = numbers.parts();
        if !re.iter().chain(im.iter()).fold(true, |all, x| all & (x.abs() < HUGE)) {
            return Err(CkksError::NoMessage { level: message.level });
        }
        self.params.fft().forward(re, im, scratch);
        let factor = 1.0 / message.scale;
        Ok(re.iter().zip(im.iter()).map(|(&re, &im)| Complex64::new(re * factor, im * factor)).collect())
    }

    /// All coefficients of a plaintext as centred integers.
    ///
    /// # Errors
    /// [`CkksError::Integer`] if one does not fit 128 bits, [`CkksError::ParamsMismatch`] for a plaintext of
    /// another set.
    pub fn decode_coefficients(&self, message: &Plaintext) -> Result<Vec<i128>> {
        self.params.check_same(&message.params)?;
        message.coefficients()
    }

    /// The inverse transform of the values; the scale is for the error message.
    fn embed(&self, fft: &Fft, values: &[Complex64], scale: f64) -> Result<Numbers> {
        let n = fft.slots();
        if values.len() > n {
            return Err(CkksError::TooMany { what: "slots", got: values.len(), max: n });
        }
        // One verdict for all, and the place only if there is one.
        let fits = |x: f64| x.abs() < HUGE;
        if !values.iter().fold(true, |all, z| all & fits(z.re) & fits(z.im)) {
            let (index, z) = values.iter().enumerate().find(|(_, z)| !(fits(z.re) && fits(z.im))).unwrap_or((0, &NAN));
            if z.is_finite() {
                let bits = z.re.abs().max(z.im.abs()).log2() + scale.log2();
                return Err(CkksError::TooLarge { bits, level: self.params.levels(), max: WIDEST_BITS });
            }
            return Err(CkksError::NotFinite { index });
        }
        let mut numbers = Numbers(Aligned::zeroed(4 * n));
        let (re, im, scratch) = numbers.parts();
        for ((re, im), z) in re.iter_mut().zip(im.iter_mut()).zip(values) {
            (*re, *im) = (z.re, z.im);
        }
        fft.inverse(re, im, scratch);
        Ok(numbers)
    }
}

#[cfg(test)]
#[path = "encoder/tests.rs"]
mod tests;
