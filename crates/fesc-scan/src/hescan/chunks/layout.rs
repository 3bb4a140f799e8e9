//! Where the values of a packet lie in the source ciphertexts, and the outputs in the results.

use crate::hescan::{Factors, Lane, Per, ScanShape, Value};

/// The slot maps of one shape.
///
/// With `d_s` padded to a power of two, `c` channels in a chunk, `j = k mod d_s`, and `l = e - kappa c` the
/// local channel:
///
/// | source | a ciphertext for each | slot |
/// |---|---|---|
/// | `x_k[e]` | chunk and `d_s` tokens | `l d_s + j` |
/// | `a_k[h]` | `w_a` chunks and `d_s` tokens | `(l + kappa mod w_a) d_s + j`, `w_a` divides `l` |
/// | `B_k[g], C_k[g]` | pattern of groups, `w_b` tokens | `(l + k mod w_b) d_s + i`, `w_b` divides `l` |
///
/// | `h_0[e]`, if it enters | chunk | `l d_s + i` |
///
/// A factor that the server knows has no source. A decay for each state coordinate has a ciphertext for each
/// chunk and token, with `a_k[e][i]` in slot `l d_s + i`: nothing is broadcast.
///
/// `w_a` is the largest power of two that divides `P` and `c`: a run of `w_a` channels lies in one head.
/// `w_b` is that of `E / G` and `c`: a run of `w_b` channels lies in one group.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub shape: ScanShape,
    pub factors: Factors,
    pub slots: usize,
    /// d_s, padded to a power of two.
    pub state: usize,
    /// c.
    pub channels: usize,
    /// K_s.
    pub chunks: usize,
    /// w_a.
    pub head_run: usize,
    /// w_b.
    pub group_run: usize,
    /// The group of each run of `w_b` channels, for each different kind of chunk.
    pub patterns: Vec<Vec<usize>>,
    /// The pattern of each chunk.
    pub pattern_of: Vec<usize>,
    /// Whether a state enters.
    carry_in: bool,
}

/// A tensor of the packet, or the state that enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tensor {
    X,
    A,
    B,
    C,
    State,
}

impl Tensor {
    const ALL: [Self; 5] = [Self::X, Self::A, Self::B, Self::C, Self::State];
}

/// Which source an input is: a row for each chunk, batch or pattern, a column for each group of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source {
    pub tensor: Tensor,
    pub row: usize,
    pub column: usize,
}

/// The largest power of two that divides both.
fn run(a: usize, b: usize) -> usize {
    1 << a.trailing_zeros().min(b.trailing_zeros())
}

impl Layout {
    pub fn new(shape: ScanShape, factors: Factors, slots: usize, state_slots: usize, carry_in: bool) -> Self {
        let state = shape.state.next_power_of_two();
        let channels = state_slots / state;
        let all = shape.channels();
        let chunks = all.div_ceil(channels);
        let (head_run, group_run) = (run(shape.head_dim, channels), run(all / shape.groups, channels));
        let (mut patterns, mut pattern_of) = (Vec::<Vec<usize>>::new(), Vec::with_capacity(chunks));
        for chunk in 0..chunks {
            // Runs behind the last channel hold the last group, so that the last chunk has no pattern of its
            // own.
            let channel = |l: usize| (chunk * channels + l).min(all - 1);
            let group = |l: usize| shape.group(channel(l) / shape.head_dim);
            let pattern: Vec<usize> = (0..channels).step_by(group_run).map(group).collect();
            let at = patterns.iter().position(|p| *p == pattern).unwrap_or_else(|| {
                patterns.push(pattern);
                patterns.len() - 1
            });
            pattern_of.push(at);
        }
        Self { shape, factors, slots, state, channels, chunks, head_run, group_run, patterns, pattern_of, carry_in }
    }

    /// Whether decays are encrypted, one for each head.
    pub fn compact_decays(&self) -> bool {
        self.factors.a.encrypted() && self.factors.per == Per::Head
    }

    /// Groups of `d_s` tokens.
    pub fn token_groups(&self) -> usize {
        self.shape.tokens.div_ceil(self.state)
    }

    fn factor_groups(&self) -> usize {
        self.shape.tokens.div_ceil(self.group_run)
    }

    fn batches(&self) -> usize {
        self.chunks.div_ceil(self.head_run)
    }

    /// Rows and columns of the sources of a tensor.
    fn size(&self, tensor: Tensor) -> (usize, usize) {
        let (patterns, groups) = (self.patterns.len(), self.factor_groups());
        let (rows, columns, encrypted) = match tensor {
            Tensor::X => (self.chunks, self.token_groups(), true),
            Tensor::A if self.factors.per == Per::State => (self.chunks, self.shape.tokens, self.factors.a.encrypted()),
            Tensor::A => (self.batches(), self.token_groups(), self.factors.a.encrypted()),
            Tensor::B => (patterns, groups, self.factors.b.encrypted()),
            Tensor::C => (patterns, groups, self.factors.c.encrypted()),
            Tensor::State => (self.chunks, 1, self.carry_in),
        };
        (if encrypted { rows } else { 0 }, columns)
    }

    pub fn inputs(&self) -> usize {
        Tensor::ALL.into_iter().map(|t| self.size(t)).map(|(rows, columns)| rows * columns).sum()
    }

    fn number(&self, source: Source) -> usize {
        let before = Tensor::ALL.into_iter().take(source.tensor as usize).map(|t| self.size(t));
        let first: usize = before.map(|(rows, columns)| rows * columns).sum();
        first + source.row * self.size(source.tensor).1 + source.column
    }

    /// The index of the source of a token's value of a tensor.
    pub fn index(&self, tensor: Tensor, chunk: usize, token: usize) -> usize {
        let (row, column) = match tensor {
            Tensor::X => (chunk, token / self.state),
            Tensor::A if self.factors.per == Per::State => (chunk, token),
            Tensor::A => (chunk / self.head_run, token / self.state),
            Tensor::B | Tensor::C => (self.pattern_of[chunk], token / self.group_run),
            Tensor::State => (chunk, 0),
        };
        self.number(Source { tensor, row, column })
    }

    /// What input `i` is.
    pub fn source(&self, mut i: usize) -> Source {
        for tensor in Tensor::ALL {
            let (rows, columns) = self.size(tensor);
            if i < rows * columns {
                return Source { tensor, row: i / columns, column: i % columns };
            }
            i -= rows * columns;
        }
        // Behind the last: a source without values.
        Source { tensor: Tensor::X, row: self.chunks, column: 0 }
    }

    /// What lies in the slots of input `i`.
    pub fn lanes(&self, i: usize) -> Vec<Lane<Value>> {
        let mut lanes = vec![[None, None]; self.slots];
        let Source { tensor, row, column } = self.source(i);
        match tensor {
            Tensor::X => self.x_lanes(row, column, &mut lanes),
            Tensor::A if self.factors.per == Per::State => self.state_lanes(row, column, &mut lanes),
            Tensor::A => self.a_lanes(row, column, &mut lanes),
            Tensor::B | Tensor::C => self.factor_lanes(row, column, tensor, &mut lanes),
            Tensor::State => self.each_state(row, |at, i, e| {
                lanes[at][0] = Some(Value::State((i * self.shape.channels() + e) as u32));
            }),
        }
        lanes
    }

    /// Tokens of a group of `d_s`, with their place.
    fn tokens(&self, group: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (state, tokens) = (self.state, self.shape.tokens);
        (0..state).map(move |j| (group * state + j, j)).filter(move |(k, _)| *k < tokens)
    }

    /// Channels of a chunk: local, global.
    fn local(&self, chunk: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (all, first) = (self.shape.channels(), chunk * self.channels);
        (0..self.channels).map(move |l| (l, first + l)).filter(move |(_, e)| *e < all)
    }

    fn x_lanes(&self, chunk: usize, group: usize, lanes: &mut [Lane<Value>]) {
        for (l, e) in self.local(chunk) {
            for (k, j) in self.tokens(group) {
                lanes[l * self.state + j][0] = Some(Value::X((k * self.shape.channels() + e) as u32));
            }
        }
    }

    fn a_lanes(&self, batch: usize, group: usize, lanes: &mut [Lane<Value>]) {
        let first = batch * self.head_run;
        for chunk in first..(first + self.head_run).min(self.chunks) {
            for (l, e) in self.local(chunk).filter(|(l, _)| l % self.head_run == 0) {
                for (k, j) in self.tokens(group) {
                    let at = k * self.shape.heads + e / self.shape.head_dim;
                    lanes[(l + chunk - first) * self.state + j] = self.factors.a.lane(at, Value::A);
                }
            }
        }
    }

    fn state_lanes(&self, chunk: usize, token: usize, lanes: &mut [Lane<Value>]) {
        for (l, e) in self.local(chunk) {
            for i in 0..self.shape.state {
                let at = (token * self.shape.channels() + e) * self.shape.state + i;
                lanes[l * self.state + i] = self.factors.a.lane(at, Value::A);
            }
        }
    }

    fn factor_lanes(&self, pattern: usize, group: usize, tensor: Tensor, lanes: &mut [Lane<Value>]) {
        let ScanShape { tokens, groups, state, .. } = self.shape;
        let lane = |n: usize| match tensor {
            Tensor::B => self.factors.b.lane(n, Value::B),
            _ => self.factors.c.lane(n, Value::C),
        };
        for (run, g) in self.patterns[pattern].iter().enumerate() {
            for place in 0..self.group_run {
                let k = group * self.group_run + place;
                for i in (0..state).filter(|_| k < tokens) {
                    let at = (run * self.group_run + place) * self.state + i;
                    lanes[at] = lane((k * groups + g) * state + i);
                }
            }
        }
    }

    /// Channel and coordinate of a slot of a chunk, if there is such a state.
    pub fn at(&self, chunk: usize, slot: usize) -> Option<(usize, usize)> {
        let (l, i) = (slot / self.state, slot % self.state);
        let e = chunk * self.channels + l;
        (l < self.channels && e < self.shape.channels() && i < self.shape.state).then_some((e, i))
    }

    /// Slot, coordinate and channel of each state of a chunk.
    fn each_state(&self, chunk: usize, mut see: impl FnMut(usize, usize, usize)) {
        for (l, e) in self.local(chunk) {
            (0..self.shape.state).for_each(|i| see(l * self.state + i, i, e));
        }
    }

    /// The outputs of a result that holds the last states of these chunks in its parts.
    pub fn states(&self, parts: &[usize]) -> Vec<Lane<u32>> {
        let mut lanes = vec![[None, None]; self.slots];
        for (part, &chunk) in parts.iter().enumerate() {
            self.each_state(chunk, |at, i, e| {
                lanes[at][part] = Some(((self.shape.tokens + i) * self.shape.channels() + e) as u32);
            });
        }
        lanes
    }

    /// The outputs of a result that holds these chunks in its parts, for one group of tokens.
    pub fn outputs(&self, parts: &[usize], group: usize) -> Vec<Lane<u32>> {
        let mut lanes = vec![[None, None]; self.slots];
        for (part, &chunk) in parts.iter().enumerate() {
            for (l, e) in self.local(chunk) {
                for (k, j) in self.tokens(group) {
                    lanes[l * self.state + j][part] = Some((k * self.shape.channels() + e) as u32);
                }
            }
        }
        lanes
    }
}
