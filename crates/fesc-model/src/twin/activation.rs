//! Nonlinear functions on integers, each as `fesc-mpc` computes it, with the twin's carries.
//!
//! Pieces ([`FixedPiecewise`]) have one carry for the comparison and one for the truncation. Polynomials
//! ([`EvenFixed`]) have one more for every product; in the tails the mux multiplies the polynomial by an
//! exact 0, so it is not computed. Folded SiLU has one carry for each comparison and one for the truncation.

use fesc_approx::paper::even::EvenFixed;
use fesc_approx::paper::mmexp::MinimaxExpFixed;
use fesc_approx::{FixedPiecewise, Folded};

use super::range::{Local, Quantity as Q};
use crate::outline::scale::{CLAMP, DECAY, DELTA, RATE, RING};
use crate::outline::{Silu, Softplus};

/// SiLU of a value at the form's bits.
#[inline]
pub(super) fn silu(local: &mut Local, form: &Silu, q: Q, x: i64) -> i64 {
    match form {
        Silu::Piecewise(form) => piecewise(local, form, q, x),
        Silu::Polynomial(form, out) => {
            let high = local.chance.reduce_high(x, form.plan().cmp_shift);
            let y = even_residual(local, form, q, form.input_range_int(), x, high);
            local.chance.round(y, form.plan().frac.saturating_sub(*out))
        }
        Silu::Folded(form) => folded(local, form, q, x),
    }
}

/// Softplus of dt, with the comparison's carry given.
fn softplus(local: &mut Local, form: &Softplus, v: i64, high: bool) -> i64 {
    match form {
        Softplus::Piecewise(form) => piecewise_at(local, form, Q::StepForm, v, high),
        Softplus::Polynomial(even) => even_residual(local, even, Q::StepForm, form.input_range_int(), v, high),
    }
}

/// What a comparison takes: `x` reduced by `s` bits.
fn reduced(x: i64, s: u32, high: bool) -> i64 {
    match (s, high) {
        (0, _) => x,
        (_, true) => (x >> s) + 1,
        (_, false) => (x + 1) >> s,
    }
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

/// The steps of [`Folded`]; the input must lie in its range.
fn folded(local: &mut Local, form: &Folded, q: Q, x: i64) -> i64 {
    let ((from, to), s) = (form.input_range_int(), form.cmp_shift());
    local.see(q, x, from, to, form.in_frac());
    let sign = local.chance.reduce_high(x.saturating_add(form.sign_offset()), s);
    let magnitude = local.chance.reduce_high(form.magnitude(x, sign), s);
    let sum = form.sum(x, sign, magnitude);
    match form.sum_frac().checked_sub(form.out_frac()) {
        Some(t) => local.chance.round(sum, t),
        None => sum << (form.out_frac() - form.sum_frac()),
    }
}

/// The steps of [`EvenFixed`], with the comparison's carry given; the input must lie in `range`.
fn even_residual(local: &mut Local, form: &EvenFixed, q: Q, range: (i64, i64), x: i64, high: bool) -> i64 {
    let plan = form.plan();
    let (ring, f) = (plan.ring, plan.frac);
    local.see(q, x, range.0, range.1, f);
    let ([from, to], compared) = (form.thresholds_int(), reduced(x, plan.cmp_shift, high));
    if compared < from {
        return 0;
    }
    if compared >= to {
        return x;
    }
    let (t, centre) = (form.square_trunc(), ring.to_signed(form.square_centre()));
    let u = local.round(Q::Square, x.saturating_mul(x).saturating_sub(centre), t, 0) + (centre >> t);
    let mut m = ring.to_signed(form.lead());
    for &a in form.rest().iter().skip(1).rev() {
        m = local.round(Q::Horner, m * u + ring.to_signed(a), f, 0);
    }
    let lowest = form.rest().first().map_or(0, |&a| ring.to_signed(a));
    local.round(Q::Horner, m * u + (x << (f - 1)) + lowest, f, 0)
}

/// The steps of [`MinimaxExpFixed`].
pub(super) fn minimax_exp(local: &mut Local, form: &MinimaxExpFixed, z: i64) -> i64 {
    let (plan, (from, to)) = (form.plan(), form.input_range_int());
    local.see(Q::ExpInput, z, from, to, plan.frac);
    let high = local.chance.reduce_high(z, plan.cmp_shift);
    if reduced(z, plan.cmp_shift, high) < form.threshold_int() {
        return 0;
    }
    let (ring, shift) = (plan.ring, form.product_trunc());
    let start = ring.to_signed(form.lead());
    form.rest().iter().rev().fold(start, |p, &c| local.round(Q::Horner, p * z + ring.to_signed(c), shift, 0))
}

/// From dt to Delta and to the decay's exponent z = A Delta. Delta is never negative, and z never positive.
pub(super) enum Steps {
    /// Softplus with the clamp's thresholds, one per head. Without the clamp (in tests) the product wraps.
    Fast { softplus: Softplus, rates: Vec<i64>, thresholds: Vec<i64>, clamp: bool },
    /// MoSoft, A at F bits, and the limits of Delta (two more comparisons and a mux where there are any).
    Paper { softplus: EvenFixed, rates: Vec<i64>, frac: u32, limit: (i64, i64) },
}

impl Steps {
    /// `rates` are the |A|, integers at 18 bits; `limit` is the range that Delta is clamped to.
    pub(super) fn fast(softplus: Softplus, rates: Vec<i64>, limit: (f32, f32), clamp: bool) -> Self {
        // No input reaches `never`, every input reaches `always`.
        let (first, last) = softplus.input_range_int();
        let (always, never) = ((first >> softplus.cmp_shift()) - 1, (last >> softplus.cmp_shift()) + 2);
        let threshold = |&rate: &i64| {
            let delta = CLAMP as f64 / (rate as f64 * (-f64::from(RATE)).exp2());
            match delta {
                // A limited Delta may never, or always, be beyond the clamp.
                d if d > f64::from(limit.1) => never,
                d if d <= f64::from(limit.0) => always,
                d => softplus.reaches(d).clamp(always, never),
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

    /// Fractional bits of dt.
    pub(super) fn in_frac(&self) -> u32 {
        match self {
            Self::Fast { softplus, .. } => softplus.in_frac(),
            Self::Paper { frac, .. } => *frac,
        }
    }

    /// Delta and z of a head from its dt (bias included).
    pub(super) fn eval(&self, local: &mut Local, head: usize, v: i64) -> (i64, i64) {
        match self {
            Self::Fast { softplus: form, rates, thresholds, clamp } => {
                let s = form.cmp_shift();
                // One comparison step, so one carry, for all thresholds.
                let high = local.chance.reduce_high(v, s);
                let delta = softplus(local, form, v, high) << (DELTA - form.out_frac());
                if *clamp && reduced(v, s, high) >= thresholds[head] {
                    // The product may have wrapped; it is multiplied by an exact 0.
                    return (delta, -(CLAMP << DECAY));
                }
                if !clamp {
                    // The product is what the ring makes of it.
                    let wrapped = RING.to_signed(RING.from_signed(delta.wrapping_mul(rates[head])));
                    return (delta, -local.chance.round(wrapped, DELTA + RATE - DECAY));
                }
                (delta, -local.round(Q::Decay, delta.saturating_mul(rates[head]), DELTA + RATE, DECAY))
            }
            Self::Paper { softplus, rates, frac, limit: (low, high) } => {
                let carry = local.chance.reduce_high(v, softplus.plan().cmp_shift);
                let delta = even_residual(local, softplus, Q::StepForm, softplus.input_range_int(), v, carry);
                let delta = delta.max(*low).min(*high);
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
    use crate::Plan;
    use crate::plan::{Activations, Polynomial};
    use fesc_approx::functions;
    use fesc_approx::paper::PaperPlan;
    use fesc_approx::paper::even::{EvenResidual, Residual};
    use fesc_approx::paper::mmexp::MinimaxExp;
    use fesc_ring::Prg;

    /// Every result is one that the form's own twin gives for some carries.
    #[test]
    fn results_are_those_of_the_forms() {
        let mut jitter = Rounding::jitter(Prg::from_seed([3; 16]));
        let mut run = Run::new(48, true, &mut jitter);
        let mut local = run.local();
        let Softplus::Piecewise(form) = pieces((0.0, f32::INFINITY)) else { panic!() };
        let ring = form.ring();
        for x in (-70 * 4096..50 * 4096).step_by(91) {
            let got = piecewise(&mut local, &form, Q::StepForm, x);
            let may = [(false, false), (false, true), (true, false), (true, true)]
                .map(|(j, c)| ring.to_signed(form.eval_jitter(ring.from_signed(x), j, c)));
            assert!(may.contains(&got), "{x}");
        }
        run.settle(vec![local]).unwrap();
        let fast = PaperPlan { cmp_bits: 19, ..PaperPlan::DEFAULT };
        for (plan, bits) in [(PaperPlan::paper().unwrap(), 44), (fast, 48)] {
            let mut run = Run::new(bits, true, &mut jitter);
            let mut local = run.local();
            let even = |function| EvenResidual::paper(function, 4).unwrap().fixed(&plan).unwrap();
            let forms = [even(Residual::Silu), even(Residual::Softplus)];
            let exp = MinimaxExp::paper(4).unwrap().fixed(&plan).unwrap();
            let (ring, f) = (plan.ring, plan.frac);
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
            for x in (-(9i64 << f)..9 << f).step_by(7_777) {
                for form in &forms {
                    let high = local.chance.reduce_high(x, plan.cmp_shift);
                    let got = even_residual(&mut local, form, Q::ConvForm, form.input_range_int(), x, high);
                    assert!(all(4, &|c| form.eval(ring.from_signed(x), c)).contains(&got), "{x}");
                }
                if x <= 0 {
                    let got = minimax_exp(&mut local, &exp, x);
                    assert!(all(5, &|c| exp.eval(ring.from_signed(x), c)).contains(&got), "{x}");
                }
            }
            run.settle(vec![local]).unwrap();
        }
    }

    #[test]
    fn folded_results_are_those_of_the_form() {
        let mut jitter = Rounding::jitter(Prg::from_seed([3; 16]));
        let mut run = Run::new(48, true, &mut jitter);
        let mut local = run.local();
        let mut seen = [0; 8];
        for form in [12, 15, 16].map(|out| Folded::new(out).unwrap()) {
            let (low, high) = form.input_range_int();
            for x in (low..=high).step_by(89).chain(-64..64).chain(5400..5500) {
                let got = folded(&mut local, &form, Q::ConvForm, x);
                let may: [i64; 8] = std::array::from_fn(|c| form.eval(x, c & 1 == 1, c & 2 == 2, c & 4 == 4));
                assert!(may.contains(&got), "{x}");
                seen.iter_mut().zip(may).for_each(|(n, y)| *n += u32::from(y == got));
            }
        }
        assert!(seen.iter().all(|&n| n > 0));
        run.settle(vec![local]).unwrap();
    }

    fn pieces(limit: (f32, f32)) -> Softplus {
        Softplus::new(0, Activations::Five, limit).unwrap()
    }

    /// The clamp of a polynomial, for rates to the largest that real models have: A Delta stays in its range,
    /// fires where the form's own Delta says so, and z is never positive.
    #[test]
    fn clamp_of_polynomials() {
        let none = (0.0, f32::INFINITY);
        let rates = [0.0625, 1.0, 16.0, 300.0, 889.0, 36_315.0];
        let integers: Vec<i64> = rates.iter().map(|r| (r * f64::from(RATE).exp2()) as i64).collect();
        for (degree, tau) in [(4, 4), (2, 4), (6, 5), (4, 8), (2, 8)] {
            let form = Softplus::new(0, Activations::Polynomial(Polynomial { degree, tau }), none).unwrap();
            let one = f64::from(form.in_frac()).exp2();
            let steps = Steps::fast(form, integers.clone(), none, true);
            for mut rounding in [Rounding::nearest(), Rounding::jitter(Prg::from_seed([7; 16]))] {
                let mut run = Run::new(48, true, &mut rounding);
                let mut local = run.local();
                for i in -70 * 256..50 * 256 {
                    let v = (f64::from(i) / 256.0 * one) as i64;
                    for (head, rate) in rates.iter().enumerate() {
                        let (delta, z) = steps.eval(&mut local, head, v);
                        let product = rate * delta as f64 / f64::from(DELTA).exp2();
                        let got = -z as f64 / f64::from(DECAY).exp2();
                        assert!(delta >= 0 && z <= 0);
                        // Where it did not fire it had no reason to.
                        assert!(got == 16.0 || product < 16.0 && (got - product).abs() < 1e-5, "{rate} {i}: {got}");
                        // Where the form rises it fires only near 16: two units of 1/64, and the form's
                        // slack.
                        let rises = (degree, tau) == (4, 4) && *rate < 889.0;
                        assert!(!rises || got < 16.0 || product > 14.5, "{rate} {i}: {got} of {product}");
                    }
                }
                run.settle(vec![local]).unwrap();
            }
        }
        let limited = Softplus::new(0, Plan::PAPER.activations, (0.001, 0.1)).unwrap_err().to_string();
        assert!(limited.contains("least Delta") && limited.contains("activations=piecewise"), "{limited}");
    }

    /// A limited Delta moves the clamp: it fires exactly where A times the limited Delta is beyond 16.
    #[test]
    fn clamp_knows_the_limits() {
        let mut nearest = Rounding::nearest();
        let mut run = Run::new(48, true, &mut nearest);
        let mut local = run.local();
        let rates = vec![50 << RATE, 200 << RATE, 30_000 << RATE];
        let limit = (0.001, 0.1);
        let steps = Steps::fast(pieces(limit), rates, limit, true);
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
