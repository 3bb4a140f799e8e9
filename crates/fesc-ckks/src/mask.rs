//! What may leave a server: a ciphertext that was re-randomised and masked.
//!
//! A result `(c0, c1)` of a server's computation depends on its weights: `c1` is a linear function of them
//! and of values that the client knows, and the noise in the phase depends on them too.
//! [`Ciphertext::mask`] adds
//!
//! - a fresh public-key encryption of zero, used once: `c1` becomes pseudorandom under its `u`
//!   ([`FreshZero`]), and
//! - a mask `R` on every coefficient of the phase ([`RingMask`]); `-R` is the server's [`Share`].
//!
//! A *uniform* mask leaves a phase that is uniform modulo `q`: nothing is left to learn. A *bounded* mask is
//! an integer `|R| <= 2^width` that never wraps, so that both shares can be decoded as integers.
//! With `B` a bound on the phase with all noise, this encryption of zero included, and `n` masked
//! coefficients in one inference,
//!
//! ```text
//! width = ceil(log2 B) + 40 + ceil(log2 n),    q > 2^(width + 1) + 2 B,
//! ```
//!
//! the client's whole view is within `n B / 2^(width + 1) <= 2^-41` of one that does not depend on the phase
//! (a bounded mask that is shifted by at most `B` changes each coefficient's distribution by
//! `B / 2^(width + 1)`). That is for one inference; over many it adds up ([`Distance`]). That `B` and `n`
//! are right is the caller's duty; nothing here can measure them. A `B` below six deviations of the fresh
//! zero's own noise is refused, and one below the scale, at which already a value of 1 has a larger phase.
//!
//! The zero must be under the key of the ciphertext's owner; another is refused
//! ([`KeyId`] says why).
//!
//! A fresh zero is consumed by its use and cannot be copied; each of these lines but the first is refused by
//! the compiler:
//!
//! ```
//! use fesc_ckks::{Ciphertext, FreshZero, RingMask};
//! fn once(a: Ciphertext, zero: FreshZero, m: RingMask) { let _ = a.mask(zero, m); }
//! ```
//! ```compile_fail,E0382
//! use fesc_ckks::{Ciphertext, FreshZero, RingMask};
//! fn twice(a: Ciphertext, b: Ciphertext, zero: FreshZero, m: RingMask, n: RingMask) {
//!     let _ = a.mask(zero, m);
//!     let _ = b.mask(zero, n);
//! }
//! ```
//! ```compile_fail,E0308
//! fn copy(zero: &fesc_ckks::FreshZero) -> fesc_ckks::FreshZero { zero.clone() }
//! ```
//! ```compile_fail,E0423
//! // No ciphertext becomes `Masked` without a mask.
//! fn pass(c: fesc_ckks::Ciphertext) -> fesc_ckks::Masked<fesc_ckks::Ciphertext> { fesc_ckks::Masked(c) }
//! ```

mod distance;

use fesc_ring::{Prg, sample};
use zeroize::Zeroize;

pub use distance::{Distance, QUERIES};

use crate::poly::Poly;
use crate::residue;
use crate::server::KeyId;
use crate::{Ciphertext, CkksError, Params, Plaintext, Result, noise};

/// Bits of statistical security over all masked coefficients of an inference.
pub const STATISTICAL_BITS: u32 = 40;
/// Widest bounded mask: a share and a message still fit 128 bits together.
pub const MAX_WIDTH: u32 = 124;

/// Width of a bounded mask over phases below `2^phase_bits`, when `count` coefficients are masked in one
/// inference.
pub const fn mask_width(phase_bits: u32, count: u64) -> u32 {
    let log_count = u64::BITS - count.saturating_sub(1).leading_zeros();
    phase_bits.saturating_add(STATISTICAL_BITS).saturating_add(log_count)
}

/// Whether a modulus of `log_q` bits holds a bounded mask and its phase.
fn holds(log_q: f64, width: u32) -> bool {
    // B is at most 2^(width - 40), so 2B adds less than 2^-39 to the logarithm.
    log_q > f64::from(width) + 1.0 + 2f64.powi(-30)
}

/// Refuses a bound on phases that cannot be one: below six deviations of the fresh zero's own noise, or below
/// the scale, at which already a value of 1 has a larger phase.
///
/// # Errors
/// [`CkksError::MaskNarrow`], [`CkksError::MaskBelowScale`].
pub fn check_bound(params: &Params, phase_bits: u32, scale: f64) -> Result<()> {
    let need = (6.0 * noise::fresh_public(params).sqrt()).log2().ceil() as u32;
    if phase_bits < need {
        return Err(CkksError::MaskNarrow { phase_bits, need });
    }
    let log_scale = scale.log2();
    if f64::from(phase_bits) < log_scale {
        return Err(CkksError::MaskBelowScale { phase_bits, log_scale });
    }
    Ok(())
}

/// A fresh encryption of zero, for one use. Made by [`PublicKey::zero`](crate::server::PublicKey::zero).
pub struct FreshZero {
    pub(crate) params: Params,
    /// Whose key it is under.
    pub(crate) owner: KeyId,
    pub(crate) level: usize,
    pub(crate) c0: Poly,
    pub(crate) c1: Poly,
}

#[cfg(any(test, feature = "testing"))]
impl FreshZero {
    /// No encryption of zero at all: what a server that forgets to re-randomise adds. For tests of what that
    /// gives away.
    ///
    /// # Errors
    /// [`CkksError::Level`] if there is no such level.
    pub fn forgotten(key: &crate::server::PublicKey, level: usize) -> Result<Self> {
        let params = key.params();
        params.check_level(level)?;
        let nothing = || Poly::zero(params, level + 1);
        Ok(Self { params: params.clone(), owner: key.id(), level, c0: nothing(), c1: nothing() })
    }
}

/// A mask for all coefficients of one ciphertext, for one use.
pub struct RingMask {
    params: Params,
    level: usize,
    /// Transformed.
    poly: Poly,
    /// The integers, if the mask is bounded.
    integers: Option<Vec<i128>>,
    /// Bits of the phase that a bounded mask is for.
    phase_bits: u32,
    /// How far all masks of its inference together are from hiding everything.
    distance: Distance,
}

/// The server's part of a masked value: it and the client's decryption add up to the phase.
pub enum Share {
    /// Modulo the primes of the level: the other part of a uniform mask.
    Residues(Plaintext),
    /// Integers with the ciphertext's scale: the other part of a bounded mask.
    Integers {
        /// One integer per coefficient.
        values: Vec<i128>,
        /// The scale.
        scale: f64,
    },
}

/// A ciphertext that may travel to a client. Made by [`Ciphertext::mask`], or read from the wire.
pub struct Masked<T>(T);

impl RingMask {
    /// Uniform modulo `q_0 ... q_level` in every coefficient.
    ///
    /// # Errors
    /// [`CkksError::Level`] if there is no such level.
    pub fn uniform(params: &Params, level: usize, prg: &mut Prg) -> Result<Self> {
        params.check_level(level)?;
        let mut poly = Poly::owned(params, level + 1);
        for i in 0..=level {
            // Uniform values are uniform coefficients.
            sample::uniform_mod(prg, params.modulus(i), poly.limb_mut(i));
        }
        Ok(Self { params: params.clone(), level, poly, integers: None, phase_bits: u32::MAX, distance: Distance::NONE })
    }

    /// Uniform integers in `[-2^width, 2^width)`, `width` by [`mask_width`].
    ///
    /// # Errors
    /// [`CkksError::MaskWraps`] if the modulus of the level is too small, [`CkksError::MaskWidth`] above
    /// [`MAX_WIDTH`].
    pub fn bounded(params: &Params, level: usize, phase_bits: u32, count: u64, prg: &mut Prg) -> Result<Self> {
        let width = mask_width(phase_bits, count);
        if width > MAX_WIDTH {
            return Err(CkksError::MaskWidth { width, max: MAX_WIDTH });
        }
        let log_q = params.log_q(level)?;
        if !holds(log_q, width) {
            return Err(CkksError::MaskWraps { width, phase_bits, need: width + 2, level, log_q });
        }
        let mut mask = Self::with_width(params, level, width, prg);
        mask.phase_bits = phase_bits;
        mask.distance = Distance::of_bounded(phase_bits, count);
        Ok(mask)
    }

    /// The smallest level whose modulus holds a bounded mask; `None` if there is none.
    pub fn smallest_level(params: &Params, phase_bits: u32, count: u64) -> Option<usize> {
        let width = mask_width(phase_bits, count);
        (0..=params.levels()).find(|&level| params.log_q(level).is_ok_and(|log_q| holds(log_q, width)))
    }

    /// How far the client's view of one inference, all its `count` masked coefficients together, is from one
    /// that does not depend on the phases: nothing for a uniform mask. [`Distance::over`] sums up over
    /// queries.
    pub fn distance(&self) -> Distance {
        self.distance
    }

    /// Without the checks; the level exists and `width` is at most [`MAX_WIDTH`].
    pub(crate) fn with_width(params: &Params, level: usize, width: u32, prg: &mut Prg) -> Self {
        let half = 1i128 << width;
        let draw = |_| (prg.next_u128() >> (127 - width)) as i128 - half;
        let integers: Vec<i128> = (0..params.degree()).map(draw).collect();
        let mut poly = Poly::owned(params, level + 1);
        residue::lift_wide(params, &integers, |i| i, &mut poly);
        let (phase_bits, distance) = (u32::MAX, Distance::ALL);
        Self { params: params.clone(), level, poly, integers: Some(integers), phase_bits, distance }
    }

    /// The other part of the mask.
    fn share(mut self, scale: f64) -> Result<Share> {
        if let Some(mut values) = self.integers.take() {
            values.iter_mut().for_each(|x| *x = -*x);
            return Ok(Share::Integers { values, scale });
        }
        let mut poly = self.poly.clone();
        poly.for_each_limb(|i, limb| {
            let modulus = self.params.modulus(i);
            limb.iter_mut().for_each(|x| *x = modulus.neg(*x));
        });
        Ok(Share::Residues(Plaintext::new(&self.params, self.level, scale, poly)?))
    }
}

impl Drop for RingMask {
    fn drop(&mut self) {
        self.poly.wipe();
        self.integers.zeroize();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Share::Integers { values, .. } = self {
            values.zeroize();
        }
    }
}

impl Ciphertext {
    /// Re-randomises and masks. The only way to a form that can be written to the wire.
    ///
    /// # Errors
    /// [`CkksError::LevelMismatch`], [`CkksError::ParamsMismatch`] or [`CkksError::KeyMismatch`] if the three
    /// do not belong together, [`CkksError::MaskNarrow`] for a mask that does not even cover noise,
    /// [`CkksError::MaskBelowScale`] for one that covers no value of 1.
    pub fn mask(mut self, zero: FreshZero, mask: RingMask) -> Result<(Masked<Ciphertext>, Share)> {
        for (params, level) in [(&zero.params, zero.level), (&mask.params, mask.level)] {
            self.params.check_same(params)?;
            if level != self.level {
                return Err(CkksError::LevelMismatch { left: self.level, right: level });
            }
        }
        self.owner.check_same(zero.owner)?;
        let params = &self.params;
        check_bound(params, mask.phase_bits, self.scale)?;
        Poly::for_each_limb_of_two(&mut self.c0, &mut self.c1, |i, c0, c1| {
            params.prime(i).add_assign(c0, zero.c0.limb(i));
            params.prime(i).add_assign(c0, mask.poly.limb(i));
            params.prime(i).add_assign(c1, zero.c1.limb(i));
        });
        let share = mask.share(self.scale)?;
        Ok((Masked(self), share))
    }
}

impl Masked<Ciphertext> {
    /// From the wire.
    pub(crate) fn received(c: Ciphertext) -> Self {
        Self(c)
    }

    pub(crate) fn hidden(&self) -> &Ciphertext {
        &self.0
    }

    /// The level.
    pub fn level(&self) -> usize {
        self.0.level
    }

    /// The scale.
    pub fn scale(&self) -> f64 {
        self.0.scale
    }

    /// The parameter set.
    pub fn params(&self) -> &Params {
        &self.0.params
    }
}

#[cfg(test)]
#[path = "mask/tests.rs"]
mod tests;
