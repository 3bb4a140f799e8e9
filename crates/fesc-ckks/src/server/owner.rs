//! Whose key an object belongs to.
//!
//! A server has many clients. What it computed for one of them must be re-randomised by an encryption of zero
//! under that client's key and no other. With the zero of another key `s'` and a bounded mask `R`, `c0 + z0 +
//! R + (c1 + z1) s'` is `c1 (s' - s)` plus what is small beside `q`, and `c1` is a linear function of the
//! server's weights: whoever has both keys, two clients or one that came twice, tests guesses of the weights
//! against it (`a_zero_of_another_key_would_let_weights_be_guessed`).
//!
//! So a ciphertext carries the [`KeyId`] of its owner from [`Upload::expand`](crate::Upload::expand) on,
//! evaluation keys and fresh zeros carry one too, and operations on objects of two owners are refused. An id
//! is a hash of the public key, so two copies of a key have one id, and there is no way to one but through a
//! key. It does not travel: a server knows whose bytes it reads. Two public keys of one secret key count as
//! two owners.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::poly::Poly;
use crate::seed::Seed;
use crate::{CkksError, Params, Result};

/// Names a client's public key: 16 bytes of a hash of it. Not secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId([u8; 16]);

impl KeyId {
    /// Of a masked ciphertext that a client received: it goes to its own secret key and nowhere else.
    pub(crate) const RECEIVED: Self = Self([0; 16]);

    /// Of the public key with these parts.
    pub(super) fn of(params: &Params, seed: Seed, b: &Poly) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"fesc-ckks key id 1");
        hash.update(params.digest());
        hash.update(seed);
        for limb in b.limbs() {
            limb.iter().for_each(|x| hash.update(x.to_le_bytes()));
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        Self(id)
    }

    /// Its bytes, for the name of what is kept beside a key.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Refuses an object of another owner.
    pub(crate) fn check_same(self, other: Self) -> Result<()> {
        if self == other {
            return Ok(());
        }
        Err(CkksError::KeyMismatch { left: self.to_string(), right: other.to_string() })
    }
}

/// The first bytes, for messages.
impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(6).try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}
