//! The sum of squares of each token's features, for the norm before a projection, on the same inputs.
//!
//! With `z = a + i b` in the slots, `z conj(z) = a^2 + b^2`. Blocks are summed before anything is
//! relinearised, and the `F` features of a row are summed after the conversion, on shares, where that is
//! local.
//!
//! - [`Pairing::Features`]: both squares belong to one token; one result for each group.
//! - [`Pairing::Tokens`]: they belong to two. `z (conj(z) + z) / 2` has `a^2` in its real part and
//!   `z (conj(z) - z) / 2` has `b^2`: two results.
//!
//! # Cost
//! For each group: a conjugation and a product (two) for each input, one relinearisation (two). Depth 1.

use super::layout::{Lane, Layout, Pairing};
use crate::Result;
use crate::backend::{Backend, Term};

/// Sums of squares of inputs of a [`Projection`](super::Projection) with the same layout and rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SquareSums {
    layout: Layout,
    rows: usize,
}

impl SquareSums {
    /// Of so many features.
    ///
    /// # Errors
    /// [`HybridError::Shape`](crate::HybridError::Shape) for sizes that cannot be.
    pub fn new(layout: Layout, rows: usize) -> Result<Self> {
        layout.check(rows, rows)?;
        Ok(Self { layout, rows })
    }

    /// Number of input ciphertexts.
    pub fn inputs(&self) -> usize {
        self.layout.all_inputs(self.rows)
    }

    /// The level of inputs.
    pub fn level(&self) -> usize {
        self.layout.floor + 1
    }

    /// Which value `token rows + feature` lies in each slot of input `i`.
    pub fn lanes(&self, i: usize) -> Vec<Lane> {
        self.layout.input_lanes(i, self.rows)
    }

    /// Results of a group.
    fn parts(&self) -> usize {
        if self.layout.pairing == Pairing::Tokens { 2 } else { 1 }
    }

    /// Number of results.
    pub fn results(&self) -> usize {
        self.layout.groups() * self.parts()
    }

    /// Which token lies in each slot of result `i`. Its sum of squares is the sum of all slots that name it.
    pub fn outputs(&self, i: usize) -> Vec<Lane> {
        let (group, part) = (i / self.parts(), i % self.parts());
        let width = self.layout.width_of(0, self.rows);
        let token = |slot: usize| {
            let token = self.layout.token(group, slot / self.layout.segment, part);
            token.filter(|_| slot % self.layout.segment < width).map(|t| t as u32)
        };
        (0..self.layout.slots).map(|slot| [token(slot), None]).collect()
    }

    /// Computes.
    ///
    /// # Errors
    /// If the back end refuses an operation.
    pub fn run<B: Backend>(&self, backend: &B, input: &(impl Fn(usize) -> Result<B::Ct> + Sync)) -> Result<Vec<B::Ct>> {
        let inputs = self.layout.inputs(self.rows);
        let mut results = Vec::with_capacity(self.results());
        for g in 0..self.layout.groups() {
            let pairs = backend.each(inputs, |u| {
                let z = input(g * inputs + u)?;
                let conjugate = backend.conjugate(&z)?;
                Ok((z, conjugate))
            })?;
            results.extend(backend.each(self.parts(), |part| {
                let other = |(z, conjugate): &(B::Ct, B::Ct)| match (self.layout.pairing, part) {
                    (Pairing::Features, _) => Ok(conjugate.clone()),
                    (Pairing::Tokens, 0) => backend.add(conjugate, z),
                    (Pairing::Tokens, _) => backend.sub(conjugate, z),
                };
                let others = pairs.iter().map(other).collect::<Result<Vec<_>>>()?;
                let terms: Vec<Term<'_, B>> =
                    pairs.iter().zip(&others).map(|((z, _), other)| Term::Product(z, other)).collect();
                let sum = backend.combine(self.level(), &terms)?;
                if self.parts() == 2 { backend.halve(&sum) } else { Ok(sum) }
            })?);
        }
        Ok(results)
    }

    /// The largest magnitude of a slot of any result, garbage included, if each part of each input's slots is
    /// at most `part` in magnitude: `2 part^2` for each input, or `sqrt(2) part^2` with pairs of tokens.
    /// Noise is not in it.
    pub fn output_bound(&self, part: f64) -> f64 {
        let each = if self.parts() == 2 { std::f64::consts::SQRT_2 } else { 2.0 };
        self.layout.inputs(self.rows) as f64 * each * part * part
    }
}
