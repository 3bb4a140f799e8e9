//! One Mamba-2 block, and the names of the tensors in it.

use super::gemm::{linear, linear_add};
use super::matrix::Matrix;
use super::ops;
use super::scan::{Scan, ScanInput};
use super::weights::Layer;
use crate::{Result, Shape};

/// The tensors of a block, in the order in which they are computed. A row is a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tensor {
    /// The residual stream that enters the block (for the final norm: that leaves the last block).
    Residual,
    /// The same after RMSNorm: what in_proj takes; for the final norm, what the heads take.
    Normed,
    /// z, x, B, C, dt as projected.
    Projected,
    /// x, B, C after convolution and SiLU.
    Convolved,
    /// Delta.
    Delta,
    /// y, the scan's output with the skip.
    Scanned,
    /// y SiLU(z).
    Gated,
    /// The gated norm's output: what out_proj takes.
    GatedNormed,
}

/// Where a tensor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The block; the final norm is block `layers`.
    pub layer: usize,
    /// The tensor.
    pub tensor: Tensor,
}

/// Adds one block's output to the residual stream and shows every tensor on the way.
pub(super) fn forward(
    shape: &Shape,
    weights: &Layer,
    a: &[f32],
    scan: Scan,
    stream: &mut Matrix,
    see: &mut dyn FnMut(Tensor, &Matrix),
) -> Result<()> {
    see(Tensor::Residual, stream);
    let normed = ops::rms_norm_rows(stream, &weights.norm, shape.norm_eps);
    see(Tensor::Normed, &normed);
    let projected = linear(&normed, &weights.in_proj, shape.proj_dim());
    see(Tensor::Projected, &projected);
    let xbc = ops::conv_silu(&projected, shape.inner(), shape.conv_dim(), &weights.conv, &weights.conv_bias);
    see(Tensor::Convolved, &xbc);
    let delta = ops::delta(&projected, &weights.dt_bias, shape.delta_limit);
    see(Tensor::Delta, &delta);
    let mut y = ScanInput { shape, xbc: &xbc, delta: &delta, a, d: &weights.d }.run(scan)?;
    see(Tensor::Scanned, &y);
    ops::gate(&mut y, &projected);
    see(Tensor::Gated, &y);
    ops::rms_norm_in_place(&mut y, &weights.gated_norm, shape.norm_eps, shape.norm_groups);
    see(Tensor::GatedNormed, &y);
    linear_add(&y, &weights.out_proj, stream);
    Ok(())
}
