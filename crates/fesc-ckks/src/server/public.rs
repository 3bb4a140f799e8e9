//! The client's public key at the server: encryptions, and fresh encryptions of zero.
//!
//! The key is `(b, a)`, `b = -a s + e`, over `Q P`. An encryption of zero over `q_0 .. q_l` and the special
//! primes is `(b u + e0, a u + e1)` with fresh ternary `u` and fresh errors; its phase `e u + e0 + e1 s` has
//! the variance `3.2^2 (1 + 4N/3)`. Division by `P`, rounded, takes that away and leaves the rounding,
//! `(1 + 2N/3) / 12`: one rescaling's worth, where an encryption over `Q` alone would have 11 times the
//! deviation. A message is added after the division. Both halves stay pseudorandom: a division by `P` takes
//! uniform pairs over `Q P` to uniform pairs over `Q`.
//!
//! Cost: `3 (l + 1 + K)` transforms, `2 (K + l + 1)` of the division, `2N` Gaussian samples.

use fesc_ring::Prg;

use crate::poly::{Poly, SecretLimb};
use crate::seed::{self, Label, Seed};
use crate::small::Small;
use crate::switch::{Division, prime_at};
use crate::{Ciphertext, FreshZero, Params, Plaintext, Result};

use super::KeyId;

/// A public key, received from a client.
pub struct PublicKey {
    pub(crate) params: Params,
    id: KeyId,
    pub(crate) seed: Seed,
    /// Over all primes, transformed.
    pub(crate) b: Poly,
    a: Poly,
    /// By `P`, by level.
    divisions: Vec<Division>,
}

impl PublicKey {
    /// Expands the uniform half.
    pub(crate) fn new(params: &Params, seed: Seed, b: Poly) -> Result<Self> {
        let mut a = Poly::owned(params, b.len());
        seed::uniform(params, &mut seed::stream(params, Label::Public, seed), &mut a);
        let (id, divisions) = (KeyId::of(params, seed, &b), Division::by_specials(params)?);
        Ok(Self { params: params.clone(), id, seed, b, a, divisions })
    }

    /// What ties the client's other objects to this key.
    pub fn id(&self) -> KeyId {
        self.id
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
        let [mut c0, c1] = self.encrypt_zero(message.level, prg);
        c0.for_each_limb(|i, limb| self.params.prime(i).add_assign(limb, message.poly.limb(i)));
        let (level, scale) = (message.level, message.scale);
        Ok(Ciphertext { params: self.params.clone(), owner: self.id, level, scale, c0, c1 })
    }

    /// A fresh encryption of zero at `level`, for one use.
    ///
    /// # Errors
    /// [`CkksError::Level`](crate::CkksError::Level) if there is no such level.
    pub fn zero(&self, level: usize, prg: &mut Prg) -> Result<FreshZero> {
        self.params.check_level(level)?;
        let [c0, c1] = self.encrypt_zero(level, prg);
        Ok(FreshZero { params: self.params.clone(), owner: self.id, level, c0, c1 })
    }

    fn encrypt_zero(&self, level: usize, prg: &mut Prg) -> [Poly; 2] {
        let params = &self.params;
        let u = Small::ternary(params, prg);
        let errors = [Small::gaussian(params, prg), Small::gaussian(params, prg)];
        let limbs = level + 1 + params.specials();
        let (mut c0, mut c1) = (Poly::scratch(params, limbs), Poly::scratch(params, limbs));
        Poly::for_each_limb_of_two(&mut c0, &mut c1, |place, x0, x1| {
            let i = prime_at(params, level, place);
            let mut factor = SecretLimb::take(params);
            u.lift(params, i, &mut factor);
            errors[0].lift(params, i, x0);
            errors[1].lift(params, i, x1);
            params.ntt(i).mul_acc(x0, self.b.limb(i), &factor);
            params.ntt(i).mul_acc(x1, self.a.limb(i), &factor);
        });
        self.divisions[level].divide_pair(params, [&c0, &c1])
    }
}
