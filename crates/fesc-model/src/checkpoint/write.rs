//! Writes a model directory in Hugging Face's layout, as [`Checkpoint::open`] reads it.
//!
//! Names are transformers': `backbone.` before the tensors of the model, `lm_head.weight` where the head is
//! not tied, `score.weight` and `score.bias` for the classifier. All tensors have one [`Precision`], rounded
//! to nearest even.
//!
//! Each file is written beside its place and then renamed, so that no half-written file has the final name.
//! Not guaranteed: that both files change at one instant. A crash between the two leaves the old config
//! beside the new weights, which the reader refuses unless both are of the same shape, and then only names
//! and pooling can be stale.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensorError, View};

use super::Checkpoint;
use super::names::layer_tensors;
use crate::float::{Layer, Weights};
use crate::{Config, ModelError, Result};

/// How weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// As they are in memory.
    F32,
    /// IEEE half precision: 11 bits, at most 65,504.
    F16,
    /// The upper half of an f32: 8 bits, the range of f32.
    Bf16,
}

impl Precision {
    /// The name that `config.json` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
        }
    }

    fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::BF16,
        }
    }

    /// A value as it will be read back.
    pub fn round(self, v: f32) -> f32 {
        match self {
            Self::F32 => v,
            Self::F16 => f16::from_f32(v).to_f32(),
            Self::Bf16 => bf16::from_f32(v).to_f32(),
        }
    }

    fn bytes(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::F16 => values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(),
            Self::Bf16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect(),
        }
    }
}

/// One tensor on its way to the file; its bytes are made when it is written.
struct Outgoing<'a> {
    shape: Vec<usize>,
    values: &'a [f32],
    precision: Precision,
}

impl View for Outgoing<'_> {
    fn dtype(&self) -> Dtype {
        self.precision.dtype()
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.precision.bytes(self.values).into()
    }

    fn data_len(&self) -> usize {
        self.values.len() * if self.precision == Precision::F32 { 4 } else { 2 }
    }
}

impl Checkpoint {
    /// Writes `config.json` and `model.safetensors` into `directory`, which is made if it is not there. Files
    /// of these names are replaced, others stay. Nothing is written if a weight is not finite or does not fit
    /// the precision.
    pub fn write(directory: &Path, config: &Config, weights: &Weights, precision: Precision) -> Result<()> {
        let text = config.to_json(precision.name())?;
        let tensors = tensors(config, weights, precision)?;
        weights.check(config)?;
        let place = |path: &Path| {
            let path = path.to_path_buf();
            move |source| ModelError::Io { path, source }
        };
        fs::create_dir_all(directory).map_err(place(directory))?;
        let path = directory.join("model.safetensors");
        let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
        replace(&path, |new| {
            safetensors::serialize_to_file(tensors, Some(metadata), new).map_err(|e| match e {
                SafeTensorError::IoError(source) => ModelError::Io { path: path.clone(), source },
                other => ModelError::Header { path: path.clone(), reason: other.to_string() },
            })
        })?;
        let path = directory.join("config.json");
        replace(&path, |new| fs::write(new, text).map_err(place(&path)))
    }
}

/// Lets `write` make a file beside `path` and puts it there once it is on the disk.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let io = |source| ModelError::Io { path: path.into(), source };
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    // The writer of safetensors makes files for their owner alone; who may read a model is the user's say
    // (umask).
    let rights = File::create(&new).and_then(|file| file.metadata()).map_err(io)?.permissions();
    let done = write(&new)
        .and_then(|()| fs::set_permissions(&new, rights).map_err(io))
        .and_then(|()| File::open(&new).and_then(|file| file.sync_all()).map_err(io))
        .and_then(|()| fs::rename(&new, path).map_err(io));
    if done.is_err() {
        // The first error is the one to report; this file may not even exist.
        let _ = fs::remove_file(&new);
    }
    done
}

/// Names, shapes and values, each checked.
fn tensors<'a>(config: &Config, weights: &'a Weights, precision: Precision) -> Result<Vec<(String, Outgoing<'a>)>> {
    let mut out = Vec::new();
    let mut add = |name: String, shape: Vec<usize>, values: &'a [f32]| -> Result<()> {
        let expected = shape.iter().product();
        if values.len() != expected {
            return Err(ModelError::WeightSize { tensor: name, expected, found: values.len() });
        }
        for (index, &value) in values.iter().enumerate() {
            if !value.is_finite() {
                return Err(ModelError::NotFinite { tensor: name, index, value });
            }
            if !precision.round(value).is_finite() {
                return Err(ModelError::Overflow { tensor: name, index, value, precision: precision.name() });
            }
        }
        out.push((name, Outgoing { shape, values, precision }));
        Ok(())
    };
    let table = || vec![config.vocab, config.d_model];
    if weights.layers.len() != config.layers {
        let (expected, found) = (config.layers, weights.layers.len());
        return Err(ModelError::WeightSize { tensor: "layers".into(), expected, found });
    }
    add("backbone.embeddings.weight".into(), table(), &weights.embedding)?;
    for (i, layer) in weights.layers.iter().enumerate() {
        for ((name, shape), values) in layer_tensors(config).into_iter().zip(in_order(layer)) {
            add(format!("backbone.layers.{i}.{name}"), shape, values)?;
        }
    }
    add("backbone.norm_f.weight".into(), vec![config.d_model], &weights.norm)?;
    if let Some(head) = &weights.head {
        let (classes, named) = (head.bias.len(), config.labels().len());
        if classes == 0 || (named != 0 && named != classes) {
            let what = format!("the classifier has {classes} classes, the config names {named}");
            return Err(ModelError::Config { differences: vec![what] });
        }
        add("score.weight".into(), vec![classes, config.d_model], &head.weight)?;
        add("score.bias".into(), vec![classes], &head.bias)?;
    }
    match &weights.lm_head {
        Some(lm_head) if config.tied && *lm_head != weights.embedding => {
            return Err(ModelError::TiedHeadDiffers { tensor: "lm_head.weight".into() });
        }
        Some(lm_head) if !config.tied => add("lm_head.weight".into(), table(), lm_head)?,
        _ => {}
    }
    Ok(out)
}

/// The tensors of a layer in the order of [`layer_tensors`].
fn in_order(layer: &Layer) -> [&[f32]; 9] {
    let Layer { norm, in_proj, conv, conv_bias, dt_bias, a_log, d, gated_norm, out_proj } = layer;
    [norm, in_proj, conv, conv_bias, dt_bias, a_log, d, gated_norm, out_proj]
}
