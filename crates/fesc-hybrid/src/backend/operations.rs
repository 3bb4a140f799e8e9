//! What a circuit did: operations by kind and level, and which rotations.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fesc_ckks::server::EvaluationKeyPlan;

/// A kind of operation that costs something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// A product of two ciphertexts, before relinearisation.
    Product,
    /// A product by a plaintext.
    PlainProduct,
    /// A relinearisation, with its rescaling.
    Relinearisation,
    /// A rotation alone.
    Rotation,
    /// A rotation that shares its decomposition with others.
    HoistedRotation,
    /// A conjugation.
    Conjugation,
    /// A rescaling alone.
    Rescale,
}

impl Operation {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Product,
        Self::PlainProduct,
        Self::Relinearisation,
        Self::Rotation,
        Self::HoistedRotation,
        Self::Conjugation,
        Self::Rescale,
    ];

    /// Whether it is a key switch.
    pub fn switches(self) -> bool {
        matches!(self, Self::Relinearisation | Self::Rotation | Self::HoistedRotation | Self::Conjugation)
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Product => "products",
            Self::PlainProduct => "plain_products",
            Self::Relinearisation => "relinearisations",
            Self::Rotation => "rotations",
            Self::HoistedRotation => "hoisted_rotations",
            Self::Conjugation => "conjugations",
            Self::Rescale => "rescales",
        }
    }
}

/// Counts by kind and level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<(Operation, usize), u64>);

impl Tally {
    /// How often, at all levels.
    pub fn total(&self, operation: Operation) -> u64 {
        self.by_level(operation).map(|(_, n)| n).sum()
    }

    /// How often at each level where it was.
    pub fn by_level(&self, operation: Operation) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().filter(move |((o, _), _)| *o == operation).map(|((_, level), n)| (*level, *n))
    }

    /// Relinearisations, rotations and conjugations.
    pub fn key_switches(&self) -> u64 {
        Operation::ALL.into_iter().filter(|o| o.switches()).map(|o| self.total(o)).sum()
    }

    /// The sum of `cost(kind, level)` over everything that was done.
    pub fn cost(&self, cost: impl Fn(Operation, usize) -> f64) -> f64 {
        self.0.iter().map(|(&(operation, level), &n)| n as f64 * cost(operation, level)).sum()
    }

    /// What was done since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let left = |(key, n): (&(Operation, usize), &u64)| {
            let n = n - earlier.0.get(key).copied().unwrap_or(0);
            (n > 0).then_some((*key, n))
        };
        Self(self.0.iter().filter_map(left).collect())
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        for (key, n) in &other.0 {
            *self.0.entry(*key).or_default() += n;
        }
    }
}

/// Counts by level and kind: quicker to write than a [`Tally`], for circuits of millions of operations.
type Counts = Vec<Row>;
type Row = [u64; Operation::ALL.len()];

fn tally(counts: &Counts) -> Tally {
    let by_level = |(level, row): (usize, &Row)| {
        let row = *row;
        Operation::ALL.into_iter().map(move |o| ((o, level), row[o as usize])).filter(|(_, n)| *n > 0)
    };
    Tally(counts.iter().enumerate().flat_map(by_level).collect())
}

fn add(counts: &mut Counts, operation: Operation, level: usize, count: u64) {
    if counts.len() <= level {
        counts.resize(level + 1, [0; Operation::ALL.len()]);
    }
    counts[level][operation as usize] += count;
}

#[derive(Default)]
struct Inner {
    all: Counts,
    /// Whether each step was used.
    rotations: Vec<bool>,
    /// Named parts, and those that are being worked on.
    parts: Vec<(&'static str, Counts)>,
    open: Vec<usize>,
}

impl Inner {
    fn write(&mut self, operation: Operation, level: usize, count: u64) {
        if count > 0 {
            add(&mut self.all, operation, level, count);
            for (i, &part) in self.open.iter().enumerate() {
                // A part inside of itself counts once.
                if self.open[..i].contains(&part) {
                    continue;
                }
                add(&mut self.parts[part].1, operation, level, count);
            }
        }
    }
}

/// Counts at some time.
pub(super) struct Mark {
    all: Counts,
    parts: Vec<Counts>,
}

/// The ledger of one back end. Threads share it.
#[derive(Default)]
pub struct Operations(Mutex<Inner>);

impl Operations {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Each use leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes `count` operations down.
    pub(super) fn write(&self, operation: Operation, level: usize, count: u64) {
        self.inner().write(operation, level, count);
    }

    /// Writes rotations of one ciphertext down; a rotation by nothing is none.
    pub(super) fn rotations(&self, slots: usize, level: usize, steps: &[i64]) {
        let steps = steps.iter().map(|s| s.rem_euclid(slots as i64)).filter(|s| *s != 0);
        let count = steps.clone().count() as u64;
        let kind = if count > 1 { Operation::HoistedRotation } else { Operation::Rotation };
        let mut inner = self.inner();
        inner.write(kind, level, count);
        if inner.rotations.len() < slots {
            inner.rotations.resize(slots, false);
        }
        steps.for_each(|s| inner.rotations[s as usize] = true);
    }

    /// What is written from now on also belongs to this part, until [`Operations::close`].
    pub(super) fn open(&self, name: &'static str) {
        let mut inner = self.inner();
        let part = inner.parts.iter().position(|(n, _)| *n == name).unwrap_or(inner.parts.len());
        if part == inner.parts.len() {
            inner.parts.push((name, Counts::new()));
        }
        inner.open.push(part);
    }

    /// Ends the part that was opened last.
    pub(super) fn close(&self) {
        self.inner().open.pop();
    }

    /// What was counted so far, for [`Operations::repeat`].
    pub(super) fn mark(&self) -> Mark {
        let inner = self.inner();
        Mark { all: inner.all.clone(), parts: inner.parts.iter().map(|(_, counts)| counts.clone()).collect() }
    }

    /// What was written since a mark happened `times` times, not once.
    pub(super) fn repeat(&self, mark: &Mark, times: u64) {
        let more = |counts: &mut Counts, before: &[Row]| {
            for (level, row) in counts.iter_mut().enumerate() {
                let before = before.get(level).copied().unwrap_or_default();
                row.iter_mut().zip(before).for_each(|(n, old)| *n += (*n - old) * (times - 1));
            }
        };
        let mut inner = self.inner();
        more(&mut inner.all, &mark.all);
        for (i, (_, counts)) in inner.parts.iter_mut().enumerate() {
            more(counts, mark.parts.get(i).map_or(&[][..], |before| before));
        }
    }

    /// Counts of each part.
    pub(super) fn parts(&self) -> BTreeMap<&'static str, Tally> {
        self.inner().parts.iter().map(|(name, counts)| (*name, tally(counts))).collect()
    }

    /// All counts so far.
    pub fn tally(&self) -> Tally {
        tally(&self.inner().all)
    }

    /// The keys that what was done needs.
    pub fn key_plan(&self) -> EvaluationKeyPlan {
        let inner = self.inner();
        let done = tally(&inner.all);
        EvaluationKeyPlan {
            rotations: (0i64..).zip(&inner.rotations).filter(|(_, used)| **used).map(|(step, _)| step).collect(),
            conjugation: done.total(Operation::Conjugation) > 0,
            relinearisation: done.total(Operation::Relinearisation) > 0,
        }
    }
}
