//! The frame header: 16 bytes before every payload, checked in full before anything is reserved for the
//! payload.
//!
//! | offset | bytes | field | check |
//! |---|---|---|---|
//! | 0 | 2 | tag | equal to the one expected |
//! | 2 | 2 | frame version | equal to [`FRAME_VERSION`] |
//! | 4 | 4 | sequence number | equal to the number of messages received before |
//! | 8 | 4 | causal depth | see below |
//! | 12 | 4 | payload length | equal to the one expected |
//!
//! All fields are little endian. The causal depth of a message is one more than the greatest depth its sender
//! had received when it sent it. So an honest depth never falls, and is at most one more than the greatest
//! depth that we have sent ourselves; anything else is refused. A phase may have a clock of its own
//! ([`crate::Channel::begin`]): then only its own messages count. The depth carries no data of the protocol,
//! only the round count.

use crate::NetError;

/// Bytes of a frame header: tag (2), version (2), sequence number (4), causal depth (4), payload length (4).
pub const HEADER_BYTES: usize = 16;

/// The version in every frame header. Not a small number, so that text and zeros are not taken for a frame.
pub const FRAME_VERSION: u16 = 0xfe01;

/// Names a message kind; both sides must agree on the tag of every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub u16);

/// A frame header in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Message kind.
    pub tag: Tag,
    /// [`FRAME_VERSION`].
    pub version: u16,
    /// Number of the message in its direction.
    pub sequence: u32,
    /// Causal depth.
    pub depth: u32,
    /// Bytes of payload that follow.
    pub len: u32,
}

/// What the receiver knows about the next frame before it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Message kind.
    pub tag: Tag,
    /// Exact payload length.
    pub len: u32,
    /// Number of messages received before.
    pub sequence: u32,
    /// Smallest depth possible.
    pub min_depth: u32,
    /// Largest depth possible.
    pub max_depth: u32,
}

impl Header {
    /// The 16 bytes on the wire.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let [t0, t1] = self.tag.0.to_le_bytes();
        let [v0, v1] = self.version.to_le_bytes();
        let [s0, s1, s2, s3] = self.sequence.to_le_bytes();
        let [d0, d1, d2, d3] = self.depth.to_le_bytes();
        let [l0, l1, l2, l3] = self.len.to_le_bytes();
        [t0, t1, v0, v1, s0, s1, s2, s3, d0, d1, d2, d3, l0, l1, l2, l3]
    }

    /// The fields of 16 bytes, nothing checked.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Header {
        let [t0, t1, v0, v1, s0, s1, s2, s3, d0, d1, d2, d3, l0, l1, l2, l3] = *bytes;
        Header {
            tag: Tag(u16::from_le_bytes([t0, t1])),
            version: u16::from_le_bytes([v0, v1]),
            sequence: u32::from_le_bytes([s0, s1, s2, s3]),
            depth: u32::from_le_bytes([d0, d1, d2, d3]),
            len: u32::from_le_bytes([l0, l1, l2, l3]),
        }
    }

    /// Refuses a header that is not exactly the next one.
    pub fn check(&self, expected: &Expected) -> Result<(), NetError> {
        let index = expected.sequence;
        if self.version != FRAME_VERSION {
            return Err(NetError::FrameVersion { index, expected: FRAME_VERSION, got: self.version });
        }
        if self.sequence != index {
            return Err(NetError::Sequence { expected: index, got: self.sequence });
        }
        if self.tag != expected.tag || self.len != expected.len {
            return Err(NetError::Unexpected {
                index,
                expected: expected.tag,
                expected_len: expected.len as usize,
                got: self.tag,
                got_len: self.len as usize,
            });
        }
        let (min, max) = (expected.min_depth, expected.max_depth);
        if self.depth < min || self.depth > max {
            return Err(NetError::Depth { index, min, max, got: self.depth });
        }
        Ok(())
    }
}

/// Decodes a header and refuses it unless it is exactly the next one.
pub fn decode_header(bytes: &[u8; HEADER_BYTES], expected: &Expected) -> Result<Header, NetError> {
    let header = Header::parse(bytes);
    header.check(expected)?;
    Ok(header)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const GOOD: Header = Header { tag: Tag(0x0302), version: FRAME_VERSION, sequence: 7, depth: 5, len: 0x0102_0304 };
    const NEXT: Expected = Expected { tag: Tag(0x0302), len: 0x0102_0304, sequence: 7, min_depth: 5, max_depth: 6 };

    #[test]
    fn known_bytes() {
        let bytes = [0x02, 0x03, 0x01, 0xfe, 7, 0, 0, 0, 5, 0, 0, 0, 4, 3, 2, 1];
        assert_eq!(GOOD.encode(), bytes);
        assert_eq!(decode_header(&bytes, &NEXT).unwrap(), GOOD);
    }

    #[test]
    fn each_field_is_checked_and_named() {
        type Check = fn(&NetError) -> bool;
        let cases: [(Header, Check); 7] = [
            (Header { tag: Tag(1), ..GOOD }, |e| matches!(e, NetError::Unexpected { index: 7, got: Tag(1), .. })),
            (Header { version: 1, ..GOOD }, |e| matches!(e, NetError::FrameVersion { index: 7, got: 1, .. })),
            (Header { sequence: 6, ..GOOD }, |e| matches!(e, NetError::Sequence { expected: 7, got: 6 })),
            (Header { sequence: 8, ..GOOD }, |e| matches!(e, NetError::Sequence { expected: 7, got: 8 })),
            (Header { depth: 4, ..GOOD }, |e| matches!(e, NetError::Depth { index: 7, got: 4, .. })),
            (Header { depth: 7, ..GOOD }, |e| matches!(e, NetError::Depth { index: 7, got: 7, .. })),
            (Header { len: u32::MAX, ..GOOD }, |e| matches!(e, NetError::Unexpected { got_len: 0xffff_ffff, .. })),
        ];
        for (header, check) in cases {
            let error = decode_header(&header.encode(), &NEXT).unwrap_err();
            assert!(check(&error), "{header:?} gave {error}");
        }
    }

    #[test]
    fn every_single_bit_outside_the_depth_matters() {
        for bit in (0..128).filter(|b| !(64..96).contains(b)) {
            let mut bytes = GOOD.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_header(&bytes, &NEXT).is_err(), "bit {bit}");
        }
    }
}
