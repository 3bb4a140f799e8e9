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
}

impl Network {
    /// Parts of maps that its compositions make.
    fn parts(&self) -> usize {
        let steps = self.stages.iter().flatten();
        steps.map(|step| usize::from(step.need.a.is_some()) + usize::from(step.need.s.is_some())).sum()
    }
}

/// How a network is laid over positions.
struct Wiring {
    topology: Topology,
    work: Work,
    /// The level of what nobody needs.
    end: usize,
}

impl Wiring {
    /// Levels of a network over `needs.len()` positions whose results are needed as `needs` says.
    fn plan(&self, mut needs: Vec<Need>) -> Network {
        let idle = match self.work {
            Work::Counted => Some(self.end),
            Work::Needed => None,
        };
        let wiring = self.topology.stages(needs.len());
        let mut stages: Vec<Vec<Step>> = wiring.iter().rev().map(|stage| self.stage(stage, &mut needs, idle)).collect();
        stages.reverse();
        stages.retain(|stage| !stage.is_empty());
        let leaves = needs.into_iter().map(|n| Need { a: n.a.or(idle), s: n.s.or(idle) }).collect();
        Network { stages, leaves }
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
    /// The scan over summaries, after the state that enters if there is one.
    pub carries: Network,
    /// Pass two.
    pub replay: Vec<Network>,
    /// What the product of carry and prefix ends at, for blocks with a carry.
    pub inject: Need,
    /// With one pass, where the last state of a block is the carry of the next: the level of that state for
    /// each block. Nothing if there are two passes.
    pub stream: Option<Vec<usize>>,
    /// The level of the state that enters, if one does.
    pub enters: Option<usize>,
    /// The level of a state when it is contracted.
    pub contract: usize,
    /// The level of the sources of x, a and B.
    pub top: usize,
}

impl Plan {
    /// For `tokens` tokens.
    pub fn new(tokens: usize, options: &Options) -> Self {
        let Options { block, end, work, topology, carry_in, .. } = *options;
        let blocks: Vec<usize> = (0..tokens).step_by(block).map(|t| block.min(tokens - t)).collect();
        let contract = end + 2;
        let counted = work == Work::Counted;
        let inject = Need { a: counted.then_some(end), s: Some(contract) };
        let wiring = Wiring { topology, work, end };
        let level_up = |need: Need| Need { a: need.a.map(|l| l + 1), s: need.s.map(|l| l + 1) };
        // From the last block back: a carry is one level above the last state that it is added to.
        let stream = (options.carry == Carry::Serial && !counted)
            .then(|| (0..blocks.len()).rev().map(|after| contract + after).collect::<Vec<_>>());
        let replay: Vec<Network> = (0..blocks.len())
            .map(|j| {
                let want = |level: usize| match j {
                    0 if !carry_in => Need { a: None, s: Some(level) },
                    _ => Need { a: Some(level + 1), s: Some(level + 1) },
                };
                let mut needs = vec![want(contract); blocks[j]];
                if let (Some(stream), Some(last)) = (&stream, needs.last_mut()) {
                    *last = want(stream[j]);
                }
                wiring.plan(needs)
            })
            .collect();
        let carries = match stream {
            Some(_) => Network::default(),
            None => Self::carries(blocks.len(), options, level_up(inject)),
        };
        let enters = carry_in.then(|| match (&stream, carries.leaves.first()) {
            (Some(last), _) => last[0] + 1,
            (None, leaf) => leaf.and_then(|need| need.s).unwrap_or(end),
        });
        let first: Vec<Network> = carries
            .leaves
            .iter()
            .skip(usize::from(carry_in))
            .zip(&blocks)
            .map(|(want, &size)| {
                let mut needs = vec![Need::default(); size];
                needs[size - 1] = *want;
                wiring.plan(needs)
            })
            .collect();
        let leaves = first.iter().chain(&replay).flat_map(|network| &network.leaves);
        // Masks, and the product of x and B.
        let decay = if counted { 1 } else { 2 };
        let top = leaves.map(|n| n.s.map_or(0, |l| l + 2).max(n.a.map_or(0, |l| l + decay))).max().unwrap_or(0);
        Self { blocks, first, carries, replay, inject, stream, enters, contract, top }
    }

    /// The scan over summaries: the carry of block `j` is its position `j - 1`, or `j` behind a state that
    /// enters.
    fn carries(blocks: usize, options: &Options, want: Need) -> Network {
        let count = blocks - usize::from(!options.carry_in);
        if count == 0 {
            return Network::default();
        }
        let topology = match options.carry {
            Carry::Parallel => Topology::BrentKung,
            Carry::Serial => Topology::Sequential,
        };
        let mut needs = vec![want; count];
        if options.work == Work::Counted {
            // The paper's count has the summary of the last block, which no block uses.
            needs.push(Need::default());
        }
        Wiring { topology, work: options.work, end: options.end }.plan(needs)
    }

    /// All networks.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        self.first.iter().chain(&self.replay).chain([&self.carries])
    }

    /// Positions that a carry is added to.
    pub fn injected(&self) -> usize {
        self.blocks.iter().skip(usize::from(self.enters.is_none())).sum()
    }

    /// Relinearisations of one chunk: compositions, updates and contractions.
    pub fn products(&self) -> usize {
        let composed: usize = self.networks().map(Network::parts).sum();
        let injected = self.injected() * (1 + usize::from(self.inject.a.is_some()));
        let networks = self.first.iter().chain(&self.replay);
        let built = networks.flat_map(|n| &n.leaves).filter(|need| need.s.is_some()).count();
        composed + injected + built + self.blocks.iter().sum::<usize>()
    }

    /// The highest levels at which the map of a token is needed.
    pub fn leaf(&self, token: usize) -> Need {
        let block = self.blocks[0];
        let passes = [self.first.get(token / block), self.replay.get(token / block)];
        let needs = passes.into_iter().flatten().map(|n| n.leaves[token % block]);
        needs.fold(Need::default(), |most, n| Need { a: most.a.max(n.a), s: most.s.max(n.s) })
    }
}

/// The depth of the kernel by formula: levels between its inputs and its results.
///
/// ```text
/// D = 2 + c + 2,   c = chain(B)                                               no carry
///                  c = max(chain(B), chain(B_1) + 1, last(B) + carry + 1)     carries
/// ```
///
/// (mask and build; compositions; contraction and mask) with `chain(n)` the longest chain of the network over
/// `n` positions, `last(n)` that of its last position (`log2 n`, but `n - 1` for the sequential one), `B_1`
/// the size of the first block with a carry (the second, or the first if a state enters), and `carry` the
/// longest chain that a carry is made by: that of Brent-Kung over the `K - 1` blocks with a carry (`K`, if a
/// state enters), or one less than these in sequence.
pub(super) fn depth(tokens: usize, options: &Options) -> usize {
    let block = options.block.min(tokens);
    let blocks = tokens.div_ceil(block);
    let chains = options.topology.chains(block);
    let (local, last) = (chains.iter().copied().max().unwrap_or(0), chains.last().copied().unwrap_or(0));
    let (carried, first) = if options.carry_in { (blocks, block) } else { (blocks - 1, block.min(tokens - block)) };
    if carried == 0 {
        return 4 + local;
    }
    let carry = match options.carry {
        Carry::Parallel => Topology::BrentKung.chain(carried),
        Carry::Serial => carried - 1,
    };
    4 + local.max(options.topology.chain(first) + 1).max(last + carry + 1)
}
