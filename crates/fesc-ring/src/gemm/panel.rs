//! Packing: the copy of a block of an operand in the order in which a kernel reads it.

use std::cell::RefCell;

use crate::View;

/// Steps that are transposed at once: 8 elements are a cache line, so each line of the source is read once.
const STEPS: usize = 8;
/// Lanes that are transposed at once. Every panel width is a multiple of it.
const LANES: usize = 4;

/// An operand as a kernel sees it: lanes (rows of `a`, columns of `b`) by steps of the sum.
#[derive(Clone, Copy)]
pub(super) struct PanelOperand<'a> {
    view: View<'a>,
}

impl<'a> PanelOperand<'a> {
    /// The left operand: lanes are rows.
    pub(super) fn left(a: View<'a>) -> Self {
        Self { view: a }
    }

    /// The right operand: lanes are columns.
    pub(super) fn right(b: View<'a>) -> Self {
        Self { view: b.t() }
    }
}

/// Packs `W` lanes from `lane` on, one step per row of `dst` from `step` on. Lanes past the end are zero.
pub(super) fn pack<const W: usize>(source: &PanelOperand<'_>, lane: usize, step: usize, dst: &mut [u64]) {
    let view = source.view;
    let lanes = W.min(view.rows() - lane);
    let dst = dst.as_chunks_mut::<W>().0;
    if lanes < W {
        dst.fill([0; W]);
    }
    if view.is_transposed() {
        for (k, d) in dst.iter_mut().enumerate() {
            let line = &view.line(step + k)[lane..lane + lanes];
            match line.first_chunk::<W>() {
                // Of known length, so a few vector moves and no call of `memcpy`.
                Some(full) => *d = *full,
                None => d[..lanes].copy_from_slice(line),
            }
        }
        return;
    }
    let depth = dst.len();
    let line = |j| &view.line(lane + j)[step..step + depth];
    let whole = lanes / LANES * LANES;
    for j in (0..whole).step_by(LANES) {
        turn([line(j), line(j + 1), line(j + 2), line(j + 3)], j, dst);
    }
    for j in whole..lanes {
        column(line(j), j, dst);
    }
}

/// Copies four lines into columns `j..j + 4` of `dst`. Blocks of fixed size become loads, interleavings and
/// stores of vectors.
fn turn<const W: usize>(lines: [&[u64]; LANES], j: usize, dst: &mut [[u64; W]]) {
    let (blocks, rest) = dst.as_chunks_mut::<STEPS>();
    let done = blocks.len() * STEPS;
    let [a, b, c, d] = lines.map(|l| l.as_chunks::<STEPS>().0);
    for ((((block, a), b), c), d) in blocks.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        for k in 0..STEPS {
            block[k][j..j + LANES].copy_from_slice(&[a[k], b[k], c[k], d[k]]);
        }
    }
    for (i, line) in lines.iter().enumerate() {
        column(&line[done..], j + i, rest);
    }
}

/// Copies a line into column `j` of `dst`.
fn column<const W: usize>(line: &[u64], j: usize, dst: &mut [[u64; W]]) {
    for (row, &v) in dst.iter_mut().zip(line) {
        row[j] = v;
    }
}

/// Buffers that a thread keeps for its next product, and the most words in one of them. Larger ones belong to
/// products that are long enough to pay for fresh memory.
const KEPT: usize = 2;
const KEPT_WORDS: usize = 1 << 17;

thread_local! {
    static POOL: RefCell<Vec<Vec<u64>>> = const { RefCell::new(Vec::new()) };
}

/// Memory for packed panels: starts on a cache line, and is wiped when dropped, since operands may be secret.
pub(super) struct Scratch {
    words: Vec<u64>,
    start: usize,
    /// The most words that were ever handed out, which is what must be wiped.
    used: usize,
}

impl Scratch {
    pub(super) fn new(len: usize) -> Self {
        let mut words = POOL.try_with(|p| p.borrow_mut().pop()).ok().flatten().unwrap_or_default();
        if words.len() < len + 7 {
            words = vec![0; len + 7];
        }
        // `align_offset` may decline, which costs speed but not correctness.
        let start = words.as_ptr().align_offset(64).min(7);
        Self { words, start, used: 0 }
    }

    /// The first `len` words.
    pub(super) fn get(&mut self, len: usize) -> &mut [u64] {
        self.used = self.used.max(len);
        &mut self.words[self.start..self.start + len]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.words[self.start..self.start + self.used].fill(0);
        // The store must not be removed because the memory is about to be freed.
        let words = std::hint::black_box(std::mem::take(&mut self.words));
        if words.len() <= KEPT_WORDS {
            // Fails only while the thread ends; then the buffer is simply freed.
            let _ = POOL.try_with(|p| {
                let mut pool = p.borrow_mut();
                if pool.len() < KEPT {
                    pool.push(words);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_buffers_are_wiped_and_bounded() {
        let kept = || POOL.with(|p| p.borrow().clone());
        let mut open: Vec<_> = [10, 20, 30, KEPT_WORDS].map(Scratch::new).into();
        for scratch in &mut open {
            scratch.get(10).fill(7);
        }
        drop(open.pop());
        assert!(kept().is_empty(), "too large to keep");
        drop(open);
        assert_eq!(kept().len(), KEPT);
        assert!(kept().concat().iter().all(|&w| w == 0));
        let mut again = Scratch::new(5);
        assert_eq!(kept().len(), KEPT - 1, "buffers are reused");
        assert_eq!(again.get(5).as_ptr().align_offset(64), 0);
    }

    #[test]
    fn panels_hold_lanes_by_steps_in_both_layouts() {
        // 7 lanes of 19 steps: a part of a panel, and more than whole blocks of steps.
        let data: Vec<u64> = (1..=7 * 19).collect();
        for turned in [false, true] {
            let view = if turned { View::new(&data, 19, 7).map(View::t) } else { View::new(&data, 7, 19) };
            let Ok(view) = view else { unreachable!("the shape fits") };
            let mut panel = vec![99; 8 * 17];
            pack::<8>(&PanelOperand::left(view), 1, 2, &mut panel);
            for k in 0..17 {
                for j in 0..8 {
                    assert_eq!(panel[8 * k + j], view.get(1 + j, 2 + k).unwrap_or(0), "lane {j} step {k}");
                }
            }
        }
    }
}
