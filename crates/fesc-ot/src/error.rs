//! What can go wrong in oblivious transfer.

use fesc_net::NetError;
use fesc_ring::RingError;

/// An error of this crate. Each is final: the session ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtError {
    /// The channel failed, or a frame had the wrong tag or length.
    #[error("oblivious transfer: {0}")]
    Net(#[from] NetError),
    /// A packed message of ring elements is malformed.
    #[error("oblivious transfer: {0}")]
    Ring(#[from] RingError),
    /// A received curve point is not a canonical Ristretto encoding, or is one that no honest party sends.
    #[error("base OT: point {index} from the peer is {what}; the peer is faulty or hostile, start a new session")]
    Point {
        /// Which point of the message.
        index: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// An LPN parameter set whose estimated security is too low.
    #[error(
        "LPN set k = {k}, t = {t}, block 2^{log_block}: {bits:.1} bits by the attack '{attack}', at least {needed} are needed; raise k or lower t"
    )]
    WeakParameters {
        /// Length of the LPN secret.
        k: usize,
        /// Number of noise blocks.
        t: usize,
        /// Base-two logarithm of the block length.
        log_block: u32,
        /// The estimate.
        bits: f64,
        /// The cheapest attack found.
        attack: &'static str,
        /// The bound.
        needed: f64,
    },
    /// An LPN parameter set that does not yield more than it consumes, or does not fit the code.
    #[error("LPN set k = {k}, t = {t}, block 2^{log_block} is unusable: {why}")]
    BadParameters {
        /// Length of the LPN secret.
        k: usize,
        /// Number of noise blocks.
        t: usize,
        /// Base-two logarithm of the block length.
        log_block: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// The caller's vectors do not fit together.
    #[error("{what}: {got} given, {expected} needed")]
    Length {
        /// Which argument.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The length needed.
        expected: usize,
    },
    /// A count of transfers that overflows the machine's word.
    #[error("{count} transfers of {each} correlations each are more than this machine can count; ask for fewer")]
    TooMany {
        /// Transfers asked for.
        count: usize,
        /// Correlations per transfer.
        each: usize,
    },
}
