//! Algebraic attacks on regular noise, on all columns or on few.
//!
//! Write the noise as `e = b ^ A s`: linear in the `k` unknowns. Two samples of one block are never both
//! noisy, so `e_i e_j = 0`: a quadratic equation in `s`, `t C(B, 2)` of them. Guess that `u` samples in each
//! of `f` blocks are free of noise (chance `(1 - u/B)^f`); each gives a linear equation. With
//! `K = k - t - f u` unknowns left, `B' = B - u - 1` samples per guessed block and generic ranks over GF(2),
//! the number of unresolved monomials of degree `d` is the coefficient of `z^d` in
//!
//! `(1 + z)^K  ((1 + B' z) / (1 + z)^B')^f  ((1 + (B-1) z) / (1 + z)^(B-1))^(t-f)`
//!
//! (Briaud and Oygarden 2023, over GF(2)); at degree 2 it is `C(K, 2) - sum C(B', 2)`. At the first degree
//! where it is not positive the system is linear in its `C(K, d)` monomials, and we charge one pass of
//! Wiedemann, `121 C(K, d)^2`: 121 terms per equation, the square of a 10-local row with its constant. Two
//! refinements, charged in the attacker's favour: stop at `R > 0` unresolved monomials of degree 2 and repeat
//! only a dense solve of size `R` over the rest of the guess (AGB 2.0, 2025/1476); leave `q` blocks out of
//! the elimination and try their `B^q` positions at `K^2` each (hybrid, 2025/1284).
//!
//! On a share `s` of the columns a block keeps `B x` samples, `x` at most what `columns::most_rows` allows,
//! and has no parity equation; the rest is the same. The search is coarse: for the published sets with the
//! largest blocks a finer one finds algebra on few columns one or two bits below enumeration on few columns.
//! By this count the sets published with emp-ot before 2026 fall to algebra at 68 to 102 bits:
//! `n / sqrt(t) > k` is enough to linearise at once. The sets of this crate have fewer samples per unknown.

use super::{Estimate, Lpn, columns, log_binomial};

/// Highest degree looked at: beyond it the monomials alone cost more than any bound of interest.
const DEGREE: usize = 8;
/// Guesses beyond this many bits are not looked at.
const MOST_GUESSED: f64 = 150.0;
/// Steps of the search over `u`.
const STEPS: usize = 500;
/// Shares of the blocks in which samples are guessed.
const SHARES: [f64; 6] = [1.0, 0.7, 0.5, 0.35, 0.25, 0.125];
/// Shares of the columns looked at: parts of the way from the fewest to all. The best is close to the fewest.
const FEW: [f64; 8] = [0.0, 0.008, 0.016, 0.03, 0.06, 0.12, 0.25, 0.5];

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
    2.0 * log_binomial(unknowns, degree) + 121f64.log2()
}

/// `log2` of the cost to solve a dense system, by Strassen.
fn dense_solve(size: f64) -> f64 {
    2.8 * size.max(1.0).log2()
}

/// What an attack works on.
#[derive(Clone, Copy)]
struct Blocks {
    /// Unknowns, after the parity equations if there are any.
    unknowns: f64,
    /// Blocks.
    count: f64,
    /// Samples of a whole block: one of them is noisy.
    block: f64,
    /// Samples of a block that the attack has, one less with a parity equation.
    samples: f64,
}

/// The cheapest algebraic attack on all columns.
pub(super) fn all_columns(lpn: Lpn) -> Estimate {
    let whole =
        Blocks { unknowns: lpn.unknowns(), count: lpn.t as f64, block: lpn.block(), samples: lpn.block() - 1.0 };
    SHARES.iter().map(|&share| with_share(whole, share, STEPS, |x| x)).fold(Estimate::NONE, Estimate::or)
}

/// The cheapest algebraic attack on fewer columns.
pub(super) fn few_columns(lpn: Lpn) -> Estimate {
    few_columns_at(lpn, &FEW, STEPS)
}

/// The same for these parts of the way from the fewest columns to all, and so many steps.
fn few_columns_at(lpn: Lpn, parts: &[f64], steps: usize) -> Estimate {
    let k = lpn.k as f64;
    let least = columns::fewest(lpn) / k;
    // Steps are closest at the end, where nearly all is guessed and few unknowns are left.
    let spacing = |x: f64| 1.0 - (1.0 - x) * (1.0 - x);
    let best = parts
        .iter()
        .map(|part| {
            let s = least + (1.0 - least) * part;
            let samples = columns::most_rows(lpn, s) * lpn.block();
            with_share(
                Blocks { unknowns: s * k, count: lpn.t as f64, block: lpn.block(), samples },
                1.0,
                steps,
                spacing,
            )
        })
        .fold(Estimate::NONE, Estimate::or);
    Estimate { attack: "algebra on few columns", ..best }
}

fn with_share(blocks_of: Blocks, share: f64, steps: usize, spacing: impl Fn(f64) -> f64) -> Estimate {
    let Blocks { unknowns: all, count: t, block, samples } = blocks_of;
    let f = (t * share).max(1.0);
    let most = (block * (1.0 - (-MOST_GUESSED / f).exp2())).min(samples);
    let untouched = blocks(t - f, samples);
    let mut best = Estimate::NONE;
    let mut offer = |bits: f64, attack| best = best.or(Estimate { bits, attack });
    // (guess, elimination cost, unresolved) at degree 2, until it is solved.
    let mut open = Vec::new();
    let mut solved = None;
    for step in 0..=steps {
        let u = most * spacing(step as f64 / steps as f64);
        let guess = -f * (1.0 - u / block).log2();
        let unknowns = all - f * u;
        if unknowns < 16.0 {
            offer(guess + 2.0 * all.log2(), "guessing until linear");
            break;
        }
        let left = samples - u;
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
                let kept = unknowns - samples * f64::from(q);
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
            offer((guess + eliminate).max(all + dense_solve(unresolved)), "two-stage algebraic");
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search 80 times finer on few columns finds at most 3 bits less for the sets of this crate, far from
    /// what decides.
    #[test]
    fn a_finer_search_on_few_columns_stays_far_away() {
        let parts: Vec<f64> = (0..80).map(|i| 0.12 * f64::from(i) / 80.0).collect();
        let set = crate::SilentParams::STANDARD;
        for p in [set.first(), set.main()] {
            let lpn = Lpn { k: p.k(), t: p.t(), log_block: p.log_block() };
            let [fine, coarse] = [few_columns_at(lpn, &parts, 4000).bits, few_columns(lpn).bits];
            assert!(fine <= coarse && coarse < fine + 3.0, "{fine} {coarse}");
            assert!(fine > crate::security::estimate(lpn).bits + 15.0, "{fine}");
        }
    }

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

    /// With as many unknowns as samples nothing links the blocks: what is left at degree `d` is exactly the
    /// choices of `d` different blocks with one sample in each, `C(t, d) b^d`.
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
