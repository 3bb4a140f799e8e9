//! Buffers that are used again instead of being freed.
//!
//! A fresh megabyte costs its page faults, often more than the operation that fills it. A [`Pool`] keeps
//! released buffers in lists by length; [`Pool::take`] gives the one released last, which is the likeliest to
//! be in a cache. Shared by threads; one short lock per `take` and per release.
//!
//! **A taken buffer holds whatever its last user left.** What will hold a secret is taken by
//! [`Pool::take_secret`]: it is wiped when it goes back. A pool keeps at most [`MOST_IDLE`] words, or as many
//! as [`Pool::with_limit`] says: when more are released, those of other lengths are freed first. A
//! computation that goes down the levels has a length for each of them, and leaves all but the last behind.
//! [`Pool::clear`] frees everything.

use crate::aligned::Aligned;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Words that wait in a pool, at most: 1 GiB.
pub const MOST_IDLE: usize = 1 << 27;

struct FreeLists {
    /// Words that may wait.
    most_idle: AtomicUsize,
    /// Words in buffers that are out.
    taken: AtomicUsize,
    /// The largest number of them so far.
    peak: AtomicUsize,
    free: Mutex<HashMap<usize, Vec<Aligned<u64>>>>,
    /// Buffers ever allocated.
    made: AtomicUsize,
}

impl FreeLists {
    fn free(&self) -> MutexGuard<'_, HashMap<usize, Vec<Aligned<u64>>>> {
        // Each use of the lock leaves the map whole, so a panic elsewhere does not matter.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle of a pool; clones share it.
#[derive(Clone)]
pub struct Pool {
    lists: Arc<FreeLists>,
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

impl Pool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::with_limit(MOST_IDLE)
    }

    /// An empty pool that keeps at most `most_idle` words.
    pub fn with_limit(most_idle: usize) -> Self {
        let (most_idle, zero) = (AtomicUsize::new(most_idle), || AtomicUsize::new(0));
        let lists = FreeLists { most_idle, taken: zero(), peak: zero(), free: Mutex::default(), made: zero() };
        Self { lists: Arc::new(lists) }
    }

    /// Keeps at most `most_idle` words from now on; if more wait already, all are freed.
    pub fn set_limit(&self, most_idle: usize) {
        self.lists.most_idle.store(most_idle, Ordering::Relaxed);
        if self.idle_words() > most_idle {
            self.clear();
        }
    }

    /// Words in buffers that were taken and have not come back.
    pub fn words_in_use(&self) -> usize {
        self.lists.taken.load(Ordering::Relaxed)
    }

    /// The largest [`Pool::words_in_use`] since the pool was made or [`Pool::reset_peak`].
    pub fn peak_words(&self) -> usize {
        self.lists.peak.load(Ordering::Relaxed)
    }

    /// Starts the largest number anew, from what is in use.
    pub fn reset_peak(&self) {
        self.lists.peak.store(self.words_in_use(), Ordering::Relaxed);
    }

    /// A buffer of `words` words with arbitrary contents (zeros when it is new).
    pub fn take(&self, words: usize) -> Pooled {
        let old = self.lists.free().get_mut(&words).and_then(Vec::pop);
        let buffer = old.unwrap_or_else(|| {
            self.lists.made.fetch_add(1, Ordering::Relaxed);
            Aligned::zeroed(words)
        });
        let taken = self.lists.taken.fetch_add(words, Ordering::Relaxed) + words;
        self.lists.peak.fetch_max(taken, Ordering::Relaxed);
        Pooled { buffer, home: self.clone(), wipe: false }
    }

    /// [`Pool::take`] for secrets: wiped when it goes back.
    pub fn take_secret(&self, words: usize) -> Pooled {
        let mut buffer = self.take(words);
        buffer.wipe = true;
        buffer
    }

    /// A buffer of zeros.
    pub fn take_zeroed(&self, words: usize) -> Pooled {
        let mut buffer = self.take(words);
        buffer.fill(0);
        buffer
    }

    /// A buffer with a copy of `values`.
    pub fn take_copy(&self, values: &[u64]) -> Pooled {
        let mut buffer = self.take(values.len());
        buffer.copy_from_slice(values);
        buffer
    }

    /// How many buffers were ever allocated: constant while operations only use old ones again.
    pub fn made(&self) -> usize {
        self.lists.made.load(Ordering::Relaxed)
    }

    /// Words in released buffers.
    pub fn idle_words(&self) -> usize {
        self.lists.free().iter().map(|(words, list)| words * list.len()).sum()
    }

    /// Frees all released buffers.
    pub fn clear(&self) {
        // The memory goes back after the lock is released.
        let lists = std::mem::take(&mut *self.lists.free());
        drop(lists);
    }
}

/// A buffer that goes back to its pool on drop. A clone is another buffer of the same pool.
pub struct Pooled {
    buffer: Aligned<u64>,
    home: Pool,
    wipe: bool,
}

impl Pooled {
    /// Takes the buffer out of the pool for good. Whoever has it wipes it, if it holds a secret.
    pub fn detach(mut self) -> Aligned<u64> {
        self.home.lists.taken.fetch_sub(self.buffer.len(), Ordering::Relaxed);
        std::mem::take(&mut self.buffer)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.is_empty() {
            return;
        }
        if self.wipe {
            // The words live on behind a lock, or are freed: `black_box` keeps the stores even so.
            buffer.fill(0);
            std::hint::black_box(&buffer[..]);
        }
        let (words, lists) = (buffer.len(), &self.home.lists);
        lists.taken.fetch_sub(words, Ordering::Relaxed);
        let (mut free, most) = (lists.free(), lists.most_idle.load(Ordering::Relaxed));
        let idle: usize = free.iter().map(|(words, list)| words * list.len()).sum();
        let mut gone = HashMap::new();
        if idle + words > most {
            let kept = free.remove(&words);
            gone = std::mem::take(&mut *free);
            free.extend(kept.map(|list| (words, list)));
        }
        let list = free.entry(words).or_default();
        // A buffer that has no room even so is freed itself.
        if (list.len() + 1) * words <= most {
            list.push(buffer);
        }
        // The memory goes back after the lock is released.
        drop(free);
        drop(gone);
    }
}

impl Clone for Pooled {
    fn clone(&self) -> Self {
        let mut copy = self.home.take_copy(self);
        copy.wipe = self.wipe;
        copy
    }
}

impl Deref for Pooled {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.buffer
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.buffer
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_released_buffer_is_given_out_again() {
        let pool = Pool::new();
        let mut first = pool.take(100);
        first.fill(7);
        let place = first.as_ptr();
        drop(first);
        assert_eq!((pool.made(), pool.idle_words()), (1, 100));
        let other = pool.take(101);
        let again = pool.take(100);
        assert_eq!((again.as_ptr(), pool.made(), pool.idle_words()), (place, 2, 0));
        assert!(again.iter().all(|&x| x == 7) && other.iter().all(|&x| x == 0));
        let copy = again.clone();
        assert!(copy.as_ptr() != place && *copy == *again);
        drop(again);
        assert!(pool.take_zeroed(100).iter().all(|&x| x == 0));
        assert_eq!(*pool.take_copy(&[1, 2, 3]), [1, 2, 3]);
    }

    #[test]
    fn a_secret_is_wiped_when_its_buffer_goes_back() {
        let pool = Pool::new();
        let mut secret = pool.take_secret(100);
        secret.fill(7);
        let copy = secret.clone();
        drop((secret, copy));
        assert_eq!(pool.idle_words(), 200);
        assert!([pool.take(100), pool.take(100)].iter().all(|b| b.iter().all(|&x| x == 0)));
    }

    #[test]
    fn detached_and_cleared_buffers_do_not_come_back() {
        let pool = Pool::new();
        let kept = pool.take(5).detach();
        assert_eq!((kept.len(), pool.idle_words()), (5, 0));
        drop(kept);
        drop(pool.take(6));
        assert_eq!(pool.idle_words(), 6);
        pool.clear();
        assert_eq!(pool.idle_words(), 0);
        drop(pool.take(0));
        assert_eq!(pool.idle_words(), 0);
    }

    #[test]
    fn a_pool_keeps_the_lengths_in_use_and_not_all_that_ever_were() {
        let pool = Pool::with_limit(1000);
        let many: Vec<Pooled> = (0..5).map(|_| pool.take(100)).collect();
        let others: Vec<Pooled> = (0..6).map(|_| pool.take(110)).collect();
        drop(many);
        assert_eq!(pool.idle_words(), 500);
        drop(others);
        assert_eq!(pool.idle_words(), 660, "those of the other length went");
        let many: Vec<Pooled> = (0..20).map(|_| pool.take(110)).collect();
        drop(many);
        assert_eq!((pool.idle_words(), pool.made()), (990, 5 + 6 + 14));
    }

    #[test]
    fn what_is_out_is_counted_and_its_largest_number_kept() {
        let pool = Pool::new();
        let (a, b) = (pool.take(100), pool.take_zeroed(10));
        assert_eq!((pool.words_in_use(), pool.peak_words()), (110, 110));
        drop(a);
        let copy = b.clone();
        assert_eq!((pool.words_in_use(), pool.peak_words()), (20, 110));
        pool.reset_peak();
        assert_eq!(pool.peak_words(), 20);
        drop((b.detach(), copy));
        assert_eq!((pool.words_in_use(), pool.peak_words(), pool.idle_words()), (0, 20, 110));
        pool.set_limit(50);
        drop((pool.take(20), pool.take(30)));
        assert_eq!(pool.idle_words(), 50);
        pool.set_limit(40);
        assert_eq!(pool.idle_words(), 0);
    }

    #[test]
    fn threads_never_share_a_buffer() {
        let pool = Pool::new();
        std::thread::scope(|s| {
            let run = |id: u64| {
                for _ in 0..500 {
                    let mut b = pool.take(64);
                    b.fill(id);
                    std::thread::yield_now();
                    assert!(b.iter().all(|&x| x == id));
                }
            };
            let threads: Vec<_> = (0..4).map(|id| s.spawn(move || run(id))).collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
        assert!(pool.made() <= 4);
    }
}
