//! Which classifier a command uses: that of a directory or the shipped one, in float or as its twin.

use std::path::Path;

use anyhow::Result;
use fesc_model::twin::{Plan, Rounding, Twin};
use fesc_model::{Classifier, ModelError, Verdict};

use crate::cli::ModelArgs;
use crate::exit::Refusal;

/// The classifier of a directory, or the shipped one where none is given.
pub fn load(directory: Option<&Path>) -> Result<Classifier> {
    directory.map_or_else(Classifier::shipped, Classifier::open).map_err(|error| match error {
        ModelError::NoModel { .. } => {
            let text = format!("{error}; `fesc train` makes one, and without --model the shipped one is used");
            Refusal::Usage(text).into()
        }
        ModelError::NoTokenizer { .. } => Refusal::Usage(error.to_string()).into(),
        other => other.into(),
    })
}

/// A classifier that a command runs in the clear.
pub struct Plain {
    /// The loaded files.
    pub classifier: Classifier,
    /// Computes instead of the float model, if asked for.
    twin: Option<Twin>,
}

impl Plain {
    /// Loads what the command line asks for.
    pub fn load(args: &ModelArgs) -> Result<Self> {
        let classifier = load(args.model.as_deref())?;
        let twin = args.twin.then(|| classifier.twin(args.plan.unwrap_or(Plan::FAST))).transpose()?;
        Ok(Self { classifier, twin })
    }

    /// `float` or `twin`.
    pub fn mode(&self) -> &'static str {
        if self.twin.is_some() { "twin" } else { "float" }
    }

    /// The name of the twin's preset.
    pub fn preset(&self) -> Option<String> {
        self.twin.as_ref().map(|twin| twin.plan().name())
    }

    /// Classifies tokens.
    pub fn classify(&self, ids: &[u32]) -> fesc_model::Result<Verdict> {
        let Some(twin) = &self.twin else { return self.classifier.classify(ids) };
        let outcome = twin.classify(ids, &mut Rounding::nearest())?;
        Ok(Verdict { class: outcome.class, logits: outcome.logits })
    }
}
