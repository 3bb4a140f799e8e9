//! Memory: a model of what each side holds at its peak, without the queue of correlations made ahead.
//!
//! ```text
//! run    = program + 3 residual streams + 2 (largest correlations of a stage on a segment)
//! client = run + hints of a layer
//! server = max(run + weights and RLWE secrets of a layer,
//!              program + all weights as floats while the public part is made)
//! ```
//!
//! Weights, hints and the table are in files, so that a run's memory does not grow with layers, and with the
//! document only by its stream.

use anyhow::Result;
use fesc_infer::{ClientSetup, Embedding, Schedule};

use super::declared::{Declared, Prices};

/// The program, its engine tables and buffers.
const PROGRAM: u64 = 25 << 20;

/// What the two parties' own generator adds: transfers that are ready, noise that is ready, messages of a
/// window.
const GENERATOR: u64 = 60 << 20;

/// Bytes of each side.
pub struct Memory {
    pub client: u64,
    pub server: u64,
}

/// The model.
pub fn model(schedule: &Schedule, declared: &Declared, prices: &Prices) -> Result<Memory> {
    let outline = schedule.outline();
    let shape = outline.shape();
    let (vocab, width, layers) = (shape.vocab as u64, shape.d_model as u64, shape.layers as u64);
    let (inner, projected) = (shape.inner() as u64, shape.proj_dim() as u64);
    let matrices = width * projected + inner * width;
    // On the wire an element has 6 bytes, in memory 8.
    let public = ClientSetup::bytes(outline, Embedding::Encrypted)?;
    let hints = public.saturating_sub(6 * vocab * width) / layers.max(1) * 8 / 6;
    let secrets = 8 * matrices + 2048 * (projected + width);
    let program = PROGRAM + if matches!(prices, Prices::Dealer) { 0 } else { GENERATOR };
    // The stream before and after a layer and the part that is computed; correlations of a stage, and about
    // as much again of opened values and results.
    let run = program + 3 * 8 * schedule.tokens() as u64 * width + 2 * declared.largest;
    let floats = 4 * (layers * matrices + vocab * width);
    Ok(Memory { client: run + hints, server: (run + secrets).max(PROGRAM + floats + secrets + hints) })
}
