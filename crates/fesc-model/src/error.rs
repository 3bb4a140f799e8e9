//! What can be wrong with a model, its files or its input.

use std::io;
use std::path::PathBuf;

/// An error of this crate. Nothing is repaired silently: a model that is not exactly understood is not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file could not be opened or read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file that is read as a whole is too large to be what it claims to be.
    #[error("{path} has more than the {limit} bytes that such a file may have")]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size taken.
        limit: u64,
    },
    /// A JSON file is not JSON.
    #[error("{path} is not valid JSON: {reason}")]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// The configuration is not one that this crate computes exactly.
    #[error("this configuration is not supported: {}", differences.join("; "))]
    Config {
        /// Everything that differs, one entry each.
        differences: Vec<String>,
    },
    /// A directory without a `config.json`.
    #[error(
        "no model in {}: a model is a directory with config.json, model.safetensors and tokenizer.json",
        directory.display()
    )]
    NoModel {
        /// The directory.
        directory: PathBuf,
    },
    /// A classifier without its tokenizer.
    #[error("{} has no tokenizer.json; put the model's own there", directory.display())]
    NoTokenizer {
        /// The directory.
        directory: PathBuf,
    },
    /// There is no `model.safetensors`.
    #[error("{path} is missing; {remedy}")]
    NoWeights {
        /// The file that was looked for.
        path: PathBuf,
        /// What to do.
        remedy: &'static str,
    },
    /// The safetensors header is malformed or does not fit the file.
    #[error("{path}: bad safetensors header: {reason}; the file is truncated or not safetensors, fetch it again")]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the numbers.
        reason: String,
    },
    /// The tensors are not those of the configuration.
    #[error("{path} does not hold the model that config.json describes: {}", differences.join("; "))]
    Tensors {
        /// The file.
        path: PathBuf,
        /// Everything that differs, one entry each.
        differences: Vec<String>,
    },
    /// A weight is NaN or infinite.
    #[error("tensor {tensor} has the value {value} at index {index}; the checkpoint is damaged or training diverged")]
    NotFinite {
        /// The tensor's name.
        tensor: String,
        /// Index of the first such value.
        index: usize,
        /// The value.
        value: f32,
    },
    /// A weight is too large for the precision that it shall be stored in.
    #[error(
        "tensor {tensor} has the value {value} at index {index}, which {precision} cannot hold; store float32 or bfloat16"
    )]
    Overflow {
        /// The tensor's name.
        tensor: String,
        /// Index of the first such value.
        index: usize,
        /// The value.
        value: f32,
        /// The precision asked for.
        precision: &'static str,
    },
    /// Weights given in memory do not fit the configuration.
    #[error("tensor {tensor} has {found} values, its shape needs {expected}")]
    WeightSize {
        /// The tensor's name.
        tensor: String,
        /// Values the configuration asks for.
        expected: usize,
        /// Values found.
        found: usize,
    },
    /// exp(A_log) overflows: A would be infinite and 0 times A not a number.
    #[error("layer {layer}, head {head}: A_log = {a_log} gives an infinite decay rate; it must be below 88.7")]
    Decay {
        /// The layer.
        layer: usize,
        /// The head.
        head: usize,
        /// The value found.
        a_log: f32,
    },
    /// The head of a model with a tied head is stored as well, and is not the embedding.
    #[error("the config ties {tensor} to the embedding, but the stored tensor differs from it")]
    TiedHeadDiffers {
        /// The stored head.
        tensor: String,
    },
    /// No token was given.
    #[error("the document has no token; at least one is needed")]
    NoTokens,
    /// A token id has no row in the embedding.
    #[error("token {index} has id {id}, but the embedding has {vocab} rows; is this the model's tokenizer?")]
    TokenId {
        /// Position in the document.
        index: usize,
        /// The id.
        id: u32,
        /// Rows of the embedding.
        vocab: usize,
    },
    /// The residual stream left the range of f32.
    #[error(
        "token {token} is infinite or not a number after layer {layer}; the weights are too large to be a trained model"
    )]
    StateNotFinite {
        /// The layer that made it.
        layer: usize,
        /// The first such token.
        token: usize,
    },
    /// The model lacks the head that was asked for.
    #[error("this checkpoint has no {head}")]
    NoHead {
        /// Which head.
        head: &'static str,
    },
    /// Pooling over more tokens than there are, or over none.
    #[error("cannot pool {tokens} of {rows} tokens")]
    Pool {
        /// Tokens asked for.
        tokens: usize,
        /// Tokens there.
        rows: usize,
    },
    /// A block length of zero.
    #[error("the block length of the scan must be at least 1")]
    ZeroBlock,
    /// The tokenizer's file is not understood.
    #[error("{path} is not a tokenizer: {reason}")]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What the tokenizers library said.
        reason: String,
    },
    /// The tokenizer failed on a text.
    #[error("the text cannot be tokenized: {reason}")]
    Encode {
        /// What the tokenizers library said.
        reason: String,
    },
    /// A tokenizer could not be trained.
    #[error("no tokenizer can be trained: {reason}")]
    TokenizerTraining {
        /// Why.
        reason: String,
    },
    /// A file of documents is not what it must be.
    #[error("{path}, line {line}: {reason}")]
    Data {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A class that the model does not have.
    #[error("class {label} is not one of the model's {classes} (0 is the first)")]
    Label {
        /// The class.
        label: usize,
        /// How many there are.
        classes: usize,
    },
    /// The tokenizer makes ids that the embedding does not have.
    #[error("the tokenizer makes ids up to {largest}, the embedding has {vocab} rows: they do not belong together")]
    Vocabulary {
        /// The largest id.
        largest: u32,
        /// Rows of the embedding.
        vocab: usize,
    },
    /// A document is longer than the length it shall be padded to.
    #[error("{tokens} tokens do not fit a length of {length}; encode with that length first")]
    Pad {
        /// Tokens there.
        tokens: usize,
        /// The length asked for.
        length: usize,
    },
    /// An outline that is none, or that a stage could not rely on.
    #[error("this outline of a model cannot be used: {reason}")]
    Outline {
        /// What is wrong, with the numbers.
        reason: String,
    },
    /// The fixed-point twin could not be made, or a value left its range.
    #[error(transparent)]
    Twin(#[from] crate::twin::TwinError),
}
