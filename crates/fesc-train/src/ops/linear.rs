//! `x W^T` by `ndarray`'s kernels on the calling thread.
//!
//! Not candle's own product: it starts threads of its own, which fight with the data-parallel workers.
//! `W` has one row per output, as checkpoints store it. Backward: `dx = dy W`, `dW = dy^T x`.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

use super::{tensor, values, with_values, wrong};

/// The operation.
pub struct Linear;

fn view(data: &[f32], rows: usize, cols: usize) -> Result<ArrayView2<'_, f32>> {
    ArrayView2::from_shape((rows, cols), data).map_err(|_| wrong("a matrix of the wrong size"))
}

fn product(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) -> Result<Vec<f32>> {
    let (rows, cols) = (a.nrows(), b.ncols());
    let mut out = vec![0.0; rows * cols];
    let mut target = ArrayViewMut2::from_shape((rows, cols), &mut out).map_err(|_| wrong("an output of no size"))?;
    general_mat_mul(1.0, &a, &b, 0.0, &mut target);
    Ok(out)
}

/// Rows and columns; a tensor of more dimensions counts all but the last as rows.
fn size(layout: &Layout) -> Result<(usize, usize)> {
    let dims = layout.dims();
    let cols = dims.last().copied().filter(|c| *c > 0).ok_or_else(|| wrong("an empty matrix"))?;
    Ok((dims.iter().product::<usize>() / cols, cols))
}

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        let ((rows, inputs), (outputs, width)) = (size(l1)?, size(l2)?);
        if inputs != width {
            return Err(wrong(&format!("{inputs} features for weights of {width}")));
        }
        let y = product(view(values(s1, l1)?, rows, inputs)?, view(values(s2, l2)?, outputs, inputs)?.t())?;
        Ok((CpuStorage::F32(y), (rows, outputs).into()))
    }

    fn bwd(&self, x: &Tensor, w: &Tensor, _: &Tensor, dy: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let ((rows, inputs), (outputs, _)) = (size(x.layout())?, size(w.layout())?);
        let dy = dy.contiguous()?;
        let dx =
            with_values(&dy, |dy| with_values(w, |w| product(view(dy, rows, outputs)?, view(w, outputs, inputs)?)))?;
        let dw =
            with_values(&dy, |dy| with_values(x, |x| product(view(dy, rows, outputs)?.t(), view(x, rows, inputs)?)))?;
        Ok((Some(tensor(dx, x.shape())?), Some(tensor(dw, w.shape())?)))
    }
}

/// `x W^T` for `x` of `[rows, inputs]` and `W` of `[outputs, inputs]`.
pub fn linear(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.apply_op2(w, Linear)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::ops::testing::{Check, random};

    #[test]
    fn agrees_with_candle_and_with_differences() {
        let (x, w) = (random(1, &[7, 5]), random(2, &[3, 5]));
        let elementary = |x: &Tensor, w: &Tensor| x.matmul(&w.t()?);
        Check { x: &x, w: &w, step: 1e-2, tolerance: 1e-4 }.run(linear, elementary);
        assert!(linear(&x, &random(3, &[3, 4])).is_err());
    }
}
