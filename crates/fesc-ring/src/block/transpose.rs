//! Transpose of a bit matrix with 128 rows, for IKNP.
//!
//! Four 64 x 64 transposes per 128 columns, each by six rounds of block swaps (Hacker's Delight, 7-3). The
//! same text is compiled for each path; the compiler vectorises it.

use crate::cpu::{self, Path};

/// `out[c]` bit `r` = bit `c` of row `r`; row `r` is `rows[r * stride ..][.. stride]` words, least
/// significant bit first.
///
/// Writes `min(out.len(), 64 stride)` columns, all of them only if `rows` has `128 stride` words; else
/// nothing.
pub fn transpose_128(rows: &[u64], stride: usize, out: &mut [u128]) {
    transpose_on(cpu::path(), rows, stride, out);
}

pub(super) fn transpose_on(path: Path, rows: &[u64], stride: usize, out: &mut [u128]) {
    if rows.len() < 128 * stride {
        return;
    }
    let path = path.min(cpu::path());
    match path {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `path` is no higher than one that this processor has.
        Path::Avx512 => unsafe { wide(rows, stride, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Path::Avx2 => unsafe { narrow(rows, stride, out) },
        _ => body(rows, stride, out),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
fn wide(rows: &[u64], stride: usize, out: &mut [u128]) {
    body(rows, stride, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn narrow(rows: &[u64], stride: usize, out: &mut [u128]) {
    body(rows, stride, out);
}

#[inline(always)]
fn body(rows: &[u64], stride: usize, out: &mut [u128]) {
    for (w, part) in out.chunks_mut(64).take(stride).enumerate() {
        let mut low = [0u64; 64];
        let mut high = [0u64; 64];
        for r in 0..64 {
            low[r] = rows[r * stride + w];
            high[r] = rows[(r + 64) * stride + w];
        }
        square(&mut low);
        square(&mut high);
        for (o, (l, h)) in part.iter_mut().zip(low.iter().zip(&high)) {
            *o = u128::from(*l) | u128::from(*h) << 64;
        }
    }
}

/// Transposes a 64 x 64 bit matrix, bit `c` of word `r` being column `c`.
#[inline(always)]
fn square(m: &mut [u64; 64]) {
    round::<32>(m, 0x0000_0000_ffff_ffff);
    round::<16>(m, 0x0000_ffff_0000_ffff);
    round::<8>(m, 0x00ff_00ff_00ff_00ff);
    round::<4>(m, 0x0f0f_0f0f_0f0f_0f0f);
    round::<2>(m, 0x3333_3333_3333_3333);
    round::<1>(m, 0x5555_5555_5555_5555);
}

/// Swaps the off-diagonal `J x J` blocks of every `2J x 2J` block.
#[inline(always)]
fn round<const J: usize>(m: &mut [u64; 64], mask: u64) {
    for group in m.chunks_exact_mut(2 * J) {
        let (a, b) = group.split_at_mut(J);
        for (x, y) in a.iter_mut().zip(b) {
            let t = ((*x >> J) ^ *y) & mask;
            *x ^= t << J;
            *y ^= t;
        }
    }
}
