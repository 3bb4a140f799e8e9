//! A client's CKKS keys between two sessions: made for the rotations of a plan, uploaded once, kept by both
//! ends.
//!
//! | where | what |
//! |---|---|
//! | `shelf` | one side's directory: kept, in use, retired |
//! | `file` | the bytes of a file of kept keys |
//! | `quota` | what a server keeps: whose, how much, how long |
//! | `terms` | what the two ends say of them |
//!
//! The client has the secret keys, the server the evaluation keys as they travelled; each keeps them in its
//! state directory, under the name that both compute of the public keys ([`crate::keys`]). A server keeps
//! those of listed clients alone, by the certificate that they show; keys of others serve one session.
//!
//! A session holds its keys alone. Cost at the server: a session reads and expands its keys, and drops them
//! at its end; nothing stays in memory in between. A client that runs several sessions at once has keys for
//! each.
//!
//! What long-lived keys give up: sessions under one key are linked, and there is no forward secrecy: who gets
//! the client's file reads what was encrypted under it. So keys have an age, and are retired at both ends
//! when a session dies behind a conversion, since what a client does then may tell of a decrypted value.

mod file;
mod quota;
mod shelf;
mod terms;

pub(in crate::session) use file::Note;
pub use file::SetNote;
pub use quota::{KeyLimits, MOST_DAYS, MOST_KEYS};
pub(in crate::session) use quota::{Keyring, Over, Room};
pub(in crate::session) use shelf::{Claim, Claimed, Draft, Shelf};
pub use terms::{Grant, Kept, Listing, Order, Wish};

use std::time::Duration;

use fesc_hybrid::keys::KeyShape;
use fesc_net::Tag;
use fesc_net::message::{Message, Sessions, Size};

use super::hex::Hex32;
use super::{PUBLIC, Result};
use crate::keys::KeySets;

/// The session's keys are ready at the server; or kept on this side.
pub(in crate::session) const READY: Tag = Tag(0x0688);

/// What is said of them besides the handshake.
pub(in crate::session) const MESSAGES: &[Message] = &[Message {
    tag: READY.0,
    name: "the session's keys are ready, or kept",
    sessions: Sessions::Ckks,
    size: Size::Exact(0),
    formula: "0, from the server when it has them; each way when a session has ended well, if they are kept",
    mask: "empty",
    tests: &["keys_go_up_once_and_serve_the_next_session"],
    ..PUBLIC
}];

/// What keys are made for.
#[derive(Debug, Clone)]
pub(in crate::session) struct KeyPurpose {
    /// At the client: the server; empty at the server.
    pub server: String,
    /// Fingerprint of the client's certificate.
    pub client: Option<String>,
    pub plan: String,
    pub bucket: usize,
    /// How long they may serve.
    pub age: Duration,
}

impl Shelf {
    /// The note of keys of these shapes that are made now.
    pub fn note_of(&self, shapes: &KeySets<KeyShape>, purpose: KeyPurpose) -> Result<Note> {
        let set = |(name, shape): (&str, &KeyShape)| SetNote {
            set: name.into(),
            degree: shape.params().degree(),
            keys: shape.count(),
        };
        Ok(Note {
            server: purpose.server,
            client: purpose.client,
            shape: Hex32(shapes.digest()),
            plan: purpose.plan,
            bucket: purpose.bucket,
            sets: shapes.named().map(set).collect(),
            bytes: shapes.payload(),
            serve_s: purpose.age.as_secs(),
            stamp: self.stamp()?,
        })
    }
}

/// The bodies of the fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    /// A file of kept keys.
    pub fn file(data: &[u8]) -> bool {
        super::file::fuzz(data)
    }

    /// A message about keys.
    pub fn message(data: &[u8]) -> bool {
        super::terms::fuzz(data)
    }
}
