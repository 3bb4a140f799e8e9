//! NeRMS: `1/sqrt(v)` by a constant per bucket and Newton steps (paper, algorithm nerms).
//!
//! `K` buckets of equal ratio over the calibrated range. The constant of a bucket `[a, b]` is
//! `sqrt(3 / (a + sqrt(ab) + b))`, the one for which the error after one step is the same at both ends (the
//! paper does not say which it takes). Ratio 2: 17 %, 4.4 % (N1), 2.8e-3 (N2), 1.2e-5 (N3). Ours, with a line
//! per bucket, is [`crate::rsqrt`].
//!
//! Integer form, scales chosen by the constructor (`w` has 20 bits):
//! 1. `v` with `v_frac` bits is the caller's.
//! 2. One truncate-reduce of `v`, `K - 1` comparisons `e_j = [v' >= b_j]` (one carry).
//!    `y = y_0 + sum_j e_j (y_j - y_(j-1))` with `y_frac` bits and, from the *same* bits, `s = y^2` with
//!    `s_frac` bits: two [`FixedPiecewise`] of degree 0 with equal thresholds, no truncation.
//! 3. For each step, "truncate" being "subtract 1, known-sign truncation":
//!    - `w = v s`, truncate by `v_frac + s_frac - 20`;
//!    - `y = y (3 2^20 - w)`, truncate by 21 (the paper's 3/2 and 1/2, without a truncation for the half);
//!    - unless it was the last: `s = y y`, truncate by `2 y_frac - s_frac`.
//!
//! Carries in this order. Secret products: `3 steps - 1`, as the paper says.

use crate::error::ApproxError;
use crate::fixed::FixedPiecewise;
use crate::piecewise::Piecewise;
use crate::plan::Plan;
use crate::trunc::round;
use fesc_ring::Ring;

const W_FRAC: u32 = 20;
const Y_BITS: f64 = 22.0;

/// The form over the reals.
#[derive(Debug, Clone, PartialEq)]
pub struct NeRms {
    /// `b_1 < .. < b_(K-1)`.
    pub boundaries: Vec<f64>,
    /// `y_0 .. y_(K-1)`.
    pub initialisers: Vec<f64>,
    /// Newton steps.
    pub steps: u32,
    /// First and last `v` of the calibration.
    pub range: (f64, f64),
}

impl NeRms {
    /// `buckets` buckets of equal ratio on `[v_min, v_max]`; the paper has 8 and one step.
    ///
    /// # Errors
    /// For an empty range or fewer than two buckets.
    pub fn calibrate(v_min: f64, v_max: f64, buckets: u32, steps: u32) -> Result<Self, ApproxError> {
        if !(v_min > 0.0 && v_max > v_min && v_max.is_finite()) {
            return Err(ApproxError::Parameter {
                what: "v_max",
                value: v_max,
                remedy: "above v_min, and v_min above 0",
            });
        }
        if steps > 16 {
            return Err(ApproxError::Parameter { what: "steps", value: steps.into(), remedy: "at most 16" });
        }
        if !(2..=64).contains(&buckets) {
            return Err(ApproxError::Parameter { what: "buckets", value: buckets.into(), remedy: "2 to 64" });
        }
        let edge = |k: u32| v_min * (v_max / v_min).powf(f64::from(k) / f64::from(buckets));
        let initialiser = |a: f64, b: f64| (3.0 / (a + (a * b).sqrt() + b)).sqrt();
        Ok(Self {
            boundaries: (1..buckets).map(edge).collect(),
            initialisers: (0..buckets).map(|k| initialiser(edge(k), edge(k + 1))).collect(),
            steps,
            range: (v_min, v_max),
        })
    }

    /// The value at `v`.
    pub fn eval_f64(&self, v: f64) -> f64 {
        let k = self.boundaries.partition_point(|&b| b <= v);
        let start = self.initialisers.get(k).copied().unwrap_or(f64::NAN);
        (0..self.steps).fold(start, |y, _| y * (1.5 - 0.5 * v * y * y))
    }

    /// Largest relative error on the range, by dense search.
    pub fn relative_error(&self) -> f64 {
        let (lo, hi) = self.range;
        let points = 40_000;
        (0..=points)
            .map(|i| lo * (hi / lo).powf(f64::from(i) / f64::from(points)))
            .map(|v| (self.eval_f64(v) * v.sqrt() - 1.0).abs())
            .fold(0.0, f64::max)
    }

    /// The integer form over `octaves` octaves from `v_min` up, as [`crate::rsqrt::Rsqrt::new`] has them,
    /// with its comparison.
    ///
    /// # Errors
    /// As [`Self::calibrate`] and [`Self::fixed`].
    pub fn octaves(
        ring: Ring,
        v_min: f64,
        octaves: u32,
        (buckets, steps): (u32, u32),
        v_frac: u32,
    ) -> Result<NeRmsFixed, ApproxError> {
        if octaves == 0 || octaves > 40 {
            return Err(ApproxError::Parameter { what: "octaves", value: octaves.into(), remedy: "1 to 40" });
        }
        let (shift, bits) = crate::rsqrt::comparison(v_min.log2() + f64::from(v_frac), octaves);
        Self::calibrate(v_min, v_min * f64::from(octaves).exp2(), buckets, steps)?.fixed(ring, v_frac, shift, bits)
    }

    /// The integer form for `v` with `v_frac` bits; comparisons drop `cmp_shift` bits into `cmp_bits`.
    ///
    /// # Errors
    /// If a product would overflow or the comparison does not fit.
    pub fn fixed(&self, ring: Ring, v_frac: u32, cmp_shift: u32, cmp_bits: u32) -> Result<NeRmsFixed, ApproxError> {
        if v_frac > 64 {
            return Err(ApproxError::Parameter { what: "v_frac", value: v_frac.into(), remedy: "at most 64" });
        }
        let limit = ring.bits().saturating_sub(2);
        let log_v = self.range.0.log2();
        let y_frac = (Y_BITS + log_v / 2.0).floor();
        // w = v s is about 1: give s all bits that the product, and s itself, can have.
        let s_frac =
            (f64::from(limit) - 2.0 - f64::from(v_frac)).min(f64::from(limit) - 2.0 + log_v.min(0.0)).min(2.0 * y_frac);
        if y_frac < 0.0 || s_frac + f64::from(v_frac) < f64::from(W_FRAC) || s_frac < 0.0 {
            return Err(ApproxError::Parameter {
                what: "v_frac",
                value: v_frac.into(),
                remedy: "fewer bits, or a larger v_min",
            });
        }
        let (y_frac, s_frac) = (y_frac as u32, s_frac.floor() as u32);
        let size = Y_BITS + 3f64.log2() + f64::from(W_FRAC);
        if size >= f64::from(limit) {
            return Err(ApproxError::Overflow { what: "y (3 - v y^2)", log2: size, shift: W_FRAC + 1, limit });
        }
        // Far below v_min every step multiplies y by 1.5, and y or its square may outgrow the ring: then
        // inputs are promised from v_min on only.
        let grown = self.initialisers.first().map_or(0.0, |y| y.log2())
            + f64::from(y_frac)
            + f64::from(self.steps.saturating_sub(1)) * 1.5f64.log2();
        let square_grown = if self.steps > 1 { 2.0 * grown } else { 0.0 };
        let largest = square_grown.max(grown + 3f64.log2() + f64::from(W_FRAC));
        let least = if largest + 0.01 < f64::from(limit) { 0.0 } else { self.range.0 };
        let table = |frac: u32, value: &dyn Fn(f64) -> f64| {
            let plan = Plan { ring, in_frac: v_frac, out_frac: frac, sum_frac: frac, cmp_shift, cmp_bits };
            let pieces = self.initialisers.iter().map(|&y| [value(y), 0.0, 0.0]).collect();
            FixedPiecewise::with_plan(
                &Piecewise { knots: self.boundaries.clone(), pieces },
                &plan,
                Some((least, self.range.1)),
            )
        };
        let (start, square) = (table(y_frac, &|y| y)?, table(s_frac, &|y| y * y)?);
        Ok(NeRmsFixed { start, square, steps: self.steps })
    }
}

/// The integer form; see the module for the steps.
#[derive(Debug, Clone, PartialEq)]
pub struct NeRmsFixed {
    start: FixedPiecewise,
    square: FixedPiecewise,
    steps: u32,
}

impl NeRmsFixed {
    /// The table of `y`.
    pub fn start(&self) -> &FixedPiecewise {
        &self.start
    }
    /// The table of `y^2`, for the same bits.
    pub fn square(&self) -> &FixedPiecewise {
        &self.square
    }
    /// Newton steps.
    pub fn steps(&self) -> u32 {
        self.steps
    }
    /// Fractional bits of the output.
    pub fn y_frac(&self) -> u32 {
        self.start.out_frac()
    }
    /// Fractional bits of `w`.
    pub fn w_frac(&self) -> u32 {
        W_FRAC
    }
    /// Bits dropped after `v s`, `y (3 - w)` and `y y`.
    pub fn shifts(&self) -> [u32; 3] {
        let (v, y, s) = (self.start.in_frac(), self.start.out_frac(), self.square.out_frac());
        [v + s - W_FRAC, W_FRAC + 1, 2 * y - s]
    }

    /// What the protocol computes, carries drawn in the order of the module's steps.
    pub fn eval(&self, v: u64, carry: &mut dyn FnMut() -> bool) -> u64 {
        let r = self.start.ring();
        let [by_w, by_y, by_s] = self.shifts();
        let v = r.reduce(v);
        let j = carry();
        let (mut y, mut s) = (self.start.eval_jitter(v, j, false), self.square.eval_jitter(v, j, false));
        for step in 0..self.steps {
            let w = round(r, r.mul(v, s), by_w, carry());
            y = round(r, r.mul(y, r.sub(3 << W_FRAC, w)), by_y, carry());
            if step + 1 < self.steps {
                s = round(r, r.mul(y, y), by_s, carry());
            }
        }
        y
    }
}
