//! Keys and streams from a hash of what they are for: the one way from a seed to a stream.
//!
//! ```text
//! key    = SHA-256(label || parts in order)
//! stream = Prg of the first 16 bytes of key
//! ```
//!
//! Nothing separates the parts. So whoever derives gives parts of fixed lengths, and one label never serves
//! two layouts: then no two inputs are the same bytes. The state of the hash and the key are wiped.
//!
//! ```
//! use fesc_ring::derive::Derive;
//!
//! let stream = |place| Derive::new(b"an example, v1").bytes(&[7; 32]).numbers([place]).stream();
//! assert_eq!(stream(1).next_u64(), stream(1).next_u64());
//! assert_ne!(stream(1).next_u64(), stream(2).next_u64());
//! ```

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::Prg;

/// A hash on its way to a key.
pub struct Derive(Sha256);

impl Derive {
    /// Starts with a label, which names the use and its version.
    pub fn new(label: &[u8]) -> Self {
        Self(Sha256::new_with_prefix(label))
    }

    /// Adds bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update(bytes);
        self
    }

    /// Adds numbers, eight bytes each, little endian.
    #[must_use]
    pub fn numbers(mut self, numbers: impl IntoIterator<Item = u64>) -> Self {
        numbers.into_iter().for_each(|number| self.0.update(number.to_le_bytes()));
        self
    }

    /// The key, 32 bytes.
    pub fn key(self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.finalize().into())
    }

    /// The stream keyed by the first half of the key.
    pub fn stream(self) -> Prg {
        let key = self.key();
        let mut seed = Zeroizing::new([0; 16]);
        seed.copy_from_slice(&key[..16]);
        Prg::from_seed(*seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_hash_of_all_parts_and_a_stream_is_keyed_by_its_half() {
        let derive = || Derive::new(b"label").bytes(&[1, 2, 3]).numbers([4, u64::MAX]);
        let mut all = b"label\x01\x02\x03".to_vec();
        all.extend_from_slice(&4u64.to_le_bytes());
        all.extend_from_slice(&u64::MAX.to_le_bytes());
        let hash: [u8; 32] = Sha256::digest(&all).into();
        assert_eq!(*derive().key(), hash);
        let seed = std::array::from_fn(|i| hash[i]);
        assert_eq!(derive().stream().next_u128(), Prg::from_seed(seed).next_u128());
    }
}
