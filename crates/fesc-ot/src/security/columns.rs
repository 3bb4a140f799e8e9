//! Few columns: a 10-local code hides smaller instances.
//!
//! Drop columns together with the rows that use them, the column of least degree first. As long as no fewer
//! rows than columns are left, those rows are an LPN instance with the same noise on fewer unknowns (0.6 to
//! 0.8 of `k` at these sizes, found in linear time). Other random drops before that give another one, so that
//! a failure can be repeated: after 1 % dropped at random two cores of one main matrix share about 10 % of
//! their rows, of the first set about 39 %. Their noise is independent but for those rows; they are charged
//! as if it were entirely so. The idea is known for sparse LPN (Chen, Shu, Zhou, arXiv 2407.19215; the
//! concern for ten places is quoted from 2017/617); the count here is ours.
//!
//! Charged is not what peeling finds but what can exist at all, by the first moment: among the `C(k, s k)`
//! ways to keep a share `s` of the columns one carries a share `x` of the rows only if
//! `C(k, s k) P(Bin(n, s^10) >= x n) >= 1`. Tests peel both sets: 46,952 columns where 44,292 are charged
//! (140.0 bits instead of 132.8), 23,632 where 22,596 are charged (138.4 instead of 132.8).

use fesc_ring::block::LOCALITY;

use super::Lpn;

/// Halvings of an interval.
const STEPS: usize = 60;

/// The share of the rows that a random share `s` of the columns carries.
fn expected(s: f64) -> f64 {
    s.powi(LOCALITY as i32)
}

/// Whether some share `s` of the columns of one of `2^matrices` matrices can carry a share `x` of the rows.
fn possible(lpn: Lpn, matrices: f64, s: f64, x: f64) -> bool {
    let p = expected(s);
    if x <= p {
        return true;
    }
    let entropy = -s * s.ln() - (1.0 - s) * (1.0 - s).ln();
    let divergence = x * (x / p).ln() + (1.0 - x) * ((1.0 - x) / (1.0 - p)).ln();
    x < 1.0 && entropy * lpn.k as f64 + matrices * std::f64::consts::LN_2 >= divergence * lpn.n()
}

/// The least value above `low` that passes, if those above it pass too.
fn bisect(mut low: f64, mut high: f64, passes: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if passes(middle) { high = middle } else { low = middle }
    }
    high
}

/// The fewest columns that can carry as many rows as there are columns.
pub(crate) fn fewest(lpn: Lpn) -> f64 {
    fewest_among(lpn, 0.0)
}

/// The same in the best of `2^matrices` matrices.
pub(crate) fn fewest_among(lpn: Lpn, matrices: f64) -> f64 {
    let k = lpn.k as f64;
    bisect(0.01, 1.0 - 1e-9, |s| possible(lpn, matrices, s, s * k / lpn.n())) * k
}

/// The largest share of the rows that some share `s` of the columns can carry.
pub(super) fn most_rows(lpn: Lpn, s: f64) -> f64 {
    bisect(expected(s), 1.0, |x| !possible(lpn, 0.0, s, x))
}
