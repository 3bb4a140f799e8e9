//! Matrix products on `ndarray`, whose kernels choose FMA, AVX or portable code at run time behind a safe
//! interface.
//!
//! `faer` is faster by itself, but its AVX-512 kernels return without clearing the upper halves of the vector
//! registers (seen with private-gemm-x86 0.1.22): every scalar `exp` after one took fifty times as long,
//! measured.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use rayon::prelude::*;

use super::matrix::Matrix;

/// Part of a row-major matrix.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// Distance of two rows in the matrix.
    pub(super) stride: usize,
    /// Rows: first and count.
    pub(super) rows: (usize, usize),
    /// Columns: first and count.
    pub(super) cols: (usize, usize),
}

impl Block {
    /// A whole matrix.
    pub(super) fn whole(rows: usize, cols: usize) -> Self {
        Self { stride: cols, rows: (0, rows), cols: (0, cols) }
    }

    fn start(&self) -> usize {
        self.rows.0 * self.stride + self.cols.0
    }

    /// The part as a matrix.
    ///
    /// # Panics
    /// If it is not inside `data`: the caller's sizes are wrong.
    #[expect(clippy::expect_used, reason = "sizes come from a checked config, not from a file")]
    pub(super) fn of(self, data: &[f32]) -> ArrayView2<'_, f32> {
        let shape = (self.rows.1, self.cols.1).strides((self.stride, 1));
        ArrayView2::from_shape(shape, &data[self.start()..]).expect("a block inside its matrix")
    }

    /// The same, to write to.
    #[expect(clippy::expect_used, reason = "sizes come from a checked config, not from a file")]
    pub(super) fn of_mut(self, data: &mut [f32]) -> ArrayViewMut2<'_, f32> {
        let shape = (self.rows.1, self.cols.1).strides((self.stride, 1));
        let start = self.start();
        ArrayViewMut2::from_shape(shape, &mut data[start..]).expect("a block inside its matrix")
    }
}

/// `out = a b` on the calling thread.
pub(super) fn product(mut out: ArrayViewMut2<'_, f32>, a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) {
    general_mat_mul(1.0, &a, &b, 0.0, &mut out);
}

/// Rows that one task multiplies: enough to pay for packing the other operand, few enough to balance the
/// threads.
fn panel(rows: usize) -> usize {
    rows.div_ceil(2 * rayon::current_num_threads()).clamp(64, 512)
}

/// `x W^T` for a weight stored as `outputs` rows of `x.cols()` values, over all threads.
pub(super) fn linear(x: &Matrix, weight: &[f32], outputs: usize) -> Matrix {
    let mut y = Matrix::zeros(x.rows(), outputs);
    linear_add(x, weight, &mut y);
    y
}

/// `y += x W^T`, over all threads.
pub(super) fn linear_add(x: &Matrix, weight: &[f32], y: &mut Matrix) {
    let (inputs, outputs) = (x.cols(), y.cols());
    let rows = panel(x.rows());
    let weight = Block::whole(outputs, inputs).of(weight);
    y.data_mut().par_chunks_mut(rows * outputs).zip(x.data().par_chunks(rows * inputs)).for_each(|(y, x)| {
        let here = x.len() / inputs;
        let mut y = Block::whole(here, outputs).of_mut(y);
        general_mat_mul(1.0, &Block::whole(here, inputs).of(x), &weight.t(), 1.0, &mut y);
    });
}
