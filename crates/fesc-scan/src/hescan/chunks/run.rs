//! Runs the schedule on a pair of chunks.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fesc_hybrid::backend::{Backend, Term};
use fesc_hybrid::{HybridError, Result};

use super::broadcast::{Decay, Mask};
use super::layout::Tensor;
use super::plan::{Need, Network, Step};
use super::{Chunks, Work, refuse};

/// An affine map: what is needed of it.
struct Map<C> {
    a: Option<Decay<C>>,
    s: Option<C>,
}

/// Contracted states of a block, and its last state if somebody needs it.
type Replayed<C> = (Vec<C>, Option<C>);

/// An input that was expanded, and which it is.
type Expanded<C> = Mutex<Option<(usize, Arc<C>)>>;

/// A kernel, a back end and a packet.
pub(super) struct Run<'a, B: Backend, F> {
    pub(super) kernel: &'a Chunks,
    pub(super) backend: &'a B,
    pub(super) input: &'a F,
    /// Broadcast B and C, by pattern and token; empty if they are not held.
    pub(super) held: [Vec<OnceLock<B::Ct>>; 2],
    /// The inputs of each tensor that were asked for last: one serves many tokens.
    last: [Expanded<B::Ct>; 4],
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A part of a map that the plan says is there.
pub(super) fn kept<T>(part: Option<&T>) -> Result<&T> {
    part.ok_or_else(|| refuse("parts of a map", 0, "the plan of levels dropped a value that a step needs"))
}

impl<'a, B: Backend, F: Fn(usize) -> Result<B::Ct> + Sync> Run<'a, B, F> {
    pub fn new(kernel: &'a Chunks, backend: &'a B, input: &'a F) -> Self {
        let count = if kernel.options.hold { kernel.layout.patterns.len() * kernel.layout.shape.tokens } else { 0 };
        let none = || (0..count).map(|_| OnceLock::new()).collect();
        Self { kernel, backend, input, held: [none(), none()], last: Default::default() }
    }

    /// The results of two chunks, or of the last one alone: outputs by groups of tokens, then the state that
    /// is handed on.
    pub fn pair(&self, chunks: &[usize]) -> Result<Vec<B::Ct>> {
        let (plan, options) = (&self.kernel.plan, &self.kernel.options);
        let mut carries = chunks.iter().map(|&c| self.carries(c)).collect::<Result<Vec<_>>>()?;
        let parts = match options.work {
            Work::Counted => chunks.len(),
            Work::Needed => 1,
        };
        let mut results: Vec<Vec<B::Ct>> = (0..parts).map(|_| Vec::new()).collect();
        let mut open: Vec<B::Sum> = Vec::new();
        let mut states: Vec<B::Ct> = Vec::new();
        let state = self.kernel.layout.state;
        let mut first = 0;
        for (j, &size) in plan.blocks.iter().enumerate() {
            let mut contracted = Vec::with_capacity(chunks.len());
            for (&chunk, carries) in chunks.iter().zip(&mut carries) {
                let at = (j + usize::from(options.carry_in)).checked_sub(1);
                let (values, last) = self.replay(chunk, j, first, at.and_then(|at| carries.get(at)))?;
                contracted.push(values);
                if j + 1 == plan.blocks.len() {
                    states.extend(last);
                } else if plan.stream.is_some() {
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
        let mut results: Vec<B::Ct> = results.into_iter().flatten().collect();
        if options.carry_out {
            let states = self.packed(&states.iter().collect::<Vec<_>>())?;
            results.push(self.backend.lower(&states, options.end)?);
        }
        // The next pair has another x, and mostly finds B and C.
        self.last.iter().for_each(|last| *lock(last) = None);
        Ok(results)
    }

    /// The state that enters, pass one and the scan over summaries: the carries of all blocks that have one,
    /// or with one pass those that are there before it.
    fn carries(&self, chunk: usize) -> Result<Vec<Map<B::Ct>>> {
        let plan = &self.kernel.plan;
        let mut summaries = Vec::with_capacity(plan.first.len() + 1);
        if let Some(level) = plan.enters {
            let state = (self.input)(self.kernel.layout.index(Tensor::State, chunk, 0))?;
            summaries.push(Map { a: None, s: Some(self.at(&state, level)?.into_owned()) });
        }
        let mut first = 0;
        for (network, size) in plan.first.iter().zip(&plan.blocks) {
            let mut maps = self.leaves(chunk, first, network, "build again")?;
            self.network(chunk, network, &mut maps)?;
            summaries.extend(maps.pop());
            first += size;
        }
        self.network(chunk, &plan.carries, &mut summaries)?;
        Ok(summaries)
    }

    /// Pass two on one block: its contracted states, and its last state where that is handed on.
    fn replay(&self, chunk: usize, j: usize, first: usize, carry: Option<&Map<B::Ct>>) -> Result<Replayed<B::Ct>> {
        let plan = &self.kernel.plan;
        let mut maps = self.leaves(chunk, first, &plan.replay[j], "build")?;
        self.network(chunk, &plan.replay[j], &mut maps)?;
        let handed = match j + 1 == plan.blocks.len() {
            true => self.kernel.options.carry_out,
            false => plan.stream.is_some(),
        };
        let mut done = self.backend.each(maps.len(), |t| {
            let last = t + 1 == maps.len();
            let level = plan.stream.as_ref().filter(|_| last).map(|levels| levels[j]);
            let need = Need { s: level.or(plan.inject.s), ..plan.inject };
            let with_carry = match carry {
                Some(carry) => Some(self.compose(chunk, need, carry, &maps[t])?),
                None => None,
            };
            let state = kept(with_carry.as_ref().unwrap_or(&maps[t]).s.as_ref())?;
            let factor = self.factor(Tensor::C, chunk, first + t, plan.contract)?;
            let low = self.at(state, plan.contract)?;
            let value = self.backend.combine(plan.contract, &[factor.times(&low)])?;
            Ok((value, (last && handed).then(|| state.clone())))
        })?;
        let last = done.last_mut().and_then(|(_, last)| last.take());
        Ok((done.into_iter().map(|(value, _)| value).collect(), last))
    }

    /// The maps of the tokens of a block.
    fn leaves(&self, chunk: usize, first: usize, network: &Network, part: &'static str) -> Result<Vec<Map<B::Ct>>> {
        let decays = self.decays(chunk, first, network)?;
        self.backend.each(network.leaves.len(), |t| {
            let need = network.leaves[t];
            let a = need.a.map(|l| self.decay(chunk, first + t, l, (first, &decays))).transpose()?;
            let s = need.s.map(|l| self.update(chunk, first + t, l, part)).transpose()?;
            Ok(Map { a, s })
        })
    }

    /// An input, which several tokens share: the last one of its tensor stays.
    pub(super) fn source(&self, tensor: Tensor, chunk: usize, token: usize) -> Result<Arc<B::Ct>> {
        let index = self.kernel.layout.index(tensor, chunk, token);
        let Some(last) = self.last.get(tensor as usize) else { return Ok(Arc::new((self.input)(index)?)) };
        let mut last = lock(last);
        match &*last {
            Some((at, c)) if *at == index => Ok(c.clone()),
            _ => {
                // The old one goes before the new one comes.
                *last = None;
                Ok(last.insert((index, Arc::new((self.input)(index)?))).1.clone())
            }
        }
    }

    /// A value at a level, not copied if it is there already.
    pub(super) fn at<'c>(&self, c: &'c B::Ct, level: usize) -> Result<Cow<'c, B::Ct>> {
        if self.backend.level(c) == level {
            return Ok(Cow::Borrowed(c));
        }
        Ok(Cow::Owned(self.backend.lower(c, level)?))
    }

    /// The map of `left` followed by `right`.
    fn compose(&self, chunk: usize, need: Need, left: &Map<B::Ct>, right: &Map<B::Ct>) -> Result<Map<B::Ct>> {
        self.backend.part("compose", || self.composed(chunk, need, left, right))
    }

    fn composed(&self, chunk: usize, need: Need, left: &Map<B::Ct>, right: &Map<B::Ct>) -> Result<Map<B::Ct>> {
        let backend = self.backend;
        let s = need.s.map(|l| {
            let (state, own) = (self.at(kept(left.s.as_ref())?, l + 1)?, Term::Addend(kept(right.s.as_ref())?));
            match kept(right.a.as_ref())? {
                Decay::Ct(decay) => {
                    let wide = self.wide_decay(self.at(decay, l + 1)?, chunk)?;
                    backend.combine(l + 1, &[Term::Product(&*wide, &*state), own])
                }
                Decay::Known(tokens) => {
                    let decay = self.known_decay(chunk, tokens, l + 1)?;
                    backend.combine(l + 1, &[Term::Plain(&*state, &decay), own])
                }
            }
        });
        let a = need.a.map(|l| match (kept(left.a.as_ref())?, kept(right.a.as_ref())?) {
            (Decay::Ct(first), Decay::Ct(second)) => {
                let (first, second) = (self.at(first, l + 1)?, self.at(second, l + 1)?);
                Ok(Decay::Ct(backend.combine(l + 1, &[Term::Product(&*first, &*second)])?))
            }
            (Decay::Known(first), Decay::Known(second)) => Ok(Decay::Known(first.start..second.end)),
            _ => Err(refuse("kinds of decays", 2, "all of a scan are encrypted, or none is")),
        });
        Ok(Map { a: a.transpose()?, s: s.transpose()? })
    }

    /// Runs a network on maps, in place.
    fn network(&self, chunk: usize, network: &Network, maps: &mut [Map<B::Ct>]) -> Result<()> {
        for stage in &network.stages {
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

    /// One or two chunks in the two parts of a ciphertext.
    fn packed(&self, parts: &[&B::Ct]) -> Result<B::Ct> {
        match parts {
            [one, two] => self.backend.add(one, &self.backend.times_i(two)?),
            [one] => Ok(B::Ct::clone(one)),
            _ => Err(refuse("chunks of a pair", parts.len(), "1 or 2 are possible")),
        }
    }

    /// One tree of rotations for the contracted states of one or two chunks, to a place of each channel.
    fn reduce(&self, parts: &[&B::Ct], place: usize) -> Result<Vec<B::Ct>> {
        let (backend, state) = (self.backend, self.kernel.layout.state);
        let packed = match parts {
            // Twice the real parts of both. Of one alone, the imaginary part is nobody's output.
            [one, two] if self.kernel.layout.factors.complex() => {
                let second = backend.times_i(two)?;
                backend.add(&backend.add(one, &second)?, &backend.conjugate(&backend.sub(one, &second)?)?)?
            }
            parts => self.packed(parts)?,
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
        // A conjugation makes twice the value: one for real parts, one that separates them.
        let half = |doubled: bool| if doubled && chunks == 2 { 0.5 } else { 1.0 };
        let weight = half(self.kernel.options.work == Work::Counted) * half(self.kernel.layout.factors.complex());
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
