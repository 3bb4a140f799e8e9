//! Batches: which documents, which part of each, which tokens dropped.
//!
//! Everything random of a step is drawn from a generator seeded by (recipe's seed, purpose, stage, step), so
//! that a resumed run needs no state of a generator: the position says it all.

use fesc_ring::Prg;

use crate::recipe::{Crop, Stage};
use crate::{Result, TrainError};

/// Token ids and label.
pub type Document = (Vec<u32>, usize);

/// What randomness is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Weights = 1,
    Order = 2,
    Batch = 3,
    Embedding = 4,
}

/// The generator of one purpose at one place.
pub(crate) fn generator(seed: u64, purpose: Purpose, stage: usize, at: usize) -> Prg {
    let mut key = [0u8; 16];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = purpose as u8;
    key[9..11].copy_from_slice(&(stage as u16).to_le_bytes());
    key[11..16].copy_from_slice(&(at as u64).to_le_bytes()[..5]);
    Prg::from_seed(key)
}

/// Uniform in [0, 1).
pub(crate) fn unit(prg: &mut Prg) -> f64 {
    (prg.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Uniform below `n`; the bias is below n / 2^64.
pub(crate) fn below(prg: &mut Prg, n: usize) -> usize {
    ((u128::from(prg.next_u64()) * n as u128) >> 64) as usize
}

/// The order of the documents in one epoch.
pub(crate) fn order(seed: u64, stage: usize, epoch: usize, documents: usize) -> Vec<usize> {
    let mut prg = generator(seed, Purpose::Order, stage, epoch);
    let mut order: Vec<usize> = (0..documents).collect();
    for i in (1..documents).rev() {
        order.swap(i, below(&mut prg, i + 1));
    }
    order
}

/// One document of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Example {
    /// The tokens as trained on.
    pub(crate) ids: Vec<u32>,
    /// The same before any was dropped: what a teacher sees.
    pub(crate) whole: Vec<u32>,
    pub(crate) label: usize,
}

/// Cuts and drops.
pub(crate) fn example(document: &Document, stage: &Stage, mask: u32, prg: &mut Prg) -> Example {
    let (ids, label) = document;
    let most = match stage.min_length {
        None => stage.length,
        Some(least) => {
            let (low, high) = ((least as f64).ln(), (stage.length as f64).ln());
            ((low + (high - low) * unit(prg)).exp().round() as usize).clamp(least, stage.length)
        }
    };
    let length = ids.len().min(most);
    let start = match stage.crop {
        Crop::Prefix => 0,
        Crop::Random => below(prg, ids.len() - length + 1),
        Crop::Mixed if unit(prg) < 0.5 => below(prg, ids.len() - length + 1),
        Crop::Mixed => 0,
    };
    let whole = ids[start..start + length].to_vec();
    let mut ids = whole.clone();
    if stage.token_dropout > 0.0 {
        ids.iter_mut().filter(|_| unit(prg) < stage.token_dropout).for_each(|id| *id = mask);
    }
    if stage.token_removal > 0.0 {
        // One token at least is left.
        let first = ids.first().copied();
        ids.retain(|_| unit(prg) >= stage.token_removal);
        if ids.is_empty() {
            ids.extend(first);
        }
    }
    Example { ids, whole, label: *label }
}

/// Shares documents among workers so that their tokens are even: the longest first, each to the worker with
/// the fewest. The result depends on the lengths alone.
pub(crate) fn shares(lengths: &[usize], workers: usize) -> Vec<Vec<usize>> {
    let mut by_length: Vec<usize> = (0..lengths.len()).collect();
    by_length.sort_by_key(|&i| (std::cmp::Reverse(lengths[i]), i));
    let mut shares = vec![(0usize, Vec::new()); workers.max(1)];
    for i in by_length {
        if let Some((load, share)) = shares.iter_mut().min_by_key(|(load, _)| *load) {
            *load += lengths[i];
            share.push(i);
        }
    }
    shares.into_iter().map(|(_, share)| share).filter(|share| !share.is_empty()).collect()
}

/// Refuses documents without tokens, tokens without a row and labels without a class.
pub(crate) fn check(set: &'static str, documents: &[Document], vocab: usize, classes: usize) -> Result<()> {
    let wrong = |reason: String| Err(TrainError::Data { set, reason });
    if documents.is_empty() {
        return wrong("there are no documents".into());
    }
    for (i, (ids, label)) in documents.iter().enumerate() {
        if ids.is_empty() {
            return wrong(format!("document {i} has no tokens"));
        }
        if *label >= classes {
            return wrong(format!("document {i} has label {label}, the model has {classes} classes"));
        }
        if let Some(id) = ids.iter().find(|id| **id as usize >= vocab) {
            return wrong(format!("document {i} has token {id}, the vocabulary has {vocab}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_complete() {
        let lengths = [5, 100, 90, 7, 60, 50, 1];
        let shares = shares(&lengths, 2);
        let mut all: Vec<usize> = shares.concat();
        all.sort_unstable();
        assert_eq!(all, (0..7).collect::<Vec<_>>());
        let loads: Vec<usize> = shares.iter().map(|s| s.iter().map(|&i| lengths[i]).sum()).collect();
        assert!(loads[0].abs_diff(loads[1]) <= 10, "{loads:?}");
    }

    #[test]
    fn orders_are_permutations_that_differ() {
        let mut first = order(1, 0, 0, 100);
        assert_eq!(first, order(1, 0, 0, 100));
        assert_ne!(first, order(1, 0, 1, 100));
        assert_ne!(first, order(1, 1, 0, 100));
        assert_ne!(first, order(2, 0, 0, 100));
        first.sort_unstable();
        assert_eq!(first, (0..100).collect::<Vec<_>>());
    }
}
