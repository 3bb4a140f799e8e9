//! The block dual form under encryption (the paper's comparison of scans, section app:scan-comparison): the
//! scan as masked products of scores, no state.
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
//! prod of a over j < t <= i  =  l_k[i] r_k[j],   l_k[i] = prod over m <= t <= i,   r_k[j] = prod over j < t < m,
//! ```
//!
//! and `l_k` is zero in left halves, `r_k` in right halves. For every shift `d < 2^(k+1)`, cyclic in the slots,
//! `l_k[i] r_k[i-d]` is then zero unless `i` and `i - d` are in one block: the zeros are every mask. Shifts
//! below [`NEAR`] take their product of decays directly, for all tokens at once. All products of decays come
//! from shares, as [`Value::Decays`].
//!
//! # Slots
//! `(high, token)`. For x, l and r the high axis has complex channels: `p` and `p + P/2` of a head share their
//! decays, B and C. For B and C it has states, cyclic, so that the sum over states is in every place: a score
//! is replicated over channels by the sum itself. B has shifts 0 and 1 in its real and imaginary part; a
//! conjugation splits the two scores. A shift is `g + b`, `b` below the number of baby steps: scores stay
//! moved by `g` (rotated C, rotated B), meet x moved by `b`, and the sum over `b` is moved by `g`.
//!
//! # Cost
//! Depth 3. [`DualScan::key_switches`] has the formula; 24 heads of 64 channels with 128 states and 128 tokens
//! in 16384 slots take 1190. Work grows with the square of the tokens, so that this is a kernel for short
//! documents; scores of all shifts of a group are in memory at once.
//!
//! # What is not guaranteed
//! Results are relative to the largest output, and are twice as large inside of the circuit.

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

/// Levels from the inputs to the results.
pub const DEPTH: usize = 3;

/// The block dual form for one shape and number of slots.
#[derive(Debug, Clone)]
pub struct DualScan {
    shape: ScanShape,
    slots: usize,
    /// The level of the results.
    out: usize,
    /// Baby steps, a power of two from [`NEAR`].
    baby: usize,
    /// All inputs, sorted.
    inputs: Vec<Input>,
}

impl DualScan {
    /// A plan that leaves results at level `out`. The number of baby steps is the one with the fewest key
    /// switches.
    ///
    /// # Errors
    /// If the tokens are none or more than the slots, the slots no power of two, or heads no multiple of groups.
    pub fn new(shape: ScanShape, slots: usize, out: usize) -> Result<Self> {
        let refuse = |what, got, need: String| Err(HybridError::Shape { what, got, need });
        if !slots.is_power_of_two() {
            return refuse("slots", slots, "a power of two is needed".into());
        }
        if shape.tokens == 0 || shape.tokens > slots {
            return refuse("tokens", shape.tokens, format!("1 to {slots} (the slots) are possible"));
        }
        if [shape.heads, shape.head_dim, shape.groups, shape.state].contains(&0)
            || !shape.heads.is_multiple_of(shape.groups)
        {
            return refuse("heads", shape.heads, format!("a multiple of {} groups is needed, no size 0", shape.groups));
        }
        let mut plan = Self { shape, slots, out, baby: NEAR, inputs: Vec::new() };
        let steps = (NEAR.ilog2()..=plan.axis().ilog2().max(NEAR.ilog2())).map(|k| 1 << k);
        plan.baby = steps.min_by_key(|&baby| Self { baby, ..plan.clone() }.key_switches()).unwrap_or(NEAR);
        plan.inputs = plan.all_inputs();
        Ok(plan)
    }

    /// Key switches, by formula: for every group
    /// `pairs (2 + log2 states) + chunks (rotations of B and C)`, for every block of channels
    /// `2 (near - 1) + 1 + sum over levels (1 + babies + 2 giants - [shifts of giant 0])`.
    pub fn key_switches(&self) -> u64 {
        let frames = self.shape.tokens.div_ceil(self.baby);
        let (full, rest) = (self.shape.tokens / self.baby, self.shape.tokens % self.baby);
        let pairs = full * self.baby / 2 + rest.div_ceil(2);
        let rotations = self.baby.min(self.shape.tokens).div_ceil(2) - 1 + frames - 1;
        let scores = pairs * (2 + self.states().ilog2() as usize) + self.chunks() * rotations;
        let far = |k: u32| {
            let end = (2usize << k).min(self.shape.tokens);
            let babies = if end - NEAR >= self.baby { self.baby - 1 } else { self.short_babies(end) };
            let last = (end - 1) / self.baby;
            1 + babies + last + (last + 1 - NEAR / self.baby)
        };
        let block = 2 * (self.near() - 1) + 1 + self.levels().map(far).sum::<usize>();
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

    /// States of a ciphertext, padded.
    fn states(&self) -> usize {
        self.shape.state.next_power_of_two().min(self.high())
    }

    /// Ciphertexts that the states of a group take.
    fn chunks(&self) -> usize {
        self.shape.state.div_ceil(self.states())
    }

    /// Complex channels of a head.
    fn pairs(&self) -> usize {
        self.shape.head_dim.div_ceil(2)
    }

    /// Ciphertexts that the channels of a group take.
    fn blocks(&self) -> usize {
        (self.shape.heads / self.shape.groups * self.pairs()).div_ceil(self.high())
    }

    /// Shifts with a product of decays of their own.
    fn near(&self) -> usize {
        NEAR.min(self.shape.tokens)
    }

    /// Levels of the recursion above the near shifts: blocks of `2^(k+1)` tokens.
    fn levels(&self) -> impl Iterator<Item = u32> + use<> {
        NEAR.ilog2()..self.axis().ilog2()
    }

    /// The shifts of a level.
    fn shifts(&self, k: u32) -> std::ops::Range<usize> {
        NEAR..(2 << k).min(self.shape.tokens)
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
        self.out + self.inputs[i].depth()
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

    fn run<B: Backend>(&self, backend: &B, input: &(impl Fn(usize) -> Result<B::Ct> + Sync)) -> Result<Vec<B::Ct>> {
        run::run(self, backend, &|which| input(self.index(which)))
    }
}
