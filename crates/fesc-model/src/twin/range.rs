//! Ranges: what every integer operation of the twin is held to.
//!
//! The twin computes on integers that have not wrapped and notes the extremes of every quantity against the
//! range in which the protocol is right: `|y| < 2^(l-2) - 2^s` before a known-sign truncation by `s` bits,
//! the input range of a nonlinear form, half the ring for what is only added. Inside these ranges the integer
//! is the protocol's class modulo `2^l`; outside, the stage ends with an error. A note is two comparisons;
//! the check is made once per stage.

use rayon::prelude::*;
use serde::Serialize;

use super::error::TwinError;
use super::rounding::{Chance, Rounding, StageNoise};
use crate::Result;

/// Rows that one task takes.
const ROWS: usize = 32;

macro_rules! quantities {
    ($($name:ident, $text:literal, $remedy:ident;)*) => {
        /// Everything that is held to a range, in the order of computation: an error names the first that
        /// left its range.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Quantity { $(#[doc = $text] $name,)* }

        impl Quantity {
            const ALL: &'static [Quantity] = &[$(Quantity::$name),*];

            /// The name in errors and reports.
            pub fn name(self) -> &'static str {
                match self { $(Quantity::$name => $text,)* }
            }

            /// Whether its size is fixed by a nonlinear form and not by the model: then it says nothing in a
            /// report.
            pub(super) fn is_internal(self) -> bool {
                use Quantity::*;
                matches!(self, RootStart | RootTimes | RootSquare | RootStep | ExpSquare | Square | Horner)
            }

            fn remedy(self) -> &'static str {
                match self { $(Quantity::$name => $remedy,)* }
            }
        }
    };
}

const CALIBRATE: &str = "calibrate again with documents like this one";
const RING: &str = "the ring is too narrow for this value at its scale: take the fast plan, or smaller weights";
const CLAMPED: &str = "A Delta is clamped at -16, so that no sum passes this: the inputs are not those of this scan";

quantities! {
    Embedding, "embedding", RING;
    NormInput, "residual stream", CALIBRATE;
    Square, "square of one value", RING;
    SumOfSquares, "sum of squares of a norm", CALIBRATE;
    Variance, "variance of a norm", CALIBRATE;
    RootStart, "start of an inverse square root", RING;
    RootTimes, "v y of an inverse square root", RING;
    RootSquare, "v y^2 of an inverse square root", RING;
    RootStep, "y (3 - v y^2) of an inverse square root", RING;
    Normed, "normed stream", CALIBRATE;
    Product, "accumulator of a linear layer", CALIBRATE;
    Gate, "gate input z", CALIBRATE;
    GateForm, "input of the gate's SiLU", CALIBRATE;
    Conv, "convolution output", CALIBRATE;
    ConvForm, "input of the convolution's SiLU", CALIBRATE;
    Step, "time step dt", CALIBRATE;
    StepForm, "input of softplus", CALIBRATE;
    Decay, "A Delta", RING;
    DecaySum, "cumulative sum of A Delta", CLAMPED;
    ExpInput, "input of exp", CLAMPED;
    ExpSquare, "square inside exp", RING;
    Horner, "polynomial", RING;
    DeltaX, "Delta x", RING;
    Skip, "D x", RING;
    Update, "Delta x B", RING;
    ExpDelta, "exp times Delta", CALIBRATE;
    Lower, "decay matrix Lt", CALIBRATE;
    Score, "C B^T", CALIBRATE;
    Mixed, "M = C B^T o Lt", CALIBRATE;
    Column, "col o X", CALIBRATE;
    ChunkState, "chunk state B^T (col o X)", CALIBRATE;
    State, "state H", CALIBRATE;
    Carried, "C H", CALIBRATE;
    Contract, "h C", RING;
    Scanned, "scan output y", CALIBRATE;
    Gated, "gated output", CALIBRATE;
    Residual, "output of a block", CALIBRATE;
    Pooled, "pooled state", RING;
    Logit, "logit", RING;
}

/// The extremes of one quantity in one stage.
#[derive(Clone, Copy)]
struct Peak {
    low: i64,
    high: i64,
    /// The range.
    from: i64,
    to: i64,
    frac: u32,
}

const UNSEEN: Peak = Peak { low: i64::MAX, high: i64::MIN, from: 0, to: 0, frac: 0 };

/// One task's carries and extremes.
pub(super) struct Local {
    pub(super) chance: Chance,
    /// Deviation of the noise of a state that a scan under CKKS refreshes.
    pub(super) refreshed: f64,
    bits: u32,
    peaks: Vec<Peak>,
}

impl Local {
    /// Notes `y`, which must lie in `from..=to`.
    #[inline]
    pub(super) fn see(&mut self, q: Quantity, y: i64, from: i64, to: i64, frac: u32) {
        let peak = &mut self.peaks[q as usize];
        if y < peak.low || y > peak.high {
            *peak = Peak { low: peak.low.min(y), high: peak.high.max(y), from, to, frac };
        }
    }

    /// `y` at `from` fractional bits brought to `to`: a known-sign truncation, or a shift to the left, which
    /// is local.
    #[inline]
    pub(super) fn round(&mut self, q: Quantity, y: i64, from: u32, to: u32) -> i64 {
        self.round_in(q, self.bits, y, from, to)
    }

    /// The same in a ring of other width.
    #[inline]
    pub(super) fn round_in(&mut self, q: Quantity, bits: u32, y: i64, from: u32, to: u32) -> i64 {
        if from > to {
            let t = from - to;
            let limit = (1i64 << (bits - 2)) - (1 << t) - 1;
            self.see(q, y, -limit, limit, from);
            self.chance.round(y, t)
        } else {
            let limit = (1i64 << (bits - 1 - (to - from))) - 1;
            self.see(q, y, -limit, limit, from);
            y.saturating_mul(1 << (to - from))
        }
    }

    fn merge(&mut self, other: &Local) {
        for (mine, theirs) in self.peaks.iter_mut().zip(&other.peaks) {
            if theirs.low <= theirs.high {
                *mine = Peak { low: mine.low.min(theirs.low), high: mine.high.max(theirs.high), ..*theirs };
            }
        }
    }
}

/// How close a quantity of one layer came to the end of its range.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Margin {
    /// The block; the final norm and the head are block `layers`.
    pub layer: usize,
    /// Which quantity.
    pub quantity: Quantity,
    /// The value that came closest, as a real number.
    pub value: f64,
    /// The end of the range that it came close to.
    pub limit: f64,
    /// The part of the range that was used: 1 is the end.
    pub used: f64,
}

/// One run through the model: the rule for carries, the layer, the margins so far.
pub(super) struct Run<'a> {
    pub(super) bits: u32,
    pub(super) layer: usize,
    rounding: &'a mut Rounding,
    /// Whether linear layers are RLWE's.
    rlwe: bool,
    pub(super) margins: Vec<Margin>,
}

impl<'a> Run<'a> {
    pub(super) fn new(bits: u32, rlwe: bool, rounding: &'a mut Rounding) -> Self {
        Self { bits, layer: 0, rounding, rlwe, margins: Vec::new() }
    }

    /// The noise on the input of a linear layer, if there is any.
    pub(super) fn disturb_inputs(&mut self, values: &mut [i64]) {
        if self.rlwe {
            self.rounding.disturb_inputs(values);
        }
    }

    /// The noise on its output.
    pub(super) fn disturb_outputs(&mut self, values: &mut [i64]) {
        if self.rlwe {
            self.rounding.disturb_outputs(values);
        }
    }

    /// The noise on rows of the table, which are under RLWE in every plan.
    pub(super) fn disturb_rows(&mut self, values: &mut [i64]) {
        self.rounding.disturb_outputs(values);
    }

    /// The noise of a stage of this layer under CKKS, on values with `frac` fractional bits.
    pub(super) fn disturb_stage(&mut self, stage: fn(&StageNoise) -> f64, values: &mut [i64], frac: u32) {
        let deviation = stage(&self.rounding.stages(self.layer));
        self.rounding.disturb(deviation * f64::from(frac).exp2(), values);
    }

    /// Carries and extremes for one task.
    pub(super) fn local(&mut self) -> Local {
        let refreshed = self.rounding.stages(self.layer).state;
        Local { chance: self.rounding.chance(), refreshed, bits: self.bits, peaks: vec![UNSEEN; Quantity::ALL.len()] }
    }

    /// As many, for tasks that run at once.
    pub(super) fn locals(&mut self, count: usize) -> Vec<Local> {
        (0..count).map(|_| self.local()).collect()
    }

    /// Every row of `data` in parallel.
    pub(super) fn rows(
        &mut self,
        data: &mut [i64],
        width: usize,
        f: impl Fn(&mut Local, usize, &mut [i64]) + Sync,
    ) -> Result<()> {
        let mut locals = self.locals(data.len().div_ceil(width * ROWS));
        data.par_chunks_mut(width * ROWS).zip(&mut locals).enumerate().for_each(|(task, (rows, local))| {
            for (i, row) in rows.chunks_exact_mut(width).enumerate() {
                f(local, task * ROWS + i, row);
            }
        });
        self.settle(locals)
    }

    /// Every value of `data` from `from` to `to` fractional bits.
    pub(super) fn round(&mut self, q: Quantity, data: &mut [i64], width: usize, from: u32, to: u32) -> Result<()> {
        self.rows(data, width, |local, _, row| row.iter_mut().for_each(|v| *v = local.round(q, *v, from, to)))
    }

    /// Checks what the tasks noted, and keeps it for the report.
    pub(super) fn settle(&mut self, locals: Vec<Local>) -> Result<()> {
        let mut locals = locals.into_iter();
        let Some(mut all) = locals.next() else { return Ok(()) };
        locals.for_each(|local| all.merge(&local));
        for (&quantity, peak) in Quantity::ALL.iter().zip(&all.peaks) {
            if peak.low <= peak.high {
                self.check(quantity, peak)?;
            }
        }
        Ok(())
    }

    fn check(&mut self, quantity: Quantity, peak: &Peak) -> Result<()> {
        let unit = (-f64::from(peak.frac)).exp2();
        let real = |v: i64| v as f64 * unit;
        let share = |value: i64, end: i64| value as f64 / end as f64;
        // A range that begins above 0 (a variance) is used up from below as well.
        let low = if peak.from > 0 { share(peak.from, peak.low.max(1)) } else { share(peak.low, peak.from.min(-1)) };
        let high = share(peak.high, peak.to.max(1));
        let (value, limit, used) = if low > high { (peak.low, peak.from, low) } else { (peak.high, peak.to, high) };
        if peak.low < peak.from || peak.high > peak.to {
            let value = real(if peak.low < peak.from { peak.low } else { peak.high });
            let (tensor, remedy) = (quantity.name(), quantity.remedy());
            let (low, high) = (real(peak.from), real(peak.to));
            return Err(TwinError::Range { layer: self.layer, tensor, value, low, high, remedy }.into());
        }
        let margin = Margin { layer: self.layer, quantity, value: real(value), limit: real(limit), used };
        match self.margins.iter_mut().find(|m| m.layer == margin.layer && m.quantity == quantity) {
            Some(old) if old.used >= margin.used => {}
            Some(old) => *old = margin,
            None => self.margins.push(margin),
        }
        Ok(())
    }
}
