//! Keys for a server: the public key, and key-switching keys one at a time.
//!
//! Cost of a key-switching key: one error polynomial per digit, and one transform per digit and prime.
//! Memory: one [`SeededKey`] at a time, since [`KeyGenerator::keys`] is lazy; [`EvaluationKeyPlan::bytes`]
//! says the size of all before.

use fesc_ring::Prg;

use super::SecretKey;
use super::encrypt::mask_limb;
use crate::poly::{Poly, SecretLimb};
use crate::seed::{self, Label};
use crate::server::{EvaluationKeyPlan, KeyPurpose, PublicKey, SeededKey};
use crate::small::Small;
use crate::{CkksError, Result};

/// Makes keys from a secret key.
pub struct KeyGenerator<'a> {
    secret: &'a SecretKey,
}

impl<'a> KeyGenerator<'a> {
    /// For this secret key.
    pub fn new(secret: &'a SecretKey) -> Self {
        Self { secret }
    }

    /// The public key: an encryption of zero over all primes.
    ///
    /// # Errors
    /// None for a checked set.
    pub fn public_key(&self, prg: &mut Prg) -> Result<PublicKey> {
        let params = &self.secret.params;
        let seed = seed::fresh(prg);
        let error = Small::gaussian(params, prg);
        let mut b = Poly::owned(params, params.primes());
        let seeds = seed::limb_seeds(&mut seed::stream(params, Label::Public, seed), b.len());
        b.for_each_limb(|i, limb| mask_limb(self.secret, i, seeds[i], &error, limb));
        PublicKey::new(params, seed, b)
    }

    /// The key that turns products of two ciphertexts back into ciphertexts.
    ///
    /// # Errors
    /// None; the result is one for symmetry with [`KeyGenerator::key`].
    pub fn relinearisation_key(&self, prg: &mut Prg) -> Result<SeededKey> {
        self.key(KeyPurpose::Relinearisation, prg)
    }

    /// All keys of a plan, made one after the other as the iterator is asked for them.
    pub fn keys<'b>(
        &'b self,
        plan: &EvaluationKeyPlan,
        prg: &'b mut Prg,
    ) -> impl Iterator<Item = Result<SeededKey>> + use<'a, 'b> {
        plan.purposes(&self.secret.params).into_iter().map(move |purpose| self.key(purpose, prg))
    }

    /// One key-switching key (formula in `server/keys.rs`).
    ///
    /// # Errors
    /// [`CkksError::Galois`] for an element that is even, 1 or not below `2N`.
    pub fn key(&self, purpose: KeyPurpose, prg: &mut Prg) -> Result<SeededKey> {
        let params = &self.secret.params;
        let order = 2 * params.degree() as u32;
        let rotated = match purpose {
            KeyPurpose::Relinearisation => None,
            KeyPurpose::Galois(element) if element % 2 == 0 || element == 1 || element >= order => {
                return Err(CkksError::Galois { element, order });
            }
            KeyPurpose::Galois(element) => Some(self.secret.small.automorphism(element)),
        };
        let seed = seed::fresh(prg);
        let mut stream = seed::stream(params, Label::Key(purpose), seed);
        let mut b = Vec::with_capacity(params.digits(params.levels()));
        for d in 0..params.digits(params.levels()) {
            let digit = params.digit(d, params.levels());
            let seeds = seed::limb_seeds(&mut stream, params.primes());
            let error = Small::gaussian(params, prg);
            let mut part = Poly::owned(params, params.primes());
            part.for_each_limb(|i, limb| {
                mask_limb(self.secret, i, seeds[i], &error, limb);
                if digit.contains(&i) {
                    self.add_target(i, rotated.as_ref(), limb);
                }
            });
            b.push(part);
        }
        Ok(SeededKey { params: params.clone(), purpose, seed, b })
    }

    /// `limb += P s'` modulo data prime `i`, where `s'` is `rotated`, or `s^2` if there is none.
    fn add_target(&self, i: usize, rotated: Option<&Small>, limb: &mut [u64]) {
        let params = &self.secret.params;
        let modulus = params.modulus(i);
        let p = (params.first_special()..params.primes())
            .fold(1, |p, k| modulus.mul(p, modulus.reduce(params.modulus(k).value())));
        let s = self.secret.poly.limb(i);
        let mut target = SecretLimb::take(params);
        match rotated {
            Some(rotated) => rotated.lift(params, i, &mut target),
            None => params.prime(i).mul(s, s, &mut target),
        }
        params.prime(i).scale_assign(modulus.shoup(p), &mut target);
        params.prime(i).add_assign(limb, &target);
    }
}
