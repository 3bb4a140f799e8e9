//! What can go wrong in a two-party computation.

use fesc_net::NetError;
use fesc_ring::RingError;

/// An error of a protocol. Each ends the session; nothing is retried inside it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MpcError {
    /// The channel failed.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Oblivious transfer failed.
    #[error(transparent)]
    Ot(#[from] fesc_ot::OtError),
    /// A packed vector from the peer is malformed.
    #[error("malformed vector from the peer: {0}")]
    Ring(#[from] RingError),
    /// A matrix product of the wrong shape.
    #[error(transparent)]
    Matrix(#[from] fesc_ring::MatrixError),
    /// Two operands do not fit together.
    #[error("{what}: expected {expected}, got {got}")]
    Shape {
        /// The operation.
        what: &'static str,
        /// The size or width expected.
        expected: usize,
        /// The size or width given.
        got: usize,
    },
    /// A parameter is outside its range.
    #[error("{what}: {value} is outside {min}..={max}")]
    Parameter {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The smallest value allowed.
        min: u64,
        /// The largest value allowed.
        max: u64,
    },
    /// A stored or dealt correlation is not the one that the protocol asks for.
    #[error(
        "correlation {index} was prepared for {found}, the protocol asks for {wanted}; prepare again for this model, length and plan"
    )]
    WrongCorrelation {
        /// Number of the correlation in its store.
        index: u64,
        /// What was prepared.
        found: String,
        /// What the protocol asks for.
        wanted: String,
    },
    /// The store has no correlation left.
    #[error("all {prepared} prepared correlations are used; prepare new ones")]
    Exhausted {
        /// How many had been prepared.
        prepared: u64,
    },
    /// The store belongs to another session or party, or is damaged.
    #[error("correlation store {path}: {reason}; delete the directory and prepare again")]
    Store {
        /// The path.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The peer's store is not the other half of this one.
    #[error("correlation store {path}: the peer {reason}; delete the directory and prepare again")]
    PeerStore {
        /// The path of ours.
        path: String,
        /// What is wrong with the peer's.
        reason: &'static str,
    },
    /// Another process has the store open.
    #[error(
        "correlation store {path} is in use by another process; wait for it to end, or prepare a store of your own"
    )]
    StoreInUse {
        /// The path.
        path: String,
    },
    /// A file could not be read or written.
    #[error("correlation store {path}: {source}")]
    Io {
        /// The path.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The two parties asked the dealer for different things.
    #[error("the parties asked the dealer for different correlations ({p0} and {p1}); they run different plans")]
    DealerDisagreement {
        /// What P0 asked for.
        p0: String,
        /// What P1 asked for.
        p1: String,
    },
    /// The dealer has no memory for a request.
    #[error(
        "the dealer has no room for {bytes} bytes of a request: the limit is {limit}; ask for less at once, or try again later"
    )]
    DealerFull {
        /// Bytes in memory, of one half or of both.
        bytes: u64,
        /// The limit, of one half or of all that is being dealt.
        limit: u64,
    },
    /// A generator of cross terms failed.
    #[error("generator of cross terms: {0}")]
    Generator(Box<dyn std::error::Error + Send + Sync>),
    /// A request from the wire cannot be decoded or is over the limits.
    #[error("malformed correlation request: {0}")]
    Request(&'static str),
}

/// Refuses a value outside `min..=max`.
pub(crate) fn check_range(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), MpcError> {
    if value < min || value > max {
        return Err(MpcError::Parameter { what, value, min, max });
    }
    Ok(())
}

/// Refuses sizes that differ.
pub(crate) fn check_len(what: &'static str, expected: usize, got: usize) -> Result<(), MpcError> {
    if expected != got {
        return Err(MpcError::Shape { what, expected, got });
    }
    Ok(())
}
