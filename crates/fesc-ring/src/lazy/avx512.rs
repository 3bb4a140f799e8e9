//! The tile with AVX-512 IFMA: 16 accumulators, two vectors of the panel, one broadcast weight.

use super::{COLUMNS, Lazy, ROWS, Tile};
use crate::modulus::Shoup;
use std::arch::x86_64::*;

const VECTORS: usize = COLUMNS / 8;

/// `out += weights^T panel`, reduced.
///
/// # Safety
/// The processor must have AVX-512 F and IFMA; the prime must be below `2^50`, and there must be at most
/// `2^12 - 1` rows.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) unsafe fn tile(kernel: &Lazy, weights: &[[u64; ROWS]], panel: &[[u64; COLUMNS]], out: &mut Tile) {
    let zero = _mm512_setzero_si512();
    let (mut lo, mut hi) = ([[zero; VECTORS]; ROWS], [[zero; VECTORS]; ROWS]);
    for (w, values) in weights.iter().zip(panel) {
        // SAFETY: each row of the panel has 16 words.
        let v = unsafe { [load(&values[..8]), load(&values[8..])] };
        for row in 0..ROWS {
            let w = _mm512_set1_epi64(w[row] as i64);
            for (i, &v) in v.iter().enumerate() {
                lo[row][i] = _mm512_madd52lo_epu64(lo[row][i], w, v);
                hi[row][i] = _mm512_madd52hi_epu64(hi[row][i], w, v);
            }
        }
    }
    let r = Reduction::new(kernel);
    for (row, out) in out.iter_mut().enumerate() {
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: `out` is eight words.
            unsafe {
                let lo = _mm512_add_epi64(lo[row][i], load(out));
                _mm512_storeu_si512(out.as_mut_ptr().cast(), r.reduce(lo, hi[row][i]));
            }
        }
    }
}

/// # Safety
/// `words` must have eight elements.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(words: &[u64]) -> __m512i {
    // SAFETY: the caller's promise; the load needs no alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// Constants that bring `lo + 2^52 hi` below `p`.
struct Reduction {
    modulus: u64,
    /// `2^52 mod p` and its quotient.
    middle: [__m512i; 2],
    /// `2^104 mod p` and its quotient.
    high: [__m512i; 2],
}

impl Reduction {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(kernel: &Lazy) -> Self {
        // floor(w 2^64 / p) >> 12 is floor(w 2^52 / p).
        let pair = |w: Shoup| [_mm512_set1_epi64(w.value as i64), _mm512_set1_epi64((w.quotient >> 12) as i64)];
        Self { modulus: kernel.modulus.value(), middle: pair(kernel.middle), high: pair(kernel.high) }
    }

    /// The residue of `lo + 2^52 hi` for `hi < 2^63`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn reduce(&self, lo: __m512i, hi: __m512i) -> __m512i {
        let set = |x: u64| _mm512_set1_epi64(x as i64);
        let (zero, low52, neg_p) = (set(0), set((1 << 52) - 1), set((1 << 52) - self.modulus));
        let hi = _mm512_add_epi64(hi, _mm512_srli_epi64::<52>(lo));
        let times = |x: __m512i, w: &[__m512i; 2]| {
            let q = _mm512_madd52hi_epu64(zero, x, w[1]);
            let t = _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(zero, x, w[0]), q, neg_p);
            _mm512_and_si512(t, low52)
        };
        // The products read the low 52 bits of a factor only. Three terms in [0, 2p).
        let one = [set(1), set((1 << 52) / self.modulus)];
        let sum = _mm512_add_epi64(times(hi, &self.middle), times(_mm512_srli_epi64::<52>(hi), &self.high));
        let mut sum = _mm512_add_epi64(sum, times(lo, &one));
        for multiple in [4, 2, 1] {
            sum = _mm512_min_epu64(sum, _mm512_sub_epi64(sum, set(multiple * self.modulus)));
        }
        sum
    }
}
