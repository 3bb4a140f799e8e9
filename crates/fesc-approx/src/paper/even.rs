//! MoSiLU and MoSoft: `f(x) = x/2 + h(x^2)` on `[-tau, tau]`, 0 to the left, `x` to the right (paper,
//! algorithm mosilu-mosoft).
//!
//! `h` is the minimax polynomial of degree `r = d/2` in `u = x^2` on `[0, tau^2]`. The tail rule costs
//! `|f(-tau)|`, whatever the degree: 0.072 for SiLU and 0.018 for softplus at `tau = 4`. These are the
//! paper's quoted errors, and why its degree six "provides no further improvement".
//!
//! Integer form, input and output at `F` bits, `e` a scaling exponent (`2^e <= tau`):
//! 1. `b_lo = [x' >= -tau]`, `b_hi = [x' >= tau]` from one truncate-reduce (one carry). In the paper's names
//!    `b_- = 1 - b_lo`, `b_< = 1 - b_hi`, `b_+ = b_hi`, `b_in = b_lo - b_hi`.
//! 2. `u = x x` at `2F`, truncated by `F + 2e`: `x^2 / 4^e` with `F` bits. It is never negative, so half the
//!    range of the known-sign truncation would be lost: subtract the public `c` =
//!    [`EvenFixed::square_centre`] (about `tau^2/2`, a multiple of `2^(F + 2e)`) before and add
//!    `c / 2^(F + 2e)` after. The result is the same, the range is twice as large; at `l = 44`, `F = 19`,
//!    `tau = 4` it would not fit otherwise.
//! 3. With `a_i` for the scaled variable, `a_r` at `F` bits (public), the other `a_i` at `2F`:
//!    - `r >= 2`: `q = trunc(a_r u + a_(r-1), F)`, then for `i = r-2 .. 1`: `q = trunc(q u + a_i, F)`; at
//!      last `m = q`;
//!    - `r = 1`: `m = a_1`, public, no product;
//!    - `p = trunc(m u + 2^(F-1) x + a_0, F)`: the half of `x` is a product with a public power of two at
//!      scale `2F`.
//! 4. `y = b_in p + b_hi x`. No truncation.
//!
//! Left of a threshold the comparison has a zone of chance, one unit wide, in which the polynomial is used
//! too: all of it fits there as well.
//!
//! **A softplus that is never negative.** Where the residual's error passes softplus itself (degree 2, or
//! `tau` from 5 on), the polynomial falls below 0 inside its interval. [`EvenFixed::nonnegative`] moves the
//! lower threshold to the right of that: 0 in place of what is negative or left of it. It costs nothing; the
//! true value there is at most the error that the polynomial has anyway. At the paper's degree 4 and 6 with
//! `tau = 4` nothing moves.
//!
//! Carries are drawn in this order: comparison, `u`, each `q`, `p`. Secret products: `r` (one square).
//! Truncations: `r + 1`.

use super::{PaperPlan, horner_max};
use crate::error::ApproxError;
use crate::functions::{silu, softplus};
use crate::remez::minimax;
use crate::trunc::round;

/// Which of the two functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residual {
    /// `x / (1 + e^-x)`.
    Silu,
    /// `ln(1 + e^x)`.
    Softplus,
}

impl Residual {
    /// The true function.
    pub fn exact(self, x: f64) -> f64 {
        match self {
            Self::Silu => silu(x),
            Self::Softplus => softplus(x),
        }
    }
}

/// The form over the reals.
#[derive(Debug, Clone, PartialEq)]
pub struct EvenResidual {
    /// Which function.
    pub function: Residual,
    /// `d`, even.
    pub degree: usize,
    /// `tau`.
    pub tau: f64,
    /// `a_0 .. a_r`, powers of `u = x^2`.
    pub coeffs: Vec<f64>,
    /// The minimax error inside `[-tau, tau]`.
    pub inner_error: f64,
    /// Where the inner error alternates, as values of `u`.
    pub reference: Vec<f64>,
}

impl EvenResidual {
    /// Fits degree `d` (even, 2 to 12) on `[-tau, tau]`.
    ///
    /// # Errors
    /// For another degree or a `tau` that is not positive.
    pub fn fit(function: Residual, degree: usize, tau: f64) -> Result<Self, ApproxError> {
        if !degree.is_multiple_of(2) || !(2..=12).contains(&degree) {
            return Err(ApproxError::Parameter { what: "degree", value: degree as f64, remedy: "even, 2 to 12" });
        }
        if !(tau > 0.0 && tau <= 64.0) {
            return Err(ApproxError::Parameter { what: "tau", value: tau, remedy: "above 0, at most 64" });
        }
        let powers: Vec<u32> = (0..=degree as u32 / 2).collect();
        let h = |u: f64| function.exact(u.sqrt()) - u.sqrt() / 2.0;
        let m = minimax(h, |_| 1.0, &powers, 0.0, tau * tau);
        Ok(Self { function, degree, tau, coeffs: m.coeffs, inner_error: m.error, reference: m.reference })
    }

    /// The paper's setting: `tau = 4`.
    ///
    /// # Errors
    /// As [`Self::fit`].
    pub fn paper(function: Residual, degree: usize) -> Result<Self, ApproxError> {
        Self::fit(function, degree, 4.0)
    }

    /// The value at `x`, tails included.
    pub fn eval_f64(&self, x: f64) -> f64 {
        if x < -self.tau {
            0.0
        } else if x < self.tau {
            x / 2.0 + self.coeffs.iter().rev().fold(0.0, |acc, a| acc * x * x + a)
        } else {
            x
        }
    }

    /// The error that the tail rule adds just outside `-tau`.
    pub fn tail_jump(&self) -> f64 {
        self.function.exact(-self.tau).abs()
    }

    /// The integer form.
    ///
    /// # Errors
    /// If no scaling makes every intermediate fit, or the comparison does not fit.
    pub fn fixed(&self, plan: &PaperPlan) -> Result<EvenFixed, ApproxError> {
        plan.check()?;
        let most = self.tau.log2().floor().max(0.0) as u32;
        let mut refused = None;
        for e in (0..=most.min(plan.frac / 2)).rev() {
            match self.scaled(plan, e) {
                Ok(fixed) => return Ok(fixed),
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        Err(refused.unwrap_or(ApproxError::Parameter { what: "tau", value: self.tau, remedy: "at least 1" }))
    }

    fn scaled(&self, plan: &PaperPlan, e: u32) -> Result<EvenFixed, ApproxError> {
        let f = plan.frac;
        let unit = f64::from(2 * e).exp2();
        // u / 4^e reaches `top`.
        let edge = self.tau + plan.zone();
        let top = edge * edge / unit;
        let scaled: Vec<f64> = self.coeffs.iter().enumerate().map(|(i, a)| a * unit.powi(i as i32)).collect();
        // Centred, x^2 is at most half of tau^2 in size, but for the zone.
        plan.room("x^2", (edge * edge - self.tau * self.tau / 2.0).log2() + f64::from(2 * f), f + 2 * e)?;
        let half = |t: f64| (t * unit).sqrt() / 2.0;
        let size = horner_max(&scaled, 0.0, top, half).max(horner_max(&scaled, 0.0, top, |t| -half(t)));
        plan.room("polynomial", size.log2() + f64::from(2 * f), f)?;
        let (last, rest) = scaled.split_last().ok_or(ApproxError::Parameter {
            what: "coefficients",
            value: 0.0,
            remedy: "at least two",
        })?;
        let rest = rest.iter().map(|&a| plan.constant("coefficient", a, 2 * f)).collect::<Result<Vec<_>, _>>()?;
        // An ulp of u moves p by |dp/du|; an ulp of each q or of the leading coefficient is multiplied by
        // powers of `top`.
        let slope: f64 = (1..).zip(&scaled[1..]).map(|(i, a)| f64::from(i) * a.abs() * top.powi(i - 1)).sum();
        let carried: f64 = (0..scaled.len() as i32).map(|i| top.powi(i)).sum();
        let bound = (slope + carried) * (-f64::from(f)).exp2();
        Ok(EvenFixed {
            plan: *plan,
            e,
            centre: ((self.tau * self.tau / 2.0 * f64::from(f - 2 * e).exp2()).floor() as u64) << (f + 2 * e),
            lead: plan.constant("coefficient", *last, f)?,
            rest,
            thresholds: [plan.threshold(-self.tau)?, plan.threshold(self.tau)?],
            bound,
        })
    }
}

/// The integer form; see the module for the steps.
#[derive(Debug, Clone, PartialEq)]
pub struct EvenFixed {
    plan: PaperPlan,
    e: u32,
    centre: u64,
    lead: u64,
    rest: Vec<u64>,
    thresholds: [u64; 2],
    bound: f64,
}

/// Width of the pieces in which a polynomial is bounded: a unit of softplus' comparisons, or more of finer
/// ones.
const PIECE: f64 = 1.0 / 64.0;

impl EvenFixed {
    /// Ring, fraction, comparison.
    pub fn plan(&self) -> &PaperPlan {
        &self.plan
    }
    /// Bits dropped from `x x`: `F + 2e`.
    pub fn square_trunc(&self) -> u32 {
        self.plan.frac + 2 * self.e
    }
    /// What is subtracted from `x x` before its truncation; see step 2.
    pub fn square_centre(&self) -> u64 {
        self.centre
    }
    /// `a_r` at `F` bits.
    pub fn lead(&self) -> u64 {
        self.lead
    }
    /// `a_0 .. a_(r-1)` at `2F` bits.
    pub fn rest(&self) -> &[u64] {
        &self.rest
    }
    /// Thresholds in the comparison ring: where the polynomial begins, `-tau` unless it was moved, and `tau`.
    pub fn thresholds(&self) -> &[u64; 2] {
        &self.thresholds
    }
    /// The same as signed integers.
    pub fn thresholds_int(&self) -> [i64; 2] {
        self.thresholds.map(|t| self.plan.signed(t))
    }
    /// The inputs that compare rightly with both, as integers.
    pub fn input_range_int(&self) -> (i64, i64) {
        let ([low, high], half) = (self.thresholds_int(), 1i128 << (self.plan.cmp_bits - 1));
        self.plan.inputs(i128::from(high) - half, half - 1 + i128::from(low))
    }
    /// Bound of the difference between [`Self::eval`] and the real form, away from the zones of chance.
    pub fn rounding_bound(&self) -> f64 {
        self.bound
    }

    /// The least and the greatest result of the polynomial for inputs between two real numbers.
    fn bounds(&self, from: f64, to: f64) -> (f64, f64) {
        let (ring, f) = (self.plan.ring, self.plan.frac);
        let real = |a: u64, frac: u32| ring.to_signed(a) as f64 * (-f64::from(frac)).exp2();
        let unit = (-f64::from(2 * self.e)).exp2();
        let rest = self.rest.iter().map(|&a| real(a, 2 * f));
        let coeffs: Vec<f64> =
            rest.chain([real(self.lead, f)]).enumerate().map(|(i, a)| a * unit.powi(i as i32)).collect();
        let value = |x: f64| x / 2.0 + coeffs.iter().rev().fold(0.0, |p, a| p * x * x + a);
        let far = from.abs().max(to.abs());
        let curve = |(i, a): (usize, &f64)| (2 * i * (2 * i - 1)) as f64 * a.abs() * far.powi(2 * i as i32 - 2);
        let curvature: f64 = coeffs.iter().enumerate().skip(1).map(curve).sum();
        let slack = curvature * (to - from).powi(2) / 8.0 + self.bound;
        let ends = [value(from), value(to)];
        (ends[0].min(ends[1]) - slack, ends[0].max(ends[1]) + slack)
    }

    /// Units of a piece.
    fn wide(&self) -> i64 {
        ((PIECE / self.plan.unit()) as i64).max(1)
    }

    /// The polynomial's inputs, those of its zone of chance included, in pieces: first unit and bounds.
    fn pieces(&self) -> impl DoubleEndedIterator<Item = (i64, (f64, f64))> {
        let (unit, wide, [low, high]) = (self.plan.unit(), self.wide(), self.thresholds_int());
        let piece = move |k: i64| {
            let from = (k * wide) as f64 * unit;
            (k * wide, self.bounds(from, from + wide as f64 * unit))
        };
        ((low - 1).div_euclid(wide)..(high + wide - 1).div_euclid(wide)).map(piece)
    }

    /// Begins where no result is below 0 from there on; see the module.
    #[must_use]
    pub fn nonnegative(mut self) -> Self {
        let negative = self.pieces().rev().find(|(_, (least, _))| *least < 0.0);
        if let Some((from, _)) = negative {
            let mask = u64::MAX >> (64 - self.plan.cmp_bits);
            let [low, high] = self.thresholds_int();
            // Past the piece, and one unit for the zone.
            self.thresholds[0] = (from + self.wide() + 1).clamp(low, high) as u64 & mask;
        }
        self
    }

    /// The greatest threshold, in units of the comparison and at least the polynomial's begin, so that inputs
    /// that compare below it give less than `value`. Where the form rises, that is where it reaches `value`.
    pub fn reaches(&self, value: f64) -> i64 {
        let [low, high] = self.thresholds_int();
        match self.pieces().find(|(_, (_, most))| *most >= value) {
            Some((from, _)) => from.clamp(low, high),
            // The right tail is the input itself.
            None => ((value / self.plan.unit()).floor() as i64).max(high),
        }
    }

    /// What the protocol computes, carries drawn in the order of the module's steps.
    pub fn eval(&self, x: u64, carry: &mut dyn FnMut() -> bool) -> u64 {
        let (plan, r, f) = (&self.plan, self.plan.ring, self.plan.frac);
        let x = r.reduce(x);
        let j = carry();
        let [b_lo, b_hi] = self.thresholds.map(|t| plan.at_least(x, t, j));
        let t = self.square_trunc();
        let u = r.add(round(r, r.sub(r.mul(x, x), self.centre), t, carry()), self.centre >> t);
        let mut m = self.lead;
        for &a in self.rest.iter().skip(1).rev() {
            m = plan.mul_add(m, u, a, f, carry());
        }
        let half = r.mul(x, 1 << (f - 1));
        let p = plan.mul_add(m, u, r.add(half, self.rest.first().copied().unwrap_or(0)), f, carry());
        r.add(r.mul(r.sub(b_lo, b_hi), p), r.mul(b_hi, x))
    }
}
