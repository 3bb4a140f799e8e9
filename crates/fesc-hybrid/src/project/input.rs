//! HEInProj with HEConv: a projection, some of whose columns are convolved, without a conversion between.
//!
//! The columns that are convolved come first in the results, the others follow; a block that has both passes
//! the others through the convolution unchanged (one tap of 1). Depth 2: results that need no convolution are
//! only lowered.

use std::ops::Range;

use super::convolution::{Carry, Convolution};
use super::layout::{Lane, Layout};
use super::projection::Projection;
use crate::backend::Backend;
use crate::{HybridError, Result};

/// A projection with a convolution of some columns.
#[derive(Debug, Clone, PartialEq)]
pub struct InProjection {
    projection: Projection,
    convolution: Convolution,
    convolved: Range<usize>,
}

impl InProjection {
    /// For weights of `rows` inputs and `columns` outputs, of which `convolved` are convolved with `taps`
    /// taps.
    ///
    /// # Errors
    /// [`HybridError::Shape`] for sizes that cannot be.
    pub fn new(layout: Layout, rows: usize, columns: usize, convolved: Range<usize>, taps: usize) -> Result<Self> {
        let projection = Projection::new(layout, rows, columns)?;
        if convolved.is_empty() || convolved.end > columns {
            let need = format!("a range that is not empty and ends at {columns} at most");
            return Err(HybridError::Shape { what: "end of convolved columns", got: convolved.end, need });
        }
        // Whole blocks.
        let channels = columns.min(layout.blocks(convolved.len()) * layout.segment);
        Ok(Self { projection, convolution: Convolution::new(layout, channels, taps)?, convolved })
    }

    /// The projection; its own levels are one lower.
    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// The convolution.
    pub fn convolution(&self) -> &Convolution {
        &self.convolution
    }

    /// Number of input ciphertexts.
    pub fn inputs(&self) -> usize {
        self.projection.inputs()
    }

    /// The level of inputs.
    pub fn level(&self) -> usize {
        self.projection.level() + 1
    }

    /// Which value `token rows + feature` lies in each slot of input `i`.
    pub fn lanes(&self, i: usize) -> Vec<Lane> {
        self.projection.lanes(i)
    }

    /// Number of results.
    pub fn results(&self) -> usize {
        self.projection.results()
    }

    /// Which output `token columns + column` lies in each slot of result `i`.
    pub fn outputs(&self, i: usize) -> Vec<Lane> {
        let columns = self.projection.columns();
        let named = |at: u32| {
            let (token, place) = (at as usize / columns, at as usize % columns);
            (token * columns + self.column(place)) as u32
        };
        self.projection.outputs(i).into_iter().map(|lane| lane.map(|at| at.map(named))).collect()
    }

    /// The column at a place of the results: first those that are convolved.
    fn column(&self, place: usize) -> usize {
        let Range { start, end } = self.convolved;
        match place.checked_sub(end - start) {
            None => start + place,
            Some(other) if other < start => other,
            Some(_) => place,
        }
    }

    /// The tap of a place: 1 alone if it is not convolved.
    fn tap(&self, taps: &impl Fn(usize, usize) -> f64, place: usize, r: usize) -> f64 {
        if place < self.convolved.len() { taps(place, r) } else { f64::from(u8::from(r == 0)) }
    }

    /// The bias of a place: nothing if it is not convolved.
    fn bias(&self, bias: &impl Fn(usize) -> f64, place: usize) -> f64 {
        if place < self.convolved.len() { bias(place) } else { 0.0 }
    }

    /// Projects with `weights(row, column)`, and convolves with `taps(channel, r)` and `bias(channel)`, where
    /// channels are the convolved columns from 0.
    ///
    /// # Errors
    /// If the back end refuses an operation.
    pub fn run<B: Backend>(
        &self,
        backend: &B,
        weights: &(impl Fn(usize, usize) -> f64 + Sync),
        taps: &(impl Fn(usize, usize) -> f64 + Sync),
        bias: &(impl Fn(usize) -> f64 + Sync),
        input: &(impl Fn(usize) -> Result<B::Ct> + Sync),
    ) -> Result<Vec<B::Ct>> {
        let layout = self.projection.layout();
        let (floor, convolved) = (layout.floor, self.convolution.blocks());
        let weights = |row: usize, place: usize| weights(row, self.column(place));
        let taps = |place: usize, r: usize| self.tap(taps, place, r);
        let bias = |place: usize| self.bias(bias, place);
        let (mut results, mut carry) = (Vec::new(), Carry::new());
        for g in 0..layout.groups() {
            let mut q = self.projection.group(backend, floor + 1, &weights, input, g)?;
            let others = q.split_off(convolved);
            let step = || self.convolution.group(backend, &taps, &bias, &q, &carry);
            let (eta, rotated) = backend.part("convolution", step)?;
            results.extend(eta);
            results.extend(backend.each(others.len(), |b| backend.lower(&others[b], floor))?);
            carry = rotated;
        }
        backend.part("convolution", || self.convolution.close(backend, &taps, &mut results, &carry))?;
        Ok(results)
    }

    /// The largest magnitude of a slot of any result, garbage included, if each part of each input's slots is
    /// at most `part` in magnitude: [`Projection::output_bound`] of each column, through
    /// [`Convolution::output_bound`]. Noise is not in it.
    pub fn output_bound(
        &self,
        weights: &impl Fn(usize, usize) -> f64,
        taps: &impl Fn(usize, usize) -> f64,
        bias: &impl Fn(usize) -> f64,
        part: f64,
    ) -> f64 {
        let projected = |place: usize| part * self.projection.column_norm(weights, self.column(place));
        let (taps, bias) = (|place, r| self.tap(taps, place, r), |place| self.bias(bias, place));
        let convolved = self.convolution.output_bound(&taps, &bias, projected);
        convolved.max(self.projection.output_bound(weights, part))
    }
}
