//! Softplus by quadratic pieces with small *relative* error: Delta multiplies everything, so a relative error
//! `e` of Delta is an error `e |cs|` of the decay's logarithm.
//!
//! Objective, for every carry: relative error at most `target` from -9 on, the final truncation's ulp
//! included (it is 0.2 % of the output at -9); absolute error at most 2^-20 and an ulp left of it. Left of
//! the last piece the result is exactly one output ulp (never 0: Delta stays positive), on the right exactly
//! `x`.
//!
//! Scales. The coefficient of `x^2` has only `S - 2 in_frac` fractional bits. Near -9 it is about 1e-4, and
//! what its rounding costs is `rest w^2/8` on a piece of width `w`. `S` is at most 40 when outputs may reach
//! 50 (`|Y| < 2^46`), so 12 input bits leave 16 bits there, 14 would leave 12 and lose it. An input ulp of
//! 2^-12 moves softplus by at most a relative 2.4e-4, unbiased, so 12 bits are enough. The fit chooses the
//! knots so that the rounded coefficient fits its piece.

use crate::error::ApproxError;
use crate::fit::{Problem, last_true};
use crate::fixed::FixedPiecewise;
use crate::functions::softplus as exact;
use crate::plan::{Fit, Plan, RING48};
use crate::tables;
use std::sync::OnceLock;

/// Bound of `softplus'' = s(1 - s)`.
pub const CURVATURE: f64 = 0.25;

/// Outside this interval both tails are within 1e-8 of what they tend to.
pub const CORE: (f64, f64) = (-20.0, 20.0);

/// The relative error holds from this input on, where softplus is 1.2e-4.
pub const LEAST: f64 = -9.0;

/// Absolute error allowed left of [`LEAST`]: 0.8 % of the output there.
pub const TAIL: f64 = 1.0 / (1u32 << 20) as f64;

/// Relative error of the default.
pub const TARGET: f64 = 0.003;

/// 12 bits in, 22 out, sum at 40, comparisons on 13 bits with unit 1/64; inputs in (-59, 50).
pub const PLAN: Plan = Plan { ring: RING48, in_frac: 12, out_frac: 22, sum_frac: 40, cmp_shift: 6, cmp_bits: 13 };

/// The fewest quadratic pieces with relative error `target` from [`LEAST`] on, final truncation included.
///
/// # Errors
/// If 40 knots are not enough, or the plan refuses the fit.
pub fn fit(plan: &Plan, target: f64) -> Result<Fit, ApproxError> {
    let unit = plan.unit();
    let ulp = (-f64::from(plan.out_frac)).exp2();
    // What may be missed besides the final truncation; from a little left of LEAST on, since the fit samples
    // its weight.
    let room = |x: f64| if x < LEAST - 0.0625 { (TAIL / target).max(exact(x)) } else { exact(x) - ulp / target };
    if room(LEAST - 0.0625) <= 0.0 {
        return Err(ApproxError::Parameter {
            what: "target",
            value: target,
            remedy: "one output ulp is more than that",
        });
    }
    let far = (40.0 / unit).ceil() as i64;
    let last_left = |e: f64| last_true(-far, 0, |t| (exact(t as f64 * unit) - ulp).abs() <= e * room(t as f64 * unit));
    // softplus(x) - x = softplus(-x), against a budget that grows with x.
    let right_error = |t: i64, e: f64| exact(-((t - 1) as f64) * unit) <= e * room((t - 1) as f64 * unit);
    let first_right = |e: f64| last_true(-far, 0, |t| right_error(-t, e)).map_or(far, |t| -t);
    let problem = Problem {
        name: "softplus",
        f: &exact,
        weight: &|x| room(x).recip(),
        degree: 2,
        unit,
        grids: plan.grids(),
        least: 0.0,
        left: &|e| ([ulp, 0.0, 0.0], last_left(e).unwrap_or(-far)),
        right: &|e| ([0.0, 1.0, 0.0], first_right(e)),
    };
    let form = problem.within(target, 40).ok_or(ApproxError::NoFit { what: "softplus", pieces: 41, target })?;
    let fixed = plan.build(&form)?;
    Ok(Fit { form, error: target, fixed })
}

/// The default: relative error 0.3 %. Seventeen thresholds, of which four serve the inputs below -9.
///
/// # Errors
/// None with the constants above; a test holds them to it.
pub fn preset() -> Result<&'static FixedPiecewise, ApproxError> {
    static CELL: OnceLock<Result<FixedPiecewise, ApproxError>> = OnceLock::new();
    CELL.get_or_init(|| tables::SOFTPLUS.build(&PLAN, None)).as_ref().map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ULP: f64 = 1.0 / (1u32 << 22) as f64;

    #[test]
    fn relative_error_with_jitter() {
        let f = preset().unwrap();
        assert_eq!((f.thresholds().len(), f.degree(), f.in_frac(), f.out_frac()), (17, 2, 12, 22));
        // Every input of the range where it is promised, every outcome.
        for x in -9 * 4096..20 * 4096 {
            let real = x as f64 / 4096.0;
            let want = exact(real);
            for got in f.outcomes(x) {
                assert!((got - want).abs() <= 0.003 * want, "at {real}: {got} {want}");
            }
        }
    }

    #[test]
    fn positive_and_close_everywhere_below() {
        let f = preset().unwrap();
        let (lo, _) = f.input_range_int();
        for x in lo..=-9 * 4096 {
            for got in f.outcomes(x) {
                assert!(
                    got > 0.0 && (got - exact(x as f64 / 4096.0)).abs() <= TAIL + ULP,
                    "at {}: {got}",
                    x as f64 / 4096.0
                );
            }
        }
    }

    #[test]
    fn tails_are_exact() {
        let f = preset().unwrap();
        let (lo, hi) = f.input_range_int();
        assert!(f.input_range().0 <= -59.0 && f.input_range().1 >= 50.0, "{:?}", f.input_range());
        for x in [lo, lo + 1, -20 * 4096] {
            assert_eq!(f.outcomes(x), [ULP; 4]);
        }
        for x in [5 * 4096, 5 * 4096 + 1, hi - 1, hi] {
            assert_eq!(f.outcomes(x), [x as f64 / 4096.0; 4]);
        }
    }

    #[test]
    fn impossible_target_is_refused() {
        assert!(matches!(fit(&PLAN, 1e-5), Err(ApproxError::Parameter { what: "target", .. })));
        let coarse = Plan { cmp_shift: 11, cmp_bits: 8, ..PLAN };
        assert!(matches!(fit(&coarse, 0.003), Err(ApproxError::NoFit { what: "softplus", .. })));
    }
}
