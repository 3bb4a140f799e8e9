//! Packing: the copy of a block of an operand in the order in which a kernel reads it.

use crate::View;

/// Steps that are transposed at once: 8 elements are a cache line, so each line of the source is read once.
const STEP: usize = 8;

/// One operand block as a kernel sees it: `lanes` (rows of `a`, columns of `b`) by `depth` steps of the sum.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    view: View<'a>,
}

impl<'a> Source<'a> {
    /// The left operand: lanes are rows.
    pub(super) fn left(a: View<'a>) -> Self {
        Self { view: a }
    }

    /// The right operand: lanes are columns.
    pub(super) fn right(b: View<'a>) -> Self {
        Self { view: b.t() }
    }

    /// Packs `width` lanes from `lane` on and `depth` steps from `step` on: `dst[k * width + j]` is lane `j`, step `k`.
    /// Lanes past the end are zero.
    pub(super) fn pack(&self, lane: usize, step: usize, width: usize, dst: &mut [u64]) {
        let lanes = width.min(self.view.rows() - lane);
        let depth = dst.len() / width;
        if lanes < width {
            dst.fill(0);
        }
        if self.view.is_transposed() {
            for (k, d) in dst.chunks_exact_mut(width).enumerate() {
                d[..lanes].copy_from_slice(&self.view.line(step + k)[lane..lane + lanes]);
            }
            return;
        }
        for (block, d) in dst.chunks_mut(STEP * width).enumerate() {
            let from = step + block * STEP;
            let to = (from + STEP).min(step + depth);
            for j in 0..lanes {
                let line = &self.view.line(lane + j)[from..to];
                for (o, &v) in d[j..].iter_mut().step_by(width).zip(line) {
                    *o = v;
                }
            }
        }
    }
}

/// Memory for packed panels: starts on a cache line, and is wiped when dropped, since operands may be secret.
pub(super) struct Scratch {
    words: Vec<u64>,
    start: usize,
}

impl Scratch {
    pub(super) fn new(len: usize) -> Self {
        let words = vec![0u64; len + 7];
        // `align_offset` may decline, which costs speed but not correctness.
        let start = words.as_ptr().align_offset(64).min(7);
        Self { words, start }
    }

    /// The first `len` words.
    pub(super) fn get(&mut self, len: usize) -> &mut [u64] {
        &mut self.words[self.start..self.start + len]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.words.fill(0);
        // The store must not be removed because the memory is about to be freed.
        std::hint::black_box(&mut self.words);
    }
}
