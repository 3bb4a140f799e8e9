//! The selective scan in block dual form (docs/DESIGN.md, 6.3): the specification of the protocol's scan.
//!
//! Per chunk of 128 tokens and head, with `cs` the sums of z = A Delta inside the chunk (22 bits, local) and
//! s.* the layer's [`Scales`]:
//! 1. `S = C B^T`, s.bc + s.bc bits, rounded to s.score. Once per group.
//! 2. Recursive halving on the aligned binary tree: at a node with midpoint m,
//!    `right_i = exp(cs_i - cs_(m-1))` for the tokens from m on, `left_j = exp(cs_(m-1) - cs_j) Delta_j` for
//!    those before, rounded from s.exp + 22 to 22; `Lt_ij = right_i left_j`, rounded from s.exp + 22 to 22.
//!    `Lt_ii = Delta_i`. Where the exponent is 0 by construction no exp is computed.
//! 3. `M = S o Lt`, rounded from s.score + 22 to s.mixed; the server adds D to the diagonal at s.mixed.
//!    `Y = M X` at s.mixed + s.x.
//! 4. `col_j = exp(cs_end - cs_j) Delta_j`, rounded to s.column; `V = col o X`, rounded to s.weighted;
//!    `B^T V`, rounded from s.bc + s.weighted to s.state.
//! 5. Over the chunks of a segment, per head: `H_k = sum_(j<k) exp(E_(k-1) - E_j) state_j`, one matrix
//!    product, rounded from s.exp + s.state to s.state. E are the sums from the segment's begin.
//! 6. `C H_k`, rounded from s.bc + s.state to s.mixed + s.x - s.exp; times `row_i = exp(cs_i)`, added to Y;
//!    one rounding to s.scanned.
//!
//! A segment is 16 chunks, 2,048 tokens. The state after it, the H that a 17th chunk would begin with, enters
//! the next segment as one more state before the first chunk's, with `E = 0`: then `H_0` is that state
//! itself, and its decay until `H_k` is `exp(E_(k-1))`. So the matrices and the memory of a scan do not grow
//! with the document, nor do the sums that exp must take; beyond 2,048 tokens the state is rounded once more
//! per segment.
//!
//! The upper triangles are not needed and not computed. Errors: every `Lt` entry has two exp factors, every
//! path over chunks three, and one more for each segment that it passes.

use fesc_ring::View;
use rayon::prelude::*;

use super::super::error::TwinError;
use super::super::exponent::exponential;
use super::super::linear::{add_product, exact, view};
use super::super::range::{Local, Quantity as Q, Run};
use super::{Packet, Scan};
use crate::Result;
use crate::outline::scale::{CHUNK, DELTA, SEGMENT};
use crate::outline::{Exponential, Scales};

/// Tokens `from` to `from + q` of some columns of x, B, C.
fn window<'a>(p: &Packet<'a>, from: usize, q: usize, first: usize, count: usize) -> Result<View<'a>> {
    let all = view(p.xbc, p.tokens(), p.shape.conv_dim())?;
    Ok(all.window(from..from + q, first..first + count).map_err(TwinError::from)?)
}

/// The scan of one layer.
pub(in crate::twin) struct Dual {
    pub(in crate::twin) scales: Scales,
    pub(in crate::twin) chunk: Exponential,
    pub(in crate::twin) document: Exponential,
    /// D at the scale of M.
    pub(in crate::twin) skip: Vec<i64>,
}

/// What one chunk leaves: its own state (`state` rows of `inner`), exp(cs) by token and head, its whole sum
/// by head.
#[derive(Default)]
struct Left {
    state: Vec<i64>,
    row: Vec<i64>,
    end: Vec<i64>,
}

impl Scan for Dual {
    fn run(&self, run: &mut Run<'_>, p: &Packet<'_>) -> Result<(Vec<i64>, Vec<i64>)> {
        self.run_in(run, p, SEGMENT)
    }

    fn skip(&self) -> &[i64] {
        &self.skip
    }
}

impl Dual {
    /// The scan in segments of any number of tokens that whole chunks have.
    pub(in crate::twin) fn run_in(
        &self,
        run: &mut Run<'_>,
        p: &Packet<'_>,
        segment: usize,
    ) -> Result<(Vec<i64>, Vec<i64>)> {
        let inner = p.shape.inner();
        let mut y = vec![0i64; p.tokens() * inner];
        let count = p.tokens().div_ceil(segment);
        let mut carry = None;
        for (i, y) in y.chunks_mut(segment * inner).enumerate() {
            carry = self.segment(run, p, i * segment, carry, p.last || i + 1 < count, y)?;
        }
        Ok((y, carry.unwrap_or_default()))
    }

    /// One segment, whose first token is `start`. Gives the state after it if it is to be kept.
    fn segment(
        &self,
        run: &mut Run<'_>,
        p: &Packet<'_>,
        start: usize,
        carry: Option<Vec<i64>>,
        keep: bool,
        y: &mut [i64],
    ) -> Result<Option<Vec<i64>>> {
        let rows = CHUNK * p.shape.inner();
        let chunks = y.len().div_ceil(rows);
        let mut locals = run.locals(chunks);
        let enters = |k: usize| k > 0 || carry.is_some();
        let left: Vec<Left> = y
            .par_chunks_mut(rows)
            .zip(&mut locals)
            .enumerate()
            .map(|(k, (y, local))| self.within(local, p, start + k * CHUNK, y, enters(k), keep || k + 1 < chunks))
            .collect::<Result<_>>()?;
        run.settle(locals)?;
        let mut states = self.across(run, p, &left, carry, keep)?;
        let after = if keep { states.pop() } else { None };
        let mut locals = run.locals(chunks);
        y.par_chunks_mut(rows)
            .zip(&mut locals)
            .zip(left.par_iter().zip(&states))
            .enumerate()
            .map(|(k, ((y, local), (left, state)))| self.carry_in(local, p, start + k * CHUNK, left, state, y))
            .collect::<Result<()>>()?;
        run.settle(locals)?;
        Ok(after)
    }

    /// Steps 1 to 4 of one chunk, and `row` if a state enters it.
    fn within(
        &self,
        local: &mut Local,
        p: &Packet<'_>,
        from: usize,
        y: &mut [i64],
        enters: bool,
        keep: bool,
    ) -> Result<Left> {
        let (s, shape) = (&self.scales, p.shape);
        let (inner, heads, n, dim) = (shape.inner(), shape.heads, shape.state, shape.head_dim);
        let q = y.len() / inner;
        let per_group = heads / shape.groups;
        let mut left = Left { state: Vec::new(), row: vec![0; q * heads], end: vec![0; heads] };
        let (mut scores, mut mixed) = (vec![0i64; q * q], vec![0i64; q * q]);
        let mut part = vec![0i64; q * dim];
        let mut weighted = vec![0i64; if keep { q * inner } else { 0 }];
        for group in 0..shape.groups {
            let b = window(p, from, q, p.b_column(group), n)?;
            let c = window(p, from, q, p.b_column(group) + shape.group_width(), n)?;
            exact(&mut scores, c, b.t())?;
            for (i, row) in scores.chunks_exact_mut(q).enumerate() {
                row[..=i].iter_mut().for_each(|v| *v = local.round(Q::Score, *v, 2 * s.bc, s.score));
            }
            for head in group * per_group..(group + 1) * per_group {
                let at = |t: usize| (from + t) * heads + head;
                let delta: Vec<i64> = (0..q).map(|t| p.delta[at(t)]).collect();
                let mut sum = 0i64;
                let sums: Vec<i64> = (0..q)
                    .map(|t| {
                        sum += p.z[at(t)];
                        sum
                    })
                    .collect();
                self.lower(local, &sums, &delta, &mut mixed);
                for (i, (row, scores)) in mixed.chunks_exact_mut(q).zip(scores.chunks_exact(q)).enumerate() {
                    for (m, &score) in row[..=i].iter_mut().zip(scores) {
                        *m = local.round(Q::Mixed, m.saturating_mul(score), s.score + DELTA, s.mixed);
                    }
                    row[i] += self.skip[head];
                    row[i + 1..].fill(0);
                }
                exact(&mut part, view(&mixed, q, q)?, window(p, from, q, head * dim, dim)?)?;
                for (y, part) in y.chunks_exact_mut(inner).zip(part.chunks_exact(dim)) {
                    y[head * dim..(head + 1) * dim].copy_from_slice(part);
                }
                left.end[head] = sum;
                if enters {
                    for (t, &cs) in sums.iter().enumerate() {
                        left.row[t * heads + head] = exponential(local, &self.chunk, cs);
                    }
                }
                if keep {
                    for (t, (&cs, &delta)) in sums.iter().zip(&delta).enumerate() {
                        // The last token's exponent is 0 by construction.
                        let last = t + 1 == q;
                        let decay = if last { 1 << s.exp } else { exponential(local, &self.chunk, sum - cs) };
                        let col = local.round(Q::ExpDelta, decay.saturating_mul(delta), s.exp + DELTA, s.column);
                        let x = &p.xbc[(from + t) * shape.conv_dim() + head * dim..][..dim];
                        for (v, &x) in weighted[t * inner + head * dim..][..dim].iter_mut().zip(x) {
                            *v = local.round(Q::Column, col.saturating_mul(x), s.column + s.x, s.weighted);
                        }
                    }
                }
            }
        }
        if keep {
            left.state = self.chunk_state(local, p, from, q, &weighted)?;
        }
        Ok(left)
    }

    /// Step 2: Lt into the lower triangle of `out`.
    fn lower(&self, local: &mut Local, sums: &[i64], delta: &[i64], out: &mut [i64]) {
        let (q, e) = (sums.len(), self.scales.exp);
        for (i, &d) in delta.iter().enumerate() {
            out[i * q + i] = d;
        }
        let mut left = vec![0i64; q];
        let mut size = 2;
        while size < 2 * q {
            for from in (0..q).step_by(size) {
                let (mid, to) = (from + size / 2, (from + size).min(q));
                if mid >= q {
                    continue;
                }
                let at_mid = sums[mid - 1];
                for j in from..mid {
                    left[j] = if j + 1 == mid {
                        delta[j]
                    } else {
                        let decay = exponential(local, &self.chunk, at_mid - sums[j]);
                        local.round(Q::ExpDelta, decay.saturating_mul(delta[j]), e + DELTA, DELTA)
                    };
                }
                for i in mid..to {
                    let right = exponential(local, &self.chunk, sums[i] - at_mid);
                    for j in from..mid {
                        out[i * q + j] = local.round(Q::Lower, right.saturating_mul(left[j]), e + DELTA, DELTA);
                    }
                }
            }
            size *= 2;
        }
    }

    /// Step 4's product.
    fn chunk_state(
        &self,
        local: &mut Local,
        p: &Packet<'_>,
        from: usize,
        q: usize,
        weighted: &[i64],
    ) -> Result<Vec<i64>> {
        let (s, shape) = (&self.scales, p.shape);
        let (inner, n) = (shape.inner(), shape.state);
        let width = inner / shape.groups;
        let mut state = vec![0i64; n * inner];
        let mut part = vec![0i64; n * width];
        for group in 0..shape.groups {
            let b = window(p, from, q, p.b_column(group), n)?;
            let v = view(weighted, q, inner)?;
            let v = v.window(0..q, group * width..(group + 1) * width).map_err(TwinError::from)?;
            exact(&mut part, b.t(), v)?;
            for (out, part) in state.chunks_exact_mut(inner).zip(part.chunks_exact(width)) {
                for (out, &v) in out[group * width..(group + 1) * width].iter_mut().zip(part) {
                    *out = local.round(Q::ChunkState, v, s.bc + s.weighted, s.state);
                }
            }
        }
        Ok(state)
    }

    /// Step 5: the state with which each chunk begins (empty for zero), and the one after the last if it is
    /// to be kept.
    fn across(
        &self,
        run: &mut Run<'_>,
        p: &Packet<'_>,
        left: &[Left],
        carry: Option<Vec<i64>>,
        keep: bool,
    ) -> Result<Vec<Vec<i64>>> {
        let (s, shape) = (&self.scales, p.shape);
        let (inner, heads, n, dim) = (shape.inner(), shape.heads, shape.state, shape.head_dim);
        let later = if keep { left.len() } else { left.len() - 1 };
        // The carry first, then what the chunks leave.
        let own: Vec<&[i64]> = carry.iter().chain(left[..later].iter().map(|l| &l.state)).map(Vec::as_slice).collect();
        let rows = own.len();
        let mut states: Vec<Vec<i64>> = if carry.is_some() { Vec::new() } else { vec![Vec::new()] };
        if rows == 0 {
            return Ok(states);
        }
        let mut locals = run.locals(heads);
        let by_head = locals.par_iter_mut().enumerate().map(|(head, local)| {
            let mut end = 0i64;
            let mut ends: Vec<i64> = carry.iter().map(|_| 0).collect();
            ends.extend(left[..later].iter().map(|chunk| {
                end += chunk.end[head];
                end
            }));
            let mut decay = vec![0i64; rows * rows];
            for (k, row) in decay.chunks_exact_mut(rows).enumerate() {
                for (j, entry) in row[..=k].iter_mut().enumerate() {
                    *entry = if j == k { 1 << s.exp } else { exponential(local, &self.document, ends[k] - ends[j]) };
                }
            }
            let mut mine = Vec::with_capacity(rows * n * dim);
            for state in &own {
                state.chunks_exact(inner).for_each(|row| mine.extend_from_slice(&row[head * dim..(head + 1) * dim]));
            }
            let mut all = vec![0i64; rows * n * dim];
            exact(&mut all, view(&decay, rows, rows)?, view(&mine, rows, n * dim)?)?;
            all.iter_mut().for_each(|v| *v = local.round(Q::State, *v, s.exp + s.state, s.state));
            Ok(all)
        });
        let by_head: Vec<Vec<i64>> = by_head.collect::<Result<_>>()?;
        run.settle(locals)?;
        for k in 0..rows {
            let mut state = vec![0i64; n * inner];
            for (i, row) in state.chunks_exact_mut(inner).enumerate() {
                for (part, all) in row.chunks_exact_mut(dim).zip(&by_head) {
                    part.copy_from_slice(&all[(k * n + i) * dim..][..dim]);
                }
            }
            states.push(state);
        }
        Ok(states)
    }

    /// Step 6 of one chunk.
    fn carry_in(
        &self,
        local: &mut Local,
        p: &Packet<'_>,
        from: usize,
        left: &Left,
        state: &[i64],
        y: &mut [i64],
    ) -> Result<()> {
        let (s, shape) = (&self.scales, p.shape);
        let (inner, heads, n, dim) = (shape.inner(), shape.heads, shape.state, shape.head_dim);
        let (q, width, sum) = (y.len() / inner, inner / shape.groups, s.mixed + s.x);
        if !state.is_empty() {
            let mut part = vec![0i64; q * width];
            for group in 0..shape.groups {
                let c = window(p, from, q, p.b_column(group) + shape.group_width(), n)?;
                let h = view(state, n, inner)?;
                let h = h.window(0..n, group * width..(group + 1) * width).map_err(TwinError::from)?;
                exact(&mut part, c, h)?;
                for ((t, y), part) in y.chunks_exact_mut(inner).enumerate().zip(part.chunks_exact(width)) {
                    for (i, &v) in part.iter().enumerate() {
                        let at = group * width + i;
                        let v = local.round(Q::Carried, v, s.bc + s.state, sum - s.exp);
                        y[at] = add_product(y[at], v, left.row[t * heads + at / dim]);
                    }
                }
            }
        }
        y.iter_mut().for_each(|v| *v = local.round(Q::Scanned, *v, sum, s.scanned));
        Ok(())
    }
}
