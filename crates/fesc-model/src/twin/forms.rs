//! The forms of one block by its plan: what a twin is built from besides weights.
//!
//! Those of a plan with calibrated scales come from the [`Outline`](crate::Outline), others are made here.
//! Each stage is chosen by the plan's own entry; choices that the twin does not compute together are
//! refused.

use fesc_approx::FixedPiecewise;
use fesc_approx::paper::even::{EvenFixed, Residual};
use fesc_approx::paper::mmexp::MinimaxExpFixed;

use super::activation::{self, Silu};
use super::error::TwinError;
use super::norm::Norm;
use super::recurrence::Sequential;
use super::stats::LayerStats;
use crate::Plan;
use crate::outline::{Exponential, LayerForms, Scales};
use crate::{Result, Shape, plan};

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
    /// The plan's. `dual` are the tables of piecewise activations; there are none where they are polynomials.
    ///
    /// # Errors
    /// If the twin does not compute this scan with these activations.
    pub(super) fn new(layer: usize, plan: &Plan, dual: Option<DualForms>) -> Result<Self> {
        match (plan.scan, dual) {
            (plan::Scan::Dual, Some(forms)) => Ok(Self::Dual(Box::new(forms))),
            (plan::Scan::HeScan, None) => {
                let softplus = activation::even(layer, Residual::Softplus)?;
                Ok(Self::Sequential { softplus, exp: Sequential::form(layer)? })
            }
            (plan::Scan::Dual | plan::Scan::HeScan, _) => Err(TwinError::plan(plan, "scan", plan.scan).into()),
        }
    }
}

/// Refuses numbers that do not go with the activations: pieces have calibrated scales, polynomials one scale.
pub(super) fn check(plan: &Plan) -> Result<()> {
    match plan.numbers.uniform == plan.piecewise().is_none() {
        true => Ok(()),
        false => Err(TwinError::plan(plan, "activations", plan.activations).into()),
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

impl Forms {
    /// The plan's: from the layer of its outline where it has one, else made here.
    ///
    /// # Errors
    /// If the twin does not compute these choices together, or a form cannot be built.
    pub(super) fn new(
        layer: usize,
        plan: &Plan,
        shape: &Shape,
        stats: &LayerStats,
        calibrated: Option<LayerForms>,
    ) -> Result<Self> {
        let (eps, group) = (f64::from(shape.norm_eps), shape.inner() / shape.norm_groups);
        let norm = |form| Norm::new(layer, plan, form, shape.d_model, stats.norm.mean_square, eps);
        let gated_norm = |form| Norm::new(layer, plan, form, group, stats.gated.mean_square, eps);
        Ok(match calibrated {
            Some(LayerForms { scales, norm: n, gated, gate, x, bc, softplus, chunk, document }) => Self {
                scales,
                norm: norm(Some(n))?,
                gated: gated_norm(Some(gated))?,
                gate: Silu::Piecewise(gate),
                x: Silu::Piecewise(x),
                bc: Silu::Piecewise(bc),
                scan: ScanForms::new(layer, plan, Some(DualForms { softplus, chunk, document }))?,
            },
            None => Self {
                scales: Scales::uniform(plan.numbers.frac),
                norm: norm(None)?,
                gated: gated_norm(None)?,
                gate: Silu::paper(layer)?,
                x: Silu::paper(layer)?,
                bc: Silu::paper(layer)?,
                scan: ScanForms::new(layer, plan, None)?,
            },
        })
    }
}
