//! What a run tells its caller, what the caller answers, and how it ends.

use std::path::PathBuf;

use serde::Serialize;

use crate::evaluate::Score;

/// What happens.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// A stage begins or goes on.
    Stage {
        /// Which.
        stage: usize,
        /// Its steps.
        steps: usize,
        /// Steps already done.
        done: usize,
    },
    /// Some steps were made.
    Step {
        /// The stage.
        stage: usize,
        /// Steps done in it.
        step: usize,
        /// Steps of it.
        steps: usize,
        /// Mean loss since the last of these.
        loss: f64,
        /// Learning rate.
        lr: f64,
        /// Norm of the last gradient before clipping.
        norm: f64,
        /// Speed since the last of these.
        tokens_per_second: f64,
        /// Estimated from the speed and the tokens to come, all stages, without evaluations.
        seconds_left: f64,
    },
    /// Validation.
    Evaluated {
        /// The stage.
        stage: usize,
        /// Steps done in it.
        step: usize,
        /// Passes over the data.
        epoch: f64,
        /// The mean of the losses at all lengths: what decides.
        loss: f64,
        /// The results, one per length of the recipe.
        scores: Vec<Score>,
        /// Whether it is the stage's best so far, and was written.
        best: bool,
    },
}

/// What the caller wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Continue,
    /// Write the state and return.
    Stop,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Whether all stages are done; if not, resume.
    pub finished: bool,
    /// The last stage's checkpoint with the smallest validation loss, if one was written.
    pub checkpoint: Option<PathBuf>,
    /// That loss.
    pub best_loss: Option<f64>,
    /// Seconds of training, evaluations included, over all resumptions.
    pub seconds: f64,
}
