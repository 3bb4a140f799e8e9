//! The secret key.
//!
//! It has no wire form. Its owner may keep it in a private file, between sessions that use the same
//! evaluation keys: [`SecretKey::keep`], two bits for each coefficient (0, 1, or 2 for -1; four to a byte,
//! least significant first).

use fesc_ring::Prg;
use zeroize::Zeroizing;

use crate::poly::Poly;
use crate::small::Small;
use crate::{CkksError, Params, Result, WireError};

/// A uniform ternary secret. Wiped on drop; no `Clone`, `Debug` or wire form.
pub struct SecretKey {
    pub(crate) params: Params,
    pub(crate) small: Small,
    /// Transformed, over all primes. In memory of its own, never the pool's.
    pub(crate) poly: Poly,
}

impl SecretKey {
    /// A fresh key.
    pub fn generate(params: &Params, prg: &mut Prg) -> Self {
        Self::of(params, Small::ternary(params, prg))
    }

    fn of(params: &Params, small: Small) -> Self {
        let mut poly = Poly::owned(params, params.primes());
        poly.for_each_limb(|i, limb| small.lift(params, i, limb));
        Self { params: params.clone(), small, poly }
    }

    /// The parameter set.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Bytes of [`SecretKey::keep`].
    pub fn kept_bytes(params: &Params) -> usize {
        params.degree() / 4
    }

    /// The key as bytes for its owner's own file. Whoever reads them decrypts everything.
    pub fn keep(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(vec![0; Self::kept_bytes(&self.params)]);
        let digits = self.small.coefficients().iter().map(|&c| if c < 0 { 2 } else { c as u8 });
        digits.enumerate().for_each(|(i, digit)| bytes[i / 4] |= digit << (2 * (i % 4)));
        bytes
    }

    /// The key of these bytes.
    ///
    /// # Errors
    /// [`CkksError::Wire`] for another length, or a coefficient that is none.
    pub fn restore(params: &Params, bytes: &[u8]) -> Result<Self> {
        let (what, expected) = ("secret key", Self::kept_bytes(params));
        if bytes.len() != expected {
            return Err(CkksError::Wire { what, cause: WireError::Length { expected, got: bytes.len() } });
        }
        let digit = |i: usize| i64::from(bytes[i / 4] >> (2 * (i % 4)) & 3);
        // All of them are looked at, whatever they are.
        if (0..params.degree()).filter(|&i| digit(i) == 3).count() > 0 {
            return Err(CkksError::Wire { what, cause: WireError::Residue { limb: 0, prime: 3 } });
        }
        let small = Small::from_coefficients(params, |i| digit(i) - 3 * (digit(i) >> 1));
        Ok(Self::of(params, small))
    }
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        self.poly.wipe();
    }
}
