//! `1/sqrt(v)` of the norms: exact, or the paper's buckets with Newton steps.

use fesc_approx::paper::nerms::NeRms;
use serde::{Deserialize, Serialize};

use crate::Result;

/// Buckets of the paper.
pub const BUCKETS: u32 = 8;

/// A calibrated range is widened by this factor on both sides: documents to come are not those of the
/// calibration.
pub const MARGIN: f64 = 2.0;

/// What the mean of squares (epsilon included) was between during calibration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Range {
    /// Nothing seen yet.
    pub const EMPTY: Self = Self { low: f64::INFINITY, high: 0.0 };

    /// Takes one value in.
    pub fn see(&mut self, v: f64) {
        self.low = self.low.min(v);
        self.high = self.high.max(v);
    }

    /// In f32, so that it comes back from a file as it was.
    pub fn rounded(self) -> Self {
        Self { low: f64::from(self.low as f32), high: f64::from(self.high as f32) }
    }

    /// The smallest range that holds both.
    pub fn join(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// The form of one norm.
#[derive(Debug, Clone, PartialEq)]
pub enum Rsqrt {
    /// `1/sqrt(v)`.
    Exact,
    /// A constant per bucket and Newton steps.
    Buckets(NeRms),
}

impl Rsqrt {
    /// The paper's form on a calibrated range, widened by [`MARGIN`].
    pub fn buckets(range: Range, steps: u32) -> Result<Self> {
        Ok(Self::Buckets(NeRms::calibrate(range.low / MARGIN, range.high * MARGIN, BUCKETS, steps)?))
    }

    /// The value at `v`. The derivative is taken as `-r^3/2` (see the module above).
    #[inline]
    pub fn at(&self, v: f64) -> f64 {
        match self {
            Self::Exact => 1.0 / v.sqrt(),
            Self::Buckets(form) => form.eval_f64(v),
        }
    }
}
