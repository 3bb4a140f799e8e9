//! RMSNorm on integers (docs/DESIGN.md, 6.4).
//!
//! Fast, for a row (or one group of it) of `w` values `u` at the scale `s` of the layer, `2^e` the power of
//! two nearest to `sqrt w`:
//! 1. `q = sum u^2`: one opening, one inner product. `q` with `2s` bits is `v = q / 4^e` with `2s + 2e`:
//!    round to `v_frac`, add `eps w / 4^e`.
//! 2. `r = rsqrt(v)` by an [`InverseRoot`], range from calibration.
//! 3. `n = u r`, rounded to F bits. The norm's weight, and `sqrt(w) / 2^e`, are in the next layer's weights.
//!
//! The gated norm scales its inputs, though its scale commutes with W_out (docs/DESIGN.md, 6.4): the inputs
//! are opened for the sum of squares anyway, so that scaling 1,536 of them costs only their truncations, 0.4
//! KB per token, where 768 outputs would have to be opened for it, 9.6 KB per token. And the linear layer's
//! noise then falls on values of size one, whatever the size of y.
//!
//! In the paper's numbers: every square is rounded to F before the sum, since 44 bits do not hold the sum at
//! 2F; `v = q / w` by a public constant at F bits; NeRMS. **Finding**: with 44 bits NeRMS itself does not fit
//! (`y (3 - w)` needs 2^43.6), so `v` is extended to 48 bits (exact, one round), and `y` is rounded to F
//! there.

use fesc_approx::paper::nerms::{NeRms, NeRmsFixed};
use fesc_approx::rsqrt::Rsqrt;
use fesc_approx::{ApproxError, RING48};

use super::calibrate::PAPER_VARIANCE_MARGIN;
use super::error::TwinError;
use super::range::{Local, Quantity as Q, Run};
use super::stats::Span;
use crate::outline::{InverseRoot, NormForm};
use crate::{Plan, Result, plan};

/// One norm.
pub(super) enum Norm {
    Fast(NormForm),
    Paper(PaperNorm),
}

/// The paper's.
pub(super) struct PaperNorm {
    width: usize,
    /// Scale of everything.
    frac: u32,
    /// Epsilon at twice that.
    eps: i64,
    form: NeRmsFixed,
    /// One over the width.
    inverse: i64,
}

impl Norm {
    /// The plan's: `form` is that of its outline, which a plan with one scale has not; else over `width`
    /// values whose mean of squares lies in `span`.
    ///
    /// # Errors
    /// If the twin does not compute this norm with these numbers, or its form cannot be built.
    pub(super) fn new(
        layer: usize,
        plan: &Plan,
        form: Option<NormForm>,
        width: usize,
        span: Span,
        eps: f64,
    ) -> Result<Self> {
        match (form, plan.norm) {
            (Some(form), _) => Ok(Self::Fast(form)),
            (None, plan::Norm::Nerms(nerms)) => Self::paper(layer, nerms, plan.numbers.frac, width, span, eps),
            (None, plan::Norm::Buckets) => Err(TwinError::paper(plan, "norm", plan.norm).into()),
        }
    }

    /// The paper's norm over `width` values whose mean of squares lies in `span`.
    fn paper(layer: usize, nerms: plan::Nerms, frac: u32, width: usize, span: Span, eps: f64) -> Result<Self> {
        let form = |source: ApproxError| TwinError::Form { layer, what: "rsqrt", source };
        let (low, high) = ((span.min + eps) / PAPER_VARIANCE_MARGIN, (span.max + eps) * PAPER_VARIANCE_MARGIN);
        let low = low.max(eps * 0.99);
        let nerms = NeRms::calibrate(low, high.max(2.0 * low), nerms.buckets, nerms.steps).map_err(form)?;
        let fixed = nerms.fixed(RING48, frac, 0, RING48.bits()).map_err(form)?;
        let unit = f64::from(frac).exp2();
        let (inverse, eps) = ((unit / width as f64).round() as i64, (eps * unit * unit).round() as i64);
        Ok(Self::Paper(PaperNorm { width, frac, eps, form: fixed, inverse }))
    }

    /// What the next layer's weights must be multiplied by.
    pub(super) fn ratio(&self) -> f64 {
        match self {
            Self::Fast(form) => form.ratio(),
            Self::Paper(_) => 1.0,
        }
    }

    /// Normalises every row of `data` (each in groups of `width`), given at `from` bits.
    pub(super) fn run(&self, run: &mut Run<'_>, data: &mut [i64], row: usize, from: u32) -> Result<()> {
        let (width, square) = match self {
            Self::Fast(form) => (form.width, form.square),
            Self::Paper(form) => (form.width, form.frac),
        };
        run.rows(data, row, |local, _, values| {
            for part in values.chunks_exact_mut(width) {
                part.iter_mut().for_each(|v| *v = local.round(Q::NormInput, *v, from, square));
                match self {
                    Self::Fast(form) => fast(local, form, part),
                    Self::Paper(form) => form.run(local, part),
                }
            }
        })
    }
}

/// Steps 1 to 3 on one row, rounded to the scale that it is squared at.
fn fast(local: &mut Local, norm: &NormForm, part: &mut [i64]) {
    let form = &norm.rsqrt;
    let sum = part.iter().fold(0i64, |s, &v| s.saturating_add(v.saturating_mul(v)));
    let (v_frac, y_frac) = (form.v_frac(), form.y_frac());
    let from = 2 * (norm.square + norm.exponent);
    let v = local.round(Q::SumOfSquares, sum, from, v_frac).saturating_add(norm.eps);
    let (low, high) = form.start().input_range_int();
    local.see(Q::Variance, v, low.max((norm.range.0 * f64::from(v_frac).exp2() * 0.99) as i64), high, v_frac);
    let r = match form {
        InverseRoot::Lines(form) => lines(local, form, v),
        InverseRoot::Constants(form) => nerms(local, form, v),
    };
    for u in part {
        *u = local.round(Q::Normed, u.saturating_mul(r), norm.square + y_frac, norm.frac);
    }
}

impl PaperNorm {
    fn run(&self, local: &mut Local, part: &mut [i64]) {
        let (f, form) = (self.frac, &self.form);
        let mut sum = 0i64;
        for &u in part.iter() {
            sum = sum.saturating_add(local.round(Q::Square, u.saturating_mul(u), 2 * f, f));
        }
        let mean = sum.saturating_mul(self.inverse).saturating_add(self.eps);
        let v = local.round(Q::SumOfSquares, mean, 2 * f, f);
        let (low, high) = form.start().input_range_int();
        local.see(Q::Variance, v, low.max(1), high, f);
        let y = nerms(local, form, v);
        let y = local.round_in(Q::RootStart, RING48.bits(), y, form.y_frac(), f);
        for u in part {
            *u = local.round(Q::Normed, u.saturating_mul(y), 2 * f, f);
        }
    }
}

/// The steps of [`Rsqrt`], with the twin's carries and every product checked.
fn lines(local: &mut Local, form: &Rsqrt, v: i64) -> i64 {
    let ring = form.start().ring();
    let (y_frac, t_frac, w_frac, v_frac) = (form.y_frac(), form.t_frac(), form.w_frac(), form.v_frac());
    let high = local.chance.reduce_high(v, form.start().cmp_shift());
    let start = ring.to_signed(form.start().sum(ring.from_signed(v), high)).saturating_add(1);
    let mut y = local.round_in(Q::RootStart, ring.bits(), start, form.start().sum_frac(), y_frac);
    for _ in 0..form.steps() {
        let t = local.round_in(Q::RootTimes, ring.bits(), v.saturating_mul(y), v_frac + y_frac, t_frac);
        let w = local.round_in(Q::RootSquare, ring.bits(), t.saturating_mul(y), t_frac + y_frac, w_frac);
        let rest = (3i64 << w_frac).saturating_sub(w);
        // One bit more than w_frac is dropped: the halving.
        y = local.round_in(Q::RootStep, ring.bits(), y.saturating_mul(rest), y_frac + w_frac + 1, y_frac);
    }
    y
}

/// The steps of [`NeRmsFixed`].
fn nerms(local: &mut Local, form: &NeRmsFixed, v: i64) -> i64 {
    let ring = form.start().ring();
    let high = local.chance.reduce_high(v, form.start().cmp_shift());
    let at = |table: &fesc_approx::FixedPiecewise| ring.to_signed(table.sum(ring.from_signed(v), high));
    let (mut y, mut s) = (at(form.start()), at(form.square()));
    let [by_w, by_y, by_s] = form.shifts();
    for step in 0..form.steps() {
        let w = local.round_in(Q::RootTimes, ring.bits(), v.saturating_mul(s), by_w, 0);
        let rest = (3i64 << form.w_frac()).saturating_sub(w);
        y = local.round_in(Q::RootStep, ring.bits(), y.saturating_mul(rest), by_y, 0);
        if step + 1 < form.steps() {
            s = local.round_in(Q::RootSquare, ring.bits(), y.saturating_mul(y), by_s, 0);
        }
    }
    y
}
