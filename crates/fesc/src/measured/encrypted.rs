//! What a server computes under encryption in a stage, as tables and JSON have it.

use std::collections::BTreeMap;

use fesc_hybrid::backend::{Operation, Tally};
use fesc_hybrid::work::Work;
use fesc_infer::{Schedule, Stage};
use serde::{Deserialize, Serialize};

/// Everything of one stage, all layers and segments together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Encrypted {
    /// The parameter set.
    pub set: String,
    /// The highest level that an upload has.
    pub levels: usize,
    /// Levels that the kernel uses.
    pub depth: usize,
    /// Relinearisations, rotations and conjugations.
    pub key_switches: u64,
    /// The same at each level.
    pub key_switches_by_level: BTreeMap<usize, u64>,
    /// Products of ciphertexts, before relinearisation.
    pub products: u64,
    /// Products by known numbers.
    pub plain_products: u64,
    /// Rescalings alone.
    pub rescales: u64,
    /// Ciphertexts that the client sends.
    pub uploads: u64,
    /// Their bytes.
    pub upload_bytes: u64,
    /// Ciphertexts that come back masked.
    pub results: u64,
    /// Bytes of uploads that the server holds at once.
    pub held_bytes: u64,
    /// Most bytes of ciphertexts at once while the server computes.
    pub live_bytes: u64,
}

/// The work of each stage, in the order of their first use: one entry for each layer and segment.
pub type Works = Vec<(Stage, Vec<Work>)>;

/// What a schedule says.
pub fn works(schedule: &Schedule) -> fesc_infer::Result<Works> {
    let mut all = Works::new();
    for part in schedule.works()? {
        let at = all.iter().position(|(stage, _)| *stage == part.stage).unwrap_or_else(|| {
            all.push((part.stage, Vec::new()));
            all.len() - 1
        });
        all[at].1.push(part.work);
    }
    Ok(all)
}

/// All operations of several.
pub fn tally(works: &[Work]) -> Tally {
    let mut sum = Tally::default();
    works.iter().for_each(|w| sum.add(&w.tally));
    sum
}

impl Encrypted {
    /// Of one stage.
    pub fn new(works: &[Work]) -> Self {
        let all = tally(works);
        let mut by_level = BTreeMap::new();
        for operation in Operation::ALL.into_iter().filter(|o| o.switches()) {
            all.by_level(operation).for_each(|(level, n)| *by_level.entry(level).or_default() += n);
        }
        let most = |f: fn(&Work) -> usize| works.iter().map(f).max().unwrap_or(0);
        let sum = |f: fn(&Work) -> u64| works.iter().map(f).sum();
        Self {
            set: works.first().and_then(Work::set).map_or("none", |set| set.name).into(),
            levels: most(Work::level),
            depth: most(Work::depth),
            key_switches: all.key_switches(),
            key_switches_by_level: by_level,
            products: all.total(Operation::Product),
            plain_products: all.total(Operation::PlainProduct),
            rescales: all.total(Operation::Rescale),
            uploads: sum(Work::ciphertexts_up),
            upload_bytes: sum(Work::upload_bytes),
            results: sum(|w| w.results),
            held_bytes: works.iter().map(Work::held_bytes).max().unwrap_or(0),
            live_bytes: works.iter().map(|w| w.live_bytes).max().unwrap_or(0),
        }
    }
}
