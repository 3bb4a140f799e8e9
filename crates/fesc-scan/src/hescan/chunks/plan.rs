//! Which compositions are made, and at which level each value is needed.
//!
//! Levels are assigned from the results back to the leaves, as late as possible: a value has the lowest level
//! that its consumers allow, and what runs at a low level is cheap. The largest level that a leaf needs gives
//! the depth.

use super::{Carry, Options, Work};
use crate::hescan::prefix::{Node, Topology};

/// The levels at which the two parts of an affine map are needed; `None` if nobody needs it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Need {
    pub a: Option<usize>,
    pub s: Option<usize>,
}

impl Need {
    fn raise(part: &mut Option<usize>, level: usize) {
        *part = Some(part.map_or(level, |l| l.max(level)));
    }
}

/// A composition, and the levels that its parts end at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub node: Node,
    pub need: Need,
}

/// A network with levels.
#[derive(Debug, Clone, Default)]
pub(super) struct Network {
    pub stages: Vec<Vec<Step>>,
    /// What each leaf must bring.
    pub leaves: Vec<Need>,
    /// Before which stage which position is refreshed, and what it must be afterwards.
    pub refreshes: Vec<Refresh>,
}

/// A refresh of a carry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refresh {
    pub before: usize,
    pub position: usize,
    pub need: Need,
}

/// How a network is laid over positions.
struct Wiring {
    topology: Topology,
    work: Work,
    /// The level of what nobody needs, and of what goes to a refresh.
    end: usize,
    /// Every how many positions of a sequential network.
    refresh: Option<usize>,
}

impl Wiring {
    /// Levels of a network over `needs.len()` positions whose results are needed as `needs` says.
    fn plan(&self, mut needs: Vec<Need>) -> Network {
        let idle = match self.work {
            Work::Counted => Some(self.end),
            Work::Needed => None,
        };
        let mut network = Network::default();
        let wiring = self.topology.stages(needs.len());
        // A sequential network ends position p by stage p - 1.
        let refreshed = |p: usize| self.refresh.is_some_and(|r| (p + 1).is_multiple_of(r));
        for (before, stage) in (0..=wiring.len()).rev().map(|i| (i, wiring.get(i))) {
            if let Some(stage) = stage {
                network.stages.push(self.stage(stage, &mut needs, idle));
            }
            if refreshed(before) && before < needs.len() {
                let need = std::mem::take(&mut needs[before]);
                if need != Need::default() {
                    network.refreshes.push(Refresh { before, position: before, need });
                    needs[before] = Need { a: need.a.map(|_| self.end), s: need.s.map(|_| self.end) };
                }
            }
        }
        network.stages.reverse();
        network.stages.retain(|stage| !stage.is_empty() || self.refresh.is_some());
        network.refreshes.reverse();
        network.leaves = needs.into_iter().map(|n| Need { a: n.a.or(idle), s: n.s.or(idle) }).collect();
        network
    }

    /// The steps of a stage, given what is needed after it; `needs` becomes what is needed before it.
    fn stage(&self, nodes: &[Node], needs: &mut [Need], idle: Option<usize>) -> Vec<Step> {
        let wanted: Vec<Need> = nodes.iter().map(|v| std::mem::take(&mut needs[v.right])).collect();
        let mut steps = Vec::with_capacity(nodes.len());
        for (&node, want) in nodes.iter().zip(wanted) {
            let need = Need { a: want.a.or(idle), s: want.s.or(idle) };
            if let Some(l) = need.s {
                Need::raise(&mut needs[node.left].s, l + 1);
                Need::raise(&mut needs[node.right].s, l + 1);
                Need::raise(&mut needs[node.right].a, l + 1);
            }
            if let Some(l) = need.a {
                Need::raise(&mut needs[node.left].a, l + 1);
                Need::raise(&mut needs[node.right].a, l + 1);
            }
            if need != Need::default() {
                steps.push(Step { node, need });
            }
        }
        steps
    }
}

/// The schedule of one chunk.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Valid positions of every block.
    pub blocks: Vec<usize>,
    /// Pass one: a network for every block whose summary is made.
    pub first: Vec<Network>,
    /// The scan over summaries.
    pub carries: Network,
    /// Pass two.
    pub replay: Vec<Network>,
    /// What the product of carry and prefix ends at, for blocks with a carry.
    pub inject: Need,
    /// Carries that go from block to block in one pass; nothing if there are two passes.
    pub stream: Option<Stream>,
    /// The level of a state when it is contracted.
    pub contract: usize,
    /// The level of the sources of x, a and B.
    pub top: usize,
}

/// One pass: the last state of a block is the carry of the next.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    /// The level of the last state of each block.
    pub last: Vec<usize>,
    /// For each block the level of its carry after a refresh, if it is refreshed.
    pub refreshes: Vec<Option<usize>>,
}

impl Stream {
    /// From the last block back: a carry is one level above the last state that it is added to.
    fn new(blocks: usize, contract: usize, refresh: Option<usize>) -> Self {
        let (mut last, mut refreshes) = (vec![contract; blocks], vec![None; blocks]);
        for j in (1..blocks).rev() {
            let carry = last[j] + 1;
            if refresh.is_some_and(|r| j.is_multiple_of(r)) {
                refreshes[j] = Some(carry);
            } else {
                last[j - 1] = carry;
            }
        }
        Self { last, refreshes }
    }
}

impl Plan {
    /// For `tokens` tokens.
    pub fn new(tokens: usize, options: &Options) -> Self {
        let Options { block, end, work, topology, .. } = *options;
        let blocks: Vec<usize> = (0..tokens).step_by(block).map(|t| block.min(tokens - t)).collect();
        let contract = end + 2;
        let counted = work == Work::Counted;
        let inject = Need { a: counted.then_some(end), s: Some(contract) };
        let wiring = Wiring { topology, work, end, refresh: None };
        let level_up = |need: Need| Need { a: need.a.map(|l| l + 1), s: need.s.map(|l| l + 1) };
        let stream = match options.carry {
            Carry::Serial { refresh } if !counted => Some(Stream::new(blocks.len(), contract, refresh)),
            _ => None,
        };
        let replay: Vec<Network> = (0..blocks.len())
            .map(|j| {
                let want = |level: usize| match j {
                    0 => Need { a: None, s: Some(level) },
                    _ => Need { a: Some(level + 1), s: Some(level + 1) },
                };
                let mut needs = vec![want(contract); blocks[j]];
                if let (Some(stream), Some(last)) = (&stream, needs.last_mut()) {
                    *last = want(stream.last[j]);
                }
                wiring.plan(needs)
            })
            .collect();
        let carries = match stream {
            Some(_) => Network::default(),
            None => Self::carries(blocks.len(), options, level_up(inject)),
        };
        let first: Vec<Network> = carries
            .leaves
            .iter()
            .zip(&blocks)
            .map(|(want, &size)| {
                let mut needs = vec![Need::default(); size];
                needs[size - 1] = *want;
                wiring.plan(needs)
            })
            .collect();
        let leaves = first.iter().chain(&replay).flat_map(|network| &network.leaves);
        let top = leaves.map(|n| n.s.map_or(0, |l| l + 2).max(n.a.map_or(0, |l| l + 1))).max().unwrap_or(0);
        Self { blocks, first, carries, replay, inject, stream, contract, top }
    }

    /// The scan over summaries; the carry of block `j` is its position `j - 1`.
    fn carries(blocks: usize, options: &Options, want: Need) -> Network {
        if blocks == 1 {
            return Network::default();
        }
        let (topology, refresh) = match options.carry {
            Carry::Parallel => (Topology::BrentKung, None),
            Carry::Serial { refresh } => (Topology::Sequential, refresh),
        };
        let mut needs = vec![want; blocks - 1];
        if options.work == Work::Counted {
            // The paper's count has the summary of the last block, which no block uses.
            needs.push(Need::default());
        }
        Wiring { topology, work: options.work, end: options.end, refresh }.plan(needs)
    }

    /// The highest levels at which the map of a token is needed.
    pub fn leaf(&self, token: usize) -> Need {
        let block = self.blocks[0];
        let passes = [self.first.get(token / block), self.replay.get(token / block)];
        let needs = passes.into_iter().flatten().map(|n| n.leaves[token % block]);
        needs.fold(Need::default(), |most, n| Need { a: most.a.max(n.a), s: most.s.max(n.s) })
    }

    /// The highest level that a carry must have after a refresh.
    pub fn carry_level(&self) -> Option<usize> {
        let streamed = self.stream.iter().flat_map(|s| &s.refreshes).copied();
        let scanned = self.carries.refreshes.iter().flat_map(|r| [r.need.a, r.need.s]);
        scanned.chain(streamed).flatten().max()
    }
}

/// The depth of the kernel by formula: levels between its inputs and its results.
///
/// ```text
/// D = 2 + c + 2,   c = chain(B)                                               one block
///                  c = max(chain(B), chain(B_1) + 1, last(B) + carry + 1)     several
/// ```
///
/// (mask and build; compositions; contraction and mask) with `chain(n)` the longest chain of the network over
/// `n` positions, `last(n)` that of its last position (`log2 n`, but `n - 1` for the sequential one), `B_1`
/// the size of the second block, and `carry` the longest chain that a carry is made by: that of Brent-Kung
/// over the `K - 1` summaries, or `K - 2` in sequence. With a refresh every `R` blocks a chain in sequence
/// ends before each refreshed carry: `min(R, K) - 2` in the first run, `min(R, K - R) - 1` in later ones.
pub(super) fn depth(tokens: usize, options: &Options) -> usize {
    let block = options.block.min(tokens);
    let blocks = tokens.div_ceil(block);
    let chains = options.topology.chains(block);
    let (local, last) = (chains.iter().copied().max().unwrap_or(0), chains.last().copied().unwrap_or(0));
    if blocks == 1 {
        return 4 + local;
    }
    let second = options.topology.chain(block.min(tokens - block));
    let carry = match options.carry {
        Carry::Parallel => Topology::BrentKung.chain(blocks - 1),
        Carry::Serial { refresh: None } => blocks - 2,
        Carry::Serial { refresh: Some(r) } => {
            r.min(blocks).saturating_sub(2).max(r.min(blocks.saturating_sub(r)).saturating_sub(1))
        }
    };
    4 + local.max(second + 1).max(last + carry + 1)
}
