//! Where values lie: token blocks, state coordinates and complex channels in the slots.

use std::ops::Range;

use crate::hescan::{Lane, ScanShape, Value};
use fesc_hybrid::{HybridError, Result};

/// How a scan is laid out in slots, and how it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LanesParams {
    /// kappa: blocks of tokens in the slots of one ciphertext, a power of two.
    pub blocks: usize,
    /// iota: state coordinates in the slots of one ciphertext, a power of two.
    pub coordinates: usize,
    /// Tokens of a leaf of the prefix network, a power of two: their summary is one relinearisation, and
    /// outputs inside a leaf come from scores.
    pub leaf: usize,
    /// The level of the results.
    pub floor: usize,
    /// Whether the coordinates of one ciphertext are summed by rotations; else on shares, for nothing.
    pub fold: bool,
    /// Blocks of channels that are computed together: B and C are loaded once for all of them, what each
    /// needs is in memory at once.
    pub together: usize,
}

/// The layout of one shape.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub shape: ScanShape,
    pub slots: usize,
    pub params: LanesParams,
    /// epsilon: complex channels in the slots of one ciphertext.
    pub channels: usize,
    /// t: tokens of a block, a power of two.
    pub tokens: usize,
    /// Blocks of channels across ciphertexts.
    pub channel_blocks: usize,
    /// Chunks of coordinates across ciphertexts.
    pub chunks: usize,
    /// For each block of channels, which of the patterns of groups its slots have.
    pub pattern_of: Vec<usize>,
    /// Groups of the channels of a block, each pattern once.
    pub patterns: Vec<Vec<usize>>,
    /// How often the groups of each pattern repeat, and with them the slots of B and C.
    pub pattern_repeats: Vec<usize>,
}

/// How often a vector repeats; its length is a power of two.
fn repeats(values: &[usize]) -> usize {
    let periodic = |period: &usize| values.iter().zip(values.iter().skip(*period)).all(|(a, b)| a == b);
    let period = (0..values.len().ilog2()).map(|k| 1usize << k).find(periodic);
    values.len() / period.unwrap_or(values.len())
}

impl Layout {
    pub fn new(shape: ScanShape, slots: usize, params: LanesParams) -> Result<Self> {
        let LanesParams { blocks, coordinates, leaf, .. } = params;
        let power = |what, got: usize| {
            let need = "a power of two".to_string();
            if got.is_power_of_two() { Ok(()) } else { Err(HybridError::Shape { what, got, need }) }
        };
        power("slots", slots)?;
        power("blocks of tokens", blocks)?;
        power("coordinates in a ciphertext", coordinates)?;
        power("tokens of a leaf", leaf)?;
        if blocks * coordinates > slots {
            let need = format!("blocks times coordinates of {slots} slots");
            return Err(HybridError::Shape { what: "lanes", got: blocks * coordinates, need });
        }
        if shape.tokens == 0 || shape.heads == 0 || shape.groups == 0 || !shape.heads.is_multiple_of(shape.groups) {
            let need = "a token, a head, and groups of equal size".to_string();
            return Err(HybridError::Shape { what: "heads", got: shape.heads, need });
        }
        let channels = slots / (blocks * coordinates);
        let tokens = shape.tokens.div_ceil(blocks).next_power_of_two().max(leaf);
        let pairs = shape.heads * shape.head_dim.div_ceil(2);
        let channel_blocks = pairs.div_ceil(channels);
        let mut layout = Self {
            shape,
            slots,
            params,
            channels,
            tokens,
            channel_blocks,
            chunks: shape.state.div_ceil(coordinates),
            pattern_of: Vec::new(),
            patterns: Vec::new(),
            pattern_repeats: Vec::new(),
        };
        for block in 0..channel_blocks {
            let groups: Vec<usize> = (0..channels).map(|c| layout.group(block, c)).collect();
            let known = layout.patterns.iter().position(|p| *p == groups);
            let place = known.unwrap_or(layout.patterns.len());
            if known.is_none() {
                layout.pattern_repeats.push(repeats(&groups));
                layout.patterns.push(groups);
            }
            layout.pattern_of.push(place);
        }
        Ok(layout)
    }

    /// Pairs of channels of a head.
    fn half(&self) -> usize {
        self.shape.head_dim.div_ceil(2)
    }

    /// Whole heads of a block of channels; none if a head goes on in the next block, or their number is no
    /// power of two.
    fn whole_heads(&self) -> Option<usize> {
        let heads = self.channels / self.half();
        (heads * self.half() == self.channels && heads.is_power_of_two()).then_some(heads)
    }

    /// Head and pair of complex channel `c` of a block. Whole heads take turns, so that decays repeat.
    fn pair(&self, block: usize, c: usize) -> Option<(usize, usize)> {
        let (head, pair) = match self.whole_heads() {
            Some(heads) => (block * heads + c % heads, c / heads),
            None => ((block * self.channels + c) / self.half(), (block * self.channels + c) % self.half()),
        };
        (head < self.shape.heads).then_some((head, pair))
    }

    /// Blocks of channels that are computed together: neighbours with the same groups.
    pub fn groups_of_blocks(&self) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::new();
        for (block, pattern) in self.pattern_of.iter().enumerate() {
            let most = self.params.together.max(1);
            match groups.last_mut().filter(|g| g.len() < most && self.pattern_of[g.start] == *pattern) {
                Some(group) => group.end += 1,
                None => groups.push(block..block + 1),
            }
        }
        groups
    }

    /// How often the slots of decays repeat.
    pub fn decays_repeat(&self) -> usize {
        self.whole_heads().map_or(1, |heads| self.channels / heads)
    }

    /// The group of a channel; a channel that does not exist has that of the last one.
    fn group(&self, block: usize, c: usize) -> usize {
        let head = self.pair(block, c).map_or(self.shape.heads - 1, |(head, _)| head);
        self.shape.group(head)
    }

    /// The token at place `tau` of block `b`.
    fn token(&self, b: usize, tau: usize) -> Option<usize> {
        Some(b * self.tokens + tau).filter(|t| *t < self.shape.tokens)
    }

    /// The channels `e` in the two parts of a slot: `p` and `p + P/2` of one head, which share a, B and C.
    fn parts(&self, block: usize, c: usize) -> [Option<usize>; 2] {
        let Some((head, pair)) = self.pair(block, c) else { return [None, None] };
        let (at, second) = (head * self.shape.head_dim, pair + self.shape.head_dim.div_ceil(2));
        [Some(at + pair), (second < self.shape.head_dim).then_some(at + second)]
    }

    /// For every slot: block of tokens, coordinate, channel.
    fn each<T>(&self, make: impl Fn(usize, usize, usize) -> Lane<T>) -> Vec<Lane<T>> {
        let LanesParams { blocks, coordinates, .. } = self.params;
        (0..self.slots).map(|s| make(s % blocks, s / blocks % coordinates, s / (blocks * coordinates))).collect()
    }

    /// x of a block of channels at place `tau`.
    pub fn x(&self, block: usize, tau: usize) -> Vec<Lane<Value>> {
        let all = self.shape.channels();
        self.each(|b, _, c| {
            let token = self.token(b, tau);
            self.parts(block, c).map(|e| Some(Value::X((token? * all + e?) as u32)))
        })
    }

    /// a of a block of channels at place `tau`. That of the first token of all is zero: nothing precedes it,
    /// and what rotations of blocks bring there from other channels is multiplied by nothing.
    pub fn a(&self, block: usize, tau: usize) -> Vec<Lane<Value>> {
        self.each(|b, _, c| {
            let token = self.token(b, tau).filter(|t| *t > 0);
            let at = token.zip(self.pair(block, c)).map(|(t, (head, _))| t * self.shape.heads + head);
            [at.map(|i| Value::A(i as u32)), None]
        })
    }

    /// B or C of a chunk of coordinates at place `tau`.
    pub fn bc(&self, pattern: usize, chunk: usize, tau: usize, value: fn(u32) -> Value) -> Vec<Lane<Value>> {
        let ScanShape { groups, state, .. } = self.shape;
        self.each(|b, j, c| {
            let i = chunk * self.params.coordinates + j;
            let token = self.token(b, tau).filter(|_| i < state);
            let at = token.map(|t| (t * groups + self.patterns[pattern][c]) * state + i);
            [at.map(|i| value(i as u32)), None]
        })
    }

    /// The outputs of a block of channels at place `tau`.
    pub fn outputs(&self, block: usize, tau: usize) -> Vec<Lane<u32>> {
        let all = self.shape.channels();
        let lane = |b, j, c| {
            // Coordinates that do not exist are zero, and need not be added.
            let there = if self.params.fold { j == 0 } else { j < self.shape.state };
            let token = self.token(b, tau).filter(|_| there);
            self.parts(block, c).map(|e| Some((token? * all + e?) as u32))
        };
        self.each(lane)
    }
}
