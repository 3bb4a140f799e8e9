//! Memory of what is under CKKS at the server: a model, from counts of the kernels.
//!
//! ```text
//! keys + for each set min(sum over levels of the most that a circuit needs at once at the level,
//!                         most that a circuit needs at once + what a pool keeps)
//! ```
//!
//! Buffers (uploads as they are held, live ciphertexts) come from a pool of the set, which keeps released
//! ones for others of the same level.

use std::collections::BTreeMap;

use fesc_hybrid::keys::KeyShape;
use fesc_hybrid::work::Work;
use fesc_ring::pool::MOST_IDLE;

use crate::Result;
use crate::keys::KeySets;
use crate::schedule::Schedule;

/// Bytes of a client's keys and of all buffers, where a server computes these circuits.
pub fn encrypted<'w>(keys: &KeySets<KeyShape>, works: impl Iterator<Item = &'w Work> + Clone) -> u64 {
    let buffers = keys.iter().map(|shape| {
        let (mut levels, mut most) = (BTreeMap::new(), 0);
        for work in works.clone().filter(|work| work.params.literal() == shape.params().literal()) {
            most = most.max(work.held_bytes() + work.live_bytes);
            for (level, bytes) in work.buffers() {
                let entry = levels.entry(level).or_insert(0);
                *entry = bytes.max(*entry);
            }
        }
        levels.values().sum::<u64>().min(most + 8 * MOST_IDLE as u64)
    });
    keys.memory() + buffers.sum::<u64>()
}

impl Schedule {
    /// Bytes of the server's memory for what is under CKKS in a run; none in a plan without it.
    ///
    /// # Errors
    /// If a stage does not fit the ring.
    pub fn encrypted_memory(&self) -> Result<u64> {
        // Layers are alike.
        let works = self.works_of(1)?;
        Ok(encrypted(&self.keys(), works.iter().map(|w| &w.work)))
    }
}
