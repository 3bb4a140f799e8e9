//! How often the products of a bundle are wrong.
//!
//! Only answers of the [`crate::slots`] engine can be: by noise, and then in all slots, or by the lift of one
//! slot ([`SlotParams::failure`]). Gilboa's method is exact. The [`crate::coefficients`] engine works modulo
//! powers of two, so it has no lift, and its noise is what a product that need not be exact allows.

use std::ops::Add;

use fesc_mpc::MpcError;
use fesc_mpc::correlation::Bundle;

use super::plan::{Method, Piece, Prices};
use super::{HELD, Whole};
use crate::slots::SlotParams;

/// Answers of the slots engine, and how many of them are expected to be wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Failures {
    /// Answers.
    pub answers: u64,
    /// Answers with a coefficient that noise moved: all their slots are wrong.
    pub noise: f64,
    /// Slots whose share wrapped.
    pub lift: f64,
}

impl Failures {
    /// A bound on the probability that anything is wrong.
    pub fn total(&self) -> f64 {
        self.noise + self.lift
    }
}

impl Add for Failures {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { answers: self.answers + other.answers, noise: self.noise + other.noise, lift: self.lift + other.lift }
    }
}

/// The answers of a task by kind: how many, of how many terms, with which runs.
fn answers(piece: &Piece) -> Vec<(usize, usize, usize)> {
    let parts = piece.parts.sum;
    match piece.method {
        Method::Left | Method::Right => vec![(piece.answers(), parts, piece.run())],
        Method::Both => vec![(piece.answers(), 2 * parts, 1)],
        Method::Square => vec![(1, parts, 1)],
        // All but one are rows times scalars, one is the sum of squares.
        Method::Shared => vec![(piece.answers() - 1, 2, 1), (1, parts, 1)],
    }
}

/// What is expected of a bundle as [`super::Rlwe`] makes it, for masks that are uniform.
///
/// # Errors
/// If the bundle is not valid.
pub fn failures(bundle: &Bundle, params: &SlotParams) -> Result<Failures, MpcError> {
    let whole = Whole::new(bundle, &Prices::new(params, HELD))?;
    let mut sum = Failures::default();
    if !whole.taken {
        return Ok(sum);
    }
    for task in whole.plan.tasks.iter().flatten() {
        for (count, terms, run) in answers(&whole.plan.pieces[task.piece]) {
            let (noise, lift) = params.failure(terms, run);
            let count = count as u64;
            sum = sum + Failures { answers: count, noise: count as f64 * noise, lift: count as f64 * lift };
        }
    }
    Ok(sum)
}
