//! Public polynomials: a hash of what they are for, the seed and the place keys the stream of each.

use std::fmt;

use fesc_ring::Prg;
use fesc_ring::sample::uniform_ring;
use sha2::{Digest, Sha256};

use crate::Params;

/// The seed of one published object. Public; drawn anew for every one, never one for the world.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seed({:02x}{:02x}..)", self.0[0], self.0[1])
    }
}

impl Seed {
    /// A new one.
    pub fn random(prg: &mut Prg) -> Self {
        Self(prg.public_bytes())
    }

    /// The uniform polynomial of a purpose and a place. `purpose` has one length or none is a prefix of another.
    pub(crate) fn polynomial(&self, params: &Params, purpose: &[u8; 16], place: [u64; 3]) -> Vec<u64> {
        let (ring, degree) = (params.ring(), params.degree());
        let mut hash = Sha256::new();
        hash.update(b"fesc public polynomial v1");
        hash.update(purpose);
        hash.update(self.0);
        for number in place.into_iter().chain([u64::from(ring.bits()), degree as u64]) {
            hash.update(number.to_le_bytes());
        }
        let mut key = [0; 16];
        key.copy_from_slice(&hash.finalize()[..16]);
        let mut out = vec![0; degree];
        uniform_ring(&mut Prg::from_seed(key), ring, &mut out);
        out
    }
}
