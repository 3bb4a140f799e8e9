//! Matrix products on `faer`, whose kernels choose AVX-512, AVX2 or portable code at run time behind a safe interface.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

use super::matrix::Matrix;

/// Rows that one task multiplies: enough to pay for packing the other operand, few enough to balance the threads.
fn panel(rows: usize) -> usize {
    rows.div_ceil(2 * rayon::current_num_threads()).clamp(64, 512)
}

/// A row-major view.
pub(super) fn view(data: &[f32], rows: usize, cols: usize) -> MatRef<'_, f32> {
    MatRef::from_row_major_slice(data, rows, cols)
}

/// A row-major view to write to.
pub(super) fn view_mut(data: &mut [f32], rows: usize, cols: usize) -> MatMut<'_, f32> {
    MatMut::from_row_major_slice_mut(data, rows, cols)
}

/// `out = a b` on the calling thread.
pub(super) fn product(out: MatMut<'_, f32>, a: MatRef<'_, f32>, b: MatRef<'_, f32>) {
    matmul(out, Accum::Replace, a, b, 1.0, Par::Seq);
}

/// `out += a b` on the calling thread.
pub(super) fn product_add(out: MatMut<'_, f32>, a: MatRef<'_, f32>, b: MatRef<'_, f32>) {
    matmul(out, Accum::Add, a, b, 1.0, Par::Seq);
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
    let weight = view(weight, outputs, inputs).transpose();
    y.data_mut().par_chunks_mut(rows * outputs).zip(x.data().par_chunks(rows * inputs)).for_each(|(y, x)| {
        let here = x.len() / inputs;
        product_add(view_mut(y, here, outputs), view(x, here, inputs), weight);
    });
}
