//! What a circuit did: operations by kind and level, and which rotations.

use std::collections::{BTreeMap, BTreeSet};
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

#[derive(Default)]
struct Inner {
    tally: Tally,
    rotations: BTreeSet<i64>,
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
        if count > 0 {
            *self.inner().tally.0.entry((operation, level)).or_default() += count;
        }
    }

    /// Writes rotations of one ciphertext down; a rotation by nothing is none.
    pub(super) fn rotations(&self, slots: usize, level: usize, steps: &[i64]) {
        let steps: Vec<i64> = steps.iter().map(|s| s.rem_euclid(slots as i64)).filter(|s| *s != 0).collect();
        let kind = if steps.len() > 1 { Operation::HoistedRotation } else { Operation::Rotation };
        self.write(kind, level, steps.len() as u64);
        self.inner().rotations.extend(steps);
    }

    /// All counts so far.
    pub fn tally(&self) -> Tally {
        self.inner().tally.clone()
    }

    /// The keys that what was done needs.
    pub fn key_plan(&self) -> EvaluationKeyPlan {
        let inner = self.inner();
        EvaluationKeyPlan {
            rotations: inner.rotations.iter().copied().collect(),
            conjugation: inner.tally.total(Operation::Conjugation) > 0,
            relinearisation: inner.tally.total(Operation::Relinearisation) > 0,
        }
    }
}
