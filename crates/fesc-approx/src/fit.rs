//! Fits with as few pieces as possible, the jitter of the comparison inside the objective.
//!
//! A threshold `tau` of the comparison ring (unit `u`) is decided by the sharing for inputs in
//! `[(tau-1)u, tau u)`, see [`crate::fixed`]. So the piece between `tau_k` and `tau_(k+1)` is fitted on
//! `[(tau_k - 1) u, tau_(k+1) u]`, all inputs that may reach it: the bound then holds for every carry. Pieces
//! are independent (they need not meet), so the greedy choice, the longest piece within the error, gives the
//! fewest. [`Problem::with_knots`] bisects the error for a given number of knots.
//!
//! Coefficients are fitted in the order of their grids: `x^2` (the coarsest) is rounded, the linear one
//! refitted and rounded, then the constant.

use crate::error::ApproxError;
use crate::piecewise::{Piecewise, poly2};
use crate::remez::minimax;

/// A tail for a given error: its coefficients and the threshold that bounds it.
pub type Tail<'a> = &'a dyn Fn(f64) -> ([f64; 3], i64);

/// What to fit.
pub struct Problem<'a> {
    /// Name for error messages.
    pub name: &'static str,
    /// The function.
    pub f: &'a dyn Fn(f64) -> f64,
    /// The weight of the error, above zero.
    pub weight: &'a dyn Fn(f64) -> f64,
    /// Degree of the inner pieces, 1 or 2.
    pub degree: usize,
    /// Unit of the comparison ring, `2^(s - in_frac)`.
    pub unit: f64,
    /// Grid of the coefficients of `1, x, x^2`.
    pub grids: [f64; 3],
    /// Pieces with an end below this are refused; the inputs in the zones of chance count.
    pub least: f64,
    /// Left tail and the largest threshold that may end it.
    pub left: Tail<'a>,
    /// Right tail and the smallest threshold that may begin it.
    pub right: Tail<'a>,
}

impl Problem<'_> {
    /// The fewest pieces with weighted error at most `target`; gives up above `max_knots`.
    pub fn within(&self, target: f64, max_knots: usize) -> Option<Piecewise> {
        let (left, first) = (self.left)(target);
        let (right, last) = (self.right)(target);
        let mut taus = vec![first];
        let mut pieces = vec![left];
        let mut tau = first;
        while tau < last {
            if taus.len() >= max_knots {
                return None;
            }
            let (next, piece) = self.longest(tau, last, target)?;
            taus.push(next);
            pieces.push(piece);
            tau = next;
        }
        pieces.push(right);
        let knots = taus.iter().map(|&t| (t as f64 - 0.5) * self.unit).collect();
        Some(Piecewise { knots, pieces })
    }

    /// The smallest error (to a relative 1e-3) that `knots` knots reach, and its fit.
    ///
    /// # Errors
    /// If even `worst` cannot be reached.
    pub fn with_knots(&self, knots: usize, worst: f64) -> Result<(Piecewise, f64), ApproxError> {
        let mut best = self.within(worst, knots).map(|p| (p, worst));
        let mut low = worst / 1024.0;
        while let Some((_, high)) = &best {
            let mid = (low * high).sqrt();
            if mid > high / 1.001 {
                break;
            }
            match self.within(mid, knots) {
                Some(p) => best = Some((p, mid)),
                None => low = mid,
            }
        }
        best.ok_or(ApproxError::NoFit { what: self.name, pieces: knots + 1, target: worst })
    }

    /// The longest piece from `tau` on, not beyond `last`.
    fn longest(&self, tau: i64, last: i64, target: f64) -> Option<(i64, [f64; 3])> {
        let powers: &[u32] = if self.degree == 2 { &[0, 1, 2] } else { &[0, 1] };
        let free = |to: i64| minimax(self.f, self.weight, powers, self.real(tau - 1), self.real(to)).error <= target;
        let reach = last_true(tau + 1, last, free)?;
        // Rounded coefficients are a little worse, and not monotone in the length.
        (tau + 1..=reach).rev().find_map(|to| {
            let (piece, error) = self.rounded(self.real(tau - 1), self.real(to), target);
            let low = poly2(&piece, self.real(tau - 1)).min(poly2(&piece, self.real(to)));
            (error <= target && low >= self.least).then_some((to, piece))
        })
    }

    /// The best piece with rounded coefficients on `[a, b]`, trying both neighbours of the leading one, and
    /// its error. Gives up, with an infinite error, as soon as the error must exceed `enough`.
    pub fn rounded(&self, a: f64, b: f64, enough: f64) -> ([f64; 3], f64) {
        let best =
            |taken: &[f64; 3], powers: &[u32]| minimax(|x| (self.f)(x) - poly2(taken, x), self.weight, powers, a, b);
        let round = |c: f64, j: usize| (c / self.grids[j]).round() * self.grids[j];
        let linear = |mut c: [f64; 3]| {
            let line = best(&c, &[0, 1]);
            if line.error > enough {
                return (c, f64::INFINITY);
            }
            c[1] = round(line.coeffs[1], 1);
            c[0] = round(best(&c, &[0]).coeffs[0], 0);
            let error = best(&c, &[]).error;
            (c, error)
        };
        if self.degree < 2 {
            return linear([0.0; 3]);
        }
        let lead = best(&[0.0; 3], &[0, 1, 2]).coeffs[2] / self.grids[2];
        let (low, high) =
            (linear([0.0, 0.0, lead.floor() * self.grids[2]]), linear([0.0, 0.0, lead.ceil() * self.grids[2]]));
        if low.1 <= high.1 { low } else { high }
    }

    fn real(&self, tau: i64) -> f64 {
        tau as f64 * self.unit
    }
}

/// The last `t` in `lo..=hi` for which `pred` holds, if it holds at `lo` and is monotone.
pub fn last_true(lo: i64, hi: i64, pred: impl Fn(i64) -> bool) -> Option<i64> {
    if lo > hi || !pred(lo) {
        return None;
    }
    let (mut good, mut step) = (lo, 1);
    // Gallop, then bisect: most answers are near the start.
    let mut bad = loop {
        let next = good + step;
        if next > hi {
            break hi + 1;
        }
        if !pred(next) {
            break next;
        }
        good = next;
        step *= 2;
    };
    while bad - good > 1 {
        let mid = good + (bad - good) / 2;
        if pred(mid) { good = mid } else { bad = mid }
    }
    Some(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_true_finds_the_edge() {
        for edge in -5..20 {
            let want = (edge >= 0).then_some(edge.min(12));
            assert_eq!(last_true(0, 12, |t| t <= edge), want, "edge {edge}");
        }
        assert_eq!(last_true(3, 2, |_| true), None);
    }
}
