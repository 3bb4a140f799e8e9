//! The error of a fixed-point form against the true function, searched over its inputs.
//!
//! Two figures. [`FixedPiecewise::error_bound`] is a bound: the real error of every piece on a grid over
//! every input that may reach it, plus what a twice differentiable function can do between grid points
//! (`h^2/8 max |f'' - p''|`), plus one output ulp for the final truncation. [`FixedPiecewise::scan`] is what
//! was seen: the integer twin for all four carries on a grid.
//!
//! Both search inside `core`; the bound also looks at the ends of the input range. The caller vouches that
//! beyond `core` only the tail pieces act and that their error is monotone there.

use crate::fixed::FixedPiecewise;

/// Largest errors seen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Errors {
    /// Largest absolute error.
    pub abs: f64,
    /// Where.
    pub abs_at: f64,
    /// Largest relative error.
    pub rel: f64,
    /// Where.
    pub rel_at: f64,
}

impl Errors {
    /// Takes one more comparison into account.
    pub fn note(&mut self, x: f64, got: f64, want: f64) {
        let abs = (got - want).abs();
        if abs > self.abs {
            (self.abs, self.abs_at) = (abs, x);
        }
        if abs > self.rel * want.abs() && want != 0.0 {
            (self.rel, self.rel_at) = (abs / want.abs(), x);
        }
    }
}

impl FixedPiecewise {
    /// An upper bound of `|protocol - f|` over the input range, all carries included;
    /// `curvature >= max |f''|` on `core`.
    pub fn error_bound(&self, f: impl Fn(f64) -> f64, curvature: f64, core: (f64, f64)) -> f64 {
        let ulp = (-f64::from(self.in_frac())).exp2();
        let step = ((self.cmp_shift() as f64).exp2() / 8.0).max(1.0);
        let mut worst: f64 = 0.0;
        for k in 0..=self.thresholds().len() {
            let (from, to) = self.reach_int(k);
            let error = |x: f64| (self.eval_piece(k, x) - f(x)).abs();
            let (a, b) = ((from as f64).max(core.0 / ulp), (to as f64).min(core.1 / ulp));
            let between = (step * ulp).powi(2) / 8.0 * (curvature + self.second_derivative(k).abs());
            // The ends of the piece and of the core close the last interval, so they carry its allowance too.
            let ends = [from as f64, to as f64, b].map(|x| error(x.max(from as f64) * ulp) + between);
            worst = ends.into_iter().fold(worst, f64::max);
            let mut x = a;
            while x < b {
                worst = worst.max(error(x * ulp) + between);
                x += step;
            }
        }
        worst + (-f64::from(self.out_frac())).exp2()
    }

    /// The largest errors of the integer twin over all four carries at `points + 1` inputs evenly spread over
    /// `core`.
    pub fn scan(&self, f: impl Fn(f64) -> f64, core: (f64, f64), points: usize) -> Errors {
        let one = f64::from(self.in_frac()).exp2();
        let (lo, hi) = self.input_range_int();
        let (a, b) = ((core.0 * one).max(lo as f64) as i64, (core.1 * one).min(hi as f64) as i64);
        // Sample i of n lies at a + i/n (b - a); i128 keeps the product exact.
        let at = |i: usize| a + (i128::from(b - a) * i as i128 / points.max(1) as i128) as i64;
        let mut errors = Errors::default();
        for x in (0..=points).map(at) {
            for got in self.outcomes(x) {
                errors.note(x as f64 / one, got, f(x as f64 / one));
            }
        }
        errors
    }

    /// The four results of the protocol at the integer input `x`, as real numbers.
    pub fn outcomes(&self, x: i64) -> [f64; 4] {
        let unit = (-f64::from(self.out_frac())).exp2();
        let r = self.ring();
        [(false, false), (false, true), (true, false), (true, true)]
            .map(|(j, c)| r.to_signed(self.eval_jitter(r.from_signed(x), j, c)) as f64 * unit)
    }
}
