//! Streams keyed by a hash: public polynomials, and the secrets of what is published.
//!
//! ```text
//! key = SHA-256(version || purpose || key material || numbers || digests), its first 16 bytes
//! ```
//!
//! A purpose has 16 bytes, so that none is a prefix of another.

use fesc_ring::Prg;
use fesc_ring::derive::Derive;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// The stream of one purpose and place.
pub(crate) fn keyed(
    version: &[u8],
    purpose: &[u8; 16],
    material: &[u8; 32],
    numbers: impl IntoIterator<Item = u64>,
    digests: &[&[u8; 32]],
) -> Prg {
    let derive = Derive::new(version).bytes(purpose).bytes(material).numbers(numbers);
    digests.iter().fold(derive, |derive, digest| derive.bytes(*digest)).stream()
}

/// SHA-256 of words, eight bytes each.
pub(crate) fn digest(words: &[u64]) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut bytes = Zeroizing::new([0; 8 * 512]);
    for part in words.chunks(512) {
        for (to, word) in bytes.chunks_exact_mut(8).zip(part) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        hash.update(&bytes[..8 * part.len()]);
    }
    hash.finalize().into()
}

/// The same of signed words: a secret.
pub(crate) fn digest_signed(words: &[i64]) -> [u8; 32] {
    let words: Zeroizing<Vec<u64>> = Zeroizing::new(words.iter().map(|&w| w as u64).collect());
    digest(&words)
}

/// SHA-256 of digests, in order.
pub(crate) fn digest_all(digests: &[[u8; 32]]) -> [u8; 32] {
    Sha256::digest(digests.as_flattened()).into()
}
