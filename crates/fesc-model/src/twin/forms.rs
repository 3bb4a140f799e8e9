//! The forms of one block by its plan: what a twin is built from besides weights.
//!
//! Those of a plan with calibrated scales come from the [`Outline`](crate::Outline), others are made here.
//! Each stage is chosen by the plan's own entry; choices that the twin does not compute together are
//! refused.

use super::error::TwinError;
use super::exponent::Exp;
use super::norm::Norm;
use super::stats::LayerStats;
use crate::Plan;
use crate::outline::{LayerForms, Scales, Silu, Softplus};
use crate::plan::{Activations, ExpForm};
use crate::{Result, Shape};
use fesc_approx::ApproxError;
use fesc_approx::paper::PaperPlan;

/// Refuses choices that the twin does not compute together. The paper's numbers have the paper's forms.
pub(super) fn check(plan: &Plan) -> Result<()> {
    let refuse = |stage, choice: &dyn std::fmt::Debug| Err(TwinError::paper(plan, stage, choice).into());
    match plan {
        p if !p.numbers.uniform => match p.misfit() {
            None => Ok(()),
            Some(remedy) => Err(TwinError::plan(p, "scan", p.scan, remedy).into()),
        },
        p if !matches!(p.activations, Activations::Polynomial(_)) => refuse("activations", &p.activations),
        p if !matches!(p.exp, ExpForm::Minimax(_)) => refuse("exp", &p.exp),
        Plan { clamp: true, .. } => refuse("clamp", &plan.clamp),
        _ => Ok(()),
    }
}

/// SiLU, softplus and exp in the paper's numbers.
pub(super) fn paper(layer: usize, plan: &Plan) -> Result<(Silu, Softplus, Exp)> {
    let (Activations::Polynomial(form), ExpForm::Minimax(exp)) = (plan.activations, plan.exp) else {
        return Err(TwinError::paper(plan, "activations", plan.activations).into());
    };
    let build = || {
        let numbers = PaperPlan::paper()?;
        let softplus = Softplus::Polynomial(Softplus::polynomial(form, &numbers)?);
        Ok((Silu::polynomial(form, &numbers, numbers.frac)?, softplus))
    };
    let what = "SiLU or softplus";
    let (silu, softplus) = build().map_err(|source: ApproxError| TwinError::Form { layer, what, source })?;
    Ok((silu, softplus, Exp::paper(layer, exp)?))
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
                gate,
                x,
                bc,
                softplus,
                exp: Exp::Sums(Box::new([chunk, document])),
            },
            None => {
                let (silu, softplus, exp) = paper(layer, plan)?;
                Self {
                    scales: Scales::uniform(plan.numbers.frac),
                    norm: norm(None)?,
                    gated: gated_norm(None)?,
                    gate: silu.clone(),
                    x: silu.clone(),
                    bc: silu,
                    softplus,
                    exp,
                }
            }
        })
    }
}
