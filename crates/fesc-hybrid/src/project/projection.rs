//! `Y = X W` with an encrypted `X` and known `W`, by baby and giant steps.
//!
//! For block `b` of columns, giant step `p` and small step `q`, with `n1 n2 = F` and `d = p n1 + q`:
//!
//! ```text
//! c_p = sum_u sum_q ( S_(u,p,q) rotate(x_u, q) + V_(u,p,q) rotate(rotate(x_u, -F), q) )
//! y^(b) = sum_p rotate(c_p, p n1)
//! ```
//!
//! where, at `(f + p n1) mod F` of the period, the diagonals `S` and `V` have the weight of feature `(f + d)
//! mod F` of block `u` and column `f` of block `b`: `S` where `f + d < F`, and `V` where it wraps. Diagonals
//! that are zero because a block is not full are left out.
//!
//! # Cost
//! [`Projection::counts`]. For full blocks, `U` inputs and `B` results in each group of tokens: `U B (2 F -
//! 1)` products, `U (2 n1 - 1)` rotations at the level of the inputs, all but `U` of them hoisted, `B (n2 -
//! 1)` rotations and `B n2` rescalings below it. `n1` is the power of two with the least of these. Memory: `2
//! n1 U` rotated inputs of one group, and for each thread [`STEPS`] sums with their diagonals.

use num_complex::Complex64;

use super::layout::{Lane, Layout, Pairing};
use crate::Result;
use crate::backend::Backend;

/// Giant steps whose sums are computed together: they read the rotated inputs once.
pub(super) const STEPS: usize = 8;
/// Part of a rotation that a hoisted one costs.
const HOISTED: f64 = 0.6;

/// A projection of tokens in a [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection {
    layout: Layout,
    rows: usize,
    columns: usize,
    /// Small steps, `n1`.
    steps: usize,
}

/// Operations of a projection, all groups together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Products by plaintexts, at the level of the inputs.
    pub plain_products: u64,
    /// Rotations of an input that share their decomposition.
    pub hoisted_rotations: u64,
    /// Other rotations of inputs.
    pub input_rotations: u64,
    /// Rotations of sums, one level below.
    pub giant_rotations: u64,
    /// Sums that are rescaled.
    pub rescales: u64,
}

/// A rotated input: which, whether one row further down, and by what.
type Baby = (usize, bool, usize);

impl Projection {
    /// For weights of `rows` inputs and `columns` outputs.
    ///
    /// # Errors
    /// [`HybridError::Shape`](crate::HybridError::Shape) for sizes that cannot be.
    pub fn new(layout: Layout, rows: usize, columns: usize) -> Result<Self> {
        layout.check(rows, columns)?;
        let with = |k: u32| Self { layout, rows, columns, steps: 1 << k };
        let cost = |p: &Self| {
            let c = p.counts();
            (c.input_rotations + c.giant_rotations) as f64 + HOISTED * c.hoisted_rotations as f64
        };
        let better = |best: Self, next: Self| if cost(&next) < cost(&best) { next } else { best };
        Ok((1..=layout.segment.ilog2()).map(with).fold(with(0), better))
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Columns of the weights.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Small steps, `n1`.
    pub fn steps(&self) -> usize {
        self.steps
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

    /// Number of results.
    pub fn results(&self) -> usize {
        self.layout.groups() * self.layout.blocks(self.columns)
    }

    /// Which output `token columns + column` lies in each slot of result `i`.
    pub fn outputs(&self, i: usize) -> Vec<Lane> {
        let blocks = self.layout.blocks(self.columns);
        self.layout.output(i / blocks, i % blocks, self.columns)
    }

    /// `X W`. `input(i)` gives input `i`, as often as it is asked for.
    ///
    /// # Errors
    /// If the back end refuses an operation.
    pub fn run<B: Backend>(
        &self,
        backend: &B,
        weights: &(impl Fn(usize, usize) -> f64 + Sync),
        input: &(impl Fn(usize) -> Result<B::Ct> + Sync),
    ) -> Result<Vec<B::Ct>> {
        let mut results = Vec::with_capacity(self.results());
        for g in 0..self.layout.groups() {
            results.extend(self.group(backend, self.layout.floor, weights, input, g)?);
        }
        Ok(results)
    }

    /// The results of one group at `floor`.
    pub(super) fn group<B: Backend>(
        &self,
        backend: &B,
        floor: usize,
        weights: &(impl Fn(usize, usize) -> f64 + Sync),
        input: &(impl Fn(usize) -> Result<B::Ct> + Sync),
        group: usize,
    ) -> Result<Vec<B::Ct>> {
        let (babies, factors) = backend.part("small steps", || self.small_steps(backend, input, group))?;
        let factors: Vec<&B::Ct> = factors.iter().collect();
        // Giant steps of all blocks in tasks of a few.
        let mut tasks: Vec<(usize, Vec<usize>)> = Vec::new();
        for b in 0..self.layout.blocks(self.columns) {
            tasks.extend(self.giant_steps(b).chunks(STEPS).map(|steps| (b, steps.to_vec())));
        }
        let parts = backend.each(tasks.len(), |t| {
            let (b, steps) = &tasks[t];
            let diagonal = |p: usize, &(u, wraps, q): &Baby| {
                let values = self.diagonal(u, *b, p * self.steps + q, wraps, p, weights);
                backend.encode(&values, floor + 1)
            };
            let row = |&p: &usize| {
                let used = babies.iter().enumerate().filter(|(_, baby)| self.used(baby, *b, p));
                used.map(|(i, baby)| Ok((i, diagonal(p, baby)?))).collect::<Result<Vec<_>>>()
            };
            let weights = steps.iter().map(row).collect::<Result<Vec<_>>>()?;
            let mut sums = steps.iter().map(|_| backend.empty_sum(floor + 1)).collect::<Result<Vec<_>>>()?;
            backend.extend_many(&mut sums, &factors, &weights)?;
            drop(weights);
            let turned = sums.into_iter().zip(steps).map(|(sum, p)| {
                let c = backend.finish(sum)?;
                if *p == 0 { Ok(c) } else { backend.rotate(&c, (p * self.steps) as i64) }
            });
            total(backend, turned)
        })?;
        let mut results: Vec<Option<B::Ct>> = vec![None; self.layout.blocks(self.columns)];
        for (part, (b, _)) in parts.into_iter().zip(&tasks) {
            let parts = results[*b].take().into_iter().chain(part);
            results[*b] = total(backend, parts.map(Ok))?;
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// All rotated inputs of a group that some diagonal needs, in order.
    fn small_steps<B: Backend>(
        &self,
        backend: &B,
        input: &(impl Fn(usize) -> Result<B::Ct> + Sync),
        group: usize,
    ) -> Result<(Vec<Baby>, Vec<B::Ct>)> {
        let inputs = self.layout.inputs(self.rows);
        let rotated = backend.each(2 * inputs, |i| {
            let (u, wraps) = (i / 2, i % 2 == 1);
            let steps = self.rotations(u, wraps);
            if steps.is_empty() {
                return Ok(Vec::new());
            }
            let x = input(group * inputs + u)?;
            let x = if wraps { backend.rotate(&x, -(self.layout.segment as i64))? } else { x };
            let by: Vec<i64> = steps.iter().map(|&q| q as i64).collect();
            let babies = steps.into_iter().map(|q| (u, wraps, q));
            Ok(babies.zip(backend.rotate_many(&x, &by)?).collect())
        })?;
        Ok(rotated.into_iter().flatten().unzip())
    }

    /// Features of input `u`: of the wider of its two blocks, if it has two.
    fn width(&self, u: usize) -> usize {
        let block = if self.layout.pairing == Pairing::Tokens { u } else { 2 * u };
        self.layout.width_of(block, self.rows)
    }

    /// Whether the diagonal of block `b` and giant step `p` for a rotated input has a weight.
    fn used(&self, &(u, wraps, q): &Baby, b: usize, p: usize) -> bool {
        let d = p * self.steps + q;
        if wraps { d + self.layout.width_of(b, self.columns) > self.layout.segment } else { d < self.width(u) }
    }

    /// Small steps of an input that any block needs. The first block has the most columns.
    fn rotations(&self, u: usize, wraps: bool) -> Vec<usize> {
        let giants = self.layout.segment / self.steps;
        (0..self.steps).filter(|&q| (0..giants).any(|p| self.used(&(u, wraps, q), 0, p))).collect()
    }

    /// Giant steps that have a diagonal for block `b`. The first input has the most features.
    fn giant_steps(&self, b: usize) -> Vec<usize> {
        let any = |p: usize| (0..self.steps).any(|q| [false, true].iter().any(|&w| self.used(&(0, w, q), b, p)));
        (0..self.layout.segment / self.steps).filter(|&p| any(p)).collect()
    }

    /// The diagonal `d` of input `u` and block `b` where it wraps or where not, moved for giant step `p`.
    fn diagonal(
        &self,
        u: usize,
        b: usize,
        d: usize,
        wraps: bool,
        p: usize,
        weights: &impl Fn(usize, usize) -> f64,
    ) -> Vec<Complex64> {
        let segment = self.layout.segment;
        let mut values = vec![Complex64::ZERO; segment];
        let weight = |row: usize, column: usize| if row < self.rows { weights(row, column) } else { 0.0 };
        let wrap = (segment - d).min(segment);
        let range = if wraps { wrap..segment } else { 0..wrap };
        for f in range.start..range.end.min(self.layout.width_of(b, self.columns)) {
            let (k, column) = ((f + d) % segment, b * segment + f);
            values[(f + p * self.steps) % segment] = match self.layout.pairing {
                Pairing::Tokens => Complex64::from(weight(u * segment + k, column)),
                Pairing::Features => {
                    let row = 2 * u * segment + k;
                    Complex64::new(weight(row, column), -weight(row + segment, column))
                }
            };
        }
        values
    }

    /// What [`Projection::run`] does, by formula.
    pub fn counts(&self) -> Counts {
        let (inputs, blocks) = (self.layout.inputs(self.rows), self.layout.blocks(self.columns));
        let mut counts = Counts::default();
        for u in 0..inputs {
            for wraps in [false, true] {
                let steps = self.rotations(u, wraps);
                let turned = steps.iter().filter(|q| **q != 0).count() as u64;
                let down = wraps && !steps.is_empty() && self.layout.segment < self.layout.slots;
                counts.input_rotations += u64::from(turned == 1) + u64::from(down);
                counts.hoisted_rotations += if turned > 1 { turned } else { 0 };
            }
            // Those that do not wrap are used for d < width, those that wrap for d + columns > F.
            let columns = (0..blocks).map(|b| self.layout.width_of(b, self.columns) as u64);
            counts.plain_products += columns.map(|columns| self.width(u) as u64 + columns - 1).sum::<u64>();
        }
        for b in 0..blocks {
            let giants = self.giant_steps(b);
            counts.rescales += giants.len() as u64;
            counts.giant_rotations += giants.iter().filter(|p| **p != 0).count() as u64;
        }
        counts.times(self.layout.groups() as u64)
    }

    /// The largest magnitude of a slot of any result, garbage included, if each part of each input's slots is
    /// at most `part` in magnitude: `sqrt(2) part max_c sum_r |w_(r,c)|`, since each part of a result is a
    /// sum of parts of inputs with the weights of one column. It holds for everything that slots of `n` bits
    /// can carry with `part = 2^(n - 1) / scale`, whatever activations are in fact. A coefficient of the
    /// phase is at most the scale times this, and noise.
    pub fn output_bound(&self, weights: &impl Fn(usize, usize) -> f64, part: f64) -> f64 {
        let norm = |c: usize| self.column_norm(weights, c);
        std::f64::consts::SQRT_2 * part * (0..self.columns).map(norm).fold(0.0, f64::max)
    }

    /// `sum_r |w_(r,c)|`.
    pub(super) fn column_norm(&self, weights: &impl Fn(usize, usize) -> f64, column: usize) -> f64 {
        (0..self.rows).map(|r| weights(r, column).abs()).sum()
    }
}

impl Counts {
    /// All of them so many times.
    fn times(self, n: u64) -> Self {
        Self {
            plain_products: self.plain_products * n,
            hoisted_rotations: self.hoisted_rotations * n,
            input_rotations: self.input_rotations * n,
            giant_rotations: self.giant_rotations * n,
            rescales: self.rescales * n,
        }
    }
}

/// The sum of ciphertexts at one level; none if there are none.
fn total<B: Backend>(backend: &B, mut parts: impl Iterator<Item = Result<B::Ct>>) -> Result<Option<B::Ct>> {
    let Some(first) = parts.next().transpose()? else { return Ok(None) };
    parts.try_fold(first, |sum, part| backend.add(&sum, &part?)).map(Some)
}
