//! `1/sqrt(v)` for the norms: a linear start per bucket, then Newton.
//!
//! `v` lies in `[v_min, v_min 2^octaves]`, cut into buckets of ratio 2 (or `2^(1/2)` with two buckets per
//! octave). Steps, all fixed-point:
//! 1. `Y` = [`Rsqrt::start`] at `V`: a [`FixedPiecewise`] of degree 1, input `v_frac`, output `y_frac` bits.
//!    One carry for its comparison, one for its truncation.
//! 2. `steps` times, each "truncate" being "subtract 1, known-sign truncation" ([`crate::trunc::round`]) with
//!    one carry:
//!    - `T = V Y` (about `sqrt v`), truncate by `v_frac + y_frac - t_frac`;
//!    - `W = T Y` (about 1), truncate by `t_frac + y_frac - w_frac`;
//!    - `Y = Y (3 2^w_frac - W)`, truncate by `w_frac + 1`: the halving of `y (1.5 - 0.5 v y^2)` costs
//!      nothing.
//!
//! Scales are chosen so that the largest `Y` has 22 bits and the smallest, `2^(octaves/2)` below, still has
//! 14 at 16 octaves (an ulp is 6e-5), and no product passes `2^(l-2)`. Below `v_min` the result saturates
//! under `1.5^(steps + 1) / sqrt(v_min)`, and nothing overflows down to `v = 0`; more steps than the ring has
//! room for (four at `l = 48`) are refused.
//!
//! Errors, relative. Linear start of ratio 2: 2.3 %, 7.7e-4 after one step, 1e-6 after two, so two steps and
//! 15 thresholds. Ratio `2^(1/2)`: 0.6 %, 5e-5 after one step, so one step and 31 thresholds: three rounds of
//! products fewer, a better bargain where rounds are dear. A quadratic start would need the coefficient of
//! `v^2` at `S - 2 v_frac` bits; over 16 octaves it spans 2^40, which `l = 48` cannot hold.

use crate::error::ApproxError;
use crate::fit::Problem;
use crate::fixed::FixedPiecewise;
use crate::functions::rsqrt as exact;
use crate::piecewise::Piecewise;
use crate::plan::{Plan, RING48};
use crate::trunc::round;
use fesc_ring::Ring;

/// Bits of the largest `Y`.
const Y_BITS: f64 = 22.0;
/// Bits of the smallest `T`.
const T_BITS: f64 = 20.0;
/// Fractional bits of `W`.
const W_FRAC: u32 = 20;
/// The unit of the comparison is `v_min / 2^GUARD`.
const GUARD: f64 = 6.0;

/// The inverse square root and its fixed-point plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Rsqrt {
    v_min: f64,
    octaves: u32,
    steps: u32,
    t_frac: u32,
    start: FixedPiecewise,
}

impl Rsqrt {
    /// Buckets from `v_min` up over `octaves` octaves, `per_octave` buckets each, `steps` Newton steps,
    /// `v_frac` fractional bits of `v`.
    ///
    /// # Errors
    /// If `v_min` has fewer than 6 bits at that scale (no room for the comparison), if a product would
    /// overflow, or for a silly shape.
    pub fn new(
        ring: Ring,
        v_min: f64,
        octaves: u32,
        per_octave: u32,
        steps: u32,
        v_frac: u32,
    ) -> Result<Self, ApproxError> {
        if !(v_min > 0.0 && v_min.is_finite()) {
            return Err(ApproxError::Parameter { what: "v_min", value: v_min, remedy: "a positive number" });
        }
        if octaves == 0 || octaves > 40 || per_octave == 0 || per_octave > 4 {
            let value = f64::from(octaves) * f64::from(per_octave);
            return Err(ApproxError::Parameter { what: "buckets", value, remedy: "1 to 40 octaves of 1 to 4 buckets" });
        }
        if v_frac > 64 || steps > 16 {
            let value = f64::from(v_frac.max(steps));
            return Err(ApproxError::Parameter {
                what: "v_frac or steps",
                value,
                remedy: "at most 64 bits, at most 16 steps",
            });
        }
        let log_v = v_min.log2();
        let v_bits = log_v + f64::from(v_frac);
        let y_frac = (Y_BITS + log_v / 2.0).floor();
        let t_frac = (T_BITS - log_v / 2.0).floor();
        if v_bits < GUARD || y_frac < 0.0 || t_frac < 0.0 || t_frac > f64::from(v_frac) + y_frac {
            return Err(ApproxError::Parameter {
                what: "v_min",
                value: v_min,
                remedy: "at least 64 ulps of v, at most 2^40",
            });
        }
        let (y_frac, t_frac) = (y_frac as u32, t_frac as u32);
        let limit = ring.bits().saturating_sub(2);
        let half = f64::from(octaves) / 2.0;
        // Largest magnitudes with the start 3 % high. Below v_min the start is at most 1.5 / sqrt(v_min) (the
        // line's value at 0), and at v = 0 every step multiplies it by 1.5: that is the Y that enters the
        // last step.
        let saturated = Y_BITS + f64::from(steps.max(1)) * 1.5f64.log2();
        let sqrt_max = log_v / 2.0 + half + 0.05;
        let sizes = [
            ("v y", sqrt_max + f64::from(v_frac + y_frac), v_frac + y_frac - t_frac),
            ("v y^2", f64::from(t_frac + y_frac) + 0.1, (t_frac + y_frac).saturating_sub(W_FRAC)),
            ("y (3 - v y^2)", saturated + 3f64.log2() + f64::from(W_FRAC), W_FRAC + 1),
        ];
        for (what, log2, shift) in sizes {
            if log2 >= f64::from(limit) || t_frac + y_frac < W_FRAC {
                return Err(ApproxError::Overflow { what, log2, shift, limit });
            }
        }
        let (cmp_shift, cmp_bits) = comparison(v_bits, octaves);
        let sum_frac = (f64::from(limit) - 1.0 - Y_BITS).floor() as u32 + y_frac;
        let plan = Plan { ring, in_frac: v_frac, out_frac: y_frac, sum_frac, cmp_shift, cmp_bits };
        let form = start(&plan, v_min, octaves, per_octave);
        let start = FixedPiecewise::with_plan(&form, &plan, Some((0.0, v_min * f64::from(octaves).exp2())))?;
        Ok(Self { v_min, octaves, steps, t_frac, start })
    }

    /// Sixteen octaves, ratio 2, two Newton steps, on 48 bits.
    ///
    /// # Errors
    /// As [`Self::new`]: `v_min 2^v_frac` must lie between 2^6 and 2^15.
    pub fn preset(v_min: f64, v_frac: u32) -> Result<Self, ApproxError> {
        Self::new(RING48, v_min, 16, 1, 2, v_frac)
    }

    /// Sixteen octaves, ratio `2^(1/2)`, one Newton step: 31 thresholds, three products in a row.
    ///
    /// # Errors
    /// As [`Self::preset`].
    pub fn preset_few_rounds(v_min: f64, v_frac: u32) -> Result<Self, ApproxError> {
        Self::new(RING48, v_min, 16, 2, 1, v_frac)
    }

    /// The linear start.
    pub fn start(&self) -> &FixedPiecewise {
        &self.start
    }
    /// Newton steps.
    pub fn steps(&self) -> u32 {
        self.steps
    }
    /// Fractional bits of `V`.
    pub fn v_frac(&self) -> u32 {
        self.start.in_frac()
    }
    /// Fractional bits of `Y`, the output.
    pub fn y_frac(&self) -> u32 {
        self.start.out_frac()
    }
    /// Fractional bits of `T`.
    pub fn t_frac(&self) -> u32 {
        self.t_frac
    }
    /// Fractional bits of `W`.
    pub fn w_frac(&self) -> u32 {
        W_FRAC
    }
    /// Bits dropped after `V Y`, `T Y` and `Y (3 - W)`.
    pub fn shifts(&self) -> [u32; 3] {
        [self.v_frac() + self.y_frac() - self.t_frac, self.t_frac + self.y_frac() - W_FRAC, W_FRAC + 1]
    }
    /// `v_min` and `v_max`: the relative error holds between them.
    pub fn range(&self) -> (f64, f64) {
        (self.v_min, self.v_min * f64::from(self.octaves).exp2())
    }

    /// The form over the reals: rounded start, exact Newton.
    pub fn eval_f64(&self, v: f64) -> f64 {
        (0..self.steps).fold(self.start.eval_f64(v), |y, _| y * (1.5 - 0.5 * v * y * y))
    }

    /// What the protocol computes for carries drawn from `carry` in the order of the module's steps.
    pub fn eval(&self, v: u64, carry: &mut dyn FnMut() -> bool) -> u64 {
        self.run(v, carry, &mut |_, _| ())
    }

    /// The twin; `seen` gets every product before its reduction.
    fn run(&self, v: u64, carry: &mut dyn FnMut() -> bool, seen: &mut dyn FnMut(usize, i128)) -> u64 {
        let r = self.start.ring();
        let shifts = self.shifts();
        let mut product = |i: usize, a: u64, b: u64, carry: bool| {
            let exact = i128::from(r.to_signed(a)) * i128::from(r.to_signed(b));
            seen(i, exact);
            round(r, exact as u64, shifts[i], carry)
        };
        let v = r.reduce(v);
        let (j, c) = (carry(), carry());
        let mut y = self.start.eval_jitter(v, j, c);
        for _ in 0..self.steps {
            let t = product(0, v, y, carry());
            let w = product(1, t, y, carry());
            y = product(2, y, r.sub(3 << W_FRAC, w), carry());
        }
        y
    }
}

/// Bits dropped before buckets are compared, and the width of what is left, where the smallest `v` has
/// `v_bits` bits.
pub(crate) fn comparison(v_bits: f64, octaves: u32) -> (u32, u32) {
    // One bit above v_max in units, and the sign.
    ((v_bits - GUARD).floor() as u32, (f64::from(octaves) + GUARD + 1.0).ceil() as u32 + 2)
}

/// The best line in relative error for each bucket, on all inputs that may reach it.
fn start(plan: &Plan, v_min: f64, octaves: u32, per_octave: u32) -> Piecewise {
    let unit = plan.unit();
    let problem = Problem {
        name: "rsqrt",
        f: &exact,
        weight: &f64::sqrt,
        degree: 1,
        unit,
        grids: plan.grids(),
        least: 0.0,
        left: &|_| ([0.0; 3], 0),
        right: &|_| ([0.0; 3], 0),
    };
    let buckets = octaves * per_octave;
    let edge = |k: u32| v_min * (f64::from(k) / f64::from(per_octave)).exp2();
    // The zone [tau - 1, tau) that is centred on each inner edge; the ends are no thresholds.
    let tau = |k: u32| (edge(k) / unit + 0.5).round();
    let from = |k: u32| if k == 0 { v_min } else { (tau(k) - 1.0) * unit };
    let to = |k: u32| if k + 1 == buckets { edge(buckets) } else { tau(k + 1) * unit };
    Piecewise {
        knots: (1..buckets).map(|k| (tau(k) - 0.5) * unit).collect(),
        pieces: (0..buckets).map(|k| problem.rounded(from(k), to(k), f64::INFINITY).0).collect(),
    }
}

#[cfg(test)]
#[path = "rsqrt_tests.rs"]
mod tests;
