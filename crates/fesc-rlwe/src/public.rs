//! Public polynomials: a hash of what they are for, the seed and the place keys the stream of each.

use std::fmt;

use fesc_ring::Prg;
use fesc_ring::sample::uniform_ring;

use crate::Params;
use crate::stream::keyed;

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

    /// The uniform polynomial of a purpose and a place.
    pub(crate) fn polynomial(&self, params: &Params, purpose: &[u8; 16], place: [u64; 3]) -> Vec<u64> {
        let (ring, degree) = (params.ring(), params.degree());
        let numbers = place.into_iter().chain([u64::from(ring.bits()), degree as u64]);
        let mut stream = keyed(b"fesc public polynomial v1", purpose, &self.0, numbers, &[]);
        let mut out = vec![0; degree];
        uniform_ring(&mut stream, ring, &mut out);
        out
    }
}
