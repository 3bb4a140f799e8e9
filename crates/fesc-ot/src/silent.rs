//! Silent correlated OT: Ferret with regular noise, primal LPN and a 10-local code, streamed tree by tree.
//!
//! Yang, Weng, Lan, Zhang, Wang (2020/924). From `k` COTs `y` (the LPN secret) and `t` single-point COTs `v`
//! of length `2^b`, output `z = y A ^ v`, with `A` the public 10-local matrix of [`LocalCode`]: sender `z`,
//! receiver `z ^ x Delta` with `x = u A ^ e`, pseudorandom by LPN. An iteration makes `n = t 2^b` COTs and
//! keeps the first `k + t b` of them for the next one. The low-bit convention (`lsb(q) = 0`) is linear, so it
//! passes through the code unchanged.
//!
//! Output comes tree by tree: beside the table of `k` blocks only one tree and the blocks kept for the next
//! iteration are held (a whole frame of trees when threads are used). All messages go from the OT sender to
//! the OT receiver, [`TREES_PER_FRAME`] trees in each.

use fesc_ring::Prg;
use fesc_ring::aligned::{Aligned, HUGE_FROM};
use fesc_ring::block::{Aes, LocalCode};
use rayon::prelude::*;
use zeroize::Zeroize;

use crate::params::LpnParams;
use crate::{OtCost, tree};

/// Trees per message.
const TREES_PER_FRAME: usize = 64;
const BLOCK: usize = 16;

/// Rows of a table that is placed on huge pages, and of one that is too small to gain by that.
const HUGE_TABLE: usize = HUGE_FROM / BLOCK;
const SMALL_TABLE: usize = 1 << 15;

/// One party's state of the current iteration; the same for both roles.
pub(crate) struct Iteration {
    params: LpnParams,
    code: LocalCode,
    /// Names the matrices; each iteration has its own.
    seed: u128,
    iterations: u128,
    tree_key: u128,
    trees_made: u128,
    /// The LPN secret's COTs, the first `loaded` of it. On a huge page: the code reads it at random places,
    /// and on small ones most reads would miss the first level of the TLB.
    table: Aligned<u128>,
    loaded: usize,
    /// One COT per tree level.
    paths: Vec<u128>,
    /// COTs of this iteration kept for the next.
    kept: Vec<u128>,
    /// How many to keep.
    keep: usize,
    /// Trees of this iteration that are done.
    tree: usize,
    leaves: Vec<u128>,
    /// Spread the trees of a frame over rayon's threads. The result is the same.
    pub(crate) parallel: bool,
}

impl Iteration {
    /// `seed` names the public matrices, `tree_key` the AES keys of the trees; `start` holds
    /// `params.reserve()` COTs. An iteration that does not repeat (the first, small one) keeps nothing.
    pub(crate) fn new(params: LpnParams, seed: u128, tree_key: u128, start: &[u128], repeats: bool) -> Self {
        let mut it = Self {
            code: LocalCode::new(seed, params.k() as u32),
            seed,
            iterations: 0,
            tree_key,
            trees_made: 0,
            table: Aligned::zeroed(if params.k() < SMALL_TABLE { params.k() } else { params.k().max(HUGE_TABLE) }),
            loaded: 0,
            paths: Vec::new(),
            kept: Vec::with_capacity(if repeats { params.reserve() } else { 0 }),
            keep: if repeats { params.reserve() } else { 0 },
            tree: 0,
            leaves: vec![0; params.block()],
            parallel: false,
            params,
        };
        it.load(start);
        it
    }

    fn load(&mut self, start: &[u128]) {
        let (table, paths) = start.split_at(self.params.k().min(start.len()));
        self.loaded = table.len();
        self.table[..table.len()].copy_from_slice(table);
        self.paths.clear();
        self.paths.extend_from_slice(paths);
    }

    /// Trees of the next message.
    fn frame_trees(tree: usize, params: &LpnParams) -> usize {
        TREES_PER_FRAME.min(params.t() - tree)
    }

    /// Bytes of the next message.
    pub(crate) fn message_len(&self) -> usize {
        Self::frame_trees(self.tree, &self.params) * self.params.log_block() as usize * BLOCK
    }

    /// The next message makes no more COTs.
    pub(crate) fn most(&self) -> usize {
        Self::frame_trees(self.tree, &self.params) * self.params.block()
    }

    /// What it costs to hand out `missing` more COTs.
    pub(crate) fn cost(&self, missing: usize) -> OtCost {
        Self::cost_from(&self.params, self.keep, self.tree, self.kept.len(), missing)
    }

    /// The cost of `missing` COTs from a fresh iteration that keeps nothing.
    pub(crate) fn cost_once(params: &LpnParams, missing: usize) -> OtCost {
        Self::cost_from(params, 0, 0, 0, missing)
    }

    fn cost_from(params: &LpnParams, keep: usize, mut tree: usize, mut kept: usize, missing: usize) -> OtCost {
        let mut cost = OtCost::default();
        let mut made = 0;
        while made < missing {
            let trees = Self::frame_trees(tree, params);
            cost = cost.with(OtCost::from_sender(trees * params.log_block() as usize * BLOCK));
            let rows = trees * params.block();
            let to_keep = rows.min(keep - kept);
            kept += to_keep;
            made += rows - to_keep;
            tree += trees;
            if tree == params.t() {
                (tree, kept) = (0, 0);
            }
        }
        cost
    }

    /// The COTs of the levels of a tree of this frame.
    fn levels(&self, tree: usize) -> &[u128] {
        let h = self.params.log_block() as usize;
        let first = (self.tree + tree) * h;
        self.paths.get(first..first + h).unwrap_or_default()
    }

    /// Makes the next frame of trees as the sender: appends `q` values and returns the message.
    pub(crate) fn send(&mut self, delta: u128, prg: &mut Prg, out: &mut Vec<u128>) -> Vec<u8> {
        let mut message = vec![0u8; self.message_len()];
        let mut roots = vec![0u128; Self::frame_trees(self.tree, &self.params)];
        prg.fill_u128(&mut roots);
        let levels = self.params.log_block() as usize;
        let parts: Vec<_> =
            roots.iter().copied().zip(message.as_chunks_mut::<BLOCK>().0.chunks_exact_mut(levels)).collect();
        let make = |it: &Self, aes: &Aes, tree, (root, part): (u128, &mut [[u8; BLOCK]]), leaves: &mut [u128]| {
            tree::send(aes, delta, root, it.levels(tree), leaves, part);
        };
        self.frame(parts, make, out);
        roots.zeroize();
        message
    }

    /// Makes the next frame of trees as the receiver, from a message of `message_len()` bytes.
    pub(crate) fn receive(&mut self, message: &[u8], out: &mut Vec<u128>) {
        let levels = self.params.log_block() as usize;
        let parts: Vec<_> = message.as_chunks::<BLOCK>().0.chunks_exact(levels).collect();
        let make = |it: &Self, aes: &Aes, tree, part: &[[u8; BLOCK]], leaves: &mut [u128]| {
            tree::receive(aes, it.levels(tree), part, leaves);
        };
        self.frame(parts, make, out);
    }

    /// Fills the trees of a frame, one per part, adds the code's rows and hands the blocks out in order.
    fn frame<P: Send>(
        &mut self,
        parts: Vec<P>,
        make: impl Fn(&Self, &Aes, usize, P, &mut [u128]) + Sync,
        out: &mut Vec<u128>,
    ) {
        let (block, trees) = (self.params.block(), parts.len());
        // Fails closed: without the table, trees would go out as they are, and their noise is sparse. The
        // sizes of a validated pair of sets rule this out.
        assert!(self.loaded == self.params.k(), "an iteration without its LPN secret");
        let fill = |it: &Self, tree: usize, part: P, leaves: &mut [u128]| {
            let aes = Aes::new(it.tree_key ^ (it.trees_made + tree as u128));
            make(it, &aes, tree, part, leaves);
            it.code.xor_rows(((it.tree + tree) * block) as u64, &it.table[..it.loaded], leaves);
        };
        if self.parallel {
            let mut all = vec![0u128; trees * block];
            let jobs = all.par_chunks_exact_mut(block).zip(parts).enumerate();
            jobs.for_each(|(tree, (leaves, part))| fill(self, tree, part, leaves));
            self.hand_out(&all, out);
            all.zeroize();
        } else {
            let mut leaves = std::mem::take(&mut self.leaves);
            for (tree, part) in parts.into_iter().enumerate() {
                fill(self, tree, part, &mut leaves);
                self.hand_out(&leaves, out);
            }
            self.leaves = leaves;
        }
        self.trees_made += trees as u128;
        self.tree += trees;
        if self.tree >= self.params.t() {
            self.tree = 0;
            // A fresh matrix: elimination on one must not serve an attacker against the next.
            self.iterations += 1;
            self.code = LocalCode::new(self.seed ^ self.iterations, self.params.k() as u32);
            let mut kept = std::mem::take(&mut self.kept);
            self.load(&kept);
            kept.zeroize();
            self.kept = kept;
        }
    }

    /// The first blocks of an iteration are kept for the next one.
    fn hand_out(&mut self, made: &[u128], out: &mut Vec<u128>) {
        let (own, give) = made.split_at(made.len().min(self.keep - self.kept.len()));
        self.kept.extend_from_slice(own);
        out.extend_from_slice(give);
    }
}

impl Drop for Iteration {
    fn drop(&mut self) {
        self.table.zeroize();
        self.paths.zeroize();
        self.kept.zeroize();
        self.leaves.zeroize();
    }
}
