//! The queue of frames between `send` and whoever takes them: the writer thread, or the peer itself in
//! memory.
//!
//! It is bounded in bytes. A frame counts until its taker says that it is done with it, so frames that are
//! being written count too. One frame is always admitted into an empty queue, whatever its size.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::{HEADER_BYTES, frame::Header};

/// A message on its way.
pub(crate) struct Frame {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    /// When it was queued; the pacer needs it.
    pub(crate) queued: Instant,
}

impl Frame {
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len().saturating_add(HEADER_BYTES)
    }
}

/// Why nothing more can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The peer is gone.
    Gone { index: u32 },
    /// The peer does not read.
    Stalled { index: u32 },
    /// The operating system refused for another reason.
    Os { index: u32, kind: std::io::ErrorKind },
}

/// What `pop` found.
pub(crate) enum Popped {
    Frame(Frame),
    /// No more will come.
    End,
    TimedOut,
}

#[derive(Default)]
struct State {
    frames: VecDeque<Frame>,
    /// Bytes of the frames above and of those taken but not done.
    bytes: usize,
    /// Counts calls of `done`: progress of the taker.
    progress: u64,
    ended: bool,
    failure: Option<Failure>,
    /// The failure lost bytes that had been queued.
    lost: bool,
    /// The taker has left, after all frames or after a failure.
    left: bool,
}

pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    drained: Condvar,
    limit: usize,
    /// Set when the sender has ended: the time by which the taker must have flushed the rest.
    flush_by: OnceLock<Instant>,
}

impl Queue {
    pub(crate) fn new(limit: usize) -> Queue {
        Queue {
            state: Mutex::new(State::default()),
            filled: Condvar::new(),
            drained: Condvar::new(),
            limit,
            flush_by: OnceLock::new(),
        }
    }

    // No code that can panic runs under the lock, so a poisoned state is still a valid one.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a frame; waits while the queue is full, at most `stall` without progress.
    pub(crate) fn push(&self, frame: Frame, stall: Duration) -> Result<(), Failure> {
        let bytes = frame.bytes();
        let mut state = self.lock();
        let mut seen = state.progress;
        let mut since = Instant::now();
        loop {
            if let Some(failure) = state.failure {
                return Err(failure);
            }
            if state.bytes == 0 || state.bytes.saturating_add(bytes) <= self.limit {
                break;
            }
            if state.progress != seen {
                (seen, since) = (state.progress, Instant::now());
            }
            let left = stall.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(Failure::Stalled { index: frame.header.sequence });
            }
            state = self.drained.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.bytes = state.bytes.saturating_add(bytes);
        state.frames.push_back(frame);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Takes one frame and is done with it at once.
    pub(crate) fn pop(&self, timeout: Duration) -> Popped {
        let start = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(frame) = state.frames.pop_front() {
                drop(state);
                self.done(frame.bytes());
                return Popped::Frame(frame);
            }
            if state.ended {
                return Popped::End;
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Popped::TimedOut;
            }
            state = self.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Moves waiting frames to `out`, at most `max`, and none after `enough` bytes; waits for the first.
    /// False when no more will come.
    pub(crate) fn pop_batch(&self, out: &mut Vec<Frame>, max: usize, enough: usize) -> bool {
        let mut state = self.lock();
        while state.frames.is_empty() {
            if state.ended {
                return false;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut bytes = 0;
        while out.len() < max && bytes < enough {
            let Some(frame) = state.frames.pop_front() else { break };
            bytes += frame.bytes();
            out.push(frame);
        }
        true
    }

    /// The taker has dealt with this many bytes.
    pub(crate) fn done(&self, bytes: usize) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        state.progress = state.progress.wrapping_add(1);
        drop(state);
        self.drained.notify_one();
    }

    /// The taker has sent part of a large frame: progress, though the frame still counts.
    pub(crate) fn alive(&self) {
        let mut state = self.lock();
        state.progress = state.progress.wrapping_add(1);
        drop(state);
        self.drained.notify_one();
    }

    /// The sender ends: what is queued may still be taken until then.
    pub(crate) fn end(&self, flush_by: Instant) {
        let _ = self.flush_by.set(flush_by);
        self.lock().ended = true;
        self.filled.notify_all();
    }

    /// The taker gives up: nothing more can be sent. The first failure stays.
    pub(crate) fn fail(&self, failure: Failure) {
        let frames = {
            let mut state = self.lock();
            state.failure.get_or_insert(failure);
            state.lost |= state.bytes > 0;
            state.bytes = 0;
            std::mem::take(&mut state.frames)
        };
        // Freed outside the lock: it may be a gigabyte.
        drop(frames);
        self.drained.notify_all();
    }

    /// The taker leaves.
    pub(crate) fn leave(&self) {
        self.lock().left = true;
        self.drained.notify_all();
    }

    /// Waits until the taker has left; false when it has not by then.
    pub(crate) fn wait_left(&self, by: Instant) -> bool {
        let mut state = self.lock();
        while !state.left {
            let rest = by.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return false;
            }
            state = self.drained.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Why nothing more can be sent, if so.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.lock().failure
    }

    /// Why bytes that had been queued were not sent, if so. A peer that left after taking all of them lost
    /// none.
    pub(crate) fn lost(&self) -> Option<Failure> {
        let state = self.lock();
        state.failure.filter(|_| state.lost)
    }

    /// Bytes not yet dealt with.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Whether the sender has ended and the time for flushing is over.
    pub(crate) fn flush_time_over(&self) -> bool {
        self.flush_by.get().is_some_and(|by| Instant::now() >= *by)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::{Tag, frame::FRAME_VERSION};
    use std::sync::Arc;

    const SHORT: Duration = Duration::from_millis(30);
    const LONG: Duration = Duration::from_secs(20);

    fn frame(sequence: u32, len: usize) -> Frame {
        let header = Header { tag: Tag(1), version: FRAME_VERSION, sequence, depth: 1, len: len as u32 };
        Frame { header, payload: vec![0; len], queued: Instant::now() }
    }

    #[test]
    fn full_queue_ends_in_a_stall_and_one_large_frame_always_fits() {
        let q = Queue::new(100);
        q.push(frame(0, 5000), SHORT).unwrap();
        assert_eq!(q.push(frame(1, 1), SHORT), Err(Failure::Stalled { index: 1 }));
        assert!(matches!(q.pop(SHORT), Popped::Frame(f) if f.header.sequence == 0));
        q.push(frame(1, 84), SHORT).unwrap();
        assert_eq!(q.push(frame(2, 0), SHORT), Err(Failure::Stalled { index: 2 }));
    }

    #[test]
    fn a_waiting_push_goes_on_when_there_is_room() {
        let q = Arc::new(Queue::new(100));
        q.push(frame(0, 84), SHORT).unwrap();
        let other = Arc::clone(&q);
        let pusher = std::thread::spawn(move || other.push(frame(1, 84), LONG));
        assert!(matches!(q.pop(LONG), Popped::Frame(_)));
        assert!(matches!(q.pop(LONG), Popped::Frame(f) if f.header.sequence == 1));
        pusher.join().unwrap().unwrap();
    }

    #[test]
    fn frames_taken_count_until_done() {
        let q = Queue::new(100);
        q.push(frame(0, 84), SHORT).unwrap();
        let mut out = Vec::new();
        assert!(q.pop_batch(&mut out, 8, 1));
        assert!(q.push(frame(1, 1), SHORT).is_err());
        q.done(100);
        q.push(frame(1, 1), SHORT).unwrap();
        assert_eq!(q.bytes(), 17);
    }

    #[test]
    fn a_batch_is_bounded_in_frames_and_bytes() {
        let q = Queue::new(1 << 20);
        (0..10).for_each(|i| q.push(frame(i, 84), SHORT).unwrap());
        let take = |max, enough| {
            let mut out = Vec::new();
            assert!(q.pop_batch(&mut out, max, enough));
            out.len()
        };
        assert_eq!([take(3, 1000), take(9, 101), take(9, 1), take(9, 1000)], [3, 2, 1, 4]);
    }

    #[test]
    fn end_and_failure() {
        let q = Queue::new(100);
        assert!(matches!(q.pop(SHORT), Popped::TimedOut));
        q.push(frame(0, 1), SHORT).unwrap();
        q.end(Instant::now());
        assert!(matches!(q.pop(SHORT), Popped::Frame(_)));
        assert!(matches!(q.pop(LONG), Popped::End));
        q.fail(Failure::Gone { index: 3 });
        q.fail(Failure::Stalled { index: 4 });
        assert_eq!(q.push(frame(1, 1), SHORT), Err(Failure::Gone { index: 3 }));
        assert_eq!(q.lost(), None);
        assert!(q.flush_time_over());
    }
}
