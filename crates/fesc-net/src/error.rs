//! What can go wrong between two parties.

use crate::Tag;

/// An error of the channel. Each is final: the session ends, nothing is retried inside it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The peer closed the connection (or died).
    #[error("the peer closed the connection while message {index} was expected; start a new session")]
    Closed {
        /// Index of the message that did not come.
        index: u32,
    },
    /// Nothing arrived within the time limit.
    #[error("no data from the peer for {seconds} s while waiting for message {index}; it may be stalled or overloaded")]
    Timeout {
        /// Index of the message that did not come.
        index: u32,
        /// The limit.
        seconds: u64,
    },
    /// A frame arrived that the protocol does not expect here.
    #[error(
        "message {index}: expected {expected:?} of {expected_len} bytes, got {got:?} of {got_len} bytes; the peer runs another protocol or version"
    )]
    Unexpected {
        /// Index of the message.
        index: u32,
        /// The tag expected.
        expected: Tag,
        /// The length expected.
        expected_len: usize,
        /// The tag received.
        got: Tag,
        /// The length received.
        got_len: usize,
    },
    /// A frame is out of order: repeated, dropped or reordered.
    #[error("message out of order: expected number {expected}, got {got}")]
    Sequence {
        /// Number expected.
        expected: u32,
        /// Number received.
        got: u32,
    },
}
