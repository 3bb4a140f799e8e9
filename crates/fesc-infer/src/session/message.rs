//! Messages of the handshake: JSON with a size limit, absorbed into a running hash.
//!
//! A message is two frames, its length (4 bytes) and its text. Both ends hash every message in the order of
//! the wire; at the end they compare the hashes ([`Talk::compare`]), so that two ends which read the
//! handshake differently stop.

use fesc_net::message::ways::TALKING;
use fesc_net::message::{Message, Size};
use fesc_net::{Channel, Tag};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::PUBLIC;
use super::error::{Result, SessionError};

/// Length of a message of the handshake.
const LENGTH: Tag = Tag(0x0680);
/// A message of the handshake.
const MESSAGE: Tag = Tag(0x0681);
/// Hash of the handshake.
const TRANSCRIPT: Tag = Tag(0x0682);

/// What this file sends.
pub(super) const MESSAGES: &[Message] = &[
    Message {
        tag: LENGTH.0,
        name: "length of a message of the handshake",
        ways: TALKING,
        size: Size::Exact(4),
        formula: "4",
        mask: "public, as the message is",
        tests: &["both_ends_hash_what_was_said"],
        ..PUBLIC
    },
    Message {
        tag: MESSAGE.0,
        name: "message of the handshake",
        ways: TALKING,
        size: Size::AtMost(65_536),
        formula: "as the message before says, at most 64 KiB",
        mask: "public: nonces, model id, digest of the outline, bucket, what is revealed, provider, limits, names and digests of keys, refusals",
        tests: &["both_ends_hash_what_was_said", "another_handshake_is_refused"],
        ..PUBLIC
    },
    Message {
        tag: TRANSCRIPT.0,
        name: "hash of the handshake",
        size: Size::Exact(32),
        formula: "32",
        mask: "public, as the handshake is",
        tests: &["both_ends_hash_what_was_said", "another_handshake_is_refused"],
        ..PUBLIC
    },
];

/// No message of the handshake is longer.
pub const MAX_MESSAGE: u64 = 64 * 1024;

/// A handshake under way.
pub struct Talk {
    transcript: Sha256,
}

impl Default for Talk {
    /// Nothing said yet.
    fn default() -> Self {
        Self { transcript: Sha256::new_with_prefix(b"fesc session transcript 1\0") }
    }
}

impl Talk {
    fn absorb(&mut self, bytes: &[u8]) {
        self.transcript.update((bytes.len() as u64).to_le_bytes());
        self.transcript.update(bytes);
    }

    /// Sends a message.
    pub fn tell<T: Serialize>(&mut self, channel: &mut Channel, what: &'static str, message: &T) -> Result<()> {
        let bytes = serde_json::to_vec(message).map_err(|e| SessionError::malformed(what, e))?;
        self.absorb(&bytes);
        channel.send(LENGTH, (bytes.len() as u32).to_le_bytes().to_vec())?;
        Ok(channel.send(MESSAGE, bytes)?)
    }

    /// Receives a message as JSON of any form.
    pub fn hear_any(&mut self, channel: &mut Channel, what: &'static str) -> Result<Value> {
        let length = channel.recv(LENGTH, 4)?;
        let length = length.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b));
        if u64::from(length) > MAX_MESSAGE {
            return Err(SessionError::TooLarge { what, value: length.into(), limit: MAX_MESSAGE });
        }
        let bytes = channel.recv(MESSAGE, length as usize)?;
        self.absorb(&bytes);
        serde_json::from_slice(&bytes).map_err(|e| SessionError::malformed(what, e))
    }

    /// Receives a message of a known form.
    pub fn hear<T: DeserializeOwned>(&mut self, channel: &mut Channel, what: &'static str) -> Result<T> {
        parse(self.hear_any(channel, what)?, what)
    }

    /// The hash of all that was said.
    pub fn digest(&self) -> [u8; 32] {
        self.transcript.clone().finalize().into()
    }

    /// Exchanges the hashes of all that was said and refuses a peer that has another one. One round.
    pub fn compare(&self, channel: &mut Channel) -> Result<[u8; 32]> {
        let ours = self.digest();
        let theirs = channel.exchange(TRANSCRIPT, ours.to_vec(), ours.len())?;
        if theirs != ours {
            return Err(SessionError::Transcript);
        }
        Ok(ours)
    }
}

/// JSON of a known form.
pub fn parse<T: DeserializeOwned>(value: Value, what: &'static str) -> Result<T> {
    serde_json::from_value(value).map_err(|e| SessionError::malformed(what, e))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pair() -> (Channel, Channel) {
        Channel::memory_pair()
    }

    #[test]
    fn both_ends_hash_what_was_said() {
        let (mut a, mut b) = pair();
        let (mut here, mut there) = (Talk::default(), Talk::default());
        here.tell(&mut a, "word", &vec![1, 2, 3]).unwrap();
        let heard: Vec<u8> = there.hear(&mut b, "word").unwrap();
        assert_eq!(heard, [1, 2, 3]);
        there.tell(&mut b, "answer", &"yes").unwrap();
        let heard: String = here.hear(&mut a, "answer").unwrap();
        assert_eq!(heard, "yes");
        let far = std::thread::spawn(move || there.compare(&mut b).unwrap());
        assert_eq!(here.compare(&mut a).unwrap(), far.join().unwrap());
    }

    #[test]
    fn another_handshake_is_refused() {
        let (mut a, mut b) = pair();
        let (mut here, there) = (Talk::default(), Talk::default());
        here.tell(&mut a, "word", &1).unwrap();
        b.recv(LENGTH, 4).unwrap();
        b.recv(MESSAGE, 1).unwrap();
        let far = std::thread::spawn(move || there.compare(&mut b));
        assert!(matches!(here.compare(&mut a), Err(SessionError::Transcript)));
        assert!(matches!(far.join().unwrap(), Err(SessionError::Transcript)));
    }

    #[test]
    fn what_a_hostile_peer_writes_reaches_no_terminal_as_it_is() {
        let hostile = serde_json::json!({ format!("\u{1b}]0;gone\u{7}\n{}", "x".repeat(60_000)): 1 });
        let refused = parse::<crate::session::handshake::Granted>(hostile, "answer").unwrap_err().to_string();
        assert!(refused.len() < 600 && !refused.chars().any(char::is_control), "{refused}");
    }

    #[test]
    fn hostile_messages_are_refused_before_memory_is_reserved() {
        let (mut a, mut b) = pair();
        a.send(LENGTH, u32::MAX.to_le_bytes().to_vec()).unwrap();
        let refused = Talk::default().hear_any(&mut b, "offer");
        assert!(matches!(refused, Err(SessionError::TooLarge { what: "offer", .. })));
        for text in ["", "{", "\"\\ud800\"", &"[".repeat(5000), "nul"] {
            let (mut a, mut b) = pair();
            a.send(LENGTH, (text.len() as u32).to_le_bytes().to_vec()).unwrap();
            a.send(MESSAGE, text.as_bytes().to_vec()).unwrap();
            let refused = Talk::default().hear_any(&mut b, "offer");
            assert!(matches!(refused, Err(SessionError::Malformed { what: "offer", .. })), "{text}");
        }
    }
}
