//! SiLU by linear pieces, exactly 0 and exactly `x` in the tails.
//!
//! At 16 fractional bits, `n = 13`, `s = 11` the comparison has unit 1/32 and the inputs `|x| < 122`. The
//! outer left knot is the tight one: below it the result is 0, so the knot may not lie right of the `x` where
//! `silu(x) = -error`.
//!
//! The form has a ring of its own, `Z_2^34`: `|x| < 122` at the sum's 25 bits is below `2^32`, where the
//! known-sign truncation is right. Opening, selection and their correlations shrink with it, and a value of
//! `Z_2^48` with up to 14 bits to drop gets there by a local truncate-reduce. Slopes are multiples of 1/512.
//! The fit knows that, so it costs little:
//!
//! | sum, ring | five thresholds | ten |
//! |---|---|---|
//! | 24, 33 | 0.0274 | 0.0081 |
//! | **25, 34** | **0.0267** | **0.0079** |
//! | 26, 35 | 0.0267 | 0.0079 |
//! | 32, 48 | 0.0267 | 0.0081 |

use crate::error::ApproxError;
use crate::fit::{Problem, last_true};
use crate::fixed::FixedPiecewise;
use crate::functions::silu as exact;
use crate::plan::{Fit, Plan, ring};
use crate::tables;
use std::sync::OnceLock;

/// Bound of `|silu''|`: it is largest at 0, where it is 1/2.
pub const CURVATURE: f64 = 0.5;

/// Outside this interval both tails are within 1e-7.
pub const CORE: (f64, f64) = (-20.0, 20.0);

/// 16 bits in and out, sum at 25 in 34 bits, comparisons on 13 bits with unit 1/32.
pub const PLAN: Plan = Plan { ring: ring(34), in_frac: 16, out_frac: 16, sum_frac: 25, cmp_shift: 11, cmp_bits: 13 };

/// One bit less to compare: unit 1/16, the same inputs; five thresholds still stay below 0.03.
pub const PLAN_NARROW: Plan = Plan { cmp_shift: 12, cmp_bits: 12, ..PLAN };

/// The best fit with the given number of thresholds under a plan.
///
/// # Errors
/// If no fit within 0.3 exists, or the plan refuses it.
pub fn fit(plan: &Plan, knots: usize) -> Result<Fit, ApproxError> {
    let unit = plan.unit();
    // silu falls from 0 to its minimum near -1.278 and x - silu(x) = -silu(-x): both tails are monotone
    // beyond 1.3.
    let (near, far) = ((1.3 / unit).ceil() as i64, (40.0 / unit).ceil() as i64);
    let tail = |target: f64| last_true(-far, -near, |t| -exact(t as f64 * unit) <= target).unwrap_or(-far);
    let problem = Problem {
        name: "SiLU",
        f: &exact,
        weight: &|_| 1.0,
        degree: 1,
        unit,
        grids: plan.grids(),
        least: f64::NEG_INFINITY,
        left: &|target| ([0.0; 3], tail(target)),
        // The right piece may be chosen from (tau - 1) u on, and the problem mirrors the left one.
        right: &|target| ([0.0, 1.0, 0.0], 1 - tail(target)),
    };
    let (form, error) = problem.with_knots(knots, 0.3)?;
    let fixed = plan.build(&form)?;
    Ok(Fit { form, error, fixed })
}

/// The default: five thresholds, error below 0.027.
///
/// # Errors
/// None with the constants above; a test holds them to it.
pub fn preset() -> Result<&'static FixedPiecewise, ApproxError> {
    static CELL: OnceLock<Result<FixedPiecewise, ApproxError>> = OnceLock::new();
    CELL.get_or_init(|| tables::SILU.build(&PLAN, None)).as_ref().map_err(Clone::clone)
}

/// Ten thresholds, error below 0.008, inputs `|x| < 121.2`.
///
/// Nine give 0.01 only without jitter (0.0099 at unit 1/4096); at unit 1/32 they give 0.0114.
///
/// # Errors
/// None with the constants above; a test holds them to it.
pub fn preset_fine() -> Result<&'static FixedPiecewise, ApproxError> {
    static CELL: OnceLock<Result<FixedPiecewise, ApproxError>> = OnceLock::new();
    CELL.get_or_init(|| tables::SILU_FINE.build(&PLAN, None)).as_ref().map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::scan::Errors;

    fn bound(fixed: &FixedPiecewise) -> f64 {
        fixed.error_bound(exact, CURVATURE, CORE)
    }

    #[test]
    fn errors_with_jitter() {
        let k5 = preset().unwrap();
        assert_eq!((k5.thresholds().len(), k5.cmp_bits(), k5.cmp_shift()), (5, 13, 11));
        assert!(bound(k5) <= 0.0270, "{}", bound(k5));
        assert!(bound(&fit(&PLAN, 6).unwrap().fixed) <= 0.0240);
        assert!(bound(preset_fine().unwrap()) <= 0.0080);
        // Nine thresholds: 0.01 is out of reach at unit 1/32 and is reached where jitter is negligible.
        let coarse = bound(&fit(&PLAN, 9).unwrap().fixed);
        assert!(coarse > 0.0105 && coarse <= 0.0115, "{coarse}");
        let sharp = Plan { cmp_shift: 4, cmp_bits: 20, ..PLAN };
        assert!(bound(&fit(&sharp, 9).unwrap().fixed) < 0.01);
        // A unit of 1/16 still serves five thresholds: one bit less to compare.
        assert!(bound(&fit(&PLAN_NARROW, 5).unwrap().fixed) <= 0.0283);
    }

    /// What the twin does on a dense grid never passes the bound, and comes close to it.
    #[test]
    fn twin_within_bound() {
        for fixed in [preset().unwrap(), preset_fine().unwrap()] {
            let seen: Errors = fixed.scan(exact, CORE, 400_000);
            assert!(seen.abs <= bound(fixed) && seen.abs >= 0.99 * bound(fixed), "{seen:?} {}", bound(fixed));
        }
    }

    #[test]
    fn tails_are_exact_to_the_ends_of_the_range() {
        let f = preset().unwrap();
        let (lo, hi) = f.input_range_int();
        assert!(f.input_range().0 < -122.0 && f.input_range().1 > 122.0);
        assert!(
            hi << (PLAN.sum_frac - PLAN.in_frac) < 1 << (PLAN.ring.bits() - 2),
            "the right tail's sum has a known sign"
        );
        for x in [lo, lo + 1, -400_000, -360_000] {
            assert_eq!(f.outcomes(x), [0.0; 4]);
        }
        for x in [360_000, 400_001, hi - 1, hi] {
            assert_eq!(f.outcomes(x), [x as f64 / 65536.0; 4]);
        }
    }

    #[test]
    fn too_few_knots_are_refused() {
        assert!(matches!(fit(&PLAN, 1), Err(ApproxError::NoFit { what: "SiLU", pieces: 2, .. })));
    }
}
