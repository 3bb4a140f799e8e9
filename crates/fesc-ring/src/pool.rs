//! Buffers of many lengths that share slabs of memory.
//!
//! A fresh megabyte costs its page faults, often more than the operation that fills it. A [`Pool`] has slabs,
//! on huge pages once they are large; a buffer is a run of a slab, and what is released joins its free
//! neighbours. So a computation that goes down the levels of a modulus, with a length for each of them, needs
//! about as much memory as it has in use at once, not the sum over lengths of the most of each. A buffer is
//! taken from the lowest free run that is long enough. Shared by threads; one short lock per `take` and per
//! release.
//!
//! **A taken buffer holds whatever its last user left.** What will hold a secret is taken by
//! [`Pool::take_secret`]: it is wiped when it goes back. When more than [`MOST_IDLE`] words are idle, or as
//! many as [`Pool::with_limit`] says, slabs without a buffer are freed. [`Pool::clear`] frees all of those.
//!
//! # What is not guaranteed
//! A bound on idle words: a slab stays while one buffer of it is in use.

use crate::aligned::{Aligned, LINE};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Words that wait in a pool, at most: 1 GiB.
pub const MOST_IDLE: usize = 1 << 27;

/// Words of a slab, at most, but for buffers that are longer: 64 MiB.
const LARGEST_SLAB: usize = 1 << 23;

/// Buffers start on a line.
const STEP: usize = LINE / size_of::<u64>();

/// Words that a buffer takes of a slab.
fn run_of(words: usize) -> usize {
    words.max(1).next_multiple_of(STEP)
}

/// The memory of a slab. It is reached by `start` alone, which buffers share; the vector only owns it.
struct Memory {
    start: NonNull<u64>,
    words: usize,
    _owner: Aligned<u64>,
}

// SAFETY: memory without an owner thread; runs that are handed out do not overlap, and nothing else reads it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(words: usize) -> Self {
        let mut owner = Aligned::zeroed(words);
        let start = NonNull::from(&mut owner[..]).cast();
        Self { start, words, _owner: owner }
    }
}

/// A slab: its memory, and the free runs by their start.
struct Slab {
    memory: Memory,
    free: BTreeMap<usize, usize>,
}

impl Slab {
    fn new(words: usize) -> Self {
        Self { memory: Memory::new(words), free: BTreeMap::from([(0, words)]) }
    }

    /// The lowest run of so many words.
    fn take(&mut self, words: usize) -> Option<usize> {
        let (&start, &len) = self.free.iter().find(|(_, len)| **len >= words)?;
        self.free.remove(&start);
        if len > words {
            self.free.insert(start + words, len - words);
        }
        Some(start)
    }

    /// A run is free again, and joins its neighbours.
    fn release(&mut self, mut start: usize, mut words: usize) {
        if let Some(after) = self.free.remove(&(start + words)) {
            words += after;
        }
        let before = self.free.range(..start).next_back().map(|(&s, &len)| (s, len));
        if let Some((s, len)) = before.filter(|(s, len)| s + len == start) {
            (start, words) = (s, words + len);
        }
        self.free.insert(start, words);
    }

    fn is_free(&self) -> bool {
        self.free.get(&0) == Some(&self.memory.words)
    }
}

/// Slabs by the number under which they were made.
#[derive(Default)]
struct Slabs {
    all: BTreeMap<usize, Slab>,
    words: usize,
}

impl Slabs {
    /// Takes out slabs without a buffer, the latest first, until at most `most` words are idle.
    fn shrink(&mut self, taken: usize, most: usize) -> Vec<Slab> {
        let mut gone = Vec::new();
        let free: Vec<usize> = self.all.iter().rev().filter(|(_, slab)| slab.is_free()).map(|(&id, _)| id).collect();
        for id in free {
            if self.words.saturating_sub(taken) <= most {
                break;
            }
            if let Some(slab) = self.all.remove(&id) {
                self.words -= slab.memory.words;
                gone.push(slab);
            }
        }
        gone
    }
}

struct Shared {
    /// Words that may wait.
    most_idle: AtomicUsize,
    /// Words in buffers that are out.
    taken: AtomicUsize,
    /// The largest number of them so far.
    peak: AtomicUsize,
    /// Slabs ever made.
    made: AtomicUsize,
    slabs: Mutex<Slabs>,
}

impl Shared {
    fn slabs(&self) -> MutexGuard<'_, Slabs> {
        // Each use of the lock leaves the runs whole, so a panic elsewhere does not matter.
        self.slabs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn most_idle(&self) -> usize {
        self.most_idle.load(Ordering::Relaxed)
    }
}

/// A handle of a pool; clones share it.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

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

    /// An empty pool that keeps at most about `most_idle` words.
    pub fn with_limit(most_idle: usize) -> Self {
        let zero = || AtomicUsize::new(0);
        let (most_idle, slabs) = (AtomicUsize::new(most_idle), Mutex::default());
        Self(Arc::new(Shared { most_idle, taken: zero(), peak: zero(), made: zero(), slabs }))
    }

    /// Keeps at most about `most_idle` words from now on.
    pub fn set_limit(&self, most_idle: usize) {
        self.0.most_idle.store(most_idle, Ordering::Relaxed);
        let gone = self.0.slabs().shrink(self.0.taken(), most_idle);
        drop(gone);
    }

    /// Words in buffers that were taken and have not come back.
    pub fn words_in_use(&self) -> usize {
        self.0.taken()
    }

    /// The largest [`Pool::words_in_use`] since the pool was made or [`Pool::reset_peak`].
    pub fn peak_words(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Starts the largest number anew, from what is in use.
    pub fn reset_peak(&self) {
        self.0.peak.store(self.words_in_use(), Ordering::Relaxed);
    }

    /// A buffer of `words` words with arbitrary contents (zeros where nothing was before).
    pub fn take(&self, words: usize) -> Pooled {
        let run = run_of(words);
        let mut slabs = self.0.slabs();
        let found = slabs.all.iter_mut().find_map(|(&id, slab)| Some((id, slab.take(run)?, slab.memory.start)));
        let (id, first, memory) = found.unwrap_or_else(|| {
            // Each new slab doubles the pool, up to a size of which a few are within the limit.
            let more = slabs.words.min(LARGEST_SLAB).min(self.0.most_idle() / 4);
            let mut slab = Slab::new(run.max(more / STEP * STEP));
            let id = self.0.made.fetch_add(1, Ordering::Relaxed);
            let (first, memory) = (slab.take(run).unwrap_or_default(), slab.memory.start);
            slabs.words += slab.memory.words;
            slabs.all.insert(id, slab);
            (id, first, memory)
        });
        let taken = self.0.taken.fetch_add(run, Ordering::Relaxed) + run;
        drop(slabs);
        self.0.peak.fetch_max(taken, Ordering::Relaxed);
        // SAFETY: the run lies in the memory, which is at least as long.
        let start = unsafe { memory.add(first) };
        Pooled { start, words, slab: id, first, home: self.clone(), wipe: false }
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

    /// Makes slabs until so many words are idle, of which no later run pays the page faults; at most as many
    /// as may wait. One thread touches them: two at once take longer in a virtual machine.
    pub fn reserve(&self, words: usize) {
        let words = words.min(self.0.most_idle());
        loop {
            let missing = words.saturating_sub(self.idle_words());
            if missing == 0 {
                return;
            }
            // The pool can be used meanwhile.
            let slab = Slab::new(missing.min(LARGEST_SLAB).next_multiple_of(STEP));
            let mut slabs = self.0.slabs();
            slabs.words += slab.memory.words;
            slabs.all.insert(self.0.made.fetch_add(1, Ordering::Relaxed), slab);
        }
    }

    /// How many slabs were ever made: constant while operations only use old memory again.
    pub fn made(&self) -> usize {
        self.0.made.load(Ordering::Relaxed)
    }

    /// Words of slabs that no buffer has.
    pub fn idle_words(&self) -> usize {
        let slabs = self.0.slabs();
        slabs.words - self.0.taken()
    }

    /// Frees all slabs without a buffer.
    pub fn clear(&self) {
        // The memory goes back after the lock is released.
        let gone = self.0.slabs().shrink(0, 0);
        drop(gone);
    }
}

/// A buffer that goes back to its pool on drop. A clone is another buffer of the same pool.
pub struct Pooled {
    start: NonNull<u64>,
    words: usize,
    /// Its slab, and where in it.
    slab: usize,
    first: usize,
    home: Pool,
    wipe: bool,
}

// SAFETY: a buffer owns its run alone, like a `Box<[u64]>`.
unsafe impl Send for Pooled {}
// SAFETY: as above; shared access gives shared slices only.
unsafe impl Sync for Pooled {}

impl Drop for Pooled {
    fn drop(&mut self) {
        if self.wipe {
            // The words live on behind a lock, or are freed: `black_box` keeps the stores even so.
            self.fill(0);
            std::hint::black_box(&self[..]);
        }
        let (run, shared) = (run_of(self.words), &self.home.0);
        let mut slabs = shared.slabs();
        if let Some(slab) = slabs.all.get_mut(&self.slab) {
            slab.release(self.first, run);
        }
        let taken = shared.taken.fetch_sub(run, Ordering::Relaxed) - run;
        let most = shared.most_idle();
        let gone = if slabs.words - taken > most { slabs.shrink(taken, most) } else { Vec::new() };
        // The memory goes back after the lock is released.
        drop(slabs);
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
        // SAFETY: the run is this buffer's alone until it is dropped. A pool, which `home` keeps, frees no
        // slab that has a buffer. Slabs are zeroed when they are made.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
