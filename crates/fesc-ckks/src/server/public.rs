//! The client's public key at the server: encryptions, and fresh encryptions of zero.
//!
//! The key is `(b, a)`, `b = -a s + e`. An encryption of `m` is `(b u + e0 + m, a u + e1)` with fresh ternary `u` and fresh errors; its phase is
//! `m + e u + e0 + e1 s`, of variance `3.2^2 (1 + 4N/3)` per coefficient. At level `l` the first `l + 1` limbs of the key are a
//! key of that level, so nothing is computed above it. Cost: `3 (l + 1)` transforms, `2N` Gaussian samples.

use fesc_ring::Prg;

use crate::poly::{Poly, SecretLimb};
use crate::seed::{self, Label, Seed};
use crate::small::Small;
use crate::{Ciphertext, FreshZero, Params, Plaintext, Result};

/// A public key, received from a client.
pub struct PublicKey {
    pub(crate) params: Params,
    pub(crate) seed: Seed,
    /// Over all data primes, transformed.
    pub(crate) b: Poly,
    a: Poly,
}

impl PublicKey {
    /// Expands the uniform half.
    pub(crate) fn new(params: &Params, seed: Seed, b: Poly) -> Self {
        let mut a = Poly::owned(params, b.len());
        seed::uniform(params, &mut seed::stream(params, Label::Public, seed), &mut a);
        Self { params: params.clone(), seed, b, a }
    }

    /// The parameter set.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// A fresh encryption.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`](crate::CkksError::ParamsMismatch) for a plaintext of another set.
    pub fn encrypt(&self, message: &Plaintext, prg: &mut Prg) -> Result<Ciphertext> {
        self.params.check_same(&message.params)?;
        let (mut c0, c1) = self.encrypt_zero(message.level, prg);
        c0.for_each_limb(|i, limb| self.params.prime(i).add_assign(limb, message.poly.limb(i)));
        Ok(Ciphertext { params: self.params.clone(), level: message.level, scale: message.scale, c0, c1 })
    }

    /// A fresh encryption of zero at `level`, for one use.
    ///
    /// # Errors
    /// [`CkksError::Level`](crate::CkksError::Level) if there is no such level.
    pub fn zero(&self, level: usize, prg: &mut Prg) -> Result<FreshZero> {
        self.params.check_level(level)?;
        let (c0, c1) = self.encrypt_zero(level, prg);
        Ok(FreshZero { params: self.params.clone(), level, c0, c1 })
    }

    fn encrypt_zero(&self, level: usize, prg: &mut Prg) -> (Poly, Poly) {
        let params = &self.params;
        let u = Small::ternary(params, prg);
        let errors = [Small::gaussian(params, prg), Small::gaussian(params, prg)];
        let (mut c0, mut c1) = (Poly::scratch(params, level + 1), Poly::scratch(params, level + 1));
        Poly::for_each_limb_of_two(&mut c0, &mut c1, |i, x0, x1| {
            let mut factor = SecretLimb::take(params);
            u.lift(params, i, &mut factor);
            errors[0].lift(params, i, x0);
            errors[1].lift(params, i, x1);
            params.ntt(i).mul_acc(x0, self.b.limb(i), &factor);
            params.ntt(i).mul_acc(x1, self.a.limb(i), &factor);
        });
        (c0, c1)
    }
}
