#![allow(clippy::unwrap_used)]

use super::even::{EvenResidual, Residual};
use super::mmexp::MinimaxExp;
use super::nerms::NeRms;
use super::*;
use fesc_ring::Prg;

fn close(got: f64, want: f64, digits: f64) -> bool {
    (got - want).abs() <= digits
}

/// The error has its full size, with alternating sign, at one point more than there are coefficients.
fn equioscillates(reference: &[f64], coeffs: usize, error: f64, at: impl Fn(f64) -> f64) {
    assert_eq!(reference.len(), coeffs + 1);
    let e: Vec<f64> = reference.iter().map(|&x| at(x)).collect();
    assert!(e.windows(2).all(|w| w[0] * w[1] < 0.0), "{e:?}");
    assert!(e.iter().all(|e| (e.abs() / error - 1.0).abs() < 1e-4), "{e:?} {error}");
}

#[test]
fn even_residual_errors() {
    let table = [
        (Residual::Silu, [(2, 0.154, 5e-4), (4, 0.035, 5e-4), (6, 0.008, 5e-4)], 0.072),
        (Residual::Softplus, [(2, 0.059, 5e-4), (4, 0.009, 5e-4), (6, 0.0016, 5e-5)], 0.018),
    ];
    for (function, rows, jump) in table {
        for (degree, want, digits) in rows {
            let f = EvenResidual::paper(function, degree).unwrap();
            assert!(close(f.inner_error, want, digits), "{function:?} D{degree}: {}", f.inner_error);
            assert!(close(f.tail_jump(), jump, 5e-4));
            let residual = |u: f64| f.eval_f64(-u.sqrt() * (1.0 - 1e-15)) - function.exact(-u.sqrt());
            equioscillates(&f.reference, degree / 2 + 1, f.inner_error, residual);
            // The whole error is the larger of the two: from degree four on, the jump.
            let whole =
                (-80_000..80_000).map(|i| f64::from(i) / 1e4).map(|x| (f.eval_f64(x) - function.exact(x)).abs());
            let whole = whole.fold(0.0, f64::max);
            assert!(close(whole, f.inner_error.max(f.tail_jump()), 2e-4), "{function:?} D{degree}: {whole}");
        }
    }
}

#[test]
fn exp_errors_and_value_at_zero() {
    for (degree, want, digits, zero) in
        [(2, 0.147, 5e-4, 0.853), (4, 0.0203, 5e-5, 0.9797), (6, 0.0016, 5e-5, 0.9984), (8, 8e-5, 5e-6, 0.99992)]
    {
        let f = MinimaxExp::paper(degree).unwrap();
        assert!(close(f.inner_error, want, digits), "D{degree}: {}", f.inner_error);
        assert!(close(f.at_zero(), zero, 5e-4) && close(f.at_zero(), 1.0 - f.inner_error, 1e-9), "{}", f.at_zero());
        equioscillates(&f.reference, degree + 1, f.inner_error, |z| f.eval_f64(z) - z.exp());
    }
    let errors: Vec<f64> = (2..=8).map(|d| MinimaxExp::paper(d).unwrap().inner_error).collect();
    assert!(errors.windows(2).all(|w| w[1] < 0.5 * w[0]), "{errors:?}");
    // Why it must not be multiplied up over a document.
    assert!(MinimaxExp::paper(4).unwrap().at_zero().powi(2048) < 1e-18);
}

#[test]
fn nerms_errors_at_ratio_two() {
    for (steps, want, digits) in [(0, 0.1756, 5e-4), (1, 0.044, 5e-4), (2, 2.8e-3, 1e-4), (3, 1.2e-5, 1e-6)] {
        let f = NeRms::calibrate(0.01, 2.56, 8, steps).unwrap();
        assert_eq!((f.boundaries.len(), f.initialisers.len()), (7, 8));
        assert!(close(f.relative_error(), want, digits), "N{steps}: {}", f.relative_error());
    }
}

#[test]
fn even_twin_follows_the_form() {
    let mut prg = Prg::from_seed([1; 16]);
    for plan in [PaperPlan::DEFAULT, PaperPlan::paper().unwrap()] {
        let one = f64::from(plan.frac).exp2();
        let zone = (f64::from(plan.cmp_shift) - f64::from(plan.frac)).exp2();
        for function in [Residual::Silu, Residual::Softplus] {
            for degree in [2, 4, 6] {
                let f = EvenResidual::paper(function, degree).unwrap();
                let fixed = f.fixed(&plan).unwrap();
                println!(
                    "even {} D{degree} e {} bound {:.2e}",
                    plan.ring.bits(),
                    fixed.square_trunc(),
                    fixed.rounding_bound()
                );
                for i in -60_000..60_000 {
                    let x = (f64::from(i) * 1e-4 * one).round();
                    let got = fixed.eval(plan.ring.from_signed(x as i64), &mut || prg.next_u64() & 1 == 1);
                    let got = plan.ring.to_signed(got) as f64 / one;
                    let real = x / one;
                    if (real.abs() - 4.0).abs() > zone {
                        assert!((got - f.eval_f64(real)).abs() <= fixed.rounding_bound(), "D{degree} at {real}: {got}");
                    }
                }
                // Far outside the polynomial is garbage, and the mux removes all of it.
                for far in [10.0, 60.0, 115.0] {
                    let eval =
                        |x: f64| plan.ring.to_signed(fixed.eval(plan.ring.from_signed((x * one) as i64), &mut || true));
                    if far < plan.limit() {
                        assert_eq!((eval(-far), eval(far)), (0, (far * one) as i64), "{far}");
                    }
                }
            }
        }
    }
}

#[test]
fn exp_twin_follows_the_form() {
    let mut prg = Prg::from_seed([2; 16]);
    let wide = PaperPlan { cmp_shift: 11, cmp_bits: 37, ..PaperPlan::DEFAULT };
    for plan in [wide, PaperPlan::paper().unwrap()] {
        let one = f64::from(plan.frac).exp2();
        for degree in 2..=8 {
            let f = MinimaxExp::paper(degree).unwrap();
            // The paper's 44 bits leave less room for scaling, so its bound grows with the degree; it still
            // holds.
            let fixed = f.fixed(&plan).unwrap();
            let bound = fixed.rounding_bound();
            assert!(plan.ring.bits() == 44 || bound < 2e-4, "D{degree}: {bound}");
            for i in 0..90_000 {
                let z = -(f64::from(i) * 1e-4 * one).round();
                let got = fixed.eval(plan.ring.from_signed(z as i64), &mut || prg.next_u64() & 1 == 1);
                let got = plan.ring.to_signed(got) as f64 / one;
                let real = z / one;
                if (real + 8.0).abs() > 1.0 / 32.0 {
                    assert!((got - f.eval_f64(real)).abs() <= bound, "D{degree} at {real}: {got} {}", f.eval_f64(real));
                }
            }
            let end = -(1i64 << (plan.ring.bits() - 1));
            assert_eq!(fixed.eval(plan.ring.from_signed(end), &mut || false), 0);
        }
    }
}

#[test]
fn nerms_twin_follows_the_form() {
    let mut prg = Prg::from_seed([4; 16]);
    for (v_min, v_frac, shift) in [(1.0 / 128.0, 20, 7), (1e-5, 30, 8), (0.5, 16, 9)] {
        for steps in 1..=3 {
            let f = NeRms::calibrate(v_min, v_min * 256.0, 8, steps).unwrap();
            let fixed = f.fixed(RING48, v_frac, shift, 48 - shift).unwrap();
            let one = f64::from(v_frac).exp2();
            let mut worst: f64 = 0.0;
            for i in 0..=50_000 {
                let v = (v_min * 256f64.powf(f64::from(i) / 5e4) * one).round();
                let y = fixed.eval(v as u64, &mut || prg.next_u64() & 1 == 1);
                let y = RING48.to_signed(y) as f64 / f64::from(fixed.y_frac()).exp2();
                worst = worst.max((y * (v / one).sqrt() - 1.0).abs());
            }
            // Jitter at the bucket edges and rounding: a few percent of the error, and 1e-4.
            assert!(worst <= 1.08 * f.relative_error() + 1e-4, "N{steps}: {worst} {}", f.relative_error());
        }
    }
}

/// Any plan is taken or refused, never a panic.
#[test]
fn odd_plans_do_not_panic() {
    let even = EvenResidual::paper(Residual::Silu, 6).unwrap();
    let exp = MinimaxExp::paper(8).unwrap();
    let nerms = NeRms::calibrate(1e-3, 1.0, 8, 2).unwrap();
    for bits in [1, 2, 3, 4, 8, 20, 32, 44, 48, 63, 64] {
        for frac in [0, 1, 2, 8, 16, 30, 31, 40, 63, 64, u32::MAX] {
            for (cmp_shift, cmp_bits) in [(0, bits), (0, 0), (11, 13), (u32::MAX, 2), (3, u32::MAX), (0, 2)] {
                let plan = PaperPlan { ring: Ring::new(bits).unwrap(), frac, cmp_shift, cmp_bits };
                let words = [
                    even.fixed(&plan).map(|f| f.eval(5, &mut || true)),
                    exp.fixed(&plan).map(|f| f.eval(5, &mut || true)),
                    nerms.fixed(plan.ring, frac, cmp_shift, cmp_bits).map(|f| f.eval(5, &mut || true)),
                ];
                assert!(words.iter().flatten().all(|&w| w <= plan.ring.mask()));
                let ours = crate::exp_square::ExpSquare::new(plan.ring, 3, frac, frac, cmp_shift, cmp_bits);
                assert!(ours.is_err() || bits >= 20);
                assert!(crate::rsqrt::Rsqrt::new(plan.ring, 0.01, 16, 1, 2, frac).is_err() || bits >= 40);
            }
        }
    }
}

#[test]
fn refusals() {
    assert!(EvenResidual::fit(Residual::Silu, 3, 4.0).is_err());
    assert!(EvenResidual::fit(Residual::Silu, 4, -1.0).is_err());
    assert!(MinimaxExp::fit(0, 8.0).is_err() && MinimaxExp::fit(4, f64::NAN).is_err());
    assert!(NeRms::calibrate(1.0, 1.0, 8, 1).is_err() && NeRms::calibrate(0.1, 1.0, 1, 1).is_err());
    let narrow = PaperPlan { ring: Ring::new(32).unwrap(), cmp_bits: 13, ..PaperPlan::DEFAULT };
    let d4 = EvenResidual::paper(Residual::Silu, 4).unwrap();
    assert!(matches!(d4.fixed(&narrow), Err(ApproxError::Overflow { .. })));
    let tight = PaperPlan { cmp_bits: 8, ..PaperPlan::DEFAULT };
    assert!(matches!(d4.fixed(&tight), Err(ApproxError::ThresholdRange { .. })));
    let wide = PaperPlan { cmp_bits: 40, ..PaperPlan::DEFAULT };
    assert!(matches!(d4.fixed(&wide), Err(ApproxError::CompareWidth { .. })));
    let f = NeRms::calibrate(1e-5, 1e-3, 8, 1).unwrap();
    assert!(f.fixed(RING48, 20, 11, 13).is_err());
}

/// Every input that the form promises keeps all products inside the ring, N3 with close buckets included.
#[test]
fn nerms_promises_no_input_that_overflows() {
    let limit = 1i128 << 46;
    for (buckets, steps) in [2, 8, 16, 32].into_iter().flat_map(|b| (1..=6).map(move |s| (b, s))) {
        let form = super::nerms::NeRms::calibrate(1.0 / 64.0, 4.0, buckets, steps).unwrap();
        let f = form.fixed(crate::RING48, 16, 4, 22).unwrap();
        let [by_w, by_y, by_s] = f.shifts();
        let (lo, hi) = f.start().input_range_int();
        let fits = |p: i128, by: u32| {
            assert!(p.abs() + (1 << by) < limit, "{buckets} buckets, {steps} steps");
            p >> by
        };
        for v in lo..hi.min(lo + 4096) {
            let table = |t: &crate::FixedPiecewise| i128::from(t.ring().to_signed(t.eval_exact(v as u64)));
            let (mut y, mut s) = (table(f.start()), table(f.square()));
            for step in 0..steps {
                let w = fits(i128::from(v) * s, by_w);
                y = fits(y * ((3 << f.w_frac()) - w), by_y);
                if step + 1 < steps {
                    s = fits(y * y, by_s);
                }
            }
        }
    }
}

/// All results of a form with this many carries.
fn outcomes(carries: u32, eval: impl Fn(&mut dyn FnMut() -> bool) -> u64) -> impl Iterator<Item = u64> {
    (0..1u32 << carries).map(move |mask| {
        let mut next = 0;
        eval(&mut || {
            next += 1;
            mask >> (next - 1) & 1 == 1
        })
    })
}

/// The finest form of softplus on 48 bits with comparisons of 14 bits in units of 1/64.
fn softplus(degree: usize, tau: u32) -> (EvenResidual, super::even::EvenFixed) {
    let form = EvenResidual::fit(Residual::Softplus, degree, tau.into()).unwrap();
    let plan = |frac| PaperPlan { ring: RING48, frac, cmp_shift: frac - 6, cmp_bits: 14 };
    let fixed = (12..=22).rev().find_map(|f| form.fixed(&plan(f)).ok()).unwrap().nonnegative();
    (form, fixed)
}

/// Every degree and interval of a plan, over the whole range of inputs, for every carry: the error is the
/// form's, and softplus is never negative.
#[test]
fn every_outcome_over_the_whole_range() {
    for (degree, tau) in [2usize, 4, 6].into_iter().flat_map(|d| (2..=8u32).map(move |t| (d, t))) {
        let silu = EvenResidual::fit(Residual::Silu, degree, tau.into()).unwrap();
        let fixed = silu.fixed(&PaperPlan::DEFAULT).unwrap();
        for (form, fixed) in [(silu, fixed), softplus(degree, tau)] {
            let (plan, (from, to)) = (*fixed.plan(), fixed.input_range_int());
            let (one, unit) = (f64::from(plan.frac).exp2(), 1i64 << plan.cmp_shift);
            let ends = (plan.limit() * 1.8 * one) as i64;
            assert!(from <= -ends && to >= ends, "{from} {to}");
            // The right piece may begin a unit early, a moved left one ends up to three later.
            let zone = 3.0 * plan.unit() * 0.6;
            let most = form.inner_error.max(form.tail_jump()) + fixed.rounding_bound() + zone;
            let [low, high] = fixed.thresholds_int();
            let edges =
                [low, high].into_iter().flat_map(|t| ((t - 2) * unit..(t + 2) * unit).step_by(unit as usize / 9));
            let inside = (-9 * unit * 64..9 * unit * 64).step_by(unit as usize * 3 / 7);
            for x in inside.chain(edges).chain([from, from + 1, -ends, ends, to - 1, to]) {
                for y in outcomes(2 + degree as u32 / 2, |c| fixed.eval(plan.ring.from_signed(x), c)) {
                    let (got, want) = (plan.ring.to_signed(y) as f64 / one, form.function.exact(x as f64 / one));
                    assert!((got - want).abs() <= most, "D{degree} tau {tau} at {}: {got} {want}", x as f64 / one);
                    assert!(form.function == Residual::Silu || got >= 0.0, "D{degree} tau {tau} at {x}: {got}");
                }
            }
        }
    }
    // The paper's own do not move; where the polynomial is negative the begin does.
    let begin = |degree, tau| softplus(degree, tau).1.thresholds_int()[0];
    assert_eq!((begin(4, 4), begin(6, 4)), (-4 * 64, -4 * 64));
    assert!(begin(2, 4) > -4 * 64 && begin(4, 8) > -8 * 64);
}

/// Below the threshold of a value no input gives that value, and where the form rises the threshold is close
/// to it.
#[test]
fn thresholds_of_values() {
    for (degree, tau) in [(4, 4), (2, 4), (6, 5), (4, 8), (2, 8)] {
        let (form, fixed) = softplus(degree, tau);
        let plan = fixed.plan();
        let one = f64::from(plan.frac).exp2();
        for value in [16.0 / 36_315.0, 0.003, 0.0159, 0.03, 0.2, 1.0, 3.9, 4.1, 16.0] {
            let t = fixed.reaches(value);
            assert!(t >= fixed.thresholds_int()[0]);
            for x in (-9i64 << plan.frac..17 << plan.frac).step_by(1 << (plan.cmp_shift - 1)) {
                for j in [false, true] {
                    let reduced = RING48.to_signed(trunc(RING48, RING48.from_signed(x), plan.cmp_shift, j));
                    if reduced >= t {
                        continue;
                    }
                    for y in outcomes(1 + degree as u32 / 2, |c| {
                        let mut first = Some(j);
                        fixed.eval(RING48.from_signed(x), &mut || first.take().unwrap_or_else(&mut *c))
                    }) {
                        let got = RING48.to_signed(y) as f64 / one;
                        assert!(got < value, "D{degree} tau {tau}: {got} of {x} below {t}, for {value}");
                    }
                }
            }
            if (degree, tau) == (4, 4) && value > 0.02 {
                let near = form.eval_f64(t as f64 / 64.0);
                assert!((near / value - 1.0).abs() < 0.03, "{value} {near}");
            }
        }
    }
}

/// MMExp in a plan's numbers: 0 to the far end, within its error of exp, never above 1; below 0 by its error
/// at most.
#[test]
fn exp_over_the_whole_range() {
    for (degree, frac) in [(2, 20), (4, 19), (6, 18), (4, 12)] {
        let form = MinimaxExp::paper(degree).unwrap();
        let plan = PaperPlan { ring: RING48, frac, cmp_shift: frac - 6, cmp_bits: 19 };
        let fixed = form.fixed(&plan).unwrap();
        let (one, bound) = (f64::from(frac).exp2(), form.inner_error + 2.0 * fixed.rounding_bound());
        assert_eq!((fixed.input_range_int(), fixed.threshold_int()), ((-4096 << frac, 0), -8 * 64));
        let inside = (0..17i64 << frac).step_by((1 << frac) / 400).map(|z| -z);
        for z in inside.chain([-4096 << frac, 1 - (4096 << frac), -2000 << frac, -8 << frac]) {
            for y in outcomes(degree as u32 + 1, |c| fixed.eval(RING48.from_signed(z), c)) {
                let (got, want) = (RING48.to_signed(y) as f64 / one, (z as f64 / one).exp());
                // In the zone left of -8 the polynomial goes on a little.
                assert!((got - want).abs() <= 1.3 * bound && got <= 1.0, "D{degree} at {}: {got}", z as f64 / one);
            }
        }
    }
}
