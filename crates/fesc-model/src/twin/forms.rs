//! The forms of one block by its plan: what a twin is built from besides weights.
//!
//! Those of a plan with calibrated scales come from the [`Outline`](crate::Outline), others are made here.
//! Each stage is chosen by the plan's own entry; choices that the twin does not compute together are
//! refused.

use super::activation::{Silu, Softplus};
use super::error::TwinError;
use super::exponent::Exp;
use super::norm::Norm;
use super::stats::LayerStats;
use crate::Plan;
use crate::outline::{LayerForms, Scales};
use crate::{Result, Shape, plan};

/// Refuses numbers that do not go with the activations: pieces have calibrated scales, polynomials one scale.
pub(super) fn check(plan: &Plan) -> Result<()> {
    match plan.numbers.uniform == matches!(plan.activations, plan::Activations::Polynomial(_)) {
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
    pub(super) softplus: Softplus,
    pub(super) exp: Exp,
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
                softplus: Softplus::Piecewise(softplus),
                exp: Exp::Sums(Box::new([chunk, document])),
            },
            None => Self {
                scales: Scales::uniform(plan.numbers.frac),
                norm: norm(None)?,
                gated: gated_norm(None)?,
                gate: Silu::paper(layer)?,
                x: Silu::paper(layer)?,
                bc: Silu::paper(layer)?,
                softplus: Softplus::paper(layer)?,
                exp: Exp::paper(layer)?,
            },
        })
    }
}
