//! The AVX-512 kernels: a tile of 8 rows by 3 vectors (24 columns) in 24 of the 32 registers.
//!
//! Edges use narrower tiles (1, 2, 4 or 8 rows; 1, 2 or 3 vectors), so that flat and thin products waste
//! little.

use std::arch::x86_64::*;

use super::block::{Kernel, Tile};

/// Rows of the full tile.
const MR: usize = 8;
/// Lanes of a vector.
const LANES: usize = 8;
/// Columns of the full tile.
const NR: usize = 3 * LANES;
/// Steps per panel: 24 KB of `b` and 8 KB of `a` share an L1 cache of 32 to 48 KB.
const KC: usize = 128;

/// For rings of up to 52 bits: one `vpmadd52luq` per 8 products.
pub(super) const IFMA: Kernel = Kernel::new::<MR, NR>(KC, tile::<true>);

/// For all rings: `vpmullq` (three micro-operations on Intel) and an addition.
pub(super) const FULL: Kernel = Kernel::new::<MR, NR>(KC, tile::<false>);

fn tile<const NARROW: bool>(a: &[u64], b: &[u64], into: Tile<'_>) {
    let (a, b) = (a.as_chunks::<MR>().0, b.as_chunks::<NR>().0);
    // SAFETY: `gemm::kernel` hands these kernels out only if the processor has AVX-512 F, DQ and IFMA.
    unsafe {
        match (into.rows, into.cols.div_ceil(LANES)) {
            (1, 1) => tile_avx512::<NARROW, 1, 1>(a, b, into),
            (1, 2) => tile_avx512::<NARROW, 1, 2>(a, b, into),
            (1, _) => tile_avx512::<NARROW, 1, 3>(a, b, into),
            (2, 1) => tile_avx512::<NARROW, 2, 1>(a, b, into),
            (2, 2) => tile_avx512::<NARROW, 2, 2>(a, b, into),
            (2, _) => tile_avx512::<NARROW, 2, 3>(a, b, into),
            (3..=4, 1) => tile_avx512::<NARROW, 4, 1>(a, b, into),
            (3..=4, 2) => tile_avx512::<NARROW, 4, 2>(a, b, into),
            (3..=4, _) => tile_avx512::<NARROW, 4, 3>(a, b, into),
            (_, 1) => tile_avx512::<NARROW, 8, 1>(a, b, into),
            (_, 2) => tile_avx512::<NARROW, 8, 2>(a, b, into),
            (_, _) => tile_avx512::<NARROW, 8, 3>(a, b, into),
        }
    }
}

/// The first `R` rows and `V` vectors of a tile.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn tile_avx512<const NARROW: bool, const R: usize, const V: usize>(a: &[[u64; MR]], b: &[[u64; NR]], into: Tile<'_>) {
    let mut acc = [[_mm512_setzero_si512(); V]; R];
    for (a, b) in a.iter().zip(b) {
        let mut vectors = [_mm512_setzero_si512(); V];
        for (v, words) in vectors.iter_mut().zip(b.as_chunks::<LANES>().0) {
            // SAFETY: `words` is eight words, and the load needs no alignment.
            *v = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
        }
        for (row, &x) in acc.iter_mut().zip(a) {
            let x = _mm512_set1_epi64(x as i64);
            for (o, &v) in row.iter_mut().zip(&vectors) {
                *o = if NARROW {
                    _mm512_madd52lo_epu64(*o, x, v)
                } else {
                    _mm512_add_epi64(*o, _mm512_mullo_epi64(x, v))
                };
            }
        }
    }
    let mut product = [[0u64; NR]; R];
    for (row, vectors) in product.iter_mut().zip(acc) {
        for (words, v) in row.as_chunks_mut::<LANES>().0.iter_mut().zip(vectors) {
            // SAFETY: `words` is eight words, and the store needs no alignment.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), v) };
        }
    }
    into.merge(&product);
}
