//! The selective scan: its input, and the choice between the recurrence and its block dual form.

use rayon::prelude::*;

use super::matrix::Matrix;
use super::recurrence::{Factors, recurrence};
use super::ssd;
use crate::{ModelError, Result, Shape};

/// How the recurrence is computed. Both give the same result to rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// Token by token, the state in f64.
    Sequential,
    /// The block dual form with blocks of this many tokens.
    Blocks(usize),
}

/// What the scan takes: the tensors of one layer after convolution and softplus.
#[derive(Debug, Clone, Copy)]
pub struct ScanInput<'a> {
    /// The model's numbers.
    pub shape: &'a Shape,
    /// x, B, C: one row of `conv_dim` values per token.
    pub xbc: &'a Matrix,
    /// Delta: one row of `heads` values per token.
    pub delta: &'a Matrix,
    /// A of each head, negative.
    pub a: &'a [f32],
    /// D of each head.
    pub d: &'a [f32],
}

impl ScanInput<'_> {
    /// First column of B of a head's group; C is `group_width` columns further.
    pub(super) fn b_column(&self, head: usize) -> usize {
        let s = self.shape;
        s.inner() + head / (s.heads / s.groups) * s.state
    }

    /// The contracted and skipped output y, one row of `inner` values per token.
    ///
    /// # Panics
    /// If the tensors do not have the sizes that their comments state.
    pub fn run(&self, scan: Scan) -> Result<Matrix> {
        match scan {
            Scan::Sequential => Ok(sequential(self)),
            Scan::Blocks(0) => Err(ModelError::ZeroBlock),
            Scan::Blocks(block) => Ok(ssd::blocks(self, block)),
        }
    }
}

/// The [`recurrence`], one head per task.
fn sequential(input: &ScanInput<'_>) -> Matrix {
    let s = input.shape;
    let (length, inner, p) = (input.xbc.rows(), s.inner(), s.head_dim);
    let heads: Vec<Vec<f32>> = (0..s.heads).into_par_iter().map(|head| one_head(input, head)).collect();
    let mut y = Matrix::zeros(length, inner);
    for (t, row) in y.data_mut().chunks_exact_mut(inner).enumerate() {
        for (part, head) in row.chunks_exact_mut(p).zip(&heads) {
            part.copy_from_slice(&head[t * p..(t + 1) * p]);
        }
    }
    y
}

/// One head is a model with one head.
fn one_head(input: &ScanInput<'_>, head: usize) -> Vec<f32> {
    let s = input.shape;
    let (p, n) = (s.head_dim, s.state);
    let b_at = input.b_column(head);
    let c_at = b_at + s.group_width();
    let rows = || (0..input.xbc.rows()).map(|t| input.xbc.row(t));
    let columns = |from: usize, width: usize| -> Vec<f64> {
        rows().flat_map(|row| &row[from..from + width]).map(|&v| f64::from(v)).collect()
    };
    let delta: Vec<f64> = (0..input.delta.rows()).map(|t| f64::from(input.delta.row(t)[head])).collect();
    let z = delta.iter().map(|delta| f64::from(input.a[head]) * delta).collect();
    let skip = vec![f64::from(input.d[head])];
    let factors = Factors { x: columns(head * p, p), b: columns(b_at, n), c: columns(c_at, n), delta, z, skip };
    let y = recurrence(&Shape { heads: 1, groups: 1, ..*s }, &factors, &mut vec![0.0; n * p]);
    y.into_iter().map(|y| y as f32).collect()
}
