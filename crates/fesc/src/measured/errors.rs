//! How far a run was from the model in the clear, as tables and JSON have it. The rules are
//! [`fesc_infer::verify`]'s.

use anyhow::{Context, Result, ensure};
use fesc_infer::session::Seen;
use fesc_infer::verify::{self, Agreement, Logits, StageCheck};
use fesc_infer::{Answer, Schedule, Stage};
use fesc_model::twin::Twin;
use serde::{Deserialize, Serialize};

use crate::report::Row;

/// All layers, and all stages under encryption.
#[derive(Debug, Serialize, Deserialize)]
pub struct Errors {
    /// The largest Euclidean relative error of a layer's result, the layer being given the private input.
    pub rel_error: f64,
    /// The largest error of a value.
    pub max_error: f64,
    /// Whether every layer is as near to the twin as noisy twins are.
    pub within: bool,
    /// Stages under encryption against the same in the clear.
    pub checks: Vec<Check>,
    /// The logits, where the plan has a bound.
    pub logits: Option<LogitCheck>,
}

/// The logits of a run against the twin's.
#[derive(Debug, Serialize, Deserialize)]
pub struct LogitCheck {
    pub logit_bound: f64,
    pub logit_error: f64,
    /// Correct bits of the largest logit by the bound.
    pub logit_bits: f64,
    /// Where logits are revealed: the same with their floor.
    pub revealed_bound: Option<f64>,
    pub revealed_error: Option<f64>,
    pub within: bool,
}

impl LogitCheck {
    pub fn new(logits: &Logits) -> Self {
        Self {
            logit_bound: logits.bound,
            logit_error: logits.error,
            logit_bits: logits.bits,
            revealed_bound: logits.revealed_error.map(|_| logits.revealed_bound()),
            revealed_error: logits.revealed_error,
            within: logits.within(),
        }
    }

    pub fn row(&self) -> Row {
        Row::new()
            .with("logit_bound", self.logit_bound)
            .with("logit_error", self.logit_error)
            .with("logit_bits", self.logit_bits)
            .with("revealed_bound", self.revealed_bound)
            .with("revealed_error", self.revealed_error)
            .with("within", self.within)
    }

    /// Refuses logits beyond their bound.
    pub fn ensure(&self) -> Result<()> {
        let Self { logit_bound, logit_error, within, .. } = self;
        let shown = self.revealed_error.map_or(String::new(), |e| format!(" ({e:.2e} with the floor)"));
        ensure!(
            within,
            "the logits are off by {logit_error:.2e}{shown} where noise and roundings allow {logit_bound:.2e}; this is a fault \
             of a kernel, please report it"
        );
        Ok(())
    }
}

/// One stage of one layer and segment against the noise formula.
#[derive(Debug, Serialize, Deserialize)]
pub struct Check {
    pub layer: usize,
    pub segment: usize,
    pub stage: String,
    /// Root mean square of the errors of all lanes.
    pub rms_error: f64,
    /// The same by formula.
    pub rms_formula: f64,
    /// The most that it may be.
    pub rms_limit: f64,
    /// The largest error.
    pub largest_error: f64,
    /// The largest error beside roundings, in deviations of its own lane.
    pub deviations: f64,
    /// The most that they may be.
    pub deviations_limit: f64,
    pub within: bool,
}

impl Check {
    pub fn new(check: &StageCheck) -> Self {
        let StageCheck { stage, layer, segment, deviation: d } = *check;
        let stage = Stage::name(stage).to_string();
        Self {
            layer,
            segment,
            stage,
            rms_error: d.rms,
            rms_formula: d.formula,
            rms_limit: d.rms_limit(),
            largest_error: d.largest,
            deviations: d.deviations,
            deviations_limit: d.limit(),
            within: d.within(),
        }
    }

    pub fn row(&self) -> Row {
        Row::new()
            .with("layer", self.layer)
            .with("segment", self.segment)
            .with("stage", self.stage.as_str())
            .with("rms_error", self.rms_error)
            .with("rms_formula", self.rms_formula)
            .with("rms_limit", self.rms_limit)
            .with("largest_error", self.largest_error)
            .with("deviations", self.deviations)
            .with("deviations_limit", self.deviations_limit)
            .with("within", self.within)
    }

    /// Refuses a stage that is farther off than the formula allows.
    pub fn ensure(&self) -> Result<()> {
        let Self { layer, segment, stage, rms_error, rms_limit, deviations, deviations_limit, within, .. } = self;
        ensure!(
            within,
            "{stage} of layer {layer}, segment {segment}: errors of {rms_error:.2e} where the noise formula allows \
             {rms_limit:.2e}, the largest of {deviations:.1} deviations where it allows {deviations_limit:.1}; this is a fault \
             of a kernel under encryption, please report it"
        );
        Ok(())
    }
}

/// A layer's distance from the twin.
pub fn layer_row(layer: &Agreement) -> Row {
    Row::new()
        .with("layer", layer.layer)
        .with("max_ulps", layer.apart.max_ulps)
        .with("rel_error", layer.apart.relative)
        .with("noisy_max_ulps", layer.noisy.max_ulps)
        .with("noisy_rel_error", layer.noisy.relative)
        .with("within", layer.within())
}

impl Errors {
    /// Every layer against the twin, every stage under encryption against the noise formula, and the logits
    /// of the document `ids` against their bound.
    pub fn new(schedule: &Schedule, twin: &Twin, seen: &Seen, ids: &[u32]) -> Result<Self> {
        let unit = (-f64::from(schedule.outline().frac())).exp2();
        let mut errors = Self { rel_error: 0.0, max_error: 0.0, within: true, checks: Vec::new(), logits: None };
        for layer in verify::layers(twin, &seen.streams)? {
            errors.rel_error = errors.rel_error.max(layer.apart.relative);
            errors.max_error = errors.max_error.max(layer.apart.max_ulps as f64 * unit);
            errors.within &= layer.within();
        }
        let stages = verify::stages(schedule, twin, &seen.circuits)?;
        errors.checks = stages.iter().map(Check::new).collect();
        errors.logits = logits(twin, seen, ids, &stages, None)?;
        Ok(errors)
    }
}

/// The logits of a run, where the plan has a bound.
pub fn logits(
    twin: &Twin,
    seen: &Seen,
    ids: &[u32],
    stages: &[StageCheck],
    answer: Option<&Answer>,
) -> Result<Option<LogitCheck>> {
    let (_, last) = seen.streams.last().context("the run gave no stream")?;
    Ok(verify::logits(twin, ids, last, stages, answer)?.as_ref().map(LogitCheck::new))
}
