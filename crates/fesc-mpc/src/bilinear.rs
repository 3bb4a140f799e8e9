//! The products of a bundle on plain ring vectors: one implementation for the ideal functionality, the online
//! step and the plaintext twin.
//!
//! Without a sum (element-wise, scaling, outer) the result is written in its own order, a run at a time.
//! Inner products of rows are plain loops. All else is one GEMM per batch index, on views of the operands
//! where their entries lie in lines, on gathered copies elsewhere (a triangle is expanded to its square).
//! Both kinds run on all threads of the rayon pool.

use fesc_ring::gemm::{Update, gemm, gemm_par};
use fesc_ring::{Ring, View};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::correlation::{Axis, Bundle, Index, Product, ProductShape};
use crate::error::{MpcError, check_len};

/// Elements of a result that one task writes. Few in tests, so that these see runs that are cut.
const TASK: usize = if cfg!(test) { 7 } else { 1 << 13 };

/// The product of two operands of the bundle's shapes.
pub(crate) fn apply(bundle: &Bundle, product: &Product, left: &[u64], right: &[u64]) -> Result<Vec<u64>, MpcError> {
    let shape = ProductShape::new(bundle, product)?;
    let mut out = vec![0; shape.out_len()];
    check_len("left operand", bundle.mask_len(product.left), left.len())?;
    check_len("right operand", bundle.mask_len(product.right), right.len())?;
    accumulate(bundle.ring, &shape, &[(left, right)], &mut out)?;
    Ok(out)
}

/// Adds the products of all pairs of operands to `out`. The lengths must be those of the shape's tensors.
pub(crate) fn accumulate(
    ring: Ring,
    shape: &ProductShape,
    pairs: &[(&[u64], &[u64])],
    out: &mut [u64],
) -> Result<(), MpcError> {
    if out.is_empty() || shape.sum() == 0 {
        return Ok(());
    }
    if shape.sum() == 1 && !shape.left_is_lower() && !shape.right_is_lower() {
        for &(left, right) in pairs {
            without_sum(ring, shape, left, right, out);
        }
        return Ok(());
    }
    if shape.left() == 1 && shape.right() == 1 {
        let (li, ri) = (shape.left_index(), shape.right_index());
        for &(left, right) in pairs {
            inner_products(ring, (&li, left), (&ri, right), out);
        }
        return Ok(());
    }
    matrices(ring, shape, pairs, out)
}

fn without_sum(ring: Ring, shape: &ProductShape, left: &[u64], right: &[u64], out: &mut [u64]) {
    let axes: Vec<(usize, [usize; 2])> =
        shape.result().iter().map(|a| (a.size, [a.strides[0], a.strides[1]])).collect();
    each_run(out, &axes, |run, at, step| {
        let (x, y) = (&left[at[0]..], &right[at[1]..]);
        let put = |o: &mut u64, a: u64, b: u64| *o = ring.reduce(o.wrapping_add(a.wrapping_mul(b)));
        match step {
            [1, 1] => run.iter_mut().zip(x).zip(y).for_each(|((o, &a), &b)| put(o, a, b)),
            [0, 1] => run.iter_mut().zip(y).for_each(|(o, &b)| put(o, x[0], b)),
            [1, 0] => run.iter_mut().zip(x).for_each(|(o, &a)| put(o, a, y[0])),
            [s, t] => run.iter_mut().enumerate().for_each(|(i, o)| put(o, x[i * s], y[i * t])),
        }
    });
}

/// Calls `f(run of out, offsets, steps)` so that the runs cover `out`; `axes` are its axes, outermost first,
/// each with its size and its steps in two other tensors.
fn each_run(out: &mut [u64], axes: &[(usize, [usize; 2])], f: impl Fn(&mut [u64], [usize; 2], [usize; 2]) + Sync) {
    let (&(len, step), outer) = axes.split_last().unwrap_or((&(1, [0, 0]), &[]));
    out.par_chunks_mut(TASK).enumerate().for_each(|(task, mut part)| {
        let (mut row, mut col) = (task * TASK / len, task * TASK % len);
        let mut at = [0, 0];
        let mut place: Vec<usize> = vec![0; outer.len()];
        for (i, &(size, steps)) in outer.iter().enumerate().rev() {
            place[i] = row % size;
            row /= size;
            (0..2).for_each(|t| at[t] += place[i] * steps[t]);
        }
        while !part.is_empty() {
            let (run, rest) = part.split_at_mut((len - col).min(part.len()));
            f(run, [0, 1].map(|t| at[t] + col * step[t]), step);
            part = rest;
            col = 0;
            for (i, &(size, steps)) in outer.iter().enumerate().rev() {
                place[i] += 1;
                (0..2).for_each(|t| at[t] += steps[t]);
                if place[i] < size {
                    break;
                }
                place[i] = 0;
                (0..2).for_each(|t| at[t] -= size * steps[t]);
            }
        }
    });
}

fn inner_products(ring: Ring, (li, left): (&Index, &[u64]), (ri, right): (&Index, &[u64]), out: &mut [u64]) {
    // Batch axes are in the result's order and there are no others: entry b of the result is batch index b.
    let lines = |index: &Index| index.sum.iter().enumerate().all(|(i, &s)| i == s as usize) && !index.is_lower();
    let plain = lines(li) && lines(ri);
    let n = li.sum.len();
    let per_task = TASK.div_ceil(n);
    out.par_chunks_mut(per_task).enumerate().for_each(|(task, part)| {
        for (i, o) in part.iter_mut().enumerate() {
            let b = task * per_task + i;
            let (x, y) = (&left[li.batch[b] as usize..], &right[ri.batch[b] as usize..]);
            let sum = if plain {
                x[..n].iter().zip(&y[..n]).fold(0u64, |acc, (&a, &b)| acc.wrapping_add(a.wrapping_mul(b)))
            } else {
                let entry = |index: &Index, v: &[u64], s: usize| index.at(b, 0, s).map_or(0, |at| v[at]);
                (0..n).fold(0u64, |acc, s| acc.wrapping_add(entry(li, left, s).wrapping_mul(entry(ri, right, s))))
            };
            *o = ring.reduce(o.wrapping_add(sum));
        }
    });
}

fn matrices(ring: Ring, shape: &ProductShape, pairs: &[(&[u64], &[u64])], out: &mut [u64]) -> Result<(), MpcError> {
    let (rows, cols) = (shape.left(), shape.right());
    let (li, ri) = (Lines::new(shape.left_index()), Lines::new(shape.right_index()));
    let one = |b: usize, target: &mut [u64], parallel: bool| -> Result<(), MpcError> {
        let [mut x, mut y] = [Zeroizing::new(Vec::new()), Zeroizing::new(Vec::new())];
        for &(left, right) in pairs {
            let left = li.view(b, left, &mut x)?;
            let right = ri.view(b, right, &mut y)?.t();
            let product = if parallel { gemm_par } else { gemm };
            product(ring, left, right, target, Update::Add)?;
        }
        Ok(())
    };
    let all = |out: &mut [u64]| match shape.batch() {
        1 => one(0, out, true),
        _ => out.par_chunks_mut(rows * cols).enumerate().try_for_each(|(b, target)| one(b, target, false)),
    };
    if shape.is_in_order() {
        return all(out);
    }
    let mut ordered = Zeroizing::new(vec![0u64; out.len()]);
    all(&mut ordered)?;
    let axes = shape.result();
    // The strides of the result's axes in `ordered`: batch axes outermost, then left, then right.
    let class = |a: &Axis| match [a.strides[0] > 0 || a.is_row(0), a.strides[1] > 0 || a.is_row(1)] {
        [true, true] => 0,
        [true, false] => 1,
        _ => 2,
    };
    let inner = |i: usize| {
        let before = |j: usize| (class(&axes[j]), j) > (class(&axes[i]), i);
        (0..axes.len()).filter(|&j| before(j)).map(|j| axes[j].size).product::<usize>()
    };
    let strides: Vec<(usize, [usize; 2])> = axes.iter().enumerate().map(|(i, a)| (a.size, [inner(i), 0])).collect();
    each_run(out, &strides, |run, at, step| {
        let from = ordered[at[0]..].iter().step_by(step[0].max(1));
        run.iter_mut().zip(from).for_each(|(o, &v)| *o = ring.reduce(o.wrapping_add(v)));
    });
    Ok(())
}

/// An operand as matrices `free x sum`, one per batch index.
struct Lines {
    index: Index,
    /// Steps along free and sum, where they are constant.
    steps: Option<(usize, usize)>,
}

impl Lines {
    fn new(index: Index) -> Self {
        let step = |v: &[u32]| {
            let first = v.get(1).copied().unwrap_or(0) as usize;
            v.iter().enumerate().all(|(i, &x)| x as usize == i * first).then_some(first)
        };
        let steps = if index.is_lower() { None } else { step(&index.free).zip(step(&index.sum)) };
        Self { index, steps }
    }

    /// The matrix of batch index `b`; `buffer` holds it if its entries do not lie in lines.
    fn view<'a>(&self, b: usize, data: &'a [u64], buffer: &'a mut Vec<u64>) -> Result<View<'a>, MpcError> {
        let (rows, cols) = (self.index.free.len(), self.index.sum.len());
        let base = self.index.batch[b] as usize;
        if let Some((free, sum)) = self.steps {
            if (sum == 1 || cols == 1)
                && let Some(view) = strided(data, base, rows, cols, free)
            {
                return Ok(view?);
            }
            if (free == 1 || rows == 1)
                && let Some(view) = strided(data, base, cols, rows, sum)
            {
                return Ok(view?.t());
            }
        }
        buffer.clear();
        buffer.reserve(rows * cols);
        for f in 0..rows {
            if let Some((start, len)) = self.index.row(b, f) {
                buffer.extend_from_slice(&data[start..start + len]);
                buffer.resize((f + 1) * cols, 0);
            } else if self.index.is_lower() {
                buffer.extend((0..cols).map(|s| self.index.at(b, f, s).map_or(0, |at| data[at])));
            } else {
                let at = base + self.index.free[f] as usize;
                buffer.extend(self.index.sum.iter().map(|&s| data[at + s as usize]));
            }
        }
        Ok(View::new(buffer, rows, cols)?)
    }
}

/// `rows` lines of `cols` elements, `step` apart, from `base`, if they are a window of a matrix with lines of
/// `step`.
fn strided(
    data: &[u64],
    base: usize,
    rows: usize,
    cols: usize,
    step: usize,
) -> Option<Result<View<'_>, fesc_ring::MatrixError>> {
    if rows == 1 {
        return Some(View::new(data.get(base..base + cols)?, 1, cols));
    }
    let column = base.checked_rem(step)?;
    if column + cols > step {
        return None;
    }
    let lines = data.get(base - column..base - column + rows * step)?;
    Some(View::new(lines, rows, step).and_then(|v| v.window(0..rows, column..column + cols)))
}
