//! An encoded message: integer coefficients, transformed, with the scale that turns them into numbers.

use crate::poly::Poly;
use crate::residue::Digits;
use crate::{Params, Result};

/// A plaintext polynomial over `q_0 .. q_level`. Made by the [`Encoder`](crate::Encoder) or by decryption.
#[derive(Clone)]
pub struct Plaintext {
    pub(crate) params: Params,
    pub(crate) level: usize,
    pub(crate) scale: f64,
    /// `level + 1` transformed limbs.
    pub(crate) poly: Poly,
}

metadata!(Plaintext);

impl Plaintext {
    /// Checks level and scale; the polynomial must have `level + 1` limbs.
    pub(crate) fn new(params: &Params, level: usize, scale: f64, poly: Poly) -> Result<Self> {
        params.check_scale(level, scale)?;
        debug_assert_eq!(poly.len(), level + 1);
        Ok(Self { params: params.clone(), level, scale, poly })
    }

    /// All coefficients as centred integers.
    ///
    /// # Errors
    /// [`CkksError::Integer`](crate::CkksError::Integer) if one does not fit 128 bits.
    pub fn coefficients(&self) -> Result<Vec<i128>> {
        Digits::of(&self.params, &self.poly).to_integers(self.level)
    }
}

/// A message is somebody's secret, and its buffer goes back to the pool.
impl Drop for Plaintext {
    fn drop(&mut self) {
        self.poly.wipe();
    }
}
