//! A model that reads text: tokenizer, and the float model or its fixed-point twin.
//!
//! It comes from a directory, or from the program itself: the shipped model is embedded, so that an installed program
//! needs no other file.

use std::path::Path;

use anyhow::Result;
use fesc_model::twin::{Calibration, Preset, Rounding, Twin};
use fesc_model::{Checkpoint, Encoded, Model, ModelError, Tokenizer, metrics};

use crate::cli::{ModelArgs, PresetChoice};
use crate::exit::Refusal;

/// The shipped model.
mod shipped {
    macro_rules! file {
        ($name:literal) => {
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/scotus/", $name)
        };
    }
    /// What it is called in results.
    pub const NAME: &str = "scotus (shipped)";
    pub const CONFIG: &str = include_str!(file!("config.json"));
    pub const WEIGHTS: &[u8] = include_bytes!(file!("model.safetensors"));
    pub const TOKENIZER: &str = include_str!(file!("tokenizer.json"));
    pub const CALIBRATION: &str = include_str!(file!("calibration.json"));
}

/// The three files of a model that reads text, and how to find its calibration.
pub struct Files {
    /// Where it comes from.
    pub name: String,
    /// Config and weights.
    pub model: Model,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
}

impl Files {
    /// Opens a directory, or the shipped model where none is given.
    pub fn load(directory: Option<&Path>) -> Result<Self> {
        let (name, checkpoint, tokenizer) = match directory {
            Some(directory) => {
                let checkpoint = Checkpoint::open(directory)?;
                let Some(path) = checkpoint.tokenizer_path() else {
                    let text = format!("{} has no tokenizer.json; put the model's own there", directory.display());
                    return Err(Refusal::Usage(text).into());
                };
                (directory.display().to_string(), checkpoint, Tokenizer::load(&path)?)
            }
            None => shipped()?,
        };
        if checkpoint.classes().is_none() {
            return Err(ModelError::NoHead { head: "classifier" }.into());
        }
        tokenizer.check(checkpoint.config().vocab)?;
        Ok(Self { name, model: checkpoint.load()?, tokenizer })
    }
}

fn shipped() -> Result<(String, Checkpoint, Tokenizer)> {
    let checkpoint = Checkpoint::embedded(shipped::NAME, shipped::CONFIG, shipped::WEIGHTS)?;
    Ok((shipped::NAME.into(), checkpoint, Tokenizer::from_json(shipped::TOKENIZER)?))
}

fn shipped_calibration() -> Result<Calibration> {
    Ok(Calibration::from_json(shipped::CALIBRATION)?)
}

enum Engine {
    Float(Box<Model>),
    Twin(Box<Twin>),
}

/// What was decided about a document.
pub struct Verdict {
    /// The class.
    pub class: usize,
    /// One logit per class.
    pub logits: Vec<f64>,
}

/// A model that is ready to classify text.
pub struct Classifier {
    /// Where it comes from.
    pub name: String,
    /// Number of classes.
    pub classes: usize,
    labels: Vec<String>,
    tokenizer: Tokenizer,
    engine: Engine,
}

impl Classifier {
    /// Loads what the command line asks for.
    pub fn load(args: &ModelArgs) -> Result<Self> {
        let directory = args.model.as_deref();
        let Files { name, model, tokenizer } = Files::load(directory)?;
        let labels = model.config().labels().to_vec();
        let classes = model.weights().head.as_ref().map_or(0, |head| head.bias.len());
        let engine = if args.twin {
            let calibration = directory.map_or_else(shipped_calibration, |d| Ok(Calibration::load(d)?))?;
            let preset = match args.preset.unwrap_or(PresetChoice::Fast) {
                PresetChoice::Fast => Preset::FAST,
                PresetChoice::Paper => Preset::PAPER,
            };
            Engine::Twin(Twin::new(&model, &calibration, preset)?.into())
        } else {
            Engine::Float(model.into())
        };
        Ok(Self { name, classes, labels, tokenizer, engine })
    }

    /// `float` or `twin`.
    pub fn mode(&self) -> &'static str {
        match self.engine {
            Engine::Float(_) => "float",
            Engine::Twin(_) => "twin",
        }
    }

    /// The name of the twin's preset.
    pub fn preset(&self) -> Option<&'static str> {
        match &self.engine {
            Engine::Float(_) => None,
            Engine::Twin(twin) => Some(twin.preset().name()),
        }
    }

    /// The name of a class, if the model has names.
    pub fn label(&self, class: usize) -> Option<&str> {
        self.labels.get(class).map(String::as_str)
    }

    /// The first `length` tokens of a text.
    pub fn encode(&self, text: &str, length: usize) -> fesc_model::Result<Encoded> {
        self.tokenizer.encode(text, length)
    }

    /// Classifies tokens.
    pub fn classify(&self, ids: &[u32]) -> fesc_model::Result<Verdict> {
        match &self.engine {
            Engine::Float(model) => {
                let logits = model.classify(ids)?;
                let class = metrics::largest(&logits).ok_or(ModelError::NoHead { head: "finite logit" })?;
                Ok(Verdict { class, logits: logits.into_iter().map(f64::from).collect() })
            }
            Engine::Twin(twin) => {
                let outcome = twin.classify(ids, &mut Rounding::nearest())?;
                Ok(Verdict { class: outcome.class, logits: outcome.logits })
            }
        }
    }
}

/// Probabilities of logits, without overflow.
pub fn softmax(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|v| (v - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|p| p / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_and_do_not_overflow() {
        let even = softmax(&[3.0, 3.0]);
        assert_eq!(even, [0.5, 0.5]);
        let far = softmax(&[1e6, 0.0, 1e6 - 1.0]);
        assert!((far.iter().sum::<f64>() - 1.0).abs() < 1e-12 && far[1] == 0.0);
        assert!((far[0] / far[2] - std::f64::consts::E).abs() < 1e-9);
    }
}
