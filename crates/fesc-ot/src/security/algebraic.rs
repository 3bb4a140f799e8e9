//! Algebraic attacks on regular noise.
//!
//! Write the noise as `e = b ^ A s`: linear in the `k` unknowns. Two samples of one block are never both noisy, so
//! `e_i e_j = 0`: a quadratic equation in `s`, `t C(B, 2)` of them. Guess that `u` samples in each of `f` blocks are free of
//! noise (chance `(1 - u/B)^f`); each gives a linear equation. With `K = k - t - f u` unknowns left, `B' = B - u - 1` samples
//! per guessed block and generic ranks over GF(2), the number of unresolved monomials of degree `d` is the coefficient of
//! `z^d` in
//!
//! `(1 + z)^K  ((1 + B' z) / (1 + z)^B')^f  ((1 + (B-1) z) / (1 + z)^(B-1))^(t-f)`
//!
//! (Briaud and Oygarden 2023, over GF(2)); at degree 2 it is `C(K, 2) - sum C(B', 2)`. At the first degree where it is not
//! positive the system is linear in its `C(K, d)` monomials, and we charge Wiedemann's `3 * 121 * C(K, d)^2`: 121 terms per
//! equation, the square of a 10-local row with its constant.
//! Two refinements, charged in the attacker's favour: stop at `R > 0` unresolved monomials of degree 2 and repeat only
//! a dense solve of size `R` over the rest of the guess (AGB 2.0, 2025/1476); leave `q` blocks out of the elimination and try their
//! `B^q` positions at `K^2` each (hybrid, 2025/1284).

use super::{Estimate, Lpn, log_binomial, strassen};

/// Highest degree looked at: beyond it the monomials alone cost more than any bound of interest.
const DEGREE: usize = 8;
/// Guesses beyond this many bits are not looked at.
const MOST_GUESSED: f64 = 150.0;
/// Steps of the search over `u`.
const STEPS: usize = 500;
/// Shares of the blocks in which samples are guessed.
const SHARES: [f64; 6] = [1.0, 0.7, 0.5, 0.35, 0.25, 0.125];

type Series = [f64; DEGREE + 1];

fn multiply(a: &Series, b: &Series) -> Series {
    std::array::from_fn(|n| (0..=n).map(|i| a[i] * b[n - i]).sum())
}

/// `a^e` for `a(0) = 1`, by the logarithmic derivative.
fn power(a: &Series, e: f64) -> Series {
    let mut r = [0.0; DEGREE + 1];
    r[0] = 1.0;
    for n in 1..=DEGREE {
        r[n] = (1..=n).map(|i| (e * i as f64 - (n - i) as f64) * a[i] * r[n - i]).sum::<f64>() / n as f64;
    }
    r
}

/// `(1 + z)^e`.
fn binomial_series(e: f64) -> Series {
    let mut r = [1.0; DEGREE + 1];
    for n in 1..=DEGREE {
        r[n] = r[n - 1] * (e - n as f64 + 1.0) / n as f64;
    }
    r
}

/// The factor of `count` blocks with `b` samples left in each.
fn blocks(count: f64, b: f64) -> Series {
    let mut linear = [0.0; DEGREE + 1];
    (linear[0], linear[1]) = (1.0, b);
    power(&multiply(&linear, &binomial_series(-b)), count)
}

/// `log2` of Wiedemann's cost for all monomials of one degree.
fn sparse_solve(unknowns: f64, degree: u32) -> f64 {
    2.0 * log_binomial(unknowns, degree) + (3.0 * 121f64).log2()
}

/// The cheapest algebraic attack.
pub(super) fn cheapest(lpn: Lpn) -> Estimate {
    SHARES
        .iter()
        .map(|&share| with_share(lpn, share))
        .fold(Estimate { bits: f64::INFINITY, attack: "none" }, |a, b| if b.bits < a.bits { b } else { a })
}

fn with_share(lpn: Lpn, share: f64) -> Estimate {
    let (k, t, block) = (lpn.k as f64, lpn.t as f64, lpn.block());
    let f = (t * share).max(1.0);
    let most = block * (1.0 - (-MOST_GUESSED / f).exp2());
    let untouched = blocks(t - f, block - 1.0);
    let mut best = Estimate { bits: f64::INFINITY, attack: "none" };
    let mut offer = |bits: f64, attack| {
        if bits < best.bits {
            best = Estimate { bits, attack };
        }
    };
    // (guess, elimination cost, unresolved) at degree 2, until it is solved.
    let mut open = Vec::new();
    let mut solved = None;
    for step in 0..=STEPS {
        let u = most * step as f64 / STEPS as f64;
        let guess = -f * (1.0 - u / block).log2();
        let unknowns = lpn.unknowns() - f * u;
        if unknowns < 16.0 {
            offer(guess + 2.0 * k.log2(), "guessing until linear");
            break;
        }
        let left = block - u - 1.0;
        let series = multiply(&multiply(&binomial_series(unknowns), &untouched), &blocks(f, left));
        if let Some(d) = (2..=DEGREE).find(|&d| series[d] <= 0.0) {
            offer(guess + sparse_solve(unknowns, d as u32), "algebraic");
        }
        if series[2] > 1.0 {
            open.push((guess, sparse_solve(unknowns, 2), series[2]));
        } else {
            solved = solved.or(Some(guess));
        }
        if share == 1.0 {
            for q in 1..=16 {
                let kept = unknowns - (block - 1.0) * f64::from(q);
                if kept < 16.0 {
                    break;
                }
                if (t - f64::from(q)) * left * (left - 1.0) >= kept * kept {
                    let trials = guess + f64::from(q) * block.log2() + 2.0 * kept.log2();
                    offer((guess + sparse_solve(kept, 2)).max(trials), "algebraic with positions");
                }
            }
        }
    }
    if let Some(all) = solved {
        for (guess, eliminate, unresolved) in open {
            offer((guess + eliminate).max(all + strassen(unresolved)), "two-stage algebraic");
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At degree 2: all `C(K, 2)` monomials minus `C(b, 2)` equations per block, from first principles.
    #[test]
    fn degree_two_counts_monomials_minus_equations() {
        for (unknowns, f, a, g, b) in [(900.0, 20.0, 30.0, 0.0, 1.0), (5000.0, 7.0, 100.0, 13.0, 120.0)] {
            let series = multiply(&binomial_series(unknowns), &multiply(&blocks(f, a), &blocks(g, b)));
            let pairs = |x: f64| x * (x - 1.0) / 2.0;
            let want = pairs(unknowns) - f * pairs(a) - g * pairs(b);
            assert!((series[2] - want).abs() < 1e-6 * want.abs(), "{} {want}", series[2]);
            assert!((series[1] - unknowns).abs() < 1e-6);
        }
    }

    /// With as many unknowns as samples nothing links the blocks: what is left at degree `d` is exactly the choices of
    /// `d` different blocks with one sample in each, `C(t, d) b^d`.
    #[test]
    fn free_unknowns_leave_one_sample_per_block() {
        let (t, b) = (6.0, 5.0);
        let series = multiply(&binomial_series(t * b), &blocks(t, b));
        for d in 1..=6u32 {
            let want = (log_binomial(t, d) + f64::from(d) * f64::log2(b)).exp2();
            assert!((series[d as usize] - want).abs() < 1e-3 * want, "{d}: {} {want}", series[d as usize]);
        }
        assert!(series[7].abs() < 1.0 && series[8].abs() < 1.0);
    }
}
