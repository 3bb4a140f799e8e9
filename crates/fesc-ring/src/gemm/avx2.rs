//! The AVX2 kernel: there is no 64-bit multiplication, so it is put together from 32-bit ones.
//!
//! With `x = x0 + 2^32 x1`: `a b = a0 b0 + 2^32 (a0 b1 + a1 b0) mod 2^64`. `vpmuludq` gives `a0 b0`; one
//! `vpmulld` of `a` with the swapped halves of `b` gives both cross terms, each modulo `2^32`, which is all
//! that survives the shift. The cross terms are summed in their own register, modulo `2^32` per half, and are
//! joined once at the end. Five micro-operations for four lanes, where three `vpmuludq` and three additions
//! would take six.

use std::arch::x86_64::*;

use super::block::{Kernel, Tile};

const MR: usize = 4;
const NR: usize = 4;

pub(super) const KERNEL: Kernel = Kernel::new::<MR, NR>(384, tile);

fn tile(a: &[u64], b: &[u64], into: Tile<'_>) {
    // SAFETY: `gemm::kernel` hands this kernel out only if the processor has AVX2.
    unsafe { tile_avx2(a, b, into) }
}

#[target_feature(enable = "avx2")]
fn tile_avx2(a: &[u64], b: &[u64], into: Tile<'_>) {
    let mut low = [_mm256_setzero_si256(); MR];
    let mut cross = [_mm256_setzero_si256(); MR];
    for (a, b) in a.as_chunks::<MR>().0.iter().zip(b.as_chunks::<NR>().0) {
        // SAFETY: `b` is four words, and the load needs no alignment.
        let b = unsafe { _mm256_loadu_si256(b.as_ptr().cast()) };
        let swapped = _mm256_shuffle_epi32::<0b10_11_00_01>(b);
        for (i, &x) in a.iter().enumerate() {
            let x = _mm256_set1_epi64x(x as i64);
            low[i] = _mm256_add_epi64(low[i], _mm256_mul_epu32(x, b));
            cross[i] = _mm256_add_epi32(cross[i], _mm256_mullo_epi32(x, swapped));
        }
    }
    let mut product = [[0u64; NR]; MR];
    for ((row, l), c) in product.iter_mut().zip(low).zip(cross) {
        let joined = _mm256_add_epi32(c, _mm256_slli_epi64::<32>(c));
        // The low half of `joined` is a0 b1 alone: only the high half, the sum of both, may stay.
        let high = _mm256_slli_epi64::<32>(_mm256_srli_epi64::<32>(joined));
        // SAFETY: `row` is four words, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(row.as_mut_ptr().cast(), _mm256_add_epi64(l, high)) };
    }
    into.merge(&product);
}
