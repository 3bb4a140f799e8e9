//! A model directory: `config.json`, `model.safetensors` and perhaps `tokenizer.json`.
//!
//! [`Checkpoint::open`] reads the config and the header and checks every name, shape and dtype against the
//! config and every length against the file before any tensor is read or memory for one is taken.
//! [`Checkpoint::load`] then reads the tensors one by one (seek and read, f32, f16 or bf16 to f32) and
//! refuses NaN and infinity by name.
//!
//! Both layouts are taken: Hugging Face's (`embeddings`), the original's (`embedding`), with or without
//! `backbone.`. A classifier is `score` or `classifier`, its bias may be absent.
//!
//! Memory: the f32 weights and one megabyte. Not guaranteed: that the file stays as it was between the two
//! calls; a file that shrinks is an error, a file that changes is read as it is.

mod header;
mod names;
mod summary;
mod write;

use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::Dtype;

use crate::float::{Head, Layer, Weights};
use crate::{Config, Model, ModelError, Result};

use header::{Header, Stored};
use names::Index;
pub use summary::{Part, Summary};
pub use write::Precision;
pub(crate) use write::replace;

/// Tensor data is read in pieces of this many bytes.
const PIECE: usize = 1 << 20;

/// Reads a whole text file that must be small.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String> {
    let io = |source| ModelError::Io { path: path.into(), source };
    let file = File::open(path).map_err(io)?;
    let mut text = String::new();
    let read = file.take(limit + 1).read_to_string(&mut text).map_err(io)? as u64;
    if read > limit {
        return Err(ModelError::FileTooLarge { path: path.into(), limit });
    }
    Ok(text)
}

/// An opened and checked model directory, no tensor loaded.
#[derive(Debug)]
pub struct Checkpoint {
    directory: PathBuf,
    weights: PathBuf,
    /// The weights where they are part of the program and no file.
    embedded: Option<&'static [u8]>,
    config: Config,
    header: Header,
    index: Index,
}

impl Checkpoint {
    /// Opens a directory and checks everything that can be checked without reading tensors.
    pub fn open(directory: &Path) -> Result<Self> {
        let config = Config::read(&directory.join("config.json"))?;
        let weights = directory.join("model.safetensors");
        if !weights.exists() {
            let has = |name: &str| directory.join(name).exists();
            let remedy = if has("model.safetensors.index.json") {
                "this checkpoint is split over several files; save it as one (a larger max_shard_size)"
            } else if has("pytorch_model.bin") {
                "convert pytorch_model.bin to safetensors first"
            } else {
                "is this a model directory?"
            };
            return Err(ModelError::NoWeights { path: weights, remedy });
        }
        let io = |source| ModelError::Io { path: weights.clone(), source };
        let file = File::open(&weights).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        Self::checked(directory.into(), config, Header::read(file, bytes, &weights)?, None)
    }

    /// The same for a checkpoint that is part of the program; `name` stands for the directory in messages.
    pub fn embedded(name: &str, config: &str, weights: &'static [u8]) -> Result<Self> {
        let directory = PathBuf::from(name);
        let header = Header::read(weights, weights.len() as u64, &directory.join("model.safetensors"))?;
        Self::checked(directory, Config::from_json(config)?, header, Some(weights))
    }

    fn checked(directory: PathBuf, config: Config, header: Header, embedded: Option<&'static [u8]>) -> Result<Self> {
        let weights = directory.join("model.safetensors");
        let index = Index::new(&config, &header)
            .map_err(|differences| ModelError::Tensors { path: weights.clone(), differences })?;
        Ok(Self { directory, weights, embedded, config, header, index })
    }

    /// The checked configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Classes of the classifier, if the file has one.
    pub fn classes(&self) -> Option<usize> {
        self.index.classes
    }

    /// Where the tokenizer is, if the directory has one.
    pub fn tokenizer_path(&self) -> Option<PathBuf> {
        Some(self.directory.join("tokenizer.json")).filter(|path| path.exists())
    }

    /// What is in the directory, from config and header alone.
    pub fn summary(&self) -> Summary {
        Summary::new(self)
    }

    /// Reads all tensors.
    pub fn load(&self) -> Result<Model> {
        match self.embedded {
            Some(bytes) => self.load_from(Cursor::new(bytes)),
            None => self.load_from(File::open(&self.weights).map_err(|source| self.io(source))?),
        }
    }

    fn load_from(&self, file: impl Read + Seek) -> Result<Model> {
        let mut file = TensorFile { file, path: &self.weights, piece: Vec::new() };
        let mut take = |canonical: &str| match self.index.find(&self.header, canonical) {
            Some(stored) => file.tensor(stored),
            None => Err(self.missing(canonical)),
        };
        let embedding = take("embeddings.weight")?;
        let mut layers = Vec::with_capacity(self.config.layers);
        for i in 0..self.config.layers {
            let mut part = |name: &str| take(&format!("layers.{i}.{name}"));
            layers.push(Layer {
                norm: part("norm.weight")?,
                in_proj: part("mixer.in_proj.weight")?,
                conv: part("mixer.conv1d.weight")?,
                conv_bias: part("mixer.conv1d.bias")?,
                dt_bias: part("mixer.dt_bias")?,
                a_log: part("mixer.A_log")?,
                d: part("mixer.D")?,
                gated_norm: part("mixer.norm.weight")?,
                out_proj: part("mixer.out_proj.weight")?,
            });
        }
        let norm = take("norm_f.weight")?;
        let head = match self.index.classes {
            None => None,
            Some(classes) => {
                let weight = take("score.weight")?;
                let bias = if self.index.has("score.bias") { take("score.bias")? } else { vec![0.0; classes] };
                Some(Head { weight, bias })
            }
        };
        let mut lm_head = if self.index.has("lm_head.weight") { Some(take("lm_head.weight")?) } else { None };
        if self.config.tied {
            // Original checkpoints store the tied head twice.
            if lm_head.take().is_some_and(|stored| stored != embedding) {
                return Err(ModelError::TiedHeadDiffers { tensor: "lm_head.weight".into() });
            }
        }
        Model::new(self.config.clone(), Weights { embedding, layers, norm, lm_head, head })
    }

    fn io(&self, source: std::io::Error) -> ModelError {
        ModelError::Io { path: self.weights.clone(), source }
    }

    fn missing(&self, canonical: &str) -> ModelError {
        ModelError::Tensors { path: self.weights.clone(), differences: vec![format!("{canonical} is missing")] }
    }
}

/// Reads tensors as f32.
struct TensorFile<'a, F> {
    file: F,
    path: &'a Path,
    piece: Vec<u8>,
}

impl<F: Read + Seek> TensorFile<'_, F> {
    fn tensor(&mut self, stored: &Stored) -> Result<Vec<f32>> {
        let io = |source| ModelError::Io { path: self.path.into(), source };
        self.file.seek(SeekFrom::Start(stored.start)).map_err(io)?;
        let mut values: Vec<f32> = Vec::new();
        // A sparse file can be larger than memory: an error, not an abort.
        values.try_reserve_exact(stored.values()).map_err(|_| io(std::io::ErrorKind::OutOfMemory.into()))?;
        let mut left = stored.bytes;
        while left > 0 {
            let now = left.min(PIECE);
            self.piece.resize(now, 0);
            self.file.read_exact(&mut self.piece).map_err(io)?;
            match stored.dtype {
                Dtype::F16 => values.extend(self.piece.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32())),
                Dtype::BF16 => values.extend(self.piece.as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32())),
                // Index::new let no other dtype through.
                _ => values.extend(self.piece.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
            }
            left -= now;
        }
        match values.iter().position(|v| !v.is_finite()) {
            Some(index) => Err(ModelError::NotFinite { tensor: stored.name.clone(), index, value: values[index] }),
            None => Ok(values),
        }
    }
}
