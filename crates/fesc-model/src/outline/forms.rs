//! The forms of one layer, and how SiLU and softplus are fitted to it.

use fesc_approx::transcript::Transcript;
use fesc_approx::{ApproxError, FixedPiecewise, Plan, functions, silu, softplus};

use super::exponential::Exponential;
use super::norm::NormForm;
use super::scales::Scales;
use crate::Result;
use crate::plan::Activations;
use crate::twin::TwinError;

/// Everything public that the protocol of one block needs besides the shape.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerForms {
    /// Fractional bits.
    pub scales: Scales,
    /// The norm before the mixer.
    pub norm: NormForm,
    /// The gated norm, one group of it.
    pub gated: NormForm,
    /// SiLU of z, F bits in and out.
    pub gate: FixedPiecewise,
    /// SiLU of x, out at s.x.
    pub x: FixedPiecewise,
    /// SiLU of B and C, out at s.bc.
    pub bc: FixedPiecewise,
    /// From dt (12 bits) to Delta (22 bits). Compares on 14 bits, one more than the table alone needs: the
    /// server-secret threshold of the clamp may be as large as an input.
    pub softplus: FixedPiecewise,
    /// exp of sums inside a chunk, out at s.exp.
    pub chunk: Exponential,
    /// exp of sums over a segment, out at s.exp.
    pub document: Exponential,
}

impl Transcript for LayerForms {
    fn write(&self, out: &mut Vec<u64>) {
        for norm in [&self.norm, &self.gated] {
            out.extend(norm.widths());
            norm.rsqrt.write(out);
        }
        [&self.gate, &self.x, &self.bc, &self.softplus].into_iter().for_each(|form| form.write(out));
        [&self.chunk, &self.document].into_iter().for_each(|form| form.write(out));
    }
}

/// SiLU, F bits in, `out` bits out: for every user the same integers and another number of dropped bits.
pub(super) fn silu_form(layer: usize, form: Activations, out: u32) -> Result<FixedPiecewise> {
    let build = || {
        let table = match form {
            Activations::Five => silu::preset()?,
            Activations::Ten => silu::preset_fine()?,
            Activations::Polynomial(form) => {
                let (value, remedy) = (form.degree.into(), "take pieces: polynomials are not there yet");
                return Err(ApproxError::Parameter { what: "degree", value, remedy });
            }
        };
        let plan = Plan { out_frac: out, ..silu::PLAN };
        FixedPiecewise::from_integers(&plan, &table.thresholds_int(), table.pieces_int().to_vec(), None)
    };
    Ok(build().map_err(|source| TwinError::Form { layer, what: "SiLU", source })?)
}

/// Softplus, its ends cut to a constant where Delta is limited.
pub(crate) fn softplus_form(layer: usize, limit: (f32, f32)) -> Result<FixedPiecewise> {
    Ok(limited(limit).map_err(|source| TwinError::Form { layer, what: "softplus", source })?)
}

/// `ln(e^delta - 1)`.
pub(crate) fn inverse_softplus(delta: f64) -> f64 {
    if delta > 30.0 { delta } else { delta.exp_m1().ln() }
}

fn limited((low, high): (f32, f32)) -> Result<FixedPiecewise, ApproxError> {
    let table = softplus::preset()?;
    let plan = Plan { cmp_bits: softplus::PLAN.cmp_bits + 1, ..softplus::PLAN };
    let (mut taus, mut pieces) = (table.thresholds_int(), table.pieces_int().to_vec());
    let unit = plan.unit();
    let constant = |delta: f64| [(delta * f64::from(plan.sum_frac).exp2()).round() as i64, 0, 0];
    let tau = |delta: f64| (inverse_softplus(delta) / unit + 0.5).round();
    let lowest = functions::softplus(-16.0);
    if f64::from(low) > lowest {
        let cut = tau(low.into()) as i64;
        let keep = taus.partition_point(|&t| t <= cut);
        taus.splice(..keep, [cut]);
        pieces.splice(..keep, [constant(low.into())]);
    }
    if f64::from(high) < 50.0 {
        let cut = tau(high.into()) as i64;
        let keep = taus.partition_point(|&t| t < cut);
        taus.splice(keep.., [cut]);
        pieces.splice(keep + 1.., [constant(high.into())]);
    }
    FixedPiecewise::from_integers(&plan, &taus, pieces, Some((-70.0, 50.0)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn delta_is_limited() {
        let form = softplus_form(0, (0.001, 0.1)).unwrap();
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
            let form = softplus_form(0, limit).unwrap();
            for x in (-60 * 4096..49 * 4096).step_by(4096) {
                let want = functions::softplus(x as f64 / 4096.0).clamp(limit.0.into(), limit.1.into());
                assert!(form.outcomes(x).iter().all(|got| (got - want).abs() <= 0.02 * want + 2e-6), "{limit:?} {x}");
            }
        }
        assert!(softplus_form(0, (1e30, f32::INFINITY)).is_err());
    }
}
