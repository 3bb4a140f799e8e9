//! Which value of the packet lies in which slot.

use super::{DualScan, NEAR};
use crate::hescan::{Lane, Value};

/// An input ciphertext.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Input {
    /// B of a group and a part of its states; the token before it in the imaginary part.
    B(usize, usize),
    /// C of a group and a part of its states.
    C(usize, usize),
    /// x of a group and a block of its channels.
    X(usize, usize),
    /// Products of decays over the shift, for a group and block.
    Near(usize, usize, usize),
    /// `r_k` of a group, block and level.
    R(usize, usize, u32),
    /// `l_k`.
    L(usize, usize, u32),
    /// Decays from each token to the end of its chunk, of a group and block.
    Column(usize, usize),
    /// Decays from the start of each chunk to its tokens.
    Row(usize, usize),
    /// Decays over so many chunks before each chunk.
    Carry(usize, usize, usize),
    /// The diagonal of B, of a group, that makes states from x moved by so many tokens.
    BandB(usize, usize),
    /// The diagonal of C that reads states moved by so many tokens.
    BandC(usize, usize),
}

impl DualScan {
    /// Levels of an input above the results.
    pub(super) fn depth_of(&self, input: Input) -> usize {
        match input {
            Input::B(..) | Input::C(..) | Input::R(..) => 3,
            Input::X(..) | Input::Column(..) => self.depth(),
            Input::Near(..) => 2,
            Input::L(..) | Input::Row(..) => 1,
            Input::BandB(..) => 3 + self.strides().len(),
            Input::Carry(_, _, w) => self.strides().iter().rev().take_while(|s| s[0] > w).count() + 3,
            Input::BandC(..) => 2,
        }
    }

    /// All inputs, sorted.
    pub(super) fn all_inputs(&self) -> Vec<Input> {
        let mut inputs = Vec::new();
        for g in 0..self.shape.groups {
            inputs.extend((0..self.parts()).flat_map(|c| [Input::B(g, c), Input::C(g, c)]));
            for block in 0..self.blocks() {
                inputs.push(Input::X(g, block));
                inputs.extend((1..self.near()).map(|d| Input::Near(g, block, d)));
                inputs.extend(self.levels().flat_map(|k| [Input::R(g, block, k), Input::L(g, block, k)]));
                if self.carries() {
                    inputs.extend([Input::Column(g, block), Input::Row(g, block)]);
                    inputs.extend(self.strides().into_iter().flatten().map(|w| Input::Carry(g, block, w)));
                }
            }
            let band = if self.carries() { 1..2 * self.chunk } else { 0..0 };
            inputs.extend(band.flat_map(|d| [Input::BandB(g, d), Input::BandC(g, d)]));
        }
        inputs.sort_unstable();
        inputs
    }

    /// Where an input is. All that a plan asks for exist.
    pub(super) fn index(&self, input: Input) -> usize {
        self.inputs.partition_point(|x| *x < input)
    }

    /// Slots by place on the high axis and token.
    fn slots_of<T: Copy>(&self, lane: impl Fn(usize, usize) -> Lane<T>) -> Vec<Lane<T>> {
        let axis = self.axis();
        (0..self.slots).map(|s| lane(s / axis, s % axis)).collect()
    }

    pub(super) fn input_lanes(&self, input: Input) -> Vec<Lane<Value>> {
        let chunk = self.chunk;
        match input {
            Input::B(g, c) => self.slots_of(|high, t| {
                let b = |t| self.state_place(g, c, high, t).map(Value::B);
                [b(t), t.checked_sub(1).and_then(b)]
            }),
            Input::C(g, c) => self.slots_of(|high, t| [self.state_place(g, c, high, t).map(Value::C), None]),
            Input::X(g, block) => self.slots_of(|high, t| self.channels(g, block, high, t).map(|x| x.map(Value::X))),
            Input::Near(g, block, d) => {
                self.decays(g, block, |t| (t % chunk >= d).then(|| (t.saturating_sub(d) + 1, t + 1)))
            }
            Input::R(g, block, k) => self.decays(g, block, |t| (t >> k & 1 == 0).then(|| (t + 1, middle(t, k)))),
            Input::L(g, block, k) => self.decays(g, block, |t| (t >> k & 1 == 1).then(|| (middle(t, k), t + 1))),
            Input::Column(g, block) => self.decays(g, block, |t| Some((t + 1, (t / chunk + 1) * chunk))),
            Input::Row(g, block) => self.decays(g, block, |t| Some((t / chunk * chunk, t + 1))),
            Input::Carry(g, block, w) => self.decays(g, block, |t| {
                let from = (t / chunk).checked_sub(w)?;
                (from > 0).then(|| (from * chunk, t / chunk * chunk))
            }),
            Input::BandB(g, d) => self.slots_of(|_, at| [self.band_b(g, d, at).map(Value::B), None]),
            Input::BandC(g, d) => self.slots_of(|_, at| [self.band_c(g, d, at).map(Value::C), None]),
        }
    }

    pub(super) fn output_lanes(&self, g: usize, block: usize) -> Vec<Lane<u32>> {
        self.slots_of(|high, t| self.channels(g, block, high, t))
    }

    /// Where `B_t[g][i]` is in the packet; nowhere for padding.
    fn state(&self, g: usize, t: usize, i: usize) -> Option<u32> {
        let exists = i < self.shape.state && t < self.shape.tokens;
        exists.then_some(((t * self.shape.groups + g) * self.shape.state + i) as u32)
    }

    /// Where `B_t[g][i]` of a place of the high axis is in the packet.
    fn state_place(&self, g: usize, part: usize, high: usize, t: usize) -> Option<u32> {
        self.state(g, t, part * self.states + high % self.states)
    }

    /// State `p` of the chunk before, at place `p` of a chunk, is the sum over `d` of this diagonal times
    /// what is `d` places before. `at` is moved to the left by the giant step of `d`.
    fn band_b(&self, g: usize, d: usize, at: usize) -> Option<u32> {
        let to = (at + d - d % self.band()) % self.axis();
        let from = to.checked_sub(d)?;
        (from / self.chunk + 1 == to / self.chunk).then(|| self.state(g, from, to % self.chunk))?
    }

    /// The output of a token, one chunk late, is the sum over `d` of this diagonal times the state that is
    /// `d` places before. `at` as above.
    fn band_c(&self, g: usize, d: usize, at: usize) -> Option<u32> {
        let (axis, chunk) = (self.axis(), self.chunk);
        let token = (at + d - d % self.band() + axis - chunk) % axis;
        let state = (token % chunk + chunk).checked_sub(d)?;
        (state < chunk && token >= chunk).then(|| self.state(g, token, state))?
    }

    /// Head, and channel within the head, of a place of the high axis.
    fn channel(&self, g: usize, block: usize, high: usize) -> Option<(usize, usize)> {
        let (at, heads) = (block * self.high() + high, self.shape.heads / self.shape.groups);
        let (head, p) = (at / self.pairs(), at % self.pairs());
        (head < heads).then_some((g * heads + head, p))
    }

    /// `t E + e` of both channels of a place.
    fn channels(&self, g: usize, block: usize, high: usize, t: usize) -> Lane<u32> {
        let channel = self.channel(g, block, high).filter(|_| t < self.shape.tokens);
        let Some((head, p)) = channel else { return [None, None] };
        let at = |p: usize| (t * self.shape.channels() + head * self.shape.head_dim + p) as u32;
        [Some(at(p)), (p + self.pairs() < self.shape.head_dim).then(|| at(p + self.pairs()))]
    }

    /// Products of decays over a range that depends on the token; empty where it ends after the last token.
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
