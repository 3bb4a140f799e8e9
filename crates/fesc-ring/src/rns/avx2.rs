//! What the AVX2 kernels of this module share: sums of products in floating point, and their reduction.
//!
//! AVX2 has no wide integer product, but a fused multiply-add rounds an exact product once. Added to `2^103`,
//! whose last place is `2^51`, a product of residues below `2^50` gives its high part, and what is left gives
//! the low part, both as integers in the mantissa of a double of known exponent:
//!
//! ```text
//! t = fl(a b + 2^103)                       = 2^103 + 2^51 H,      H = round(a b / 2^51) < 2^50
//! l = a b + ((2^103 + 3 2^51) - t)          = 3 2^51 + r,          r = a b - 2^51 H,  |r| <= 2^50
//! ```
//!
//! The difference is exact, and so is `l`, an integer between `2^52` and `2^53`. So the words of `t` and `l`,
//! added as integers, are the sums of `H` and `r` once the words of the two constants are taken off, which
//! [`Sum::of`] does for all products at once: five instructions for four products.
//!
//! The sum is `V = 2^51 h + l` with `0 <= l < 2^51` after a carry, and `h < 2^52` for `V < 2^103`: half of
//! [`Prime::depth`](super::Prime) products. It is reduced as the transform reduces ([`crate::ntt`]): `h`
//! times `2^51 mod p`, plus `l`, minus the nearest multiple of `p`. All of it is exact, so that the residue
//! is that of the other paths.

use super::Prime;
use crate::ntt::avx2::{Consts as Doubles, Twiddle, pair};
use std::arch::x86_64::*;

/// Elements of a register.
pub(super) const QUAD: usize = 4;

/// `2^103`, and the same plus `3 2^51`.
const HIGH: f64 = 10_141_204_801_825_835_211_973_625_643_008.0;
const BOTH: f64 = HIGH + MIDDLE;
/// `3 2^51`, the middle of the doubles whose last place is one.
const MIDDLE: f64 = 6_755_399_441_055_744.0;

/// Constants of a prime, one per register.
#[derive(Clone, Copy)]
pub(super) struct Consts {
    doubles: Doubles,
    high: __m256d,
    both: __m256d,
    low51: __m256i,
    /// `2^51 mod p`.
    middle: Twiddle,
}

/// A sum of products: the words of their high and low parts.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    hi: __m256i,
    lo: __m256i,
}

/// # Safety
/// Four words from `i` on must be inside the slice.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load(s: &[u64], i: usize) -> __m256i {
    debug_assert!(i + QUAD <= s.len());
    // SAFETY: the caller's promise; the load needs no alignment.
    unsafe { _mm256_loadu_si256(s.as_ptr().add(i).cast()) }
}

/// # Safety
/// As for [`load`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store(s: &mut [u64], i: usize, x: __m256i) {
    debug_assert!(i + QUAD <= s.len());
    // SAFETY: the caller's promise; the store needs no alignment.
    unsafe { _mm256_storeu_si256(s.as_mut_ptr().add(i).cast(), x) }
}

impl Sum {
    /// The start of a sum of so many products, at most 1024: without their constants, and with as many
    /// `2^51` in the low part as keep it above zero, which the high part lacks.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn of(products: usize) -> Self {
        let n = products as u64;
        let hi = n.wrapping_mul(HIGH.to_bits() + 1).wrapping_neg();
        let lo = n.wrapping_mul((1u64 << 51).wrapping_sub(MIDDLE.to_bits()));
        Self { hi: _mm256_set1_epi64x(hi as i64), lo: _mm256_set1_epi64x(lo as i64) }
    }

    /// From its two words.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn new(lo: __m256i, hi: __m256i) -> Self {
        Self { hi, lo }
    }

    /// Its two words.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn parts(self) -> [__m256i; 2] {
        [self.lo, self.hi]
    }
}

impl Consts {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn new(prime: &Prime) -> Self {
        let m = prime.modulus;
        let [w, quotient] = pair(m, m.reduce(1 << 51));
        Self {
            doubles: Doubles::new(m.value()),
            high: _mm256_set1_pd(HIGH),
            both: _mm256_set1_pd(BOTH),
            low51: _mm256_set1_epi64x((1 << 51) - 1),
            middle: (_mm256_set1_pd(w), _mm256_set1_pd(quotient)),
        }
    }

    /// Words below `2^52` as factors.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn factor(&self, x: __m256i) -> __m256d {
        self.doubles.double(x)
    }

    /// `sum + a b` of integers in `[0, 2^50)`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn add_product(&self, sum: Sum, a: __m256d, b: __m256d) -> Sum {
        let t = _mm256_fmadd_pd(a, b, self.high);
        let l = _mm256_fmadd_pd(a, b, _mm256_sub_pd(self.both, t));
        Sum {
            hi: _mm256_add_epi64(sum.hi, _mm256_castpd_si256(t)),
            lo: _mm256_add_epi64(sum.lo, _mm256_castpd_si256(l)),
        }
    }

    /// `V + more mod p`, reduced, for `V` below `2^103` and a reduced `more`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn reduce(&self, sum: Sum, more: __m256i) -> __m256i {
        let d = &self.doubles;
        let h = _mm256_add_epi64(sum.hi, _mm256_srli_epi64::<51>(sum.lo));
        let l = d.double(_mm256_and_si256(sum.lo, self.low51));
        // Below 2^51 + 2^50 + 3/4 2^50.
        let x = _mm256_add_pd(_mm256_add_pd(l, d.double(more)), d.mul(d.double(h), self.middle));
        d.word(d.reduce(x))
    }
}
