//! Encryption by the secret key: `c1 = a` from a seed, `c0 = -a s + e + m`.
//!
//! Half the bytes of a public-key encryption, and less noise: variance `3.2^2` per coefficient. Cost at level
//! `l`: `l + 1` transforms, products and expansions, and `N` Gaussian samples.

use fesc_ring::Prg;

use super::SecretKey;
use crate::poly::{Poly, SecretLimb};
use crate::seed::{self, Label, Seed};
use crate::small::Small;
use crate::{Plaintext, Result, Upload};

/// Encrypts by the secret key.
pub struct SecretEncryptor<'a> {
    secret: &'a SecretKey,
}

impl<'a> SecretEncryptor<'a> {
    /// For this secret key.
    pub fn new(secret: &'a SecretKey) -> Self {
        Self { secret }
    }

    /// A fresh encryption, in the form that travels. Every call draws a fresh seed and fresh noise.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`](crate::CkksError::ParamsMismatch) for a plaintext of another set.
    pub fn encrypt(&self, message: &Plaintext, prg: &mut Prg) -> Result<Upload> {
        let params = &self.secret.params;
        params.check_same(&message.params)?;
        let seed = seed::fresh(prg);
        let error = Small::gaussian(params, prg);
        let mut c0 = Poly::scratch(params, message.level + 1);
        let seeds = seed::limb_seeds(&mut seed::stream(params, Label::Upload, seed), c0.len());
        c0.for_each_limb(|i, limb| {
            mask_limb(self.secret, i, seeds[i], &error, limb);
            params.prime(i).add_assign(limb, message.poly.limb(i));
        });
        Ok(Upload { params: params.clone(), level: message.level, scale: message.scale, seed, c0 })
    }
}

/// `limb = e - a s` modulo prime `i`, with `a` from its seed.
pub(super) fn mask_limb(secret: &SecretKey, i: usize, seed: Seed, error: &Small, limb: &mut [u64]) {
    let params = &secret.params;
    error.lift(params, i, limb);
    let mut product = SecretLimb::take(params);
    seed::expand_limb(params, i, seed, &mut product);
    params.ntt(i).mul_assign(&mut product, secret.poly.limb(i));
    params.prime(i).sub_assign(limb, &product);
}
