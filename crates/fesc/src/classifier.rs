//! A model that reads text: tokenizer, and the float model or its fixed-point twin.
//!
//! It comes from a directory, or from the program itself: the shipped model is embedded, so that an installed
//! program needs no other file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use fesc_model::twin::{Calibration, Plan, Rounding, Twin};
use fesc_model::{Checkpoint, Encoded, Model, ModelError, Tokenizer, metrics};

use crate::cli::{ModelArgs, PresetChoice};
use crate::exit::Refusal;

/// No tokenizer's file is longer.
const TEXT_LIMIT: u64 = 64 << 20;

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
    /// The tokenizer's file.
    tokenizer_json: String,
}

/// A model as the private protocol has it, and its tokenizer.
pub struct TwinFiles {
    /// Where it comes from.
    pub name: String,
    /// Weights and outline in integers.
    pub twin: Twin,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// The tokenizer's file, for clients.
    pub tokenizer_json: String,
}

impl TwinFiles {
    /// Opens a directory, or the shipped model where none is given.
    pub fn load(directory: Option<&Path>) -> Result<Self> {
        let Files { name, model, tokenizer, tokenizer_json } = Files::load(directory)?;
        let twin = Twin::new(&model, &calibration(directory)?, Plan::FAST)?;
        Ok(Self { name, twin, tokenizer, tokenizer_json })
    }
}

impl Files {
    /// Opens a directory, or the shipped model where none is given.
    pub fn load(directory: Option<&Path>) -> Result<Self> {
        let (name, checkpoint, tokenizer_json) = match directory {
            Some(directory) => {
                if !directory.join("config.json").exists() {
                    let text = format!(
                        "no model in {}: a model is a directory with config.json, model.safetensors and tokenizer.json; `fesc train` makes one, and \
                         without --model the shipped one is used",
                        directory.display()
                    );
                    return Err(Refusal::Usage(text).into());
                }
                let checkpoint = Checkpoint::open(directory)?;
                let Some(path) = checkpoint.tokenizer_path() else {
                    let text = format!("{} has no tokenizer.json; put the model's own there", directory.display());
                    return Err(Refusal::Usage(text).into());
                };
                (directory.display().to_string(), checkpoint, read_text(&path)?)
            }
            None => shipped()?,
        };
        if checkpoint.classes().is_none() {
            return Err(ModelError::NoHead { head: "classifier" }.into());
        }
        let tokenizer = Tokenizer::from_json(&tokenizer_json)?;
        tokenizer.check(checkpoint.config().vocab)?;
        Ok(Self { name, model: checkpoint.load()?, tokenizer, tokenizer_json })
    }
}

fn shipped() -> Result<(String, Checkpoint, String)> {
    let checkpoint = Checkpoint::embedded(shipped::NAME, shipped::CONFIG, shipped::WEIGHTS)?;
    Ok((shipped::NAME.into(), checkpoint, shipped::TOKENIZER.into()))
}

fn calibration(directory: Option<&Path>) -> Result<Calibration> {
    Ok(match directory {
        Some(directory) => Calibration::load(directory)?,
        None => Calibration::from_json(shipped::CALIBRATION)?,
    })
}

/// A whole file of text, bounded.
fn read_text(path: &Path) -> Result<String> {
    let name = || path.display().to_string();
    let mut text = String::new();
    File::open(path).and_then(|f| f.take(TEXT_LIMIT + 1).read_to_string(&mut text)).with_context(name)?;
    if text.len() as u64 > TEXT_LIMIT {
        return Err(ModelError::FileTooLarge { path: path.into(), limit: TEXT_LIMIT }.into());
    }
    Ok(text)
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
        let Files { name, model, tokenizer, .. } = Files::load(directory)?;
        let labels = model.config().labels().to_vec();
        let classes = model.weights().head.as_ref().map_or(0, |head| head.bias.len());
        let engine = if args.twin {
            let calibration = calibration(directory)?;
            let preset = match args.preset.unwrap_or(PresetChoice::Fast) {
                PresetChoice::Fast => Plan::FAST,
                PresetChoice::Paper => Plan::PAPER,
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
            Engine::Twin(twin) => Some(twin.plan().name()),
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
