//! Sums of scalars times vectors of 104-bit numbers, `out_o = sum_j m_oj v_j mod 2^104`, read from a given
//! bit on.
//!
//! A number is two words of 52 bits, `v = lo + 2^52 hi`: the operands of AVX-512 IFMA. A product by a scalar
//! `u` is three instructions for eight numbers,
//!
//! ```text
//! acc_lo += low52(u lo)        acc_hi += high52(u lo) + low52(u hi)
//! ```
//!
//! and carries wait until the end. `acc_lo` must hold its sum exactly, hence at most [`MAX_TERMS`] terms;
//! `acc_hi` may wrap, only its low 52 bits count. Rows whose `hi` is zero throughout take two instructions.
//!
//! Scalars have a sign, the instructions have none: `u = m + 2^50` is multiplied and `2^50 sum_j v_j`, one
//! number per column for all outputs, is what the accumulators start from (negated). The rounding constant of
//! the final shift is there too. AVX2 multiplies in floating point (`wide/avx2.rs`), which has a sign; that
//! scalars have 51 bits and not 52 is for its sake.
//!
//! Blocked like [`crate::gemm`]: rows are packed into panels of 24 columns (any order of coefficients can be
//! read on the way, see `read`), a tile of 4 outputs by 24 columns stays in registers, and a panel in the
//! cache while outputs pass by. On all threads of the current rayon pool.
//!
//! # Speed
//! Products of a scalar by a 104-bit number (by one of 52 bits in brackets), 128 sums of 128 rows of 4096,
//! one core of a Sapphire Rapids whose other hyper-thread was busy, by processor time: 4.5 GMAC/s (10.8) with
//! IFMA, about 0.3 portable. The limit is two IFMA of eight lanes per cycle.
//!
//! # What is not guaranteed
//! Time depends on shapes only. The packed scalars are wiped; the rows are not (ciphertexts are public), nor
//! are registers.

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::cpu::{self, Path};

/// Bits of a word.
pub const WORD_BITS: u32 = 52;
/// Most terms of a sum: `(2^52 - 1) (MAX_TERMS + 2) < 2^64`.
pub const MAX_TERMS: usize = (1 << 12) - 2;

/// The low 52 bits.
pub const WORD: u64 = (1 << WORD_BITS) - 1;

/// Numbers of a vector.
const LANES: usize = 8;
/// Columns of a panel: three vectors.
const COLS: usize = 3 * LANES;
/// Outputs of a tile.
const ROWS: usize = 4;
/// Outputs of a task: as many tiles as pass by one panel.
const TASK_ROWS: usize = 4 * ROWS;
/// Words that are packed at a time: 1 MB, which stays in the cache, and so that memory does not grow with the
/// number of columns.
const PACKED_WORDS: usize = 1 << 17;
/// Bits of a scalar.
pub const SCALAR_BITS: u32 = 51;
/// What makes scalars positive.
const OFFSET: u64 = 1 << (SCALAR_BITS - 1);

/// Why a sum cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WideError {
    /// Too many terms for 64-bit accumulators.
    #[error("a sum of {terms} terms of 104 bits: at most {MAX_TERMS} are exact; add sums of fewer terms")]
    Terms {
        /// Terms asked for.
        terms: usize,
    },
    /// The slices do not fit the shape.
    #[error(
        "sums of {terms} terms over {cols} columns: {scalars} scalars and {out} results do not belong to the same outputs"
    )]
    Shape {
        /// Terms of a sum.
        terms: usize,
        /// Columns.
        cols: usize,
        /// Scalars given.
        scalars: usize,
        /// Room for results.
        out: usize,
    },
    /// A shift that would lose bits of the result or has no half.
    #[error("a shift of {shift} bits: 1 to {WORD_BITS} are possible")]
    Shift {
        /// The shift.
        shift: u32,
    },
}

/// What the sums range over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Terms `j` of a sum.
    pub terms: usize,
    /// Numbers of a row.
    pub cols: usize,
    /// Do rows have a `hi` word? If not, `read` gets an empty slice for it.
    pub wide: bool,
    /// Results are divided by `2^shift`, rounded to the nearest, modulo `2^64`.
    pub shift: u32,
}

/// `out[o][c] = floor((sum_j scalars[o][j] row_j[c] mod 2^104) / 2^shift + 1/2) mod 2^64`, with `scalars` and
/// `out` row-major.
///
/// Scalars are read modulo `2^51`, as numbers in `-2^50 .. 2^50`. `read(j, from, lo, hi)` gives the words,
/// below `2^52`, of the columns from `from` on of row `j`, as many as `lo` takes.
///
/// # Errors
/// If the slices do not fit the shape, or a bound of the shape is passed.
pub fn combine(
    shape: Shape,
    scalars: &[i64],
    read: impl Fn(usize, usize, &mut [u64], &mut [u64]) + Sync,
    out: &mut [u64],
) -> Result<(), WideError> {
    combine_with(cpu::path(), shape, scalars, read, out)
}

/// [`combine`] on a given path, for tests and benchmarks; a path that this processor does not have is
/// lowered.
pub fn combine_with(
    path: Path,
    shape: Shape,
    scalars: &[i64],
    read: impl Fn(usize, usize, &mut [u64], &mut [u64]) + Sync,
    out: &mut [u64],
) -> Result<(), WideError> {
    let Shape { terms, cols, wide, shift } = shape;
    if terms > MAX_TERMS {
        return Err(WideError::Terms { terms });
    }
    if shift == 0 || shift > WORD_BITS {
        return Err(WideError::Shift { shift });
    }
    let outputs = out.len().checked_div(cols).unwrap_or(0);
    if outputs * cols != out.len() || (cols > 0 && outputs.checked_mul(terms) != Some(scalars.len())) {
        return Err(WideError::Shape { terms, cols, scalars: scalars.len(), out: out.len() });
    }
    if out.is_empty() {
        return Ok(());
    }
    let Kernel { tile, scalar, split } = kernel(path);
    let scalars: Zeroizing<Vec<u64>> = Zeroizing::new(scalars.iter().map(|&m| scalar(m)).collect());
    let words = terms.max(1) * COLS * if wide { 2 } else { 1 };
    let step = (PACKED_WORDS / words).max(1) * COLS;
    // Used again at every step: fresh memory would cost more than the packing.
    let mut panels: Vec<Panel> = (0..step.min(cols).div_ceil(COLS)).map(|_| Panel::new(shape)).collect();
    for from in (0..cols).step_by(step) {
        let width = step.min(cols - from);
        panels.truncate(width.div_ceil(COLS));
        panels.par_iter_mut().enumerate().for_each(|(p, panel)| {
            panel.pack(from + p * COLS, COLS.min(width - p * COLS), split, &read);
        });
        out.par_chunks_mut(TASK_ROWS * cols).enumerate().for_each(|(task, out)| {
            for (p, panel) in panels.iter().enumerate() {
                for (t, rows) in out.chunks_mut(ROWS * cols).enumerate() {
                    let first = task * TASK_ROWS + t * ROWS;
                    let count = rows.len() / cols;
                    let mut result = [[0; COLS]; ROWS];
                    tile(panel, &scalars[first * terms..(first + count) * terms], &mut result[..count]);
                    for (row, result) in rows.chunks_mut(cols).zip(&result) {
                        let at = from + p * COLS;
                        let end = cols.min(at + COLS).min(from + width);
                        row[at..end].copy_from_slice(&result[..end - at]);
                    }
                }
            }
        });
    }
    Ok(())
}

/// Eight numbers on a cache line of their own: a load that crosses lines costs two.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; LANES]);

/// Packed columns: for every term 24 low words, then 24 high ones if rows have them, as the kernel reads
/// them.
struct Panel {
    shape: Shape,
    lines: Vec<Line>,
    /// What the accumulators start from: `half - 2^51 sum_j v_j`, in two words.
    start: [[u64; COLS]; 2],
}

impl Panel {
    fn new(shape: Shape) -> Self {
        let lines = vec![Line([0; LANES]); shape.terms * per_term(shape.wide)];
        Self { shape, lines, start: [[0; COLS]; 2] }
    }

    fn pack(
        &mut self,
        from: usize,
        width: usize,
        split: Option<Split>,
        read: &impl Fn(usize, usize, &mut [u64], &mut [u64]),
    ) {
        let shape = self.shape;
        let mut sums = [0u128; COLS];
        let (mut lo, mut hi) = ([0; COLS], [0; COLS]);
        let hi_width = if shape.wide { width } else { 0 };
        for (j, lines) in self.lines.chunks_exact_mut(per_term(shape.wide)).enumerate() {
            read(j, from, &mut lo[..width], &mut hi[..hi_width]);
            if let Some(split) = split {
                split(&mut lo, &mut hi);
            }
            for (line, words) in lines.iter_mut().zip(lo.as_chunks().0.iter().chain(hi.as_chunks().0)) {
                line.0 = *words;
            }
            if split.is_some() {
                continue;
            }
            for ((sum, &lo), &hi) in sums.iter_mut().zip(&lo).zip(&hi) {
                *sum = sum.wrapping_add(u128::from(lo) + (u128::from(hi) << WORD_BITS));
            }
        }
        let half = 1u128 << (shape.shift - 1);
        for (c, &sum) in sums.iter().enumerate() {
            let value = half.wrapping_sub(sum << (SCALAR_BITS - 1));
            self.start[0][c] = value as u64 & WORD;
            self.start[1][c] = (value >> WORD_BITS) as u64 & WORD;
        }
    }
}

/// Lines of one term.
const fn per_term(wide: bool) -> usize {
    COLS / LANES * if wide { 2 } else { 1 }
}

/// One tile: up to four outputs (rows of `scalars`, `terms` each) by one panel.
type Tile = fn(panel: &Panel, scalars: &[u64], out: &mut [[u64; COLS]]);

/// Turns the words of some numbers into those that a kernel reads.
type Split = fn(lo: &mut [u64; COLS], hi: &mut [u64; COLS]);

/// How a path multiplies.
struct Kernel {
    tile: Tile,
    /// A scalar as the tile reads it.
    scalar: fn(i64) -> u64,
    /// Numbers as the tile reads them, if not in words; then scalars have a sign and `Panel::start` is not
    /// read.
    split: Option<Split>,
}

/// A scalar without a sign.
fn positive(m: i64) -> u64 {
    (m as u64).wrapping_add(OFFSET) & (2 * OFFSET - 1)
}

/// The kernel of a path. The only place that hands out SIMD kernels.
fn kernel(path: Path) -> Kernel {
    let best = Path::available().last().unwrap_or(Path::Portable);
    match path.min(best) {
        #[cfg(target_arch = "x86_64")]
        Path::Avx512 => Kernel { tile: avx512::tile, scalar: positive, split: None },
        #[cfg(target_arch = "x86_64")]
        Path::Avx2 => Kernel {
            tile: avx2::tile,
            scalar: |m| avx2::scalar(positive(m) as i64 - OFFSET as i64),
            split: Some(avx2::split),
        },
        _ => Kernel { tile: portable, scalar: positive, split: None },
    }
}

fn portable(panel: &Panel, scalars: &[u64], out: &mut [[u64; COLS]]) {
    let Shape { terms, wide, shift, .. } = panel.shape;
    for (r, out) in out.iter_mut().enumerate() {
        let join = |lo: u64, hi: u64| u128::from(lo) + (u128::from(hi) << WORD_BITS);
        let mut acc: [u128; COLS] = std::array::from_fn(|c| join(panel.start[0][c], panel.start[1][c]));
        for (lines, &u) in panel.lines.chunks_exact(per_term(wide)).zip(&scalars[r * terms..]) {
            let (lo, hi) = lines.split_at(COLS / LANES);
            for (c, acc) in acc.iter_mut().enumerate() {
                // 104 is below 128: what wraps does not count.
                let number = join(lo[c / LANES].0[c % LANES], hi.get(c / LANES).map_or(0, |l| l.0[c % LANES]));
                *acc = acc.wrapping_add(u128::from(u).wrapping_mul(number));
            }
        }
        for (o, acc) in out.iter_mut().zip(acc) {
            *o = ((acc & ((1 << (2 * WORD_BITS)) - 1)) >> shift) as u64;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2;

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{COLS, LANES, Line, Panel, Shape, WORD, WORD_BITS, per_term};

    const VECTORS: usize = COLS / LANES;

    pub(super) fn tile(panel: &Panel, scalars: &[u64], out: &mut [[u64; COLS]]) {
        // SAFETY: `kernel` hands this out only if the processor has AVX-512 F and IFMA.
        unsafe {
            match (out.len(), panel.shape.wide) {
                (1, false) => rows::<1, false>(panel, scalars, out),
                (2, false) => rows::<2, false>(panel, scalars, out),
                (3, false) => rows::<3, false>(panel, scalars, out),
                (_, false) => rows::<4, false>(panel, scalars, out),
                (1, true) => rows::<1, true>(panel, scalars, out),
                (2, true) => rows::<2, true>(panel, scalars, out),
                (3, true) => rows::<3, true>(panel, scalars, out),
                (_, true) => rows::<4, true>(panel, scalars, out),
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    fn load<'a>(words: impl Iterator<Item = &'a [u64; LANES]>) -> [__m512i; VECTORS] {
        let mut vectors = [_mm512_setzero_si512(); VECTORS];
        for (v, words) in vectors.iter_mut().zip(words) {
            // SAFETY: `words` is eight words, and the load needs no alignment.
            *v = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
        }
        vectors
    }

    #[target_feature(enable = "avx512f")]
    fn load_lines(lines: &[Line]) -> [__m512i; VECTORS] {
        load(lines.iter().map(|line| &line.0))
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn rows<const R: usize, const WIDE: bool>(panel: &Panel, scalars: &[u64], out: &mut [[u64; COLS]]) {
        let Shape { terms, shift, .. } = panel.shape;
        let mut low = [load(panel.start[0].as_chunks().0.iter()); R];
        let mut high = [load(panel.start[1].as_chunks().0.iter()); R];
        let scalars: [&[u64]; R] = std::array::from_fn(|r| &scalars[r * terms..(r + 1) * terms]);
        for (j, lines) in panel.lines.chunks_exact(per_term(WIDE)).enumerate() {
            let lo = load_lines(&lines[..VECTORS]);
            let hi = if WIDE { load_lines(&lines[VECTORS..]) } else { lo };
            for r in 0..R {
                let u = _mm512_set1_epi64(scalars[r][j] as i64);
                for v in 0..VECTORS {
                    low[r][v] = _mm512_madd52lo_epu64(low[r][v], u, lo[v]);
                    high[r][v] = _mm512_madd52hi_epu64(high[r][v], u, lo[v]);
                    if WIDE {
                        high[r][v] = _mm512_madd52lo_epu64(high[r][v], u, hi[v]);
                    }
                }
            }
        }
        let mask = _mm512_set1_epi64(WORD as i64);
        let (right, left) = (_mm_cvtsi32_si128(shift as i32), _mm_cvtsi32_si128((WORD_BITS - shift) as i32));
        for (r, out) in out.iter_mut().enumerate().take(R) {
            for (v, words) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let carry = _mm512_srli_epi64::<WORD_BITS>(low[r][v]);
                let hi = _mm512_and_si512(_mm512_add_epi64(high[r][v], carry), mask);
                let lo = _mm512_and_si512(low[r][v], mask);
                let value = _mm512_or_si512(_mm512_sll_epi64(hi, left), _mm512_srl_epi64(lo, right));
                // SAFETY: `words` is eight words, and the store needs no alignment.
                unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), value) };
            }
        }
    }
}

#[cfg(test)]
mod tests;
