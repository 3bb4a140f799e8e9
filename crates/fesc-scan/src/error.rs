//! What can go wrong in a scan.

use fesc_approx::ApproxError;
use fesc_hybrid::HybridError;
use fesc_mpc::MpcError;

/// The result of this crate.
pub type Result<T, E = ScanError> = std::result::Result<T, E>;

/// An error of a scan. Each ends the session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// A protocol failed.
    #[error(transparent)]
    Mpc(#[from] MpcError),
    /// A conversion or a circuit was refused, or failed.
    #[error(transparent)]
    Hybrid(#[from] HybridError),
    /// A form cannot be built.
    #[error(transparent)]
    Form(#[from] ApproxError),
    /// The segment has no token or too many.
    #[error("a segment of {tokens} tokens: the scan takes 1 to {most} at once; longer documents go segment by segment")]
    Tokens {
        /// Tokens asked for.
        tokens: usize,
        /// The longest segment.
        most: usize,
    },
    /// The shape is not one that a scan can be made for.
    #[error("a scan of {heads} heads of {head_dim} channels in {groups} groups with {state} states: {why}")]
    Shape {
        /// Heads.
        heads: usize,
        /// Channels of a head.
        head_dim: usize,
        /// Groups.
        groups: usize,
        /// States.
        state: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// Scales that leave no room.
    #[error("scales of a scan: {what} would have {bits} fractional bits; calibrate the model again")]
    Scale {
        /// Which tensor.
        what: &'static str,
        /// The bits that come out.
        bits: i64,
    },
    /// A tensor of the packet has the wrong size or ring.
    #[error("{what}: the scan takes {expected}, got {got}")]
    Size {
        /// Which tensor, and what of it.
        what: &'static str,
        /// What the declared shape asks for.
        expected: usize,
        /// What was given.
        got: usize,
    },
    /// Something was given to the wrong party or at the wrong time.
    #[error("{what} was {}, which this side of this scan {}", if *.given { "given" } else { "not given" }, if *.given { "must not have" } else { "needs" })]
    Presence {
        /// What.
        what: &'static str,
        /// Whether it was given.
        given: bool,
    },
}

/// Refuses sizes that differ.
pub(crate) fn check(what: &'static str, expected: usize, got: usize) -> Result<()> {
    if expected == got { Ok(()) } else { Err(ScanError::Size { what, expected, got }) }
}

/// Refuses what is there and must not be, or is missing.
pub(crate) fn check_presence(what: &'static str, needed: bool, given: bool) -> Result<()> {
    if needed == given { Ok(()) } else { Err(ScanError::Presence { what, given }) }
}
