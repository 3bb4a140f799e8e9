//! exp of sums of A Delta: one form for sums inside a chunk, one for sums over a segment.
//!
//! [`ExpForm::Power`] takes 18 bits in (sums are rounded from 22) and is `(1 + y + y^2/2)^16` with its clamp
//! at -16 ([`ExpSquare`], k = 4): error 0.00103. The linear forms take 20 bits. [`ExpForm::Minimax`] is the
//! paper's MMExp on `[-8, 0]`, 0 below, in as many bits as its products leave room for (20 at degree 2, 19 at
//! 4, 18 at 6, fewer where the result has fewer): error 0.147, 0.0203, 0.0016, as much at 0, and negative by
//! as much near -8. Above 1 it never is.
//!
//! Online cost of one exp inside a chunk, both directions, by the declarations of `fesc-mpc` (comparisons of
//! 19 or 21 bits, 48 bits per opening, the first rounding included): `Coarse` 106 bytes and 8 rounds, `Fine`
//! 262 bytes and 8 rounds, `Power` 89 bytes and 17 rounds. All exps of a layer run at once, so the rounds
//! count once per layer. `tests/long_memory.rs` shows why `Power` is the default: `Coarse` misses one percent
//! of a state, `Fine` costs three times as much.

use fesc_approx::exp_square::ExpSquare;
use fesc_approx::paper::PaperPlan;
use fesc_approx::paper::mmexp::{MinimaxExp, MinimaxExpFixed};
use fesc_approx::transcript::Transcript;
use fesc_approx::{ApproxError, FixedPiecewise, Plan, exp};

use super::scale::RING;
use crate::Result;
use crate::plan::{ExpForm, Minimax};
use crate::twin::TwinError;

/// exp for arguments from a limit to 0. The input is a sum at 22 bits, rounded to [`Exponential::in_frac`]
/// first.
#[derive(Debug, Clone, PartialEq)]
pub enum Exponential {
    /// Linear pieces.
    Linear(FixedPiecewise),
    /// A power of a quadratic.
    Power(ExpSquare),
    /// A polynomial, and the bits that its result is brought to.
    Minimax(MinimaxExpFixed, u32),
}

/// Sums of a chunk are above `-2^12`: 128 times 16, and 7 percent for the zone of the clamp.
const CHUNK_REACH: u32 = 12;
/// Sums of a segment are above `-2^16`: 16 times as many.
const SEGMENT_REACH: u32 = 16;

/// The fewest bits of MMExp: an exp has no fewer.
const LEAST: u32 = 12;

impl Exponential {
    /// For sums inside a chunk of 128 tokens.
    pub(crate) fn chunk(layer: usize, form: ExpForm, out: u32) -> Result<Self> {
        Self::new(layer, form, out, CHUNK_REACH)
    }

    /// For sums over a segment of 2,048 tokens.
    pub(crate) fn document(layer: usize, form: ExpForm, out: u32) -> Result<Self> {
        Self::new(layer, form, out, SEGMENT_REACH)
    }

    fn new(layer: usize, form: ExpForm, out: u32, reach: u32) -> Result<Self> {
        let build = || {
            let (plan, table) = match form {
                ExpForm::Power => {
                    // Unit 1/64, and the sign.
                    return Ok(Self::Power(ExpSquare::new(RING, 4, 18, out, 12, reach + 7)?));
                }
                ExpForm::Minimax(form) => return Ok(Self::Minimax(finest(form, out, reach)?, out)),
                ExpForm::Coarse => (exp::PLAN, exp::preset()?),
                ExpForm::Fine => (exp::PLAN_FINE, exp::preset_fine()?),
            };
            let cmp_bits = reach + 1 + plan.in_frac - plan.cmp_shift;
            let plan = Plan { out_frac: out, cmp_bits, ..plan };
            let limit = Some((f64::NEG_INFINITY, plan.unit()));
            let pieces = table.pieces_int().to_vec();
            Ok(Self::Linear(FixedPiecewise::from_integers(&plan, &table.thresholds_int(), pieces, limit)?))
        };
        Ok(build().map_err(|source: ApproxError| TwinError::Form { layer, what: "exp", source })?)
    }

    /// The same for sums that reach four times as far: those of a whole document, where this is for a
    /// segment.
    ///
    /// # Errors
    /// If they do not fit the ring.
    pub fn further(&self) -> Result<Self, ApproxError> {
        let wider = |form: &FixedPiecewise| Plan {
            ring: form.ring(),
            in_frac: form.in_frac(),
            out_frac: form.out_frac(),
            sum_frac: form.sum_frac(),
            cmp_shift: form.cmp_shift(),
            cmp_bits: form.cmp_bits() + 2,
        };
        Ok(match self {
            Self::Linear(form) => {
                let (plan, pieces) = (wider(form), form.pieces_int().to_vec());
                let limit = Some((f64::NEG_INFINITY, plan.unit()));
                Self::Linear(FixedPiecewise::from_integers(&plan, &form.thresholds_int(), pieces, limit)?)
            }
            Self::Power(form) => {
                let Plan { ring, cmp_shift, cmp_bits, .. } = wider(form.clamp());
                Self::Power(ExpSquare::new(ring, form.k(), form.in_frac(), form.frac(), cmp_shift, cmp_bits)?)
            }
            // Kernels that take a whole document take it of single tokens.
            Self::Minimax(..) => self.clone(),
        })
    }

    /// Fractional bits that the sum is rounded to.
    pub fn in_frac(&self) -> u32 {
        match self {
            Self::Linear(form) => form.in_frac(),
            Self::Power(form) => form.in_frac(),
            Self::Minimax(form, _) => form.plan().frac,
        }
    }

    /// Fractional bits that the form itself gives, at most those of the result.
    pub fn own_frac(&self) -> u32 {
        match self {
            Self::Minimax(form, _) => form.plan().frac,
            Self::Linear(_) | Self::Power(_) => self.out_frac(),
        }
    }

    /// Fractional bits of the result.
    pub fn out_frac(&self) -> u32 {
        match self {
            Self::Linear(form) => form.out_frac(),
            Self::Power(form) => form.frac(),
            Self::Minimax(_, out) => *out,
        }
    }
}

impl Transcript for Exponential {
    fn write(&self, out: &mut Vec<u64>) {
        match self {
            Self::Linear(form) => form.write(out),
            Self::Power(form) => form.write(out),
            Self::Minimax(form, bits) => {
                form.write(out);
                out.push((*bits).into());
            }
        }
    }
}

/// MMExp of at most `out` bits with the smallest rounding error that the ring allows.
fn finest(form: Minimax, out: u32, reach: u32) -> Result<MinimaxExpFixed, ApproxError> {
    // Unit 1/64, and the sign.
    let plan = |frac: u32| PaperPlan { ring: RING, frac, cmp_shift: frac - 6, cmp_bits: reach + 7 };
    let real = MinimaxExp::paper(form.degree as usize)?;
    let all = (LEAST..=out).filter_map(|frac| real.fixed(&plan(frac)).ok());
    let best = all.min_by(|a, b| a.rounding_bound().total_cmp(&b.rounding_bound()));
    best.map_or_else(|| real.fixed(&plan(LEAST)), Ok)
}
