//! Ciphertexts. The phase is `c0 + c1 s`, or `c0 + c1 s + c2 s^2` before relinearisation.
//!
//! Neither type can be written to the wire: what a server computed depends on its own secrets. The only way
//! out is [`Ciphertext::mask`](crate::Ciphertext::mask), which adds a fresh encryption of zero and a mask.
//!
//! ```compile_fail,E0599
//! # use fesc_ckks::Ciphertext;
//! fn send(c: &Ciphertext, out: &mut Vec<u8>) {
//!     c.write(out).unwrap();
//! }
//! ```

use crate::Params;
use crate::poly::Poly;
use crate::server::KeyId;

/// An encryption of one polynomial at a level and scale.
#[derive(Clone)]
pub struct Ciphertext {
    pub(crate) params: Params,
    /// Whose key it is under.
    pub(crate) owner: KeyId,
    pub(crate) level: usize,
    pub(crate) scale: f64,
    /// `level + 1` transformed limbs.
    pub(crate) c0: Poly,
    /// As `c0`.
    pub(crate) c1: Poly,
}

impl Ciphertext {
    /// Limb `j` of both parts.
    pub(crate) fn limb(&self, j: usize) -> [&[u64]; 2] {
        [self.c0.limb(j), self.c1.limb(j)]
    }
}

/// The same bits under the same key: what is computed twice from the same ciphertexts is equal.
impl PartialEq for Ciphertext {
    fn eq(&self, other: &Self) -> bool {
        let head = |c: &Self| (c.owner, c.level, c.scale.to_bits());
        let same = |j: usize| self.limb(j) == other.limb(j);
        self.params == other.params && head(self) == head(other) && (0..=self.level).all(same)
    }
}

impl Eq for Ciphertext {}

/// A product or a sum of products that has not been relinearised. A type of its own, so that it cannot be
/// taken for a ciphertext; sums of these are allowed, and one relinearisation serves the whole sum.
#[derive(Clone)]
pub struct Tensor {
    pub(crate) params: Params,
    /// Whose key it is under.
    pub(crate) owner: KeyId,
    pub(crate) level: usize,
    pub(crate) scale: f64,
    /// `level + 1` transformed limbs.
    pub(crate) c0: Poly,
    /// As `c0`.
    pub(crate) c1: Poly,
    /// As `c0`; none if nothing multiplies the square of the secret.
    pub(crate) c2: Option<Poly>,
}

impl Tensor {
    /// Whether it has a third part, which multiplies the square of the secret and takes a key switch to
    /// remove. A sum of products with plaintexts and of ciphertexts alone has none.
    pub fn has_square(&self) -> bool {
        self.c2.is_some()
    }
}

metadata!(Ciphertext, Tensor);
