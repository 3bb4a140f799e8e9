//! Loads, stores, and the exchanges of lanes between the layers of distance 8, 4, 2 and 1.

use std::arch::x86_64::*;

/// # Safety
/// `src` must be valid for 8 words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load(src: *const u64) -> __m512i {
    // SAFETY: the caller's promise; the instruction takes any alignment.
    unsafe { _mm512_loadu_si512(src.cast()) }
}

/// # Safety
/// `dst` must be valid for 8 words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn store(dst: *mut u64, v: __m512i) {
    // SAFETY: the caller's promise; the instruction takes any alignment.
    unsafe { _mm512_storeu_si512(dst.cast(), v) }
}

/// Two neighbouring vectors to the pairs of distance 4: lower and upper halves.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn split(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xEE>(a, b))
}

/// Distance 4 to distance 2: 128-bit lanes 0, 2 and 1, 3 of each.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn four_to_two(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xDD>(a, b))
}

/// The inverse of [`four_to_two`].
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn two_to_four(x: __m512i, y: __m512i) -> (__m512i, __m512i) {
    let lower = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    let upper = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    (_mm512_permutex2var_epi64(x, lower, y), _mm512_permutex2var_epi64(x, upper, y))
}

/// Distance 2 to distance 1, and back: the map is its own inverse.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn two_to_one(x: __m512i, y: __m512i) -> (__m512i, __m512i) {
    (_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y))
}

/// From the lanes of distance 1 to memory order.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn join(x: __m512i, y: __m512i) -> (__m512i, __m512i) {
    let first = _mm512_setr_epi64(0, 8, 1, 9, 4, 12, 5, 13);
    let second = _mm512_setr_epi64(2, 10, 3, 11, 6, 14, 7, 15);
    (_mm512_permutex2var_epi64(x, first, y), _mm512_permutex2var_epi64(x, second, y))
}

/// From memory order to the lanes of distance 1: the inverse of [`join`].
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn unjoin(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    let even = _mm512_setr_epi64(0, 2, 8, 10, 4, 6, 12, 14);
    let odd = _mm512_setr_epi64(1, 3, 9, 11, 5, 7, 13, 15);
    (_mm512_permutex2var_epi64(a, even, b), _mm512_permutex2var_epi64(a, odd, b))
}
