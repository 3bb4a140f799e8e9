//! The channel between two parties.
//!
//! One [`Channel`] serves every protocol. A message is a frame with a tag, a sequence number and a length that the
//! receiver already knows; anything else is refused before memory is reserved for it. Sending never blocks on the
//! peer's reading (a writer thread owns the outgoing half), so there is no flush to forget and no deadlock when both
//! sides send first. Bytes and rounds are counted exactly, per named phase, in both directions.
#![forbid(unsafe_code)]

mod channel;
mod error;
mod stats;

pub use channel::{Channel, HEADER_BYTES, Tag};
pub use error::NetError;
pub use stats::{Phase, Stats};
