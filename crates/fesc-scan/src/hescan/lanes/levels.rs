//! At which level each step runs: as late as its results allow.

use super::layout::Layout;

/// Levels of a scan in lanes. With `w` tokens in a leaf, `n` leaves in a block, `t = n w` and `kappa` blocks:
///
/// ```text
/// top                              decays and x that are multiplied first
/// leaf  = top - log2 w             products with B; summaries of leaves are one below
/// root  = leaf - 1 - log2 n        summaries of blocks
/// carry = root - log2 kappa        carries between blocks
/// low   = floor + 2                prefixes, C, scores: products of the contraction
/// floor                            results
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Levels {
    pub top: usize,
    pub leaf: usize,
    pub root: usize,
    pub carry: usize,
    pub low: usize,
    pub floor: usize,
}

impl Levels {
    pub fn new(layout: &Layout) -> Self {
        let log = |x: usize| x.ilog2() as usize;
        let (w, blocks, floor) = (layout.params.leaf, layout.params.blocks, layout.params.floor);
        let leaves = layout.tokens / w;
        let low = floor + 2;
        // A left summary of height g is at leaf - 1 - g and is wanted at low + g; the highest has log2 n - 1.
        let down = low + 1 + 2 * log(leaves).saturating_sub(1);
        let carries = low + log(blocks) + log(leaves) + 1;
        let leaf = down.max(carries);
        let root = leaf - 1 - log(leaves);
        Self { top: leaf + log(w), leaf, root, carry: root - log(blocks), low, floor }
    }
}
