//! What can go wrong between two parties.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Fingerprint, Tag};

/// An error of the channel. Each is final: the session ends, nothing is retried inside it.
///
/// `index` is the number of the message in its own direction, counted from 0; over a socket number 0 is the
/// hello.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The peer closed the connection (or died) between two messages.
    #[error("the peer closed the connection while message {index} was expected; start a new session")]
    Closed {
        /// Index of the message that did not come.
        index: u32,
    },
    /// The peer closed the connection (or died) before it took a message of ours.
    #[error("the peer closed the connection before message {index} of ours was sent; start a new session")]
    ClosedOnSend {
        /// Index of the message that was not sent.
        index: u32,
    },
    /// The connection ended inside a message.
    #[error(
        "message {index} was cut off after {got} of {expected} bytes; the peer or the network died, start a new session"
    )]
    Truncated {
        /// Index of the message.
        index: u32,
        /// Bytes of the message (header included) that arrived.
        got: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// Nothing arrived within the time limit.
    #[error("no data from the peer for {limit:?} while waiting for message {index}; it may be stalled or overloaded")]
    Timeout {
        /// Index of the message that did not come.
        index: u32,
        /// The limit.
        limit: Duration,
    },
    /// The peer took none of our data within the time limit.
    #[error("the peer has not read for {limit:?}, message {index} of ours is stuck; it may be stalled or overloaded")]
    SendStalled {
        /// Index of the message that could not be sent.
        index: u32,
        /// The limit.
        limit: Duration,
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
    #[error("message out of order: expected number {expected}, got {got}; a message was repeated, lost or reordered")]
    Sequence {
        /// Number expected.
        expected: u32,
        /// Number received.
        got: u32,
    },
    /// A frame of another version of the framing, or no frame at all.
    #[error(
        "message {index}: frame version {got:#06x} instead of {expected:#06x}; the peer runs another version, or the bytes are garbage"
    )]
    FrameVersion {
        /// Index of the message.
        index: u32,
        /// The version this program speaks.
        expected: u16,
        /// The version received.
        got: u16,
    },
    /// A causal depth that no honest peer can have.
    #[error("message {index}: causal depth {got} outside {min}..={max}; the frame is damaged or forged")]
    Depth {
        /// Index of the message.
        index: u32,
        /// Smallest depth possible here.
        min: u32,
        /// Largest depth possible here.
        max: u32,
        /// The depth received.
        got: u32,
    },
    /// A message longer than a frame can carry.
    #[error("message {index} has {len} bytes, one frame carries at most 4294967295; split it")]
    TooLong {
        /// Index of the message.
        index: u32,
        /// Its length.
        len: usize,
    },
    /// No memory for a message whose length the protocol asked for.
    #[error("no memory for message {index} of {len} bytes; use smaller chunks or a machine with more memory")]
    OutOfMemory {
        /// Index of the message.
        index: u32,
        /// Its length.
        len: usize,
    },
    /// The 32-bit counters of the session are used up.
    #[error("the session has used all 2^32 message numbers; start a new session")]
    SessionTooLong,
    /// A call on a channel that has already failed.
    #[error("the session already ended with an error; start a new session")]
    Ended,
    /// The first message is not a hello of this program.
    #[error("the peer at the other end does not speak this protocol ({hint})")]
    NotOurs {
        /// What the bytes look like.
        hint: &'static str,
    },
    /// The peer speaks another version of the protocol.
    #[error("the peer speaks protocol version {got}, this program speaks {expected}; update the older one")]
    ProtocolVersion {
        /// The version this program speaks.
        expected: u16,
        /// The version received.
        got: u16,
    },
    /// Both ends are clients, or both are servers, or our own hello came back.
    #[error("the peer has the same role as this end; connect a client to a server")]
    Role,
    /// The two ends do not run the same session or the same parameters.
    #[error(
        "the peer runs another session or other parameters (its hash starts with {got:08x}, ours with {expected:08x}); use the same model, plan and options on both sides"
    )]
    Session {
        /// First 32 bits of our hash.
        expected: u32,
        /// First 32 bits of the peer's hash.
        got: u32,
    },
    /// The hello was not made for this TLS connection.
    #[error("the hello belongs to another TLS connection; somebody stands between the two ends")]
    Binding,
    /// The server's certificate is not the pinned one.
    #[error(
        "the server's certificate has fingerprint {got}, pinned is {expected}; check the server's printed fingerprint"
    )]
    WrongPin {
        /// The fingerprint asked for.
        expected: Fingerprint,
        /// The fingerprint of the certificate that the server showed.
        got: Fingerprint,
    },
    /// TLS refused.
    #[error("TLS failed while {during}: {source}")]
    Tls {
        /// What was being done.
        during: &'static str,
        /// The cause.
        source: rustls::Error,
    },
    /// No connection.
    #[error("cannot {what} {address}: {source}")]
    Connect {
        /// `connect to`, `listen on`, ...
        what: &'static str,
        /// Which address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// The peer did not finish the TLS handshake and the hello in time.
    #[error("the peer did not finish the handshake within {limit:?}")]
    HandshakeTimeout {
        /// The limit.
        limit: Duration,
    },
    /// An error of the operating system.
    #[error("{during} failed at message {index}: {source}")]
    Io {
        /// What was being done.
        during: &'static str,
        /// Index of the message.
        index: u32,
        /// The cause.
        source: io::Error,
    },
    /// An identity file that cannot be used.
    #[error("{path}: {problem}")]
    IdentityFile {
        /// Which file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// Text that is not what was asked for.
    #[error("{what} {text:?}: {problem}")]
    Parse {
        /// What was parsed.
        what: &'static str,
        /// The text.
        text: String,
        /// What is wrong.
        problem: &'static str,
    },
}
