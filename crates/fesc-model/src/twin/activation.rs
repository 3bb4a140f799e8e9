//! Nonlinear functions on integers, each as `fesc-mpc` computes it, with the twin's carries.
//!
//! Fast: [`FixedPiecewise`] tables of the outline with one carry for the comparison and one for the
//! truncation. Paper: [`EvenFixed`] for SiLU and softplus; in the tails the mux multiplies the polynomial by
//! an exact 0, so it is not computed.

use fesc_approx::FixedPiecewise;
use fesc_approx::paper::even::{EvenFixed, EvenResidual, Residual};
use fesc_approx::paper::mmexp::MinimaxExpFixed;

use super::error::TwinError;
use super::range::{Local, Quantity as Q};
use crate::Result;
use crate::outline::inverse_softplus;
use crate::outline::scale::{CLAMP, DECAY, DELTA, RATE, STEP};

/// SiLU.
pub(super) enum Silu {
    Piecewise(FixedPiecewise),
    Even(EvenFixed),
}

impl Silu {
    /// The paper's.
    pub(super) fn paper(layer: usize) -> Result<Self> {
        Ok(Self::Even(even(layer, Residual::Silu)?))
    }

    pub(super) fn eval(&self, local: &mut Local, q: Q, x: i64) -> i64 {
        match self {
            Self::Piecewise(form) => piecewise(local, form, q, x),
            Self::Even(form) => even_residual(local, form, q, x),
        }
    }
}

/// Softplus.
pub(super) enum Softplus {
    Piecewise(FixedPiecewise),
    Even(EvenFixed),
}

impl Softplus {
    /// The paper's.
    pub(super) fn paper(layer: usize) -> Result<Self> {
        Ok(Self::Even(even(layer, Residual::Softplus)?))
    }
}

/// The paper's MoSiLU or MoSoft: D4, tau = 4.
fn even(layer: usize, function: Residual) -> Result<EvenFixed> {
    let build = || EvenResidual::paper(function, 4)?.fixed(&fesc_approx::paper::PaperPlan::paper()?);
    Ok(build().map_err(|source| TwinError::Form { layer, what: "SiLU or softplus", source })?)
}

/// A piecewise form; the input must lie in its range.
#[inline]
pub(super) fn piecewise(local: &mut Local, form: &FixedPiecewise, q: Q, x: i64) -> i64 {
    let high = local.chance.reduce_high(x, form.cmp_shift());
    piecewise_at(local, form, q, x, high)
}

/// The same with the comparison's carry given.
#[inline]
fn piecewise_at(local: &mut Local, form: &FixedPiecewise, q: Q, x: i64, high: bool) -> i64 {
    let (ring, (from, to)) = (form.ring(), form.input_range_int());
    local.see(q, x, from, to, form.in_frac());
    let sum = ring.to_signed(form.sum(ring.from_signed(x), high));
    match form.trunc_bits() {
        0 => sum,
        // The table's constant is one less; with it back the truncation is a rounding.
        t => local.chance.round(sum + 1, t),
    }
}

/// The steps of [`EvenFixed`] with full-width comparisons.
fn even_residual(local: &mut Local, form: &EvenFixed, q: Q, x: i64) -> i64 {
    let plan = form.plan();
    let (ring, f) = (plan.ring, plan.frac);
    let limit = (plan.limit() * f64::from(f).exp2()) as i64;
    local.see(q, x, -limit, limit, f);
    let [low, high] = form.thresholds().map(|t| ring.to_signed(t));
    if x < low {
        return 0;
    }
    if x >= high {
        return x;
    }
    let (t, centre) = (form.square_trunc(), ring.to_signed(form.square_centre()));
    let u = local.round(Q::Square, x * x - centre, t, 0) + (centre >> t);
    let mut m = ring.to_signed(form.lead());
    for &a in form.rest().iter().skip(1).rev() {
        m = local.round(Q::Horner, m * u + ring.to_signed(a), f, 0);
    }
    let lowest = form.rest().first().map_or(0, |&a| ring.to_signed(a));
    local.round(Q::Horner, m * u + (x << (f - 1)) + lowest, f, 0)
}

/// The steps of [`MinimaxExpFixed`]; `z` must be what the ring holds.
pub(super) fn minimax_exp(local: &mut Local, form: &MinimaxExpFixed, z: i64) -> i64 {
    let plan = form.plan();
    let ring = plan.ring;
    if z < ring.to_signed(form.threshold()) {
        return 0;
    }
    let shift = form.product_trunc();
    let start = ring.to_signed(form.lead());
    form.rest().iter().rev().fold(start, |p, &c| local.round(Q::Horner, p * z + ring.to_signed(c), shift, 0))
}

/// From dt to Delta and to the decay's exponent z = A Delta.
pub(super) enum Steps {
    /// Softplus with the clamp's thresholds, one per head. Without the clamp (in tests) the product wraps.
    Fast { softplus: FixedPiecewise, rates: Vec<i64>, thresholds: Vec<i64>, clamp: bool },
    /// MoSoft, A at F bits, and the limits of Delta (two more comparisons and a mux where there are any).
    Paper { softplus: EvenFixed, rates: Vec<i64>, frac: u32, limit: (i64, i64) },
}

impl Steps {
    /// `rates` are the |A|, integers at 18 bits; `limit` is the range that Delta is clamped to.
    pub(super) fn fast(softplus: FixedPiecewise, rates: Vec<i64>, limit: (f32, f32), clamp: bool) -> Self {
        let unit = f64::from(STEP - softplus.cmp_shift()).exp2();
        // No input reaches `never`, every input reaches `always`.
        let (first, last) = softplus.input_range_int();
        let (always, never) = ((first >> softplus.cmp_shift()) - 1, (last >> softplus.cmp_shift()) + 2);
        let threshold = |&rate: &i64| {
            let delta = CLAMP as f64 / (rate as f64 * (-f64::from(RATE)).exp2());
            match delta {
                // A limited Delta may never, or always, be beyond the clamp.
                d if d > f64::from(limit.1) => never,
                d if d <= f64::from(limit.0) => always,
                d => ((inverse_softplus(d) * unit + 0.5).round() as i64).clamp(always, never),
            }
        };
        let thresholds = rates.iter().map(threshold).collect();
        Self::Fast { softplus, rates, thresholds, clamp }
    }

    /// The paper's.
    pub(super) fn paper(softplus: EvenFixed, rates: Vec<i64>, frac: u32, limit: (f32, f32)) -> Self {
        // Infinity saturates.
        let int = |v: f32| (f64::from(v) * f64::from(frac).exp2()).round() as i64;
        Self::Paper { softplus, rates, frac, limit: (int(limit.0), int(limit.1)) }
    }

    /// Delta and z of a head from its dt (bias included).
    pub(super) fn eval(&self, local: &mut Local, head: usize, v: i64) -> (i64, i64) {
        match self {
            Self::Fast { softplus, rates, thresholds, clamp } => {
                let s = softplus.cmp_shift();
                // One comparison step, so one carry, for all thresholds.
                let high = local.chance.reduce_high(v, s);
                let delta = piecewise_at(local, softplus, Q::StepForm, v, high);
                let reduced = if high { (v >> s) + 1 } else { (v + 1) >> s };
                if *clamp && reduced >= thresholds[head] {
                    // The product may have wrapped; it is multiplied by an exact 0.
                    return (delta, -(CLAMP << DECAY));
                }
                let product = delta.saturating_mul(rates[head]);
                if !clamp {
                    // The product is what the ring makes of it.
                    let ring = softplus.ring();
                    let wrapped = ring.to_signed(ring.from_signed(delta.wrapping_mul(rates[head])));
                    return (delta, -local.chance.round(wrapped, DELTA + RATE - DECAY));
                }
                (delta, -local.round(Q::Decay, product, DELTA + RATE, DECAY))
            }
            Self::Paper { softplus, rates, frac, limit: (low, high) } => {
                // MoSoft may be a little below 0 inside its interval.
                let delta = even_residual(local, softplus, Q::StepForm, v);
                let delta = if *low > 0 { delta.max(*low) } else { delta }.min(*high);
                (delta, -local.round(Q::Decay, delta.saturating_mul(rates[head]), 2 * frac, *frac))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::super::range::Run;
    use super::super::rounding::Rounding;
    use super::*;
    use crate::outline::softplus_form;
    use fesc_approx::functions;
    use fesc_approx::paper::PaperPlan;
    use fesc_approx::paper::mmexp::MinimaxExp;
    use fesc_ring::Prg;

    /// Every result is one that the form's own twin gives for some carries.
    #[test]
    fn results_are_those_of_the_forms() {
        let mut jitter = Rounding::jitter(Prg::from_seed([3; 16]));
        let mut run = Run::new(48, true, &mut jitter);
        let mut local = run.local();
        let form = softplus_form(0, (0.0, f32::INFINITY)).unwrap();
        let ring = form.ring();
        for x in (-70 * 4096..50 * 4096).step_by(91) {
            let got = piecewise(&mut local, &form, Q::StepForm, x);
            let may = [(false, false), (false, true), (true, false), (true, true)]
                .map(|(j, c)| ring.to_signed(form.eval_jitter(ring.from_signed(x), j, c)));
            assert!(may.contains(&got), "{x}");
        }
        run.settle(vec![local]).unwrap();
        let mut run = Run::new(44, true, &mut jitter);
        let mut local = run.local();
        let silu = even(0, Residual::Silu).unwrap();
        let exp = MinimaxExp::paper(4).unwrap().fixed(&PaperPlan::paper().unwrap()).unwrap();
        let ring = silu.plan().ring;
        let all = |carries: u32, eval: &dyn Fn(&mut dyn FnMut() -> bool) -> u64| -> Vec<i64> {
            let one = |mask: u32| {
                let mut at = 0;
                ring.to_signed(eval(&mut || {
                    at += 1;
                    mask >> (at - 1) & 1 == 1
                }))
            };
            (0..1 << carries).map(one).collect()
        };
        for x in (-(9i64 << 19)..9 << 19).step_by(77_777) {
            let got = even_residual(&mut local, &silu, Q::ConvForm, x);
            assert!(all(4, &|c| silu.eval(ring.from_signed(x), c)).contains(&got), "{x}");
            if x <= 0 {
                let got = minimax_exp(&mut local, &exp, x);
                assert!(all(5, &|c| exp.eval(ring.from_signed(x), c)).contains(&got), "{x}");
            }
        }
        run.settle(vec![local]).unwrap();
    }

    /// A limited Delta moves the clamp: it fires exactly where A times the limited Delta is beyond 16.
    #[test]
    fn clamp_knows_the_limits() {
        let mut nearest = Rounding::nearest();
        let mut run = Run::new(48, true, &mut nearest);
        let mut local = run.local();
        let rates = vec![50 << RATE, 200 << RATE, 30_000 << RATE];
        let limit = (0.001, 0.1);
        let steps = Steps::fast(softplus_form(0, limit).unwrap(), rates, limit, true);
        for v in (-30 * 4096..30 * 4096).step_by(331) {
            let delta = functions::softplus(v as f64 / 4096.0).clamp(0.001, 0.1);
            for (head, rate) in [50.0, 200.0, 30_000.0].into_iter().enumerate() {
                let (_, z) = steps.eval(&mut local, head, v);
                let (got, want) = (z as f64 / f64::from(DECAY).exp2(), -(rate * delta).min(16.0));
                // Around the threshold the comparison's unit decides: 0.8 percent, and softplus itself has
                // 0.3.
                assert!((got / want - 1.0).abs() < 0.02, "A = {rate}, dt = {v}: {got} {want}");
            }
        }
        run.settle(vec![local]).unwrap();
    }
}
