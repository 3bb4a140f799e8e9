//! Products of consecutive decays of one block of channels, made once, at the lowest levels that serve.

use std::collections::{BTreeMap, BTreeSet};

use fesc_hybrid::Result;
use fesc_hybrid::backend::{Backend, Term};

use super::Lanes;

/// `prod a` over ranges of places in a block.
pub(super) struct Decays<'a, B: Backend> {
    backend: &'a B,
    /// By range, then by level: the range's product wherever it was needed.
    known: BTreeMap<(usize, usize), BTreeMap<usize, B::Ct>>,
    /// Range and level of those that stay until the end.
    wanted: BTreeSet<(usize, usize, usize)>,
}

impl<'a, B: Backend> Decays<'a, B> {
    /// From the decay of each place.
    pub fn new(backend: &'a B, decays: Vec<B::Ct>) -> Self {
        let mut known = BTreeMap::new();
        for (i, a) in decays.into_iter().enumerate() {
            known.insert((i, i + 1), BTreeMap::from([(backend.level(&a), a)]));
        }
        Self { backend, known, wanted: BTreeSet::new() }
    }

    /// The product over `from..to`, at exactly `level`, must be there.
    pub fn get(&self, from: usize, to: usize, level: usize) -> Option<&B::Ct> {
        self.known.get(&(from, to))?.get(&level)
    }

    /// Makes the product as [`Decays::make`] does, to stay after [`Decays::settle`].
    pub fn keep(&mut self, from: usize, to: usize, level: usize) -> Result<()> {
        self.wanted.insert((from, to, level));
        self.make(from, to, level)
    }

    /// Frees what only others were made of.
    pub fn settle(&mut self) {
        let wanted = &self.wanted;
        self.known.retain(|&(from, to), by| {
            by.retain(|&level, _| wanted.contains(&(from, to, level)));
            !by.is_empty()
        });
    }

    /// Makes the product over `from..to` at `level`, and what it is made of. Ask from high levels to low
    /// ones: a product that is there already is lowered, not made again.
    pub fn make(&mut self, from: usize, to: usize, level: usize) -> Result<()> {
        if self.get(from, to, level).is_some() {
            return Ok(());
        }
        let above = self.known.get(&(from, to)).and_then(|by| by.range(level..).next());
        let made = match above {
            Some((_, c)) => self.backend.lower(c, level)?,
            None => {
                // At the largest power of two that divides the range, so that ranges share their parts.
                let middle = split(from, to);
                self.make(from, middle, level + 1)?;
                self.make(middle, to, level + 1)?;
                let (left, right) = (self.get(from, middle, level + 1), self.get(middle, to, level + 1));
                let terms: Vec<Term<'_, B>> = left.zip(right).map(|(l, r)| Term::Product(l, r)).into_iter().collect();
                self.backend.combine(level + 1, &terms)?
            }
        };
        self.known.entry((from, to)).or_default().insert(level, made);
        Ok(())
    }
}

/// Where a range of at least two places is cut: at the multiple of the largest power of two inside it.
fn split(from: usize, to: usize) -> usize {
    let mut step = 1;
    let mut cut = from + 1;
    while step < to {
        let place = (from / step + 1) * step;
        if place < to {
            cut = place;
        }
        step *= 2;
    }
    cut
}

/// x times the decays of all later places of its leaf: at stage `k` those in the left half of a group of
/// `2^k` are multiplied by the decay of the right half.
pub(super) fn weighted<B: Backend>(
    kernel: &Lanes,
    backend: &B,
    decays: &mut Decays<'_, B>,
    x: Vec<B::Ct>,
) -> Result<Vec<B::Ct>> {
    let (w, top) = (kernel.layout.params.leaf, kernel.levels.top);
    let mut y = x;
    for k in 0..w.ilog2() as usize {
        let (half, level) = (1 << k, top - k);
        for from in (half..y.len()).step_by(2 * half) {
            decays.make(from, from + half, level)?;
        }
        let (known, before) = (&*decays, &y);
        y = backend.each(before.len(), |i| {
            let next = (i / half + 1) * half;
            match known.get(next, next + half, level).filter(|_| i / half % 2 == 0) {
                Some(d) => backend.combine(level, &[Term::Product(&before[i], d)]),
                // It waits: a fresh one is below already.
                None if backend.level(&before[i]) < level => Ok(before[i].clone()),
                None => backend.lower(&before[i], level - 1),
            }
        })?;
    }
    Ok(y)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn ranges_are_cut_at_the_largest_power_of_two() {
        for (from, to, cut) in
            [(0, 2, 1), (0, 8, 4), (4, 8, 6), (3, 5, 4), (1, 8, 4), (0, 3, 2), (5, 7, 6), (9, 12, 10)]
        {
            let got = split(from, to);
            assert!(got > from && got < to);
            assert_eq!(got, cut, "{from}..{to}");
        }
    }
}
