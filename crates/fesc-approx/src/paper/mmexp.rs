//! MMExp: the minimax polynomial of `exp` on `[-tau, 0]`, 0 to the left (paper, algorithm mmexp).
//!
//! The best polynomial spreads its error evenly, so `p(0) = 1 - error`: 0.9797 at degree 4, and
//! `0.9797^2048 = 5e-19`. As a per-token decay it erases all long memory; it is here to reproduce the paper.
//! Ours are [`crate::exp`] on cumulative sums and [`crate::exp_square`].
//!
//! Integer form, input `z` and output at `F` bits, `e` a scaling exponent (`2^e <= tau`): the integer `z` is
//! also `t = z / 2^e` with `F + e` bits.
//! 1. `z = Delta A` is the caller's product.
//! 2. `p = trunc(c_d t + c_(d-1), F + e)`, `c_d` public at `F` bits, the other `c_i` (for `t`) at `2F + e`.
//! 3. For `i = d-2 .. 0`: `p = trunc(p t + c_i, F + e)`.
//! 4. `b = [z' >= -tau]`; `a = b p`.
//!
//! Carries are drawn in this order: one per truncation (`d` of them), then the comparison. Secret products:
//! `d - 1`, and the caller's one for `z`: `d` in all. The paper's table counts one more (5 at degree 4).

use super::{PaperPlan, horner_max};
use crate::error::ApproxError;
use crate::remez::minimax;

/// The form over the reals.
#[derive(Debug, Clone, PartialEq)]
pub struct MinimaxExp {
    /// `d`.
    pub degree: usize,
    /// `tau`.
    pub tau: f64,
    /// `c_0 .. c_d`.
    pub coeffs: Vec<f64>,
    /// The minimax error on `[-tau, 0]`.
    pub inner_error: f64,
    /// Where the error alternates.
    pub reference: Vec<f64>,
}

impl MinimaxExp {
    /// Fits degree `d` (1 to 10) on `[-tau, 0]`.
    ///
    /// # Errors
    /// For another degree or a `tau` that is not positive.
    pub fn fit(degree: usize, tau: f64) -> Result<Self, ApproxError> {
        if !(1..=10).contains(&degree) {
            return Err(ApproxError::Parameter { what: "degree", value: degree as f64, remedy: "1 to 10" });
        }
        if !(tau > 0.0 && tau <= 64.0) {
            return Err(ApproxError::Parameter { what: "tau", value: tau, remedy: "above 0, at most 64" });
        }
        let powers: Vec<u32> = (0..=degree as u32).collect();
        let m = minimax(f64::exp, |_| 1.0, &powers, -tau, 0.0);
        Ok(Self { degree, tau, coeffs: m.coeffs, inner_error: m.error, reference: m.reference })
    }

    /// The paper's setting: `tau = 8`.
    ///
    /// # Errors
    /// As [`Self::fit`].
    pub fn paper(degree: usize) -> Result<Self, ApproxError> {
        Self::fit(degree, 8.0)
    }

    /// The value at `z <= 0`, tail included.
    pub fn eval_f64(&self, z: f64) -> f64 {
        if z < -self.tau { 0.0 } else { self.coeffs.iter().rev().fold(0.0, |acc, c| acc * z + c) }
    }

    /// `p(0)`.
    pub fn at_zero(&self) -> f64 {
        self.coeffs.first().copied().unwrap_or(0.0)
    }

    /// The integer form.
    ///
    /// # Errors
    /// If no scaling makes every intermediate fit, or the comparison does not fit.
    pub fn fixed(&self, plan: &PaperPlan) -> Result<MinimaxExpFixed, ApproxError> {
        plan.check()?;
        let most = self.tau.log2().floor().max(0.0) as u32;
        let mut refused = None;
        for e in (0..=most).rev() {
            match self.scaled(plan, e) {
                Ok(fixed) => return Ok(fixed),
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        Err(refused.unwrap_or(ApproxError::Parameter { what: "tau", value: self.tau, remedy: "at least 1" }))
    }

    fn scaled(&self, plan: &PaperPlan, e: u32) -> Result<MinimaxExpFixed, ApproxError> {
        let f = plan.frac;
        let unit = f64::from(e).exp2();
        // The zone of chance lies left of the interval.
        let top = (self.tau + plan.zone()) / unit;
        let scaled: Vec<f64> = self.coeffs.iter().enumerate().map(|(i, c)| c * unit.powi(i as i32)).collect();
        let size = horner_max(&scaled, -top, 0.0, |_| 0.0);
        plan.room("polynomial", size.log2() + f64::from(2 * f + e), f + e)?;
        let (last, rest) = scaled.split_last().ok_or(ApproxError::Parameter {
            what: "coefficients",
            value: 0.0,
            remedy: "at least two",
        })?;
        let rest = rest.iter().map(|&c| plan.constant("coefficient", c, 2 * f + e)).collect::<Result<Vec<_>, _>>()?;
        let carried: f64 = (0..scaled.len() as i32).map(|i| top.powi(i)).sum();
        Ok(MinimaxExpFixed {
            plan: *plan,
            e,
            lead: plan.constant("coefficient", *last, f)?,
            rest,
            low: plan.threshold(-self.tau)?,
            bound: carried * (-f64::from(f)).exp2(),
        })
    }
}

/// The integer form; see the module for the steps.
#[derive(Debug, Clone, PartialEq)]
pub struct MinimaxExpFixed {
    plan: PaperPlan,
    e: u32,
    lead: u64,
    rest: Vec<u64>,
    low: u64,
    bound: f64,
}

impl MinimaxExpFixed {
    /// Ring, fraction, comparison.
    pub fn plan(&self) -> &PaperPlan {
        &self.plan
    }
    /// Bits dropped after every product: `F + e`.
    pub fn product_trunc(&self) -> u32 {
        self.plan.frac + self.e
    }
    /// `c_d` at `F` bits.
    pub fn lead(&self) -> u64 {
        self.lead
    }
    /// `c_0 .. c_(d-1)` at `2F + e` bits.
    pub fn rest(&self) -> &[u64] {
        &self.rest
    }
    /// `-tau` in the comparison ring.
    pub fn threshold(&self) -> u64 {
        self.low
    }
    /// The inputs that it is right for, as integers: what the comparison holds, and not above 0.
    pub fn input_range_int(&self) -> (i64, i64) {
        (self.plan.inputs(-(1i128 << (self.plan.cmp_bits - 1)), 0).0, 0)
    }
    /// `-tau` as a signed integer.
    pub fn threshold_int(&self) -> i64 {
        self.plan.signed(self.low)
    }
    /// Bound of the difference between [`Self::eval`] and the real form, away from the zone of chance.
    pub fn rounding_bound(&self) -> f64 {
        self.bound
    }

    /// What the protocol computes, carries drawn in the order of the module's steps.
    pub fn eval(&self, z: u64, carry: &mut dyn FnMut() -> bool) -> u64 {
        let (plan, r) = (&self.plan, self.plan.ring);
        let z = r.reduce(z);
        let shift = self.product_trunc();
        let p = self.rest.iter().rev().fold(self.lead, |p, &c| plan.mul_add(p, z, c, shift, carry()));
        r.mul(plan.at_least(z, self.low, carry()), p)
    }
}
