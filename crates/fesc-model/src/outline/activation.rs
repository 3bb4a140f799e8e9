//! SiLU and softplus of a layer: by pieces between thresholds, or by the paper's even polynomials.
//!
//! | | pieces | polynomial |
//! |---|---|---|
//! | SiLU, in | F bits in Z_2^34 | F bits in Z_2^48 |
//! | compares | 13 bits, unit 1/32 | the same |
//! | inputs | 122 (121 with ten) | 128 - tau |
//! | softplus, in | 12 bits | as many as the squares leave room for: 22 at tau 2, 21 to 5, 20 to 8 |
//! | compares | 14 bits, unit 1/64 | the same |
//! | inputs | -70 to 50 | the same |
//! | limits of Delta | the ends are cut to constants | none: such a model is refused |
//!
//! Folded, SiLU takes 10 bits in Z_2^24, compares 13 bits twice, and is right to 124 ([`Folded`]); softplus
//! then has the pieces.
//!
//! The polynomial of softplus begins where it is not negative ([`EvenFixed::nonnegative`]), so that Delta
//! never is, whatever degree and interval a plan has: a decay is at most 1.

use fesc_approx::paper::PaperPlan;
use fesc_approx::paper::even::{EvenFixed, EvenResidual, Residual};
use fesc_approx::transcript::Transcript;
use fesc_approx::{ApproxError, FixedPiecewise, Folded, Plan, functions, silu, softplus};

use super::scale::{DELTA, FRAC, RING, STEP};
use crate::Result;
use crate::plan::{Activations, Polynomial};
use crate::twin::TwinError;

/// Inputs of softplus.
const STEPS: (f64, f64) = (-70.0, 50.0);
/// Width of its comparisons, in units of `2^-STEP_UNIT`: enough for the difference of two such inputs.
const STEP_BITS: u32 = 14;
const STEP_UNIT: u32 = 6;

/// SiLU.
#[derive(Debug, Clone, PartialEq)]
pub enum Silu {
    /// Linear pieces: for every tensor the same integers and another number of dropped bits.
    Piecewise(FixedPiecewise),
    /// MoSiLU, then a rounding to so many bits.
    Polynomial(EvenFixed, u32),
    /// From sign and magnitude.
    Folded(Folded),
}

impl Silu {
    /// The plan's, `out` bits out.
    pub(super) fn new(layer: usize, form: Activations, out: u32) -> Result<Self> {
        let build = || {
            let table = match form {
                Activations::Five => silu::preset()?,
                Activations::Ten => silu::preset_fine()?,
                Activations::Polynomial(form) => return Self::polynomial(form, &PLAN, out),
                Activations::Folded => return Folded::new(out).map(Self::Folded),
            };
            let plan = Plan { out_frac: out, ..silu::PLAN };
            let pieces = table.pieces_int().to_vec();
            Ok(Self::Piecewise(FixedPiecewise::from_integers(&plan, &table.thresholds_int(), pieces, None)?))
        };
        Ok(build().map_err(|source| TwinError::Form { layer, what: "SiLU", source })?)
    }

    /// MoSiLU in the numbers of `plan`.
    pub(crate) fn polynomial(form: Polynomial, plan: &PaperPlan, out: u32) -> Result<Self, ApproxError> {
        Ok(Self::Polynomial(fit(Residual::Silu, form)?.fixed(plan)?, out))
    }

    /// Fractional bits of the input.
    pub fn in_frac(&self) -> u32 {
        match self {
            Self::Piecewise(form) => form.in_frac(),
            Self::Polynomial(form, _) => form.plan().frac,
            Self::Folded(form) => form.in_frac(),
        }
    }

    /// Fractional bits of the result.
    pub fn out_frac(&self) -> u32 {
        match self {
            Self::Piecewise(form) => form.out_frac(),
            Self::Polynomial(_, out) => *out,
            Self::Folded(form) => form.out_frac(),
        }
    }

    /// Inputs that it is right for, as integers.
    pub fn input_range_int(&self) -> (i64, i64) {
        match self {
            Self::Piecewise(form) => form.input_range_int(),
            Self::Polynomial(form, _) => form.input_range_int(),
            Self::Folded(form) => form.input_range_int(),
        }
    }
}

impl Transcript for Silu {
    fn write(&self, out: &mut Vec<u64>) {
        match self {
            Self::Piecewise(form) => form.write(out),
            Self::Polynomial(form, bits) => {
                form.write(out);
                out.push((*bits).into());
            }
            Self::Folded(form) => form.write(out),
        }
    }
}

/// Softplus, from dt to Delta.
#[derive(Debug, Clone, PartialEq)]
pub enum Softplus {
    /// Quadratic pieces.
    Piecewise(FixedPiecewise),
    /// MoSoft.
    Polynomial(EvenFixed),
}

impl Softplus {
    /// The plan's for a layer whose Delta is limited.
    pub(crate) fn new(layer: usize, form: Activations, limit: (f32, f32)) -> Result<Self> {
        let build = || match form {
            Activations::Five | Activations::Ten | Activations::Folded => limited(limit).map(Self::Piecewise),
            Activations::Polynomial(form) => unlimited(limit).and_then(|()| finest(form)).map(Self::Polynomial),
        };
        Ok(build().map_err(|source| TwinError::Form { layer, what: "softplus", source })?)
    }

    /// MoSoft in the numbers of `plan`.
    pub(crate) fn polynomial(form: Polynomial, plan: &PaperPlan) -> Result<EvenFixed, ApproxError> {
        Ok(fit(Residual::Softplus, form)?.fixed(plan)?.nonnegative())
    }

    /// Fractional bits of dt.
    pub fn in_frac(&self) -> u32 {
        match self {
            Self::Piecewise(form) => form.in_frac(),
            Self::Polynomial(form) => form.plan().frac,
        }
    }

    /// Fractional bits of the result, at most those of Delta.
    pub fn out_frac(&self) -> u32 {
        match self {
            Self::Piecewise(form) => form.out_frac(),
            Self::Polynomial(form) => form.plan().frac,
        }
    }

    /// Bits that a comparison drops from dt.
    pub fn cmp_shift(&self) -> u32 {
        match self {
            Self::Piecewise(form) => form.cmp_shift(),
            Self::Polynomial(form) => form.plan().cmp_shift,
        }
    }

    /// Inputs that it is right for, as integers. A threshold of the clamp may lie anywhere among them.
    pub fn input_range_int(&self) -> (i64, i64) {
        let one = f64::from(self.in_frac()).exp2();
        match self {
            Self::Piecewise(form) => form.input_range_int(),
            Self::Polynomial(_) => ((STEPS.0 * one) as i64, (STEPS.1 * one) as i64),
        }
    }

    /// The threshold at which Delta reaches `delta`, in units of the comparison.
    pub(crate) fn reaches(&self, delta: f64) -> i64 {
        match self {
            // The zone of chance is centred on it.
            Self::Piecewise(form) => {
                let unit = f64::from(form.in_frac() - form.cmp_shift()).exp2();
                (inverse_softplus(delta) * unit + 0.5).round() as i64
            }
            Self::Polynomial(form) => form.reaches(delta),
        }
    }
}

impl Transcript for Softplus {
    fn write(&self, out: &mut Vec<u64>) {
        match self {
            Self::Piecewise(form) => form.write(out),
            Self::Polynomial(form) => form.write(out),
        }
    }
}

/// Numbers of MoSiLU.
const PLAN: PaperPlan = PaperPlan { ring: RING, frac: FRAC, ..PaperPlan::DEFAULT };

fn fit(function: Residual, form: Polynomial) -> Result<EvenResidual, ApproxError> {
    EvenResidual::fit(function, form.degree as usize, form.tau.into())
}

/// MoSoft with the smallest rounding error that the ring allows.
fn finest(form: Polynomial) -> Result<EvenFixed, ApproxError> {
    let plan = |frac| PaperPlan { ring: RING, frac, cmp_shift: frac - STEP_UNIT, cmp_bits: STEP_BITS };
    let real = fit(Residual::Softplus, form)?;
    let all = (STEP..=DELTA).filter_map(|frac| real.fixed(&plan(frac)).ok());
    let best = all.min_by(|a, b| a.rounding_bound().total_cmp(&b.rounding_bound()));
    best.map_or_else(|| real.fixed(&plan(STEP)), Ok).map(EvenFixed::nonnegative)
}

/// The smallest Delta that matters: below it, a limit is none.
fn lowest() -> f64 {
    functions::softplus(-16.0)
}

/// Refuses limits, which polynomials do not have.
fn unlimited((low, high): (f32, f32)) -> Result<(), ApproxError> {
    let remedy = "without limits of Delta: take activations=piecewise";
    match (f64::from(low) > lowest(), f64::from(high) < STEPS.1) {
        (false, false) => Ok(()),
        (true, _) => Err(ApproxError::Parameter { what: "least Delta", value: low.into(), remedy }),
        _ => Err(ApproxError::Parameter { what: "greatest Delta", value: high.into(), remedy }),
    }
}

/// `ln(e^delta - 1)`.
pub(crate) fn inverse_softplus(delta: f64) -> f64 {
    if delta > 30.0 { delta } else { delta.exp_m1().ln() }
}

fn limited((low, high): (f32, f32)) -> Result<FixedPiecewise, ApproxError> {
    let table = softplus::preset()?;
    let plan = Plan { cmp_bits: STEP_BITS, ..softplus::PLAN };
    let (mut taus, mut pieces) = (table.thresholds_int(), table.pieces_int().to_vec());
    let unit = plan.unit();
    let constant = |delta: f64| [(delta * f64::from(plan.sum_frac).exp2()).round() as i64, 0, 0];
    let tau = |delta: f64| (inverse_softplus(delta) / unit + 0.5).round();
    if f64::from(low) > lowest() {
        let cut = tau(low.into()) as i64;
        let keep = taus.partition_point(|&t| t <= cut);
        taus.splice(..keep, [cut]);
        pieces.splice(..keep, [constant(low.into())]);
    }
    if f64::from(high) < STEPS.1 {
        let cut = tau(high.into()) as i64;
        let keep = taus.partition_point(|&t| t < cut);
        taus.splice(keep.., [cut]);
        pieces.splice(keep + 1.., [constant(high.into())]);
    }
    FixedPiecewise::from_integers(&plan, &taus, pieces, Some(STEPS))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn delta_is_limited() {
        let form = limited((0.001, 0.1)).unwrap();
        for x in -50 * 4096..40 * 4096 {
            let want = functions::softplus(x as f64 / 4096.0).clamp(0.001, 0.1);
            for got in form.outcomes(x) {
                // At the cuts the comparison's unit of 1/64 costs at most 0.8 percent.
                assert!((got / want - 1.0).abs() < 0.02, "{x}: {got} {want}");
            }
        }
    }

    /// Limits that leave little of the table are forms, limits that no table holds are errors.
    #[test]
    fn odd_limits() {
        for limit in [(0.0, 1e-7), (0.0, 1e-38), (0.01, 0.010_01), (40.0, 49.9), (49.0, f32::INFINITY)] {
            let form = limited(limit).unwrap();
            for x in (-60 * 4096..49 * 4096).step_by(4096) {
                let want = functions::softplus(x as f64 / 4096.0).clamp(limit.0.into(), limit.1.into());
                assert!(form.outcomes(x).iter().all(|got| (got - want).abs() <= 0.02 * want + 2e-6), "{limit:?} {x}");
            }
        }
        assert!(limited((1e30, f32::INFINITY)).is_err());
    }
}
