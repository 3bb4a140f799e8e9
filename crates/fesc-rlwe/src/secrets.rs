//! The secrets of what is published: each has a stream of its own, keyed by what it meets.
//!
//! A server publishes again at every start, from one root, and the bytes must be the same: two publications
//! whose secrets are related give those secrets away. That happened: one generator gave first a public seed,
//! then a key, then its noise, and a later build took fewer words for the seed. Key and noise were the old
//! ones, moved by a few places, and the difference of two published keys had no noise
//! (`the_old_order_of_one_stream_gives_the_key_away`).
//!
//! So no secret follows another in a stream, and the key of each stream is
//!
//! ```text
//! H(root, what it is, where it is,
//!   digests: of the public polynomials that it meets, the secret it stands beside, what it hides)
//! ```
//!
//! | secret | it meets | it stands beside | it hides |
//! |---|---|---|---|
//! | `u_k` of a hint | `a'` and all `a_j` | | row `k` before its mask |
//! | `e_k` | the same | `u_k` | the same |
//! | `S` of a table | `A` and all `alpha_v` | | |
//! | `e_pk` | the same | `S` | |
//! | `e_v` | by `S` | `S` | row `v` of the table |
//!
//! A build that makes another polynomial, folds the weights in another way, or samples `S` or `u_k` in
//! another way, so draws other secrets, and never an old noise beside a new secret: the difference of two
//! rows with one noise would be linear in the difference of two secrets
//! (`rows_of_another_key_have_other_noise`). What this does not cover is a change of the sampler of noise
//! alone: the known answers of the tests do (`known_answers_of_what_is_published`), which demand a new
//! version from whoever changes a byte.

use fesc_ring::Prg;
use zeroize::Zeroizing;

use crate::stream::keyed;

/// Raised with any change of what is published from one root.
const VERSION: &[u8] = b"fesc published secret v3";

/// The root of all secrets of one published object. No `Debug`, no `Clone`; wiped on drop.
pub struct Secrets {
    root: Zeroizing<[u8; 32]>,
    /// Tests read one word of the stream of this purpose too many: what a careless change does.
    #[cfg(test)]
    pub(crate) skewed: Option<[u8; 16]>,
}

impl Secrets {
    /// From 32 secret bytes, which serve for nothing else.
    pub fn new(root: Zeroizing<[u8; 32]>) -> Self {
        Self {
            root,
            #[cfg(test)]
            skewed: None,
        }
    }

    /// A root that nobody will have again: for what is published once.
    pub fn random(prg: &mut Prg) -> Self {
        let mut root = Zeroizing::new([0; 32]);
        prg.fill_bytes(&mut *root);
        Self::new(root)
    }

    /// The stream of one secret.
    pub(crate) fn stream(&self, purpose: &[u8; 16], place: [u64; 3], meets: &[&[u8; 32]]) -> Prg {
        let stream = keyed(VERSION, purpose, &self.root, place, meets);
        #[cfg(test)]
        if self.skewed == Some(*purpose) {
            let mut stream = stream;
            stream.next_u64();
            return stream;
        }
        stream
    }
}

#[cfg(test)]
mod tests;
