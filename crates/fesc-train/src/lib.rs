//! Training of Mamba-2 classifiers on the processor: few, fused operations in candle's graph, recipes,
//! distillation, approximation-aware tuning.
//!
//! # What is in it
//! - [`Recipe`]: everything that decides how a model is trained, as one file; [`run`](mod@run): the run
//!   itself, resumable, with its [`Event`]s;
//! - [`ops`]: the fused operations with their backward passes; [`Graph`]: the model made of them; [`loss`],
//!   [`optimiser`], [`Parameters`], [`data`];
//! - [`forms`]: the nonlinearities, exact or as the protocols approximate them;
//! - [`initial_weights`], [`student`], [`ppmi`]: where weights come from; [`calibrate`]: buckets of the
//!   norms;
//! - [`evaluate`](fn@evaluate): loss and accuracy.
//!
//! The model is [`fesc_model::Model`]'s to rounding (a test holds the logits to 1e-4), and weights come and
//! go as [`fesc_model::Weights`].
//!
//! # Example
//! ```
//! let text = r#"{ "name": "tiny", "seed": 1, "classes": 2, "tokenizer": { "vocab": 100 },
//!     "shape": { "d_model": 16, "layers": 1, "heads": 2, "head_dim": 16, "state": 8 },
//!     "evaluation": { "lengths": [64] },
//!     "stages": [{ "length": 64, "epochs": 1, "batch": 8, "lr": 0.001 }] }"#;
//! let recipe: fesc_train::Recipe = serde_json::from_str(text)?;
//! recipe.check()?;
//! assert_eq!(recipe.config(100)?.shape().inner(), 32);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not promise
//! Reproducible: the same recipe, data and number of workers give the same weights, bit for bit, on one
//! machine, interrupted or not. Not guaranteed: the same bits on another processor (vector widths change the
//! order of sums). Nothing here is secret-safe: it runs where the data may be seen.
#![forbid(unsafe_code)]

pub mod data;
mod error;
mod evaluate;
mod event;
mod fingerprint;
pub mod forms;
mod graph;
mod init;
pub mod loss;
pub mod ops;
pub mod optimiser;
mod parameters;
pub mod ppmi;
pub mod recipe;
pub mod run;
mod state;
mod worker;

pub use data::Document;
pub use error::{Result, TrainError};
pub use evaluate::{CALIBRATION_DOCUMENTS, Score, calibrate, evaluate, score};
pub use forms::{FormSet, Forms};
pub use graph::{Graph, Packed};
pub use init::{initial_weights, student};
pub use parameters::{Parameter, ParameterKind, Parameters};
pub use recipe::Recipe;
pub use run::{Control, Event, Inputs, Outcome, run};
