//! The channel between two parties.
//!
//! One [`Channel`] serves every protocol. A message is a frame with a tag, a sequence number and a length
//! that the receiver already knows; anything else is refused before memory is reserved for it. Sending does
//! not wait for the peer's reading (a writer thread owns the outgoing half) until [`Config::queue_bytes`] are
//! queued, so there is no flush to forget, and no deadlock when both sides send less than that first. Bytes
//! and rounds are counted exactly, per named phase, in both directions.
//!
//! # What is in it
//! | for | see |
//! |---|---|
//! | sending and receiving, counts by phase | [`Channel`], [`Stats`] |
//! | connections, TLS, who the peer is | [`connect`], [`Listener`], [`Identity`], [`Ticket`] |
//! | limits, and imitated networks | [`Config`], [`Profile`] |
//! | bytes of a frame and of the first message | [`frame`], [`hello`] |
//! | what a message is: who, when, how long, what hides it | [`Message`], [`message`] |
//!
//! # Transports
//! | transport | made by | protection |
//! |---|---|---|
//! | memory | [`Channel::memory_pair`] | none needed |
//! | TCP + TLS 1.3 | [`connect`], [`Listener`] | the server is pinned, a client may be known: [`Identity`] |
//! | TCP | the same, with `InsecurePlaintext` | **none**; must be asked for by that name |
//!
//! Each of them can imitate a slower network, see [`Profile`].
//!
//! Over TLS a client knows its server by the fingerprint that it has pinned. A server asks every client for a
//! certificate; a client may have none, or any whose key it has. Who may do what is decided above this crate,
//! after the hello, by [`Channel::peer_fingerprint`]. A server with many silent connections knows one that it
//! expects by a [`Ticket`] in its first bytes.
//!
//! # The wire
//! All integers are little endian. A stream is a hello in each direction and then frames, in each direction
//! numbered from 0 (the hello) without a gap.
//!
//! | what | bytes | fields |
//! |---|---|---|
//! | frame header ([`frame`]) | 16 | tag u16, frame version u16 (0xfe01), sequence u32, |
//! | | | causal depth u32, payload length u32 |
//! | payload | 0 to 4,294,967,295 | as the tag says; the receiver knows the exact length beforehand |
//! | hello ([`hello`]) | 16 + 80 | magic `FESC-2PC`, protocol version u16, role u16, zero u32, |
//! | | | session hash 32, TLS exporter 32 |
//!
//! | tags | owner |
//! |---|---|
//! | 0x0100..=0x01ff | this crate; 0x0100 is the hello |
//! | 0x0200..=0x02ff | oblivious transfer |
//! | 0x0300..=0x03ff | two-party protocols, online |
//! | 0x0400..=0x04ff | correlations and the dealer |
//! | 0x0500..=0x05ff | the program's measurements |
//! | 0x0600..=0x067f | private inference, stages |
//! | 0x0680..=0x06ff | private inference, sessions |
//! | 0x0700..=0x07ff | shares and ciphertexts |
//!
//! # What is not promised
//! The channel hides neither the sizes nor the times of messages. A peer that sends one byte now and then
//! keeps a session open; limits on whole sessions belong to the server. Without TLS nothing is protected.
//! Everybody on the way reads a [`Ticket`]; only the pinned server sees a client's certificate.
//!
//! # Examples
//! Two ends in one process:
//! ```
//! use fesc_net::{Channel, Tag};
//! # fn main() -> Result<(), fesc_net::NetError> {
//! const SHARE: Tag = Tag(0x0301);
//! let (mut client, mut server) = Channel::memory_pair();
//! client.phase("open");
//! client.send(SHARE, vec![1, 2, 3])?;
//! server.send(SHARE, vec![4, 5, 6])?;
//! assert_eq!(client.recv(SHARE, 3)?, [4, 5, 6]);
//! assert_eq!(server.recv(SHARE, 3)?, [1, 2, 3]);
//! assert_eq!(client.stats().phase("open").rounds, 1);
//! # Ok(())
//! # }
//! ```
//! A server and a client that knows the server's fingerprint:
//! ```
//! use fesc_net::{ClientSecurity, Config, Identity, Listener, ServerSecurity, Tag, connect};
//! # fn main() -> Result<(), fesc_net::NetError> {
//! let session = [7; 32]; // the hash of all that both sides must agree on
//! let identity = Identity::generate()?;
//! let pin = identity.fingerprint();
//! let listener = Listener::bind("127.0.0.1:0", ServerSecurity::Tls(identity), Config::default())?;
//! let address = listener.address().to_string();
//! let server = std::thread::spawn(move || {
//!     let mut channel = listener.accept()?.establish(&session)?;
//!     channel.send(Tag(0x0301), vec![42])?;
//!     channel.close()
//! });
//! let mut channel = connect(&address, &ClientSecurity::Tls(pin), &session, &Config::default())?;
//! assert_eq!(channel.recv(Tag(0x0301), 1)?, [42]);
//! # server.join().unwrap()
//! # }
//! ```
//! A client that the server knows, with a ticket that it expects:
//! ```
//! use std::sync::Arc;
//! use fesc_net::{ClientSecurity, Config, Identity, Listener, ServerSecurity, connect_with_ticket};
//! # fn main() -> Result<(), fesc_net::NetError> {
//! let (session, ticket) = ([7; 32], [9; 32]);
//! let (server, client) = (Identity::generate()?, Arc::new(Identity::generate()?));
//! let (pin, listed) = (server.fingerprint(), [client.fingerprint()]);
//! let listener = Listener::bind("127.0.0.1:0", ServerSecurity::Tls(server), Config::default())?;
//! let address = listener.address().to_string();
//! let server = std::thread::spawn(move || {
//!     let mut expected = false;
//!     let channel = listener.accept()?.establish_seen(&session, |shown| expected = shown == Some(ticket))?;
//!     assert!(expected && channel.peer_fingerprint().is_some_and(|f| listed.contains(&f)));
//!     channel.close()
//! });
//! let security = ClientSecurity::TlsAs(pin, client);
//! let channel = connect_with_ticket(&address, &security, Some(&ticket), &session, &Config::default())?;
//! channel.close()?;
//! # server.join().unwrap()
//! # }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod channel;
mod config;
mod endpoint;
mod error;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
pub mod hello;
mod hex;
mod identity;
pub mod message;
mod profile;
mod queue;
mod reader;
mod stats;
mod ticket;
mod tls;
mod writer;

#[cfg(feature = "tap")]
pub use channel::Tap;
pub use channel::{Channel, Hangup};
pub use config::Config;
pub use endpoint::{ClientSecurity, Listener, Pending, ServerSecurity, connect, connect_with_ticket};
pub use error::NetError;
pub use frame::{HEADER_BYTES, Tag};
pub use hello::MESSAGES;
pub use identity::{Fingerprint, Identity};
pub use message::Message;
pub use profile::{Pacer, Profile};
pub use stats::{Phase, Stats};
pub use ticket::Ticket;
