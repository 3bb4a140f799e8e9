//! Which of the two possible results a truncation gives.
//!
//! The protocol's truncation is a stochastic rounding: the floor or the ceiling of the true quotient, by the
//! chance of the sharing ([`fesc_approx::trunc`]). The twin needs a rule:
//!
//! - [`Rounding::nearest`]: the nearer of the two, a tie upwards. It is always one of the two results the
//!   protocol may give, it is the more probable one, and every private result lies within one ulp of it. Its
//!   error is at most half an ulp and has no common sign, where "always the floor" would lose half an ulp
//!   each time. Comparisons get the same rule, which puts every threshold in the middle of its zone of
//!   chance.
//! - [`Rounding::jitter`]: the ceiling with exactly the probability that the protocol gives it. Many such
//!   runs show how private results spread around the twin.
//! - [`Rounding::noisy`]: the same, and the noise of the RLWE linear layer and of the encrypted embedding
//!   (docs/DESIGN.md, 6.1 and docs/DESIGN.md, 6.6).
//! - [`Rounding::encrypted`]: the same, and Gaussian noise of given deviations where a stage is under CKKS
//!   ([`StageNoise`]).

use std::fmt;

use fesc_ring::{Prg, sample};

/// Deviation of the noise that RLWE adds to every output, `u_k e' - e_k s`: `3.2 sqrt(2 N 2/3)` at N = 2,048.
const OUTPUT_DEVIATION: f64 = 167.2;

/// Deviations of the noise that the stages of a layer under CKKS add to a value, roundings of their results
/// included; 0 for a stage on shares.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StageNoise {
    /// z, x, B, C and dt, x, B and C after the convolution.
    pub in_proj: f64,
    /// y.
    pub scan: f64,
    /// A state that a scan refreshes.
    pub state: f64,
    /// The output of the block.
    pub out_proj: f64,
}

/// The rule for carries, and the randomness where it needs some.
pub struct Rounding(Rule);

enum Rule {
    Nearest,
    Jitter { prg: Box<Prg>, noise: bool, stages: Vec<StageNoise> },
}

impl fmt::Debug for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Rule::Nearest => "Rounding(nearest)",
            Rule::Jitter { noise: false, .. } => "Rounding(jitter)",
            Rule::Jitter { noise: true, stages, .. } if stages.is_empty() => "Rounding(jitter and noise)",
            Rule::Jitter { noise: true, .. } => "Rounding(jitter, noise and encrypted stages)",
        })
    }
}

impl Rounding {
    /// To the nearest: the twin proper.
    pub fn nearest() -> Self {
        Self(Rule::Nearest)
    }

    /// Random carries, as the protocol has them.
    pub fn jitter(prg: Prg) -> Self {
        Self(Rule::Jitter { prg: Box::new(prg), noise: false, stages: Vec::new() })
    }

    /// Random carries, and the noise of the linear layers and of the embedding.
    pub fn noisy(prg: Prg) -> Self {
        Self::encrypted(prg, Vec::new())
    }

    /// The same, and the noise of stages under CKKS, layer by layer.
    pub fn encrypted(prg: Prg, stages: Vec<StageNoise>) -> Self {
        Self(Rule::Jitter { prg: Box::new(prg), noise: true, stages })
    }

    /// The noise of a layer's stages under CKKS.
    pub(super) fn stages(&self, layer: usize) -> StageNoise {
        match &self.0 {
            Rule::Nearest => StageNoise::default(),
            Rule::Jitter { stages, .. } => stages.get(layer).copied().unwrap_or_default(),
        }
    }

    /// Adds Gaussian noise of this deviation, in units of the last place.
    pub(super) fn disturb(&mut self, deviation: f64, values: &mut [i64]) {
        let Rule::Jitter { prg, .. } = &mut self.0 else { return };
        if deviation > 0.0 {
            for v in values {
                // What is between two integers falls to either by chance: noise below a unit is not lost.
                *v = v.saturating_add((deviation * normal(prg) + uniform(prg)).floor() as i64);
            }
        }
    }

    /// Carries for one task.
    pub(super) fn chance(&mut self) -> Chance {
        match &mut self.0 {
            Rule::Nearest => Chance::Nearest,
            Rule::Jitter { prg, .. } => Chance::Random(Box::new(prg.fork())),
        }
    }

    /// Adds the input noise of a linear layer: deviation 3.2 on every value.
    pub(super) fn disturb_inputs(&mut self, values: &mut [i64]) {
        if let Rule::Jitter { prg, noise: true, .. } = &mut self.0 {
            let mut noise = vec![0; values.len()];
            sample::gaussian(prg, &mut noise);
            values.iter_mut().zip(noise).for_each(|(v, e)| *v = v.saturating_add(e));
        }
    }

    /// Adds the output noise of an RLWE product.
    pub(super) fn disturb_outputs(&mut self, values: &mut [i64]) {
        if let Rule::Jitter { prg, noise: true, .. } = &mut self.0 {
            for v in values {
                *v = v.saturating_add((normal(prg) * OUTPUT_DEVIATION).round() as i64);
            }
        }
    }
}

/// In `[0, 1)`.
fn uniform(prg: &mut Prg) -> f64 {
    (prg.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Of variance one: the sum of twelve uniform values, whose shape is near enough for a spread.
fn normal(prg: &mut Prg) -> f64 {
    (0..12).map(|_| uniform(prg)).sum::<f64>() - 6.0
}

/// The carries of one task.
pub(super) enum Chance {
    Nearest,
    Random(Box<Prg>),
}

impl Chance {
    /// `y / 2^t`, down or up: "subtract one, truncate" of [`fesc_approx::trunc::round`].
    #[inline]
    pub(super) fn round(&mut self, y: i64, t: u32) -> i64 {
        if t == 0 {
            return y;
        }
        match self {
            Self::Nearest => y.saturating_add(1 << (t - 1)) >> t,
            Self::Random(prg) => {
                let mask = (1u64 << t) - 1;
                (y >> t) + i64::from(prg.next_u64() & mask < y as u64 & mask)
            }
        }
    }

    /// Gaussian noise of this deviation; none where carries are no chance.
    pub(super) fn noise(&mut self, deviation: f64) -> f64 {
        match self {
            Self::Random(prg) if deviation > 0.0 => deviation * normal(prg),
            _ => 0.0,
        }
    }

    /// Whether a truncate-reduce of `x` by `s` bits gives the larger of its two results
    /// ([`fesc_approx::trunc::trunc`]).
    #[inline]
    pub(super) fn reduce_high(&mut self, x: i64, s: u32) -> bool {
        if s == 0 {
            return false;
        }
        let mask = (1u64 << s) - 1;
        let low = x as u64 & mask;
        match self {
            Self::Nearest => low >> (s - 1) == 1,
            Self::Random(prg) => prg.next_u64() & mask <= low,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use fesc_approx::trunc;
    use fesc_ring::Ring;

    #[test]
    fn every_result_is_one_of_the_protocols() {
        let ring = Ring::new(20).unwrap();
        let mut random = Chance::Random(Box::new(Prg::from_seed([5; 16])));
        for y in -400i64..400 {
            let may = [false, true].map(|high| ring.to_signed(trunc::round(ring, ring.from_signed(y), 5, high)));
            let nearest = Chance::Nearest.round(y, 5);
            assert!(may.contains(&nearest) && may.contains(&random.round(y, 5)), "{y}");
            assert!((nearest as f64 - y as f64 / 32.0).abs() <= 0.5);
            let reduced = [false, true].map(|high| ring.to_signed(trunc::trunc(ring, ring.from_signed(y), 5, high)));
            let high = Chance::Nearest.reduce_high(y, 5);
            // Half up: the threshold is in the middle of its zone.
            assert_eq!(reduced[usize::from(high)], (y + 16).div_euclid(32), "{y}");
        }
    }

    #[test]
    fn random_carries_are_unbiased() {
        let mut random = Chance::Random(Box::new(Prg::from_seed([6; 16])));
        let trials = 40_000;
        for y in [1i64, 100, -37, 255] {
            let sum: i64 = (0..trials).map(|_| random.round(y, 8)).sum();
            // Deviation of the mean: at most 0.5 / 200.
            assert!((sum as f64 / trials as f64 - y as f64 / 256.0).abs() < 0.0125, "{y}");
        }
    }

    #[test]
    fn noise_has_its_deviation() {
        let mut noisy = Rounding::noisy(Prg::from_seed([7; 16]));
        let deviation = |v: &[i64]| (v.iter().map(|e| (e * e) as f64).sum::<f64>() / v.len() as f64).sqrt();
        let mut values = vec![0; 20_000];
        noisy.disturb_inputs(&mut values);
        assert!((deviation(&values) / 3.2 - 1.0).abs() < 0.03);
        let mut values = vec![0; 20_000];
        noisy.disturb_outputs(&mut values);
        assert!((deviation(&values) / OUTPUT_DEVIATION - 1.0).abs() < 0.03);
        let mut values = vec![0; 8];
        Rounding::jitter(Prg::from_seed([7; 16])).disturb_inputs(&mut values);
        assert_eq!(values, [0; 8]);
        // Of an encrypted stage, above a unit and below, where e rounds away from 0 with probability |e|.
        for (given, want) in [(40.0, 40.0), (0.1, (0.1 * (2.0 / std::f64::consts::PI).sqrt()).sqrt())] {
            let mut values = vec![0; 40_000];
            noisy.disturb(given, &mut values);
            assert!((deviation(&values) / want - 1.0).abs() < 0.06, "{given}: {}", deviation(&values));
        }
        let layers =
            Rounding::encrypted(Prg::from_seed([7; 16]), vec![StageNoise { scan: 2.0, ..StageNoise::default() }]);
        assert_eq!([0, 1].map(|layer| layers.stages(layer).scan), [2.0, 0.0]);
    }
}
