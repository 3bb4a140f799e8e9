//! The model's public part on the wire: a stream in bounded frames.
//!
//! The receiver knows the size beforehand. Frames have 1 MiB, the last one less; after every `WINDOW` of them
//! the receiver says that it has taken them, so that neither side ever holds more than a window of bytes for
//! the other.

use std::io::{self, Read, Write};

use fesc_net::message::ways::{DOWN, UP};
use fesc_net::message::{Cover, Message, Sessions, Size};
use fesc_net::{Channel, HEADER_BYTES, NetError, Tag};

use super::PUBLIC;

/// A piece of the public part.
pub(super) const CHUNK: Tag = Tag(0x0683);
/// A window of pieces was taken.
const TAKEN: Tag = Tag(0x0684);

/// What this file sends.
pub(super) const MESSAGES: &[Message] = &[
    Message {
        tag: CHUNK.0,
        name: "pieces of the model's public part",
        ways: DOWN,
        size: Size::AtMost(1 << 20),
        formula: "2^20, the last piece less",
        cover: Cover::CardThenUniform,
        mask: "card public (outline, tokenizer); hints and table: RLWE under the server's secrets; a table that its operator made public: none",
        tests: &["hint_without_its_mask_gives_the_weights_away", "one_mask_for_two_models_gives_their_difference_away"],
        ..PUBLIC
    },
    Message {
        tag: TAKEN.0,
        name: "pieces were taken",
        ways: UP,
        sessions: Sessions::Large,
        size: Size::Exact(0),
        formula: "0, after every 32 pieces",
        mask: "empty",
        ..PUBLIC
    },
];

const FRAME: usize = 1 << 20;
const WINDOW: u64 = 32;

/// Both ends' bytes on the wire for a public part of `total` bytes: its pieces, that they were taken, and the
/// headers of both.
pub fn wire_bytes(total: u64) -> u64 {
    let frame = FRAME as u64;
    total + HEADER_BYTES as u64 * (total.div_ceil(frame) + total / frame / WINDOW)
}

fn broken(error: NetError) -> io::Error {
    io::Error::other(error)
}

/// The sending end: what is written to it goes to the peer.
pub struct Upload<'a> {
    channel: &'a mut Channel,
    buffer: Vec<u8>,
    left: u64,
    frames: u64,
}

impl<'a> Upload<'a> {
    /// For exactly `total` bytes.
    pub fn new(channel: &'a mut Channel, total: u64) -> Self {
        Self { channel, buffer: Vec::new(), left: total, frames: 0 }
    }

    fn post(&mut self) -> io::Result<()> {
        // The last piece, if it is a short one, is not answered.
        let whole = self.buffer.len() == FRAME;
        self.channel.send(CHUNK, std::mem::take(&mut self.buffer)).map_err(broken)?;
        self.frames += 1;
        if whole && self.frames.is_multiple_of(WINDOW) {
            self.channel.recv(TAKEN, 0).map_err(broken)?;
        }
        Ok(())
    }

    /// Sends the rest.
    ///
    /// # Errors
    /// If fewer bytes than announced were written.
    pub fn finish(mut self) -> io::Result<()> {
        if self.left > 0 {
            return Err(io::Error::other("fewer bytes than announced"));
        }
        if self.buffer.is_empty() { Ok(()) } else { self.post() }
    }
}

impl Write for Upload<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = (FRAME - self.buffer.len()).min(bytes.len());
        let (taken, _) = bytes.split_at(room);
        self.left = self.left.checked_sub(room as u64).ok_or_else(|| io::Error::other("more bytes than announced"))?;
        self.buffer.extend_from_slice(taken);
        if self.buffer.len() == FRAME {
            self.post()?;
        }
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The receiving end.
pub struct Download<'a> {
    channel: &'a mut Channel,
    frame: io::Cursor<Vec<u8>>,
    left: u64,
    frames: u64,
}

impl<'a> Download<'a> {
    /// For exactly `total` bytes.
    pub fn new(channel: &'a mut Channel, total: u64) -> Self {
        Self { channel, frame: io::Cursor::default(), left: total, frames: 0 }
    }
}

impl Read for Download<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let unread = self.frame.get_ref().len() as u64 - self.frame.position();
        if unread == 0 && self.left > 0 && !out.is_empty() {
            let next = self.left.min(FRAME as u64);
            self.frame = io::Cursor::new(self.channel.recv(CHUNK, next as usize).map_err(broken)?);
            self.left -= next;
            self.frames += 1;
            if next == FRAME as u64 && self.frames.is_multiple_of(WINDOW) {
                self.channel.send(TAKEN, Vec::new()).map_err(broken)?;
            }
        }
        self.frame.read(out)
    }
}

/// A network error that came through `std::io`, as itself.
pub fn network(error: io::Error) -> Result<NetError, io::Error> {
    error.downcast::<NetError>()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_size_arrives() {
        for total in [0, 1, FRAME - 1, FRAME, FRAME + 1, 31 * FRAME + 5, 32 * FRAME, 33 * FRAME + 5, 64 * FRAME] {
            let (mut a, mut b) = Channel::memory_pair();
            let bytes: Vec<u8> = (0..total).map(|i| (i ^ (i >> 11)) as u8).collect();
            let sent = bytes.clone();
            let sender = std::thread::spawn(move || {
                let mut upload = Upload::new(&mut a, total as u64);
                sent.chunks(70_001).for_each(|c| upload.write_all(c).unwrap());
                upload.finish().unwrap();
                let spent = a.stats().total;
                assert_eq!(spent.sent_bytes + spent.received_bytes, wire_bytes(total as u64), "{total}");
                a.recv(TAKEN, 0).unwrap();
            });
            let mut got = Vec::new();
            Download::new(&mut b, total as u64).read_to_end(&mut got).unwrap();
            assert!(got == bytes, "{total}");
            b.send(TAKEN, Vec::new()).unwrap();
            sender.join().unwrap();
        }
    }

    #[test]
    fn more_or_fewer_bytes_than_announced_are_refused() {
        let (mut a, _b) = Channel::memory_pair();
        assert!(Upload::new(&mut a, 2).write_all(&[0; 3]).is_err());
        let mut short = Upload::new(&mut a, 2);
        short.write_all(&[0]).unwrap();
        assert!(short.finish().is_err());
    }

    #[test]
    fn a_dead_peer_is_named() {
        let (a, mut b) = Channel::memory_pair();
        drop(a);
        let error = Download::new(&mut b, 5).read(&mut [0; 5]).unwrap_err();
        assert!(matches!(network(error), Ok(NetError::Closed { .. })));
    }
}
