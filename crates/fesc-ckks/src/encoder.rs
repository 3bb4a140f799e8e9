//! Numbers to plaintexts and back: slots (the canonical embedding) and coefficients.
//!
//! With `n = N/2` slots and `zeta = exp(i pi / N)`, slot `j` of the polynomial `m` at scale `S` is `m(zeta^(5^j)) / S` (CKKS 2017, section 3;
//! HEAAN's order, so that `X -> X^5` rotates by one slot to the left). Because `zeta^(n 5^j) = i`, the `N` real coefficients are `n`
//! complex numbers `c_k + i c_(k+n)`, and a transform of `n` points does it all. Encoding rounds each coefficient to the nearest
//! integer (ties to even): an error of at most `sqrt(N/12) / S` in a slot on average, besides that of `f64` itself
//! (relative `2^-53` times about `log2 N`, of the largest slot).
//!
//! Coefficient encoding takes integers as they are; that is what the share boundary uses. Values that do not fit below the modulus are
//! refused with the numbers.
//!
//! Cost: one transform of `n` complex points, then one number-theoretic transform per limb.

#[path = "encoder/fft.rs"]
mod fft;

use fesc_ring::aligned::Aligned;
use fft::Fft;
use num_complex::Complex64;
use zeroize::Zeroizing;

use crate::poly::Poly;
use crate::residue::{self, Digits};
use crate::{CkksError, Params, Plaintext, Result};

/// Coefficients up to here are rounded by adding `1.5 * 2^52`, which vectorises on every processor.
const FAST: f64 = (1u64 << 51) as f64;
/// Wide integers hold coefficients below this.
const WIDEST_BITS: f64 = 126.0;
/// Sums of `N` values below this stay finite.
const HUGE: f64 = 1e300;
const NAN: Complex64 = Complex64::new(f64::NAN, f64::NAN);

/// Encodes and decodes for one set. Immutable; share it freely.
pub struct Encoder {
    params: Params,
    fft: Fft,
}

/// The real coefficients of a message before rounding.
struct Embedded {
    re: Aligned<f64>,
    im: Aligned<f64>,
    largest: f64,
}

impl Encoder {
    /// Prepares the transform.
    pub fn new(params: &Params) -> Self {
        Self { params: params.clone(), fft: Fft::new(params.slots()) }
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
        let values: Zeroizing<Vec<f64>> = Zeroizing::new(values.to_vec());
        let complex: Vec<Complex64> = values.iter().map(|&x| Complex64::new(x, 0.0)).collect();
        self.encode(&complex, level, scale)
    }

    /// Over `q_0 .. q_level` and then the first `specials` special primes: for plaintexts that meet undivided key switches.
    pub(crate) fn encode_poly(&self, values: &[Complex64], level: usize, scale: f64, specials: usize) -> Result<Poly> {
        self.params.check_scale(level, scale)?;
        let embedded = self.embed(values, scale)?;
        let max = (self.params.log_q(level)? - 1.0).min(WIDEST_BITS);
        let bits = embedded.largest.log2();
        if bits >= max {
            return Err(CkksError::TooLarge { bits, level, max });
        }
        let mut poly = Poly::scratch(&self.params, level + 1 + specials);
        let prime = |i: usize| if i <= level { i } else { self.params.first_special() + i - level - 1 };
        if embedded.largest < FAST {
            let mut integers = Zeroizing::new(vec![0; self.params.degree()]);
            embedded.round(&mut integers);
            residue::lift(&self.params, &integers, prime, &mut poly);
        } else {
            let wide = embedded.re.iter().chain(embedded.im.iter()).map(|x| x.round_ties_even() as i128);
            let wide: Zeroizing<Vec<i128>> = Zeroizing::new(wide.collect());
            residue::lift_wide(&self.params, &wide, prime, &mut poly);
        }
        Ok(poly)
    }

    /// The integer coefficients of an encoding, before any prime is involved.
    ///
    /// # Errors
    /// As [`Encoder::encode`]; coefficients must be below `2^51` in magnitude, and `out` must have `N` elements.
    pub fn encode_slots_to_integers(&self, values: &[Complex64], scale: f64, out: &mut [i64]) -> Result<()> {
        if out.len() != self.params.degree() {
            return Err(CkksError::TooMany { what: "coefficients", got: out.len(), max: self.params.degree() });
        }
        let embedded = self.embed(values, scale)?;
        if embedded.largest >= FAST {
            let (bits, max) = (embedded.largest.log2(), FAST.log2());
            return Err(CkksError::TooLarge { bits, level: self.params.levels(), max });
        }
        embedded.round(out);
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

    /// All slots of a plaintext. Right at every level and for every coefficient up to half the modulus.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`] for a plaintext of another set.
    pub fn decode(&self, message: &Plaintext) -> Result<Vec<Complex64>> {
        self.params.check_same(&message.params)?;
        let n = self.params.slots();
        let mut coefficients = Zeroizing::new(vec![0.0; 2 * n]);
        Digits::of(&self.params, &message.poly).to_f64(&mut coefficients);
        let (re, im) = coefficients.split_at_mut(n);
        self.fft.forward(re, im);
        let factor = 1.0 / message.scale;
        Ok(re.iter().zip(im.iter()).map(|(&re, &im)| Complex64::new(re * factor, im * factor)).collect())
    }

    /// All coefficients of a plaintext as centred integers.
    ///
    /// # Errors
    /// [`CkksError::Integer`] if one does not fit 128 bits, [`CkksError::ParamsMismatch`] for a plaintext of another set.
    pub fn decode_coefficients(&self, message: &Plaintext) -> Result<Vec<i128>> {
        self.params.check_same(&message.params)?;
        message.coefficients()
    }

    /// The inverse transform of the values times the scale.
    fn embed(&self, values: &[Complex64], scale: f64) -> Result<Embedded> {
        let n = self.params.slots();
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
        let (mut re, mut im) = (Aligned::zeroed(n), Aligned::zeroed(n));
        for ((re, im), z) in re.iter_mut().zip(im.iter_mut()).zip(values) {
            (*re, *im) = (z.re, z.im);
        }
        self.fft.inverse(&mut re, &mut im);
        let largest = scale_all(&mut re, scale).max(scale_all(&mut im, scale));
        Ok(Embedded { re, im, largest })
    }
}

/// Multiplies by `scale`; returns the largest magnitude. No sum of finite values below [`HUGE`] is infinite, so none is NaN.
fn scale_all(values: &mut [f64], scale: f64) -> f64 {
    // Eight maxima side by side: one alone would wait for itself.
    let mut largest = [0f64; 8];
    let (chunks, rest) = values.as_chunks_mut::<8>();
    for chunk in chunks {
        for (x, m) in chunk.iter_mut().zip(&mut largest) {
            *x *= scale;
            *m = if x.abs() > *m { x.abs() } else { *m };
        }
    }
    for (x, m) in rest.iter_mut().zip(&mut largest) {
        *x *= scale;
        *m = m.max(x.abs());
    }
    largest.into_iter().fold(0.0, f64::max)
}

impl Embedded {
    /// Rounds to the nearest integers, ties to even. All coefficients must be below [`FAST`].
    fn round(&self, out: &mut [i64]) {
        /// In `[2^52, 2^53)` the last bit of a double is 1: the sum is the rounded number.
        const MAGIC: f64 = 6_755_399_441_055_744.0;
        let (first, second) = out.split_at_mut(self.re.len());
        for (out, values) in [(first, &self.re), (second, &self.im)] {
            for (o, &x) in out.iter_mut().zip(values.iter()) {
                *o = ((x + MAGIC).to_bits() as i64).wrapping_sub(MAGIC.to_bits() as i64);
            }
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.re);
        zeroize::Zeroize::zeroize(&mut self.im);
    }
}

#[cfg(test)]
#[path = "encoder/tests.rs"]
mod tests;
