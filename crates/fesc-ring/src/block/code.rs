//! The local linear code of primal LPN: each output is the XOR of ten table rows at public pseudorandom
//! places.
//!
//! Row `r` reads the words `10 r .. 10 r + 10` (32 bits each) of the AES counter stream of a public seed; a
//! word `w` names the place `floor(w k / 2^32)`. The places of a row may repeat, as in Ferret (2020/924):
//! they are independent and uniform up to `k / 2^32`. Cost: 2.5 AES blocks and ten 16-byte reads per output;
//! the reads bound the speed, so a table within the L2 cache is best. The places are public; the table may be
//! secret.

use super::Aes;
use crate::cpu::{self, Path};

/// Table rows per output.
pub const LOCALITY: usize = 10;

/// Rows handled per pass over the counter stream.
const ROWS: usize = 128;

/// The counter stream of a pass, on a cache line, so that AES writes it in place.
#[repr(C, align(64))]
struct Words([u32; ROWS * LOCALITY + 2]);

/// The code of one public seed with tables of `k` rows.
pub struct LocalCode {
    aes: Aes,
    k: u32,
    path: Path,
}

impl LocalCode {
    /// The code with this public seed for tables of `k` rows.
    pub fn new(seed: u128, k: u32) -> Self {
        Self { aes: Aes::new(seed), k, path: cpu::path() }
    }

    /// The same on a given path; the portable one if the processor does not have it.
    pub fn with_path(seed: u128, k: u32, path: Path) -> Self {
        let path = if Path::available().any(|p| p == path) { path } else { Path::Portable };
        Self { aes: Aes::with_path(seed, path), k, path }
    }

    /// `out[i] ^= XOR over the ten places p of row first_row + i of table[p]`.
    ///
    /// Does nothing for an empty code (`k = 0`) or a table of fewer than `k` rows: callers hold tables of `k`
    /// rows.
    pub fn xor_rows(&self, first_row: u64, table: &[u128], out: &mut [u128]) {
        let Some(table) = table.get(..self.k as usize) else { return };
        if table.is_empty() {
            return;
        }
        let mut row = first_row;
        let Words(words) = &mut Words([0; ROWS * LOCALITY + 2]);
        for part in out.chunks_mut(ROWS) {
            // Ten words per row: an odd row starts in the middle of a block.
            let skip = (row % 2) as usize * 2;
            let first_block = u128::from(row) * LOCALITY as u128 / 4;
            let used = &mut words[..skip + part.len() * LOCALITY];
            self.aes.ctr(first_block, bytemuck::cast_slice_mut(used));
            let places = &mut used[skip..];
            match self.path {
                #[cfg(target_arch = "x86_64")]
                Path::Avx512 => {
                    // SAFETY: `path` is one that this processor has.
                    unsafe { reduce_avx512(places, self.k) };
                    // SAFETY: every place is now below `k = table.len()`.
                    unsafe { gather_sse(places, table, part) };
                }
                #[cfg(target_arch = "x86_64")]
                Path::Avx2 => {
                    // SAFETY: `path` is one that this processor has.
                    unsafe { reduce_avx2(places, self.k) };
                    // SAFETY: every place is now below `k = table.len()`.
                    unsafe { gather_sse(places, table, part) };
                }
                _ => {
                    reduce(places, self.k);
                    gather(places, table, part);
                }
            }
            row += part.len() as u64;
        }
    }
}

/// `w <- floor(w k / 2^32)`, which is below `k`.
#[inline(always)]
fn reduce(words: &mut [u32], k: u32) {
    for w in words {
        *w = ((u64::from(*w) * u64::from(k)) >> 32) as u32;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn reduce_avx512(words: &mut [u32], k: u32) {
    reduce(words, k);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn reduce_avx2(words: &mut [u32], k: u32) {
    reduce(words, k);
}

/// The same as [`gather`] without bounds checks.
///
/// # Safety
/// Every place must be below `table.len()`.
#[cfg(target_arch = "x86_64")]
unsafe fn gather_sse(places: &[u32], table: &[u128], out: &mut [u128]) {
    use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_store_si128, _mm_xor_si128};
    let top = table.len() as u32;
    debug_assert!(places.iter().all(|&p| p < top));
    for (o, row) in out.iter_mut().zip(places.chunks_exact(LOCALITY)) {
        let o = (o as *mut u128).cast::<__m128i>();
        // SAFETY: SSE2 is part of x86_64; `u128` has 16-byte alignment; `row` has ten places, each within the
        // table by the caller's promise.
        unsafe {
            let at = |j: usize| {
                let p = *row.get_unchecked(j) as usize;
                _mm_load_si128(table.as_ptr().add(p).cast())
            };
            let a = _mm_xor_si128(_mm_xor_si128(at(0), at(1)), _mm_xor_si128(at(2), at(3)));
            let b = _mm_xor_si128(_mm_xor_si128(at(4), at(5)), _mm_xor_si128(at(6), at(7)));
            let c = _mm_xor_si128(_mm_xor_si128(at(8), at(9)), _mm_load_si128(o));
            _mm_store_si128(o, _mm_xor_si128(_mm_xor_si128(a, b), c));
        }
    }
}

fn gather(places: &[u32], table: &[u128], out: &mut [u128]) {
    for (o, row) in out.iter_mut().zip(places.chunks_exact(LOCALITY)) {
        *o = row.iter().fold(*o, |acc, &p| acc ^ table[p as usize]);
    }
}
