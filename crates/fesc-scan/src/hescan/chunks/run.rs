//! Runs the schedule on a pair of chunks.

use std::borrow::Cow;
use std::sync::OnceLock;

use fesc_hybrid::backend::{Backend, Term};
use fesc_hybrid::{HybridError, Result};
use num_complex::Complex64;

use super::plan::{Need, Network, Step};
use super::{Chunks, RefreshCarry, Work, refuse};

/// An affine map: what is needed of it.
struct Map<C> {
    a: Option<C>,
    s: Option<C>,
}

/// Contracted states of a block, and its last state if that is a carry.
type Replayed<C> = (Vec<C>, Option<C>);

/// A kernel, a back end and a packet.
pub(super) struct Run<'a, B: Backend, F> {
    kernel: &'a Chunks,
    backend: &'a B,
    input: &'a F,
    /// Broadcast B and C, by pattern and token; empty if they are not held.
    held: [Vec<OnceLock<B::Ct>>; 2],
}

/// B or C.
#[derive(Clone, Copy)]
enum Factor {
    B,
    C,
}

/// A part of a map that the plan says is there.
fn kept<C>(part: Option<&C>) -> Result<&C> {
    part.ok_or_else(|| refuse("parts of a map", 0, "the plan of levels dropped a value that a step needs"))
}

/// Places `at` of each `period` slots, in runs of `width` slots.
#[derive(Clone, Copy)]
struct Mask {
    period: usize,
    width: usize,
    at: usize,
}

impl<'a, B: Backend, F: Fn(usize) -> Result<B::Ct> + Sync> Run<'a, B, F> {
    pub fn new(kernel: &'a Chunks, backend: &'a B, input: &'a F) -> Self {
        let count = if kernel.options.hold { kernel.layout.patterns.len() * kernel.layout.shape.tokens } else { 0 };
        let none = || (0..count).map(|_| OnceLock::new()).collect();
        Self { kernel, backend, input, held: [none(), none()] }
    }

    /// The results of two chunks, or of the last one alone.
    pub fn pair(&self, chunks: &[usize], refresh: Option<RefreshCarry<'_, B::Ct>>) -> Result<Vec<B::Ct>> {
        let plan = &self.kernel.plan;
        let mut carries = chunks.iter().map(|&c| self.carries(c, refresh)).collect::<Result<Vec<_>>>()?;
        let parts = match self.kernel.options.work {
            Work::Counted => chunks.len(),
            Work::Needed => 1,
        };
        let mut results: Vec<Vec<B::Ct>> = (0..parts).map(|_| Vec::new()).collect();
        let mut open: Vec<B::Sum> = Vec::new();
        let state = self.kernel.layout.state;
        let mut first = 0;
        for (j, &size) in plan.blocks.iter().enumerate() {
            let mut contracted = Vec::with_capacity(chunks.len());
            for (&chunk, carries) in chunks.iter().zip(&mut carries) {
                if plan.stream.as_ref().is_some_and(|s| s.refreshes[j].is_some()) {
                    carries.last_mut().map_or(Ok(()), |carry| self.refresh(carry, refresh))?;
                }
                let carry = j.checked_sub(1).and_then(|at| carries.get(at));
                let (values, last) = self.replay(chunk, j, first, carry)?;
                contracted.push(values);
                if plan.stream.is_some() {
                    // Only the last carry is needed.
                    carries.last_mut().into_iter().for_each(|old| *old = Map { a: None, s: None });
                    carries.push(Map { a: None, s: last });
                }
            }
            let reduced = self.backend.each(size, |t| {
                let parts: Vec<&B::Ct> = contracted.iter().map(|v| &v[t]).collect();
                self.reduce(&parts, (first + t) % state)
            })?;
            for (t, values) in reduced.iter().enumerate() {
                self.collect(values, first + t, chunks.len(), &mut open, &mut results)?;
            }
            first += size;
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// Pass one and the scan over summaries: the carry of block `j` at `j - 1`.
    fn carries(&self, chunk: usize, refresh: Option<RefreshCarry<'_, B::Ct>>) -> Result<Vec<Map<B::Ct>>> {
        let plan = &self.kernel.plan;
        let mut summaries = Vec::with_capacity(plan.first.len());
        let mut first = 0;
        for (network, size) in plan.first.iter().zip(&plan.blocks) {
            let mut maps = self.leaves(chunk, first, network, "build again")?;
            self.network(chunk, network, &mut maps, None)?;
            summaries.extend(maps.pop());
            first += size;
        }
        self.network(chunk, &plan.carries, &mut summaries, refresh)?;
        Ok(summaries)
    }

    /// Pass two on one block: its contracted states, and its last state where that is a carry.
    fn replay(&self, chunk: usize, j: usize, first: usize, carry: Option<&Map<B::Ct>>) -> Result<Replayed<B::Ct>> {
        let plan = &self.kernel.plan;
        let mut maps = self.leaves(chunk, first, &plan.replay[j], "build")?;
        self.network(chunk, &plan.replay[j], &mut maps, None)?;
        let streamed = plan.stream.as_ref().map(|s| s.last[j]);
        let mut done = self.backend.each(maps.len(), |t| {
            let last = streamed.filter(|_| t + 1 == maps.len());
            let need = Need { s: last.or(plan.inject.s), ..plan.inject };
            let with_carry = match carry {
                Some(carry) => Some(self.compose(chunk, need, carry, &maps[t])?),
                None => None,
            };
            let state = kept(with_carry.as_ref().unwrap_or(&maps[t]).s.as_ref())?;
            let factor = self.factor(Factor::C, chunk, first + t, plan.contract)?;
            let product = Term::Product(&*self.at(state, plan.contract)?, &factor);
            Ok((self.backend.combine(plan.contract, &[product])?, last.map(|_| state.clone())))
        })?;
        let last = done.last_mut().and_then(|(_, last)| last.take());
        Ok((done.into_iter().map(|(value, _)| value).collect(), last))
    }

    /// The maps of the tokens of a block.
    fn leaves(&self, chunk: usize, first: usize, network: &Network, part: &'static str) -> Result<Vec<Map<B::Ct>>> {
        self.backend.each(network.leaves.len(), |t| {
            let need = network.leaves[t];
            let a = need.a.map(|l| self.decay(chunk, first + t, l)).transpose()?;
            let s = need.s.map(|l| self.update(chunk, first + t, l, part)).transpose()?;
            Ok(Map { a, s })
        })
    }

    /// `a_k` at `level`: at one channel of each head (compact), or at all.
    fn decay(&self, chunk: usize, token: usize, level: usize) -> Result<B::Ct> {
        let layout = &self.kernel.layout;
        let (state, run) = (layout.state, layout.head_run);
        self.backend.part("broadcast", || {
            let at = chunk % run * state + token % state;
            let source = self.masked(layout.a(chunk, token), Mask { period: state * run, width: 1, at }, level)?;
            // Decays of two tokens meet in products: they must lie in the same slots.
            let compact = self.spread(source, 1, state, token % state)?;
            self.backend.rescale(&match self.kernel.options.work {
                Work::Counted => compact,
                Work::Needed => self.spread_decay(compact, chunk)?,
            })
        })
    }

    /// A decay over the channels of its head.
    fn spread_decay(&self, compact: B::Ct, chunk: usize) -> Result<B::Ct> {
        let layout = &self.kernel.layout;
        self.spread(compact, layout.state, layout.head_run, chunk % layout.head_run)
    }

    /// `s_k = br(x_k) br(B_k)` at `level`.
    fn update(&self, chunk: usize, token: usize, level: usize, part: &'static str) -> Result<B::Ct> {
        let layout = &self.kernel.layout;
        let (state, place) = (layout.state, token % layout.state);
        let x = self.backend.part("broadcast", || {
            let x = self.masked(layout.x(chunk, token), Mask { period: state, width: 1, at: place }, level + 1)?;
            self.backend.rescale(&self.spread(x, 1, state, place)?)
        })?;
        let factor = self.factor(Factor::B, chunk, token, level + 1)?;
        self.backend.part(part, || self.backend.combine(level + 1, &[Term::Product(&x, &factor)]))
    }

    /// B or C of a token over all channels of a chunk, at `level`.
    fn factor(&self, which: Factor, chunk: usize, token: usize, level: usize) -> Result<B::Ct> {
        let layout = &self.kernel.layout;
        let held = self.held[which as usize].get(layout.pattern_of[chunk] * layout.shape.tokens + token);
        if let Some(c) = held.and_then(OnceLock::get) {
            return self.backend.lower(c, level);
        }
        let highest = match which {
            Factor::B if held.is_some() => self.kernel.plan.build_level(token),
            Factor::B | Factor::C => level,
        };
        let wide = self.backend.part("broadcast", || {
            let (state, run) = (layout.state, layout.group_run);
            let index = match which {
                Factor::B => layout.b(chunk, token),
                Factor::C => layout.c(chunk, token),
            };
            let place = token % run;
            let mask = Mask { period: run * state, width: state, at: place };
            let compact = self.masked(index, mask, highest)?;
            self.backend.rescale(&self.spread(compact, state, run, place)?)
        })?;
        let Some(held) = held else { return Ok(wide) };
        let lower = self.backend.lower(&wide, level);
        // Another thread may have set the same value.
        drop(held.set(wide));
        lower
    }

    /// An input times a mask, to be spread and then rescaled to `level`: errors of the empty places would add
    /// up while it is spread.
    fn masked(&self, index: usize, mask: Mask, level: usize) -> Result<B::Ct> {
        let source = (self.input)(index)?;
        let mask = self.encode(mask, 1.0, level + 1)?;
        self.backend.multiply_plain(&*self.at(&source, level + 1)?, &mask)
    }

    /// A mask with this value where it is not zero.
    fn encode(&self, mask: Mask, value: f64, level: usize) -> Result<B::Pt> {
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
    fn axis(&self, c: B::Ct, stride: usize, count: usize, left: impl Fn(u32) -> bool) -> Result<B::Ct> {
        let step = |bit| if left(bit) { (stride << bit) as i64 } else { -((stride << bit) as i64) };
        self.backend.fold_by(c, &(0..count.ilog2()).map(step).collect::<Vec<_>>())
    }

    /// A value at a level, not copied if it is there already.
    fn at<'c>(&self, c: &'c B::Ct, level: usize) -> Result<Cow<'c, B::Ct>> {
        if self.backend.level(c) == level {
            return Ok(Cow::Borrowed(c));
        }
        Ok(Cow::Owned(self.backend.lower(c, level)?))
    }

    /// The map of `left` followed by `right`.
    fn compose(&self, chunk: usize, need: Need, left: &Map<B::Ct>, right: &Map<B::Ct>) -> Result<Map<B::Ct>> {
        let backend = self.backend;
        let s = need.s.map(|l| {
            let decay = self.at(kept(right.a.as_ref())?, l + 1)?;
            let wide = match self.kernel.options.work {
                Work::Needed => decay,
                Work::Counted => {
                    Cow::Owned(backend.part("broadcast", || self.spread_decay(decay.into_owned(), chunk))?)
                }
            };
            let state = self.at(kept(left.s.as_ref())?, l + 1)?;
            backend.combine(l + 1, &[Term::Product(&*wide, &*state), Term::Addend(kept(right.s.as_ref())?)])
        });
        let a = need.a.map(|l| {
            let (first, second) = (self.at(kept(left.a.as_ref())?, l + 1)?, self.at(kept(right.a.as_ref())?, l + 1)?);
            backend.combine(l + 1, &[Term::Product(&*first, &*second)])
        });
        Ok(Map { a: a.transpose()?, s: s.transpose()? })
    }

    /// Runs a network on maps, in place.
    fn network(
        &self,
        chunk: usize,
        network: &Network,
        maps: &mut [Map<B::Ct>],
        refresh: Option<RefreshCarry<'_, B::Ct>>,
    ) -> Result<()> {
        let mut refreshes = network.refreshes.iter().peekable();
        for i in 0..=network.stages.len() {
            while let Some(due) = refreshes.next_if(|r| r.before == i) {
                self.refresh(&mut maps[due.position], refresh)?;
            }
            let Some(stage) = network.stages.get(i) else { break };
            let new = self.backend.each(stage.len(), |n| {
                let Step { node, need } = stage[n];
                self.compose(chunk, need, &maps[node.left], &maps[node.right])
            })?;
            for (step, map) in stage.iter().zip(new) {
                maps[step.node.right] = map;
            }
        }
        Ok(())
    }

    /// A carry at a high level again.
    fn refresh(&self, map: &mut Map<B::Ct>, refresh: Option<RefreshCarry<'_, B::Ct>>) -> Result<()> {
        let Some(refresh) = refresh else { return Ok(()) };
        let parts: Vec<B::Ct> = [map.s.take(), map.a.take()].into_iter().flatten().collect();
        let mut fresh = refresh(parts)?.into_iter();
        (map.s, map.a) = (fresh.next(), fresh.next());
        Ok(())
    }

    /// One tree of rotations for the contracted states of one or two chunks, to a place of each channel.
    fn reduce(&self, parts: &[&B::Ct], place: usize) -> Result<Vec<B::Ct>> {
        let (backend, state) = (self.backend, self.kernel.layout.state);
        let packed = match parts {
            [one, two] => backend.add(one, &backend.times_i(two)?)?,
            [one] => B::Ct::clone(one),
            _ => return Err(refuse("chunks of a pair", parts.len(), "1 or 2 are possible")),
        };
        let sum = self.axis(packed, 1, state, |bit| place >> bit & 1 == 0)?;
        if self.kernel.options.work == Work::Needed || parts.len() == 1 {
            return Ok(vec![sum]);
        }
        let conjugate = backend.conjugate(&sum)?;
        Ok(vec![backend.add(&sum, &conjugate)?, backend.times_i(&backend.sub(&conjugate, &sum)?)?])
    }

    /// Adds a token to the results of its group of tokens, which are finished with its last token.
    fn collect(
        &self,
        values: &[B::Ct],
        token: usize,
        chunks: usize,
        open: &mut Vec<B::Sum>,
        results: &mut [Vec<B::Ct>],
    ) -> Result<()> {
        let (backend, state) = (self.backend, self.kernel.layout.state);
        let level = self.kernel.options.end + 1;
        if open.is_empty() {
            *open = values.iter().map(|_| backend.empty_sum(level)).collect::<Result<_, HybridError>>()?;
        }
        // Parts that a conjugation separated are twice the value.
        let weight = if self.kernel.options.work == Work::Counted && chunks == 2 { 0.5 } else { 1.0 };
        let mask = self.encode(Mask { period: state, width: 1, at: token % state }, weight, level)?;
        for (sum, value) in open.iter_mut().zip(values) {
            backend.extend(sum, &[Term::Plain(value, &mask)])?;
        }
        if (token + 1).is_multiple_of(state) || token + 1 == self.kernel.layout.shape.tokens {
            for (sum, done) in open.drain(..).zip(results) {
                done.push(backend.finish(sum)?);
            }
        }
        Ok(())
    }
}
