//! Memory of what is under CKKS at the server: a model, from counts of the kernels.
//!
//! ```text
//! keys + the most that a circuit needs at once (uploads as they are held, live ciphertexts) (1 + 1/8)
//! ```
//!
//! Buffers of all sets and lengths come from one pool, and circuits run one after another. An eighth is what
//! the pool cannot use between buffers of different lengths.

use fesc_hybrid::ckks::memory;
use fesc_hybrid::keys::KeyShape;
use fesc_hybrid::work::Work;

use crate::Result;
use crate::keys::KeySets;
use crate::schedule::Schedule;

/// Bytes of a client's keys and of all buffers, where a server computes these circuits.
pub fn encrypted<'w>(keys: &KeySets<KeyShape>, works: impl Iterator<Item = &'w Work>) -> u64 {
    keys.memory() + buffers(works)
}

/// Bytes of the buffers alone.
pub fn buffers<'w>(works: impl Iterator<Item = &'w Work>) -> u64 {
    let most = works.map(|work| work.held_bytes() + work.live_bytes).max().unwrap_or(0);
    most + most / 8
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

    /// Has the buffers of a run ready before it starts: the first use of memory takes seconds a gigabyte.
    ///
    /// # Errors
    /// If a stage does not fit the ring.
    pub fn reserve_buffers(&self) -> Result<()> {
        let works = self.works_of(1)?;
        memory::reserve(buffers(works.iter().map(|w| &w.work)));
        Ok(())
    }
}
