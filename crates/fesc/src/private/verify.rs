//! `fesc classify --verify`: the private run against the model's twin, layer by layer.
//!
//! Only for checks of the program: the server gives its shares of the residual stream away. Each layer of the
//! twin starts from the private stream that entered the layer, so that an error shows in the layer that made
//! it.

use anyhow::{Context, Result};
use fesc_infer::session::client::Finished;
use fesc_infer::session::public::Known;
use fesc_model::twin::{Plan, Rounding, Twin};

use crate::classifier;
use crate::cli::ModelArgs;
use crate::exit::Refusal;
use crate::report::{Report, Row};

/// A model to compare with.
pub struct Check {
    name: String,
    twin: Twin,
}

impl Check {
    /// The model that the command line names, or the shipped one.
    pub fn load(args: &ModelArgs) -> Result<Self> {
        let model = classifier::load(args.model.as_deref())?;
        Ok(Self { name: model.name().into(), twin: model.twin(Plan::FAST)? })
    }

    /// Refuses a server of another model.
    pub fn same_model(&self, known: &Known) -> Result<()> {
        if self.twin.outline()?.digest()? != known.outline_digest.0 {
            let text =
                format!("{} is not the model of this server: their outlines differ; give --model DIR", self.name);
            return Err(Refusal::Usage(text).into());
        }
        Ok(())
    }

    /// Prints how far each layer's result is from the twin's, and whether the classes agree.
    pub fn compare(&self, finished: &Finished, ids: &[u32], report: &mut Report) -> Result<()> {
        let streams = finished.streams.as_ref().context("the server gave no shares")?;
        for (layer, apart) in self.twin.compare_layers(streams)? {
            report.add(
                Row::new().with("layer", layer).with("max_ulps", apart.max_ulps).with("rel_error", apart.relative),
            )?;
        }
        let expected = self.twin.classify(ids, &mut Rounding::nearest())?.class;
        let got = finished.answer.class();
        report.add(Row::new().with("class_of_twin", expected).with("agrees", expected == got))
    }
}
