//! A private run against the model in the clear: when it counts as right. For checks of the program by
//! somebody who has both sides (`classify --verify`, `bench infer`).
//!
//! | what | compared with | agrees if |
//! |---|---|---|
//! | a stage under CKKS | its circuit in the clear | the noise formula says so ([`fesc_hybrid::verify`]) |
//! | a layer | the twin's, from its own input | its distance is that of noisy twins ([`Agreement`]) |
//! | the logits | the twin's | they are within the bound that the noise formula gives ([`Logits`]) |
//! | the class | the twin's | it is the same |
//!
//! A layer on shares has no bound that follows from single roundings (`fesc_model::twin`); a circuit under
//! CKKS has a formula. So a circuit is held to its formula by itself, with nothing of the shares' chance in
//! it, and the layer to the twin's spread. Noisy twins have the carries of truncations and the noise of RLWE,
//! and none of CKKS, which is the smaller one wherever it was measured: one rule for layers serves all plans.
//!
//! Cost: each circuit once on complex numbers, each layer of the twin a few times, the twin seventeen times.
//!
//! Not guaranteed: that a run that agrees is right everywhere. A layer is compared by its root mean square
//! and its largest distance.

mod logits;

pub use logits::{FACTOR, FLOOR, Logits, RUNS as LOGIT_RUNS, logits};

use fesc_hybrid::verify::{Deviation, Witness};
use fesc_model::twin::{Apart, Rounding, Twin};
use fesc_ring::Prg;

use crate::block::Block;
use crate::schedule::Schedule;
use crate::stage::Stage;
use crate::{InferError, Result};

/// Tokens that noisy twins see at least, all runs together: a short document needs many runs to show what
/// happens once in a few hundred tokens.
const TOKENS: usize = 600;
/// Noisy twins at least, and at most.
const RUNS: (usize, usize) = (3, 200);

/// How far a stage under CKKS is from the same in the clear.
#[derive(Debug, Clone, Copy)]
pub struct StageCheck {
    /// Which.
    pub stage: Stage,
    /// The layer.
    pub layer: usize,
    /// The segment.
    pub segment: usize,
    /// How far, and how far by formula.
    pub deviation: Deviation,
}

/// All stages under CKKS of a run, in the order in which they ran.
///
/// # Errors
/// If the witnesses are those of another schedule, or the twin is another model's.
pub fn stages(schedule: &Schedule, twin: &Twin, witnesses: &[Witness]) -> Result<Vec<StageCheck>> {
    let (mut left, mut found) = (witnesses.iter(), Vec::new());
    for (layer, segment) in schedule.blocks_in_order() {
        let block = Block::new(schedule, layer, &segment)?;
        let deviations = block.deviations(twin, &mut left)?;
        let check = |(stage, deviation)| StageCheck { stage, layer, segment: segment.index, deviation };
        found.extend(deviations.into_iter().map(check));
    }
    match left.len() {
        0 => Ok(found),
        more => Err(InferError::Size { what: "circuits of a run", expected: found.len(), got: found.len() + more }),
    }
}

/// How far a layer is from the twin's, and how far noisy twins are.
#[derive(Debug, Clone, Copy)]
pub struct Agreement {
    /// The layer.
    pub layer: usize,
    /// From the twin.
    pub apart: Apart,
    /// The farthest noisy twin in each.
    pub noisy: Apart,
}

impl Agreement {
    /// At most twice the relative distance of the farthest noisy twin and three times its largest difference
    /// (tails are heavy: pieces of a form do not meet, and a norm enlarges an ulp where the stream is small),
    /// and an ulp for layers that hardly move.
    pub fn within(&self) -> bool {
        let Self { apart, noisy, .. } = self;
        apart.relative <= 2.0 * noisy.relative + apart.ulp && apart.max_ulps <= 3 * noisy.max_ulps + 1
    }
}

/// A layer, and the residual stream that enters it.
type Layer = (usize, Vec<i64>);

/// Every layer from its private input: the stream that enters each layer, and that leaves the last.
///
/// # Errors
/// If a stream does not fit the model, or a value leaves its range.
pub fn layers(twin: &Twin, streams: &[(usize, Vec<i64>)]) -> Result<Vec<Agreement>> {
    let width = twin.outline()?.shape().d_model;
    let pairs = streams.iter().zip(streams.iter().skip(1));
    let agreement = |((layer, enters), (_, leaves)): (&Layer, &Layer)| {
        let from = |mut rounding: Rounding| -> Result<Vec<i64>> {
            let mut stream = enters.clone();
            twin.layer(*layer, &mut stream, &mut rounding)?;
            Ok(stream)
        };
        let centre = from(Rounding::nearest())?;
        let mut noisy = Apart::between(&centre, &centre);
        for seed in 0..(TOKENS * width / centre.len().max(1)).clamp(RUNS.0, RUNS.1) as u8 {
            let run = Apart::between(&from(Rounding::noisy(Prg::from_seed([seed; 16])))?, &centre);
            noisy = noisy.farther(&run);
        }
        Ok(Agreement { layer: *layer, apart: Apart::between(leaves, &centre), noisy })
    };
    pairs.map(agreement).collect()
}
