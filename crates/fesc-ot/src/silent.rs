//! Silent correlated OT: Ferret with regular noise, primal LPN and a 10-local code, streamed tree by tree.
//!
//! Yang, Weng, Lan, Zhang, Wang (2020/924). From `k` COTs `y` (the LPN secret) and `t` single-point COTs `v` of length `2^b`,
//! output `z = y A ^ v`, with `A` the public 10-local matrix of [`LocalCode`]: sender `z`, receiver `z ^ x Delta` with
//! `x = u A ^ e`, pseudorandom by LPN. An iteration makes `n = t 2^b` COTs and keeps the first `k + t b` of them for the next one.
//! The low-bit convention (`lsb(q) = 0`) is linear, so it passes through the code unchanged.
//!
//! Output comes tree by tree: beside the table of `k` blocks only one tree and the blocks kept for the next
//! iteration are held. All messages go from the OT sender to the OT receiver, [`TREES_PER_FRAME`] trees in each.

use fesc_ring::Prg;
use fesc_ring::block::{Aes, LocalCode};
use zeroize::Zeroize;

use crate::params::LpnParams;
use crate::{OtCost, tree};

/// Trees per message.
const TREES_PER_FRAME: usize = 64;
const BLOCK: usize = 16;

/// One party's state of the current iteration; the same for both roles.
pub(crate) struct Iteration {
    params: LpnParams,
    code: LocalCode,
    tree_key: u128,
    trees_made: u128,
    /// The LPN secret's COTs.
    table: Vec<u128>,
    /// One COT per tree level.
    paths: Vec<u128>,
    /// COTs of this iteration kept for the next.
    kept: Vec<u128>,
    /// How many to keep.
    keep: usize,
    /// Trees of this iteration that are done.
    tree: usize,
    leaves: Vec<u128>,
}

impl Iteration {
    /// `seed` names the public matrix, `tree_key` the AES keys of the trees; `start` holds `params.reserve()` COTs.
    /// An iteration that does not repeat (the first, small one) keeps nothing.
    pub(crate) fn new(params: LpnParams, seed: u128, tree_key: u128, start: &[u128], repeats: bool) -> Self {
        let mut it = Self {
            code: LocalCode::new(seed, params.k() as u32),
            tree_key,
            trees_made: 0,
            table: Vec::new(),
            paths: Vec::new(),
            kept: Vec::with_capacity(if repeats { params.reserve() } else { 0 }),
            keep: if repeats { params.reserve() } else { 0 },
            tree: 0,
            leaves: vec![0; params.block()],
            params,
        };
        it.load(start);
        it
    }

    fn load(&mut self, start: &[u128]) {
        let (table, paths) = start.split_at(self.params.k().min(start.len()));
        self.table.clear();
        self.table.extend_from_slice(table);
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

    fn tree_aes(&mut self) -> Aes {
        let aes = Aes::new(self.tree_key ^ self.trees_made);
        self.trees_made += 1;
        aes
    }

    fn levels(&self) -> std::ops::Range<usize> {
        let h = self.params.log_block() as usize;
        self.tree * h..(self.tree + 1) * h
    }

    /// Makes the next frame of trees as the sender: appends `q` values and returns the message.
    pub(crate) fn send(&mut self, delta: u128, prg: &mut Prg, out: &mut Vec<u128>) -> Vec<u8> {
        let mut message = Vec::with_capacity(self.message_len());
        for _ in 0..Self::frame_trees(self.tree, &self.params) {
            let aes = self.tree_aes();
            let paths = self.paths.get(self.levels()).unwrap_or_default();
            tree::send(&aes, delta, prg.next_u128(), paths, &mut self.leaves, &mut message);
            self.finish_tree(out);
        }
        message
    }

    /// Makes the next frame of trees as the receiver, from a message of `message_len()` bytes.
    pub(crate) fn receive(&mut self, message: &[u8], out: &mut Vec<u128>) {
        let blocks = message.as_chunks::<BLOCK>().0;
        for part in blocks.chunks_exact(self.params.log_block() as usize) {
            let aes = self.tree_aes();
            let paths = self.paths.get(self.levels()).unwrap_or_default();
            tree::receive(&aes, paths, part, &mut self.leaves);
            self.finish_tree(out);
        }
    }

    /// Adds the code's rows to the leaves and hands them out.
    fn finish_tree(&mut self, out: &mut Vec<u128>) {
        let row = (self.tree * self.params.block()) as u64;
        self.code.xor_rows(row, &self.table, &mut self.leaves);
        let (own, give) = self.leaves.split_at(self.leaves.len().min(self.keep - self.kept.len()));
        self.kept.extend_from_slice(own);
        out.extend_from_slice(give);
        self.tree += 1;
        if self.tree == self.params.t() {
            self.tree = 0;
            let mut kept = std::mem::take(&mut self.kept);
            self.load(&kept);
            kept.zeroize();
            self.kept = kept;
        }
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
