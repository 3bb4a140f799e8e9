//! The integer form of a piecewise polynomial, as the protocol evaluates it.
//!
//! Input `X` (a signed integer in `Z_2^l` with `in_frac` fractional bits), output with `out_frac`. Steps:
//!
//! 1. `x' = TR(X)`: truncate-reduce by `s = cmp_shift` bits, one ulp added, into `Z_2^n`,
//!    `n = cmp_bits <= l - s`. Local. `x'` is one of the two values of [`crate::trunc`]. At `s = 0` nothing
//!    is added and `x' = X mod 2^n`.
//! 2. `b_k = [x' >= tau_k] = 1 - msb(x' - tau_k mod 2^n)` for all thresholds at once.
//! 3. `Y = base(X) + sum_k b_k steps_k(X)` in `Z_2^l`: the coefficient of `x^j` has scale
//!    `sum_frac - j in_frac`, so every term has scale `S = sum_frac`. Terms may wrap; the sum of the chosen
//!    piece does not, and the steps telescope exactly: `base + steps_1 + .. + steps_k` is piece `k` as
//!    integers.
//! 4. Known-sign truncation of `Y` by `S - out_frac` bits, one ulp added ([`crate::trunc::trunc`]).
//!
//! The constant of `base` is one less than the rounded coefficient: with the truncation's ulp this makes step
//! 4 the floor or the ceiling of the exact quotient, so a tail that is exactly `0`, `1` or `x` is returned
//! exactly.
//!
//! Threshold `tau_k` is reached surely for `X >= tau_k 2^s - 1` and surely not for `X < (tau_k - 1) 2^s`;
//! between, the sharing decides. A fit must hold for *both* pieces there. A knot at real `t` becomes the
//! `tau` whose zone is centred on it.

use crate::error::ApproxError;
use crate::piecewise::{Piecewise, poly2};
use crate::plan::Plan;
use crate::rounding::round_form;
use crate::trunc::trunc;
use fesc_ring::Ring;

/// The integer form over `Z_2^l` used by the protocol; see the module for the steps.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedPiecewise {
    ring: Ring,
    in_frac: u32,
    out_frac: u32,
    sum_frac: u32,
    cmp_shift: u32,
    cmp: Ring,
    thresholds: Vec<u64>,
    base: [u64; 3],
    steps: Vec<[u64; 3]>,
    degree: usize,
    /// All pieces as integers, before the exactness offset; `pieces[0]` and the differences give `base` and
    /// `steps`.
    pieces: Vec<[i64; 3]>,
    range: (i64, i64),
}

impl FixedPiecewise {
    /// Rounds a piecewise polynomial to the grids of the protocol and checks every range.
    ///
    /// Coefficients are rounded from `x^2` down; what rounding takes from one is put back, as well as it can
    /// be, into the lower ones over the inputs that may reach the piece.
    ///
    /// # Errors
    /// Refuses shapes, widths, thresholds, scales and ranges for which the protocol would be wrong on some
    /// input.
    pub fn new(
        form: &Piecewise,
        ring: Ring,
        in_frac: u32,
        out_frac: u32,
        sum_frac: u32,
        cmp_shift: u32,
        cmp_bits: u32,
    ) -> Result<Self, ApproxError> {
        Self::with_plan(form, &Plan { ring, in_frac, out_frac, sum_frac, cmp_shift, cmp_bits }, None)
    }

    /// As [`Self::new`], for inputs promised to lie in `limit` (real numbers, both ends included).
    ///
    /// # Errors
    /// As [`Self::new`]; ranges are checked on the promised inputs only.
    pub fn with_plan(form: &Piecewise, plan: &Plan, limit: Option<(f64, f64)>) -> Result<Self, ApproxError> {
        check_plan(plan, form.degree())?;
        let (taus, pieces) = round_form(form, plan, limit)?;
        Self::from_integers(plan, &taus, pieces, limit)
    }

    /// The form with these thresholds (signed, ascending) and integer pieces: what a table holds. Same checks
    /// as [`Self::new`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn from_integers(
        plan: &Plan,
        taus: &[i64],
        pieces: Vec<[i64; 3]>,
        limit: Option<(f64, f64)>,
    ) -> Result<Self, ApproxError> {
        let Plan { ring, in_frac, out_frac, sum_frac, cmp_shift, .. } = *plan;
        if pieces.len() != taus.len() + 1 {
            return Err(ApproxError::PieceCount { knots: taus.len(), pieces: pieces.len() });
        }
        let degree = (1..3).rev().find(|&j| pieces.iter().any(|p| p[j] != 0)).unwrap_or(0);
        let cmp = check_plan(plan, degree)?;
        if let Some(index) = taus.windows(2).position(|w| w[0] >= w[1]) {
            return Err(ApproxError::KnotOrder { index, cmp_shift });
        }
        let range = promised_range(taus, plan, limit)?;
        for (k, piece) in pieces.iter().enumerate() {
            if let Some(power) = piece.iter().position(|&c| ring.to_signed(ring.from_signed(c)) != c) {
                return Err(ApproxError::CoefficientRange { piece: k, power, ring_bits: ring.bits() });
            }
            check_sum(piece, reach(taus, range, cmp_shift, k), sum_frac - out_frac, ring.bits())?;
        }
        let mut base = pieces[0].map(|c| ring.from_signed(c));
        if sum_frac > out_frac {
            base[0] = ring.sub(base[0], 1);
        }
        let step = |w: &[[i64; 3]]| std::array::from_fn(|j| ring.from_signed(w[1][j].wrapping_sub(w[0][j])));
        let steps = pieces.windows(2).map(step).collect();
        let thresholds = taus.iter().map(|&t| cmp.from_signed(t)).collect();
        Ok(Self { ring, in_frac, out_frac, sum_frac, cmp_shift, cmp, thresholds, base, steps, degree, pieces, range })
    }

    /// `Z_2^l`.
    pub fn ring(&self) -> Ring {
        self.ring
    }
    /// Fractional bits of the input.
    pub fn in_frac(&self) -> u32 {
        self.in_frac
    }
    /// Fractional bits of the output.
    pub fn out_frac(&self) -> u32 {
        self.out_frac
    }
    /// Fractional bits `S` of the accumulated sum.
    pub fn sum_frac(&self) -> u32 {
        self.sum_frac
    }
    /// Bits that the final known-sign truncation drops: `S - out_frac`.
    pub fn trunc_bits(&self) -> u32 {
        self.sum_frac - self.out_frac
    }
    /// `s`: low bits dropped before the comparison.
    pub fn cmp_shift(&self) -> u32 {
        self.cmp_shift
    }
    /// `n`: width of the comparison ring.
    pub fn cmp_bits(&self) -> u32 {
        self.cmp.bits()
    }
    /// `tau_k` in `Z_2^n`, ascending as signed numbers, in units of `2^s` input ulps.
    pub fn thresholds(&self) -> &[u64] {
        &self.thresholds
    }
    /// Piece 0, with the exactness offset in its constant: coefficients of `1, x, x^2` mod `2^l`.
    pub fn base(&self) -> &[u64; 3] {
        &self.base
    }
    /// `piece_k - piece_(k-1)` for `k = 1..=K`, same scales as [`Self::base`].
    pub fn steps(&self) -> &[[u64; 3]] {
        &self.steps
    }
    /// Highest power in use (0, 1 or 2).
    pub fn degree(&self) -> usize {
        self.degree
    }
    /// The thresholds as signed numbers.
    pub fn thresholds_int(&self) -> Vec<i64> {
        self.thresholds.iter().map(|&t| self.cmp.to_signed(t)).collect()
    }
    /// All pieces as integers, without the exactness offset.
    pub fn pieces_int(&self) -> &[[i64; 3]] {
        &self.pieces
    }
    /// First and last input integer for which the protocol is right.
    pub fn input_range_int(&self) -> (i64, i64) {
        self.range
    }
    /// [`Self::input_range_int`] as real numbers.
    pub fn input_range(&self) -> (f64, f64) {
        let ulp = (-f64::from(self.in_frac)).exp2();
        (self.range.0 as f64 * ulp, self.range.1 as f64 * ulp)
    }
    /// First and last input integer for which piece `k` may be chosen.
    pub fn reach_int(&self, k: usize) -> (i64, i64) {
        reach(&self.thresholds_int(), self.range, self.cmp_shift, k)
    }

    /// The rounded pieces as a real function: thresholds at the centre of their zones, no jitter, no
    /// truncation.
    pub fn eval_f64(&self, x: f64) -> f64 {
        let unit = (f64::from(self.cmp_shift) - f64::from(self.in_frac)).exp2();
        let half = if self.cmp_shift == 0 { 0.0 } else { 0.5 };
        let k = self.thresholds.partition_point(|&t| (self.cmp.to_signed(t) as f64 - half) * unit <= x);
        self.eval_piece(k, x)
    }

    /// The protocol's result when every carry is lost: floor thresholds, floor truncation.
    pub fn eval_exact(&self, x: u64) -> u64 {
        self.eval_jitter(x, false, false)
    }

    /// The protocol's result for given carries: `j` for the truncate-reduce, `c` for the final truncation
    /// (`true`: the larger of the two values). Also right outside the input range, up to the truncation's own
    /// range.
    pub fn eval_jitter(&self, x: u64, j: bool, c: bool) -> u64 {
        trunc(self.ring, self.sum(x, j), self.trunc_bits(), c)
    }

    /// Step 3 for the carry `j`: the sum at scale `S` before the final truncation.
    pub fn sum(&self, x: u64, j: bool) -> u64 {
        let r = self.ring;
        let x = r.reduce(x);
        let reduced = self.cmp.reduce(trunc(r, x, self.cmp_shift, j));
        let powers = [1, x, r.mul(x, x)];
        let dot = |c: &[u64; 3]| c.iter().zip(powers).fold(0, |acc, (&c, p)| r.add(acc, r.mul(c, p)));
        let mut y = dot(&self.base);
        for (tau, step) in self.thresholds.iter().zip(&self.steps) {
            let msb = self.cmp.sub(reduced, *tau) >> (self.cmp.bits() - 1);
            y = r.add(y, (1 - msb) * dot(step));
        }
        r.reduce(y)
    }

    /// Piece `k` after rounding, at `x`, wherever `x` lies.
    pub fn eval_piece(&self, k: usize, x: f64) -> f64 {
        self.pieces.get(k).map_or(f64::NAN, |p| poly2(&self.real(p), x))
    }

    /// Second derivative of piece `k`.
    pub(crate) fn second_derivative(&self, k: usize) -> f64 {
        self.pieces.get(k).map_or(0.0, |p| 2.0 * self.real(p)[2])
    }

    /// Real coefficients of an integer piece.
    fn real(&self, piece: &[i64; 3]) -> [f64; 3] {
        std::array::from_fn(|j| piece[j] as f64 * grid(self.in_frac, self.sum_frac, j))
    }
}

/// Value of one unit of the coefficient of `x^j`: `2^(j in_frac - sum_frac)`.
pub(crate) fn grid(in_frac: u32, sum_frac: u32, j: usize) -> f64 {
    (j as f64 * f64::from(in_frac) - f64::from(sum_frac)).exp2()
}

/// Widths and scales that make sense together; gives the comparison ring.
fn check_plan(plan: &Plan, degree: usize) -> Result<Ring, ApproxError> {
    let Plan { ring, in_frac, out_frac, sum_frac, cmp_shift, cmp_bits } = *plan;
    let l = ring.bits();
    let width = ApproxError::CompareWidth { cmp_bits, cmp_shift, ring_bits: l };
    if cmp_bits < 2 || l < 4 || u64::from(cmp_bits) + u64::from(cmp_shift) > u64::from(l) {
        return Err(width);
    }
    let need = (degree as u64 * u64::from(in_frac)).max(out_frac.into()).min(u64::from(u32::MAX)) as u32;
    if sum_frac < need || sum_frac - out_frac >= l - 2 || sum_frac >= 2 * l || in_frac >= 2 * l {
        return Err(ApproxError::SumScale { sum_frac, degree, in_frac, out_frac, need });
    }
    Ring::new(cmp_bits).map_err(|_| width)
}

/// The inputs that compare rightly and that the caller promises to keep to.
pub(crate) fn promised_range(taus: &[i64], plan: &Plan, limit: Option<(f64, f64)>) -> Result<(i64, i64), ApproxError> {
    let range = input_range(taus, plan.cmp_shift, plan.cmp_bits)?;
    let Some((low, high)) = limit else { return Ok(range) };
    let one = f64::from(plan.in_frac).exp2();
    let range = (range.0.max((low * one).ceil() as i64), range.1.min((high * one).floor() as i64));
    if range.0 > range.1 {
        return Err(ApproxError::Parameter { what: "upper input limit", value: high, remedy: "leave some input" });
    }
    Ok(range)
}

/// Inputs for which `x' - tau` keeps its sign for every threshold and both carries.
fn input_range(taus: &[i64], shift: u32, bits: u32) -> Result<(i64, i64), ApproxError> {
    let half = 1i128 << (bits - 1);
    let top = taus.last().map_or(0, |&t| i128::from(t).max(0));
    let low = taus.first().map_or(0, |&t| i128::from(t).min(0));
    let (first, end) = (top - half, half - 1 + low);
    if first >= end {
        return Err(ApproxError::ThresholdRange { value: if top > -low { top } else { low }, cmp_bits: bits });
    }
    // At shift 0 there is no second carry, so the last value counts too.
    let last = (end << shift) - i128::from(shift > 0);
    Ok(((first << shift) as i64, last as i64))
}

/// Inputs within `range` for which piece `k` may be chosen.
pub(crate) fn reach(taus: &[i64], range: (i64, i64), shift: u32, k: usize) -> (i64, i64) {
    let zone = i128::from(shift > 0);
    let from = k.checked_sub(1).and_then(|i| taus.get(i)).map(|&t| (i128::from(t) - zone) << shift);
    let to = taus.get(k).map(|&t| (i128::from(t) << shift) - 1 - zone);
    let clamp = |v: Option<i128>, or: i64| v.map_or(or, |v| v.clamp(range.0.into(), range.1.into()) as i64);
    (clamp(from, range.0), clamp(to, range.1))
}

/// The chosen piece stays inside the range of the known-sign truncation.
fn check_sum(c: &[i64; 3], reach: (i64, i64), shift: u32, l: u32) -> Result<(), ApproxError> {
    let limit = (1i128 << (l - 2)) - (1i128 << shift);
    let value = |x: f64| c[0] as f64 + x * (c[1] as f64 + x * c[2] as f64);
    let mut worst = value(reach.0 as f64).abs().max(value(reach.1 as f64).abs());
    if c[2] != 0 {
        let vertex = -(c[1] as f64) / (2.0 * c[2] as f64);
        if vertex > reach.0 as f64 && vertex < reach.1 as f64 {
            worst = worst.max(value(vertex).abs());
        }
    }
    // The f64 evaluation is good to a relative 1e-15 of its largest term: ask for that much room.
    let top = reach.0.unsigned_abs().max(reach.1.unsigned_abs()) as f64;
    let slack =
        1e-14 * (c[0].unsigned_abs() as f64 + top * (c[1].unsigned_abs() as f64 + top * c[2].unsigned_abs() as f64));
    if worst + slack + 1.0 >= limit as f64 {
        return Err(ApproxError::Overflow { what: "sum of a piece", log2: worst.log2(), shift, limit: l - 2 });
    }
    Ok(())
}

#[cfg(test)]
#[path = "fixed_tests.rs"]
mod tests;
