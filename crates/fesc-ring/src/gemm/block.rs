//! The loops around a kernel: cache blocks, edges of the result, threads.

use rayon::prelude::*;

use super::Update;
use super::panel::{PanelOperand, Scratch, pack};
use crate::{MatrixError, Ring, View};

/// Rows of a block of `a`: `MC * kc` words stay in the L2 cache while all panels of `b` pass by.
pub(super) const MC: usize = 256;
/// Columns of a packed block of `b`: bounds its memory to a few MB. A multiple of every `nr`.
pub(super) const NC: usize = 2304;

/// Multiplications that are worth a task: about 30 microseconds on the fastest path.
const TASK: usize = 1 << 20;

/// A register kernel.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    /// Rows of a tile.
    pub(super) mr: usize,
    /// Columns of a tile.
    pub(super) nr: usize,
    /// Steps per panel: a panel of `b` stays in the L1 cache while the panels of `a` pass by.
    pub(super) kc: usize,
    /// Packs one panel of `a`, `mr` lanes wide: lane and step to begin with, and where to.
    pub(super) pack_a: fn(&PanelOperand<'_>, usize, usize, &mut [u64]),
    /// The same for `b`, `nr` lanes wide.
    pub(super) pack_b: fn(&PanelOperand<'_>, usize, usize, &mut [u64]),
    /// Multiplies a packed panel of `a` by one of `b` and merges the product into a tile of the result.
    pub(super) tile: fn(a: &[u64], b: &[u64], into: Tile<'_>),
}

impl Kernel {
    /// A kernel with an `MR x NR` tile.
    pub(super) const fn new<const MR: usize, const NR: usize>(
        kc: usize,
        tile: fn(a: &[u64], b: &[u64], into: Tile<'_>),
    ) -> Self {
        Self { mr: MR, nr: NR, kc, pack_a: pack::<MR>, pack_b: pack::<NR>, tile }
    }
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
    /// Merges an `mr x NR` product. Inlined, to be compiled with the instruction set of the kernel that calls
    /// it.
    #[inline(always)]
    pub(super) fn merge<const NR: usize>(self, product: &[[u64; NR]]) {
        for (row, p) in self.out.chunks_mut(self.stride).zip(&product[..self.rows]) {
            merge_row(&mut row[..self.cols], p, self.update, self.mask);
        }
    }
}

#[inline(always)]
fn merge_row(row: &mut [u64], product: &[u64], update: Update, mask: u64) {
    let pairs = row.iter_mut().zip(product);
    match update {
        Update::Set => pairs.for_each(|(o, &v)| *o = v & mask),
        Update::Add => pairs.for_each(|(o, &v)| *o = o.wrapping_add(v) & mask),
        Update::Sub => pairs.for_each(|(o, &v)| *o = o.wrapping_sub(v) & mask),
    }
}

/// The product of non-empty operands whose shapes fit, on all threads of the current rayon pool.
pub(super) fn product_par(
    kernel: &Kernel,
    ring: Ring,
    a: View<'_>,
    b: View<'_>,
    out: &mut [u64],
    update: Update,
) -> Result<(), MatrixError> {
    let threads = rayon::current_num_threads();
    let (m, n) = (a.rows(), b.cols());
    let work = m.saturating_mul(n).saturating_mul(a.cols());
    let tasks = (2 * threads).min(work / TASK);
    let (row_tiles, col_tiles) = (m.div_ceil(kernel.mr), n.div_ceil(kernel.nr));
    if threads < 2 || tasks < 2 {
        product(kernel, ring, a, b, out, update, None);
    } else if row_tiles >= tasks || row_tiles >= col_tiles {
        let rows = row_tiles.div_ceil(tasks) * kernel.mr;
        product(kernel, ring, a, b, out, update, Some(rows.min(MC)));
    } else {
        by_columns(kernel, ring, a, b, out, update, col_tiles.div_ceil(tasks) * kernel.nr)?;
    }
    Ok(())
}

/// Flat results: every task computes its columns into memory of its own, which is then merged. `out` is small
/// next to `b` here, and the rows of a task's columns are not contiguous in it.
pub(super) fn by_columns(
    kernel: &Kernel,
    ring: Ring,
    a: View<'_>,
    b: View<'_>,
    out: &mut [u64],
    update: Update,
    width: usize,
) -> Result<(), MatrixError> {
    let (m, n) = (a.rows(), b.cols());
    let part = |col| {
        let b = b.window(0..b.rows(), col..n.min(col + width))?;
        let mut part = vec![0; m * b.cols()];
        product(kernel, ring, a, b, &mut part, Update::Set, None);
        Ok((col, part))
    };
    let parts = (0..n).into_par_iter().step_by(width).map(part).collect::<Result<Vec<_>, MatrixError>>()?;
    for (col, part) in parts {
        let cols = part.len() / m;
        for (row, p) in out.chunks_mut(n).zip(part.chunks(cols)) {
            merge_row(&mut row[col..col + cols], p, update, ring.mask());
        }
    }
    Ok(())
}

/// The product of non-empty operands whose shapes fit: on this thread, or with tasks of `task_rows` rows.
pub(super) fn product(
    kernel: &Kernel,
    ring: Ring,
    a: View<'_>,
    b: View<'_>,
    out: &mut [u64],
    update: Update,
    task_rows: Option<usize>,
) {
    let (n, depth) = (b.cols(), a.cols());
    let (left, right) = (PanelOperand::left(a), PanelOperand::right(b));
    let parallel = task_rows.is_some();
    let rows = task_rows.unwrap_or(MC);
    let a_words = rows.min(a.rows()).next_multiple_of(kernel.mr) * kernel.kc.min(depth);
    let mut packed = Scratch::new(n.min(NC).next_multiple_of(kernel.nr) * kernel.kc.min(depth));
    let mut a_packed = Scratch::new(if parallel { 0 } else { a_words });
    for col in (0..n).step_by(NC) {
        let cols = NC.min(n - col);
        for step in (0..depth).step_by(kernel.kc) {
            let kc = kernel.kc.min(depth - step);
            let update = if step > 0 && update == Update::Set { Update::Add } else { update };
            let panels = packed.get(cols.next_multiple_of(kernel.nr) * kc);
            let pack = |(i, panel): (usize, &mut [u64])| (kernel.pack_b)(&right, col + i * kernel.nr, step, panel);
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
    fn run(&self, a: PanelOperand<'_>, b: &[u64], scratch: &mut Scratch, out: &mut [u64], update: Update) {
        let Kernel { mr, nr, pack_a, tile, .. } = *self.kernel;
        let (rows, kc) = (out.len() / self.n, self.kc);
        let a_packed = scratch.get(rows.next_multiple_of(mr) * kc);
        for (i, panel) in a_packed.chunks_exact_mut(mr * kc).enumerate() {
            pack_a(&a, self.row + i * mr, self.step, panel);
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
