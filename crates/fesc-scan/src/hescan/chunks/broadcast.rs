//! What a token brings: its decay, its update and its factors, from the sources over the slots of a chunk.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use fesc_hybrid::Result;
use fesc_hybrid::backend::{Backend, Operand};
use num_complex::Complex64;

use super::layout::Tensor;
use super::plan::Network;
use super::run::{Run, kept};
use super::{Per, Work};

/// A decay: encrypted, or the known one of these tokens.
pub(super) enum Decay<C> {
    Ct(C),
    Known(Range<usize>),
}

/// Places `at` of each `period` slots, in runs of `width` slots.
#[derive(Clone, Copy)]
pub(super) struct Mask {
    pub period: usize,
    pub width: usize,
    pub at: usize,
}

impl<B: Backend, F: Fn(usize) -> Result<B::Ct> + Sync> Run<'_, B, F> {
    /// Decays of the groups of tokens that a block has a part in, over the channels of their heads, each
    /// token still at a place of its own: the tokens of a group share these rotations. None where decays stay
    /// compact.
    pub(super) fn decays(&self, chunk: usize, first: usize, network: &Network) -> Result<Vec<B::Ct>> {
        let (layout, plan) = (&self.kernel.layout, &self.kernel.plan);
        let (state, run) = (layout.state, layout.head_run);
        let compact = self.kernel.options.work == Work::Counted || !layout.compact_decays();
        let one = |group: usize| {
            self.backend.part("broadcast", || {
                let mask = Mask { period: state * run, width: state, at: chunk % run };
                let source = self.masked(&*self.source(Tensor::A, chunk, group * state)?, mask, plan.top - 1)?;
                self.backend.rescale(&self.spread_decay(source, chunk)?)
            })
        };
        self.kernel.decay_groups(first, network).filter(|_| !compact).map(one).collect()
    }

    /// `a_k` at `level`: at one channel of each head (compact), or at all. `groups` are [`Self::decays`] of
    /// the block that begins at token `first`.
    pub(super) fn decay(
        &self,
        chunk: usize,
        token: usize,
        level: usize,
        (first, groups): (usize, &[B::Ct]),
    ) -> Result<Decay<B::Ct>> {
        let layout = &self.kernel.layout;
        if !layout.factors.a.encrypted() {
            return Ok(Decay::Known(token..token + 1));
        }
        if layout.factors.per == Per::State {
            return Ok(Decay::Ct(self.backend.lower(&*self.source(Tensor::A, chunk, token)?, level)?));
        }
        let (state, run) = (layout.state, layout.head_run);
        let wide = self.backend.part("broadcast", || {
            let source = match self.kernel.options.work {
                Work::Counted => {
                    let at = chunk % run * state + token % state;
                    let mask = Mask { period: state * run, width: 1, at };
                    self.masked(&*self.source(Tensor::A, chunk, token)?, mask, level)?
                }
                Work::Needed => {
                    let group = kept(groups.get(token / state - first / state))?;
                    self.masked(group, Mask { period: state, width: 1, at: token % state }, level)?
                }
            };
            // Decays of two tokens meet in products: they must lie in the same slots.
            self.backend.rescale(&self.spread(source, 1, state, token % state)?)
        })?;
        Ok(Decay::Ct(wide))
    }

    /// The known decay of some tokens, for a product at `level`.
    pub(super) fn known_decay(&self, chunk: usize, tokens: &Range<usize>, level: usize) -> Result<B::Pt> {
        let (layout, size) = (&self.kernel.layout, self.kernel.layout.factors.decays(&self.kernel.layout.shape));
        let value = |slot: usize| {
            let (e, i) = layout.at(chunk, slot)?;
            let n = layout.factors.decay(&layout.shape, e, i);
            Some(layout.factors.a.known_product(tokens.clone(), size, n))
        };
        self.backend.encode_by(layout.slots, |slot| value(slot).unwrap_or_default(), level)
    }

    /// The known B or C of a token, for a product at `level`.
    fn known_factor(&self, which: Tensor, chunk: usize, token: usize, level: usize) -> Result<B::Pt> {
        let (layout, shape) = (&self.kernel.layout, &self.kernel.layout.shape);
        let factor = if which == Tensor::B { &layout.factors.b } else { &layout.factors.c };
        let value = |slot: usize| {
            let (e, i) = layout.at(chunk, slot)?;
            let n = shape.group(e / shape.head_dim) * shape.state + i;
            Some(factor.known(token, shape.groups * shape.state, n))
        };
        // Of one group: the same for all channels, where there are none too.
        let period = if shape.groups == 1 { layout.state } else { layout.slots };
        self.backend.encode_by(period, |slot| value(slot).unwrap_or_default(), level)
    }

    /// A decay over the channels of its head.
    fn spread_decay(&self, compact: B::Ct, chunk: usize) -> Result<B::Ct> {
        let layout = &self.kernel.layout;
        self.spread(compact, layout.state, layout.head_run, chunk % layout.head_run)
    }

    /// `s_k = br(x_k) br(B_k)` at `level`.
    pub(super) fn update(&self, chunk: usize, token: usize, level: usize, part: &'static str) -> Result<B::Ct> {
        let layout = &self.kernel.layout;
        let (state, place) = (layout.state, token % layout.state);
        let x = self.backend.part("broadcast", || {
            let mask = Mask { period: state, width: 1, at: place };
            let x = self.masked(&*self.source(Tensor::X, chunk, token)?, mask, level + 1)?;
            self.backend.rescale(&self.spread(x, 1, state, place)?)
        })?;
        let factor = self.factor(Tensor::B, chunk, token, level + 1)?;
        self.backend.part(part, || self.backend.combine(level + 1, &[factor.times(&x)]))
    }

    /// B or C of a token over all channels of a chunk, at `level`.
    pub(super) fn factor(&self, which: Tensor, chunk: usize, token: usize, level: usize) -> Result<Operand<B>> {
        let layout = &self.kernel.layout;
        let (held, factor) = match which {
            Tensor::B => (&self.held[0], &layout.factors.b),
            _ => (&self.held[1], &layout.factors.c),
        };
        if !factor.encrypted() {
            return Ok(Operand::Pt(self.known_factor(which, chunk, token, level)?));
        }
        let held = held.get(layout.pattern_of[chunk] * layout.shape.tokens + token);
        if let Some(c) = held.and_then(OnceLock::get) {
            return Ok(Operand::Ct(self.backend.lower(c, level)?));
        }
        let highest = if which == Tensor::B && held.is_some() {
            self.kernel.plan.leaf(token).s.map_or(level, |build| build + 1)
        } else {
            level
        };
        let wide = self.backend.part("broadcast", || {
            let (state, run) = (layout.state, layout.group_run);
            let place = token % run;
            let mask = Mask { period: run * state, width: state, at: place };
            let compact = self.masked(&*self.source(which, chunk, token)?, mask, highest)?;
            self.backend.rescale(&self.spread(compact, state, run, place)?)
        })?;
        let Some(held) = held else { return Ok(Operand::Ct(wide)) };
        let lower = self.backend.lower(&wide, level)?;
        // Another thread may have set the same value.
        drop(held.set(wide));
        Ok(Operand::Ct(lower))
    }

    /// An input times a mask, to be spread and then rescaled to `level`: errors of the empty places would add
    /// up while it is spread.
    fn masked(&self, source: &B::Ct, mask: Mask, level: usize) -> Result<B::Ct> {
        let mask = self.encode(mask, 1.0, level + 1)?;
        self.backend.multiply_plain(&*self.at(source, level + 1)?, &mask)
    }

    /// A mask with this value where it is not zero.
    pub(super) fn encode(&self, mask: Mask, value: f64, level: usize) -> Result<B::Pt> {
        let Mask { period, width, at } = mask;
        let place = |i: usize| Complex64::new(if i / width == at { value } else { 0.0 }, 0.0);
        self.backend.encode_by(period, place, level)
    }

    /// Copies what lies at place `from` of each run of `count` places, `stride` slots apart, to all of them.
    /// The other places are zero.
    fn spread(&self, c: B::Ct, stride: usize, count: usize, from: usize) -> Result<B::Ct> {
        // A run of all slots is cyclic: one direction will do, and fewer keys.
        let from = if stride * count == self.backend.slots() { usize::MAX } else { from };
        self.axis(c, stride, count, |bit| from >> bit & 1 == 1)
    }

    /// Adds rotations by powers of two, to the left where `left` says so.
    pub(super) fn axis(&self, c: B::Ct, stride: usize, count: usize, left: impl Fn(u32) -> bool) -> Result<B::Ct> {
        let step = |bit| if left(bit) { (stride << bit) as i64 } else { -((stride << bit) as i64) };
        self.backend.fold_by(c, &(0..count.ilog2()).map(step).collect::<Vec<_>>())
    }

    /// An encrypted decay at all channels.
    pub(super) fn wide_decay<'c>(&self, decay: Cow<'c, B::Ct>, chunk: usize) -> Result<Cow<'c, B::Ct>> {
        if self.kernel.options.work == Work::Needed || self.kernel.layout.factors.per == Per::State {
            return Ok(decay);
        }
        Ok(Cow::Owned(self.backend.part("broadcast", || self.spread_decay(decay.into_owned(), chunk))?))
    }
}
