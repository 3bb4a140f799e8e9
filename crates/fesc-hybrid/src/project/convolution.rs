//! HEConv: the causal convolution of each channel on its own (the paper, section ks-he:conv).
//!
//! ```text
//! eta_k[c] = b_c + sum_(r < d_conv) w_(c,r) q_(k-r)[c],    q_t = 0 for t < 0.
//! ```
//!
//! Token `k - r` is `r` rows before token `k`: a rotation by `-r F`. The first `r` rows of a group take from
//! the rotated group before it, all others from their own: two plaintexts with disjoint supports, which are
//! the tap's weights where their rows are and zero elsewhere. (Groups that overlap in `d_conv - 1` tokens
//! would need no such masks, but a second group for 128 tokens.)
//!
//! Second tokens ([`Pairing::Tokens`]) begin where the first tokens end, so that the first rows of the first
//! group take their imaginary parts from the *real* parts of the last group: with `s` half of that sum,
//! `i (s + conj s)` has it as its imaginary part and nothing else.
//!
//! # Cost
//! For each block and group: `d_conv - 1` hoisted rotations, `2 d_conv - 1` products (`d_conv` in the first
//! group) and a rescaling; for each block once `d_conv - 1` products, a rescaling and a conjugation, if there
//! are second tokens. All at one level. Plaintexts of whole ciphertexts, not compact: `2 (d_conv - 1)` at a
//! time.

use num_complex::Complex64;

use super::layout::{Lane, Layout, Pairing};
use crate::backend::{Backend, Term};
use crate::{HybridError, Result};

/// A convolution of results of a projection in the same layout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Convolution {
    layout: Layout,
    channels: usize,
    taps: usize,
}

/// The rotations of each block of the group before.
pub(super) type Carry<C> = Vec<Vec<C>>;
/// Results of a group, and its carry for the next.
type Step<C> = (Vec<C>, Carry<C>);

impl Convolution {
    /// For so many channels and taps (`d_conv`).
    ///
    /// # Errors
    /// [`HybridError::Shape`] for sizes that cannot be: taps reach back by one group at most.
    pub fn new(layout: Layout, channels: usize, taps: usize) -> Result<Self> {
        layout.check(channels, channels)?;
        if taps == 0 || taps > layout.rows() + 1 {
            let need = format!("from 1 to one more than the {} rows of a ciphertext", layout.rows());
            return Err(HybridError::Shape { what: "taps of a convolution", got: taps, need });
        }
        Ok(Self { layout, channels, taps })
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Blocks of channels.
    pub(super) fn blocks(&self) -> usize {
        self.layout.blocks(self.channels)
    }

    /// Number of input ciphertexts.
    pub fn inputs(&self) -> usize {
        self.layout.groups() * self.blocks()
    }

    /// The level of inputs.
    pub fn level(&self) -> usize {
        self.layout.floor + 1
    }

    /// Which value `token channels + channel` lies in each slot of input `i`.
    pub fn lanes(&self, i: usize) -> Vec<Lane> {
        self.layout.output(i / self.blocks(), i % self.blocks(), self.channels)
    }

    /// Number of results.
    pub fn results(&self) -> usize {
        self.inputs()
    }

    /// Which output lies in each slot of result `i`: the layout of inputs.
    pub fn outputs(&self, i: usize) -> Vec<Lane> {
        self.lanes(i)
    }

    /// Convolves with `taps(channel, r)` and `bias(channel)`.
    ///
    /// # Errors
    /// If the back end refuses an operation.
    pub fn run<B: Backend>(
        &self,
        backend: &B,
        taps: &(impl Fn(usize, usize) -> f64 + Sync),
        bias: &(impl Fn(usize) -> f64 + Sync),
        input: &(impl Fn(usize) -> Result<B::Ct> + Sync),
    ) -> Result<Vec<B::Ct>> {
        let (mut results, mut carry) = (Vec::new(), Carry::new());
        for g in 0..self.layout.groups() {
            let blocks = backend.each(self.blocks(), |b| input(g * self.blocks() + b))?;
            let (eta, rotated) = self.group(backend, taps, bias, &blocks, &carry)?;
            results.extend(eta);
            carry = rotated;
        }
        self.close(backend, taps, &mut results, &carry)?;
        Ok(results)
    }

    /// The results of one group without the second tokens' first rows, and the carry for the next group. The
    /// carry of the first is empty.
    pub(super) fn group<B: Backend>(
        &self,
        backend: &B,
        taps: &(impl Fn(usize, usize) -> f64 + Sync),
        bias: &(impl Fn(usize) -> f64 + Sync),
        blocks: &[B::Ct],
        carry: &Carry<B::Ct>,
    ) -> Result<Step<B::Ct>> {
        let level = self.level();
        let steps: Vec<i64> = (1..self.taps).map(|r| -((r * self.layout.segment) as i64)).collect();
        let done = backend.each(blocks.len(), |b| {
            let rotated = backend.rotate_many(&blocks[b], &steps)?;
            let own = |r: usize| backend.encode(&self.tap(b, r, taps, |row| row >= r, 1.0), level);
            let own = (0..self.taps).map(own).collect::<Result<Vec<_>>>()?;
            let mut terms: Vec<Term<'_, B>> =
                std::iter::once(&blocks[b]).chain(&rotated).zip(&own).map(|(c, w)| Term::Plain(c, w)).collect();
            let before = match carry.get(b) {
                Some(_) => self.first_rows(backend, b, taps, 1.0)?,
                None => Vec::new(),
            };
            terms.extend(carry.get(b).into_iter().flatten().zip(&before).map(|(c, w)| Term::Plain(c, w)));
            let eta = backend.combine(level, &terms)?;
            Ok((backend.add_values(&eta, &self.bias(b, bias))?, rotated))
        })?;
        Ok(done.into_iter().unzip())
    }

    /// Adds what the second tokens' first rows take from the first tokens' last ones to the results of the
    /// first group; `carry` is that of the last group.
    pub(super) fn close<B: Backend>(
        &self,
        backend: &B,
        taps: &(impl Fn(usize, usize) -> f64 + Sync),
        results: &mut [B::Ct],
        carry: &Carry<B::Ct>,
    ) -> Result<()> {
        if !self.layout.second_tokens() || self.taps == 1 {
            return Ok(());
        }
        let sums = backend.each(carry.len(), |b| {
            let half = self.first_rows(backend, b, taps, 0.5)?;
            let terms: Vec<Term<'_, B>> = carry[b].iter().zip(&half).map(|(c, w)| Term::Plain(c, w)).collect();
            let s = backend.combine(self.level(), &terms)?;
            let real = backend.add(&s, &backend.conjugate(&s)?)?;
            backend.add(&results[b], &backend.times_i(&real)?)
        })?;
        results.iter_mut().zip(sums).for_each(|(result, sum)| *result = sum);
        Ok(())
    }

    /// Taps from 1 on, in the rows that reach into the group before.
    fn first_rows<B: Backend>(
        &self,
        backend: &B,
        b: usize,
        taps: &impl Fn(usize, usize) -> f64,
        factor: f64,
    ) -> Result<Vec<B::Pt>> {
        let tap = |r: usize| backend.encode(&self.tap(b, r, taps, |row| row < r, factor), self.level());
        (1..self.taps).map(tap).collect()
    }

    /// A tap of block `b` in some rows; one period if it is in all of them.
    fn tap(
        &self,
        b: usize,
        r: usize,
        taps: &impl Fn(usize, usize) -> f64,
        rows: impl Fn(usize) -> bool,
        factor: f64,
    ) -> Vec<Complex64> {
        let all = (0..self.layout.rows()).all(&rows);
        let segment = self.of_channels(b, |c| Complex64::from(factor * taps(c, r)));
        let zero = vec![Complex64::ZERO; segment.len()];
        let count = if all { 1 } else { self.layout.rows() };
        (0..count).flat_map(|row| if rows(row) { &segment } else { &zero }).copied().collect()
    }

    /// The bias of block `b`, for both tokens of a slot.
    fn bias(&self, b: usize, bias: &impl Fn(usize) -> f64) -> Vec<Complex64> {
        self.of_channels(b, |c| match self.layout.pairing {
            Pairing::Tokens => Complex64::new(bias(c), bias(c)),
            Pairing::Features => Complex64::from(bias(c)),
        })
    }

    /// A value for each channel of block `b`, zero for places without one.
    fn of_channels(&self, b: usize, value: impl Fn(usize) -> Complex64) -> Vec<Complex64> {
        let of = |c: usize| if c < self.channels { value(c) } else { Complex64::ZERO };
        (0..self.layout.segment).map(|f| of(b * self.layout.segment + f)).collect()
    }

    /// The largest magnitude of a slot of any result, garbage included, if each part of each input's slots is
    /// at most `part` in magnitude: `sqrt(2) max_c (part sum_r |w_(c,r)| + |b_c|)`. Noise is not in it.
    pub fn output_bound(
        &self,
        taps: &impl Fn(usize, usize) -> f64,
        bias: &impl Fn(usize) -> f64,
        part: impl Fn(usize) -> f64,
    ) -> f64 {
        let norm = |c: usize| (0..self.taps).map(|r| taps(c, r).abs()).sum::<f64>();
        let of = |c: usize| part(c) * norm(c) + bias(c).abs();
        std::f64::consts::SQRT_2 * (0..self.channels).map(of).fold(0.0, f64::max)
    }
}
