//! Which token and feature lies in which slot.

use crate::{HybridError, Result};

/// What the real and the imaginary part of a slot hold; nothing is zero in an input and garbage in a result.
pub type Lane = [Option<u32>; 2];

/// What the two parts of a slot are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Two tokens. Weights are real, so both parts of a result are outputs: half as many results and
    /// conversions as with pairs of features, for as many products.
    Tokens,
    /// Two blocks of features of one token, `x^(2u) + i x^(2u+1)`, as in the paper. A diagonal is
    /// `W1 - i W2`, which makes the real part `x^(2u) W1 + x^(2u+1) W2`. The imaginary part of a result,
    /// `x^(2u+1) W1 - x^(2u) W2`, is garbage: the conversion to shares drops it, so that no conjugation is
    /// needed, but it must be masked like the rest.
    Features,
}

/// Tokens in the slots of ciphertexts.
///
/// A *group* is what one ciphertext of each block of features holds: `slots / segment` rows, with one token
/// in each or two. With [`Pairing::Tokens`], real parts hold the first tokens of all groups in order, and
/// imaginary parts go on from there: the row before the first of a group is the last of the group before it,
/// for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Slots of a ciphertext.
    pub slots: usize,
    /// `F`, features of a row: a power of two.
    pub segment: usize,
    /// Tokens in all.
    pub tokens: usize,
    /// What the parts of a slot are.
    pub pairing: Pairing,
    /// The level of results.
    pub floor: usize,
}

impl Layout {
    /// With the fewest groups of tokens at segments of at least `least` features. Fewer features to a segment
    /// mean fewer rotations in all but more ciphertexts at a time, so `least` bounds the memory.
    pub fn fitting(slots: usize, tokens: usize, pairing: Pairing, least: usize, floor: usize) -> Self {
        let rows = match pairing {
            Pairing::Tokens => tokens.div_ceil(2),
            Pairing::Features => tokens,
        };
        let rows = rows.max(1).next_power_of_two().min(slots);
        let segment = (slots / rows).max(least.next_power_of_two()).min(slots);
        Self { slots, segment, tokens, pairing, floor }
    }

    /// Refuses sizes that cannot be.
    pub(super) fn check(&self, rows: usize, columns: usize) -> Result<()> {
        let refuse = |what, got, need: String| Err(HybridError::Shape { what, got, need });
        if !self.slots.is_power_of_two() {
            return refuse("slots", self.slots, "it must be a power of two".into());
        }
        if !self.segment.is_power_of_two() || self.segment > self.slots {
            let need = format!("it must be a power of two up to the number of slots, {}", self.slots);
            return refuse("features of a segment", self.segment, need);
        }
        for (what, got) in [("tokens", self.tokens), ("rows of weights", rows), ("columns of weights", columns)] {
            if got == 0 {
                return refuse(what, got, "there must be at least one".into());
            }
        }
        let widest = rows.max(columns);
        if self.tokens.checked_mul(widest).is_none_or(|n| u32::try_from(n).is_err()) {
            let need = format!("{} tokens of {widest} features must be numbered by 32 bits: give fewer", self.tokens);
            return refuse("tokens", self.tokens, need);
        }
        Ok(())
    }

    /// Rows of a ciphertext.
    pub fn rows(&self) -> usize {
        self.slots / self.segment
    }

    /// Groups of tokens.
    pub fn groups(&self) -> usize {
        match self.pairing {
            Pairing::Tokens => self.tokens.div_ceil(2 * self.rows()),
            Pairing::Features => self.tokens.div_ceil(self.rows()),
        }
    }

    /// The token in a row of a group; part 1 is the second token of a pair.
    pub fn token(&self, group: usize, row: usize, part: usize) -> Option<usize> {
        let token = (part * self.groups() + group) * self.rows() + row;
        (token < self.tokens).then_some(token)
    }

    /// Whether an imaginary part holds a token.
    pub(super) fn second_tokens(&self) -> bool {
        self.pairing == Pairing::Tokens && self.token(0, 0, 1).is_some()
    }

    /// Blocks of a segment that hold `width` features.
    pub(super) fn blocks(&self, width: usize) -> usize {
        width.div_ceil(self.segment)
    }

    /// Features of block `b` of `width`.
    pub(super) fn width_of(&self, b: usize, width: usize) -> usize {
        width.saturating_sub(b * self.segment).min(self.segment)
    }

    /// Ciphertexts of a group of inputs with `width` features.
    pub(super) fn inputs(&self, width: usize) -> usize {
        match self.pairing {
            Pairing::Tokens => self.blocks(width),
            Pairing::Features => self.blocks(width).div_ceil(2),
        }
    }

    /// Ciphertexts of inputs with `width` features, all groups together.
    pub(super) fn all_inputs(&self, width: usize) -> usize {
        self.groups() * self.inputs(width)
    }

    /// Where the values of the `i`-th of them lie.
    pub(super) fn input_lanes(&self, i: usize, width: usize) -> Vec<Lane> {
        let inputs = self.inputs(width);
        self.input(i / inputs, i % inputs, width)
    }

    /// Where the values `token width + feature` of input `u` of a group lie.
    fn input(&self, group: usize, u: usize, width: usize) -> Vec<Lane> {
        self.lanes(width, |row, part| match self.pairing {
            Pairing::Tokens => (self.token(group, row, part), u),
            Pairing::Features => (self.token(group, row, 0), 2 * u + part),
        })
    }

    /// Where the values `token width + column` of result `b` of a group lie.
    pub(super) fn output(&self, group: usize, b: usize, width: usize) -> Vec<Lane> {
        self.lanes(width, |row, part| match (self.pairing, part) {
            (Pairing::Features, 1) => (None, b),
            _ => (self.token(group, row, part), b),
        })
    }

    /// `place(row, part)` says which token and which block of features.
    fn lanes(&self, width: usize, place: impl Fn(usize, usize) -> (Option<usize>, usize)) -> Vec<Lane> {
        let lane = |slot: usize, part: usize| {
            let (token, block) = place(slot / self.segment, part);
            let feature = block * self.segment + slot % self.segment;
            token.filter(|_| feature < width).map(|token| (token * width + feature) as u32)
        };
        (0..self.slots).map(|slot| [lane(slot, 0), lane(slot, 1)]).collect()
    }
}
