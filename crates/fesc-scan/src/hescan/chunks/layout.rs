//! Where the values of a packet lie in the source ciphertexts, and the outputs in the results.

use crate::hescan::{Lane, ScanShape, Value};

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
/// `w_a` is the largest power of two that divides `P` and `c`: a run of `w_a` channels lies in one head.
/// `w_b` is that of `E / G` and `c`: a run of `w_b` channels lies in one group.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub shape: ScanShape,
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
}

/// Which source an input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    X { chunk: usize, group: usize },
    A { batch: usize, group: usize },
    B { pattern: usize, group: usize },
    C { pattern: usize, group: usize },
}

/// The largest power of two that divides both.
fn run(a: usize, b: usize) -> usize {
    1 << a.trailing_zeros().min(b.trailing_zeros())
}

impl Layout {
    pub fn new(shape: ScanShape, slots: usize, state_slots: usize) -> Self {
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
        Self { shape, slots, state, channels, chunks, head_run, group_run, patterns, pattern_of }
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

    pub fn inputs(&self) -> usize {
        (self.chunks + self.batches()) * self.token_groups() + 2 * self.patterns.len() * self.factor_groups()
    }

    /// The index of the source of `x_k`.
    pub fn x(&self, chunk: usize, token: usize) -> usize {
        chunk * self.token_groups() + token / self.state
    }

    /// The index of the source of `a_k`.
    pub fn a(&self, chunk: usize, token: usize) -> usize {
        (self.chunks + chunk / self.head_run) * self.token_groups() + token / self.state
    }

    /// The index of the source of `B_k`.
    pub fn b(&self, chunk: usize, token: usize) -> usize {
        let start = (self.chunks + self.batches()) * self.token_groups();
        start + self.pattern_of[chunk] * self.factor_groups() + token / self.group_run
    }

    /// The index of the source of `C_k`.
    pub fn c(&self, chunk: usize, token: usize) -> usize {
        self.b(chunk, token) + self.patterns.len() * self.factor_groups()
    }

    /// What input `i` is.
    pub fn source(&self, i: usize) -> Source {
        let (u, v, b) = (self.token_groups(), self.factor_groups(), self.batches());
        let factors = (self.chunks + b) * u;
        match i {
            i if i < self.chunks * u => Source::X { chunk: i / u, group: i % u },
            i if i < factors => Source::A { batch: i / u - self.chunks, group: i % u },
            i if i < factors + self.patterns.len() * v => {
                Source::B { pattern: (i - factors) / v, group: (i - factors) % v }
            }
            i => {
                let i = i - factors - self.patterns.len() * v;
                Source::C { pattern: i / v, group: i % v }
            }
        }
    }

    /// What lies in the slots of input `i`.
    pub fn lanes(&self, i: usize) -> Vec<Lane<Value>> {
        let mut lanes = vec![[None, None]; self.slots];
        match self.source(i) {
            Source::X { chunk, group } => self.x_lanes(chunk, group, &mut lanes),
            Source::A { batch, group } => self.a_lanes(batch, group, &mut lanes),
            Source::B { pattern, group } => self.factor_lanes(pattern, group, Value::B, &mut lanes),
            Source::C { pattern, group } => self.factor_lanes(pattern, group, Value::C, &mut lanes),
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
                    let value = Value::A((k * self.shape.heads + e / self.shape.head_dim) as u32);
                    lanes[(l + chunk - first) * self.state + j][0] = Some(value);
                }
            }
        }
    }

    fn factor_lanes(&self, pattern: usize, group: usize, value: fn(u32) -> Value, lanes: &mut [Lane<Value>]) {
        let ScanShape { tokens, groups, state, .. } = self.shape;
        for (run, g) in self.patterns[pattern].iter().enumerate() {
            for place in 0..self.group_run {
                let k = group * self.group_run + place;
                for i in (0..state).filter(|_| k < tokens) {
                    let at = (run * self.group_run + place) * self.state + i;
                    lanes[at][0] = Some(value(((k * groups + g) * state + i) as u32));
                }
            }
        }
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
