//! The aligned binary tree of recursive halving.
//!
//! At level `l` a node covers `2 half` tokens, `half = 2^l`, and its midpoint is `m`. Token i from m on and
//! token j before m meet in exactly one node of the tree, so
//! `exp(cs_i - cs_j) = exp(cs_i - cs_(m-1)) exp(cs_(m-1) - cs_j)` gives every entry below the diagonal by one
//! outer product per node.

/// All nodes of one size that have tokens on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level {
    /// Tokens left of a midpoint.
    pub(super) half: usize,
    pub(super) nodes: usize,
    /// Tokens right of a midpoint; in the last node of a chunk that is no power of two some of them may be
    /// padding.
    pub(super) rights: usize,
}

impl Level {
    /// The first token of the right half of a node.
    pub(super) fn mid(&self, node: usize) -> usize {
        (2 * node + 1) * self.half
    }
}

/// The levels of a chunk of `q` tokens, smallest nodes first.
pub(super) fn levels(q: usize) -> Vec<Level> {
    let halves = std::iter::successors(Some(1usize), |h| h.checked_mul(2)).take_while(|&h| h < q);
    halves.map(|half| Level { half, nodes: (q - half).div_ceil(2 * half), rights: half.min(q - half) }).collect()
}

/// Where the value of one exp goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A right factor: slot of the level's `nodes x rights`.
    Right { level: usize, slot: usize },
    /// A left factor: slot of the level's `nodes x half`; times Delta of the token.
    Left { level: usize, slot: usize, token: usize },
    /// `col`, times Delta of the token.
    Column { token: usize },
    /// `row`.
    Row { token: usize },
}

/// `exp(sum[high] - sum[low])`, where `sum[t]` is the sum of z over the first t tokens of the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Factor {
    pub(super) high: usize,
    pub(super) low: usize,
    pub(super) to: Target,
}

/// The exps of one chunk with `real` tokens: right factors, left factors, columns, rows. Those whose exponent
/// is 0 by construction (the left factor next to a midpoint, the column of the last token) are left out.
pub(super) fn factors(levels: &[Level], real: usize, entered: bool, kept: bool) -> Vec<Factor> {
    let mut out = Vec::new();
    for (level, l) in levels.iter().enumerate() {
        for mid in (0..l.nodes).map(|node| l.mid(node)) {
            let node = mid / (2 * l.half);
            for token in mid..(mid + l.half).min(real) {
                let to = Target::Right { level, slot: node * l.rights + token - mid };
                out.push(Factor { high: token + 1, low: mid, to });
            }
        }
    }
    for (level, l) in levels.iter().enumerate() {
        for mid in (0..l.nodes).map(|node| l.mid(node)).filter(|&mid| mid < real) {
            for token in mid - l.half..mid - 1 {
                let to = Target::Left { level, slot: mid / (2 * l.half) * l.half + token + l.half - mid, token };
                out.push(Factor { high: mid, low: token + 1, to });
            }
        }
    }
    if kept {
        let columns = 0..real.saturating_sub(1);
        out.extend(columns.map(|token| Factor { high: real, low: token + 1, to: Target::Column { token } }));
    }
    if entered {
        out.extend((0..real).map(|token| Factor { high: token + 1, low: 0, to: Target::Row { token } }));
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Every pair below the diagonal is met once, with the exponents of the formula.
    #[test]
    fn the_tree_covers_the_triangle_once() {
        for q in (1..40).chain([127, 128]) {
            let levels = levels(q);
            let mut seen = vec![0; q * q];
            for l in &levels {
                assert!(l.mid(l.nodes - 1) < q && l.mid(l.nodes) >= q, "all nodes with a right side, q = {q}");
                for mid in (0..l.nodes).map(|v| l.mid(v)) {
                    for i in mid..(mid + l.half).min(q) {
                        assert!(i - mid < l.rights);
                        (mid - l.half..mid).for_each(|j| seen[i * q + j] += 1);
                    }
                }
            }
            for (at, &times) in seen.iter().enumerate() {
                assert_eq!(times, usize::from(at % q < at / q), "q = {q}, entry {at}");
            }
        }
    }

    #[test]
    fn factors_are_those_of_the_twin() {
        let all = levels(128);
        let count = |real, entered, kept| factors(&all, real, entered, kept).len();
        // 64 right factors per level; 64 left ones less one per node.
        assert_eq!(count(128, false, false), 7 * 64 + 7 * 64 - 127);
        assert_eq!(count(128, true, true) - count(128, false, false), 127 + 128);
        // One token: only its row.
        assert_eq!((count(1, true, true), count(1, false, false)), (1, 0));
        // A ragged chunk computes what a chunk of that size computes.
        for real in 1..20 {
            let own = factors(&levels(real), real, true, true);
            assert_eq!(factors(&all, real, true, true).len(), own.len(), "{real}");
        }
        for f in factors(&all, 128, true, true) {
            match f.to {
                Target::Right { level, slot } => {
                    let l = all[level];
                    assert_eq!((f.low, f.high), (l.mid(slot / l.rights), l.mid(slot / l.rights) + slot % l.rights + 1));
                }
                Target::Left { level, slot, token } => {
                    let l = all[level];
                    assert_eq!((f.high, token), (l.mid(slot / l.half), l.mid(slot / l.half) - l.half + slot % l.half));
                    assert!(f.low == token + 1 && f.low < f.high);
                }
                Target::Column { token } => assert_eq!((f.high, f.low), (128, token + 1)),
                Target::Row { token } => assert_eq!((f.high, f.low), (token + 1, 0)),
            }
        }
    }
}
