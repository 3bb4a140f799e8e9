//! Buffers of ciphertext size that are used again: a fresh one costs 512 page faults, about as much time as
//! reading an upload.

use std::sync::{Arc, Mutex, PoisonError};

/// Most buffers that are kept: a tile of 128 ciphertexts and a block of 64 sums.
const KEEP: usize = 192;

/// Free buffers of one length.
pub(super) struct Pool {
    len: usize,
    free: Mutex<Vec<Vec<u64>>>,
}

impl Pool {
    pub(super) fn new(len: usize) -> Arc<Self> {
        Arc::new(Self { len, free: Mutex::new(Vec::new()) })
    }

    fn pop(&self) -> Option<Vec<u64>> {
        // A panic elsewhere cannot leave a list of buffers in a bad state.
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// A buffer with any content.
    pub(super) fn take(self: &Arc<Self>) -> Buffer {
        Buffer { words: self.pop().unwrap_or_else(|| vec![0; self.len]), pool: Arc::clone(self), wipe: false }
    }

    /// A buffer for secrets, with any content: wiped when it goes back.
    pub(super) fn take_secret(self: &Arc<Self>) -> Buffer {
        let mut buffer = self.take();
        buffer.wipe = true;
        buffer
    }
}

/// A buffer on loan.
pub(super) struct Buffer {
    pub(super) words: Vec<u64>,
    pool: Arc<Pool>,
    wipe: bool,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut words = std::mem::take(&mut self.words);
        if self.wipe {
            // Not a store that nobody reads: the words live on behind a lock. `black_box` keeps it so when
            // the list is full.
            words.fill(0);
            std::hint::black_box(words.as_slice());
        }
        let mut free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEEP {
            free.push(words);
        }
    }
}
