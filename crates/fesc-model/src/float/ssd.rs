//! The scan in block dual form (state space duality, Dao and Gu 2024).
//!
//! With `cs_i = A cumsum(Delta)_i` inside a block of Q tokens, for each head:
//!
//! ```text
//! S          = C B^T                                        once per group
//! M_ij       = S_ij exp(cs_i - cs_j) Delta_j   (j <= i)     Y_intra = M X + D X
//! state      = B^T (col o X),  col_j = exp(cs_end - cs_j) Delta_j
//! H_k        = exp(cs_end) H_(k-1) + state_(k-1)            over blocks
//! Y_inter    = row o (C H),    row_i = exp(cs_i)
//! ```
//!
//! No exponent is positive, so nothing overflows whatever A is. The sums cs are in f64: with |A| of 36,315
//! they reach 1e6 inside a block, where an f32 difference of neighbours would have lost its value.
//!
//! Memory: one state of `state x inner` per block. Work is one task per block.

use rayon::prelude::*;

use super::gemm::{Block, product};
use super::matrix::Matrix;
use super::scan::ScanInput;

pub(super) fn blocks(input: &ScanInput<'_>, block: usize) -> Matrix {
    let s = input.shape;
    let (length, inner) = (input.xbc.rows(), s.inner());
    let block = block.min(length.max(1));
    let mut y = Matrix::zeros(length, inner);
    let sums: Vec<Vec<f64>> = (0..length).step_by(block).map(|from| cumulative(input, from, block)).collect();
    let mut states: Vec<Vec<f32>> = y
        .data_mut()
        .par_chunks_mut(block * inner)
        .zip(&sums)
        .enumerate()
        .map(|(k, (y, cs))| within(input, k * block, cs, y))
        .collect();
    across(input, &sums, &mut states);
    y.data_mut()
        .par_chunks_mut(block * inner)
        .zip(&sums)
        .zip(&states)
        .enumerate()
        .skip(1)
        .for_each(|(k, ((y, cs), state))| carry_in(input, k * block, cs, state, y));
    y
}

/// cs of one block: a row of `heads` values per token.
fn cumulative(input: &ScanInput<'_>, from: usize, block: usize) -> Vec<f64> {
    let heads = input.shape.heads;
    let to = (from + block).min(input.xbc.rows());
    let mut sum = vec![0.0; heads];
    let mut all = Vec::with_capacity((to - from) * heads);
    for t in from..to {
        for ((sum, &a), &delta) in sum.iter_mut().zip(input.a).zip(input.delta.row(t)) {
            *sum += f64::from(a) * f64::from(delta);
        }
        all.extend_from_slice(&sum);
    }
    all
}

/// Writes Y_intra of one block and returns the state that the block alone leaves: `state` rows of `inner`
/// values.
fn within(input: &ScanInput<'_>, from: usize, cs: &[f64], y: &mut [f32]) -> Vec<f32> {
    let s = input.shape;
    let (q, p, n, inner, heads) = (y.len() / s.inner(), s.head_dim, s.state, s.inner(), s.heads);
    let tokens =
        |first, count| Block { stride: s.conv_dim(), rows: (from, q), cols: (first, count) }.of(input.xbc.data());
    let part = |rows, first, count| Block { stride: inner, rows: (0, rows), cols: (first, count) };
    let per_group = heads / s.groups;
    let square = Block::whole(q, q);
    let mut scores = vec![0.0; q * q];
    let mut mixed = vec![0.0; q * q];
    let mut state = vec![0.0; n * inner];
    let scaled = decayed_to_end(input, from, cs, q);
    for group in 0..s.groups {
        let b_at = inner + group * n;
        let (b, c) = (tokens(b_at, n), tokens(b_at + s.group_width(), n));
        product(square.of_mut(&mut scores), c, b.t());
        for head in group * per_group..(group + 1) * per_group {
            let sums: Vec<f64> = cs.iter().skip(head).step_by(heads).copied().collect();
            let steps: Vec<f32> = (from..from + q).map(|t| input.delta.row(t)[head]).collect();
            for (i, (mixed, scores)) in mixed.chunks_exact_mut(q).zip(scores.chunks_exact(q)).enumerate() {
                // The rest of the row stays zero: the model is causal.
                for (((m, score), cs), step) in mixed.iter_mut().zip(scores).zip(&sums).zip(&steps).take(i + 1) {
                    *m = score * step * ((sums[i] - cs) as f32).exp();
                }
                // The skip sits on the diagonal.
                mixed[i] += input.d[head];
            }
            product(part(q, head * p, p).of_mut(y), square.of(&mixed), tokens(head * p, p));
        }
        let (first, width) = (group * per_group * p, per_group * p);
        product(part(n, first, width).of_mut(&mut state), b.t(), part(q, first, width).of(&scaled));
    }
    state
}

/// col o X of one block.
fn decayed_to_end(input: &ScanInput<'_>, from: usize, cs: &[f64], q: usize) -> Vec<f32> {
    let (p, inner, heads) = (input.shape.head_dim, input.shape.inner(), input.shape.heads);
    let end = &cs[(q - 1) * heads..];
    let mut scaled = vec![0.0; q * inner];
    for (j, (out, cs)) in scaled.chunks_exact_mut(inner).zip(cs.chunks_exact(heads)).enumerate() {
        let (row, delta) = (input.xbc.row(from + j), input.delta.row(from + j));
        for (head, (out, x)) in out.chunks_exact_mut(p).zip(row.chunks_exact(p)).enumerate() {
            let col = (end[head] - cs[head]).exp() as f32 * delta[head];
            out.iter_mut().zip(x).for_each(|(out, x)| *out = col * x);
        }
    }
    scaled
}

/// Replaces the state that each block leaves alone by the state that it begins with.
fn across(input: &ScanInput<'_>, sums: &[Vec<f64>], states: &mut [Vec<f32>]) {
    let s = input.shape;
    let inner = s.inner();
    let mut carry = vec![0.0f32; s.state * inner];
    for (state, cs) in states.iter_mut().zip(sums) {
        let decay: Vec<f32> = cs[cs.len() - s.heads..].iter().map(|end| end.exp() as f32).collect();
        state.par_chunks_mut(inner).zip(carry.par_chunks_mut(inner)).for_each(|(state, carry)| {
            let heads = state.chunks_exact_mut(s.head_dim).zip(carry.chunks_exact_mut(s.head_dim)).zip(&decay);
            for ((state, carry), decay) in heads {
                for (state, carry) in state.iter_mut().zip(carry) {
                    let next = decay * *carry + *state;
                    *state = *carry;
                    *carry = next;
                }
            }
        });
    }
}

/// Adds Y_inter of one block.
fn carry_in(input: &ScanInput<'_>, from: usize, cs: &[f64], state: &[f32], y: &mut [f32]) {
    let s = input.shape;
    let (p, n, inner, heads) = (s.head_dim, s.state, s.inner(), s.heads);
    let q = y.len() / inner;
    let width = inner / s.groups;
    let part = |rows, group| Block { stride: inner, rows: (0, rows), cols: (group * width, width) };
    let mut seen = vec![0.0; q * inner];
    for group in 0..s.groups {
        let cols = (inner + s.group_width() + group * n, n);
        let c = Block { stride: s.conv_dim(), rows: (from, q), cols }.of(input.xbc.data());
        product(part(q, group).of_mut(&mut seen), c, part(n, group).of(state));
    }
    for ((y, seen), cs) in y.chunks_exact_mut(inner).zip(seen.chunks_exact(inner)).zip(cs.chunks_exact(heads)) {
        for ((y, seen), cs) in y.chunks_exact_mut(p).zip(seen.chunks_exact(p)).zip(cs) {
            let row = cs.exp() as f32;
            y.iter_mut().zip(seen).for_each(|(y, v)| *y += row * v);
        }
    }
}

#[cfg(test)]
mod tests;
