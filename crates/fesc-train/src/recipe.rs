//! A recipe: everything that decides how a model is trained, as one JSON file. Unknown keys are refused.

use std::path::Path;

use fesc_model::{Config, Pooling, Shape};
use serde::{Deserialize, Serialize};

use crate::forms::FormSet;
use crate::optimiser::AdamW;
use crate::{Result, TrainError};

/// The largest recipe taken, in bytes.
const LIMIT: u64 = 1 << 20;

/// How states are pooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pool {
    /// The mean over all tokens.
    #[default]
    Mean,
    /// The last token's state.
    Last,
}

/// The shape of the model but its vocabulary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Width of the residual stream.
    pub d_model: usize,
    /// Blocks.
    pub layers: usize,
    /// Heads.
    pub heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// State of a channel.
    pub state: usize,
    /// Groups of B and C.
    #[serde(default = "one")]
    pub groups: usize,
    /// Taps of the convolution.
    #[serde(default = "four")]
    pub conv_width: usize,
    /// How states are pooled.
    #[serde(default)]
    pub pooling: Pool,
}

fn one() -> usize {
    1
}

fn four() -> usize {
    4
}

/// How the tokenizer is made; the program reads this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerRecipe {
    /// Entries.
    pub vocab: usize,
    /// Whether capital letters are turned into small ones.
    #[serde(default)]
    pub lowercase: bool,
}

/// Initial values of the embedding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EmbeddingInit {
    /// Normal.
    Normal {
        /// Its deviation.
        deviation: f64,
    },
    /// From the training texts: singular vectors of positive pointwise mutual information ([`crate::ppmi`]).
    Ppmi {
        /// Tokens on each side that count as neighbours.
        window: usize,
        /// Root mean square of every row.
        scale: f64,
    },
}

/// Initial values, where they are not the reference's ([`fesc_model::Weights::random`]).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Init {
    /// The embedding.
    pub embedding: Option<EmbeddingInit>,
    /// Normal input projections of deviation `gain / sqrt(d_model)`.
    pub in_proj_gain: Option<f64>,
    /// Normal output projections of deviation `gain / sqrt(inner)`.
    pub out_proj_gain: Option<f64>,
    /// A classifier of zeros.
    pub zero_head: bool,
    /// Convolutions without bias at first.
    pub zero_conv_bias: bool,
}

/// Which part of a long document is trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Crop {
    /// The beginning.
    #[default]
    Prefix,
    /// Another part every time.
    Random,
    /// Either, by the toss of a coin.
    Mixed,
}

/// What is minimised.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Objective {
    /// Cross-entropy.
    #[default]
    Task,
    /// Cross-entropy and the teacher's softened answer.
    Distill {
        /// T.
        temperature: f64,
        /// Weight of the cross-entropy.
        lambda: f64,
    },
}

/// Which weights a stage begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// Those at the end of the stage before.
    #[default]
    Last,
    /// The best of the stage before by validation loss, with fresh moments.
    Best,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// What is minimised.
    #[serde(default)]
    pub objective: Objective,
    /// The nonlinearities, installed before the first step.
    #[serde(default = "exact")]
    pub forms: FormSet,
    /// Tokens of a document.
    pub length: usize,
    /// With this, every document is cut to a length of its own, log-uniform between this and `length`.
    #[serde(default)]
    pub min_length: Option<usize>,
    /// Which tokens.
    #[serde(default)]
    pub crop: Crop,
    /// Only so many blocks are computed and trained; 0 is a bag of words. All if absent. The others, and what
    /// the optimiser knows of them, stay as they are, so that the checkpoint of such a stage is no model by
    /// itself.
    #[serde(default)]
    pub layers: Option<usize>,
    /// Passes over the data; parts of one are fine.
    pub epochs: f64,
    /// Documents of a step.
    pub batch: usize,
    /// The largest learning rate.
    pub lr: f64,
    /// Factor of the rate for the embedding.
    #[serde(default = "unchanged")]
    pub embedding_lr: f64,
    /// Factor of the rate for the blocks and all vectors.
    #[serde(default = "unchanged")]
    pub layer_lr: f64,
    /// Factor of the rate for the classifier's weight.
    #[serde(default = "unchanged")]
    pub head_lr: f64,
    /// Share of the steps over which the rate rises.
    #[serde(default = "warmup")]
    pub warmup: f64,
    /// The rate at the end, as a share of the largest.
    #[serde(default)]
    pub final_lr: f64,
    /// Label smoothing.
    #[serde(default)]
    pub label_smoothing: f64,
    /// Share of tokens replaced by [`Recipe::mask_token`].
    #[serde(default)]
    pub token_dropout: f64,
    /// Share of tokens taken out altogether.
    #[serde(default)]
    pub token_removal: f64,
    /// Share of the pooled vector's entries set to zero.
    #[serde(default)]
    pub pool_dropout: f64,
    /// Weight of the old average in the moving average of the weights, per step; 0 is none. Evaluation and
    /// checkpoints take the average.
    #[serde(default)]
    pub ema: f64,
    /// Which weights the stage begins with.
    #[serde(default)]
    pub start: Start,
}

fn exact() -> FormSet {
    FormSet::EXACT
}

fn unchanged() -> f64 {
    1.0
}

fn warmup() -> f64 {
    0.05
}

/// How validation is done after every epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// Tokens of a document, from its beginning; the mean loss over these lengths decides.
    pub lengths: Vec<usize>,
    /// At most this many documents; all if absent.
    #[serde(default)]
    pub documents: Option<usize>,
    /// Evaluations per epoch are one in this many epochs.
    #[serde(default = "every")]
    pub every_epochs: f64,
}

fn every() -> f64 {
    1.0
}

/// A recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// A name for people.
    pub name: String,
    /// Everything random comes from it.
    pub seed: u64,
    /// Number of classes.
    pub classes: usize,
    /// Their names, in the order of the labels; none or all.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The tokenizer.
    pub tokenizer: TokenizerRecipe,
    /// The model.
    pub shape: Size,
    /// Initial values.
    #[serde(default)]
    pub init: Init,
    /// The optimiser.
    #[serde(default)]
    pub optimiser: AdamW,
    /// The id that stands for a dropped token.
    #[serde(default = "mask_token")]
    pub mask_token: u32,
    /// Validation.
    pub evaluation: Evaluation,
    /// The stages, in order.
    pub stages: Vec<Stage>,
}

fn mask_token() -> u32 {
    1
}

fn fault(key: impl Into<String>, value: impl ToString, reason: &str) -> TrainError {
    TrainError::Recipe { key: key.into(), value: value.to_string(), reason: reason.into() }
}

impl Recipe {
    /// Reads and checks a JSON file.
    pub fn read(path: &Path) -> Result<Self> {
        use std::io::Read;
        let io = |source| TrainError::Io { path: path.into(), source };
        let mut text = String::new();
        std::fs::File::open(path).map_err(io)?.take(LIMIT).read_to_string(&mut text).map_err(io)?;
        let recipe: Self = serde_json::from_str(&text)
            .map_err(|e| TrainError::RecipeFile { path: path.into(), reason: e.to_string() })?;
        recipe.check()?;
        Ok(recipe)
    }

    /// The model's configuration with a vocabulary of so many rows.
    pub fn config(&self, vocab: usize) -> Result<Config> {
        let s = &self.shape;
        let shape = Shape {
            vocab,
            d_model: s.d_model,
            layers: s.layers,
            heads: s.heads,
            head_dim: s.head_dim,
            state: s.state,
            groups: s.groups,
            conv_width: s.conv_width,
            chunk: 64,
            norm_eps: 1e-5,
            norm_groups: 1,
            delta_limit: (0.0, f32::INFINITY),
            tied: true,
            residual_in_fp32: true,
            pooling: match s.pooling {
                Pool::Mean => Pooling::Mean,
                Pool::Last => Pooling::Last,
            },
        };
        Ok(Config::new(shape)?.with_labels(self.labels.clone()))
    }

    /// Everything that can be said without data.
    pub fn check(&self) -> Result<()> {
        let share = |key: String, v: f64| {
            if (0.0..1.0).contains(&v) { Ok(()) } else { Err(fault(key, v, "it must be in [0, 1)")) }
        };
        let positive = |key: String, v: f64| {
            if v > 0.0 && v.is_finite() { Ok(()) } else { Err(fault(key, v, "it must be above 0")) }
        };
        self.config(self.tokenizer.vocab)?;
        if self.classes < 2 {
            return Err(fault("classes", self.classes, "at least 2"));
        }
        if !self.labels.is_empty() && self.labels.len() != self.classes {
            let names = format!("{} names", self.labels.len());
            return Err(fault("labels", names, "a name for each class, or none"));
        }
        if self.stages.is_empty() {
            return Err(fault("stages", "empty", "at least one"));
        }
        let least = self.evaluation.lengths.iter().min().copied().unwrap_or(0);
        positive("evaluation.lengths".into(), least as f64)?;
        positive("evaluation.every_epochs".into(), self.evaluation.every_epochs)?;
        // No document has no loss: the first checkpoint would be kept as the best.
        positive("evaluation.documents".into(), self.evaluation.documents.unwrap_or(1) as f64)?;
        let o = &self.optimiser;
        share("optimiser.beta1".into(), o.beta1)?;
        share("optimiser.beta2".into(), o.beta2)?;
        positive("optimiser.eps".into(), o.eps)?;
        for (i, s) in self.stages.iter().enumerate() {
            let key = |name: &str| format!("stages[{i}].{name}");
            positive(key("length"), s.length as f64)?;
            positive(key("batch"), s.batch as f64)?;
            positive(key("epochs"), s.epochs)?;
            positive(key("lr"), s.lr)?;
            share(key("label_smoothing"), s.label_smoothing)?;
            share(key("token_dropout"), s.token_dropout)?;
            share(key("token_removal"), s.token_removal)?;
            share(key("pool_dropout"), s.pool_dropout)?;
            share(key("ema"), s.ema)?;
            for (name, v) in [("warmup", s.warmup), ("final_lr", s.final_lr)] {
                if !(0.0..=1.0).contains(&v) {
                    return Err(fault(key(name), v, "it must be in [0, 1]"));
                }
            }
            for (name, v) in [("embedding_lr", s.embedding_lr), ("layer_lr", s.layer_lr), ("head_lr", s.head_lr)] {
                if !(v >= 0.0 && v.is_finite()) {
                    return Err(fault(key(name), v, "it must not be negative"));
                }
            }
            if let Some(least) = s.min_length.filter(|least| *least == 0 || *least > s.length) {
                return Err(fault(key("min_length"), least, "it must be in 1..=length"));
            }
            if let Some(layers) = s.layers.filter(|layers| *layers > self.shape.layers) {
                return Err(fault(key("layers"), layers, "the shape has fewer"));
            }
            if s.forms.needs_calibration() && s.layers.is_some_and(|layers| layers < self.shape.layers) {
                return Err(fault(key("forms"), s.forms, "buckets need all blocks, remove `layers`"));
            }
            if let Objective::Distill { temperature, lambda } = s.objective {
                positive(key("temperature"), temperature)?;
                if !(0.0..=1.0).contains(&lambda) {
                    return Err(fault(key("lambda"), lambda, "it must be in [0, 1]"));
                }
            }
        }
        Ok(())
    }

    /// Whether a stage needs a teacher.
    pub fn needs_teacher(&self) -> bool {
        self.stages.iter().any(|s| matches!(s.objective, Objective::Distill { .. }))
    }
}
