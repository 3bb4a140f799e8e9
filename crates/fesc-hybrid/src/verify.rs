//! Results of a circuit against the same circuit in the clear: the one rule that says when they agree.
//!
//! A [`Witness`] is what went into a circuit between shares and shares and what came out, both parties'
//! shares joined: a check of the program, by somebody who has both sides. The circuit is computed again on
//! [`Plain`], which gives every slot its value and, by formula, the mean square `E` of its error
//! ([`fesc_ckks::noise`]). The conversion to shares adds a fresh zero, of mean square `Z`, and rounds: two
//! parts that are rounded each for itself make the integer below or above, so that a value between two
//! integers at `f` is off by `f (1 - f)` in mean square.
//!
//! # The rule
//! In units of the last place, with `s = sqrt((E + Z) / 2)` for each lane of each slot, used or not, `n`
//! lanes in all, and `a` what the arithmetic of both parties' decoding may be off by:
//!
//! ```text
//! mean of errors^2 <= 4 mean of (s^2 + min(f (1 - f) + s, 1/4))
//! |error| <= 1 + a + 3 s ln n        (n >= 3)
//! ```
//!
//! (noise that is smaller than a unit shows as a rounding the other way, with a probability of about `s`.)
//! The formula is an average over keys and holds within a factor of two; under one key the largest of `n`
//! errors is nearer to `ln n` than to `sqrt(2 ln n)` deviations ([`Plain`]). The scans' own tests hold
//! kernels to the same two factors.
//!
//! Cost: that of the circuit on complex numbers, a few nanoseconds a slot and operation.
//!
//! # What is not guaranteed
//! That a circuit computes the right function: [`Plain`] runs the same code. The twin is for that.

use fesc_ckks::Params;
use fesc_mpc::Shared;
use num_complex::Complex64;

use crate::backend::{Plain, PlainCt};
use crate::boundary::ToShares;
use crate::circuit::Circuit;
use crate::error::check_len;
use crate::{HybridError, Result};

/// Kinds of results that a circuit has at most.
const KINDS: usize = 2;
/// Most that the root mean square of errors may be, in deviations of the formula.
const RMS: f64 = 2.0;
/// Most that an error may be, in deviations times `ln n`.
const LARGEST: f64 = 3.0;

/// What a circuit took and gave, joined: the secrets of a run. Values of each tensor that went up, then the
/// real and the imaginary lanes of the results of each kind.
pub struct Witness {
    /// The tensors.
    pub parts: Vec<Vec<i64>>,
}

impl Witness {
    /// From what one party of a [`Circuit::run`] and the other have kept.
    ///
    /// # Errors
    /// [`HybridError::Length`] if they are not of one run.
    pub fn join(mine: &[Shared], theirs: &[Shared]) -> Result<Self> {
        check_len("parts of a witness", mine.len(), theirs.len())?;
        let mut parts = Vec::with_capacity(mine.len());
        for (a, b) in mine.iter().zip(theirs) {
            let ring = a.ring();
            parts.push(a.join(b)?.into_iter().map(|v| ring.to_signed(v)).collect::<Vec<i64>>());
        }
        Ok(Self { parts })
    }
}

/// How far results were from those in the clear, and how far the formula lets them be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    /// Root mean square of the errors of all lanes.
    pub rms: f64,
    /// The same by formula.
    pub formula: f64,
    /// The largest error.
    pub largest: f64,
    /// The largest error beside roundings, in deviations of the noise of its own lane.
    pub deviations: f64,
    /// Lanes.
    pub lanes: usize,
    /// What the rule lets the error of the noisiest lane of each kind of results deviate by, roundings
    /// included. It follows from the formula alone, not from the errors.
    pub spread: [f64; KINDS],
}

impl Deviation {
    /// Of nothing.
    const NONE: Self = Self { rms: 0.0, formula: 0.0, largest: 0.0, deviations: 0.0, lanes: 0, spread: [0.0; KINDS] };

    /// The one that is nearer to its limit, or beyond it.
    fn or_worse(self, other: Self) -> Self {
        let share = |d: &Self| if d.within() { d.rms / d.rms_limit() } else { f64::INFINITY };
        if self.lanes == 0 || share(&other) > share(&self) { other } else { self }
    }

    /// With [`Deviation::spread`] of values: a value of a kind is `factors` times the sum of at most `lanes`
    /// lanes. Errors of the lanes of one value need not be independent, so they are added up.
    #[must_use]
    pub fn of_values(mut self, factors: [f64; KINDS], lanes: [usize; KINDS]) -> Self {
        self.spread.iter_mut().zip(factors).zip(lanes).for_each(|((s, factor), n)| *s *= factor * n as f64);
        self
    }

    /// The most that [`Deviation::rms`] may be.
    pub fn rms_limit(&self) -> f64 {
        RMS * self.formula
    }

    /// The most that [`Deviation::deviations`] may be.
    pub fn limit(&self) -> f64 {
        LARGEST * (self.lanes.max(3) as f64).ln()
    }

    /// Whether the rule holds. What is no number does not hold.
    pub fn within(&self) -> bool {
        self.rms <= self.rms_limit() && self.deviations <= self.limit()
    }
}

impl Circuit {
    /// Results in the clear against a witness. `evaluate` is the kernel, as in [`Circuit::run`].
    ///
    /// # Errors
    /// A witness of another circuit, and what the kernel refuses.
    pub fn deviation(
        &self,
        witness: &Witness,
        evaluate: impl FnOnce(&Plain, &(dyn Fn(usize) -> Result<PlainCt> + Sync)) -> Result<Vec<PlainCt>>,
    ) -> Result<Deviation> {
        check_len("parts of a witness", self.up.len() + 2 * self.down.len(), witness.parts.len())?;
        let (tensors, lanes) = witness.parts.split_at(self.up.len());
        let none = HybridError::Length { what: "kinds of results of a circuit", expected: 1, got: 0 };
        let params: &Params = self.down.first().ok_or(none)?.params();
        let plain = Plain::of(params);
        let input = |i: usize| {
            let mut at = i;
            for (up, values) in self.up.iter().zip(tensors) {
                if at < up.layout().ciphertexts() {
                    let encoding = up.encoding(at);
                    return plain.fresh_parts(&up.slots(at, values), encoding.level, encoding.parts);
                }
                at -= up.layout().ciphertexts();
            }
            Err(HybridError::Length { what: "inputs of a circuit", expected: i + 1, got: i - at })
        };
        let results = evaluate(&plain, &input)?;
        let count = self.down.iter().map(ToShares::ciphertexts).sum();
        check_len("results of a circuit", count, results.len())?;
        let (mut rest, mut found, mut spread) = (&results[..], Deviation::NONE, [0.0; KINDS]);
        check_len("kinds of results of a circuit", self.down.len().min(KINDS), self.down.len())?;
        for ((down, lanes), spread) in self.down.iter().zip(lanes.chunks_exact(2)).zip(&mut spread) {
            let [real, imaginary] = lanes else { continue };
            check_len("lanes of a witness", down.values(), real.len())?;
            check_len("lanes of a witness", down.values(), imaginary.len())?;
            let (own, after) = rest.split_at(down.ciphertexts());
            rest = after;
            let expected = own.iter().flat_map(|c| c.slots().iter().zip(c.errors()));
            let deviation = down.compare(expected, real.iter().zip(imaginary))?;
            *spread = deviation.spread[0];
            found = found.or_worse(deviation);
        }
        Ok(Deviation { spread, ..found })
    }
}

/// How many lanes name the same value, at most.
pub fn most_lanes(values: usize, names: impl Iterator<Item = Vec<[Option<u32>; 2]>>) -> usize {
    let mut counts = vec![0usize; values];
    for name in names.flatten().flatten().flatten() {
        if let Some(count) = counts.get_mut(name as usize) {
            *count += 1;
        }
    }
    counts.into_iter().max().unwrap_or(0)
}

/// Sums of a comparison, in units of the last place.
pub(crate) struct Sums {
    /// What the arithmetic of decoding may be off by.
    arithmetic: f64,
    lanes: usize,
    squares: f64,
    variances: f64,
    largest: f64,
    deviations: f64,
    noisiest: f64,
}

impl Sums {
    pub(crate) fn new(arithmetic: f64) -> Self {
        Self { arithmetic, lanes: 0, squares: 0.0, variances: 0.0, largest: 0.0, deviations: 0.0, noisiest: 0.0 }
    }

    /// One lane: its error, where its value is between two integers, and the deviation of its noise.
    pub(crate) fn add(&mut self, error: f64, between: f64, noise: f64) {
        // The larger, and what is no number rather than a number.
        let larger = |a: f64, b: f64| if a >= b { a } else { b };
        self.lanes += 1;
        self.squares += error * error;
        self.variances += noise * noise + (between * (1.0 - between) + noise).min(0.25);
        self.largest = larger(self.largest, error.abs());
        self.noisiest = larger(self.noisiest, noise);
        self.deviations = larger(self.deviations, (error.abs() - 1.0 - self.arithmetic) / noise);
    }

    pub(crate) fn deviation(&self, unit: f64) -> Deviation {
        let root = |sum: f64| unit * (sum / self.lanes.max(1) as f64).sqrt();
        Deviation {
            rms: root(self.squares),
            formula: root(self.variances),
            largest: unit * self.largest,
            deviations: self.deviations,
            lanes: self.lanes,
            // Two roundings of parts deviate by half a unit at most.
            spread: [unit * ((RMS * self.noisiest).powi(2) + 0.25).sqrt(), 0.0],
        }
    }
}

/// A slot and the mean square of its error.
pub(crate) type Expected<'a> = (&'a Complex64, &'a f64);

#[cfg(test)]
mod tests;
