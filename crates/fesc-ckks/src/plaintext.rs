//! An encoded message: integer coefficients, transformed, with the scale that turns them into numbers.

use zeroize::Zeroizing;

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

metadata!(Plaintext, PeriodicPlaintext);

/// A plaintext whose slots have a period `p`: its polynomial is one in `X^(N / 2p)`, so that a transformed
/// limb is `2p` words, each for a run of `N / 2p` neighbours. Only these are kept. Made by
/// [`Encoder::encode_periodic`](crate::Encoder::encode_periodic).
#[derive(Clone)]
pub struct PeriodicPlaintext {
    pub(crate) params: Params,
    pub(crate) level: usize,
    pub(crate) scale: f64,
    pub(crate) period: usize,
    /// `2 period` words for each of `level + 1` limbs; wiped, since a message is somebody's secret.
    pub(crate) words: Zeroizing<Vec<u64>>,
}

impl PeriodicPlaintext {
    /// The period of the slots.
    pub fn period(&self) -> usize {
        self.period
    }

    /// The `2p` words of limb `i`.
    pub(crate) fn limb(&self, i: usize) -> &[u64] {
        &self.words[2 * self.period * i..2 * self.period * (i + 1)]
    }
}

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
