//! Who follows a run or a session: everything it is told is public, or this party's own.

use fesc_mpc::Shared;

use crate::stage::Stage;

/// What a side is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Talking about terms.
    Handshake,
    /// Moving the public part, of this many bytes.
    Setup(u64),
    /// Laying out what a run computes, at the server.
    Schedule,
    /// Correlations are being set up.
    Correlations,
    /// Fresh CKKS keys are to be made, of this many bytes.
    NewKeys(u64),
    /// CKKS keys that both sides have kept serve again.
    KeptKeys,
    /// The client's CKKS keys go up, or come from where the server kept them: bytes that have gone, of how
    /// many.
    Keys(u64, u64),
    /// A stage of the protocol: which, the layer, the segment.
    Stage(Stage, Option<usize>, usize),
    /// Making store `.0` of `.1`.
    Preparing(u32, u32),
    /// Comparing with the twin.
    Verifying,
}

/// Follows a run or a session.
pub trait Watch {
    /// It does this now.
    fn doing(&mut self, doing: Doing) {
        let _ = doing;
    }

    /// This party's share of the residual stream that enters a layer; `layer = layers`: of the one that
    /// leaves the last. Both shares together are the secret: whoever joins them breaks the privacy of the
    /// run.
    fn stream(&mut self, layer: usize, share: &Shared) {
        let _ = (layer, share);
    }

    /// At the end: the client's seconds for what does not depend on the document (its blocks of the linear
    /// layers).
    fn offline(&mut self, seconds: f64) {
        let _ = seconds;
    }
}

/// Follows nothing.
pub struct Unwatched;

impl Watch for Unwatched {}
