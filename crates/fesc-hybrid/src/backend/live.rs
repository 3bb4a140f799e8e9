//! How many ciphertexts are alive, and how many bytes they have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ciphertexts and bytes of a back end: now, and at most so far. Bytes are those that real ciphertexts of
/// the same levels have.
#[derive(Debug, Default)]
pub struct LiveCounts {
    now: AtomicU64,
    bytes: AtomicU64,
    most: AtomicU64,
    most_bytes: AtomicU64,
}

impl LiveCounts {
    /// Ciphertexts that are alive.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Most that were alive at once.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Most bytes that they had at once.
    pub fn most_bytes(&self) -> u64 {
        self.most_bytes.load(Ordering::Relaxed)
    }
}

/// A maximum; it is seldom raised, and a look costs less than a write.
fn raise(most: &AtomicU64, to: u64) {
    if most.load(Ordering::Relaxed) < to {
        most.fetch_max(to, Ordering::Relaxed);
    }
}

/// One live ciphertext: counted while it exists.
pub struct Live {
    counts: Arc<LiveCounts>,
    bytes: u64,
}

impl Live {
    /// One more, of so many bytes.
    pub(crate) fn new(counts: &Arc<LiveCounts>, bytes: u64) -> Self {
        let now = counts.now.fetch_add(1, Ordering::Relaxed) + 1;
        let all = counts.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        raise(&counts.most, now);
        raise(&counts.most_bytes, all);
        Self { counts: Arc::clone(counts), bytes }
    }
}

impl Clone for Live {
    fn clone(&self) -> Self {
        Self::new(&self.counts, self.bytes)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.counts.now.fetch_sub(1, Ordering::Relaxed);
        self.counts.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
