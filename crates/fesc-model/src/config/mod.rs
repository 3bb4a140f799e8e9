//! The shape of a Mamba-2 model: an open [`Shape`], a checked [`Config`], and readers of both `config.json`
//! dialects.

mod huggingface;
mod json;
mod named;
mod original;
mod writer;

use std::ops::Deref;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ModelError, Result};

/// The largest `config.json` taken, in bytes. Real ones have about one kilobyte.
const CONFIG_LIMIT: u64 = 4 << 20;

/// How token states become one vector for the classifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean over all tokens.
    Mean,
    /// The state of the last token.
    Last,
}

/// The unchecked numbers of a model. [`Config::new`] checks them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shape {
    /// Rows of the embedding, padding included.
    pub vocab: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Blocks.
    pub layers: usize,
    /// SSM heads H.
    pub heads: usize,
    /// Channels of one head, P.
    pub head_dim: usize,
    /// State dimension of one channel.
    pub state: usize,
    /// Groups G that share B and C; head h belongs to group h / (H/G).
    pub groups: usize,
    /// Taps of the causal convolution.
    pub conv_width: usize,
    /// Block length that the checkpoint was made with. It changes no result; it is the default of the block
    /// dual form.
    pub chunk: usize,
    /// Added to the mean of squares in every RMSNorm.
    pub norm_eps: f32,
    /// Groups of channels that the gated norm treats apart: 1 in Hugging Face's model, G in the original.
    pub norm_groups: usize,
    /// Delta is clamped to this range after softplus.
    #[serde(serialize_with = "json::limit")]
    pub delta_limit: (f32, f32),
    /// Whether the language model head is the embedding.
    pub tied: bool,
    /// Whether half-precision runs keep the residual in f32. Everything here is f32, so that it changes no
    /// result.
    pub residual_in_fp32: bool,
    /// How the classifier pools.
    pub pooling: Pooling,
}

impl Shape {
    /// Expanded width H P.
    pub fn inner(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of B or of C, all groups.
    pub fn group_width(&self) -> usize {
        self.groups * self.state
    }

    /// Channels of the convolution: x, B and C.
    pub fn conv_dim(&self) -> usize {
        self.inner() + 2 * self.group_width()
    }

    /// Width of the input projection: z, x, B, C and dt.
    pub fn proj_dim(&self) -> usize {
        self.inner() + self.conv_dim() + self.heads
    }

    /// Everything that is wrong with these numbers.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        // The bounds keep every product of two dimensions far below overflow.
        let bounded = [
            ("vocab_size", self.vocab, 1 << 24),
            ("d_model", self.d_model, 1 << 16),
            ("layers", self.layers, 1 << 12),
            ("heads", self.heads, 1 << 12),
            ("head_dim", self.head_dim, 1 << 12),
            ("state", self.state, 1 << 12),
            ("groups", self.groups, 1 << 12),
            ("conv_width", self.conv_width, 1 << 8),
            ("chunk", self.chunk, 1 << 20),
            ("norm_groups", self.norm_groups, 1 << 12),
        ];
        for (name, value, limit) in bounded {
            if value == 0 || value > limit {
                faults.push(format!("{name} is {value}, it must be 1..={limit}"));
            }
        }
        if self.groups != 0 && !self.heads.is_multiple_of(self.groups) {
            faults.push(format!("{} heads do not divide into {} groups", self.heads, self.groups));
        }
        let inner = self.heads.saturating_mul(self.head_dim);
        if self.norm_groups != 0 && !inner.is_multiple_of(self.norm_groups) {
            faults.push(format!("{inner} channels do not divide into {} norm groups", self.norm_groups));
        }
        if !(self.norm_eps > 0.0 && self.norm_eps <= 1.0) {
            faults.push(format!("the norm's epsilon is {}, it must be in (0, 1]", self.norm_eps));
        }
        let (low, high) = self.delta_limit;
        if !(low >= 0.0 && low < high) {
            faults.push(format!("the time step limit is [{low}, {high}], it must be ordered and not negative"));
        }
        faults
    }
}

/// A checked [`Shape`], readable through `Deref`, and the names of the classes where the config gives them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    #[serde(flatten)]
    shape: Shape,
    labels: Vec<String>,
}

impl Deref for Config {
    type Target = Shape;

    fn deref(&self) -> &Shape {
        &self.shape
    }
}

impl Config {
    /// Checks a shape. The error lists all that is wrong.
    pub fn new(shape: Shape) -> Result<Self> {
        let differences = shape.faults();
        if differences.is_empty() {
            Ok(Self { shape, labels: Vec::new() })
        } else {
            Err(ModelError::Config { differences })
        }
    }

    /// The same with names for the classes; empty where there are none.
    pub fn with_labels(mut self, labels: Vec<String>) -> Self {
        self.labels = labels;
        self
    }

    /// The checked numbers.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Names of the classes, by index; empty where the config names none.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Reads a `config.json` of either dialect.
    pub fn read(path: &Path) -> Result<Self> {
        let text = crate::checkpoint::read_text(path, CONFIG_LIMIT)?;
        let value = json::parse(&text).map_err(|reason| ModelError::Json { path: path.into(), reason })?;
        Self::from_value(&value)
    }

    /// The same from text.
    pub fn from_json(text: &str) -> Result<Self> {
        let value = json::parse(text).map_err(|reason| ModelError::Json { path: "config.json".into(), reason })?;
        Self::from_value(&value)
    }

    fn from_value(value: &Value) -> Result<Self> {
        let Value::Object(map) = value else {
            return Err(ModelError::Config { differences: vec!["config.json is not a JSON object".into()] });
        };
        let (shape, labels, mut differences) =
            if is_original(map) { original::read(map) } else { huggingface::read(map) };
        // A number that was not read is 0 here and has been reported; faults would only repeat it.
        if differences.is_empty() {
            differences = shape.faults();
        }
        if differences.is_empty() { Ok(Self { shape, labels }) } else { Err(ModelError::Config { differences }) }
    }
}

/// State-spaces configs have `d_model` and `n_layer` and no `model_type`.
fn is_original(map: &Map<String, Value>) -> bool {
    !map.contains_key("model_type") && map.contains_key("d_model") && map.contains_key("n_layer")
}

#[cfg(test)]
mod tests;
