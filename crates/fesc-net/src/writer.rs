//! The writer thread: takes frames from the queue, paces them, puts them on the socket.
//!
//! Without shaping, everything that waits goes out in one vectored write: small frames are coalesced, large
//! payloads are never copied, and nothing waits for more to come. With shaping, each piece goes out at its
//! release time.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::frame::Header;
use crate::profile::{Pacer, Profile};
use crate::queue::{Failure, Frame, Queue};
use crate::{HEADER_BYTES, NetError};

/// Frames per vectored write; two slices each stay below the system's limit of 1024.
const BATCH: usize = 256;

/// No more frames are added to a write of this size, so that the memory of large ones is given back while the
/// next are on their way.
const BATCH_BYTES: usize = 256 * 1024;

/// The outgoing half of a stream.
pub(crate) trait Sink: Send {
    /// Writes some bytes of the slices, at least one. A peer that takes nothing within the time limit gives
    /// `WouldBlock` or `TimedOut`.
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Says that no more will come.
    fn finish(&mut self) -> io::Result<()>;
    /// Ends both directions at once, so that a blocked reader wakes.
    fn abort(&mut self);
}

/// Where the writer thread puts the frames.
pub(crate) enum Output {
    /// The inbox of a peer in memory.
    Memory(Arc<Queue>),
    /// A socket.
    Stream(Box<dyn Sink>),
}

/// Starts the thread that empties `queue` into `output`.
pub(crate) fn spawn(
    queue: Arc<Queue>,
    output: Output,
    profile: Profile,
    stall: Duration,
) -> Result<JoinHandle<()>, NetError> {
    let pacer = (!profile.is_none()).then(|| Pacer::new(profile));
    let mut writer = Writer { queue, output, pacer, start: Instant::now(), stall };
    thread::Builder::new()
        .name("fesc-net writer".into())
        .spawn(move || {
            writer.run();
            writer.queue.leave();
        })
        .map_err(|source| NetError::Io { during: "starting the writer thread", index: 0, source })
}

struct Writer {
    queue: Arc<Queue>,
    output: Output,
    pacer: Option<Pacer>,
    /// Time zero of the pacer.
    start: Instant,
    stall: Duration,
}

impl Writer {
    fn run(&mut self) {
        let result = self.pump();
        if let Err(failure) = result {
            self.queue.fail(failure);
        }
        match &mut self.output {
            // The pacing is over, so the peer may take the rest at leisure.
            Output::Memory(inbox) => inbox.end(Instant::now()),
            Output::Stream(sink) => {
                let finished = if result.is_ok() { sink.finish() } else { Ok(()) };
                // A peer that is gone may have left unread messages, which we can still receive. One that
                // does not read will not write either: wake our reader.
                if result.is_err_and(|f| !matches!(f, Failure::Gone { .. })) {
                    sink.abort();
                }
                if let Err(error) = finished {
                    tracing::debug!(%error, "the peer left before the end of the stream was sent");
                }
            }
        }
    }

    fn pump(&mut self) -> Result<(), Failure> {
        let mut batch = Vec::new();
        while self.queue.pop_batch(&mut batch, BATCH, BATCH_BYTES) {
            if self.pacer.is_none() {
                self.write_batch(&batch)?;
                let bytes = batch.iter().map(Frame::bytes).sum();
                batch.clear();
                self.queue.done(bytes);
            } else {
                for frame in batch.drain(..) {
                    self.write_paced(frame)?;
                }
            }
        }
        Ok(())
    }

    fn write_batch(&mut self, batch: &[Frame]) -> Result<(), Failure> {
        let headers: Vec<[u8; HEADER_BYTES]> = batch.iter().map(|f| f.header.encode()).collect();
        let mut slices = Vec::with_capacity(2 * batch.len());
        for (header, frame) in headers.iter().zip(batch) {
            slices.push(IoSlice::new(header));
            if !frame.payload.is_empty() {
                slices.push(IoSlice::new(&frame.payload));
            }
        }
        let index = batch.first().map_or(0, |f| f.header.sequence);
        self.write_all(&mut slices, index)
    }

    fn write_paced(&mut self, frame: Frame) -> Result<(), Failure> {
        let bytes = frame.bytes();
        let queued = frame.queued.saturating_duration_since(self.start);
        let Some(pacer) = &mut self.pacer else { return Ok(()) };
        if let Output::Memory(inbox) = &self.output {
            let at = pacer.release(queued, bytes as u64);
            self.sleep_until(at, frame.header.sequence)?;
            inbox.push(frame, self.stall)?;
        } else {
            let Frame { header, payload, .. } = frame;
            self.write_pieces(&header, &payload, queued)?;
        }
        self.queue.done(bytes);
        Ok(())
    }

    fn write_pieces(&mut self, header: &Header, payload: &[u8], queued: Duration) -> Result<(), Failure> {
        let head = header.encode();
        // The first piece has the header; an empty payload still makes that one piece.
        let (first, rest) = payload.split_at(payload.len().min(Pacer::PIECE_BYTES - HEADER_BYTES));
        let pieces = std::iter::once((&head[..], first)).chain(rest.chunks(Pacer::PIECE_BYTES).map(|c| (&[][..], c)));
        for (head, piece) in pieces {
            let Some(pacer) = &mut self.pacer else { return Ok(()) };
            let at = pacer.release(queued, (head.len() + piece.len()) as u64);
            self.sleep_until(at, header.sequence)?;
            let mut slices: Vec<_> = [head, piece].into_iter().filter(|s| !s.is_empty()).map(IoSlice::new).collect();
            self.write_all(&mut slices, header.sequence)?;
            self.queue.alive();
        }
        Ok(())
    }

    /// Sleeps to an absolute time of the pacer, so that oversleeping does not add up. Short naps, so that a
    /// peer that waits for room in the queue sees that we live.
    fn sleep_until(&self, at: Duration, index: u32) -> Result<(), Failure> {
        loop {
            let left = at.saturating_sub(self.start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            if self.queue.flush_time_over() {
                return Err(Failure::Stalled { index });
            }
            thread::sleep(left.min(Duration::from_millis(20)));
            self.queue.alive();
        }
    }

    fn write_all(&mut self, mut slices: &mut [IoSlice<'_>], index: u32) -> Result<(), Failure> {
        let Output::Stream(sink) = &mut self.output else { return Ok(()) };
        while !slices.is_empty() {
            match sink.write(slices) {
                Ok(0) => return Err(Failure::Gone { index }),
                Ok(n) => {
                    IoSlice::advance_slices(&mut slices, n);
                    if !slices.is_empty() {
                        self.queue.alive();
                        if self.queue.flush_time_over() {
                            return Err(Failure::Stalled { index });
                        }
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failure_of(&e, index)),
            }
        }
        Ok(())
    }
}

fn failure_of(error: &io::Error, index: u32) -> Failure {
    use io::ErrorKind as K;
    match error.kind() {
        K::WouldBlock | K::TimedOut => Failure::Stalled { index },
        K::BrokenPipe | K::ConnectionReset | K::ConnectionAborted | K::NotConnected | K::UnexpectedEof => {
            Failure::Gone { index }
        }
        kind => Failure::Os { index, kind },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Tag;
    use crate::frame::FRAME_VERSION;
    use std::sync::Mutex;

    const STALL: Duration = Duration::from_secs(5);

    /// What a sink was asked to do.
    #[derive(Default)]
    struct Log {
        bytes: Vec<u8>,
        /// Per write, the address (only compared, never followed) and the length of each slice.
        writes: Vec<Vec<(usize, usize)>>,
        finished: bool,
        aborted: bool,
    }

    struct Recorder {
        log: Arc<Mutex<Log>>,
        at_most: usize,
        error: Option<io::ErrorKind>,
    }

    impl Sink for Recorder {
        fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            if let Some(kind) = self.error {
                return Err(kind.into());
            }
            let mut log = self.log.lock().unwrap();
            log.writes.push(slices.iter().map(|s| (s.as_ptr() as usize, s.len())).collect());
            let before = log.bytes.len();
            log.bytes.extend(slices.iter().flat_map(|s| s.iter()).take(self.at_most));
            Ok(log.bytes.len() - before)
        }
        fn finish(&mut self) -> io::Result<()> {
            self.log.lock().unwrap().finished = true;
            Ok(())
        }
        fn abort(&mut self) {
            self.log.lock().unwrap().aborted = true;
        }
    }

    fn frame(sequence: u32, payload: Vec<u8>) -> Frame {
        let header = Header { tag: Tag(1), version: FRAME_VERSION, sequence, depth: 1, len: payload.len() as u32 };
        Frame { header, payload, queued: Instant::now() }
    }

    /// Queues all frames first, then runs the writer until it ends.
    fn run(
        frames: Vec<Frame>,
        at_most: usize,
        error: Option<io::ErrorKind>,
        profile: Profile,
    ) -> (Log, Option<Failure>) {
        let queue = Arc::new(Queue::new(usize::MAX));
        for frame in frames {
            queue.push(frame, STALL).unwrap();
        }
        queue.end(Instant::now() + STALL);
        let log = Arc::new(Mutex::new(Log::default()));
        let sink = Box::new(Recorder { log: Arc::clone(&log), at_most, error });
        spawn(Arc::clone(&queue), Output::Stream(sink), profile, STALL).unwrap().join().unwrap();
        let log = std::mem::take(&mut *log.lock().unwrap());
        (log, queue.lost())
    }

    fn wire(frames: &[Frame]) -> Vec<u8> {
        frames.iter().flat_map(|f| [f.header.encode().to_vec(), f.payload.clone()].concat()).collect()
    }

    #[test]
    fn small_frames_leave_in_one_write() {
        let frames: Vec<_> = (0..100).map(|i| frame(i, vec![i as u8; i as usize % 5])).collect();
        let expected = wire(&frames);
        let (log, lost) = run(frames, usize::MAX, None, Profile::NONE);
        assert_eq!(log.writes.len(), 1);
        assert_eq!(log.bytes, expected);
        assert!(log.finished && !log.aborted && lost.is_none());
    }

    #[test]
    fn a_large_payload_is_not_copied() {
        let payload = vec![3; 1 << 20];
        let at = payload.as_ptr() as usize;
        let (log, _) = run(vec![frame(0, payload)], usize::MAX, None, Profile::NONE);
        assert_eq!(log.writes.len(), 1);
        assert_eq!(log.writes[0][1], (at, 1 << 20));
    }

    #[test]
    fn short_writes_lose_nothing() {
        let frames = || (0..9).map(|i| frame(i, vec![i as u8; 11 * i as usize])).collect::<Vec<_>>();
        let (log, lost) = run(frames(), 7, None, Profile::NONE);
        assert_eq!(log.bytes, wire(&frames()));
        assert!(lost.is_none());
    }

    #[test]
    fn shaped_frames_leave_in_pieces() {
        let frames = || vec![frame(0, vec![5; 200_000]), frame(1, vec![])];
        let (log, _) = run(frames(), usize::MAX, None, Profile::new(1_000_000_000_000, Duration::ZERO));
        assert_eq!(log.bytes, wire(&frames()));
        let sizes: Vec<usize> = log.writes.iter().map(|w| w.iter().map(|s| s.1).sum()).collect();
        assert_eq!(sizes, [65_536, 65_536, 65_536, 200_016 - 3 * 65_536, 16]);
    }

    #[test]
    fn errors_say_what_happened_to_the_peer() {
        use io::ErrorKind as K;
        for (kind, failure, aborts) in [
            (K::WouldBlock, Failure::Stalled { index: 4 }, true),
            (K::TimedOut, Failure::Stalled { index: 4 }, true),
            (K::BrokenPipe, Failure::Gone { index: 4 }, false),
            (K::ConnectionReset, Failure::Gone { index: 4 }, false),
            (K::PermissionDenied, Failure::Os { index: 4, kind: K::PermissionDenied }, true),
        ] {
            let (log, lost) = run(vec![frame(4, vec![1])], usize::MAX, Some(kind), Profile::NONE);
            assert_eq!(lost, Some(failure));
            assert_eq!((log.finished, log.aborted), (false, aborts), "{kind:?}");
        }
    }
}
