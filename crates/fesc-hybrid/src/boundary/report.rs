//! What a conversion does to precision and privacy, computed from public numbers alone.

use std::fmt;

use fesc_ckks::mask::QUERIES;
use fesc_mpc::Cost;
use serde::Serialize;

/// Precision, distance, failures and cost of one conversion. Logarithms are to base 2; minus infinity stands
/// for nothing at all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BoundaryReport {
    /// Which way.
    pub name: &'static str,
    /// Ciphertexts of this conversion.
    pub ciphertexts: usize,
    /// The level at which they travel.
    pub level: usize,
    /// Bits of its modulus.
    pub log_q: f64,
    /// Bits of the mask, or of the integer parts (`k`).
    pub width: u32,
    /// Largest error in a slot that this conversion adds, by itself: roundings and arithmetic of
    /// both parties, and six deviations of the noise of encryption.
    pub log_error: f64,
    /// Statistical distance of the client's view of one inference from one that does not depend on what is
    /// masked.
    pub log_distance: f64,
    /// Bound on the probability that one value is lifted wrongly.
    pub log_failure: f64,
    /// The same for all values of an inference. A failure leaves the bound of the next mask, so it counts
    /// as distance too.
    pub log_failures: f64,
    /// Distance and failures of this conversion alone: what it adds to those of its inference
    /// ([`log_together`]).
    pub log_own: f64,
    /// What is sent online.
    pub cost: Cost,
}

impl BoundaryReport {
    /// Distance and failures of an inference, summed up over so many queries; at most 1.
    pub fn log_over(&self, queries: u64) -> f64 {
        let one = self.log_distance.exp2() + self.log_failures.exp2();
        (one.log2() + (queries as f64).log2()).min(0.0)
    }
}

/// Distance and failures of a whole inference: the sum over its conversions, each with how often it is made.
/// Unlike [`BoundaryReport::log_distance`] it takes no caller's word for how much an inference converts.
pub fn log_together<'a>(conversions: impl IntoIterator<Item = (&'a BoundaryReport, u64)>) -> f64 {
    let sum: f64 = conversions.into_iter().map(|(report, times)| report.log_own.exp2() * times as f64).sum();
    sum.log2().min(0.0)
}

impl fmt::Display for BoundaryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, ciphertexts, level, log_q, width, .. } = self;
        writeln!(f, "{name}: {ciphertexts} ciphertexts at level {level} ({log_q:.1} bits), integers of {width} bits")?;
        writeln!(f, "  error of a slot below 2^{:.1}", self.log_error)?;
        writeln!(f, "  distance of an inference 2^{:.1}", self.log_distance)?;
        writeln!(f, "  of which this conversion 2^{:.1}, failures included", self.log_own)?;
        writeln!(f, "  failures 2^{:.1} a value, 2^{:.1} an inference", self.log_failure, self.log_failures)?;
        writeln!(f, "  both over {QUERIES} queries 2^{:.1}", self.log_over(QUERIES))?;
        let Cost { p0_to_p1_bytes, p1_to_p0_bytes, rounds } = self.cost;
        write!(f, "  {p0_to_p1_bytes} bytes up, {p1_to_p0_bytes} down, {rounds} rounds")
    }
}
