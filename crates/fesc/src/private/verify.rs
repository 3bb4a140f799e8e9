//! `fesc classify --verify`: the private run against the model in the clear, layer by layer, and under
//! encryption stage by stage. When they agree is [`fesc_infer::verify`]'s to say.
//!
//! Only for checks of the program: the server gives its shares away. Each layer of the twin starts from the
//! private stream that entered the layer, so that an error shows in the layer that made it.

use anyhow::{Context, Result};
use fesc_infer::session::client::Finished;
use fesc_infer::session::public::Known;
use fesc_infer::{Schedule, verify};
use fesc_model::Classifier;
use fesc_model::twin::{Rounding, Twin};

use crate::classifier;
use crate::cli::ModelArgs;
use crate::exit::Refusal;
use crate::measured::errors::{Check as Checked, LogitCheck, layer_row, logits};
use crate::report::{Report, Row};

/// A model to compare with, which becomes a twin when the server has told its plan.
pub struct Check(Classifier);

impl Check {
    /// The model that the command line names, or the shipped one.
    pub fn load(args: &ModelArgs) -> Result<Self> {
        Ok(Self(classifier::load(args.model.as_deref())?))
    }

    /// Its twin by the server's plan. Refuses a server of another model.
    pub fn twin(&self, known: &Known) -> Result<Twin> {
        let twin = self.0.twin(*known.outline.plan())?;
        if twin.outline()?.digest()? != known.outline_digest.0 {
            let name = self.0.name();
            let text = format!("{name} is not the model of this server: their outlines differ; give --model DIR");
            return Err(Refusal::Usage(text).into());
        }
        Ok(twin)
    }
}

/// Prints how far each layer's result is from the twin's, how far each stage under encryption is from the
/// same in the clear, how far the logits are from the twin's and may be, and whether the classes agree. Fails
/// if a stage is farther off than the noise formula allows, or a logit than its bound.
pub fn compare(twin: &Twin, schedule: &Schedule, finished: &Finished, ids: &[u32], report: &mut Report) -> Result<()> {
    let seen = finished.seen.as_ref().context("the server gave no shares")?;
    for layer in verify::layers(twin, &seen.streams)? {
        report.add(layer_row(&layer))?;
    }
    let stages = verify::stages(schedule, twin, &seen.circuits)?;
    let checks: Vec<Checked> = stages.iter().map(Checked::new).collect();
    checks.iter().try_for_each(|check| report.add(check.row()))?;
    let logits = logits(twin, seen, ids, &stages, Some(&finished.answer))?;
    logits.iter().try_for_each(|check| report.add(check.row()))?;
    let expected = twin.classify(ids, &mut Rounding::nearest())?.class;
    let got = finished.answer.class();
    report.add(Row::new().with("class_of_twin", expected).with("agrees", expected == got))?;
    checks.iter().try_for_each(Checked::ensure)?;
    logits.iter().try_for_each(LogitCheck::ensure)
}
