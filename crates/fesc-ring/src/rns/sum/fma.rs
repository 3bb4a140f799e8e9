//! The sums with AVX2 and FMA: the same order of work, four elements at a time.

use std::arch::x86_64::*;

use super::{GROUP, Round, Scratch, spread};
use crate::rns::{Prime, avx2};

impl Prime {
    /// A round with AVX2 and FMA.
    ///
    /// # Safety
    /// The processor must have AVX2 and FMA; the rest as for [`Prime::sum_avx512`], with half of `depth`.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn sum_avx2(&self, scratch: &mut Scratch, round: Round<'_>, out: &mut [&mut [u64]; 3]) {
        let Round { terms, add, from, to } = round;
        let (c, len) = (avx2::Consts::new(self), to - from);
        let (products, plain) = (terms.products.len(), terms.plain.len());
        let starts = [products + plain, 2 * products + plain, products].map(|n| avx2::Sum::of(n));
        // SAFETY: the caller's promise.
        unsafe {
            for i in (0..len).step_by(avx2::QUAD) {
                starts.into_iter().enumerate().for_each(|(k, start)| scratch.put(k, i, start));
            }
            for group in terms.products.chunks(GROUP) {
                add_products_avx2(&c, scratch, group, from, len);
            }
            for group in terms.plain.chunks(GROUP) {
                add_plain_avx2(&c, scratch, group, from, len);
            }
            for (k, out) in out.iter_mut().enumerate().filter(|(_, out)| !out.is_empty()) {
                for i in (0..len).step_by(avx2::QUAD) {
                    let more = if add { avx2::load(out, from + i) } else { _mm256_setzero_si256() };
                    avx2::store(out, from + i, c.reduce(scratch.quad(k, i), more));
                }
            }
        }
    }
}

impl Scratch {
    /// # Safety
    /// The processor must have AVX2; `i + 4` is at most [`PART`].
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quad(&self, k: usize, i: usize) -> avx2::Sum {
        // SAFETY: the caller's promise.
        unsafe { avx2::Sum::new(avx2::load(&self.sums[2 * k], i), avx2::load(&self.sums[2 * k + 1], i)) }
    }

    /// # Safety
    /// As for [`Scratch::quad`].
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn put(&mut self, k: usize, i: usize, sum: avx2::Sum) {
        let [lo, hi] = sum.parts();
        // SAFETY: the caller's promise.
        unsafe {
            avx2::store(&mut self.sums[2 * k], i, lo);
            avx2::store(&mut self.sums[2 * k + 1], i, hi);
        }
    }
}

/// Adds products of ciphertexts.
///
/// # Safety
/// The processor must have AVX2 and FMA; `len` is a multiple of 4 and at most [`PART`], `from + len` within
/// all vectors.
#[target_feature(enable = "avx2,fma")]
unsafe fn add_products_avx2(
    c: &avx2::Consts,
    scratch: &mut Scratch,
    terms: &[[[&[u64]; 2]; 2]],
    from: usize,
    len: usize,
) {
    for i in (0..len).step_by(avx2::QUAD) {
        // SAFETY: the caller's promise.
        unsafe {
            let (mut s0, mut s1, mut s2) = (scratch.quad(0, i), scratch.quad(1, i), scratch.quad(2, i));
            for [a, b] in terms {
                let factor = |x: &[u64]| c.factor(avx2::load(x, from + i));
                let (a0, a1, b0, b1) = (factor(a[0]), factor(a[1]), factor(b[0]), factor(b[1]));
                s0 = c.add_product(s0, a0, b0);
                s1 = c.add_product(c.add_product(s1, a0, b1), a1, b0);
                s2 = c.add_product(s2, a1, b1);
            }
            scratch.put(0, i, s0);
            scratch.put(1, i, s1);
            scratch.put(2, i, s2);
        }
    }
}

/// Adds at most [`GROUP`] products of plaintexts with ciphertexts.
///
/// # Safety
/// As for [`add_products_avx2`].
#[target_feature(enable = "avx2,fma")]
unsafe fn add_plain_avx2(
    c: &avx2::Consts,
    scratch: &mut Scratch,
    terms: &[(&[u64], [&[u64]; 2])],
    from: usize,
    len: usize,
) {
    for ((w, x), factor) in terms.iter().zip(&mut scratch.factors) {
        spread(w, x[0].len(), from, &mut factor[..len]);
    }
    for i in (0..len).step_by(avx2::QUAD) {
        // SAFETY: the caller's promise.
        unsafe {
            let (mut s0, mut s1) = (scratch.quad(0, i), scratch.quad(1, i));
            for ((_, x), factor) in terms.iter().zip(&scratch.factors) {
                let w = c.factor(avx2::load(factor, i));
                s0 = c.add_product(s0, w, c.factor(avx2::load(x[0], from + i)));
                s1 = c.add_product(s1, w, c.factor(avx2::load(x[1], from + i)));
            }
            scratch.put(0, i, s0);
            scratch.put(1, i, s1);
        }
    }
}
