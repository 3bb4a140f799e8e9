//! An allocator that looks at memory as it is freed: for tests that secrets are wiped. Not in the product
//! (feature `testing`).
//!
//! A test makes it the allocator of its program and asks what the blocks of a value held when they were
//! freed:
//!
//! ```ignore
//! #[global_allocator]
//! static HEAP: WatchingAllocator = WatchingAllocator;
//!
//! let key = HEAP.watch(|| SecretKey::generate(..));
//! assert!(key.release().iter().all(Freed::is_wiped));
//! ```
//!
//! Blocks are looked at while they are still allocated, so nothing freed is read. All state belongs to a
//! thread: tests in parallel do not see each other, and what other threads allocate or free for a value is
//! not seen. So a test says how much memory it expects to see. A value that is not on the heap itself is put
//! into a `Box`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Most blocks of one value.
const MOST: usize = 512;

/// The system's allocator, with a look at what is freed.
pub struct WatchingAllocator;

/// What a block held when it was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    /// Bytes of the block.
    pub size: usize,
    /// Bytes that were not zero.
    pub nonzero: usize,
}

impl Freed {
    /// Whether nothing was left in it.
    pub fn is_wiped(&self) -> bool {
        self.nonzero == 0
    }
}

/// A block of the watched value. A start of zero is no block; `freed` is there once it is.
#[derive(Clone, Copy)]
struct Block {
    start: usize,
    freed: Option<Freed>,
}

/// What the present thread watches.
struct Watch {
    /// Whether new blocks belong to the value.
    recording: Cell<bool>,
    /// Whether a value is watched.
    busy: Cell<bool>,
    count: Cell<usize>,
    /// Whether there were more blocks than places.
    missed: Cell<bool>,
    blocks: [Cell<Block>; MOST],
    /// What is looked for in every block that is freed: address and length of bytes that outlive the search.
    needle: Cell<Option<&'static [u8]>>,
    found: Cell<usize>,
}

thread_local! {
    // Without a destructor and made at compile time, so that an allocator may use it at any time.
    static WATCH: Watch = const {
        Watch {
            recording: Cell::new(false),
            busy: Cell::new(false),
            count: Cell::new(0),
            missed: Cell::new(false),
            blocks: [const { Cell::new(Block { start: 0, freed: None }) }; MOST],
            needle: Cell::new(None),
            found: Cell::new(0),
        }
    };
}

/// The bytes of a block that is about to be freed.
///
/// # Safety
/// The block is allocated, by this allocator, with this size; nobody else uses it.
unsafe fn bytes(start: *mut u8, size: usize) -> impl Iterator<Item = u8> {
    // SAFETY: inside the block. It came from the system as zeros, so every byte was written; the read is
    // volatile, so that the compiler takes nothing for granted about bytes between fields.
    (0..size).map(move |i| unsafe { start.add(i).read_volatile() })
}

impl Watch {
    fn allocated(&self, start: *mut u8) {
        if !self.recording.get() || start.is_null() {
            return;
        }
        let count = self.count.get();
        let place = self.blocks[..count].iter().position(|b| b.get().start == 0).unwrap_or(count);
        if let Some(block) = self.blocks.get(place) {
            block.set(Block { start: start as usize, freed: None });
        }
        self.count.set(count.max(place + 1).min(MOST));
        self.missed.set(self.missed.get() || place == MOST);
    }

    /// # Safety
    /// As [`bytes`].
    unsafe fn freeing(&self, start: *mut u8, size: usize) {
        if self.busy.get() {
            let mine = |b: &&Cell<Block>| b.get().start == start as usize && b.get().freed.is_none();
            if let Some(block) = self.blocks[..self.count.get()].iter().find(mine) {
                if self.recording.get() {
                    // Came and went while the value was made: not part of it.
                    block.set(Block { start: 0, freed: None });
                } else {
                    // SAFETY: passed on.
                    let nonzero = unsafe { bytes(start, size) }.filter(|&b| b != 0).count();
                    block.set(Block { start: start as usize, freed: Some(Freed { size, nonzero }) });
                }
            }
        }
        if let Some(needle) = self.needle.get() {
            // A match by position, without memory of its own.
            let holds = (0..(size + 1).saturating_sub(needle.len())).any(|at| {
                // SAFETY: `at` leaves room for the needle inside the block; otherwise passed on.
                unsafe { bytes(start.add(at), needle.len()) }.eq(needle.iter().copied())
            });
            self.found.set(self.found.get() + usize::from(holds));
        }
    }
}

// SAFETY: every block is one of the system's, asked for and given back with the caller's layout.
unsafe impl GlobalAlloc for WatchingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on. Zeros, so that all bytes may be looked at later.
        let start = unsafe { System.alloc_zeroed(layout) };
        // Fails only while a thread ends.
        let _ = WATCH.try_with(|w| w.allocated(start));
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on; `alloc` gives zeros.
        unsafe { self.alloc(layout) }
    }

    // A reallocation is the trait's own: allocate, copy, free. So a block that grew away is seen.
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's block, still allocated, and nobody else's.
        let _ = WATCH.try_with(|w| unsafe { w.freeing(start, layout.size()) });
        // SAFETY: passed on.
        unsafe { System.dealloc(start, layout) };
    }
}

impl WatchingAllocator {
    /// Makes a value whose blocks are watched: those that this thread allocated while `make` ran and has not
    /// freed since.
    ///
    /// # Panics
    /// If this thread watches a value already, or the value has too many blocks.
    pub fn watch<T>(&self, make: impl FnOnce() -> T) -> Watched<T> {
        WATCH.with(|w| assert!(!w.busy.replace(true), "one value at a time"));
        WATCH.with(|w| w.count.set(0));
        WATCH.with(|w| w.recording.set(true));
        let value = make();
        WATCH.with(|w| w.recording.set(false));
        assert!(!WATCH.with(|w| w.missed.replace(false)), "more blocks than can be watched");
        Watched { value }
    }

    /// Runs `work` and counts the blocks that this thread freed in it with these bytes somewhere inside.
    ///
    /// # Panics
    /// If nothing is looked for, or `work` does the same.
    pub fn freed_with(&self, needle: &'static [u8], work: impl FnOnce()) -> usize {
        assert!(!needle.is_empty());
        WATCH.with(|w| assert!(w.needle.replace(Some(needle)).is_none(), "one search at a time"));
        WATCH.with(|w| w.found.set(0));
        work();
        WATCH.with(|w| {
            w.needle.set(None);
            w.found.get()
        })
    }
}

/// A value whose blocks are watched.
pub struct Watched<T> {
    value: T,
}

impl<T> Watched<T> {
    /// The value.
    pub fn get(&mut self) -> &mut T {
        &mut self.value
    }

    /// Drops the value and says what each of its blocks held. Blocks that are still there (of a pool of
    /// threads, say) are not among them.
    pub fn release(self) -> Vec<Freed> {
        drop(self.value);
        WATCH.with(|w| {
            w.busy.set(false);
            w.blocks[..w.count.get()].iter().filter_map(|b| b.get().freed).collect()
        })
    }
}
