//! The block dual form under encryption, beside the paper's scan (section sec:ks-he:scan) and not in it: the
//! outputs as sums of scores times inputs, the decays as masks.
//!
//! With `S_d(i) = C_i . B_(i-d)` the output is a sum over shifts `d`,
//!
//! ```text
//! m_i = sum_d S_d(i) (prod of a over i-d < t <= i) x_(i-d).
//! ```
//!
//! The product of decays is split by recursive halving. For `i` in the right and `j` in the left half of a
//! block of `2^(k+1)` tokens, with `m` the first token of the right half,
//!
//! ```text
//! prod of a over j < t <= i  =  l_k[i] r_k[j],
//! l_k[i] = prod of a over m <= t <= i,   r_k[j] = prod of a over j < t < m,
//! ```
//!
//! and `l_k` is zero in left halves, `r_k` in right halves. For every shift `d < 2^(k+1)`, cyclic in the
//! slots, `l_k[i] r_k[i-d]` is then zero unless `i` and `i - d` are in one block: the zeros are every mask.
//! Shifts below [`NEAR`] take their product of decays directly, for all tokens at once. All products of
//! decays come from shares, as [`Value::Decays`].
//!
//! # Slots
//! `(high, token)`. For x, l and r the high axis has complex channels: `p` and `p + P/2` of a head share
//! their decays, B and C. For B and C it has states, cyclic, so that the sum over states is in every place: a
//! score is replicated over channels by the sum itself. B has shifts 0 and 1 in its real and imaginary part;
//! a conjugation splits the two scores. A shift is `g + b`, `b` below the number of baby steps: scores stay
//! moved to the left by `g`, meet x moved by `b`, and the sum over `b` is moved by `g`.
//!
//! # Carries
//! With chunks of Q tokens the above is done inside of each (all chunks lie on the token axis), and a chunk
//! gets the state before it from states, Q of them on the places of a chunk's tokens:
//!
//! ```text
//! s_c[n] = sum_j B_j[n] (col x)_j,   H_c = A_(c-1) H_(c-1) + s_(c-1),   m_i += row_i sum_n C_i[n] H_c[n].
//! ```
//!
//! Both sums are products by a band of diagonals of B and C, which come from shares in that layout; the
//! recurrence over chunks takes four chunks a step.
//!
//! # Cost
//! [`DualScan::key_switches`] has the formula, [`DualScan::depth`] the levels. 24 heads of 64 channels with
//! 128 states in 16384 slots:
//!
//! | tokens | one chunk | depth | chunks of 128 | depth |
//! |---|---|---|---|---|
//! | 128 | 1104 | 3 | | |
//! | 512 | 7264 | 3 | 5232 | 5 |
//! | 2048 | 53888 | 3 | 19936 | 6 |
//!
//! Scores of all shifts of a group are in memory at once: as many ciphertexts as a chunk has tokens.
//!
//! # What is not guaranteed
//! The error is relative to the largest output. Slots that name no output hold nothing but noise.

mod carry;
mod layout;
mod run;
#[cfg(test)]
mod tests;

use fesc_hybrid::backend::Backend;
use fesc_hybrid::{HybridError, Result};

use super::{HeScan, Lane, ScanShape, Value};
use layout::Input;

/// Shifts below this take one product of decays each. At 128 tokens it is best for key switches and inputs
/// together: with 8 there are 2 key switches fewer and 2 inputs more for every block of channels.
pub const NEAR: usize = 4;

/// Key switches that take as long as one more input takes both parties: about 6 ms.
const INPUT: usize = 3;

/// The block dual form for one shape and number of slots.
#[derive(Debug, Clone)]
pub struct DualScan {
    shape: ScanShape,
    slots: usize,
    /// The level of the results.
    out: usize,
    /// Baby steps, a power of two from [`NEAR`].
    baby: usize,
    /// States of a ciphertext of B or C, a power of two.
    states: usize,
    /// Tokens of a chunk, a power of two: all, unless there are carries.
    chunk: usize,
    /// All inputs, sorted.
    inputs: Vec<Input>,
}

impl DualScan {
    /// One chunk of all tokens: depth 3, work that grows with the square of the tokens. Results are at level
    /// `out`. Baby steps and states of a ciphertext are those with the least
    /// work.
    ///
    /// # Errors
    /// If the tokens are none or more than the slots, the slots no power of two, a size 0, or heads no
    /// multiple of groups.
    pub fn new(shape: ScanShape, slots: usize, out: usize) -> Result<Self> {
        Self::with_chunk(shape, slots, out, shape.tokens.next_power_of_two())
    }

    /// Chunks of as many tokens as there are states (padded), and carries between them: [`DualScan::depth`]
    /// levels, work that grows with the tokens. One chunk, if the tokens are no more than that.
    ///
    /// # Errors
    /// As [`DualScan::new`].
    pub fn chunked(shape: ScanShape, slots: usize, out: usize) -> Result<Self> {
        let all = shape.tokens.next_power_of_two();
        Self::with_chunk(shape, slots, out, shape.state.next_power_of_two().max(NEAR).min(all))
    }

    fn with_chunk(shape: ScanShape, slots: usize, out: usize, chunk: usize) -> Result<Self> {
        let refuse = |what, got, need: String| Err(HybridError::Shape { what, got, need });
        if !slots.is_power_of_two() {
            return refuse("slots", slots, "a power of two is needed".into());
        }
        if shape.tokens == 0 || shape.tokens > slots {
            return refuse("tokens", shape.tokens, format!("1 to {slots} (the slots) are possible"));
        }
        let sizes = [shape.heads, shape.head_dim, shape.groups, shape.state];
        if sizes.contains(&0) || !shape.heads.is_multiple_of(shape.groups) {
            return refuse("heads", shape.heads, format!("a multiple of {} groups is needed, no size 0", shape.groups));
        }
        let all_states = shape.state.next_power_of_two().min(slots / shape.tokens.next_power_of_two());
        let mut plan = Self { shape, slots, out, baby: NEAR, states: all_states, chunk, inputs: Vec::new() };
        let babies = (NEAR.ilog2()..=chunk.ilog2().max(NEAR.ilog2())).map(|k| 1 << k);
        let pairs = babies.flat_map(|baby| (0..=all_states.ilog2()).map(move |k| (baby, 1 << k)));
        let cost = |&(baby, states): &(usize, usize)| {
            let plan = Self { baby, states, ..plan.clone() };
            plan.key_switches() as usize + INPUT * 2 * shape.groups * plan.parts()
        };
        (plan.baby, plan.states) = pairs.min_by_key(cost).unwrap_or((NEAR, all_states));
        plan.inputs = plan.all_inputs();
        Ok(plan)
    }

    /// Levels from the highest input to the results: 3, or with carries `4 + log4 chunks`.
    pub fn depth(&self) -> usize {
        if self.carries() { 4 + self.strides().len() } else { 3 }
    }

    /// Key switches, by formula: for every group
    /// `pairs (2 + log2 states) + parts (rotations of B and C)`, for every block of channels
    /// `2 (near - 1) + 1 + sum over levels (1 + babies + 2 giants - [shifts of giant 0])` and its carries.
    pub fn key_switches(&self) -> u64 {
        let (span, baby) = (self.span(), self.baby);
        let pairs = span.div_ceil(2);
        let rotations = baby.min(span).div_ceil(2) - 1 + span.div_ceil(baby) - 1;
        let scores = pairs * (2 + self.states.ilog2() as usize) + self.parts() * rotations;
        let far = |k: u32| {
            let end = self.shifts(k).end;
            let babies = if end - NEAR >= baby { baby - 1 } else { self.short_babies(end) };
            let last = (end - 1) / baby;
            1 + babies + last + (last + 1 - NEAR / baby)
        };
        let block = 2 * (self.near() - 1) + 1 + self.levels().map(far).sum::<usize>() + self.carry_switches();
        (self.shape.groups * (scores + self.blocks() * block)) as u64
    }

    /// Nonzero baby steps of the shifts `NEAR..end`, which are fewer than the baby steps.
    fn short_babies(&self, end: usize) -> usize {
        (NEAR..end).filter(|d| !d.is_multiple_of(self.baby)).count()
    }

    /// Places of the token axis.
    fn axis(&self) -> usize {
        self.shape.tokens.next_power_of_two()
    }

    /// Places of the high axis.
    fn high(&self) -> usize {
        self.slots / self.axis()
    }

    /// Ciphertexts that the states of a group take.
    fn parts(&self) -> usize {
        self.shape.state.div_ceil(self.states)
    }

    /// Complex channels of a head.
    fn pairs(&self) -> usize {
        self.shape.head_dim.div_ceil(2)
    }

    /// Ciphertexts that the channels of a group take.
    fn blocks(&self) -> usize {
        (self.shape.heads / self.shape.groups * self.pairs()).div_ceil(self.high())
    }

    /// Shifts inside of a chunk.
    fn span(&self) -> usize {
        self.chunk.min(self.shape.tokens)
    }

    /// Shifts with a product of decays of their own.
    fn near(&self) -> usize {
        NEAR.min(self.span())
    }

    /// Levels of the recursion above the near shifts: blocks of `2^(k+1)` tokens.
    fn levels(&self) -> impl Iterator<Item = u32> + use<> {
        NEAR.ilog2()..self.chunk.ilog2()
    }

    /// The shifts of a level.
    fn shifts(&self, k: u32) -> std::ops::Range<usize> {
        NEAR..(2 << k).min(self.span())
    }
}

impl HeScan for DualScan {
    fn shape(&self) -> &ScanShape {
        &self.shape
    }

    fn inputs(&self) -> usize {
        self.inputs.len()
    }

    fn level(&self, i: usize) -> usize {
        self.out + self.depth_of(self.inputs[i])
    }

    fn lanes(&self, i: usize) -> Vec<Lane<Value>> {
        self.input_lanes(self.inputs[i])
    }

    fn results(&self) -> usize {
        self.shape.groups * self.blocks()
    }

    fn outputs(&self, i: usize) -> Vec<Lane<u32>> {
        self.output_lanes(i / self.blocks(), i % self.blocks())
    }

    /// They are halved by another scale.
    fn result_scale(&self) -> f64 {
        2.0
    }

    fn run<B: Backend>(&self, backend: &B, input: &(impl Fn(usize) -> Result<B::Ct> + Sync)) -> Result<Vec<B::Ct>> {
        run::run(self, backend, &|which| input(self.index(which)))
    }
}
