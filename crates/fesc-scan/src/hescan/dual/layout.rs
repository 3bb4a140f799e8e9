//! Which value of the packet lies in which slot.

use super::{DEPTH, DualScan, NEAR};
use crate::hescan::{Lane, Value};

/// An input ciphertext.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Input {
    /// B of a group and a chunk of its states; the token before it in the imaginary part.
    B(usize, usize),
    /// C of a group and a chunk of its states.
    C(usize, usize),
    /// x of a group and a block of its channels.
    X(usize, usize),
    /// Products of decays over the shift, for a group and block.
    Near(usize, usize, usize),
    /// `r_k` of a group, block and level.
    R(usize, usize, u32),
    /// `l_k`.
    L(usize, usize, u32),
}

impl Input {
    /// Levels above the results.
    pub(super) fn depth(self) -> usize {
        match self {
            Self::B(..) | Self::C(..) | Self::X(..) | Self::R(..) => DEPTH,
            Self::Near(..) => 2,
            Self::L(..) => 1,
        }
    }
}

impl DualScan {
    /// All inputs, sorted.
    pub(super) fn all_inputs(&self) -> Vec<Input> {
        let mut inputs = Vec::new();
        for g in 0..self.shape.groups {
            inputs.extend((0..self.chunks()).flat_map(|c| [Input::B(g, c), Input::C(g, c)]));
            for block in 0..self.blocks() {
                inputs.push(Input::X(g, block));
                inputs.extend((1..self.near()).map(|d| Input::Near(g, block, d)));
                inputs.extend(self.levels().flat_map(|k| [Input::R(g, block, k), Input::L(g, block, k)]));
            }
        }
        inputs.sort_unstable();
        inputs
    }

    /// Where an input is. All that a plan asks for exist.
    pub(super) fn index(&self, input: Input) -> usize {
        self.inputs.partition_point(|x| *x < input)
    }

    /// Slots by place on the high axis and token; padding is empty.
    fn slots_of<T: Copy>(&self, lane: impl Fn(usize, usize) -> Lane<T>) -> Vec<Lane<T>> {
        let axis = self.axis();
        let slot = |s: usize| if s % axis < self.shape.tokens { lane(s / axis, s % axis) } else { [None, None] };
        (0..self.slots).map(slot).collect()
    }

    pub(super) fn input_lanes(&self, input: Input) -> Vec<Lane<Value>> {
        match input {
            Input::B(g, c) => self.slots_of(|high, t| {
                let b = |t| self.state_place(g, c, high, t).map(Value::B);
                [b(t), t.checked_sub(1).and_then(b)]
            }),
            Input::C(g, c) => self.slots_of(|high, t| [self.state_place(g, c, high, t).map(Value::C), None]),
            Input::X(g, block) => self.slots_of(|high, t| self.channels(g, block, high, t).map(|x| x.map(Value::X))),
            Input::Near(g, block, d) => self.decays(g, block, |t| Some((t.checked_sub(d)? + 1, t + 1))),
            Input::R(g, block, k) => self.decays(g, block, |t| (t >> k & 1 == 0).then(|| (t + 1, middle(t, k)))),
            Input::L(g, block, k) => self.decays(g, block, |t| (t >> k & 1 == 1).then(|| (middle(t, k), t + 1))),
        }
    }

    pub(super) fn output_lanes(&self, g: usize, block: usize) -> Vec<Lane<u32>> {
        self.slots_of(|high, t| self.channels(g, block, high, t))
    }

    /// Where `B_t[g][i]` of a place of the high axis is in the packet.
    fn state_place(&self, g: usize, chunk: usize, high: usize, t: usize) -> Option<u32> {
        let i = chunk * self.states() + high % self.states();
        (i < self.shape.state).then_some(((t * self.shape.groups + g) * self.shape.state + i) as u32)
    }

    /// Head, and channel within the head, of a place of the high axis.
    fn channel(&self, g: usize, block: usize, high: usize) -> Option<(usize, usize)> {
        let (at, heads) = (block * self.high() + high, self.shape.heads / self.shape.groups);
        let (head, p) = (at / self.pairs(), at % self.pairs());
        (head < heads).then_some((g * heads + head, p))
    }

    /// `t E + e` of both channels of a place.
    fn channels(&self, g: usize, block: usize, high: usize, t: usize) -> Lane<u32> {
        let Some((head, p)) = self.channel(g, block, high) else { return [None, None] };
        let at = |p: usize| (t * self.shape.channels() + head * self.shape.head_dim + p) as u32;
        [Some(at(p)), (p + self.pairs() < self.shape.head_dim).then(|| at(p + self.pairs()))]
    }

    /// Products of decays over a range of tokens that depends on the token.
    fn decays(&self, g: usize, block: usize, range: impl Fn(usize) -> Option<(usize, usize)>) -> Vec<Lane<Value>> {
        self.slots_of(|high, t| {
            let value = self.channel(g, block, high).zip(range(t)).filter(|(_, (_, to))| *to <= self.shape.tokens);
            let decays = |((head, _), (from, to)): ((usize, usize), (usize, usize))| Value::Decays {
                head: head as u32,
                from: from as u32,
                to: to as u32,
            };
            [value.map(decays), None]
        })
    }
}

/// The first token of the right half of the block of `2^(k+1)` tokens that `t` is in.
fn middle(t: usize, k: u32) -> usize {
    (t >> (k + 1) << (k + 1)) + (1 << k)
}

const _: () = assert!(NEAR.is_power_of_two());
