//! SiLU folded at 0: `silu(x) = x/2 + h(|x|)`, because `silu(x) - x/2` is even.
//!
//! Five thresholds of [`crate::silu`] become one for the sign and two for `|x|`. `h` has a line on
//! `|x| < 0.94`, one up to 5.3, and is `|x|/2` beyond, so that both tails are exact: `x`, and 0.
//!
//! | | bits |
//! |---|---|
//! | ring | 24 |
//! | input | 10 fractional, `|x| <= 124` |
//! | sum | 15 fractional: slopes are multiples of 1/32 |
//! | comparisons | 13, unit 1/32 |
//!
//! With input `X`:
//!
//! 1. `p = [TR(X - 16) >= 0]`. The offset of half a unit centres the zone of chance: sure from `X = 15` on,
//!    surely not below `X = -16`. `U = X` if `p`, else `-X`; so `U >= -16`, where `h` still fits.
//! 2. `b_k = [TR(U) >= tau_k]`, `k = 1, 2`, with one carry for both.
//! 3. `Y = 16 X + base(U) + b_1 step_1(U) + b_2 step_2(U)` in `Z_2^24`.
//! 4. `Y` is brought from 15 to the output's bits: floor or ceiling ([`crate::trunc::round`]), or exactly.
//!
//! `TR` drops 5 bits ([`crate::trunc`]). Error at most 0.0261 on top of rounding the input to 1/1024, where
//! five thresholds have 0.0267. Coarser slopes cost nothing: the right tail's begin decides the error.
//!
//! Nothing is promised for `|x| > 124`.

use crate::error::ApproxError;
use crate::plan::ring;
use crate::trunc::{trunc, trunc_int};
use fesc_ring::Ring;

const RING: Ring = ring(24);
const IN_FRAC: u32 = 10;
const SUM_FRAC: u32 = 15;
const CMP: Ring = ring(13);
const CMP_SHIFT: u32 = 5;

/// Largest magnitude of an input: the sum stays below `2^22 - 2^15`, so every truncation of it is right.
const LIMIT: i64 = 124 << IN_FRAC;

/// The slope of `x/2`.
const HALF: i64 = 1 << (SUM_FRAC - IN_FRAC - 1);

/// Thresholds of `|x|` in units of 1/32.
const THRESHOLDS: [i64; 2] = [30, 171];

/// Constant (15 fractional bits) and slope (5) of `h`, piece by piece.
const PIECES: [[i64; 2]; 3] = [[-740, 7], [-11246, 18], [0, 16]];

/// The form with so many bits of output. Its table is the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Folded {
    out_frac: u32,
}

impl Folded {
    /// With `out_frac` fractional bits in the result.
    ///
    /// # Errors
    /// Above 32 bits of output.
    pub fn new(out_frac: u32) -> Result<Self, ApproxError> {
        if out_frac > 32 {
            let remedy = "take at most 32 fractional bits";
            return Err(ApproxError::Parameter { what: "output of folded SiLU", value: out_frac.into(), remedy });
        }
        Ok(Self { out_frac })
    }

    /// The form whose result is the sum as it is.
    pub const fn untruncated() -> Self {
        Self { out_frac: SUM_FRAC }
    }

    /// `Z_2^24`. A result of more than 15 fractional bits needs a wider one.
    pub const fn ring(&self) -> Ring {
        RING
    }
    /// Fractional bits of the input.
    pub const fn in_frac(&self) -> u32 {
        IN_FRAC
    }
    /// Fractional bits of the result.
    pub const fn out_frac(&self) -> u32 {
        self.out_frac
    }
    /// Fractional bits of the sum.
    pub const fn sum_frac(&self) -> u32 {
        SUM_FRAC
    }
    /// Low bits dropped before both comparisons.
    pub const fn cmp_shift(&self) -> u32 {
        CMP_SHIFT
    }
    /// Width of both comparisons.
    pub const fn cmp_bits(&self) -> u32 {
        CMP.bits()
    }
    /// What is added to the input before its sign is taken.
    pub const fn sign_offset(&self) -> i64 {
        -(1 << (CMP_SHIFT - 1))
    }
    /// Thresholds of the magnitude, in the ring of the comparison.
    pub fn thresholds(&self) -> [u64; 2] {
        THRESHOLDS.map(|t| CMP.from_signed(t))
    }
    /// The slope of `x/2` at the sum's scale.
    pub const fn half(&self) -> u64 {
        HALF as u64
    }
    /// Constant and slope in `U` of the first piece of `h`, in the ring.
    pub fn base(&self) -> [u64; 2] {
        PIECES[0].map(|c| RING.from_signed(c))
    }
    /// What the pieces after the first add to the one before, likewise.
    pub fn steps(&self) -> [[u64; 2]; 2] {
        [0, 1].map(|k| [0, 1].map(|j| RING.from_signed(PIECES[k + 1][j] - PIECES[k][j])))
    }
    /// First and last input that it is right for.
    pub const fn input_range_int(&self) -> (i64, i64) {
        (-LIMIT, LIMIT)
    }
    /// All numbers of the table, for the parties to compare.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        let [base, steps, thresholds] = [self.base().to_vec(), self.steps().concat(), self.thresholds().to_vec()];
        [base, steps, thresholds].into_iter().flatten()
    }

    /// Step 1 for the carry of the sign's comparison: `U`.
    pub fn magnitude(&self, x: i64, sign: bool) -> i64 {
        let lowered = RING.add(RING.from_signed(x), RING.from_signed(self.sign_offset()));
        let positive = CMP.reduce(trunc(RING, lowered, CMP_SHIFT, sign)) >> (CMP.bits() - 1) == 0;
        if positive { x } else { -x }
    }

    /// Steps 1 to 3 for the carries of both comparisons.
    pub fn sum(&self, x: i64, sign: bool, magnitude: bool) -> i64 {
        let u = self.magnitude(x, sign);
        let at = RING.from_signed(u);
        let reduced = CMP.reduce(trunc(RING, at, CMP_SHIFT, magnitude));
        let line = |[c, slope]: [u64; 2]| RING.add(c, RING.mul(slope, at));
        let mut y = RING.add(RING.mul(self.half(), RING.from_signed(x)), line(self.base()));
        for (tau, step) in self.thresholds().into_iter().zip(self.steps()) {
            let reached = CMP.sub(reduced, tau) >> (CMP.bits() - 1) == 0;
            y = RING.add(y, if reached { line(step) } else { 0 });
        }
        RING.to_signed(y)
    }

    /// What the two parties compute for the carries of the sign's comparison, the magnitude's and the last
    /// truncation.
    pub fn eval(&self, x: i64, sign: bool, magnitude: bool, last: bool) -> i64 {
        let y = self.sum(x, sign, magnitude);
        match SUM_FRAC.checked_sub(self.out_frac) {
            Some(0) => y,
            Some(t) => trunc_int(i128::from(y) - 1, t, last) as i64,
            None => y << (self.out_frac - SUM_FRAC),
        }
    }

    /// The results of [`Self::eval`] for all carries, as real numbers.
    pub fn outcomes(&self, x: i64) -> [f64; 8] {
        let unit = (-f64::from(self.out_frac)).exp2();
        std::array::from_fn(|c| self.eval(x, c & 1 == 1, c & 2 == 2, c & 4 == 4) as f64 * unit)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::functions::silu;
    use std::collections::BTreeSet;

    const ONE: f64 = 1024.0;

    /// Every input of the whole range, every carry: the error has its bound, and comes close to it.
    #[test]
    fn error_over_the_whole_range() {
        let form = Folded::new(16).unwrap();
        let (low, high) = form.input_range_int();
        let (mut worst, mut at): (f64, i64) = (0.0, 0);
        for x in low..=high {
            let want = silu(x as f64 / ONE);
            for got in form.outcomes(x) {
                if (got - want).abs() > worst {
                    (worst, at) = ((got - want).abs(), x);
                }
            }
        }
        assert!(worst < 0.0261 && worst > 0.0260, "{worst} at {at}");
        // Fewer bits of output: one unit more at most, floor or ceiling.
        for out in [4, 8, 12, 14] {
            let short = Folded::new(out).unwrap();
            let unit = (-f64::from(out)).exp2();
            for x in (low..=high).step_by(37) {
                for (got, want) in short.outcomes(x).into_iter().zip(form.outcomes(x)) {
                    assert!((got - want).abs() < unit, "{out} {x}");
                }
            }
        }
    }

    /// Exactly x on the right and exactly 0 on the left, from the last zone of chance to both limits.
    #[test]
    fn tails_are_exact_to_both_limits() {
        for out in [8, 10, 12, 15, 16, 20] {
            let form = Folded::new(out).unwrap();
            let first = THRESHOLDS[1] << CMP_SHIFT;
            for x in (first - 1..first + 3).chain((first..=LIMIT).step_by(101)).chain([LIMIT - 1, LIMIT]) {
                let exact = |v: f64| {
                    let q = v * f64::from(out).exp2();
                    form.outcomes(x).iter().all(|got| {
                        let got = got * f64::from(out).exp2();
                        got == q.floor() || got == q.ceil()
                    })
                };
                assert!(exact(x as f64 / ONE), "{x} at {out} bits");
                assert_eq!(form.outcomes(-x), [0.0; 8], "{x} at {out} bits");
            }
        }
        // Control: one unit before, chance may still take the middle piece.
        let form = Folded::untruncated();
        let before = (THRESHOLDS[1] << CMP_SHIFT) - 2;
        assert!(form.outcomes(-before).iter().any(|&y| y != 0.0));
    }

    /// Chance is where the module says: at the sign, and at both thresholds.
    #[test]
    fn zones_of_chance() {
        let form = Folded::untruncated();
        let chance = |x: i64| BTreeSet::from([false, true].map(|j| form.magnitude(x, j) == x)).len() == 2;
        let zone: Vec<i64> = (-200..200).filter(|&x| chance(x) && x != 0).collect();
        assert_eq!((zone[0], zone[zone.len() - 1], zone.len()), (-16, 14, 30));
        for x in [-16, -1, 0, 1, 14, 15, -17] {
            assert!(form.magnitude(x, false).max(form.magnitude(x, true)) == x.abs() || x == -17 || x == 15);
            assert!(form.magnitude(x, false).min(form.magnitude(x, true)) >= -16);
        }
        for tau in THRESHOLDS {
            let differs = |u: i64| form.sum(u, true, false) != form.sum(u, true, true);
            let edge = tau << CMP_SHIFT;
            assert!(!differs(edge - 33) && differs(edge - 32) && differs(edge - 2) && !differs(edge - 1), "{tau}");
        }
        // Around 0 the result is x/2 and the first piece, whatever the sharing says.
        for x in [-1i64, 0, 1] {
            let y = form.outcomes(x).map(|y| (y * 32768.0) as i64);
            assert!(y.iter().all(|&y| y == 16 * x - 740 + 7 * x || y == 16 * x - 740 - 7 * x), "{x}: {y:?}");
        }
    }

    /// No other thresholds, slopes and constants near them do better: the table is a best one.
    #[test]
    fn the_table_is_a_best_fit() {
        let h = |u: f64| silu(u.abs()) - u.abs() / 2.0;
        let unit = 1.0 / 32.0;
        let half_step = |k: i64| k as f64 / 32.0;
        // The error of the best line of the slope on the interval; its constant.
        let line = |from: f64, to: f64, slope: f64| {
            let points = (0..=400).map(|i| from + (to - from) * f64::from(i) / 400.0);
            let (low, high) =
                points.map(|u| h(u) - slope * u).fold((f64::MAX, f64::MIN), |(l, m), e| (l.min(e), m.max(e)));
            ((high - low) / 2.0, (high + low) / 2.0)
        };
        let tail = |tau: i64| -silu(-(tau - 1) as f64 * unit);
        let error = |taus: [i64; 2], slopes: [i64; 2]| {
            let first = line(-unit / 2.0, taus[0] as f64 * unit, half_step(slopes[0])).0;
            let second = line((taus[0] - 1) as f64 * unit, taus[1] as f64 * unit, half_step(slopes[1])).0;
            first.max(second).max(tail(taus[1]))
        };
        let slopes = [PIECES[0][1], PIECES[1][1]];
        let best = error(THRESHOLDS, slopes);
        for tau in 20..42 {
            for last in 160..180 {
                for (a, b) in (5..10).flat_map(|a| (16..21).map(move |b| (a, b))) {
                    assert!(error([tau, last], [a, b]) > best - 1e-9, "{tau} {last} {a} {b}");
                }
            }
        }
        let constant = |piece: usize, from: f64, to: f64| {
            let (error, c) = line(from, to, half_step(PIECES[piece][1]));
            ((c * 32768.0 - PIECES[piece][0] as f64) / 32768.0).abs() + error
        };
        // Constants are rounded to 2^-15.
        let enough = best + (-16f64).exp2() + 1e-9;
        assert!(constant(0, -unit / 2.0, 30.0 * unit) <= enough && constant(1, 29.0 * unit, 171.0 * unit) <= enough);
    }

    #[test]
    fn odd_outputs() {
        assert!(Folded::new(33).is_err() && Folded::new(0).is_ok());
        assert_eq!(Folded::new(0).unwrap().outcomes(-LIMIT), [0.0; 8]);
        assert_eq!(Folded::new(32).unwrap().outcomes(LIMIT), [124.0; 8]);
    }
}
