//! The circuit.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fesc_hybrid::Result;
use fesc_hybrid::backend::{Backend, Term};

use super::decays::{Decays, weighted};
use super::{Input, Lanes};

type Load<'a, B> = dyn Fn(Input) -> Result<<B as Backend>::Ct> + Sync + 'a;

/// Sums over all chunks that wait for their relinearisation.
type Sums<B> = Vec<Mutex<<B as Backend>::Sum>>;

/// All blocks of channels. With `apart` inputs cost nothing, so that chunks are alike, and so are blocks of
/// channels whose scores are known.
pub(super) fn run<B: Backend>(
    kernel: &Lanes,
    backend: &B,
    input: &(impl Fn(usize) -> Result<B::Ct> + Sync),
    apart: bool,
) -> Result<Vec<B::Ct>> {
    let load = |which: Input| input(kernel.number(which));
    let pattern_of = &kernel.layout.pattern_of;
    let mut scores: Vec<Option<Vec<B::Ct>>> = kernel.layout.patterns.iter().map(|_| None).collect();
    let mut results = Vec::with_capacity(kernel.layout.channel_blocks * kernel.layout.tokens);
    let groups: Vec<Range<usize>> = kernel.layout.groups_of_blocks().into_iter().collect();
    let mut at = 0;
    while let Some(first) = groups.get(at) {
        let pattern = pattern_of[first.start];
        let same = |g: &&Range<usize>| pattern_of[g.start] == pattern && g.len() == first.len();
        let known = apart && scores[pattern].is_some();
        let count = if known { groups[at..].iter().take_while(same).count() } else { 1 };
        let one = |i: usize| blocks(kernel, backend, &load, &groups[at + i], (scores[pattern].as_deref(), apart));
        for (outputs, made) in backend.alike(count, one)? {
            results.extend(outputs);
            scores[pattern] = made.or(scores[pattern].take());
        }
        at += count;
        // The last block of channels with these groups was the last user of their scores.
        if !pattern_of[groups[at - 1].end..].contains(&pattern) {
            scores[pattern] = None;
        }
    }
    Ok(results)
}

/// Outputs, and scores if none were given.
type Made<B> = (Vec<<B as Backend>::Ct>, Option<Vec<<B as Backend>::Ct>>);

/// Blocks of channels with the same groups.
fn blocks<B: Backend>(
    kernel: &Lanes,
    backend: &B,
    load: &Load<'_, B>,
    group: &Range<usize>,
    (scores, apart): (Option<&[B::Ct]>, bool),
) -> Result<Made<B>> {
    let works = group.clone().map(|block| Block::new(kernel, backend, block, load)).collect::<Result<Vec<_>>>()?;
    let (fresh, made) = columns(&works, kernel.layout.pattern_of[group.start], load, (scores.is_none(), apart))?;
    let scores = made.as_deref().or(scores).unwrap_or_default();
    let mut results = Vec::new();
    for (work, Contracted { prefixed, carried }) in works.into_iter().zip(fresh) {
        results.extend(work.outputs(&prefixed, &carried, scores)?);
    }
    Ok((results, made))
}

/// What all columns of a block of channels share.
struct Block<'a, B: Backend> {
    kernel: &'a Lanes,
    backend: &'a B,
    decays: Decays<'a, B>,
    /// x by place, at the level of the contraction.
    x: Vec<B::Ct>,
    /// x times the decays of the rest of its leaf, by place.
    y: Vec<B::Ct>,
    /// Decays of the stages of Kogge-Stone over blocks.
    strides: Vec<B::Ct>,
}

/// What the columns gave, by place.
struct Contracted<B: Backend> {
    /// `sum C P` of the leaves after the first.
    prefixed: Vec<Option<B::Ct>>,
    /// `sum C G`.
    carried: Vec<Option<B::Ct>>,
}

/// What blocks of channels got of their columns, and the scores, if they were asked for.
type Columns<B> = (Vec<Contracted<B>>, Option<Vec<<B as Backend>::Ct>>);

/// The sums of one block of channels: `sum C P` and `sum C G`.
struct Waiting<B: Backend> {
    prefixed: Sums<B>,
    carried: Sums<B>,
}

fn empty_sums<B: Backend>(backend: &B, level: usize, count: usize) -> Result<Sums<B>> {
    (0..count).map(|_| Ok(Mutex::new(backend.empty_sum(level)?))).collect()
}

/// All of them, relinearised.
fn finish<B: Backend>(backend: &B, sums: Sums<B>) -> Result<Vec<B::Ct>> {
    let sums: Vec<Mutex<Option<B::Sum>>> =
        sums.into_iter().map(|s| Mutex::new(Some(s.into_inner().unwrap_or_else(PoisonError::into_inner)))).collect();
    let done = backend.each(sums.len(), |i| lock(&sums[i]).take().map(|s| backend.finish(s)).transpose())?;
    Ok(done.into_iter().flatten().collect())
}

/// All columns of blocks of channels with the same groups: what each contributes to the outputs, and the
/// scores `sum C B` of pairs in a leaf, if they are asked for. B and C of a chunk are loaded once for all.
fn columns<B: Backend>(
    works: &[Block<'_, B>],
    pattern: usize,
    load: &Load<'_, B>,
    (with_scores, apart): (bool, bool),
) -> Result<Columns<B>> {
    let Some(Block { kernel, backend, .. }) = works.first() else { return Ok((Vec::new(), None)) };
    let (w, t, low) = (kernel.layout.params.leaf, kernel.layout.tokens, kernel.levels.low);
    let many = kernel.layout.params.blocks > 1;
    let pairs = w * (w + 1) / 2;
    let scores = empty_sums(*backend, low, if with_scores { kernel.leaves() * pairs } else { 0 })?;
    let waiting = || {
        let carried = empty_sums(*backend, low, if many { t } else { 0 })?;
        Ok(Waiting { prefixed: empty_sums(*backend, low, t - w)?, carried })
    };
    let sums = works.iter().map(|_| waiting()).collect::<Result<Vec<Waiting<B>>>>()?;
    let one = |chunk: usize| {
        let c = (0..t).map(|tau| load(Input::C { pattern, chunk, tau })).collect::<Result<Vec<B::Ct>>>()?;
        let b = |tau: usize| load(Input::B { pattern, chunk, tau });
        let held = if works.len() > 1 { Some((0..t).map(b).collect::<Result<Vec<_>>>()?) } else { None };
        for (i, (work, sums)) in works.iter().zip(&sums).enumerate() {
            let chunk = Chunk { c: &c, b: &b, held: held.as_deref(), scores: if i == 0 { &scores } else { &[] } };
            work.column(&chunk, sums)?;
        }
        Ok(())
    };
    let chunks = kernel.layout.chunks;
    if apart { backend.each_alike(chunks, one) } else { backend.each(chunks, one) }?;
    let padded = |missing: usize, made: Vec<B::Ct>| {
        (0..missing).map(|_| None).chain(made.into_iter().map(Some)).collect::<Vec<_>>()
    };
    let contracted = sums.into_iter().map(|Waiting { prefixed, carried }| {
        let prefixed = padded(w, finish(*backend, prefixed)?);
        let carried = if many { padded(0, finish(*backend, carried)?) } else { padded(t, Vec::new()) };
        Ok(Contracted { prefixed, carried })
    });
    let contracted = contracted.collect::<Result<Vec<_>>>()?;
    Ok((contracted, if with_scores { Some(finish(*backend, scores)?) } else { None }))
}

/// A chunk of coordinates: C, B in memory or one by one, and the sums of scores, if they are wanted.
struct Chunk<'a, B: Backend> {
    c: &'a [B::Ct],
    b: &'a dyn Fn(usize) -> Result<B::Ct>,
    held: Option<&'a [B::Ct]>,
    scores: &'a [Mutex<B::Sum>],
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of the pair `r' <= r` among those of a leaf.
fn pair(r: usize, before: usize) -> usize {
    r * (r + 1) / 2 + before
}

impl<'a, B: Backend> Block<'a, B> {
    fn new(kernel: &'a Lanes, backend: &'a B, block: usize, load: &Load<'_, B>) -> Result<Self> {
        let t = kernel.layout.tokens;
        let x = backend.each(t, |tau| load(Input::X { block, tau }))?;
        let a = backend.each(t, |tau| load(Input::A { block, tau }))?;
        let mut decays = Decays::new(backend, a);
        let low = backend.each(t, |tau| backend.lower(&x[tau], kernel.levels.low))?;
        let y = weighted(kernel, backend, &mut decays, x)?;
        let mut this = Self { kernel, backend, decays, x: low, y, strides: Vec::new() };
        this.tree_decays()?;
        this.strides = this.stride_decays()?;
        this.output_decays()?;
        this.decays.settle();
        Ok(this)
    }

    /// Decays that the way up and the way down multiply by.
    fn tree_decays(&mut self) -> Result<()> {
        let (w, t, levels) = (self.kernel.layout.params.leaf, self.kernel.layout.tokens, self.kernel.levels);
        let heights = self.kernel.leaves().ilog2() as usize;
        for g in 0..heights {
            let width = w << g;
            for from in (width..t).step_by(2 * width) {
                self.decays.keep(from, from + width, levels.leaf - 1 - g)?;
            }
        }
        if self.kernel.layout.params.blocks > 1 {
            self.decays.make(0, t, levels.root)?;
        }
        for g in (0..heights).rev() {
            let width = w << g;
            // Left nodes with something before them.
            for from in (2 * width..t).step_by(2 * width) {
                self.decays.keep(from, from + width, levels.low + g + 1)?;
            }
        }
        Ok(())
    }

    /// `D` of each stage over the blocks: products of the decays of 1, 2, 4, .. blocks.
    fn stride_decays(&self) -> Result<Vec<B::Ct>> {
        let (t, stages) = (self.kernel.layout.tokens, self.kernel.layout.params.blocks.ilog2());
        let root = self.kernel.levels.root;
        let mut strides: Vec<B::Ct> = Vec::new();
        for k in 0..stages {
            let made = match strides.last() {
                None => self.decays.get(0, t, root).cloned(),
                Some(d) => {
                    let moved = self.backend.rotate(d, self.step(1 << (k - 1)))?;
                    Some(self.backend.combine(self.backend.level(d), &[Term::Product(d, &moved)])?)
                }
            };
            strides.extend(made);
        }
        Ok(strides)
    }

    /// Decays of the outputs: from the leaf's begin, from the block's begin, and between places of a leaf.
    fn output_decays(&mut self) -> Result<()> {
        let (w, t, low) = (self.kernel.layout.params.leaf, self.kernel.layout.tokens, self.kernel.levels.low);
        for from in 0..t {
            for to in from + 2..=(from / w + 1) * w {
                self.decays.keep(from + 1, to, low)?;
            }
        }
        for place in 0..t {
            if place >= w {
                self.decays.keep(place / w * w, place + 1, low - 1)?;
            }
            if self.kernel.layout.params.blocks > 1 {
                self.decays.keep(0, place + 1, low - 1)?;
            }
        }
        Ok(())
    }

    /// Rotation that brings what is `blocks` blocks earlier.
    fn step(&self, blocks: usize) -> i64 {
        -(blocks as i64)
    }

    /// One chunk of coordinates.
    fn column(&self, chunk: &Chunk<'_, B>, sums: &Waiting<B>) -> Result<()> {
        let (b, levels) = (self.backend, self.kernel.levels);
        let (w, n) = (self.kernel.layout.params.leaf, self.kernel.leaves());
        let mut left = Kept { at: vec![None; 2 * n] };
        let Waiting { prefixed, carried } = sums;
        let c = chunk.c;
        let summary = self.up(&mut left, 0, n, &|leaf| {
            let places = leaf * w..(leaf + 1) * w;
            let loaded;
            let own = match chunk.held {
                Some(all) => &all[places],
                None => {
                    loaded = places.map(chunk.b).collect::<Result<Vec<_>>>()?;
                    &loaded[..]
                }
            };
            if !chunk.scores.is_empty() {
                self.scores_of(leaf, own, c, chunk.scores)?;
            }
            let terms: Vec<Term<'_, B>> =
                own.iter().enumerate().map(|(r, v)| Term::Product(&self.y[leaf * w + r], v)).collect();
            b.combine(levels.leaf, &terms)
        })?;
        if !carried.is_empty() {
            let state = self.before_blocks(summary)?;
            for (tau, sum) in carried.iter().enumerate() {
                b.extend(&mut lock(sum), &[Term::Product(&c[tau], &state)])?;
            }
        }
        let contract = |leaf: usize, prefix: &B::Ct| -> Result<()> {
            for tau in (leaf + 1) * w..(leaf + 2) * w {
                b.extend(&mut lock(&prefixed[tau - w]), &[Term::Product(&c[tau], prefix)])?;
            }
            Ok(())
        };
        self.down(&mut left, 0, n, None, &contract)
    }

    /// `sum C_r B_r'` of one leaf and chunk.
    fn scores_of(&self, leaf: usize, own: &[B::Ct], c: &[B::Ct], scores: &[Mutex<B::Sum>]) -> Result<()> {
        let (w, low) = (self.kernel.layout.params.leaf, self.kernel.levels.low);
        let own: Vec<B::Ct> = own.iter().map(|v| self.backend.lower(v, low)).collect::<Result<_>>()?;
        for r in 0..w {
            for (before, v) in own.iter().enumerate().take(r + 1) {
                let sum = &scores[leaf * w * (w + 1) / 2 + pair(r, before)];
                self.backend.extend(&mut lock(sum), &[Term::Product(&c[leaf * w + r], v)])?;
            }
        }
        Ok(())
    }

    /// The summary of leaves `from..to`; left ones are kept for the way down.
    fn up(&self, left: &mut Kept<B>, from: usize, to: usize, leaf: &dyn Fn(usize) -> Result<B::Ct>) -> Result<B::Ct> {
        if to - from == 1 {
            return leaf(from);
        }
        let (w, levels, middle) = (self.kernel.layout.params.leaf, self.kernel.levels, usize::midpoint(from, to));
        let first = self.up(left, from, middle, leaf)?;
        let second = self.up(left, middle, to, leaf)?;
        let level = self.backend.level(&first);
        let mut terms = vec![Term::Addend(&second)];
        terms.extend(self.decays.get(middle * w, to * w, level).map(|d| Term::Product(d, &first)));
        let both = self.backend.combine(level, &terms)?;
        let height = (middle - from).ilog2() as usize;
        // What nothing precedes is a prefix already.
        let wanted = levels.low + height + usize::from(from > 0);
        left.at[middle] = Some(self.backend.lower(&first, wanted)?);
        Ok(both)
    }

    /// Prefixes at the ends of leaves `from..to - 1`, each given to `contract`; `carry` is the prefix before.
    fn down(
        &self,
        left: &mut Kept<B>,
        from: usize,
        to: usize,
        carry: Option<&B::Ct>,
        contract: &dyn Fn(usize, &B::Ct) -> Result<()>,
    ) -> Result<()> {
        if to - from == 1 {
            return Ok(());
        }
        let (b, w, low) = (self.backend, self.kernel.layout.params.leaf, self.kernel.levels.low);
        let middle = usize::midpoint(from, to);
        let height = (middle - from).ilog2() as usize;
        let Some(own) = left.at[middle].take() else { return Ok(()) };
        let level = low + height + 1;
        let prefix = match carry {
            None => own,
            Some(before) => {
                let before = b.lower(before, level)?;
                let mut terms = vec![Term::Addend(&own)];
                terms.extend(self.decays.get(from * w, middle * w, level).map(|d| Term::Product(d, &before)));
                b.combine(level, &terms)?
            }
        };
        contract(middle - 1, &b.lower(&prefix, low)?)?;
        self.down(left, from, middle, carry, contract)?;
        self.down(left, middle, to, Some(&prefix), contract)
    }

    /// The state before each block, from their summaries.
    fn before_blocks(&self, mut summary: B::Ct) -> Result<B::Ct> {
        let b = self.backend;
        for (k, stride) in self.strides.iter().enumerate() {
            let moved = b.rotate(&summary, self.step(1 << k))?;
            summary = b.combine(b.level(&moved), &[Term::Product(stride, &moved), Term::Addend(&summary)])?;
        }
        let low = b.lower(&summary, self.kernel.levels.low)?;
        b.rotate(&low, self.step(1))
    }

    /// The outputs of this block of channels.
    fn outputs(&self, prefixed: &[Option<B::Ct>], carried: &[Option<B::Ct>], scores: &[B::Ct]) -> Result<Vec<B::Ct>> {
        let (b, w, low) = (self.backend, self.kernel.layout.params.leaf, self.kernel.levels.low);
        b.each(self.kernel.layout.tokens, |tau| {
            let (leaf, r) = (tau / w, tau % w);
            // x of the leaf's places up to this one, decayed to it.
            let decayed: Vec<B::Ct> = (0..=r)
                .map(|before| {
                    let x = &self.x[leaf * w + before];
                    match self.decays.get(leaf * w + before + 1, tau + 1, low) {
                        Some(d) => b.combine(low, &[Term::Product(d, x)]),
                        None => b.lower(x, low - 1),
                    }
                })
                .collect::<Result<_>>()?;
            let own = &scores[leaf * w * (w + 1) / 2..];
            let mut terms: Vec<Term<'_, B>> =
                decayed.iter().enumerate().map(|(before, z)| Term::Product(z, &own[pair(r, before)])).collect();
            let level = low - 1;
            for (sum, from) in [(&prefixed[tau], leaf * w), (&carried[tau], 0)] {
                terms.extend(sum.as_ref().zip(self.decays.get(from, tau + 1, level)).map(|(s, d)| Term::Product(d, s)));
            }
            let m = b.combine(level, &terms)?;
            let l = &self.kernel.layout;
            if l.params.fold { b.fold(m, l.params.blocks, l.params.coordinates) } else { Ok(m) }
        })
    }
}

/// Left summaries by the place where they end.
struct Kept<B: Backend> {
    at: Vec<Option<B::Ct>>,
}
