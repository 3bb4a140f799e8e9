//! The one file that turns a plan into kernels.
//!
//! A plan is public data ([`fesc_model::Plan`]); here each of its choices becomes a struct behind a trait of
//! [`crate::stage`]. The block protocol (`block.rs`) names no kernel. To add one: write it in
//! `kernel/`, name it in the plan, and choose it here.

use fesc_model::Plan;
use fesc_model::outline::{NormForm, Outline};
use fesc_model::plan;
use fesc_rlwe::Params;
use fesc_scan::{Dual, Scan};
use sha2::{Digest, Sha256};

use crate::kernel::fast;
use crate::schedule::{Schedule, Segment};
use crate::setup::Matrix;
use crate::stage::{Activations, Norm, Projection};
use crate::{InferError, Result};

/// The plans that two parties can run, by name.
pub const PLANS: [&str; 1] = ["fast"];

/// The plan of this name, if two parties can run it.
///
/// # Errors
/// If they cannot; the error lists the plans that they can.
pub fn private_plan(name: &str) -> Result<Plan> {
    let unknown = |why: String| InferError::Plan { why, known: PLANS.join(", ") };
    let plan = Plan::named(name).map_err(|e| unknown(e.to_string()))?;
    supported(&plan)?;
    Ok(plan)
}

/// Refuses a plan that has a choice without a kernel.
///
/// # Errors
/// If it has one.
pub fn supported(plan: &Plan) -> Result<()> {
    let Plan { numbers, projection, scan, activations, norm } = plan;
    let have = *numbers == Plan::FAST.numbers
        && *projection == plan::Projection::Rlwe
        && *scan == plan::Scan::Dual
        && matches!(activations, plan::Activations::Piecewise { clamp: true, .. })
        && *norm == plan::Norm::Buckets;
    if have { Ok(()) } else { Err(missing(plan)) }
}

/// What both ends must have in common besides the outline: the plan's name, and the parameters of its
/// kernels.
///
/// # Errors
/// If the plan has no kernels, or their parameters are refused.
pub fn digest(plan: &Plan) -> Result<[u8; 32]> {
    supported(plan)?;
    let params = Params::linear()?;
    let mut hash = Sha256::new_with_prefix(b"fesc kernels 1\0");
    hash.update(plan.name());
    for number in [params.degree() as u64, params.ring().bits().into()] {
        hash.update(number.to_le_bytes());
    }
    Ok(hash.finalize().into())
}

/// The kernels of one layer on one segment.
pub(crate) struct Kernels {
    pub norm: Box<dyn Norm>,
    pub in_proj: Box<dyn Projection>,
    pub activations: Box<dyn Activations>,
    pub scan: Box<dyn Scan>,
    pub gated_norm: Box<dyn Norm>,
    pub out_proj: Box<dyn Projection>,
}

impl Kernels {
    pub fn new(schedule: &Schedule, layer: usize, segment: &Segment) -> Result<Self> {
        let (outline, forms, tokens) = (schedule.outline(), schedule.forms(layer)?, segment.tokens);
        let (shape, ring, f, widths) = (outline.shape(), outline.ring(), outline.frac(), schedule.widths());
        let plan = outline.plan();
        let activations = match plan.activations {
            plan::Activations::Piecewise { .. } => fast::Piecewise {
                activate: fast::Activate::new(ring, forms, f, &widths, tokens)?,
                steps: fast::Steps::new(ring, forms, f, shape.heads, tokens),
            },
            plan::Activations::Polynomial => return Err(missing(plan)),
        };
        let scan = match plan.scan {
            plan::Scan::Dual => Dual::new(shape, forms, tokens, segment.index > 0, !segment.last)?,
            plan::Scan::HeScan => return Err(missing(plan)),
        };
        Ok(Self {
            norm: norm(outline, &forms.norm, f, tokens)?,
            in_proj: projection(schedule, layer, Matrix::InProj, segment)?,
            activations: Box::new(activations),
            scan: Box::new(scan),
            gated_norm: norm(outline, &forms.gated, forms.scales.gated, tokens * shape.norm_groups)?,
            out_proj: projection(schedule, layer, Matrix::OutProj, segment)?,
        })
    }
}

/// A norm of `rows` rows that come at `from` fractional bits.
pub(crate) fn norm(outline: &Outline, form: &NormForm, from: u32, rows: usize) -> Result<Box<dyn Norm>> {
    match outline.plan().norm {
        plan::Norm::Buckets => Ok(Box::new(fast::Norm::new(outline.ring(), form, from, rows))),
        plan::Norm::Nerms => Err(missing(outline.plan())),
    }
}

/// A projection of one layer on one segment.
pub(crate) fn projection(
    schedule: &Schedule,
    layer: usize,
    matrix: Matrix,
    segment: &Segment,
) -> Result<Box<dyn Projection>> {
    match schedule.outline().plan().projection {
        plan::Projection::Rlwe => Ok(Box::new(fast::RlweProjection::new(schedule, layer, matrix, segment)?)),
        plan::Projection::Ckks => Err(missing(schedule.outline().plan())),
    }
}

/// One of its choices has no kernel here.
fn missing(plan: &Plan) -> InferError {
    let why = format!("the plan {} has no private kernels; it is for computing in the clear", plan.name());
    InferError::Plan { why, known: PLANS.join(", ") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn plans_that_cannot_run_are_refused_with_those_that_can() {
        for name in PLANS {
            assert_eq!(private_plan(name).unwrap().name(), name);
        }
        for name in ["paper", "slow", ""] {
            let refused = private_plan(name).unwrap_err().to_string();
            assert!(refused.contains("can be run are fast"), "{refused}");
        }
        let Plan { activations: plan::Activations::Piecewise { silu, exp, .. }, .. } = Plan::FAST else { panic!() };
        let others = [
            Plan { scan: plan::Scan::HeScan, ..Plan::FAST },
            Plan { norm: plan::Norm::Nerms, ..Plan::FAST },
            Plan { projection: plan::Projection::Ckks, ..Plan::FAST },
            Plan { activations: plan::Activations::Piecewise { silu, exp, clamp: false }, ..Plan::FAST },
        ];
        for plan in others {
            assert!(supported(&plan).is_err() && digest(&plan).is_err());
        }
    }
}
