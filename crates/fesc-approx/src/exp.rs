//! `exp(z)` for `z <= 0` by linear pieces: 0 far left, exactly 1 at 0, never above 1.
//!
//! The argument is a cumulative sum of `A Delta`, so the error enters once and does not compound. The piece
//! next to 0 is `1 + slope z`, fitted with its constant fixed at 1. All thresholds are negative, so
//! `x' - tau` cannot wrap on the left and the form is right down to the end of the comparison ring: with
//! `n = l - s`, down to `-2^(l-1)`, the end of the ring itself.
//!
//! A narrower comparison ring holds `-2^(n-1) units <= z`. At unit 1/64 the sums inside a chunk (down to
//! -2^11) need **18** bits and the sums over a document (down to -2^15) need **22**: the sign takes a bit
//! too.
//!
//! Linear, not quadratic: at 20 input bits the coefficient of `x^2` would have `S - 40`, four, fractional
//! bits.

use crate::error::ApproxError;
use crate::fit::{Problem, last_true};
use crate::fixed::FixedPiecewise;
use crate::plan::{Fit, Plan, RING48};
use crate::remez::minimax;
use crate::tables;
use std::sync::OnceLock;

/// Bound of `exp''` for `z <= 1/64`.
pub const CURVATURE: f64 = 1.02;

/// Left of this interval `exp` is below 1e-10.
pub const CORE: (f64, f64) = (-24.0, 0.0);

/// 20 bits in, 22 out, sum at 44, comparisons on the whole ring (34 bits) with unit 1/64.
pub const PLAN: Plan = Plan { ring: RING48, in_frac: 20, out_frac: 22, sum_frac: 44, cmp_shift: 14, cmp_bits: 34 };

/// For sums inside a chunk, `z >= -2^11`.
pub const PLAN_CHUNK: Plan = Plan { cmp_bits: 18, ..PLAN };

/// For sums over a document, `z >= -2^15`.
pub const PLAN_DOCUMENT: Plan = Plan { cmp_bits: 22, ..PLAN };

/// As [`PLAN`] with unit 1/256: saves two thresholds at error 0.001, where the zones of chance are no longer
/// small.
pub const PLAN_FINE: Plan = Plan { cmp_shift: 12, cmp_bits: 36, ..PLAN };

/// Error of the default, before the final truncation's ulp.
pub const TARGET: f64 = 0.004997;

/// Error of the fine form, before the final truncation's ulp.
pub const TARGET_FINE: f64 = 0.00099;

/// Promised inputs: up to one unit above 0.
fn limit(plan: &Plan) -> Option<(f64, f64)> {
    Some((f64::NEG_INFINITY, plan.unit()))
}

/// Fits `exp` with error at most `target` for every carry, final truncation not included.
///
/// Inputs may exceed 0 by one unit of the comparison (rounding noise of a sum); there the result is
/// `1 + slope z`, above 1 by no more.
///
/// # Errors
/// If 64 knots are not enough, or the plan refuses the fit.
pub fn fit(plan: &Plan, target: f64) -> Result<Fit, ApproxError> {
    let unit = plan.unit();
    let grids = plan.grids();
    let far = (40.0 / unit).ceil() as i64;
    let zero_until = |e: f64| last_true(-far, 0, |t| (t as f64 * unit).exp() <= e).unwrap_or(-far);
    // 1 + slope z on [(tau - 1) u, 0].
    let slope = |tau: i64| minimax(f64::exp_m1, |_| 1.0, &[1], (tau - 1) as f64 * unit, 0.0);
    let one_from = |e: f64| {
        let tau = last_true(0, far, |t| slope(-t).error <= e).map_or(0, |t| -t);
        let c = (slope(tau).coeffs[0] / grids[1]).round() * grids[1];
        ([1.0, c, 0.0], tau)
    };
    let problem = Problem {
        name: "exp",
        f: &f64::exp,
        weight: &|_| 1.0,
        degree: 1,
        unit,
        grids,
        least: 0.0,
        left: &|e| ([0.0; 3], zero_until(e)),
        right: &one_from,
    };
    let form = problem.within(target, 64).ok_or(ApproxError::NoFit { what: "exp", pieces: 65, target })?;
    let fixed = FixedPiecewise::with_plan(&form, plan, limit(plan))?;
    Ok(Fit { form, error: target, fixed })
}

/// The default: error 0.005 on the whole ring, seven thresholds.
///
/// # Errors
/// None with the constants above; a test holds them to it.
pub fn preset() -> Result<&'static FixedPiecewise, ApproxError> {
    static CELL: OnceLock<Result<FixedPiecewise, ApproxError>> = OnceLock::new();
    CELL.get_or_init(|| tables::EXP.build(&PLAN, limit(&PLAN))).as_ref().map_err(Clone::clone)
}

/// Error 0.001 on the whole ring, sixteen thresholds.
///
/// # Errors
/// None with the constants above; a test holds them to it.
pub fn preset_fine() -> Result<&'static FixedPiecewise, ApproxError> {
    static CELL: OnceLock<Result<FixedPiecewise, ApproxError>> = OnceLock::new();
    CELL.get_or_init(|| tables::EXP_FINE.build(&PLAN_FINE, limit(&PLAN_FINE))).as_ref().map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn outcomes_at(f: &FixedPiecewise, z: f64) -> [f64; 4] {
        f.outcomes((z * (1u32 << 20) as f64) as i64)
    }

    #[test]
    fn errors_with_jitter() {
        let (f, fine) = (preset().unwrap(), preset_fine().unwrap());
        assert_eq!((f.thresholds().len(), fine.thresholds().len()), (7, 16));
        for (f, target) in [(f, 0.005), (fine, 0.001)] {
            let inner = (CORE.0, 0.0);
            let seen = f.scan(f64::exp, inner, 500_000);
            assert!(seen.abs <= target && seen.abs > 0.95 * target, "{seen:?}");
            // The bound counts inputs up to one unit above 0 as well.
            assert!(f.error_bound(f64::exp, CURVATURE, CORE) <= target.max(1.1 * seen.abs));
        }
    }

    #[test]
    fn one_at_zero_and_never_above() {
        for f in [preset().unwrap(), preset_fine().unwrap()] {
            assert_eq!(f.outcomes(0), [1.0; 4]);
            for x in (-(9 << 20)..0).step_by(37).chain(-70_000..0) {
                assert!(f.outcomes(x).iter().all(|&y| (0.0..=1.0).contains(&y)), "at {x}");
            }
        }
    }

    /// Zero at every argument down to the end of the ring, where a wrapped comparison would say one.
    #[test]
    fn zero_to_the_end_of_the_ring() {
        let f = preset().unwrap();
        assert_eq!(f.input_range_int().0, -(1 << 47));
        for e in 23..=47 {
            for x in [-(1i64 << e), -(1i64 << e) + 1, -(1i64 << e) + 12_345, -(1i64 << e) / 3 * 2 - (1 << 22)] {
                assert_eq!(f.outcomes(x), [0.0; 4], "at {x}");
            }
        }
    }

    /// The narrow rings are right exactly as far as they say.
    #[test]
    fn narrow_rings() {
        for (plan, reach) in [(PLAN_CHUNK, 2048.0), (PLAN_DOCUMENT, 32768.0)] {
            let f = fit(&plan, 0.00499).unwrap().fixed;
            assert_eq!(f.input_range().0, -reach);
            assert_eq!(f.outcomes(f.input_range_int().0), [0.0; 4]);
            assert_eq!(outcomes_at(&f, -reach / 2.0 - 1.0), [0.0; 4]);
            assert!(
                outcomes_at(&f, -reach - 0.5).iter().all(|&y| y != 0.0),
                "a wrapped argument reads as exp = 1 or more"
            );
        }
        // One bit less already fails at -2^11.
        let short = fit(&Plan { cmp_bits: 17, ..PLAN }, 0.00499).unwrap().fixed;
        assert_eq!(short.input_range().0, -1024.0);
        assert!(outcomes_at(&short, -1500.0).iter().all(|&y| y != 0.0));
    }
}
