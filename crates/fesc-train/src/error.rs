//! What can go wrong in training.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A tensor operation failed.
    #[error("tensor operation: {0}")]
    Tensor(#[from] candle_core::Error),
    /// The model refused its numbers.
    #[error(transparent)]
    Model(#[from] fesc_model::ModelError),
    /// An approximation cannot be built.
    #[error("approximation: {0}")]
    Approx(#[from] fesc_approx::ApproxError),
    /// A recipe's value is not usable.
    #[error("recipe: {key} is {value}: {reason}")]
    Recipe {
        /// Which.
        key: String,
        /// What it is.
        value: String,
        /// What it must be.
        reason: String,
    },
    /// A recipe is not what it must be.
    #[error("recipe {path}: {reason}")]
    RecipeFile {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// Forms with buckets before any calibration.
    #[error("the forms {forms} have buckets: calibrate the norms first")]
    NotCalibrated {
        /// The set.
        forms: String,
    },
    /// Training data that cannot be trained on.
    #[error("{set} data: {reason}")]
    Data {
        /// Which part.
        set: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A state file does not belong to this run.
    #[error("{path} cannot be resumed: {reason}")]
    Resume {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// The loss or a gradient is no number any more.
    #[error("step {step}: the {what} is not finite; lower the learning rate or clip harder")]
    Diverged {
        /// The step.
        step: usize,
        /// Loss or gradient.
        what: &'static str,
    },
}

/// The result of this crate.
pub type Result<T, E = TrainError> = std::result::Result<T, E>;
