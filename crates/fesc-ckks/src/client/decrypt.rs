//! Decryption: `c0 + c1 s`, one product per limb.
//!
//! What comes out holds the noise of the whole computation. It stays with the client: whoever sends decrypted
//! values back to the party that made the ciphertext gives the key away (Li and Micciancio, "On the security
//! of homomorphic encryption on approximate numbers", 2021). In this project the result is one share of a
//! masked value, and only functions of shares travel.

use super::SecretKey;
use crate::poly::Poly;
use crate::residue::Digits;
use crate::{Ciphertext, Masked, Params, Plaintext, Result};

mod sealed {
    use super::{Ciphertext, Masked};

    pub trait Sealed {
        fn inner(&self) -> &Ciphertext;
    }

    impl Sealed for Ciphertext {
        fn inner(&self) -> &Ciphertext {
            self
        }
    }

    impl Sealed for Masked<Ciphertext> {
        fn inner(&self) -> &Ciphertext {
            self.hidden()
        }
    }
}

/// What can be decrypted: a [`Ciphertext`], or what a server sent.
pub trait Decryptable: sealed::Sealed {}

impl Decryptable for Ciphertext {}

impl Decryptable for Masked<Ciphertext> {}

/// Decrypts by the secret key.
pub struct Decryptor<'a> {
    secret: &'a SecretKey,
}

impl<'a> Decryptor<'a> {
    /// For this secret key.
    pub fn new(secret: &'a SecretKey) -> Self {
        Self { secret }
    }

    /// The parameter set.
    pub fn params(&self) -> &Params {
        &self.secret.params
    }

    /// The phase as a plaintext, for [`Encoder::decode`](crate::Encoder::decode).
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`](crate::CkksError::ParamsMismatch) for a ciphertext of another set.
    pub fn decrypt(&self, c: &impl Decryptable) -> Result<Plaintext> {
        let (params, c) = (&self.secret.params, c.inner());
        params.check_same(&c.params)?;
        let mut poly = Poly::scratch(params, c.level + 1);
        poly.for_each_limb(|i, limb| {
            limb.copy_from_slice(c.c0.limb(i));
            params.ntt(i).mul_acc(limb, c.c1.limb(i), self.secret.poly.limb(i));
        });
        Plaintext::new(params, c.level, c.scale, poly)
    }

    /// The client's share of a value under a bounded mask: the phase as centred integers, modulo `2^128`.
    ///
    /// Neither an error nor the work depends on what was decrypted: a server that could tell an out-of-range
    /// phase from another by what the client does would have an oracle for the secret key. A phase that does
    /// not fit is a wrong share and nothing else.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`](crate::CkksError::ParamsMismatch) for a ciphertext of another set, and a
    /// level or scale that does not exist: all public.
    pub fn decrypt_share(&self, c: &Masked<Ciphertext>) -> Result<Vec<i128>> {
        let phase = self.decrypt(c)?;
        Ok(Digits::of_share(&self.secret.params, &phase.poly).to_wrapped())
    }

    /// The phase as centred integers, for whoever made the ciphertext. Not for what another party sent: error
    /// and time depend on the phase ([`Decryptor::decrypt_share`]).
    ///
    /// # Errors
    /// [`CkksError::Integer`](crate::CkksError::Integer) if a coefficient does not fit 128 bits.
    pub fn decrypt_integers(&self, c: &impl Decryptable) -> Result<Vec<i128>> {
        self.decrypt(c)?.coefficients()
    }
}
