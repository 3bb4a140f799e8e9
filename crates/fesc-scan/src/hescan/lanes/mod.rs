//! The packing `lanes`: token blocks in slots, state coordinates across ciphertexts, complex channels.
//!
//! A slot is (channel `c`, coordinate `j`, block of tokens `b`), the channels outermost, so that B and C, and
//! decays if heads take turns, are vectors that repeat and can go up packed ([`super::packed`]). Channels `p`
//! and `p + P/2` of a head share a, B and C, which are real, and lie in the two parts of one slot: half of
//! the ciphertexts and no conjugation. The `t` tokens of a block lie in `t` ciphertexts. A *column* is one
//! block of channels and one chunk of coordinates.
//!
//! With leaves of `w` tokens and `n = t / w` leaves in a block:
//!
//! 1. `y = x` times the decays of the rest of its leaf, by doubling; a leaf's summary `sum y B` is one
//!    relinearisation.
//! 2. Brent-Kung over the `n` leaves: up to the block's summary `S`, down to the prefixes `P_q`.
//! 3. Kogge-Stone over the blocks, in the slots: `S <- S + D rot(S)`. The first decay of all is zero and
//!    zeros stay in products, so that what comes from other channels is multiplied by zero: no mask.
//! 4. `G = rot(S)`, the state before each block.
//! 5. Output at place `r` of leaf `q`, with sums over all chunks before the relinearisation:
//!    `m = dec(q w .. r) (sum C P_(q-1)) + dec(0 .. r) (sum C G)` and, inside the leaf,
//!    `+ sum_(r' <= r) dec(r' .. r) x_r' (sum C_r B_r')`.
//!
//! `w = 1` is the plain scan, `w = 2` fuses pairs of leaves, `w = t` is the packing `hybrid`: no network
//! across ciphertexts at all. Decays are composed once per block of channels, scores `sum C B` once for all
//! blocks of channels with the same groups.
//!
//! # Cost
//! Key switches of a column: `n` leaves, `2 n - 2 - log2 n` nodes, `2 log2 kappa` for the blocks, 1 for the
//! shift (for `kappa > 1`). Of an output: `1 + [q > 0] + [kappa > 1]`. Depth `log2 L + 3` unless the way down
//! through more than `2 kappa` leaves is longer. [`Lanes::formula`] adds all up.
//!
//! # What is not guaranteed
//! Decays above 1 are computed with, and grow: whoever makes the packet clamps them.

mod decays;
mod formula;
mod layout;
mod levels;
mod run;

use fesc_hybrid::Result;
use fesc_hybrid::backend::Backend;

use super::{HeScan, Lane, Repeats, ScanShape, Value};
pub use formula::KeySwitches;
pub use layout::LanesParams;
use layout::Layout;
use levels::Levels;

/// HEScan in the packing `lanes` or `hybrid`.
#[derive(Debug, Clone)]
pub struct Lanes {
    layout: Layout,
    levels: Levels,
}

/// Which input a number means.
#[derive(Clone, Copy)]
enum Input {
    X { block: usize, tau: usize },
    A { block: usize, tau: usize },
    B { pattern: usize, chunk: usize, tau: usize },
    C { pattern: usize, chunk: usize, tau: usize },
}

impl Lanes {
    /// For a shape in ciphertexts of `slots` slots.
    ///
    /// # Errors
    /// If the shape does not fit.
    pub fn new(shape: ScanShape, slots: usize, params: LanesParams) -> Result<Self> {
        let layout = Layout::new(shape, slots, params)?;
        let levels = Levels::new(&layout);
        Ok(Self { layout, levels })
    }

    /// The highest level that it needs.
    pub fn top(&self) -> usize {
        self.levels.top
    }

    /// Levels between the inputs and the results.
    pub fn depth(&self) -> usize {
        self.levels.top - self.levels.floor
    }

    /// Ciphertexts of x, a, B and C.
    pub fn input_counts(&self) -> [usize; 4] {
        let l = &self.layout;
        let (channels, states) = (l.channel_blocks * l.tokens, l.patterns.len() * l.chunks * l.tokens);
        [channels, channels, states, states]
    }

    /// Leaves of a block.
    fn leaves(&self) -> usize {
        self.layout.tokens / self.layout.params.leaf
    }

    fn input(&self, i: usize) -> Input {
        let [x, a, b, _] = self.input_counts();
        let t = self.layout.tokens;
        let state = |i: usize| (i / t / self.layout.chunks, i / t % self.layout.chunks, i % t);
        if i < x {
            return Input::X { block: i / t, tau: i % t };
        }
        if i < x + a {
            return Input::A { block: (i - x) / t, tau: i % t };
        }
        let at = i - x - a;
        let (pattern, chunk, tau) = state(at % b);
        if at < b { Input::B { pattern, chunk, tau } } else { Input::C { pattern, chunk, tau } }
    }

    fn number(&self, input: Input) -> usize {
        let [x, a, b, _] = self.input_counts();
        let t = self.layout.tokens;
        let state = |pattern: usize, chunk: usize, tau: usize| (pattern * self.layout.chunks + chunk) * t + tau;
        match input {
            Input::X { block, tau } => block * t + tau,
            Input::A { block, tau } => x + block * t + tau,
            Input::B { pattern, chunk, tau } => x + a + state(pattern, chunk, tau),
            Input::C { pattern, chunk, tau } => x + a + b + state(pattern, chunk, tau),
        }
    }

    /// Levels that x at place `r` of its leaf waits until it is first multiplied: it is in the right half of
    /// groups of 2, 4, .. tokens as long as its low bits are one.
    fn waits(&self, r: usize) -> usize {
        (r.trailing_ones() as usize).min(self.layout.params.leaf.ilog2() as usize)
    }
}

impl HeScan for Lanes {
    fn shape(&self) -> &ScanShape {
        &self.layout.shape
    }

    fn inputs(&self) -> usize {
        self.input_counts().iter().sum()
    }

    fn level(&self, i: usize) -> usize {
        match self.input(i) {
            Input::X { tau, .. } => self.levels.top - self.waits(tau % self.layout.params.leaf),
            Input::A { .. } => self.levels.top,
            Input::B { .. } => self.levels.leaf,
            Input::C { .. } => self.levels.low,
        }
    }

    fn repeats(&self, i: usize) -> Repeats {
        let (tensor, times) = match self.input(i) {
            Input::X { .. } => (0, 1),
            Input::A { .. } => (1, self.layout.decays_repeat()),
            Input::B { pattern, .. } => (2, self.layout.pattern_repeats[pattern]),
            Input::C { pattern, .. } => (3, self.layout.pattern_repeats[pattern]),
        };
        Repeats { tensor, times }
    }

    fn lanes(&self, i: usize) -> Vec<Lane<Value>> {
        match self.input(i) {
            Input::X { block, tau } => self.layout.x(block, tau),
            Input::A { block, tau } => self.layout.a(block, tau),
            Input::B { pattern, chunk, tau } => self.layout.bc(pattern, chunk, tau, Value::B),
            Input::C { pattern, chunk, tau } => self.layout.bc(pattern, chunk, tau, Value::C),
        }
    }

    fn results(&self) -> usize {
        self.layout.channel_blocks * self.layout.tokens
    }

    fn outputs(&self, i: usize) -> Vec<Lane<u32>> {
        self.layout.outputs(i / self.layout.tokens, i % self.layout.tokens)
    }

    /// Coordinates that lie in the slots of one ciphertext are added up on shares, unless they are folded.
    fn terms(&self) -> usize {
        let folded = if self.layout.params.fold { self.layout.params.coordinates } else { 1 };
        self.layout.shape.tokens * self.layout.chunks * folded
    }

    fn run<B: Backend>(&self, backend: &B, input: &(impl Fn(usize) -> Result<B::Ct> + Sync)) -> Result<Vec<B::Ct>> {
        run::run(self, backend, input, false)
    }

    fn run_apart<B: Backend>(
        &self,
        backend: &B,
        input: &(impl Fn(usize) -> Result<B::Ct> + Sync),
    ) -> Result<Vec<B::Ct>> {
        run::run(self, backend, input, true)
    }
}

#[cfg(test)]
mod tests;
