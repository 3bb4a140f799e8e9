//! The hello: the first message in both directions, message 0, before anything of a protocol is sent.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 16 | frame header: tag [`HELLO_TAG`], sequence 0, depth 1, length 80 |
//! | 16 | 8 | magic `FESC-2PC` |
//! | 24 | 2 | protocol version |
//! | 26 | 2 | role: 0 client, 1 server |
//! | 28 | 4 | zero |
//! | 32 | 32 | hash of the session and its parameters, from the caller |
//! | 64 | 32 | TLS exporter value of this connection; zero without TLS |
//!
//! Two ends that do not run the same thing stop here. The exporter value ties the hello to its TLS
//! connection.

use subtle::ConstantTimeEq;

use crate::frame::{FRAME_VERSION, Header};
use crate::message::{Cover, Message, MessagePhase, Size, ways};
use crate::{HEADER_BYTES, NetError, Tag};

/// The version of everything above the framing.
pub const PROTOCOL_VERSION: u16 = 1;

/// The tag of the hello.
pub const HELLO_TAG: Tag = Tag(0x0100);

/// The message that this crate sends by itself.
pub const MESSAGES: &[Message] = &[Message {
    tag: HELLO_TAG.0,
    name: "hello",
    ways: ways::ALL,
    size: Size::Exact(PAYLOAD),
    formula: "80",
    cover: Cover::Public,
    mask: "public: versions, role, a constant, the TLS exporter of this connection",
    tests: &["a_hello_of_another_tls_connection_is_refused"],
    ..Message::masked("fesc-net", &[MessagePhase::Setup])
}];

/// Bytes of a hello with its frame header.
pub const HELLO_BYTES: usize = HEADER_BYTES + PAYLOAD;

const PAYLOAD: usize = 80;
const MAGIC: [u8; 8] = *b"FESC-2PC";
const HEADER: Header = Header { tag: HELLO_TAG, version: FRAME_VERSION, sequence: 0, depth: 1, len: PAYLOAD as u32 };

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The end that connects.
    Client,
    /// The end that listens.
    Server,
}

impl Role {
    /// The other one.
    pub fn peer(self) -> Role {
        match self {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        }
    }

    fn code(self) -> u16 {
        match self {
            Role::Client => 0,
            Role::Server => 1,
        }
    }
}

/// What one end says first, and what it expects of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Of the end that speaks.
    pub role: Role,
    /// Hash of the session and its parameters.
    pub session: [u8; 32],
    /// TLS exporter value, zero without TLS.
    pub binding: [u8; 32],
}

impl Hello {
    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let header = HEADER.encode();
        let fields = [
            &header[..],
            &MAGIC,
            &PROTOCOL_VERSION.to_le_bytes(),
            &self.role.code().to_le_bytes(),
            &[0; 4],
            &self.session,
            &self.binding,
        ];
        let mut out = [0; HELLO_BYTES];
        for (to, from) in out.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        out
    }
}

/// Decodes a hello and refuses it unless it is `expected`.
///
/// The magic and the version come first: a later version may change all the rest.
pub fn decode_hello(bytes: &[u8; HELLO_BYTES], expected: &Hello) -> Result<(), NetError> {
    let mut rest = bytes.as_slice();
    let header = take::<HEADER_BYTES>(&mut rest);
    if take(&mut rest) != MAGIC {
        return Err(NetError::NotOurs { hint: not_ours(bytes).unwrap_or("the first bytes are not a hello") });
    }
    let version = u16::from_le_bytes(take(&mut rest));
    if version != PROTOCOL_VERSION {
        return Err(NetError::ProtocolVersion { expected: PROTOCOL_VERSION, got: version });
    }
    if header != HEADER.encode() {
        return Err(NetError::NotOurs { hint: "the hello has a damaged frame header" });
    }
    let role = u16::from_le_bytes(take(&mut rest));
    if role == expected.role.peer().code() {
        return Err(NetError::Role);
    }
    if role != expected.role.code() || take(&mut rest) != [0; 4] {
        return Err(NetError::NotOurs { hint: "the hello has unknown fields" });
    }
    let session: [u8; 32] = take(&mut rest);
    if session != expected.session {
        let head = |hash: &[u8; 32]| u32::from_be_bytes(take(&mut hash.as_slice()));
        return Err(NetError::Session { expected: head(&expected.session), got: head(&session) });
    }
    let binding: [u8; 32] = take(&mut rest);
    if !bool::from(binding.ct_eq(&expected.binding)) {
        return Err(NetError::Binding);
    }
    Ok(())
}

/// The next `N` bytes. The callers' sizes add up to no more than the input, so the zeros are never seen.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    match rest.split_first_chunk::<N>() {
        Some((head, tail)) => {
            *rest = tail;
            *head
        }
        None => [0; N],
    }
}

/// What foreign bytes look like, when they look like something known.
pub(crate) fn not_ours(bytes: &[u8; HELLO_BYTES]) -> Option<&'static str> {
    match bytes {
        [0x15 | 0x16, 0x03, ..] => Some("it speaks TLS, this end was told to use plaintext"),
        [b'G', b'E', b'T', b' ', ..] | [b'P', b'O', b'S', b'T', ..] | [b'H', b'T', b'T', b'P', ..] => {
            Some("it speaks HTTP")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const CLIENT: Hello = Hello { role: Role::Client, session: [7; 32], binding: [9; 32] };

    #[test]
    fn known_bytes() {
        let bytes = CLIENT.encode();
        let head = [0x00, 0x01, 0x01, 0xfe, 0, 0, 0, 0, 1, 0, 0, 0, 80, 0, 0, 0];
        assert_eq!(bytes[..16], head);
        assert_eq!(&bytes[16..32], b"FESC-2PC\x01\x00\x00\x00\x00\x00\x00\x00");
        assert_eq!(bytes[32..], [[7; 32], [9; 32]].concat());
        decode_hello(&bytes, &CLIENT).unwrap();
    }

    #[test]
    fn each_mismatch_has_its_own_error() {
        let refused = |hello: Hello| decode_hello(&hello.encode(), &CLIENT).unwrap_err();
        assert!(matches!(refused(Hello { role: Role::Server, ..CLIENT }), NetError::Role));
        assert!(matches!(
            refused(Hello { session: [8; 32], ..CLIENT }),
            NetError::Session { expected: 0x0707_0707, got: 0x0808_0808 }
        ));
        assert!(matches!(refused(Hello { binding: [0; 32], ..CLIENT }), NetError::Binding));
        let mut newer = CLIENT.encode();
        newer[24] = 2;
        assert!(matches!(decode_hello(&newer, &CLIENT), Err(NetError::ProtocolVersion { expected: 1, got: 2 })));
        let mut tls = [0; HELLO_BYTES];
        tls[..3].copy_from_slice(&[0x16, 0x03, 0x01]);
        assert!(decode_hello(&tls, &CLIENT).unwrap_err().to_string().contains("TLS"));
    }

    #[test]
    fn every_single_bit_matters() {
        for bit in 0..HELLO_BYTES * 8 {
            let mut bytes = CLIENT.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_hello(&bytes, &CLIENT).is_err(), "bit {bit}");
        }
    }
}
