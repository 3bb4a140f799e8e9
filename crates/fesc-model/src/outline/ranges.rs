//! What a scan under encryption carries at most: magnitudes of its packet, as powers of two.
//!
//! They decide how many bits of a value cross from shares to ciphertexts. What leaves them comes out wrong,
//! like any value that leaves its range, but stays bounded, so that the masks of the results do not depend on
//! them being right. Stored for plans with such a scan only.

use serde::{Deserialize, Serialize};

use crate::twin::LayerStats;
use crate::twin::calibrate::RANGE_MARGIN;

/// Logarithms of largest magnitudes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranges {
    /// Delta x.
    pub pushed: i32,
    /// B and C.
    pub bc: i32,
}

/// Least and greatest logarithm.
const LIMIT: (i32, i32) = (-6, 14);

impl Ranges {
    /// From the ranges of a layer, with the margin of all of them.
    pub(super) fn choose(stats: &LayerStats) -> Self {
        let log = |value: f64| ((RANGE_MARGIN * value).log2().ceil() as i32).clamp(LIMIT.0, LIMIT.1);
        Self { pushed: log(stats.delta * stats.x), bc: log(stats.bc) }
    }

    /// Holds a peer's numbers to the limits.
    pub(super) fn check(&self) -> Result<(), String> {
        for (name, log) in [("Delta x", self.pushed), ("B and C", self.bc)] {
            if !(LIMIT.0..=LIMIT.1).contains(&log) {
                return Err(format!("{name} of at most 2^{log}, not 2^{} to 2^{}", LIMIT.0, LIMIT.1));
            }
        }
        Ok(())
    }
}
