//! The kernels over batches, one text for all paths.

use bytemuck::{Pod, Zeroable};

/// Blocks in a batch.
pub(super) const BATCH: usize = 32;
/// 64-bit words in a batch.
pub(super) const WORDS: usize = 2 * BATCH;

/// A batch of blocks as words (low word first): words vectorise, `u128` does not.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Batch(pub(super) [u64; WORDS]);

// SAFETY: a plain array of words; its size (512 bytes) is a multiple of its alignment, so there is no padding.
unsafe impl Zeroable for Batch {}
// SAFETY: as above, and every bit pattern is a valid array of words.
unsafe impl Pod for Batch {}

impl Batch {
    pub(super) const ZERO: Batch = Batch([0; WORDS]);
}

/// Expands to the kernels of one path. `$keys` holds the round keys, `$permute(&keys, &mut Batch)` is AES on a batch.
macro_rules! kernels {
    ($(#[$feature:meta])* $keys:ty, $permute:path) => {
        use super::kernels::{BATCH, Batch, WORDS};

        /// AES on every block, in place.
        $(#[$feature])*
        pub(super) fn encrypt(keys: &$keys, words: &mut [u64]) {
            for part in words.chunks_mut(WORDS) {
                let mut b = Batch::ZERO;
                b.0[..part.len()].copy_from_slice(part);
                $permute(keys, &mut b);
                part.copy_from_slice(&b.0[..part.len()]);
            }
        }

        /// `out = AES(start), AES(start + 1), ...` as bytes; a last partial block is cut.
        $(#[$feature])*
        pub(super) fn ctr(keys: &$keys, start: u128, out: &mut [u8]) {
            let mut counter = start;
            for part in out.chunks_mut(8 * WORDS) {
                let mut b = Batch::ZERO;
                let (low, high) = (counter as u64, (counter >> 64) as u64);
                if low <= u64::MAX - BATCH as u64 {
                    for (i, pair) in b.0.chunks_exact_mut(2).enumerate() {
                        pair[0] = low + i as u64;
                        pair[1] = high;
                    }
                } else {
                    for (i, pair) in b.0.chunks_exact_mut(2).enumerate() {
                        let c = counter.wrapping_add(i as u128);
                        pair[0] = c as u64;
                        pair[1] = (c >> 64) as u64;
                    }
                }
                counter = counter.wrapping_add(BATCH as u128);
                $permute(keys, &mut b);
                let bytes: &[u8] = bytemuck::bytes_of(&b);
                part.copy_from_slice(&bytes[..part.len()]);
            }
        }

        /// `x <- pi(pi(x) ^ i) ^ pi(x)` with `i = first, first + 1, ...`, or the given tweaks.
        $(#[$feature])*
        pub(super) fn hash(keys: &$keys, words: &mut [u64], first: u64, given: Option<&[u64]>) {
            let mut tweak = first;
            let mut given = given.map(|g| g.chunks(BATCH));
            for part in words.chunks_mut(WORDS) {
                let mut p = Batch::ZERO;
                p.0[..part.len()].copy_from_slice(part);
                $permute(keys, &mut p);
                let mut y = p;
                match given.as_mut() {
                    Some(g) => {
                        for (pair, t) in y.0.chunks_exact_mut(2).zip(g.next().unwrap_or(&[])) {
                            pair[0] ^= t;
                        }
                    }
                    None => {
                        for (i, pair) in y.0.chunks_exact_mut(2).enumerate() {
                            pair[0] ^= tweak.wrapping_add(i as u64);
                        }
                        tweak = tweak.wrapping_add(BATCH as u64);
                    }
                }
                $permute(keys, &mut y);
                for (o, (a, b)) in part.iter_mut().zip(y.0.iter().zip(&p.0)) {
                    *o = a ^ b;
                }
            }
        }

        /// One level of the correlated GGM tree; returns the XOR of the left children.
        $(#[$feature])*
        pub(super) fn expand(keys: &$keys, left: &mut [u64], right: &mut [u64]) -> [u64; 2] {
            let mut sum = Batch::ZERO;
            for (l, r) in left.chunks_mut(WORDS).zip(right.chunks_mut(WORDS)) {
                let mut s = Batch::ZERO;
                for (s, x) in s.0.chunks_exact_mut(2).zip(l.chunks_exact(2)) {
                    s[0] = x[1];
                    s[1] = x[0] ^ x[1];
                }
                let sigma = s;
                $permute(keys, &mut s);
                for (h, g) in s.0.iter_mut().zip(&sigma.0) {
                    *h ^= g;
                }
                for ((h, sum), (l, r)) in s.0.iter().zip(sum.0.iter_mut()).zip(l.iter_mut().zip(r)) {
                    *r = *l ^ h;
                    *l = *h;
                    *sum ^= h;
                }
            }
            sum.0.chunks_exact(2).fold([0, 0], |a, p| [a[0] ^ p[0], a[1] ^ p[1]])
        }
    };
}
pub(super) use kernels;
