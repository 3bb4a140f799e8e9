//! Prefix networks (the paper, appendix app:scan-comparison).
//!
//! A network over `n` positions is a list of stages, a stage a list of [`Node`]s: position `right` becomes
//! `left` followed by `right`. All nodes of a stage read what was there before the stage. Afterwards position
//! `k` holds the composition of the elements `0 ..= k`.
//!
//! | topology | compositions of `n = 2^b` | stages | longest chain |
//! |---|---|---|---|
//! | sequential | `n - 1` | `n - 1` | `n - 1` |
//! | Kogge-Stone | `n b - (n - 1)` | `b` | `b` |
//! | Sklansky | `n b / 2` | `b` | `b` |
//! | Brent-Kung | `2 n - b - 2` | `2 b - 1` | `2 b - 2` (1 at `b = 1`) |
//!
//! Other lengths: the network of the next power of two without the nodes that write behind the end. Padding
//! with the identity would change no result; the paper counts it, [`Topology::compositions`] counts it too.
//!
//! Two remarks on the paper. Its depth `2 b - 1` of Brent-Kung counts stages: the last node of the up-sweep
//! and the first of the down-sweep do not depend on each other, so a chain has at most `2 b - 2` nodes. And
//! its condition "`2^(s+1)` does not divide `k`" of the down-sweep would leave positions without their prefix
//! (5, 9, 10 and 13 of 16); its count is that of the usual network, which is built here.

/// A shape of network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topology {
    /// One after the other.
    Sequential,
    /// Every position in every stage.
    KoggeStone,
    /// Half of the positions in every stage, from one source for each group.
    Sklansky,
    /// Up and down a tree.
    BrentKung,
}

/// One composition: `right` becomes `left` followed by `right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Position of the earlier elements.
    pub left: usize,
    /// Position of the later ones, and of the result.
    pub right: usize,
}

/// `log2` of the padded length.
fn log(n: usize) -> u32 {
    n.max(1).next_power_of_two().ilog2()
}

impl Topology {
    /// All, in the order of the paper's table.
    pub const ALL: [Self; 4] = [Self::Sequential, Self::KoggeStone, Self::Sklansky, Self::BrentKung];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::KoggeStone => "kogge-stone",
            Self::Sklansky => "sklansky",
            Self::BrentKung => "brent-kung",
        }
    }

    /// The network over `n` positions, without stages that do nothing.
    pub fn stages(self, n: usize) -> Vec<Vec<Node>> {
        let nodes = |it: &mut dyn Iterator<Item = (usize, usize)>| -> Vec<Node> {
            it.filter(|(_, right)| *right < n).map(|(left, right)| Node { left, right }).collect()
        };
        let b = log(n);
        let stages: Vec<Vec<Node>> = match self {
            Self::Sequential => (1..n).map(|k| vec![Node { left: k - 1, right: k }]).collect(),
            Self::KoggeStone => (0..b).map(|s| nodes(&mut (1 << s..n).map(|k| (k - (1 << s), k)))).collect(),
            Self::Sklansky => (0..b)
                .map(|s| {
                    let upper = (0..n).filter(|k| k >> s & 1 == 1);
                    nodes(&mut upper.map(|k| ((k >> s << s) - 1, k)))
                })
                .collect(),
            Self::BrentKung => {
                // Positions counted from one, as in the paper.
                let up = (1..=b).map(|s| {
                    let ends = (1..=n >> s).map(|i| i << s);
                    nodes(&mut ends.map(|k| (k - (1 << (s - 1)) - 1, k - 1)))
                });
                let down = (1..b).rev().map(|s| {
                    let ends = (1..=n >> s).map(|i| i << s);
                    nodes(&mut ends.map(|k| (k - 1, k + (1 << (s - 1)) - 1)))
                });
                up.chain(down).collect()
            }
        };
        stages.into_iter().filter(|s| !s.is_empty()).collect()
    }

    /// Compositions over `n` positions, padded to a power of two: the paper's formulas. The sequential scan
    /// is not padded.
    pub fn compositions(self, n: usize) -> u64 {
        let (b, padded) = (u64::from(log(n)), 1u64 << log(n));
        match self {
            Self::Sequential => n.max(1) as u64 - 1,
            Self::KoggeStone => padded * b - (padded - 1),
            Self::Sklansky => padded / 2 * b,
            Self::BrentKung => 2 * padded - b - 2,
        }
    }

    /// Stages over `n` positions, padded to a power of two: the depth that the paper states.
    pub fn depth(self, n: usize) -> usize {
        let b = log(n) as usize;
        match self {
            Self::Sequential => n.max(1) - 1,
            Self::KoggeStone | Self::Sklansky => b,
            Self::BrentKung => (2 * b).saturating_sub(1),
        }
    }

    /// For every position, the most compositions in a chain that its prefix depends on.
    pub fn chains(self, n: usize) -> Vec<usize> {
        let mut depth = vec![0usize; n];
        for stage in self.stages(n) {
            let after: Vec<usize> = stage.iter().map(|v| 1 + depth[v.left].max(depth[v.right])).collect();
            for (node, d) in stage.iter().zip(after) {
                depth[node.right] = d;
            }
        }
        depth
    }

    /// The longest chain: multiplicative depth of the whole network.
    pub fn chain(self, n: usize) -> usize {
        self.chains(n).into_iter().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An affine map of the integers modulo a prime; composition does not commute.
    type Affine = (u64, u64);
    const PRIME: u64 = 2_147_483_647;

    fn after(left: Affine, right: Affine) -> Affine {
        (left.0 * right.0 % PRIME, (right.0 * left.1 + right.1) % PRIME)
    }

    #[test]
    fn every_network_gives_every_prefix() {
        for topology in Topology::ALL {
            for n in 1..=70usize {
                let leaves: Vec<Affine> = (0..n as u64).map(|k| (3 * k + 2, k * k + 7)).collect();
                let mut at = leaves.clone();
                for stage in topology.stages(n) {
                    let new: Vec<Affine> = stage.iter().map(|v| after(at[v.left], at[v.right])).collect();
                    for (node, map) in stage.iter().zip(new) {
                        assert!(node.left < node.right);
                        at[node.right] = map;
                    }
                }
                let mut prefix = leaves[0];
                assert_eq!(at[0], prefix);
                for k in 1..n {
                    prefix = after(prefix, leaves[k]);
                    assert_eq!(at[k], prefix, "{topology:?}, {n} positions, position {k}");
                }
            }
        }
    }

    #[test]
    fn formulas_equal_the_lists() {
        for topology in Topology::ALL {
            for n in 1..=300usize {
                let stages = topology.stages(n);
                let nodes = stages.iter().map(Vec::len).sum::<usize>() as u64;
                assert!(nodes <= topology.compositions(n) && stages.len() <= topology.depth(n), "{topology:?}, {n}");
                if n.is_power_of_two() {
                    assert_eq!((nodes, stages.len()), (topology.compositions(n), topology.depth(n)), "{topology:?}");
                }
            }
        }
    }

    #[test]
    fn a_chain_of_brent_kung_is_one_shorter_than_its_stages() {
        for b in 2..12 {
            assert_eq!(Topology::BrentKung.chain(1 << b), 2 * b - 2);
            assert_eq!(Topology::BrentKung.chains(1 << b)[(1 << b) - 1], b);
        }
        assert_eq!([1, 2].map(|n| Topology::BrentKung.chain(n)), [0, 1]);
        assert_eq!(Topology::Sklansky.chain(128), 7);
    }
}
