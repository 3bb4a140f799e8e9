//! The forms of one block in either plan: what a twin is built from besides weights.
//!
//! The fast plan's come from the [`Outline`](crate::Outline), the paper's are made here.

use fesc_approx::FixedPiecewise;
use fesc_approx::paper::even::{EvenFixed, Residual};
use fesc_approx::paper::mmexp::MinimaxExpFixed;

use super::activation::{self, Silu};
use super::norm::Norm;
use super::recurrence::Sequential;
use super::stats::LayerStats;
use crate::Plan;
use crate::outline::{Exponential, LayerForms, Scales};
use crate::{Result, Shape};

/// Delta and decay in the fast plan.
pub(super) struct DualForms {
    pub(super) softplus: FixedPiecewise,
    pub(super) chunk: Exponential,
    pub(super) document: Exponential,
}

/// Delta and decay.
pub(super) enum ScanForms {
    Dual(Box<DualForms>),
    Sequential { softplus: EvenFixed, exp: MinimaxExpFixed },
}

impl ScanForms {
    /// The paper's.
    pub(super) fn paper(layer: usize) -> Result<Self> {
        let softplus = activation::even(layer, Residual::Softplus)?;
        Ok(Self::Sequential { softplus, exp: Sequential::form(layer)? })
    }
}

/// The forms of a block.
pub(super) struct Forms {
    pub(super) scales: Scales,
    pub(super) norm: Norm,
    pub(super) gated: Norm,
    pub(super) gate: Silu,
    pub(super) x: Silu,
    pub(super) bc: Silu,
    pub(super) scan: ScanForms,
}

impl From<LayerForms> for Forms {
    fn from(forms: LayerForms) -> Self {
        let LayerForms { scales, norm, gated, gate, x, bc, softplus, chunk, document } = forms;
        Self {
            scales,
            norm: Norm::Fast(norm),
            gated: Norm::Fast(gated),
            gate: Silu::Piecewise(gate),
            x: Silu::Piecewise(x),
            bc: Silu::Piecewise(bc),
            scan: ScanForms::Dual(Box::new(DualForms { softplus, chunk, document })),
        }
    }
}

impl Forms {
    /// The paper plan's.
    pub(super) fn paper(layer: usize, plan: &Plan, shape: &Shape, stats: &LayerStats) -> Result<Self> {
        let (f, eps, group) = (plan.numbers.frac, f64::from(shape.norm_eps), shape.inner() / shape.norm_groups);
        Ok(Self {
            scales: Scales::uniform(f),
            norm: Norm::paper(layer, f, shape.d_model, stats.norm.mean_square, eps)?,
            gated: Norm::paper(layer, f, group, stats.gated.mean_square, eps)?,
            gate: Silu::paper(layer)?,
            x: Silu::paper(layer)?,
            bc: Silu::paper(layer)?,
            scan: ScanForms::paper(layer)?,
        })
    }
}
