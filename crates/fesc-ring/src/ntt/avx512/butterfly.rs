//! The butterflies of the AVX-512 transform, eight at a time.
//!
//! `vpmadd52luq` and `vpmadd52huq` multiply the low 52 bits of their factors and add the low or high half of
//! the product to a 64-bit accumulator. Two habits follow.
//!
//! *Values live modulo `2^52`.* A factor's high bits are ignored, so nothing is masked between layers: a lane
//! may carry rubbish above bit 52, and only the last step of a transform cleans it. What must hold is that
//! the true value, an integer in `[0, 2^52)` (or in `[-2^51, 2^51)` where said), is what the low 52 bits say.
//!
//! *Additions ride on products.* With `w' = floor(w 2^52 / p)` and `q = hi(y w')`, `t = y w - q p` is in
//! `[0, 2p)` for every `y < 2^52` (Harvey). The forward butterfly takes `x, y` in `[0, 2^52)`; with
//! `m = 2^52 - p`:
//!
//! ```text
//! u = x, less 2p where bit 51 is set                                    in [0, 2^51), as 2p <= 2^51
//! a = u + lo(y (w + p)) + lo((y + hi(y w')) m)   = u + t                in [0, 2^51 + 2p)
//! b = 2p + lo(2 u) - a                           = u - t + 2p           in [0, 2^51 + 2p)
//! ```
//!
//! Seven instructions on the two vector ports. The table holds `w + p`, which lets `y` be its own accumulator
//! in `y + q`.
//!
//! Backward, the upper half `y` of a pair is stored *negated*, as `n = -y` in `[0, 2p)`. Then
//! `d = x - y = x + n` needs no offset to stay positive, and `s = x + y = x - n` is in `(-2p, 2p)`, where bit
//! 51 is the sign: add `2p` where it is set. The product is `d + lo(d (w - 1)) + lo(q m)`, `w - 1` from the
//! table. Seven instructions again. A node's results are the lower or upper half of its parent's pair as its
//! number is even or odd: odd nodes negate theirs by swapping one subtraction and using `-w`.

use std::arch::x86_64::*;

/// A twiddle in registers: factor and quotient.
pub(super) type Twiddle = (__m512i, __m512i);

/// Constants of a prime, one per register.
#[derive(Clone, Copy)]
pub(super) struct Consts {
    pub(super) p: __m512i,
    two_p: __m512i,
    /// `2^52 - p`: adding its multiples subtracts multiples of `p` modulo `2^52`.
    neg_p: __m512i,
    /// `floor(2^52 / p)`.
    barrett: __m512i,
    two: __m512i,
    /// The sign of a value in `[-2^51, 2^51)`, or whether one in `[0, 2^52)` is at least `2^51`.
    bit51: __m512i,
    pub(super) zero: __m512i,
    low52: __m512i,
}

impl Consts {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn new(p: u64) -> Self {
        let set = |x: u64| _mm512_set1_epi64(x as i64);
        Self {
            p: set(p),
            two_p: set(2 * p),
            neg_p: set((1 << 52) - p),
            barrett: set((1 << 52) / p),
            two: set(2),
            bit51: set(1 << 51),
            zero: set(0),
            low52: set((1 << 52) - 1),
        }
    }

    /// `[0, 2^52)` to `[0, 2p)`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn fold(&self, x: __m512i) -> __m512i {
        let f = _mm512_madd52hi_epu64(self.zero, x, self.barrett);
        _mm512_madd52lo_epu64(x, f, self.neg_p)
    }

    /// `[0, 2p)`, rubbish above bit 52 allowed, to the clean `[0, p)`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn finish(&self, x: __m512i) -> __m512i {
        let x = _mm512_and_si512(x, self.low52);
        _mm512_min_epu64(x, _mm512_sub_epi64(x, self.p))
    }

    /// `x` with `2p` taken off (or put on, if `BELOW`) where bit 51 is set.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn settle<const BELOW: bool>(&self, x: __m512i) -> __m512i {
        let k = _mm512_test_epi64_mask(x, self.bit51);
        if BELOW { _mm512_mask_add_epi64(x, k, x, self.two_p) } else { _mm512_mask_sub_epi64(x, k, x, self.two_p) }
    }

    /// Forward butterfly, `[0, 2^52)` to the same; the factor in `w` is stored with `p` added.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn ct(&self, x: __m512i, y: __m512i, w: Twiddle) -> (__m512i, __m512i) {
        let u = self.settle::<false>(x);
        let a = _mm512_madd52lo_epu64(u, y, w.0);
        let q_plus_y = _mm512_madd52hi_epu64(y, y, w.1);
        let a = _mm512_madd52lo_epu64(a, q_plus_y, self.neg_p);
        (a, _mm512_sub_epi64(_mm512_madd52lo_epu64(self.two_p, u, self.two), a))
    }

    /// `d w mod p` in `[0, 2p)`; the factor in `w` is stored less one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn mul(&self, d: __m512i, w: Twiddle) -> __m512i {
        let q = _mm512_madd52hi_epu64(self.zero, d, w.1);
        _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(d, d, w.0), q, self.neg_p)
    }

    /// Backward butterfly with `n = -y`; both results negated if `NEG` (the caller's `w` is then `-w`).
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn gs<const NEG: bool>(&self, x: __m512i, n: __m512i, w: Twiddle) -> (__m512i, __m512i) {
        let s = if NEG { _mm512_sub_epi64(n, x) } else { _mm512_sub_epi64(x, n) };
        (self.settle::<true>(s), self.mul(_mm512_add_epi64(x, n), w))
    }

    /// The last backward butterfly: both results scaled and fully reduced.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn gs_root(&self, x: __m512i, n: __m512i, scale: Twiddle, scaled_root: Twiddle) -> (__m512i, __m512i) {
        let s = _mm512_sub_epi64(_mm512_add_epi64(x, self.two_p), n);
        let d = _mm512_add_epi64(x, n);
        (self.finish(self.mul(s, scale)), self.finish(self.mul(d, scaled_root)))
    }

    /// Backward butterfly with `y` as it is, both results negated if `NEG`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn gs_plain<const NEG: bool>(&self, x: __m512i, y: __m512i, w: Twiddle) -> (__m512i, __m512i) {
        let s = _mm512_add_epi64(x, y);
        let d = _mm512_sub_epi64(_mm512_add_epi64(x, self.two_p), y);
        let s = if NEG { self.settle::<true>(_mm512_sub_epi64(self.two_p, s)) } else { self.fold(s) };
        (s, self.mul(d, w))
    }
}
