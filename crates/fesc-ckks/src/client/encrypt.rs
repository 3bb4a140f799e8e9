//! Encryption by the secret key: `c1 = a` from a seed, `c0 = -a s + e + m`.
//!
//! Half the bytes of a public-key encryption, and less noise: variance `3.2^2` per coefficient. Cost at level `l`: `l + 1`
//! transforms, products and expansions, and `N` Gaussian samples.

use fesc_ring::Prg;
use zeroize::Zeroizing;

use super::SecretKey;
use crate::poly::Poly;
use crate::seed::{self, Label, Seed};
use crate::small::{Small, add_assign};
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
            minus_a_s(self.secret, i, seeds[i], limb);
            let mut noise = Zeroizing::new(vec![0; limb.len()]);
            error.lift(params, i, &mut noise);
            add_assign(params, i, limb, &noise);
            add_assign(params, i, limb, message.poly.limb(i));
        });
        Ok(Upload { params: params.clone(), level: message.level, scale: message.scale, seed, c0 })
    }
}

/// `limb = -a s` modulo prime `i`, with `a` from its seed.
pub(super) fn minus_a_s(secret: &SecretKey, i: usize, seed: Seed, limb: &mut [u64]) {
    let params = &secret.params;
    seed::expand_limb(params, i, seed, limb);
    params.ntt(i).mul_assign(limb, secret.poly.limb(i));
    let modulus = params.modulus(i);
    for x in limb {
        *x = modulus.neg(*x);
    }
}
