//! What a circuit costs besides bytes and rounds, before anything runs: the server's operations by level,
//! ciphertexts each way, memory.
//!
//! Everything is counted: operations by the kernel itself on the back end [`Count`], ciphertexts by the
//! conversions. What a server has done in fact is in the ledger of its [`Ckks`](crate::backend::Ckks), and
//! must be equal to the last operation.
//!
//! Cost: that of a count, which the kernel has been cut with anyway.

use std::collections::BTreeMap;

use fesc_ckks::sets::{self, Set};
use fesc_ckks::{Params, wire};

use crate::backend::{Backend, Chain, Count, Tally};
use crate::circuit::Circuit;

/// The work of one run of a circuit.
#[derive(Clone)]
pub struct Work {
    /// The set.
    pub params: Params,
    /// The server's operations.
    pub tally: Tally,
    /// Uploads by level.
    pub uploads: BTreeMap<usize, u64>,
    /// How often uploads are expanded, by level.
    pub expansions: BTreeMap<usize, u64>,
    /// Ciphertexts that come down.
    pub results: u64,
    /// The level at which they travel.
    pub result_level: usize,
    /// Most bytes of ciphertexts at once while it is computed, expanded inputs among them.
    pub live_bytes: u64,
    /// Logarithm of the statistical distance of the run ([`Circuit::log_distance`]).
    pub log_distance: f64,
}

impl Work {
    /// Of a circuit whose kernel was counted; none if it has no results.
    pub fn new(circuit: &Circuit, count: &Count) -> Option<Self> {
        let down = circuit.down.first()?;
        let mut uploads = BTreeMap::new();
        for up in &circuit.up {
            (0..up.layout().ciphertexts()).for_each(|i| *uploads.entry(up.encoding(i).level).or_default() += 1);
        }
        Some(Self {
            params: down.params().clone(),
            tally: count.operations().tally(),
            uploads,
            expansions: count.inputs(),
            results: circuit.down.iter().map(|down| down.ciphertexts() as u64).sum(),
            result_level: down.level(),
            live_bytes: count.live().most_bytes(),
            // What cannot be told is not taken as small.
            log_distance: circuit.log_distance().unwrap_or(0.0),
        })
    }

    /// The named set, if it is one.
    pub fn set(&self) -> Option<&'static Set> {
        sets::ALL.iter().find(|set| set.literal() == *self.params.literal())
    }

    /// The highest level that an upload has.
    pub fn level(&self) -> usize {
        self.uploads.last_key_value().map_or(0, |(level, _)| *level)
    }

    /// Levels between uploads and what is masked.
    pub fn depth(&self) -> usize {
        self.level().saturating_sub(sets::BOUNDARY)
    }

    /// All uploads.
    pub fn ciphertexts_up(&self) -> u64 {
        self.uploads.values().sum()
    }

    /// Bytes of the uploads on the wire, without frames.
    pub fn upload_bytes(&self) -> u64 {
        self.uploads.iter().map(|(&level, n)| wire::upload_bytes(&self.params, level) as u64 * n).sum()
    }

    /// Bytes of the results on the wire, without frames.
    pub fn result_bytes(&self) -> u64 {
        wire::masked_bytes(&self.params, self.result_level) as u64 * self.results
    }

    /// Bytes of the uploads as a server holds them: one of two polynomials each, the other is a seed.
    pub fn held_bytes(&self) -> u64 {
        self.uploads.keys().map(|&level| self.held_at(level)).sum()
    }

    fn held_at(&self, level: usize) -> u64 {
        let polynomial = Chain::of(&self.params).ciphertext_bytes(level) / 2;
        self.uploads.get(&level).map_or(0, |n| n * polynomial)
    }
}
