//! A bound on how far the logits of a private run are from the twin's, from the noise formula of every stage
//! under encryption.
//!
//! # The bound
//! To first order the error of a logit is a linear function of all errors of a run: carries of truncations
//! and noise of RLWE, whose distributions are known, and the noise of stages under CKKS, which deviates on no
//! value by more than the noise formula says ([`Deviation::spread`], twice the formula as everywhere in
//! [`crate::verify`]). [`RUNS`] twins have all of these drawn at random ([`Rounding::encrypted`]); with `r_c`
//! the root mean square of their differences from the twin in logit `c`,
//!
//! ```text
//! |logit - twin's logit| <= t max_c r_c
//! ```
//!
//! where `t` ([`FACTOR`]) is Student's quantile for as many degrees of freedom as there are runs, at the
//! probability of 6.5 deviations, 2^-33.5 for each logit: what 6.5 deviations are where the deviation is
//! known, [`FACTOR`] are where it is estimated. Revealed logits are floored, which adds [`FLOOR`].
//!
//! Compared with it: the logits that the twin gives for the private stream that left the last layer, so that
//! nothing of the floor hides an error; and the revealed ones, where they are revealed.
//!
//! Cost: [`RUNS`] and one times the twin.
//!
//! # What is not guaranteed
//! It is a prediction bound and not one for the worst case: it assumes that the error of a logit is Gaussian
//! and that the errors of single values under CKKS are independent. It says nothing of a kernel that computes
//! another function than the twin: a scan in block dual form under CKKS takes exps of sums where the twin
//! multiplies exps, so its plans have no bound.
//!
//! [`Deviation::spread`]: fesc_hybrid::verify::Deviation::spread

use fesc_model::outline::scale::REVEAL;
use fesc_model::plan::{HeScanKernel, Scan};
use fesc_model::twin::{Rounding, StageNoise, Twin};
use fesc_ring::Prg;

use super::StageCheck;
use crate::Result;
use crate::error::check;
use crate::run::Answer;
use crate::stage::Stage;

/// Twins with noise.
pub const RUNS: u8 = 16;
/// Student's quantile for that many degrees of freedom, two-sided, at the probability of 6.5 deviations.
pub const FACTOR: f64 = 14.951;
/// What the floor of revealed logits takes away at most.
pub const FLOOR: f64 = 1.0 / (1u32 << REVEAL) as f64;

/// The logits of a run against the twin's.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    /// The most that a logit may be off by.
    pub bound: f64,
    /// The most that one is off by.
    pub error: f64,
    /// Correct bits of the largest logit by the bound.
    pub bits: f64,
    /// The most that a revealed logit is off by; it may be [`FLOOR`] more than the bound.
    pub revealed_error: Option<f64>,
}

impl Logits {
    /// The most that a revealed logit may be off by.
    pub fn revealed_bound(&self) -> f64 {
        self.bound + FLOOR
    }

    /// Whether the bound holds. What is no number does not hold.
    pub fn within(&self) -> bool {
        self.error <= self.bound && self.revealed_error.is_none_or(|e| e <= self.revealed_bound())
    }
}

/// The noise of every layer's stages, the noisiest segment's.
fn noise(layers: usize, stages: &[StageCheck]) -> Vec<StageNoise> {
    let mut all = vec![StageNoise::default(); layers];
    for check in stages {
        let Some(layer) = all.get_mut(check.layer) else { continue };
        let [values, states] = check.deviation.spread;
        match check.stage {
            Stage::InProj => layer.in_proj = layer.in_proj.max(values),
            Stage::Scan => {
                layer.scan = layer.scan.max(values);
                layer.state = layer.state.max(states);
            }
            _ => layer.out_proj = layer.out_proj.max(values),
        }
    }
    all
}

/// The largest difference of two vectors of logits.
fn apart<'a>(a: impl IntoIterator<Item = &'a f64>, b: &[f64]) -> f64 {
    // What is no number is the largest.
    let larger = |most: f64, d: f64| if most >= d { most } else { d };
    a.into_iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, larger)
}

/// The logits of a run on the document `ids` against the twin's: `stream` is the private one that left the
/// last layer, padding included, `stages` are the run's. Nothing for a plan without a bound.
///
/// # Errors
/// If the stream does not fit the model, or a value leaves its range.
pub fn logits(
    twin: &Twin,
    ids: &[u32],
    stream: &[i64],
    stages: &[StageCheck],
    answer: Option<&Answer>,
) -> Result<Option<Logits>> {
    if twin.plan().scan == Scan::HeScan(HeScanKernel::Dual) {
        return Ok(None);
    }
    let shape = *twin.outline()?.shape();
    let centre = twin.classify(ids, &mut Rounding::nearest())?.logits;
    let noise = noise(shape.layers, stages);
    let mut squares = vec![0.0; centre.len()];
    for seed in 0..RUNS {
        let mut rounding = Rounding::encrypted(Prg::from_seed([seed; 16]), noise.clone());
        let run = twin.classify(ids, &mut rounding)?.logits;
        squares.iter_mut().zip(run.iter().zip(&centre)).for_each(|(sum, (a, b))| *sum += (a - b).powi(2));
    }
    let largest = |values: &[f64]| values.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    let bound = FACTOR * (largest(&squares) / f64::from(RUNS)).sqrt();
    let private = twin.finish(stream, ids.len(), &mut Rounding::nearest())?.logits;
    let revealed_error = match answer {
        Some(Answer::Logits { integers, .. }) => {
            check("revealed logits", centre.len(), integers.len())?;
            let shown: Vec<f64> = integers.iter().map(|&v| v as f64 * FLOOR).collect();
            Some(apart(&shown, &centre))
        }
        _ => None,
    };
    let bits = (largest(&centre) / bound).log2();
    Ok(Some(Logits { bound, error: apart(&private, &centre), bits, revealed_error }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two-sided tail of Student's distribution with `n` degrees of freedom, `n` even (Abramowitz and Stegun,
    /// 26.7.4).
    fn tail(t: f64, n: u32) -> f64 {
        let (n, cosine) = (f64::from(n), f64::from(n) / (f64::from(n) + t * t));
        let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
        while 2.0 * k < n {
            term *= cosine * (2.0 * k - 1.0) / (2.0 * k);
            sum += term;
            k += 1.0;
        }
        1.0 - (1.0 - cosine).sqrt() * sum
    }

    #[test]
    fn the_factor_is_students_quantile() {
        // Known quantiles: 2.120 and 2.921 at 5 and 1 percent for 16 degrees.
        assert!((tail(2.120, 16) - 0.05).abs() < 1e-4 && (tail(2.921, 16) - 0.01).abs() < 1e-4);
        // 6.5 deviations of a Gaussian: 8.03e-11.
        let reached = tail(FACTOR, RUNS.into());
        assert!((reached / 8.032e-11 - 1.0).abs() < 0.01, "{reached:e}");
    }

    #[test]
    fn the_rule_holds_at_the_bound_and_not_above() {
        let logits = |error, revealed_error| Logits { bound: 0.5, error, bits: 3.0, revealed_error };
        assert!(logits(0.5, None).within() && logits(0.1, Some(0.5 + FLOOR)).within());
        assert!(!logits(0.51, None).within() && !logits(0.1, Some(0.51 + FLOOR)).within());
        assert!(!logits(f64::NAN, None).within());
        assert!(apart(&[1.0, f64::NAN], &[1.0, 2.0]).is_nan());
    }
}
