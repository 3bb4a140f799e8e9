//! Sums of products of ciphertexts, and of ciphertexts with plaintexts, with one reduction at the end:
//!
//! ```text
//! (c0, c1, c2) = sum_t (a0 b0, a0 b1 + a1 b0, a1 b1) + sum_s (w_s u0, w_s u1, 0)
//! ```
//!
//! where a plaintext `w_s` of period `p` in its slots is `2p` words, each for a run of neighbours (one word
//! alone is a constant).
//!
//! **Order of work.** Parts of [`PART`] coefficients: their unreduced sums, three pairs of words, stay in the
//! first-level cache while one group of at most [`GROUP`] terms after the other is read, so that there are
//! few streams at a time, however many terms there are. A group's sums are in registers. A plaintext is
//! spread over the part before its group.
//!
//! Cost of a term for eight elements: 8 multiply-adds, a quarter of 12 loads and stores of the sums, and 256
//! bytes that come from memory, which is the limit. The reductions, 36 operations, are once for all terms.
//! `examples/rns_speed.rs` compares with products and sums one by one: half the time from memory.
//!
//! Bounds: `depth` products fit a sum, and the middle part has two per term; more terms are taken in several
//! rounds that add to the output.

#[cfg(target_arch = "x86_64")]
mod fma;

use super::Prime;
#[cfg(target_arch = "x86_64")]
use super::avx512::{Consts, Sum, load, store};
use crate::cpu::{self, Path};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Coefficients that are summed at a time.
const PART: usize = 512;
/// Terms that are read together.
#[cfg(target_arch = "x86_64")]
const GROUP: usize = 4;

/// What is summed. All vectors have one length, and that of each plaintext divides it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms<'a> {
    /// Two ciphertexts each.
    pub products: &'a [[[&'a [u64]; 2]; 2]],
    /// A plaintext, each word for a run of neighbours, and a ciphertext.
    pub plain: &'a [(&'a [u64], [&'a [u64]; 2])],
}

/// The sums of one round, for the elements from `from` to `to`, at most [`PART`] of them.
#[derive(Clone, Copy)]
struct Round<'a> {
    terms: Terms<'a>,
    /// Add to what the outputs hold.
    add: bool,
    from: usize,
    to: usize,
}

/// What a part is worked on in.
#[cfg(target_arch = "x86_64")]
#[repr(align(64))]
struct Scratch {
    /// Unreduced sums: low and high words of the three results.
    sums: [[u64; PART]; 6],
    /// The plaintexts of a group, spread.
    factors: [[u64; PART]; GROUP],
}

impl Prime {
    /// The sum of all terms, in place of what `out` and `square` hold or added to it, on the best path.
    /// Operands must be reduced. `square` may be empty if there is no product of ciphertexts.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sum(&self, terms: Terms<'_>, add: bool, out: [&mut [u64]; 2], square: &mut [u64]) {
        self.sum_with(cpu::path(), terms, add, out, square);
    }

    /// [`Prime::sum`] on a given path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sum_with(&self, path: Path, terms: Terms<'_>, add: bool, out: [&mut [u64]; 2], square: &mut [u64]) {
        let len = out[0].len();
        let alike =
            |x: &[u64]| x.len() == len && x.iter().all(|&x| !cfg!(debug_assertions) || x < self.modulus.value());
        let products = terms.products.iter().flatten().flatten();
        assert!(products.chain(terms.plain.iter().flat_map(|(_, c)| c)).all(|x| alike(x)), "terms of equal lengths");
        let runs = |w: &[u64]| len == 0 || !w.is_empty() && len.is_multiple_of(w.len());
        assert!(terms.plain.iter().all(|(w, _)| runs(w)), "a plaintext's length divides that of its ciphertext");
        let third = square.len() == len || square.is_empty() && terms.products.is_empty();
        assert!(out[1].len() == len && third, "three results of equal lengths");
        let [x, y] = out;
        let mut out = [x, y, square];
        let vectors = self.any_vector_part(path, len);
        #[cfg(target_arch = "x86_64")]
        let mut scratch = Scratch { sums: [[0; PART]; 6], factors: [[0; PART]; GROUP] };
        for start in (0..len).step_by(PART) {
            let end = len.min(start + PART);
            let simd = vectors.clamp(start, end);
            for (k, terms) in self.rounds(path, terms).enumerate() {
                let round = Round { terms, add: add || k > 0, from: start, to: simd };
                #[cfg(target_arch = "x86_64")]
                if simd > start {
                    // SAFETY: the processor has the path; all vectors were found to reach `simd`, which is at
                    // most PART and a multiple of 8 above `start`; a round has at most `depth_on` products.
                    unsafe {
                        match path.min(self.best) {
                            Path::Avx512 => self.sum_avx512(&mut scratch, round, &mut out),
                            _ => self.sum_avx2(&mut scratch, round, &mut out),
                        }
                    }
                }
                self.sum_portable(Round { from: simd, to: end, ..round }, &mut out);
            }
        }
    }

    /// The terms in rounds of at most `depth_on` products to a sum; at least one round.
    fn rounds<'a>(&self, path: Path, terms: Terms<'a>) -> impl Iterator<Item = Terms<'a>> {
        let depth = self.depth_on(path);
        let whole = 2 * terms.products.len() + terms.plain.len() <= depth;
        let (products, plain) = if whole {
            ([].chunks(1), [].chunks(1))
        } else {
            (terms.products.chunks(depth / 2), terms.plain.chunks(depth))
        };
        let products = products.map(|products| Terms { products, plain: &[] });
        let plain = plain.map(|plain| Terms { products: &[], plain });
        whole.then_some(terms).into_iter().chain(products).chain(plain)
    }

    /// A round in plain Rust.
    fn sum_portable(&self, round: Round<'_>, out: &mut [&mut [u64]; 3]) {
        let Round { terms, add, from, to } = round;
        if from == to {
            return;
        }
        let wide = |x: u64, y: u64| u128::from(x) * u128::from(y);
        let mut sums = [[0u128; PART]; 3];
        for [a, b] in terms.products {
            for (k, i) in (from..to).enumerate() {
                let ([a0, a1], [b0, b1]) = (a.map(|x| x[i]), b.map(|x| x[i]));
                sums[0][k] += wide(a0, b0);
                sums[1][k] += wide(a0, b1) + wide(a1, b0);
                sums[2][k] += wide(a1, b1);
            }
        }
        let mut factor = [0; PART];
        for (w, c) in terms.plain {
            spread(w, c[0].len(), from, &mut factor[..to - from]);
            for (k, i) in (from..to).enumerate() {
                sums[0][k] += wide(factor[k], c[0][i]);
                sums[1][k] += wide(factor[k], c[1][i]);
            }
        }
        for (sums, out) in sums.iter().zip(out.iter_mut()).filter(|(_, out)| !out.is_empty()) {
            for (sum, out) in sums.iter().zip(&mut out[from..to]) {
                *out = self.reduce_wide(sum + if add { u128::from(*out) } else { 0 });
            }
        }
    }

    /// A round with AVX-512 IFMA.
    ///
    /// # Safety
    /// The processor must have AVX-512 F and IFMA; `to` is within all vectors that are not empty,
    /// above `from` by a multiple of 8 that is at most [`PART`]; at most `depth` products to a sum.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512ifma")]
    unsafe fn sum_avx512(&self, scratch: &mut Scratch, round: Round<'_>, out: &mut [&mut [u64]; 3]) {
        let Round { terms, add, from, to } = round;
        let len = to - from;
        // SAFETY: the caller's promise; a chunk has 1 to GROUP terms.
        unsafe {
            if terms.products.is_empty() {
                scratch.sums.iter_mut().for_each(|words| words[..len].fill(0));
            }
            for (k, group) in terms.products.chunks(GROUP).enumerate() {
                match (k == 0, group.len()) {
                    // The first group finds no sums.
                    (true, 1) => add_products::<1, true>(scratch, group, from, len),
                    (true, 2) => add_products::<2, true>(scratch, group, from, len),
                    (true, 3) => add_products::<3, true>(scratch, group, from, len),
                    (true, _) => add_products::<GROUP, true>(scratch, group, from, len),
                    (false, 1) => add_products::<1, false>(scratch, group, from, len),
                    (false, 2) => add_products::<2, false>(scratch, group, from, len),
                    (false, 3) => add_products::<3, false>(scratch, group, from, len),
                    (false, _) => add_products::<GROUP, false>(scratch, group, from, len),
                }
            }
            for group in terms.plain.chunks(GROUP) {
                match group.len() {
                    1 => add_plain::<1>(scratch, group, from, len),
                    2 => add_plain::<2>(scratch, group, from, len),
                    3 => add_plain::<3>(scratch, group, from, len),
                    _ => add_plain::<GROUP>(scratch, group, from, len),
                }
            }
            let c = Consts::new(self);
            for (k, out) in out.iter_mut().enumerate().filter(|(_, out)| !out.is_empty()) {
                for i in (0..len).step_by(8) {
                    let r = c.reduce_lazy(scratch.get(k, i));
                    let r = match add {
                        true => c.fold_four(_mm512_add_epi64(r, load(out, from + i))),
                        false => c.fold_two(r),
                    };
                    store(out, from + i, r);
                }
            }
        }
    }
}

/// The words of a plaintext at `from ..`, when all of its runs have `len` elements together.
fn spread(words: &[u64], len: usize, from: usize, out: &mut [u64]) {
    let run = len / words.len();
    if run == 1 {
        return out.copy_from_slice(&words[from..from + out.len()]);
    }
    let mut done = 0;
    while done < out.len() {
        let word = (from + done) / run;
        let end = ((word + 1) * run - from).min(out.len());
        out[done..end].fill(words[word]);
        done = end;
    }
}

#[cfg(target_arch = "x86_64")]
impl Scratch {
    /// # Safety
    /// The processor must have AVX-512 F; `i + 8` is at most [`PART`].
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn get(&self, k: usize, i: usize) -> Sum {
        // SAFETY: the caller's promise.
        unsafe { Sum::new(load(&self.sums[2 * k], i), load(&self.sums[2 * k + 1], i)) }
    }

    /// # Safety
    /// As for [`Scratch::get`].
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn set(&mut self, k: usize, i: usize, sum: Sum) {
        let [lo, hi] = sum.parts();
        // SAFETY: the caller's promise.
        unsafe {
            store(&mut self.sums[2 * k], i, lo);
            store(&mut self.sums[2 * k + 1], i, hi);
        }
    }
}

/// Adds `G` products of ciphertexts, or puts them in place of the sums.
///
/// # Safety
/// The processor must have AVX-512 F and IFMA; there are `G` terms; `len` is a multiple of 8 and at most
/// [`PART`], `from + len` within all vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn add_products<const G: usize, const FIRST: bool>(
    scratch: &mut Scratch,
    terms: &[[[&[u64]; 2]; 2]],
    from: usize,
    len: usize,
) {
    debug_assert_eq!(terms.len(), G);
    for i in (0..len).step_by(8) {
        // SAFETY: the caller's promise.
        unsafe {
            let start = |k: usize| if FIRST { Sum::zero() } else { scratch.get(k, i) };
            let (mut s0, mut s1, mut s2) = (start(0), start(1), start(2));
            for g in 0..G {
                let [a, b] = *terms.get_unchecked(g);
                let ([a0, a1], [b0, b1]) = (a.map(|x| load(x, from + i)), b.map(|x| load(x, from + i)));
                s0 = s0.add_product(a0, b0);
                s1 = s1.add_product(a0, b1).add_product(a1, b0);
                s2 = s2.add_product(a1, b1);
            }
            scratch.set(0, i, s0);
            scratch.set(1, i, s1);
            scratch.set(2, i, s2);
        }
    }
}

/// Adds `G` products of plaintexts with ciphertexts.
///
/// # Safety
/// As for [`add_products`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn add_plain<const G: usize>(scratch: &mut Scratch, terms: &[(&[u64], [&[u64]; 2])], from: usize, len: usize) {
    debug_assert_eq!(terms.len(), G);
    for ((w, c), factor) in terms.iter().zip(&mut scratch.factors) {
        spread(w, c[0].len(), from, &mut factor[..len]);
    }
    for i in (0..len).step_by(8) {
        // SAFETY: the caller's promise.
        unsafe {
            let (mut s0, mut s1) = (scratch.get(0, i), scratch.get(1, i));
            for (g, factor) in scratch.factors[..G].iter().enumerate() {
                let (_, [c0, c1]) = *terms.get_unchecked(g);
                let w = load(factor, i);
                s0 = s0.add_product(w, load(c0, from + i));
                s1 = s1.add_product(w, load(c1, from + i));
            }
            scratch.set(0, i, s0);
            scratch.set(1, i, s1);
        }
    }
}
