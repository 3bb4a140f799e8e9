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

// SAFETY: a plain array of words; its size (512 bytes) is a multiple of its alignment, so there is no
// padding.
unsafe impl Zeroable for Batch {}
// SAFETY: as above, and every bit pattern is a valid array of words.
unsafe impl Pod for Batch {}

/// The upper words of four blocks.
pub(super) static UPPER: [u64; 8] = [0, !0, 0, !0, 0, !0, 0, !0];

/// 0, 1, 2, ... as blocks.
pub(super) static COUNT: Batch = {
    let mut words = [0; WORDS];
    let mut i = 0;
    while i < BATCH {
        words[2 * i] = i as u64;
        i += 1;
    }
    Batch(words)
};

impl Batch {
    pub(super) const ZERO: Batch = Batch([0; WORDS]);
}

/// Expands to the kernels of one path. `$keys` holds the round keys, `$permute(&keys, &mut [u64; WORDS])` is
/// AES on a batch.
///
/// Each kernel has a body for one full batch, so that all copies have a fixed size; a short tail is padded
/// with zeros and goes through the same body.
macro_rules! kernels {
    ($(#[$feature:meta])* $keys:ty, $permute:path) => {
        use super::kernels::{BATCH, Batch, COUNT, UPPER, WORDS};

        $(#[$feature])*
        #[inline]
        fn encrypt_batch(keys: &$keys, x: &mut [u64; WORDS]) {
            $permute(keys, x);
        }

        /// AES on every block, in place.
        $(#[$feature])*
        pub(super) fn encrypt(keys: &$keys, words: &mut [u64]) {
            let (full, tail) = words.as_chunks_mut::<WORDS>();
            for part in full {
                encrypt_batch(keys, part);
            }
            if !tail.is_empty() {
                let mut part = [0; WORDS];
                part[..tail.len()].copy_from_slice(tail);
                encrypt_batch(keys, &mut part);
                tail.copy_from_slice(&part[..tail.len()]);
            }
        }

        $(#[$feature])*
        #[inline]
        fn ctr_batch(keys: &$keys, counter: u128, out: &mut [u64; WORDS]) {
            let (low, high) = (counter as u64, (counter >> 64) as u64);
            if low <= u64::MAX - BATCH as u64 {
                // Written by vectors, as it is read: a compiler that sees the numbers writes a word at a
                // time.
                let (first, count) = ([low, high, low, high, low, high, low, high], std::hint::black_box(&COUNT.0));
                for (out, count) in out.as_chunks_mut::<8>().0.iter_mut().zip(count.as_chunks::<8>().0) {
                    *out = std::array::from_fn(|i| first[i].wrapping_add(count[i]));
                }
            } else {
                for (i, pair) in out.chunks_exact_mut(2).enumerate() {
                    let c = counter.wrapping_add(i as u128);
                    pair[0] = c as u64;
                    pair[1] = (c >> 64) as u64;
                }
            }
            $permute(keys, out);
        }

        /// `out = AES(start), AES(start + 1), ...` as bytes; a last partial block is cut.
        $(#[$feature])*
        pub(super) fn ctr(keys: &$keys, start: u128, out: &mut [u8]) {
            let mut counter = start;
            let (full, tail) = out.as_chunks_mut::<{ 8 * WORDS }>();
            for part in full {
                match bytemuck::try_from_bytes_mut(part) {
                    Ok(words) => ctr_batch(keys, counter, words),
                    // Bytes that do not begin at a word.
                    Err(_) => {
                        let mut b = Batch::ZERO;
                        ctr_batch(keys, counter, &mut b.0);
                        *part = bytemuck::cast(b);
                    }
                }
                counter = counter.wrapping_add(BATCH as u128);
            }
            if !tail.is_empty() {
                let mut b = Batch::ZERO;
                ctr_batch(keys, counter, &mut b.0);
                let bytes: [u8; 8 * WORDS] = bytemuck::cast(b);
                tail.copy_from_slice(&bytes[..tail.len()]);
            }
        }

        $(#[$feature])*
        #[inline]
        fn hash_batch(keys: &$keys, x: &mut [u64; WORDS], tweaks: &Batch) {
            let mut p = Batch(*x);
            $permute(keys, &mut p.0);
            let mut y = p;
            for (y, t) in y.0.iter_mut().zip(&tweaks.0) {
                *y ^= t;
            }
            $permute(keys, &mut y.0);
            for (o, (a, b)) in x.iter_mut().zip(y.0.iter().zip(&p.0)) {
                *o = a ^ b;
            }
        }

        /// `x <- pi(pi(x) ^ i) ^ pi(x)` with `i = tweak(0), tweak(1), ...`; `next` turns one batch of tweaks
        /// into the next.
        $(#[$feature])*
        #[inline]
        fn hash_with(keys: &$keys, words: &mut [u64], mut tweaks: Batch, mut next: impl FnMut(&mut Batch)) {
            let (full, tail) = words.as_chunks_mut::<WORDS>();
            for part in full {
                hash_batch(keys, part, &tweaks);
                next(&mut tweaks);
            }
            if !tail.is_empty() {
                let mut part = [0; WORDS];
                part[..tail.len()].copy_from_slice(tail);
                hash_batch(keys, &mut part, &tweaks);
                tail.copy_from_slice(&part[..tail.len()]);
            }
        }

        /// TMMO with the tweaks `first, first + 1, ...`.
        $(#[$feature])*
        pub(super) fn hash(keys: &$keys, words: &mut [u64], first: u64) {
            let mut tweaks = Batch::ZERO;
            for (i, pair) in tweaks.0.chunks_exact_mut(2).enumerate() {
                pair[0] = first.wrapping_add(i as u64);
            }
            hash_with(keys, words, tweaks, |t| {
                for (i, w) in t.0.iter_mut().enumerate() {
                    *w = w.wrapping_add(if i % 2 == 0 { BATCH as u64 } else { 0 });
                }
            });
        }

        /// TMMO with given tweaks, 0 beyond their end.
        $(#[$feature])*
        pub(super) fn hash_given(keys: &$keys, words: &mut [u64], tweaks: &[u64]) {
            let mut parts = tweaks.chunks(BATCH);
            let mut load = |t: &mut Batch| {
                *t = Batch::ZERO;
                for (pair, w) in t.0.chunks_exact_mut(2).zip(parts.next().unwrap_or_default()) {
                    pair[0] = *w;
                }
            };
            let mut first = Batch::ZERO;
            load(&mut first);
            hash_with(keys, words, first, load);
        }

        /// Left children in place, right children to `r`, left ones also into the sum.
        $(#[$feature])*
        #[inline]
        fn expand_batch(keys: &$keys, l: &mut [u64; WORDS], r: &mut [u64; WORDS], sum: &mut Batch) {
            let (mut s, mut p) = (Batch::ZERO, Batch::ZERO);
            // The words of a block change places, the upper one with the lower one added; by vectors, as for
            // `ctr_batch`.
            let upper = std::hint::black_box(&UPPER);
            for ((s, p), x) in s.0.as_chunks_mut::<8>().0.iter_mut().zip(p.0.as_chunks_mut().0).zip(l.as_chunks::<8>().0) {
                *s = std::array::from_fn(|i| x[i ^ 1] ^ (x[i] & upper[i]));
                *p = *s;
            }
            $permute(keys, &mut p.0);
            for i in 0..WORDS {
                let h = p.0[i] ^ s.0[i];
                r[i] = l[i] ^ h;
                l[i] = h;
                sum.0[i] ^= h;
            }
        }

        /// One level of the correlated GGM tree on slices of one length; returns the XOR of the left
        /// children.
        $(#[$feature])*
        pub(super) fn expand(keys: &$keys, left: &mut [u64], right: &mut [u64]) -> [u64; 2] {
            let mut sum = Batch::ZERO;
            let (full_left, tail_left) = left.as_chunks_mut::<WORDS>();
            let (full_right, tail_right) = right.as_chunks_mut::<WORDS>();
            for (l, r) in full_left.iter_mut().zip(full_right) {
                expand_batch(keys, l, r, &mut sum);
            }
            let n = tail_left.len();
            if n > 0 {
                let (mut l, mut r, mut padded) = ([0; WORDS], [0; WORDS], Batch::ZERO);
                l[..n].copy_from_slice(tail_left);
                expand_batch(keys, &mut l, &mut r, &mut padded);
                tail_left.copy_from_slice(&l[..n]);
                tail_right.copy_from_slice(&r[..n]);
                // The padding's children do not belong to the sum.
                for (s, h) in sum.0.iter_mut().zip(&l[..n]) {
                    *s ^= h;
                }
            }
            sum.0.chunks_exact(2).fold([0, 0], |a, p| [a[0] ^ p[0], a[1] ^ p[1]])
        }
    };
}
pub(super) use kernels;
