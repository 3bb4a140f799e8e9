//! exp of sums of A Delta in the fast preset: one form for sums inside a chunk, one for sums over the document.
//!
//! [`ExpForm::Power`] takes 18 bits in (sums are rounded from 22) and is `(1 + y + y^2/2)^16` with its clamp at -16
//! ([`ExpSquare`], k = 4): error 0.00103. The linear forms take 20 bits.
//!
//! Online cost of one exp inside a chunk, both directions, by the declarations of `fesc-mpc` (comparisons of 19 or 21 bits, 48 bits per
//! opening, the first rounding included): `Coarse` 106 bytes and 8 rounds, `Fine` 262 bytes and 8 rounds, `Power` 89 bytes and 17 rounds. All exps
//! of a layer run at once, so the rounds count once per layer. `tests/long_memory.rs` shows why `Power` is the default: `Coarse`
//! misses one percent of a state, `Fine` costs three times as much.

use fesc_approx::exp_square::ExpSquare;
use fesc_approx::{ApproxError, FixedPiecewise, Plan, RING48, exp};

use super::activation::piecewise;
use super::error::TwinError;
use super::plan::{DECAY, ExpForm, Preset};
use super::range::{Local, Quantity as Q};
use crate::Result;

enum Form {
    Linear(FixedPiecewise),
    Power(ExpSquare),
}

/// exp for arguments down to a limit.
pub(super) struct Exponent {
    form: Form,
}

/// Sums of a chunk are above `-2^(reach + 1)`: 128 times 16, and 7 percent for the zone of the clamp.
const CHUNK_REACH: u32 = 11;
const DOCUMENT_REACH: u32 = 19;

impl Exponent {
    /// For sums inside a chunk of 128 tokens.
    pub(super) fn chunk(layer: usize, preset: &Preset, out: u32) -> Result<Self> {
        Self::new(layer, preset, out, CHUNK_REACH + 1)
    }

    /// For sums over a document: 61,000 tokens if every one is clamped.
    pub(super) fn document(layer: usize, preset: &Preset, out: u32) -> Result<Self> {
        Self::new(layer, preset, out, DOCUMENT_REACH + 1)
    }

    fn new(layer: usize, preset: &Preset, out: u32, reach: u32) -> Result<Self> {
        let build = || {
            let (plan, table) = match preset.exp {
                ExpForm::Power => {
                    // Unit 1/64, and the sign.
                    return Ok(Form::Power(ExpSquare::new(RING48, 4, 18, out, 12, reach + 7)?));
                }
                ExpForm::Coarse => (exp::PLAN, exp::preset()?),
                ExpForm::Fine => (exp::PLAN_FINE, exp::preset_fine()?),
            };
            let cmp_bits = reach + 1 + plan.in_frac - plan.cmp_shift;
            let plan = Plan { out_frac: out, cmp_bits, ..plan };
            let limit = Some((f64::NEG_INFINITY, plan.unit()));
            let pieces = table.pieces_int().to_vec();
            Ok(Form::Linear(FixedPiecewise::from_integers(&plan, &table.thresholds_int(), pieces, limit)?))
        };
        let form = |source: ApproxError| TwinError::Form { layer, what: "exp", source };
        Ok(Self { form: build().map_err(form)? })
    }

    /// exp of a sum at 22 bits.
    #[inline]
    pub(super) fn eval(&self, local: &mut Local, sum: i64) -> i64 {
        match &self.form {
            Form::Linear(form) => {
                let z = local.round(Q::DecaySum, sum, DECAY, form.in_frac());
                piecewise(local, form, Q::ExpInput, z)
            }
            Form::Power(form) => power(local, form, sum),
        }
    }
}

/// The steps of [`ExpSquare`], with the twin's carries and every square checked.
fn power(local: &mut Local, form: &ExpSquare, sum: i64) -> i64 {
    let z = local.round(Q::DecaySum, sum, DECAY, form.in_frac());
    let fy = form.in_frac() + form.k();
    let m = piecewise(local, form.clamp(), Q::ExpInput, z) + (1 << fy);
    let first = m.saturating_mul(m).saturating_add(1 << (2 * fy));
    let mut q = local.round(Q::ExpSquare, first, form.first_trunc(), 0);
    for _ in 0..form.k() {
        q = local.round(Q::ExpSquare, q.saturating_mul(q), form.frac(), 0);
    }
    q
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::super::range::Run;
    use super::super::rounding::Rounding;
    use super::*;
    use fesc_ring::Prg;

    #[test]
    fn errors_are_as_stated() {
        let forms = [(ExpForm::Coarse, 0.00505), (ExpForm::Fine, 0.00105), (ExpForm::Power, 0.00105)];
        for (form, bound) in forms {
            for mut rounding in [Rounding::nearest(), Rounding::jitter(Prg::from_seed([1; 16]))] {
                let mut run = Run::new(48, true, &mut rounding);
                let mut local = run.local();
                let preset = Preset::FAST.with_exp(form);
                let chunk = Exponent::chunk(0, &preset, 22).unwrap();
                let one = f64::from(DECAY).exp2();
                let mut worst: f64 = 0.0;
                for i in 0..100_000i64 {
                    let sum = -i * 997;
                    let y = chunk.eval(&mut local, sum) as f64 / one;
                    assert!((0.0..=1.0).contains(&y));
                    worst = worst.max((y - (sum as f64 / one).exp()).abs());
                }
                assert!(worst < bound && worst > 0.8 * bound, "{form:?} {worst}");
                assert_eq!(chunk.eval(&mut local, 0), 1 << 22);
                assert!(chunk.eval(&mut local, -(2040i64 << DECAY)) < 100);
                run.settle(vec![local]).unwrap();
            }
        }
    }
}
