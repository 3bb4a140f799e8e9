//! The one file that turns a plan into kernels, which are below it.
//!
//! A plan is public data ([`fesc_model::Plan`]); here each of its choices becomes a struct behind a trait of
//! [`crate::stage`], or of [`fesc_scan`], which says what scans on shares there are. The block protocol
//! (`block.rs`) names no kernel. To add one: write it in `kernels/`, name it in the plan, and choose it here.

pub mod fast;
pub mod paper;

use fesc_hybrid::ckks::sets;
use fesc_model::Plan;
use fesc_model::outline::{NormForm, Outline};
use fesc_model::plan;
use fesc_rlwe::Params;
use fesc_scan::Scan;
use sha2::{Digest, Sha256};

use crate::schedule::{Schedule, Segment};
use crate::setup::Matrix;
use crate::stage::{Activations, Norm, Projection};
use crate::{InferError, Result};

/// The names of the plans that two parties can run.
pub fn known() -> String {
    let names = Plan::NAMED.iter().filter(|(_, plan)| lacks(plan).is_none()).map(|(name, _)| *name);
    names.collect::<Vec<_>>().join(", ")
}

/// The plan of this text ([`Plan::parse`]), if two parties can run it.
///
/// # Errors
/// If they cannot; the error lists the plans that they can.
pub fn private_plan(text: &str) -> Result<Plan> {
    let plan = Plan::parse(text).map_err(|e| InferError::Plan { why: e.to_string(), known: known() })?;
    supported(&plan)?;
    Ok(plan)
}

/// Refuses a plan that has a choice without a kernel.
///
/// # Errors
/// If it has one.
pub fn supported(plan: &Plan) -> Result<()> {
    match lacks(plan) {
        None => Ok(()),
        Some(why) => Err(refused(plan, why)),
    }
}

/// What a plan has no kernel for, and what to take instead.
fn lacks(plan: &Plan) -> Option<&'static str> {
    match plan {
        p if p.numbers != Plan::FAST.numbers => Some("its numbers are for computing in the clear: take those of paper"),
        p if !p.clamp => Some("without the clamp a product with A wraps around: take clamp=yes"),
        // The twin's reason, too.
        p => p.misfit(),
    }
}

/// Rises when kernels under encryption lay values out, are cut or carry values in another way: sizes need not
/// tell, and the two ends would compute garbage.
const LAYOUTS: u32 = 2;

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
    if plan.encrypts() {
        hash.update(LAYOUTS.to_le_bytes());
        for set in sets::ALL {
            let bits = [set.log_n, set.base_bits, set.scale_bits, set.special_bits];
            bits.iter().for_each(|n| hash.update(n.to_le_bytes()));
            [set.levels, set.specials, set.depth].iter().for_each(|n| hash.update((*n as u64).to_le_bytes()));
        }
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
        let activations = fast::Elementwise {
            activate: fast::Activate::new(ring, forms, f, &widths, tokens)?,
            steps: fast::Steps::new(ring, forms, f, shape.heads, tokens),
        };
        Ok(Self {
            norm: norm(outline, &forms.norm, f, tokens),
            in_proj: projection(schedule, layer, Matrix::InProj, segment)?,
            activations: Box::new(activations),
            scan: scan(schedule, layer, segment)?,
            gated_norm: norm(outline, &forms.gated, forms.scales.gated, tokens * shape.norm_groups),
            out_proj: projection(schedule, layer, Matrix::OutProj, segment)?,
        })
    }
}

/// The scan of one layer on one segment.
fn scan(schedule: &Schedule, layer: usize, segment: &Segment) -> Result<Box<dyn Scan>> {
    let (outline, forms) = (schedule.outline(), schedule.forms(layer)?);
    let plan = outline.plan();
    if let Some(make) = fesc_scan::on_shares(plan.scan) {
        return Ok(make(outline.shape(), forms, segment.tokens, segment.index > 0, !segment.last)?);
    }
    let (crossings, missing) = (schedule.crossings(), || refused(plan, "its scan has no ranges: take another outline"));
    let (scan, ranges) = (crossings.scan.as_ref().ok_or_else(missing)?, outline.ranges(layer).ok_or_else(missing)?);
    Ok(Box::new(scan.scan(segment.span(), forms, &ranges, crossings.totals())?))
}

/// A norm of `rows` rows that come at `from` fractional bits.
pub(crate) fn norm(outline: &Outline, form: &NormForm, from: u32, rows: usize) -> Box<dyn Norm> {
    Box::new(fast::Norm::new(outline.ring(), form, from, rows))
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
        plan::Projection::Ckks => Ok(Box::new(paper::CkksProjection::new(schedule, layer, matrix, segment)?)),
    }
}

fn refused(plan: &Plan, why: &str) -> InferError {
    let why = format!("the plan {} has no private kernels: {why}", plan.name());
    InferError::Plan { why, known: known() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn plans_that_cannot_run_are_refused_with_those_that_can() {
        assert_eq!(known(), "fast, paper");
        for name in known().split(", ") {
            assert_eq!(private_plan(name).unwrap().name(), name);
        }
        for (name, needle) in [
            ("slow", "must begin with"),
            ("", "must begin with"),
            ("paper-44", "take those of paper"),
            ("paper,clamp=no", "take clamp=yes"),
            ("paper,scan=he-dual,exp=mmexp", "take exp=stable, or scan=dual"),
            ("fast,scan=he-dual,exp=fine", "take exp=stable, or scan=dual"),
        ] {
            let refused = private_plan(name).unwrap_err().to_string();
            assert!(refused.contains("can be run are fast, paper") && refused.contains(needle), "{refused}");
        }
        for plan in [Plan::PAPER_44, Plan { clamp: false, ..Plan::FAST }] {
            assert!(supported(&plan).is_err() && digest(&plan).is_err());
        }
    }
}
