//! How many ciphertexts are alive, and how many bytes they have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Levels that are counted apart; higher ones together.
const LEVELS: usize = 48;

/// Ciphertexts and bytes of a back end: now, and at most so far. Bytes are those that real ciphertexts of
/// the same levels have.
#[derive(Debug)]
pub struct LiveCounts {
    now: AtomicU64,
    bytes: AtomicU64,
    most: AtomicU64,
    most_bytes: AtomicU64,
    /// Bytes now, and at most so far.
    levels: [[AtomicU64; 2]; LEVELS],
}

impl Default for LiveCounts {
    fn default() -> Self {
        let zero = AtomicU64::default;
        let levels = std::array::from_fn(|_| [zero(), zero()]);
        Self { now: zero(), bytes: zero(), most: zero(), most_bytes: zero(), levels }
    }
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

    /// Most bytes at once of each level: a pool that keeps released buffers for others of their length takes
    /// all of them.
    pub fn by_level(&self) -> BTreeMap<usize, u64> {
        let most = self.levels.iter().map(|[_, most]| most.load(Ordering::Relaxed));
        most.enumerate().filter(|(_, bytes)| *bytes > 0).collect()
    }

    fn level(&self, level: usize) -> &[AtomicU64; 2] {
        &self.levels[level.min(LEVELS - 1)]
    }

    /// Begins work that stands for several times the same: maxima count from here on.
    pub(crate) fn start(&self) -> Before {
        let begin = |now: &AtomicU64, most: &AtomicU64| {
            let now = now.load(Ordering::Relaxed);
            [now, most.swap(now, Ordering::Relaxed)]
        };
        let levels = self.levels.iter().map(|[now, most]| begin(now, most)).collect();
        Before { count: begin(&self.now, &self.most), bytes: begin(&self.bytes, &self.most_bytes), levels }
    }

    /// Ends it: the last of the `times` has the results of the others beside it.
    pub(crate) fn end(&self, before: &Before, times: u64) {
        let end = |[start, old]: [u64; 2], now: &AtomicU64, most: &AtomicU64| {
            let results = now.load(Ordering::Relaxed).saturating_sub(start);
            let last = most.load(Ordering::Relaxed) + (times - 1) * results;
            most.store(last.max(old), Ordering::Relaxed);
        };
        end(before.count, &self.now, &self.most);
        end(before.bytes, &self.bytes, &self.most_bytes);
        before.levels.iter().zip(&self.levels).for_each(|(before, [now, most])| end(*before, now, most));
    }
}

/// What [`LiveCounts::start`] found: alive, and the maximum until then; as a number, in bytes, and in bytes
/// of each level.
pub(crate) struct Before {
    count: [u64; 2],
    bytes: [u64; 2],
    levels: Vec<[u64; 2]>,
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
    level: usize,
    bytes: u64,
}

impl Live {
    /// One more, of so many bytes.
    pub(crate) fn new(counts: &Arc<LiveCounts>, level: usize, bytes: u64) -> Self {
        let now = counts.now.fetch_add(1, Ordering::Relaxed) + 1;
        let all = counts.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        raise(&counts.most, now);
        raise(&counts.most_bytes, all);
        let [here, most] = counts.level(level);
        raise(most, here.fetch_add(bytes, Ordering::Relaxed) + bytes);
        Self { counts: Arc::clone(counts), level, bytes }
    }
}

impl Clone for Live {
    fn clone(&self) -> Self {
        Self::new(&self.counts, self.level, self.bytes)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.counts.now.fetch_sub(1, Ordering::Relaxed);
        self.counts.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.counts.level(self.level)[0].fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
