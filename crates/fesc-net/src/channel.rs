//! The [`Channel`]: frames, sequence numbers, causal depth.

use std::sync::mpsc;
use std::time::Duration;

use crate::{NetError, Phase, Stats};

/// Bytes of a frame header: tag (2), version (2), sequence number (4), causal depth (4), payload length (4).
pub const HEADER_BYTES: usize = 16;

/// Names a message kind; both sides must agree on the tag of every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub u16);

struct Frame {
    tag: Tag,
    sequence: u32,
    depth: u32,
    payload: Vec<u8>,
}

/// One end of a connection between two parties.
pub struct Channel {
    tx: mpsc::Sender<Frame>,
    rx: mpsc::Receiver<Frame>,
    next_out: u32,
    next_in: u32,
    depth: u32,
    received_depth: u32,
    timeout: Duration,
    stats: Stats,
    phase: usize,
}

impl Channel {
    /// Two connected ends in memory.
    pub fn memory_pair() -> (Channel, Channel) {
        let (a, b) = mpsc::channel();
        let (c, d) = mpsc::channel();
        (Channel::over(a, d), Channel::over(c, b))
    }

    fn over(tx: mpsc::Sender<Frame>, rx: mpsc::Receiver<Frame>) -> Channel {
        let stats = Stats { total: Phase::default(), phases: vec![("main".into(), Phase::default())] };
        Channel {
            tx,
            rx,
            next_out: 0,
            next_in: 0,
            depth: 0,
            received_depth: 0,
            timeout: Duration::from_secs(60),
            stats,
            phase: 0,
        }
    }

    /// Starts (or goes back to) a named phase; all counts go to it until the next call.
    pub fn phase(&mut self, name: &str) {
        self.phase = match self.stats.phases.iter().position(|(n, _)| n == name) {
            Some(i) => i,
            None => {
                self.stats.phases.push((name.into(), Phase::default()));
                self.stats.phases.len() - 1
            }
        };
    }

    /// The counts so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Sends one message. Returns as soon as it is queued.
    pub fn send(&mut self, tag: Tag, payload: Vec<u8>) -> Result<(), NetError> {
        let depth = self.received_depth + 1;
        let bytes = (payload.len() + HEADER_BYTES) as u64;
        let frame = Frame { tag, sequence: self.next_out, depth, payload };
        self.tx.send(frame).map_err(|_| NetError::Closed { index: self.next_in })?;
        self.next_out += 1;
        self.count(depth, |p| {
            p.sent_bytes += bytes;
            p.sent_frames += 1;
        });
        Ok(())
    }

    /// Receives the next message, which must have this tag and exactly `len` bytes.
    pub fn recv(&mut self, tag: Tag, len: usize) -> Result<Vec<u8>, NetError> {
        let index = self.next_in;
        let frame = self.rx.recv_timeout(self.timeout).map_err(|e| match e {
            mpsc::RecvTimeoutError::Timeout => NetError::Timeout { index, seconds: self.timeout.as_secs() },
            mpsc::RecvTimeoutError::Disconnected => NetError::Closed { index },
        })?;
        if frame.sequence != index {
            return Err(NetError::Sequence { expected: index, got: frame.sequence });
        }
        if frame.tag != tag || frame.payload.len() != len {
            return Err(NetError::Unexpected {
                index,
                expected: tag,
                expected_len: len,
                got: frame.tag,
                got_len: frame.payload.len(),
            });
        }
        self.next_in += 1;
        self.received_depth = self.received_depth.max(frame.depth);
        self.count(frame.depth, |p| {
            p.received_bytes += (len + HEADER_BYTES) as u64;
            p.received_frames += 1;
        });
        Ok(frame.payload)
    }

    /// Sends one message and receives one: a single round when both parties call it together.
    pub fn exchange(&mut self, tag: Tag, payload: Vec<u8>, len: usize) -> Result<Vec<u8>, NetError> {
        self.send(tag, payload)?;
        self.recv(tag, len)
    }

    fn count(&mut self, depth: u32, update: impl Fn(&mut Phase)) {
        let grown = u64::from(depth.saturating_sub(self.depth));
        self.depth = self.depth.max(depth);
        let phase = self.phase;
        for p in [&mut self.stats.total].into_iter().chain(self.stats.phases.get_mut(phase).map(|(_, p)| p)) {
            update(p);
            p.rounds += grown;
        }
    }
}
