//! HEScan with the paper's packing: state chunks, compact decays, a two-pass resident schedule.
//!
//! # Packing (the paper, eq:hescan-chunk-map)
//! A ciphertext of the state has `c = s_state / d_s` channels; chunk `kappa` stores the state `(e, i)` in
//! slot `lambda(e, i) = (e - kappa c) d_s + i` (`d_s` padded to a power of two), and `K_s = ceil(E / c)`
//! chunks cover it. Chunks never meet: the kernel works on one pair of them at a time, and workers share them
//! out ([`Chunks::range`]).
//!
//! # What it computes, for each chunk
//! - *build* `s_k = br(x_k) br(B_k)`, on demand;
//! - *compose* (eq:compact_affine_compose) `(a_R a_L, br(a_R) s_L + s_R)` in a prefix network over the tokens
//!   of a block;
//! - *blocks* (eq:resident-block-schedule): pass one makes the summary of each block, a scan over summaries
//!   the carries, pass two replays one block at a time and adds `br(a) carry`;
//! - *contract* `v_k = h_k br(C_k)`;
//! - *reduce* (app:complex-reduction-accounting): two chunks are the two parts of one complex tree of
//!   rotations. The tree ends at place `k mod d_s` of each channel, so that one mask and no rotation collect
//!   `d_s` tokens in one result.
//!
//! # Sources
//! The paper's compact source `lambda_x = k E + e` has neighbouring channels side by side; to bring them
//! `d_s` apart costs about 7 more masks at `d_s = 128`, which its 17 levels do not hold. The boundary writes
//! any layout at no cost, so the sources here are as compact as the paper's but need one mask and `log2`
//! rotations: `x` takes `log2 d_s`, `a` takes `log2 d_s` as a leaf and `log2 w_a` where it is broadcast, B
//! and C take `log2 w_b` (w: see `layout.rs`; at Mamba-base 7, 13, 7). The paper counts none of them. They
//! are written to the part `broadcast` of the ledger. With [`Work::Needed`] the `d_s` tokens of a group share
//! the `log2 w_a` rotations of their decays, by a second mask, for which decays, never built, have a level.
//!
//! # Refresh (the paper, app:longseq)
//! A long document is scanned in parts of `R` blocks: a kernel with [`Options::carry_out`] hands its last
//! state on as more results, one with [`Options::carry_in`] takes a state as more inputs. Between the two the
//! state is on shares ([`crate::Refreshed`]), so that depth does not grow with the document.
//!
//! # Work
//! [`Work::Counted`] makes what the paper counts: all prefixes in pass one, the summary of the last block,
//! decays of prefixes that nobody uses, one broadcast of `a_R` for each composition, and a conjugation to
//! separate the two parts of each result. [`Work::Needed`] leaves out what no result depends on, broadcasts
//! each decay once, as a leaf, leaves two chunks in the two parts of a result, and with serial carries has
//! one pass: the last state of a block is the carry of the next.
//!
//! # Factors
//! [`Chunks::with_factors`]: a decay that the server knows is composed in the clear, and a composition is a
//! product by a plaintext; so is the product with a known B or C. A decay for each state coordinate is
//! composed as it comes, without broadcasts. With complex factors a slot is one complex number, and the real
//! part of the sum is the output: the two chunks of a pair become the two parts of one tree by one
//! conjugation, `2 (Re v + i Re w) = (v + i w) + conj(v - i w)`.
//!
//! # Cost
//! Products `2 K_s C_res + 2 L K_s` ([`paper`](super::paper)), with several blocks `L K_s` more for the
//! updates that pass one builds and pass two builds again (part `build again`, not counted by the paper).
//! Depth: [`Chunks::depth`].
//!
//! # Not guaranteed
//! Anything about the size of values: decays in `[0, 1]` keep the state bounded, others do not. Slots of
//! results that name no output are zero up to noise.

mod broadcast;
mod layout;
mod plan;
mod run;
#[cfg(test)]
mod tests;

use std::ops::Range;

use fesc_hybrid::backend::{Backend, Count, Operation};
use fesc_hybrid::{HybridError, Result};

use self::layout::{Layout, Tensor};
use self::plan::{Network, Plan};
use self::run::Run;
use super::prefix::Topology;
use super::{Factors, HeScan, Lane, Per, ScanShape, Value};

/// How the carries of blocks are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carry {
    /// A Brent-Kung scan over the summaries.
    Parallel,
    /// One after the other (the paper, app:longseq).
    Serial,
}

/// Which work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// All that the paper counts.
    Counted,
    /// What results depend on.
    Needed,
}

/// Parameters of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// s_state: slots of a ciphertext that hold state; a multiple of `d_s`, padded to a power of two.
    pub state_slots: usize,
    /// B_blk: tokens of a block.
    pub block: usize,
    /// The network inside of a block.
    pub topology: Topology,
    /// The scan over blocks.
    pub carry: Carry,
    /// Which work is done.
    pub work: Work,
    /// Whether the broadcast B and C of all tokens stay in memory for all chunks (`2 L` ciphertexts for each
    /// pattern of groups), or are made again for each chunk.
    pub hold: bool,
    /// Whether a state enters; else `h_0 = 0`. Only with [`Work::Needed`], as is the next.
    pub carry_in: bool,
    /// Whether the state after the last token is a result too.
    pub carry_out: bool,
    /// The level of the results.
    pub end: usize,
}

impl Options {
    /// One block of all tokens in full ciphertexts, Brent-Kung, only what is needed.
    pub fn whole(shape: &ScanShape, slots: usize) -> Self {
        Self {
            state_slots: slots,
            block: shape.tokens,
            topology: Topology::BrentKung,
            carry: Carry::Parallel,
            work: Work::Needed,
            hold: true,
            carry_in: false,
            carry_out: false,
            end: 0,
        }
    }
}

/// The kernel for one shape.
#[derive(Debug, Clone)]
pub struct Chunks {
    layout: Layout,
    options: Options,
    plan: Plan,
}

fn refuse(what: &'static str, got: usize, need: impl Into<String>) -> HybridError {
    HybridError::Shape { what, got, need: need.into() }
}

/// The part of worker `g` of `count` things: `floor(g count / workers) ..` (the paper,
/// eq:multi-gpu-chunk-partition).
pub fn partition(count: usize, workers: usize, g: usize) -> Range<usize> {
    let start = |g: usize| g * count / workers.max(1);
    start(g)..start(g + 1)
}

impl Chunks {
    /// For `slots` slots and a packet of Mamba-2.
    ///
    /// # Errors
    /// If a number does not fit the packing.
    pub fn new(shape: ScanShape, slots: usize, options: Options) -> Result<Self> {
        Self::with_factors(shape, slots, options, Factors::MAMBA2)
    }

    /// For factors that are given otherwise.
    ///
    /// # Errors
    /// As [`Chunks::new`], and if there are more or fewer known values than the shape has.
    pub fn with_factors(shape: ScanShape, slots: usize, options: Options, factors: Factors) -> Result<Self> {
        let ScanShape { tokens, heads, head_dim, groups, state } = shape;
        if !slots.is_power_of_two() {
            return Err(refuse("slots", slots, "a power of two is needed"));
        }
        if tokens == 0 || state == 0 || head_dim == 0 || groups == 0 || heads == 0 || !heads.is_multiple_of(groups) {
            return Err(refuse("heads", heads, format!("{groups} groups must divide them, and nothing may be empty")));
        }
        let state = state.next_power_of_two();
        if options.state_slots < state || options.state_slots > slots || !options.state_slots.is_multiple_of(state) {
            let need =
                format!("a multiple of {state} (the state coordinates, padded) up to {slots} (the slots) is needed");
            return Err(refuse("state slots", options.state_slots, need));
        }
        if options.block == 0 || options.block > tokens {
            return Err(refuse("tokens of a block", options.block, format!("1 to {tokens} (the tokens) are possible")));
        }
        let counted = options.work == Work::Counted;
        if (options.carry_in || options.carry_out) && (counted || factors.complex()) {
            let need =
                "what the paper counts begins with 0, and a complex state stays: take Work::Needed, real factors";
            return Err(refuse("states that enter or leave", 1, need));
        }
        factors.check(&shape)?;
        let layout = Layout::new(shape, factors, slots, options.state_slots, options.carry_in);
        Ok(Self { layout, options, plan: Plan::new(tokens, &options) })
    }

    /// The parameters.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// K_s.
    pub fn chunks(&self) -> usize {
        self.layout.chunks
    }

    /// Levels between inputs and results, by formula (`plan.rs`): `mask, build, compositions, contraction,
    /// mask`.
    pub fn depth(&self) -> usize {
        plan::depth(self.layout.shape.tokens, &self.options)
    }

    /// Compositions of one chunk: nodes of all networks, and products with carries. Padding is never computed
    /// on, so that it is at most the paper's `C_res`, and equal to it for [`Work::Counted`], carries in
    /// parallel and powers of two.
    pub fn compositions(&self) -> u64 {
        let nodes: usize = self.plan.networks().flat_map(|n| &n.stages).map(Vec::len).sum();
        (nodes + self.plan.injected()) as u64
    }

    /// Groups of `d_s` tokens whose decays a block that begins at token `first` takes.
    fn decay_groups(&self, first: usize, network: &Network) -> Range<usize> {
        let used = network.leaves.iter().any(|need| need.a.is_some());
        let end = (first + network.leaves.len()).div_ceil(self.layout.state);
        if used { first / self.layout.state..end } else { 0..0 }
    }

    /// Relinearisations of the compositions, of the count of a run: the part `compose` of its ledger.
    pub fn composition_relinearisations(count: &Count) -> u64 {
        count.parts().get("compose").map_or(0, |part| part.total(Operation::Relinearisation))
    }

    /// Rotations of broadcasts, which the paper does not count. `x` and `a` are broadcast over states for
    /// each update that is built, B too unless it is held, C once; a decay is broadcast over channels for
    /// each composition ([`Work::Counted`]) or each group of tokens that a block has a part in. Known factors
    /// and decays for each state are not.
    pub fn broadcasts(&self) -> u64 {
        let (layout, plan) = (&self.layout, &self.plan);
        let log = |n: usize| u64::from(n.ilog2());
        let passes = || plan.first.iter().enumerate().chain(plan.replay.iter().enumerate());
        let leaves = |used: fn(&plan::Need) -> bool| {
            passes().flat_map(|(_, n)| &n.leaves).filter(|need| used(need)).count() as u64
        };
        let (Factors { b, c, .. }, compact) = (&layout.factors, layout.compact_decays());
        let (updates, decays) = (leaves(|n| n.s.is_some()), if compact { leaves(|n| n.a.is_some()) } else { 0 });
        let groups = || passes().map(|(j, n)| self.decay_groups(j * self.options.block, n).len() as u64).sum();
        let wide = match self.options.work {
            _ if !compact => 0,
            Work::Counted => self.compositions(),
            Work::Needed => groups(),
        };
        let (chunks, tokens) = (layout.chunks as u64, layout.shape.tokens as u64);
        let [b, c] = [b, c].map(|f| u64::from(f.encrypted()));
        let factors = if self.options.hold {
            (b + c) * tokens * layout.patterns.len() as u64
        } else {
            (b * updates + c * tokens) * chunks
        };
        let own = (updates + decays) * log(layout.state) + wide * log(layout.head_run);
        chunks * own + factors * log(layout.group_run)
    }

    /// All key switches of a packet of Mamba-2, by formula: products of all chunks, broadcasts, and the
    /// reduction.
    pub fn key_switches(&self) -> u64 {
        let (layout, chunks) = (&self.layout, self.layout.chunks);
        let conjugations = if self.options.work == Work::Counted { chunks / 2 } else { 0 };
        let reduction = chunks.div_ceil(2) * layout.state.ilog2() as usize + conjugations;
        (chunks * self.plan.products() + layout.shape.tokens * reduction) as u64 + self.broadcasts()
    }

    /// The chunks of worker `g`: whole pairs, so that each result is made as by one worker alone. (The
    /// paper's own partition may split a pair, which then takes two trees of rotations.)
    pub fn range(&self, workers: usize, g: usize) -> Range<usize> {
        let pairs = partition(self.layout.chunks.div_ceil(2), workers, g);
        2 * pairs.start..(2 * pairs.end).min(self.layout.chunks)
    }

    /// Chunks that share a result.
    fn width(&self) -> usize {
        match self.options.work {
            Work::Counted => 1,
            Work::Needed => 2,
        }
    }

    /// Results of a pair of chunks, or of one where they are apart: outputs by groups of tokens, and a state.
    fn results_of_pair(&self) -> usize {
        self.layout.token_groups() + usize::from(self.options.carry_out)
    }

    /// The results that [`Chunks::run_chunks`] makes for these chunks.
    pub fn results_of(&self, chunks: &Range<usize>) -> Range<usize> {
        let units = |c: usize| c.div_ceil(self.width()) * self.results_of_pair();
        units(chunks.start)..units(chunks.end)
    }

    /// Computes the results of some chunks: whole pairs, see [`Chunks::range`].
    ///
    /// # Errors
    /// If a pair is split, or if the back end refuses an operation.
    pub fn run_chunks<B: Backend>(
        &self,
        backend: &B,
        input: &(impl Fn(usize) -> Result<B::Ct> + Sync),
        chunks: Range<usize>,
    ) -> Result<Vec<B::Ct>> {
        let whole = |c: usize| c.is_multiple_of(2) || c == self.layout.chunks;
        if !whole(chunks.start) || !whole(chunks.end) || chunks.end > self.layout.chunks {
            let need = format!("pairs of the {} chunks cannot be split: take Chunks::range", self.layout.chunks);
            return Err(refuse("end of a range of chunks", chunks.end, need));
        }
        if backend.slots() != self.layout.slots {
            return Err(refuse("slots", backend.slots(), format!("the kernel is laid out for {}", self.layout.slots)));
        }
        let run = Run::new(self, backend, input);
        let all: Vec<usize> = chunks.clone().collect();
        let pairs: Vec<&[usize]> = all.chunks(2).collect();
        let mut results = Vec::with_capacity(self.results_of(&chunks).len());
        let mut made = vec![!self.options.hold; self.layout.patterns.len()];
        let mut at = 0;
        while at < pairs.len() {
            // Whole pairs that find B and C broadcast all do the same.
            let found = |pair: &&&[usize]| pair.len() == 2 && pair.iter().all(|&c| made[self.layout.pattern_of[c]]);
            let alike = pairs[at..].iter().take_while(found).count().max(1);
            results.extend(backend.alike(alike, |i| run.pair(pairs[at + i]))?.into_iter().flatten());
            pairs[at].iter().for_each(|&c| made[self.layout.pattern_of[c]] = true);
            at += alike;
        }
        Ok(results)
    }
}

impl HeScan for Chunks {
    fn shape(&self) -> &ScanShape {
        &self.layout.shape
    }

    fn factors(&self) -> &Factors {
        &self.layout.factors
    }

    fn inputs(&self) -> usize {
        self.layout.inputs()
    }

    fn level(&self, i: usize) -> usize {
        let source = self.layout.source(i);
        match source.tensor {
            // A mask, and the contraction.
            Tensor::C => self.plan.contract + 1,
            Tensor::A if self.layout.factors.per == Per::State => {
                self.plan.leaf(source.column).a.unwrap_or(self.options.end)
            }
            Tensor::X | Tensor::A | Tensor::B => self.plan.top,
            Tensor::State => self.plan.enters.unwrap_or(self.plan.top),
        }
    }

    fn lanes(&self, i: usize) -> Vec<Lane<Value>> {
        self.layout.lanes(i)
    }

    fn results(&self) -> usize {
        self.results_of(&(0..self.layout.chunks)).len()
    }

    fn outputs(&self, i: usize) -> Vec<Lane<u32>> {
        let first = i / self.results_of_pair() * self.width();
        let parts: Vec<usize> = (first..self.layout.chunks.min(first + self.width())).collect();
        if self.holds_state(i) {
            return self.layout.states(&parts);
        }
        self.layout.outputs(&parts, i % self.results_of_pair())
    }

    fn carried(&self) -> [bool; 2] {
        [self.options.carry_in, self.options.carry_out]
    }

    fn holds_state(&self, i: usize) -> bool {
        i % self.results_of_pair() == self.layout.token_groups()
    }

    fn run<B: Backend>(&self, backend: &B, input: &(impl Fn(usize) -> Result<B::Ct> + Sync)) -> Result<Vec<B::Ct>> {
        self.run_chunks(backend, input, 0..self.layout.chunks)
    }
}
