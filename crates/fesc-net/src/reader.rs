//! The receiving half of a stream: header first, checked, and only then room for the payload.

use std::io::{self, Read};
use std::time::Duration;

use crate::frame::{Expected, Header, decode_header};
use crate::{HEADER_BYTES, NetError};

/// Small frames are read through a buffer of this size; larger reads go straight into the payload.
const BUFFER: usize = 64 * 1024;

/// A payload is touched in steps of this size. Its address range is reserved at once (the length is the one
/// that our own protocol asked for), but a page costs memory only when its step comes, so a peer that sends a
/// header and stalls makes us commit at most this much.
const STEP: usize = 1 << 20;

/// Reads frames from any stream.
pub(crate) struct FrameReader<R> {
    source: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    timeout: Duration,
}

impl<R: Read> FrameReader<R> {
    /// `timeout` is only reported; the source itself must give `WouldBlock` or `TimedOut` when it is over.
    pub(crate) fn new(source: R, timeout: Duration) -> FrameReader<R> {
        FrameReader { source, buffer: vec![0; BUFFER].into_boxed_slice(), start: 0, end: 0, timeout }
    }

    /// The next frame, which must be the expected one.
    pub(crate) fn frame(&mut self, expected: &Expected) -> Result<(Header, Vec<u8>), NetError> {
        let total = HEADER_BYTES as u64 + u64::from(expected.len);
        let mut bytes = [0; HEADER_BYTES];
        self.fill(&mut bytes, 0, total, expected.sequence)?;
        let header = decode_header(&bytes, expected)?;
        let payload = self.payload(expected, total)?;
        Ok((header, payload))
    }

    fn payload(&mut self, expected: &Expected, total: u64) -> Result<Vec<u8>, NetError> {
        let index = expected.sequence;
        let len = expected.len as usize;
        let mut payload = Vec::new();
        payload.try_reserve_exact(len).map_err(|_| NetError::OutOfMemory { index, len })?;
        while payload.len() < len {
            let old = payload.len();
            payload.resize(len.min(old + STEP), 0);
            let done = (HEADER_BYTES + old) as u64;
            self.fill(payload.get_mut(old..).unwrap_or_default(), done, total, index)?;
        }
        Ok(payload)
    }

    /// Fills `out`; `done` bytes of the frame's `total` came before it.
    fn fill(&mut self, mut out: &mut [u8], mut done: u64, total: u64, index: u32) -> Result<(), NetError> {
        while !out.is_empty() {
            let n = match self.some(out) {
                Ok(n) => n,
                Err(e) => return Err(self.explain(e, done, total, index)),
            };
            if n == 0 {
                return Err(ended(done, total, index));
            }
            done += n as u64;
            out = out.get_mut(n..).unwrap_or_default();
        }
        Ok(())
    }

    /// Some bytes, from the buffer or from the source; 0 at the end of the stream.
    fn some(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            if out.len() >= BUFFER {
                return read_retry(&mut self.source, out);
            }
            self.start = 0;
            self.end = read_retry(&mut self.source, &mut self.buffer)?;
        }
        // `&[u8]` as a reader copies the shorter of the two lengths.
        let n = self.buffer.get(self.start..self.end).unwrap_or_default().read(out)?;
        self.start += n;
        Ok(n)
    }

    fn explain(&self, error: io::Error, done: u64, total: u64, index: u32) -> NetError {
        use io::ErrorKind as K;
        match error.kind() {
            K::WouldBlock | K::TimedOut => NetError::Timeout { index, limit: self.timeout },
            K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe | K::UnexpectedEof | K::NotConnected => {
                ended(done, total, index)
            }
            _ => match error.downcast::<rustls::Error>() {
                Ok(source) => NetError::Tls { during: "receiving", source },
                Err(source) => NetError::Io { during: "receiving", index, source },
            },
        }
    }
}

fn read_retry(source: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(out) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn ended(done: u64, total: u64, index: u32) -> NetError {
    if done == 0 { NetError::Closed { index } } else { NetError::Truncated { index, got: done, expected: total } }
}
