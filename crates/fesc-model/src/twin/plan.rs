//! Presets and scales: where every binary point is.
//!
//! In the fast preset the scales of a layer follow from its calibrated ranges: a product of scale `T` that is truncated needs
//! `|y| 2^T < 2^(l-2)`, so `T = l - 2 - log2(margin max|y|)` bits are there to be divided between its factors, up to
//! the caps below (design 4, review A and E). In the paper preset everything has 19 bits.

use serde::{Deserialize, Serialize};

use super::calibrate::{RANGE_MARGIN, VARIANCE_MARGIN};
use super::error::TwinError;
use super::stats::LayerStats;
use crate::Result;

/// Tokens of a chunk of the block dual form (cost model of design 6.3 at L = 2,048).
pub const CHUNK: usize = 128;
/// Fractional bits of Delta and of the decay matrix.
pub(super) const DELTA: u32 = 22;
/// Fractional bits of A.
pub(super) const RATE: u32 = 18;
/// Fractional bits of A Delta and of its sums. Two more than review E asks for: then rounding to the nearest moves the sum
/// of 2,048 slow steps by at most 2.4e-4.
pub(super) const DECAY: u32 = 22;
/// A Delta is clamped here: exp(-16) is 1e-7.
pub(super) const CLAMP: i64 = 16;
/// Fractional bits of dt before softplus.
pub(super) const STEP: u32 = 12;
/// Fractional bits of the embedding table under encryption (design 6.6).
pub(super) const TABLE: u32 = 30;
/// Fractional bits of the pooling vector.
pub(super) const POOL: u32 = 24;
/// Fractional bits of the head's weights.
pub(super) const HEAD: u32 = 16;
/// Fractional bits of logits that may be revealed (design 6.4).
pub(super) const REVEAL: u32 = 8;

/// The form of SiLU in the fast preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SiluForm {
    /// Five thresholds, error 0.027.
    Five,
    /// Ten thresholds, error 0.0085; about twice the bytes.
    Ten,
}

/// The form of exp in the fast preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpForm {
    /// Linear pieces, seven thresholds, error 0.005.
    Coarse,
    /// Linear pieces, sixteen thresholds, error 0.001.
    Fine,
    /// `(1 + y + y^2/2)^16`, error 0.00103, exact at 0 and never above 1.
    Power,
}

/// Which protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Fast,
    Paper,
}

/// A named set of widths and forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Preset {
    pub(super) kind: Kind,
    pub(super) bits: u32,
    pub(super) frac: u32,
    pub(super) silu: SiluForm,
    pub(super) exp: ExpForm,
    pub(super) clamp: bool,
}

impl Preset {
    /// Ours: l = 48, F = 16, piecewise forms, block dual scan.
    pub const FAST: Self =
        Self { kind: Kind::Fast, bits: 48, frac: 16, silu: SiluForm::Five, exp: ExpForm::Power, clamp: true };

    /// The paper's: l = 44, F = 19, MoSiLU and MoSoft D4 with tau 4, NeRMS N1, MMExp D4, token by token.
    pub const PAPER: Self = Self { kind: Kind::Paper, bits: 44, frac: 19, ..Self::FAST };

    /// `fast` or `paper`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "fast" => Some(Self::FAST),
            "paper" => Some(Self::PAPER),
            _ => None,
        }
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Fast => "fast",
            Kind::Paper => "paper",
        }
    }

    /// The fast preset with another SiLU; nothing changes in the paper's.
    #[must_use]
    pub fn with_silu(self, silu: SiluForm) -> Self {
        Self { silu, ..self }
    }

    /// The fast preset with another exp; nothing changes in the paper's.
    #[must_use]
    pub fn with_exp(self, exp: ExpForm) -> Self {
        Self { exp, ..self }
    }

    /// The fast preset without the server-secret clamp of A Delta (review E): only to show what it is for.
    #[cfg(test)]
    pub(super) fn without_clamp(self) -> Self {
        Self { clamp: false, ..self }
    }

    /// Width of the ring.
    pub fn ring_bits(&self) -> u32 {
        self.bits
    }

    /// Fractional bits of activations and of the residual stream.
    pub fn frac(&self) -> u32 {
        self.frac
    }
}

/// Fractional bits of one layer's tensors in the fast preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

/// Divides bits for one layer.
struct Budget {
    layer: usize,
    bits: u32,
}

impl Budget {
    /// Fractional bits that a sum or product of this largest magnitude may have before its truncation.
    fn total(&self, value: f64) -> i64 {
        // A thousandth of a bit is more than the ulp that a truncation adds.
        (f64::from(self.bits - 2) - 0.001 - (RANGE_MARGIN * value.max(1e-9)).log2()).floor() as i64
    }

    /// `bits`, at most `cap`; an error below `need`.
    fn take(&self, tensor: &'static str, value: f64, bits: i64, need: i64, cap: u32) -> Result<u32> {
        if bits < need {
            return Err(TwinError::Scale { layer: self.layer, tensor, value, bits, need, ring: self.bits }.into());
        }
        Ok(bits.min(cap.into()) as u32)
    }
}

/// Scale of a tensor of this many values and mean square that is squared and summed.
pub(super) fn square_scale(layer: usize, bits: u32, width: usize, mean_square: f64, cap: u32) -> Result<u32> {
    let budget = Budget { layer, bits };
    // The margin of the sum is that of the variance.
    let sum = VARIANCE_MARGIN / RANGE_MARGIN * mean_square * width as f64;
    budget.take("sum of squares of a norm", sum, budget.total(sum) / 2, 4, cap)
}

impl Scales {
    /// The scales of a layer from its ranges.
    pub(super) fn choose(
        layer: usize,
        preset: &Preset,
        stats: &LayerStats,
        width: usize,
        gated_width: usize,
    ) -> Result<Self> {
        let (bits, frac) = (preset.bits, preset.frac);
        if preset.kind == Kind::Paper {
            return Ok(Self::uniform(frac));
        }
        let budget = Budget { layer, bits };
        let f = i64::from(frac);
        let weight = |tensor, value: f64, cap| budget.take(tensor, value, budget.total(value) - f, 6, cap);
        let conv = weight("convolution output", stats.conv, 22)?;
        let conv_tap = conv * 10 / 22;
        let (x, bc) = (frac, 14);
        let delta = i64::from(DELTA);
        let exp = budget.take("exp times Delta", stats.delta, budget.total(stats.delta) - delta, 12, 22)?;
        let lowered = stats.score * stats.delta;
        let score = (budget.total(lowered) - delta).min(budget.total(stats.score));
        let score = budget.take("C B^T o Lt", lowered, score, 6, 16)?;
        let output = stats.scanned.max(stats.carried);
        let mixed = budget.total(output) - i64::from(x);
        let mixed = budget.take("scan output y", output, mixed.min(i64::from(score) + delta), 8, 22)?;
        let pushed = stats.delta * stats.x;
        let column = budget.take("col o X", pushed, budget.total(pushed) - i64::from(x), 10, 20)?;
        let weighted = budget.total(stats.chunk_state) - i64::from(bc);
        let weighted = budget.take("chunk state", stats.chunk_state, weighted, 8, column + x)?.min(22);
        let largest = stats.state.max(stats.carried);
        let state = (budget.total(stats.state) - i64::from(exp)).min(budget.total(stats.carried) - i64::from(bc));
        let state = budget.take("state H", largest, state, 6, 22)?;
        let gate = budget.total(stats.gated.input) - f;
        let scanned = budget.take("gated output", stats.gated.input, gate, 8, frac)?;
        Ok(Self {
            norm: square_scale(layer, bits, width, stats.norm.mean_square.max, frac)?,
            gate_weight: weight("gate input z", stats.gate, 14)?,
            conv_weight: conv - conv_tap,
            conv_tap,
            step_weight: weight("time step dt", stats.step.max.abs().max(stats.step.min.abs()), 14)?,
            x,
            bc,
            exp,
            score,
            mixed,
            column,
            weighted,
            state,
            scanned,
            gated: square_scale(layer, bits, gated_width, stats.gated.mean_square.max, 20)?,
            out_weight: weight("output of a block", stats.out, 14)?,
        })
    }

    fn uniform(frac: u32) -> Self {
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
