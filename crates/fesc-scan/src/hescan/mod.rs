//! HEScan: the selective scan under encryption (the paper, section ks-he:scan).
//!
//! For every head `h` with its group's `B` and `C`, and every channel `e = h P + p`:
//!
//! ```text
//! h_t[e] = a_t[h] h_(t-1)[e] + x_t[e] B_t,    m_t[e] = C_t . h_t[e],    h_0 = 0 or given.
//! ```
//!
//! The packet is (x, a, B, C), with `x` already multiplied by Delta and `a` in `[0, 1]`. A kernel decides
//! where each value of the packet lies in its input ciphertexts ([`HeScan::lanes`]), computes on any back
//! end, and says which output lies where in its results ([`HeScan::outputs`]). What a slot holds that names
//! no output is garbage, which whoever converts it must mask like everything else.
//!
//! Kernels that take products of decays from shares, not from encrypted decays, name them as
//! [`Value::Decays`].
//!
//! The packing `chunks` also takes factors that the server knows, decays for each state coordinate, and
//! complex ones ([`Factors`]).

pub mod chunks;
pub mod cut;
pub mod dual;
pub mod factors;
pub mod kernel;
pub mod lanes;
pub mod packed;
pub mod paper;
pub mod prefix;
#[cfg(test)]
mod tests;
pub mod trial;
pub mod uploads;

use fesc_hybrid::Result;
use fesc_hybrid::backend::Backend;

pub use factors::{Factor, Factors, Given, Per};

/// Sizes of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanShape {
    /// L.
    pub tokens: usize,
    /// H.
    pub heads: usize,
    /// P, channels of a head.
    pub head_dim: usize,
    /// G; a group has `heads / groups` heads.
    pub groups: usize,
    /// d_s.
    pub state: usize,
}

impl ScanShape {
    /// Channels `E = H P`.
    pub fn channels(&self) -> usize {
        self.heads * self.head_dim
    }

    /// The group of a head.
    pub fn group(&self, head: usize) -> usize {
        head / (self.heads / self.groups)
    }
}

/// A value of the packet; where its factor is complex, a part of one ([`Factors`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// `x_t[e]`: `t E + e`.
    X(u32),
    /// `a_t[h]`: `t H + h`; for each state coordinate: `(t E + e) d_s + i`.
    A(u32),
    /// `B_t[g][i]`: `(t G + g) d_s + i`.
    B(u32),
    /// `C_t[g][i]`, as B.
    C(u32),
    /// `h_0[e][i]`, where a state enters: `i E + e`.
    State(u32),
    /// The product of `a_t[head]` over `from <= t < to`; 1 if there are none.
    Decays {
        /// h.
        head: u32,
        /// The first token.
        from: u32,
        /// The token after the last.
        to: u32,
    },
}

/// What [`Value::Decays`] names, from `a_t[h]` at `t heads + h`.
pub fn decay_product(a: &[f64], heads: usize, head: usize, tokens: std::ops::Range<usize>) -> f64 {
    tokens.map(|t| a[t * heads + head]).product()
}

/// What the real and the imaginary part of a slot hold; nothing is zero.
pub type Lane<T> = [Option<T>; 2];

/// Which tensor of the packet an input is of, by a number of the kernel's own, and how often its slots
/// repeat, a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    /// The tensor.
    pub tensor: usize,
    /// Repetitions.
    pub times: usize,
}
static MAMBA2: Factors = Factors::MAMBA2;

/// A kernel for one shape and number of slots.
pub trait HeScan: Sync {
    /// The shape.
    fn shape(&self) -> &ScanShape;

    /// How the factors are given.
    fn factors(&self) -> &Factors {
        &MAMBA2
    }

    /// Number of input ciphertexts.
    fn inputs(&self) -> usize;

    /// The level that input `i` must have.
    fn level(&self, i: usize) -> usize;

    /// What lies in each slot of input `i`.
    fn lanes(&self, i: usize) -> Vec<Lane<Value>>;

    /// How often the slots of input `i` repeat: so many inputs of one tensor may go up as one ([`packed`]).
    fn repeats(&self, _i: usize) -> Repeats {
        Repeats { tensor: 0, times: 1 }
    }

    /// Parts of input `i` that are packed in one ciphertext, whose runs of slots [`HeScan::lanes`] has one
    /// after the other ([`fesc_hybrid::expand`]); 1 for plain slots.
    fn parts(&self, _i: usize) -> usize {
        1
    }

    /// Number of results.
    fn results(&self) -> usize;

    /// Which output lies in each slot of result `i`: `m_t[e]` is `t E + e`, and behind them the state that is
    /// handed on, `h_L[e][i]`, is `(L + i) E + e`. An output that is named by several slots, of one or
    /// several results, is the sum of them.
    fn outputs(&self, i: usize) -> Vec<Lane<u32>>;

    /// Whether a state enters, and whether the last one is handed on.
    fn carried(&self) -> [bool; 2] {
        [false, false]
    }

    /// Whether result `i` holds the state that is handed on, and no output.
    fn holds_state(&self, _i: usize) -> bool {
        false
    }

    /// The most products `x B C` that either part of a slot of a result adds up, each times decays.
    fn terms(&self) -> usize {
        self.shape().tokens * self.shape().state
    }

    /// The scale of results over the canonical one of their level.
    fn result_scale(&self) -> f64 {
        1.0
    }

    /// Computes. `input(i)` gives input `i`, as often as it is asked for: whoever holds the packet decides
    /// what stays in memory.
    ///
    /// # Errors
    /// If the back end refuses an operation.
    fn run<B: Backend>(&self, backend: &B, input: &(impl Fn(usize) -> Result<B::Ct> + Sync)) -> Result<Vec<B::Ct>>;

    /// The same where `input` does no work on the back end, or the same for each: a count takes parts of the
    /// kernel that differ in their inputs alone as one.
    ///
    /// # Errors
    /// As [`HeScan::run`].
    fn run_apart<B: Backend>(
        &self,
        backend: &B,
        input: &(impl Fn(usize) -> Result<B::Ct> + Sync),
    ) -> Result<Vec<B::Ct>> {
        self.run(backend, input)
    }
}
