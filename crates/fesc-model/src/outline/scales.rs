//! The scales of one layer: where every binary point is.
//!
//! They follow from the layer's calibrated ranges: a product of scale `T` that is truncated needs
//! `|y| 2^T < 2^(l-2)`, so `T = l - 2 - log2(margin max|y|)` bits are there to be divided between its
//! factors, between the limits below (docs/DESIGN.md, 4). A peer's scales are held to the same limits,
//! which keep every `from - to` of the stages inside the ring.

use serde::{Deserialize, Serialize};

use super::scale::{DELTA, FRAC, RING};
use crate::Result;
use crate::twin::calibrate::{RANGE_MARGIN, VARIANCE_MARGIN};
use crate::twin::{LayerStats, TwinError};

/// Fractional bits of one layer's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scales {
    /// The residual stream as the norm takes it: squared, summed and scaled.
    pub norm: u32,
    /// Weights of z.
    pub gate_weight: u32,
    /// Weights of x, B, C.
    pub conv_weight: u32,
    /// Taps of the convolution.
    pub conv_tap: u32,
    /// Weights of dt.
    pub step_weight: u32,
    /// x.
    pub x: u32,
    /// B and C.
    pub bc: u32,
    /// exp.
    pub exp: u32,
    /// C B^T.
    pub score: u32,
    /// M.
    pub mixed: u32,
    /// exp Delta in `col`.
    pub column: u32,
    /// col o X.
    pub weighted: u32,
    /// The state H.
    pub state: u32,
    /// y as the gate takes it.
    pub scanned: u32,
    /// y SiLU(z) as the gated norm takes it.
    pub gated: u32,
    /// Weights of the output projection.
    pub out_weight: u32,
}

/// The fewest bits that a tensor needs, and the most that it gets.
#[derive(Clone, Copy)]
pub(super) struct Limit(u32, u32);

impl Limit {
    /// Holds a peer's number to the limit.
    pub(super) fn check(self, name: &str, bits: u32) -> Result<(), String> {
        if (self.0..=self.1).contains(&bits) {
            return Ok(());
        }
        Err(format!("{name} has {bits} fractional bits, not {} to {}", self.0, self.1))
    }
}

const WEIGHT: Limit = Limit(6, 14);
/// Weights and taps of the convolution together.
const CONV: Limit = Limit(6, 22);
const BC: u32 = 14;
const EXP: Limit = Limit(12, 22);
const SCORE: Limit = Limit(6, 16);
const MIXED: Limit = Limit(8, 22);
const COLUMN: Limit = Limit(10, 20);
const WEIGHTED: Limit = Limit(8, 22);
const STATE: Limit = Limit(6, 22);
const SCANNED: Limit = Limit(8, FRAC);
/// What is squared in a norm of the residual stream.
pub(super) const STREAM: Limit = Limit(4, FRAC);
/// What is squared in a gated norm.
const GATED: Limit = Limit(4, 20);

/// Divides bits for one layer.
struct Budget {
    layer: usize,
}

impl Budget {
    /// Fractional bits that a sum or product of this largest magnitude may have before its truncation.
    fn total(&self, value: f64) -> i64 {
        // A thousandth of a bit is more than the ulp that a truncation adds.
        (f64::from(RING.bits() - 2) - 0.001 - (RANGE_MARGIN * value.max(1e-9)).log2()).floor() as i64
    }

    /// `bits`, or as many as the limit allows; an error where that is less than the tensor needs.
    fn take(&self, tensor: &'static str, value: f64, bits: i64, Limit(need, cap): Limit) -> Result<u32> {
        let need = i64::from(need);
        if bits < need {
            return Err(TwinError::Scale { layer: self.layer, tensor, value, bits, need, ring: RING.bits() }.into());
        }
        Ok(bits.min(cap.into()) as u32)
    }

    /// Weights of a sum of this largest magnitude, whose inputs have F bits.
    fn weight(&self, tensor: &'static str, value: f64, limit: Limit) -> Result<u32> {
        self.take(tensor, value, self.total(value) - i64::from(FRAC), limit)
    }

    /// A tensor of this many values and mean square that is squared and summed.
    fn square(&self, width: usize, mean_square: f64, limit: Limit) -> Result<u32> {
        // The margin of the sum is that of the variance.
        let sum = VARIANCE_MARGIN / RANGE_MARGIN * mean_square * width as f64;
        self.take("sum of squares of a norm", sum, self.total(sum) / 2, limit)
    }
}

/// The scale of what the final norm squares.
pub(super) fn last_square(layer: usize, width: usize, mean_square: f64) -> Result<u32> {
    Budget { layer }.square(width, mean_square, STREAM)
}

impl Scales {
    /// The scales of a layer from its ranges; `width` and `gated_width` are what its norms sum over.
    pub(crate) fn choose(layer: usize, stats: &LayerStats, width: usize, gated_width: usize) -> Result<Self> {
        let budget = Budget { layer };
        let conv = budget.weight("convolution output", stats.conv, CONV)?;
        let (conv_weight, conv_tap) = divide(conv);
        let (x, bc) = (FRAC, BC);
        let delta = i64::from(DELTA);
        let exp = budget.take("exp times Delta", stats.delta, budget.total(stats.delta) - delta, EXP)?;
        let lowered = stats.score * stats.delta;
        let score = (budget.total(lowered) - delta).min(budget.total(stats.score));
        let score = budget.take("C B^T o Lt", lowered, score, SCORE)?;
        let output = stats.scanned.max(stats.carried);
        let mixed = budget.total(output) - i64::from(x);
        let mixed = budget.take("scan output y", output, mixed.min(i64::from(score) + delta), MIXED)?;
        let pushed = stats.delta * stats.x;
        let column = budget.take("col o X", pushed, budget.total(pushed) - i64::from(x), COLUMN)?;
        let weighted = budget.total(stats.chunk_state) - i64::from(bc);
        let weighted = budget.take("chunk state", stats.chunk_state, weighted, WEIGHTED)?;
        let largest = stats.state.max(stats.carried);
        let state = (budget.total(stats.state) - i64::from(exp)).min(budget.total(stats.carried) - i64::from(bc));
        let state = budget.take("state H", largest, state, STATE)?;
        let gate = budget.total(stats.gated.input) - i64::from(FRAC);
        let scanned = budget.take("gated output", stats.gated.input, gate, SCANNED)?;
        Ok(Self {
            norm: budget.square(width, stats.norm.mean_square.max, STREAM)?,
            gate_weight: budget.weight("gate input z", stats.gate, WEIGHT)?,
            conv_weight,
            conv_tap,
            step_weight: budget.weight("time step dt", stats.step.max.abs().max(stats.step.min.abs()), WEIGHT)?,
            x,
            bc,
            exp,
            score,
            mixed,
            column,
            weighted,
            state,
            scanned,
            gated: budget.square(gated_width, stats.gated.mean_square.max, GATED)?,
            out_weight: budget.weight("output of a block", stats.out, WEIGHT)?,
        })
    }

    /// The largest state that a kernel may be handed, at s.state: times exp it is below `2^(l-2)`.
    pub fn largest_state(&self) -> i64 {
        (1 << (RING.bits() - 2 - self.exp)) - 1
    }

    /// Holds a peer's scales to the limits.
    pub(super) fn check(&self) -> Result<(), String> {
        let conv = self.conv_weight.saturating_add(self.conv_tap);
        let limits = [
            ("norm", self.norm, STREAM),
            ("gate_weight", self.gate_weight, WEIGHT),
            ("conv_weight and conv_tap", conv, CONV),
            ("step_weight", self.step_weight, WEIGHT),
            ("x", self.x, Limit(FRAC, FRAC)),
            ("bc", self.bc, Limit(BC, BC)),
            ("exp", self.exp, EXP),
            ("score", self.score, SCORE),
            ("mixed", self.mixed, MIXED),
            ("column", self.column, COLUMN),
            ("weighted", self.weighted, WEIGHTED),
            ("state", self.state, STATE),
            ("scanned", self.scanned, SCANNED),
            ("gated", self.gated, GATED),
            ("out_weight", self.out_weight, WEIGHT),
        ];
        limits.into_iter().try_for_each(|(name, bits, limit)| limit.check(name, bits))?;
        if (self.conv_weight, self.conv_tap) != divide(conv) {
            return Err(format!("conv_weight {} and conv_tap {} divide badly", self.conv_weight, self.conv_tap));
        }
        Ok(())
    }

    /// The same scale everywhere: the paper's.
    pub(crate) fn uniform(frac: u32) -> Self {
        Self {
            norm: frac,
            gate_weight: frac,
            conv_weight: frac,
            conv_tap: frac,
            step_weight: frac,
            x: frac,
            bc: frac,
            exp: frac,
            score: frac,
            mixed: frac,
            column: frac,
            weighted: frac,
            state: frac,
            scanned: frac,
            gated: frac,
            out_weight: frac,
        }
    }
}

/// Bits of the convolution divided between weights and taps.
fn divide(conv: u32) -> (u32, u32) {
    let tap = conv * 10 / 22;
    (conv - tap, tap)
}
