//! Mamba-2 in the clear: shapes, checkpoints, tokenizer and the float reference of what the private engine
//! computes.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fesc_model::{Classifier, Plan, twin::Rounding};
//!
//! let classifier = Classifier::shipped()?;
//! let ids = classifier.tokenizer().encode("The officers searched the car without a warrant.", 2048)?.ids;
//! let class = classifier.classify(&ids)?.class;
//! println!("{}", classifier.label(class).unwrap_or("?")); // Criminal Procedure
//! // The same in the integers of the private run.
//! let outcome = classifier.twin(Plan::FAST)?.classify(&ids, &mut Rounding::nearest())?;
//! assert_eq!(outcome.class, class);
//! # assert_eq!(classifier.label(class), Some("Criminal Procedure"));
//! # Ok(())
//! # }
//! ```
//!
//! Where to look:
//! - [`Config`]: a validated [`Shape`], read from the `config.json` of Hugging Face or of state-spaces;
//! - [`Classifier`]: a model that reads text, from a directory or the shipped one; begin here;
//! - [`Checkpoint`]: a directory with `config.json` and `model.safetensors`, checked in full before a tensor
//!   is read;
//! - [`Model`]: the forward pass in `f32`, with the recurrence as it is written or in block dual form
//!   ([`Scan`]);
//! - [`twin`]: the same model in integers, exactly as the two-party protocol computes it;
//! - [`outline`]: what both parties know of a model: shapes, scales and forms, no weight;
//! - [`Tokenizer`]: text to token ids, cut to a length, and the training of one;
//! - [`data`]: labelled documents from JSONL, plain or compressed; [`metrics`]: how good predictions of them
//!   are.
//!
//! Parity: `tests/parity.rs` holds the forward pass to Hugging Face transformers at 1e-4 relative; the golden
//! files come from `scripts/parity`.
//!
//! Not guaranteed: anything about time or memory access that depends on the document. This crate runs where
//! the document may be seen.
#![forbid(unsafe_code)]

pub mod checkpoint;
mod classifier;
pub mod config;
pub mod data;
mod error;
pub mod float;
pub mod metrics;
pub mod outline;
pub mod plan;
mod tokenizer;
pub mod twin;

pub use checkpoint::{Checkpoint, Precision, Summary};
pub use classifier::{Classifier, Verdict};
pub use config::{Config, Pooling, Shape};
pub use error::ModelError;
pub use float::{Matrix, Model, Scan, Site, Tensor, Weights};
pub use outline::Outline;
pub use plan::Plan;
pub use tokenizer::{Case, END_OF_TEXT, Encoded, PADDING, Tokenizer};

/// The result of this crate.
pub type Result<T, E = ModelError> = std::result::Result<T, E>;
