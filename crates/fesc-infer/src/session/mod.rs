//! Sessions: a client with a document and a server with a model, from the first byte to the answer.
//!
//! Where to look:
//! - [`handshake`]: what the two ends say first, and what each checks; [`message`]: how it travels and is
//!   hashed;
//! - [`public`]: the model's public part and its id; [`download`], [`cache`]: how it reaches the client and
//!   stays there;
//! - [`bucket`]: what the server may know of a document's length;
//! - [`source`]: where correlations come from: inline, ahead, a dealer, a store;
//! - [`keyring`]: a client's CKKS keys between two sessions;
//! - [`client`]: one visit of a client; [`server`]: many clients at once, within limits; [`dealer`]: the
//!   third process;
//! - [`CancelHandle`]: how a client is ended from outside; [`Randomness`]: where randomness comes from.
//!
//! | phase | what |
//! |---|---|
//! | `setup` | handshake, public part, base transfers and keys |
//! | `offline` | making correlations |
//! | `online` | the protocol on the document |
//!
//! What the server learns of a document: its length bucket, what the client chose to learn, when it came.
//! What the client learns of a model: its outline, and the label or the floored logits. Every error ends the
//! session; nothing is retried inside.
//!
//! Not guaranteed: anything against a party that leaves the protocol; that a client cannot keep a session
//! busy up to its time limit.

pub mod bucket;
pub mod cache;
mod cancel;
pub mod client;
mod container;
pub mod dealer;
mod dial;
pub mod download;
mod error;
pub mod handshake;
mod hex;
mod journal;
pub mod keyring;
pub mod message;
mod prepare;
mod provider;
pub mod public;
mod randomness;
mod record;
mod report;
pub mod server;
pub mod source;

use fesc_net::message::{Cover, Message, MessagePhase};
use fesc_ot::SilentParams;
use fesc_ring::Prg;
use sha2::{Digest, Sha256};

pub use cancel::CancelHandle;
pub use dial::Dial;
pub use error::{RefusalKind, Result, SessionError};
pub use hex::Hex32;
pub use provider::Provider;
pub use randomness::Randomness;
pub use record::{Recorder, Seen, Stream};
pub use report::{PhaseCost, Report, side};

/// Names of the phases in a channel's counts.
pub mod phase {
    /// Handshake, public part, base transfers and keys.
    pub const SETUP: &str = "setup";
    /// Making correlations.
    pub const OFFLINE: &str = "offline";
    /// The protocol on the document.
    pub const ONLINE: &str = "online";
    /// Giving shares away for a check of the program.
    pub const VERIFY: &str = "verify";
}

/// Version of the messages of [`handshake`] and of the order of the protocol after them.
pub const VERSION: u64 = 4;

/// What sessions send, by the file that does: tags 0x0680 and up, 0x0688 is the last.
pub(crate) const MESSAGES: [&[Message]; 5] =
    [message::MESSAGES, download::MESSAGES, prepare::MESSAGES, record::MESSAGES, keyring::MESSAGES];

/// What most of them have in common.
const PUBLIC: Message = Message { cover: Cover::Public, ..Message::masked("fesc-infer", &[MessagePhase::Setup]) };

/// What both ends put into the hello: that they speak sessions of this version, with these sets of silent OT.
/// Two builds with other sets would make correlations that do not fit, and might not notice.
pub fn hello() -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(b"fesc session 2");
    SilentParams::words().iter().for_each(|n| hash.update(n.to_le_bytes()));
    hash.finalize().into()
}

/// 32 fresh bytes.
fn nonce(prg: &mut Prg) -> Hex32 {
    Hex32(prg.public_bytes())
}
