//! Parity checks: rows that sum to zero, so that their samples sum to their noise.
//!
//! *Statistical decoding* uses the checks that elimination gives, `log2(k + 1) + 2 t log2(n / (n - k))`
//! (2022/712).
//!
//! *Even covers* are lighter checks that a 10-local code has and elimination does not find. The lightest by
//! the first moment: `w` random rows are `N = 10 w` balls in `k` bins, and sum to zero if every bin holds an
//! even number: `P = N! / k^N [x^N] cosh(x)^k`, which is `exp(k (c ln c - c + ln cosh x - c ln x))` at
//! `c = N/k = x tanh x` up to lower factors. The least `w` with `C(n, w) P >= 1` is the weight below which no
//! check is expected. Its noise has the bias `(1 - 2/B)^w`.

use fesc_ring::block::LOCALITY;

use super::{Estimate, Lpn};

/// The lightest set of rows that sums to zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dependency {
    /// Its rows.
    pub rows: f64,
    /// `-log2` of the bias of the sum of their noise: the advantage of who has found it.
    pub bias_bits: f64,
}

/// Statistical decoding with the checks of elimination.
pub(super) fn statistical(lpn: Lpn) -> Estimate {
    let (k, t, n) = (lpn.k as f64, lpn.t as f64, lpn.n());
    let bits = if n > k { (k + 1.0).log2() + 2.0 * t * (n / (n - k)).log2() } else { f64::INFINITY };
    Estimate { bits, attack: "statistical decoding" }
}

/// `ln P / k` for `c = N / k` balls a bin: the chance that every bin holds an even number.
fn all_even(c: f64) -> f64 {
    let (mut low, mut high) = (0.0, c + 1.0);
    for _ in 0..60 {
        let x = (low + high) / 2.0;
        if x * x.tanh() < c { low = x } else { high = x }
    }
    c * c.ln() - c + high.cosh().ln() - c * high.ln()
}

/// The lightest dependency of rows that is expected to exist. Security rests on not being able to find it.
pub fn lightest_dependency(lpn: Lpn) -> Dependency {
    let (k, n) = (lpn.k as f64, lpn.n());
    let expected = |w: f64| {
        let share = w / n;
        let choices = -share * share.ln() - (1.0 - share) * (1.0 - share).ln();
        choices * n + k * all_even(LOCALITY as f64 * w / k)
    };
    let (mut low, mut high) = (1.0, n.min(k) / 2.0);
    while high - low > 0.5 {
        let w = (low + high) / 2.0;
        if expected(w) < 0.0 { low = w } else { high = w }
    }
    Dependency { rows: high, bias_bits: -high * (1.0 - 2.0 / lpn.block()).log2() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the exact sum `2^-k sum_j C(k, j) (1 - 2j/k)^N`, up to lower factors.
    #[test]
    fn the_chance_of_even_bins_matches_the_exact_sum() {
        for (k, balls) in [(200u32, 100i32), (400, 600), (300, 1200)] {
            let mut choose = 1.0f64;
            let mut sum = 0.0;
            for j in 0..=k {
                sum += choose * (1.0 - 2.0 * f64::from(j) / f64::from(k)).powi(balls);
                choose *= f64::from(k - j) / f64::from(j + 1);
            }
            let exact = sum.ln() - f64::from(k) * 2f64.ln();
            let got = f64::from(k) * all_even(f64::from(balls) / f64::from(k));
            assert!((got - exact).abs() < 1.0, "k = {k}, {balls} balls: {got} {exact}");
        }
    }
}
