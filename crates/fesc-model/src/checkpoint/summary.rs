//! What `fesc inspect DIR` prints.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::Checkpoint;
use crate::Config;

/// One part of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// Its parameters, all layers together.
    pub parameters: u64,
    /// Bytes in the file.
    pub bytes: u64,
}

/// A checkpoint described from its config and header; no tensor was read.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The directory.
    pub directory: PathBuf,
    /// The checked configuration.
    pub config: Config,
    /// Parts in the order of the forward pass; a tied head that is stored is listed.
    pub parts: Vec<Part>,
    /// Parameters by stored dtype.
    pub dtypes: BTreeMap<String, u64>,
    /// All stored parameters.
    pub parameters: u64,
    /// Size of `model.safetensors`.
    pub file_bytes: u64,
    /// Bytes of the weights once loaded as f32.
    pub loaded_bytes: u64,
    /// Classes of the classifier, if there is one.
    pub classes: Option<usize>,
    /// Whether there are language model logits to be had: a tied or a stored head.
    pub lm_head: bool,
    /// Whether the directory has a `tokenizer.json`.
    pub tokenizer: bool,
}

/// The parts, in the order of the forward pass.
const PARTS: [&str; 9] = [
    "embedding",
    "norms",
    "input projections",
    "convolutions",
    "decays, skips and steps",
    "gated norms",
    "output projections",
    "classifier",
    "language model head",
];

fn part_of(name: &str) -> usize {
    let rest = name.split_once("mixer.").map(|(_, rest)| rest);
    match (name, rest) {
        ("embeddings.weight", _) => 0,
        ("lm_head.weight", _) => 8,
        (_, Some("in_proj.weight")) => 2,
        (_, Some("conv1d.weight" | "conv1d.bias")) => 3,
        (_, Some("A_log" | "D" | "dt_bias")) => 4,
        (_, Some("norm.weight")) => 5,
        (_, Some(_)) => 6,
        _ if name.starts_with("score.") => 7,
        _ => 1,
    }
}

impl Summary {
    pub(super) fn new(checkpoint: &Checkpoint) -> Self {
        let mut parts = PARTS.map(|name| Part { name, parameters: 0, bytes: 0 });
        let mut dtypes: BTreeMap<String, u64> = BTreeMap::new();
        let mut parameters = 0;
        for (name, stored) in checkpoint.index.iter(&checkpoint.header) {
            let values = stored.values() as u64;
            parameters += values;
            *dtypes.entry(stored.dtype.to_string()).or_default() += values;
            if let Some(part) = parts.get_mut(part_of(name)) {
                part.parameters += values;
                part.bytes += stored.bytes as u64;
            }
        }
        let stored_head = parts[8].parameters;
        let not_kept = if checkpoint.config.tied { stored_head } else { 0 };
        Self {
            directory: checkpoint.directory.clone(),
            config: checkpoint.config.clone(),
            parts: parts.into_iter().filter(|part| part.parameters > 0).collect(),
            dtypes,
            parameters,
            file_bytes: checkpoint.header.file_bytes,
            loaded_bytes: 4 * (parameters - not_kept),
            classes: checkpoint.classes(),
            lm_head: checkpoint.config.tied || stored_head > 0,
            tokenizer: checkpoint.tokenizer_path().is_some(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.config;
        let mb = |bytes: u64| bytes as f64 / 1e6;
        writeln!(f, "{}", self.directory.display())?;
        writeln!(
            f,
            "  Mamba-2: {} layers, d_model {}, {} heads of {}, state {}, {} group(s), {} taps, {} embedding rows",
            c.layers, c.d_model, c.heads, c.head_dim, c.state, c.groups, c.conv_width, c.vocab
        )?;
        let dtypes: Vec<String> = self.dtypes.iter().map(|(dtype, n)| format!("{n} {dtype}")).collect();
        writeln!(f, "  parameters: {} ({})", self.parameters, dtypes.join(", "))?;
        for part in &self.parts {
            writeln!(f, "    {:<24} {:>12}  {:>9.3} MB", part.name, part.parameters, mb(part.bytes))?;
        }
        writeln!(f, "  file {:.3} MB, loaded as f32 {:.3} MB", mb(self.file_bytes), mb(self.loaded_bytes))?;
        match self.classes {
            Some(n) => writeln!(
                f,
                "  classifier: {n} classes, {:?} pooling {}",
                c.pooling,
                c.labels().join(", ").escape_debug()
            )?,
            None => writeln!(f, "  classifier: none")?,
        }
        let head = if c.tied {
            "tied"
        } else if self.lm_head {
            "stored"
        } else {
            "none"
        };
        writeln!(f, "  language model head: {head}")?;
        write!(f, "  tokenizer: {}", if self.tokenizer { "tokenizer.json" } else { "none" })
    }
}
