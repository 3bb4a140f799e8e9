//! The loops around a kernel: cache blocks, edges of the result, threads.

use rayon::prelude::*;

use super::Update;
use super::panel::{Scratch, Source};
use crate::{Ring, View};

/// Rows of a block of `a`: `MC * kc` words stay in the L2 cache while all panels of `b` pass by.
pub(super) const MC: usize = 256;
/// Columns of a packed block of `b`: bounds its memory to a few MB. A multiple of every `nr`.
pub(super) const NC: usize = 2304;

/// A register kernel.
pub(super) struct Kernel {
    /// Rows of a tile.
    pub(super) mr: usize,
    /// Columns of a tile.
    pub(super) nr: usize,
    /// Steps per panel: a panel of `b` stays in the L1 cache while the panels of `a` pass by.
    pub(super) kc: usize,
    /// Multiplies a packed panel of `a` by one of `b` and merges the product into a tile of the result.
    pub(super) tile: fn(a: &[u64], b: &[u64], into: Tile<'_>),
}

/// The part of the result that one kernel call writes.
pub(super) struct Tile<'a> {
    /// From the tile's first element on.
    pub(super) out: &'a mut [u64],
    /// Distance between rows of `out`.
    pub(super) stride: usize,
    /// Rows in use, `1..=mr`.
    pub(super) rows: usize,
    /// Columns in use, `1..=nr`.
    pub(super) cols: usize,
    pub(super) update: Update,
    pub(super) mask: u64,
}

impl Tile<'_> {
    /// Merges an `mr x NR` product. Inlined, to be compiled with the instruction set of the kernel that calls it.
    #[inline(always)]
    pub(super) fn merge<const NR: usize>(self, product: &[[u64; NR]]) {
        let mask = self.mask;
        for (row, p) in self.out.chunks_mut(self.stride).zip(&product[..self.rows]) {
            let row = &mut row[..self.cols];
            match self.update {
                Update::Set => row.iter_mut().zip(p).for_each(|(o, &v)| *o = v & mask),
                Update::Add => row.iter_mut().zip(p).for_each(|(o, &v)| *o = o.wrapping_add(v) & mask),
                Update::Sub => row.iter_mut().zip(p).for_each(|(o, &v)| *o = o.wrapping_sub(v) & mask),
            }
        }
    }
}

/// The product of non-empty operands whose shapes fit.
pub(super) fn product(
    kernel: &Kernel,
    ring: Ring,
    a: View<'_>,
    b: View<'_>,
    out: &mut [u64],
    update: Update,
    parallel: bool,
) {
    let (n, depth) = (b.cols(), a.cols());
    let (left, right) = (Source::left(a), Source::right(b));
    let rows = if parallel { rows_per_task(kernel, a.rows()) } else { MC };
    let a_words = rows.min(a.rows()).next_multiple_of(kernel.mr) * kernel.kc.min(depth);
    let mut packed = Scratch::new(n.min(NC).next_multiple_of(kernel.nr) * kernel.kc.min(depth));
    let mut a_packed = Scratch::new(if parallel { 0 } else { a_words });
    for col in (0..n).step_by(NC) {
        let cols = NC.min(n - col);
        for step in (0..depth).step_by(kernel.kc) {
            let kc = kernel.kc.min(depth - step);
            let update = if step > 0 && update == Update::Set { Update::Add } else { update };
            let panels = packed.get(cols.next_multiple_of(kernel.nr) * kc);
            let pack = |(i, panel): (usize, &mut [u64])| right.pack(col + i * kernel.nr, step, kernel.nr, panel);
            if parallel {
                panels.par_chunks_mut(kc * kernel.nr).enumerate().for_each(pack);
            } else {
                panels.chunks_mut(kc * kernel.nr).enumerate().for_each(pack);
            }
            let panels = &*panels;
            let block = |scratch: &mut Scratch, (i, out): (usize, &mut [u64])| {
                let block = Block { kernel, ring, row: i * rows, col, cols, step, kc, n };
                block.run(left, panels, scratch, out, update);
            };
            if parallel {
                out.par_chunks_mut(rows * n).enumerate().for_each_init(|| Scratch::new(a_words), block);
            } else {
                out.chunks_mut(rows * n).enumerate().for_each(|o| block(&mut a_packed, o));
            }
        }
    }
}

/// Rows per task: a few tasks per thread, whole tiles, at most a cache block.
fn rows_per_task(kernel: &Kernel, rows: usize) -> usize {
    rows.div_ceil(2 * rayon::current_num_threads()).next_multiple_of(kernel.mr).min(MC)
}

/// One block of rows of the result by one packed block of `b`.
struct Block<'a> {
    kernel: &'a Kernel,
    ring: Ring,
    row: usize,
    col: usize,
    cols: usize,
    step: usize,
    kc: usize,
    n: usize,
}

impl Block<'_> {
    fn run(&self, a: Source<'_>, b: &[u64], scratch: &mut Scratch, out: &mut [u64], update: Update) {
        let Kernel { mr, nr, tile, .. } = *self.kernel;
        let (rows, kc) = (out.len() / self.n, self.kc);
        let a_packed = scratch.get(rows.next_multiple_of(mr) * kc);
        for (i, panel) in a_packed.chunks_exact_mut(mr * kc).enumerate() {
            a.pack(self.row + i * mr, self.step, mr, panel);
        }
        for (j, b_panel) in b.chunks_exact(nr * kc).enumerate() {
            for (i, a_panel) in a_packed.chunks_exact(mr * kc).enumerate() {
                let into = Tile {
                    out: &mut out[i * mr * self.n + self.col + j * nr..],
                    stride: self.n,
                    rows: mr.min(rows - i * mr),
                    cols: nr.min(self.cols - j * nr),
                    update,
                    mask: self.ring.mask(),
                };
                tile(a_panel, b_panel, into);
            }
        }
    }
}
