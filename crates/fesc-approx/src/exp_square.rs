//! `exp(z) ~ (1 + y + y^2/2)^(2^k)`, `y = z / 2^k`, clamped at `z = -2^k`.
//!
//! Exact at 0 and never above 1, with `k + 1` squares: for a decay that must be made token by token and
//! multiplied up. Without the clamp the form is wrong below `-2^(k+1)` (1 at -16, 48 at -20 for `k = 3`).
//!
//! Steps. Input `Z` with `in_frac` bits; call `Fy = in_frac + k`, so that the same integer is `y` with `Fy`
//! bits.
//! 1. Clamp: [`ExpSquare::clamp`], a [`FixedPiecewise`] of degree 1 with one threshold and `S = in_frac`: no
//!    truncation. Gives `Z'`.
//! 2. `M = Z' + 2^Fy`, that is `1 + y` with `Fy` bits, in `[-small, 2^Fy]`. Local.
//! 3. `Q = M^2 + 2^(2 Fy)`, that is `2 (1 + y + y^2/2) = (1 + y)^2 + 1` with `2 Fy` bits; subtract 1;
//!    truncate by `2 Fy + 1 - frac`.
//! 4. `k` times: `Q <- Q^2`, subtract 1, truncate by `frac`.
//!
//! "Subtract 1, truncate" is [`crate::trunc::round`]: floor or ceiling. So `Q = 2^frac` stays exactly there,
//! and nothing passes it. Carries are drawn in the order of the steps: the clamp's comparison, then one per
//! truncation.
//!
//! Ranges: `Q < 2^(2 Fy + 1)` and `Q^2 <= 2^(2 frac)` must be below `2^(l-2)`; at `l = 48`, `k = 3` this
//! means `in_frac <= 19`, `frac <= 22`. Error: that of the form (0.00504 at `k = 3`) plus at most
//! `2^(k+1) - 1` output ulps: an ulp of stage `i` is multiplied by at most `2^(k-i)` by the squarings after
//! it.

use crate::error::ApproxError;
use crate::fixed::FixedPiecewise;
use crate::piecewise::Piecewise;
use crate::plan::{Plan, RING48};
use crate::trunc::round;
use fesc_ring::Ring;

/// The power form of exp and its fixed-point plan.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpSquare {
    k: u32,
    frac: u32,
    clamp: FixedPiecewise,
}

impl ExpSquare {
    /// The form with `2^k` as the power, `in_frac` input bits, `frac` output bits; comparisons drop
    /// `cmp_shift` bits into `cmp_bits`.
    ///
    /// # Errors
    /// If a square would leave the range of the known-sign truncation, or the clamp's comparison does not
    /// fit.
    pub fn new(
        ring: Ring,
        k: u32,
        in_frac: u32,
        frac: u32,
        cmp_shift: u32,
        cmp_bits: u32,
    ) -> Result<Self, ApproxError> {
        let limit = ring.bits().saturating_sub(2);
        if k == 0 || k > 8 {
            return Err(ApproxError::Parameter { what: "k", value: k.into(), remedy: "between 1 and 8" });
        }
        if in_frac > 64 || frac > 64 {
            let value = in_frac.max(frac).into();
            return Err(ApproxError::Parameter { what: "in_frac or frac", value, remedy: "at most 64" });
        }
        let fy = in_frac + k;
        for (what, log2, shift) in
            [("first square", 2 * fy + 1, (2 * fy + 1).saturating_sub(frac)), ("square", 2 * frac, frac)]
        {
            if log2 >= limit {
                return Err(ApproxError::Overflow { what, log2: log2.into(), shift, limit });
            }
        }
        if 2 * fy + 1 < frac || frac == 0 {
            return Err(ApproxError::Parameter {
                what: "frac",
                value: frac.into(),
                remedy: "at most 2 (in_frac + k) + 1",
            });
        }
        let plan = Plan { ring, in_frac, out_frac: in_frac, sum_frac: in_frac, cmp_shift, cmp_bits };
        let edge = -f64::from(k).exp2();
        // The zone of chance lies left of the edge, where the form is flat and still close.
        let half = if cmp_shift == 0 { 0.0 } else { plan.unit() / 2.0 };
        let form = Piecewise { knots: vec![edge - half], pieces: vec![[edge, 0.0, 0.0], [0.0, 1.0, 0.0]] };
        let clamp = FixedPiecewise::with_plan(&form, &plan, Some((f64::NEG_INFINITY, 0.0)))?;
        Ok(Self { k, frac, clamp })
    }

    /// `k = 3` on 48 bits: 19 bits in, 22 out, the clamp compares the whole ring (35 bits) with unit 1/64.
    ///
    /// # Errors
    /// None with these constants; a test holds them to it.
    pub fn preset() -> Result<Self, ApproxError> {
        Self::new(RING48, 3, 19, 22, 13, 35)
    }

    /// `k`: the number of squarings after the first square.
    pub fn k(&self) -> u32 {
        self.k
    }
    /// Fractional bits of the input.
    pub fn in_frac(&self) -> u32 {
        self.clamp.in_frac()
    }
    /// Fractional bits of every `Q` and of the output.
    pub fn frac(&self) -> u32 {
        self.frac
    }
    /// Step 1.
    pub fn clamp(&self) -> &FixedPiecewise {
        &self.clamp
    }
    /// Bits dropped in step 3.
    pub fn first_trunc(&self) -> u32 {
        2 * (self.in_frac() + self.k) + 1 - self.frac
    }

    /// The form over the reals.
    pub fn eval_f64(&self, z: f64) -> f64 {
        let scale = f64::from(self.k).exp2();
        let y = z.max(-scale) / scale;
        (0..self.k).fold(1.0 + y + y * y / 2.0, |q, _| q * q)
    }

    /// What the protocol computes for carries drawn from `carry` in the order of the module's steps.
    pub fn eval(&self, z: u64, carry: &mut dyn FnMut() -> bool) -> u64 {
        let r = self.clamp.ring();
        let fy = self.in_frac() + self.k;
        let clamped = self.clamp.eval_jitter(z, carry(), false);
        let m = r.add(clamped, 1 << fy);
        let first = r.add(r.mul(m, m), 1 << (2 * fy));
        let q = round(r, first, self.first_trunc(), carry());
        (0..self.k).fold(q, |q, _| round(r, r.mul(q, q), self.frac, carry()))
    }

    /// Largest difference between the protocol and the real form: `2^(k+1) - 1` output ulps.
    pub fn rounding_bound(&self) -> f64 {
        (f64::from(self.k + 1).exp2() - 1.0) * (-f64::from(self.frac)).exp2()
    }

    /// Largest error of the real form against exp, by dense search on `[-2^k - 1, 0]` (beyond, exp only
    /// falls).
    pub fn form_error(&self) -> f64 {
        let span = f64::from(self.k).exp2() + 1.0;
        let points = 20_000;
        (0..=points)
            .map(|i| -span * f64::from(i) / f64::from(points))
            .map(|z| (self.eval_f64(z) - z.exp()).abs())
            .fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fesc_ring::Prg;

    fn real(f: &ExpSquare, y: u64) -> f64 {
        f.clamp.ring().to_signed(y) as f64 / f64::from(f.frac).exp2()
    }

    #[test]
    fn form_error_is_as_stated() {
        let f = ExpSquare::preset().unwrap();
        let e = f.form_error();
        assert!(e > 0.00500 && e < 0.00505, "{e}");
        assert_eq!(f.eval_f64(0.0), 1.0);
        // What the clamp is for: without it the form grows again below -16.
        let open = |z: f64| (1.0 + z / 8.0 + z * z / 128.0f64).powi(8);
        assert!((open(-16.0) - 1.0).abs() < 1e-12 && open(-20.0) > 48.0);
        assert!(f.eval_f64(-20.0) < 0.004);
    }

    #[test]
    fn twin_is_close_to_the_form() {
        let f = ExpSquare::preset().unwrap();
        let mut prg = Prg::from_seed([7; 16]);
        let one = f64::from(f.in_frac()).exp2();
        for i in 0..200_000i64 {
            let z = -i * 25;
            let got = real(&f, f.eval(f.clamp.ring().from_signed(z), &mut || prg.next_u64() & 1 == 1));
            let want = f.eval_f64(z as f64 / one);
            // In the zone left of -8 the clamp may be off: the form is flat there.
            assert!((got - want).abs() <= f.rounding_bound() + 1e-6, "z = {z}: {got} {want}");
            assert!((0.0..=1.0).contains(&got));
        }
    }

    #[test]
    fn exact_at_zero_small_at_the_far_end() {
        let f = ExpSquare::preset().unwrap();
        for high in [false, true] {
            assert_eq!(real(&f, f.eval(0, &mut || high)), 1.0);
            for z in [-(1i64 << 47), -(1i64 << 46) - 1, -(1 << 40), -(17 << 19)] {
                let y = real(&f, f.eval(f.clamp.ring().from_signed(z), &mut || high));
                assert!((0.003..0.004).contains(&y), "{z} {y}");
            }
        }
    }

    #[test]
    fn refusals() {
        let make = |k, i, o| ExpSquare::new(RING48, k, i, o, 13, 35).unwrap_err();
        assert!(matches!(make(3, 20, 22), ApproxError::Overflow { what: "first square", .. }));
        assert!(matches!(make(3, 19, 23), ApproxError::Overflow { what: "square", .. }));
        assert!(matches!(make(0, 19, 22), ApproxError::Parameter { what: "k", .. }));
        assert!(matches!(ExpSquare::new(RING48, 3, 19, 22, 13, 36), Err(ApproxError::CompareWidth { .. })));
    }
}
