//! What can be wrong between a model and its twin.

use std::path::PathBuf;

use fesc_approx::ApproxError;
use fesc_ring::MatrixError;

use crate::Plan;

/// Why a twin could not be made or could not compute a document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TwinError {
    /// A value left the range in which the protocol is right.
    #[error(
        "layer {layer}: {tensor} reached {value:.6}, but the protocol is right only from {low:.6} to {high:.6}; {remedy}"
    )]
    Range {
        /// The block; the final norm and the head are block `layers`, the embedding block 0.
        layer: usize,
        /// The tensor's name.
        tensor: &'static str,
        /// The value, as a real number.
        value: f64,
        /// The smallest value taken.
        low: f64,
        /// The largest value taken.
        high: f64,
        /// What to do.
        remedy: &'static str,
    },
    /// The ranges seen in calibration leave no scale for a tensor.
    #[error(
        "layer {layer}: {tensor} reached {value:.4} in calibration, which leaves {bits} fractional bits of the {need} that it needs \
         in a ring of {ring} bits; normalise the model's weights or take a wider ring"
    )]
    Scale {
        /// The block.
        layer: usize,
        /// The tensor's name.
        tensor: &'static str,
        /// The largest value seen.
        value: f64,
        /// Bits that are left.
        bits: i64,
        /// Bits that are needed.
        need: i64,
        /// Width of the ring.
        ring: u32,
    },
    /// A nonlinear form cannot be built with these ranges.
    #[error("layer {layer}: no fixed-point form of {what}: {source}")]
    Form {
        /// The block.
        layer: usize,
        /// Which function.
        what: &'static str,
        /// Why.
        source: ApproxError,
    },
    /// A weight does not fit the ring at its scale.
    #[error("layer {layer}: a weight of {tensor} is {value:e}, too large for {frac} fractional bits in {ring} bits")]
    Weight {
        /// The block.
        layer: usize,
        /// The tensor's name.
        tensor: &'static str,
        /// The value.
        value: f64,
        /// Fractional bits.
        frac: u32,
        /// Width of the ring.
        ring: u32,
    },
    /// There is no calibration.
    #[error(
        "{path} is missing: the fixed-point twin needs the ranges of this model's tensors; make it with \
         Calibration::collect on a few sample documents and save it there"
    )]
    NoCalibration {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// A calibration is not one, or not this model's.
    #[error("this calibration cannot be used: {reason}; make it again with Calibration::collect")]
    BadCalibration {
        /// What is wrong.
        reason: String,
    },
    /// The plan has choices that the twin does not compute together.
    #[error("no twin computes the {stage} {choice} with the other choices of the plan {plan}; {remedy}")]
    Plan {
        /// The plan's name.
        plan: String,
        /// The stage.
        stage: &'static str,
        /// What the plan chooses for it.
        choice: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A matrix product was refused.
    #[error("a matrix product of the twin: {0}")]
    Matrix(#[from] MatrixError),
}

impl TwinError {
    /// For a choice of the plan that does not go with its others.
    pub(super) fn plan(plan: &Plan, stage: &'static str, choice: impl std::fmt::Debug, remedy: &'static str) -> Self {
        Self::Plan { plan: plan.name(), stage, choice: format!("{choice:?}"), remedy }
    }

    /// For a choice that does not go with the paper's numbers.
    pub(super) fn paper(plan: &Plan, stage: &'static str, choice: impl std::fmt::Debug) -> Self {
        Self::plan(plan, stage, choice, "take the same with the plan paper, whose numbers are ours")
    }
}
