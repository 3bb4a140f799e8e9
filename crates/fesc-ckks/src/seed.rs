//! Seeds for the uniform halves of fresh ciphertexts and keys: 16 bytes travel instead of a polynomial.
//!
//! A seed is public. The stream of an object is a [`Prg`] keyed by
//!
//! ```text
//! SHA-256("fesc-ckks seed 1" | digest of the parameters | label | seed), first 16 bytes,
//! ```
//!
//! so that no two kinds of object, purposes or parameter sets share a stream. Every limb has its own
//! generator, whose seed is the next 16 bytes of that stream: limbs can be expanded in any order and in
//! parallel.

use fesc_ring::derive::Derive;
use fesc_ring::{Prg, sample};

use crate::Params;
use crate::poly::Poly;
use crate::server::KeyPurpose;

/// A public seed.
pub(crate) type Seed = [u8; 16];

/// What a stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    /// The public key.
    Public,
    /// A fresh ciphertext by the secret key.
    Upload,
    /// A key-switching key.
    Key(KeyPurpose),
}

impl Label {
    fn bytes(self) -> [u8; 8] {
        let (kind, element) = match self {
            Label::Public => (1u32, 0),
            Label::Upload => (2, 0),
            Label::Key(KeyPurpose::Relinearisation) => (3, 0),
            Label::Key(KeyPurpose::Galois(g)) => (4, g),
        };
        (u64::from(kind) | u64::from(element) << 32).to_le_bytes()
    }
}

/// A fresh seed.
pub(crate) fn fresh(prg: &mut Prg) -> Seed {
    prg.public_bytes()
}

/// The stream of an object.
pub(crate) fn stream(params: &Params, label: Label, seed: Seed) -> Prg {
    Derive::new(b"fesc-ckks seed 1").bytes(params.digest()).bytes(&label.bytes()).bytes(&seed).stream()
}

/// The seeds of the next polynomial's limbs.
pub(crate) fn limb_seeds(stream: &mut Prg, limbs: usize) -> Vec<Seed> {
    (0..limbs).map(|_| stream.next_u128().to_le_bytes()).collect()
}

/// A limb that is uniform modulo prime `i`, from its seed.
pub(crate) fn expand_limb(params: &Params, i: usize, seed: Seed, limb: &mut [u64]) {
    sample::uniform_mod(&mut Prg::from_seed(seed), params.modulus(i), limb);
}

/// Fills `poly` with the next polynomial of a stream, uniform modulo the first primes.
pub(crate) fn uniform(params: &Params, stream: &mut Prg, poly: &mut Poly) {
    let seeds = limb_seeds(stream, poly.len());
    poly.for_each_limb(|i, limb| expand_limb(params, i, seeds[i], limb));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::tiny;

    #[test]
    fn streams_of_two_labels_seeds_or_sets_differ() {
        let (params, other) = (tiny(4, 2), tiny(4, 3));
        let galois = |g| Label::Key(KeyPurpose::Galois(g));
        let labels = [Label::Public, Label::Upload, Label::Key(KeyPurpose::Relinearisation), galois(5), galois(25)];
        let mut first: Vec<u128> = Vec::new();
        for params in [&params, &other] {
            for label in labels {
                for seed in [[0; 16], [1; 16]] {
                    first.push(stream(params, label, seed).next_u128());
                }
            }
        }
        let count = first.len();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), count);
        assert_eq!(
            stream(&params, Label::Public, [7; 16]).next_u128(),
            stream(&params, Label::Public, [7; 16]).next_u128()
        );
    }
}
