//! Information sets: pooled Gauss, enumeration by representations, on all columns or on few.
//!
//! An attempt takes `u` samples on `u` unknowns and hopes for at most `p` noisy ones. It inverts the sparse
//! `u x u` matrix on `w` more samples (the check window), which writes the noise of the window as `w` sums of
//! the noise of the set, and looks for `p` positions that explain it.
//!
//! *Elimination*, `(10 + w / log2 u) u^2`. Block Wiedemann with the `w` right-hand sides as its block goes
//! once through the Krylov space, `u / w` products of the sparse matrix with `w` vectors: `10 u^2`. Blocks on
//! the other side are unit vectors and wide, and the space is kept (memory is free), so neither the second
//! half of the sequence nor a second pass is charged; the usual count is three passes, `30 u^2`. The
//! solutions are a `u x u` by `u x w` product: `w u^2`, by the four Russians `w u^2 / log2 u`. The minimal
//! polynomial is not charged. Keeping the inverse and exchanging rows (Canteaut and Chabaud 1998) is no
//! better: an exchange costs `u^2 / log2 u`, and fresh noise needs about `B` of them: 33 times
//! `u^2` for the main set and 18 for the first, where block Wiedemann has 15.
//!
//! *Representations* (May, Meurer, Thomae 2011; Becker, Joux, May, Meurer 2012). The `p` positions are the
//! sum of two vectors of weight `p/2 + e` that cancel in `e` places: `R = C(p, p/2) C(u, e)` ways. Fixing
//! `log2 R` bits of the window leaves one of them: two lists of `C(u, p/2 + e) / R` entries, made from halves
//! of `sqrt(C(u, p/2 + e))`, matched on the rest of the window. One list of each kind is charged, one
//! operation an entry, and no failure. A third level costs 0.2 to 0.4 bits more at these sizes, since
//! elimination already costs as much as the lists of two. The window may hold noise (Finiasz and Sendrier
//! 2009), so its noise is not charged.

use fesc_ring::block::LOCALITY;

use super::noise::{Noise, Samples};
use super::{Estimate, Lpn, columns, log_binomial, log_sum};

/// Most noisy samples in a set, most extra places of a representation, widest window.
const MOST_NOISY: u32 = 12;
const MOST_EXTRA: u32 = 4;
const WIDEST: u32 = 160;

/// `log2` of the cost of an elimination of this size for a check window.
fn elimination(size: f64, window: f64) -> f64 {
    (LOCALITY as f64 + window / size.log2()).log2() + 2.0 * size.log2()
}

/// Pooled Gauss, enumeration on all columns, enumeration on the fewest columns that can exist.
pub(super) fn attacks(lpn: Lpn, noise: Noise) -> [Estimate; 3] {
    let fewest = columns::fewest(lpn);
    [pooled_gauss(lpn, noise), all_columns(lpn, noise), few_columns(lpn, noise, fewest)]
}

/// `k - t` samples without noise, then one sparse solution.
fn pooled_gauss(lpn: Lpn, noise: Noise) -> Estimate {
    let samples = Samples::new(lpn, noise, lpn.unknowns());
    Estimate { bits: samples.rarity(0) + elimination(lpn.k as f64, 0.0), attack: "pooled Gauss" }
}

/// Enumeration on all columns: `k - t` samples, a sparse system of size `k`.
fn all_columns(lpn: Lpn, noise: Noise) -> Estimate {
    let samples = Samples::new(lpn, noise, lpn.unknowns());
    Estimate { bits: enumeration(&samples, lpn.k as f64), attack: "enumeration" }
}

/// Enumeration on `columns` columns that carry as many rows.
pub(crate) fn few_columns(lpn: Lpn, noise: Noise, columns: f64) -> Estimate {
    let samples = Samples::new(lpn, noise, columns);
    Estimate { bits: enumeration(&samples, columns), attack: "enumeration on few columns" }
}

fn enumeration(samples: &Samples, size: f64) -> f64 {
    let mut bits = samples.rarity(0) + elimination(size, 0.0);
    for p in (2..=MOST_NOISY).step_by(2) {
        for extra in 0..=MOST_EXTRA {
            let rarity = samples.rarity(p);
            bits = bits.min(rarity + attempt(samples, size, p, extra, bits - rarity));
        }
    }
    bits
}

/// `log2` of the cost of an attempt with `p` noisy samples, at the best window; infinite if it cannot be
/// below `limit`.
fn attempt(samples: &Samples, size: f64, p: u32, extra: u32, limit: f64) -> f64 {
    let representations = log_binomial(f64::from(p), p / 2) + samples.patterns(extra);
    let all = samples.patterns(p / 2 + extra);
    let list = all - representations;
    if (all / 2.0).max(list) >= limit {
        return f64::INFINITY;
    }
    (0..=WIDEST)
        .map(f64::from)
        .filter(|&w| w >= representations)
        .map(|w| log_sum(&[elimination(size, w), all / 2.0, list, 2.0 * list - (w - representations)]))
        .fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The main set before it was raised, on the fewest columns that it can have.
    fn old_main() -> (Samples, f64) {
        let lpn = Lpn { k: 70_000, t: 2000, log_block: 9 };
        let u = columns::fewest(lpn);
        (Samples::new(lpn, Noise::Independent, u), u)
    }

    /// Sizes worked out by hand for `p = 6` without extra places: `C(u, 3) / 20` entries.
    #[test]
    fn an_attempt_costs_its_elimination_and_its_lists() {
        let (samples, u) = old_main();
        let list = (u * (u - 1.0) * (u - 2.0) / 6.0 / 20.0).log2();
        let least = elimination(u, 0.0);
        let got = attempt(&samples, u, 6, 0, f64::INFINITY);
        assert!(got > list.max(least) && got < log_sum(&[list, least]) + 1.0, "{got} {list} {least}");
        // 42,000 unknowns and a window of 64: (10 + 64 / 15.36) u^2.
        let want = (10.0 + 64.0 / 42_000f64.log2()).log2() + 2.0 * 42_000f64.log2();
        assert!((elimination(42_000.0, 64.0) - want).abs() < 1e-9 && (want - 34.54).abs() < 0.01, "{want}");
    }

    /// Extra places shorten the lists by `C(p/2 + e, e)`.
    #[test]
    fn extra_places_shorten_the_lists() {
        let (samples, u) = old_main();
        let costs: Vec<f64> = (0..=2).map(|extra| attempt(&samples, u, 6, extra, f64::INFINITY)).collect();
        assert!(costs[0] > costs[1] + 1.0 && costs[1] > costs[2], "{costs:?}");
    }
}
