//! What the AVX-512 kernels of this module share: constants of a prime in registers, loads, and the
//! reductions.

use super::Prime;
use crate::modulus::Shoup;
use std::arch::x86_64::*;

/// Constants of a prime, one per register.
#[derive(Clone, Copy)]
pub(super) struct Consts {
    pub(super) zero: __m512i,
    pub(super) p: __m512i,
    two_p: __m512i,
    /// `2^52 - p`: its products subtract multiples of `p` modulo `2^52`.
    neg_p: __m512i,
    /// `p^-1 mod 2^52`.
    inverse: __m512i,
    low52: __m512i,
    middle: Factor,
}

/// A fixed factor with its quotient `floor(w 2^52 / p)`.
#[derive(Clone, Copy)]
pub(super) struct Factor(__m512i, __m512i);

impl Factor {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(w: Shoup) -> Self {
        // floor(w 2^64 / p) >> 12 is floor(w 2^52 / p).
        Self(_mm512_set1_epi64(w.value as i64), _mm512_set1_epi64((w.quotient >> 12) as i64))
    }
}

/// # Safety
/// Eight words from `i` on must be inside the slice.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load(s: &[u64], i: usize) -> __m512i {
    debug_assert!(i + 8 <= s.len());
    // SAFETY: the caller's promise; the load needs no alignment.
    unsafe { _mm512_loadu_si512(s.as_ptr().add(i).cast()) }
}

/// # Safety
/// As for [`load`].
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn store(s: &mut [u64], i: usize, x: __m512i) {
    debug_assert!(i + 8 <= s.len());
    // SAFETY: the caller's promise; the store needs no alignment.
    unsafe { _mm512_storeu_si512(s.as_mut_ptr().add(i).cast(), x) }
}

/// A sum of products: low and high 52-bit halves, each in its own word.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    lo: __m512i,
    hi: __m512i,
}

impl Sum {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn zero() -> Self {
        let zero = _mm512_setzero_si512();
        Self { lo: zero, hi: zero }
    }

    /// From the two words of `lo + 2^52 hi`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(lo: __m512i, hi: __m512i) -> Self {
        Self { lo, hi }
    }

    /// The two words of `lo + 2^52 hi`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn parts(self) -> [__m512i; 2] {
        [self.lo, self.hi]
    }

    /// `self + a b`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn add_product(self, a: __m512i, b: __m512i) -> Self {
        Self { lo: _mm512_madd52lo_epu64(self.lo, a, b), hi: _mm512_madd52hi_epu64(self.hi, a, b) }
    }
}

impl Consts {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(prime: &Prime) -> Self {
        let (p, set) = (prime.modulus.value(), |x: u64| _mm512_set1_epi64(x as i64));
        Self {
            zero: set(0),
            p: set(p),
            two_p: set(2 * p),
            neg_p: set((1 << 52) - p),
            inverse: set(prime.inverse),
            low52: set((1 << 52) - 1),
            middle: Factor::new(prime.middle),
        }
    }

    /// `x` or `x - bound`, whichever is in `[0, bound)`, for `x < 2 bound`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn fold(x: __m512i, bound: __m512i) -> __m512i {
        _mm512_min_epu64(x, _mm512_sub_epi64(x, bound))
    }

    /// Reduces `x < 2p`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn fold_two(&self, x: __m512i) -> __m512i {
        Self::fold(x, self.p)
    }

    /// Reduces `x < 4p`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn fold_four(&self, x: __m512i) -> __m512i {
        self.fold_two(Self::fold(x, self.two_p))
    }

    /// `V / 2^52 mod p`, above zero and at most `V / 2^52 + p`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn montgomery(&self, sum: Sum) -> __m512i {
        let hi = _mm512_add_epi64(sum.hi, _mm512_srli_epi64::<52>(sum.lo));
        // The products read the low 52 bits of their factors only.
        let m = _mm512_madd52lo_epu64(self.zero, sum.lo, self.inverse);
        _mm512_sub_epi64(_mm512_add_epi64(hi, self.p), _mm512_madd52hi_epu64(self.zero, m, self.p))
    }

    /// `x w mod p` in `[0, 2p)` for `x < 2^52`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn times(&self, x: __m512i, w: Factor) -> __m512i {
        let q = _mm512_madd52hi_epu64(self.zero, x, w.1);
        let t = _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(self.zero, x, w.0), q, self.neg_p);
        _mm512_and_si512(t, self.low52)
    }

    /// `V mod p` in `[0, 2p)`, for a sum of at most [`Prime::depth`](super::Prime) products or a `V` below
    /// `2^52 (2^52 - p)`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn reduce_lazy(&self, sum: Sum) -> __m512i {
        self.times(self.montgomery(sum), self.middle)
    }

    /// [`Consts::reduce_lazy`], reduced.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn reduce(&self, sum: Sum) -> __m512i {
        self.fold_two(self.reduce_lazy(sum))
    }
}
