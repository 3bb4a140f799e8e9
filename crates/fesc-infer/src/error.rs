//! What can go wrong in a private inference.

use std::io;

use fesc_hybrid::HybridError;
use fesc_model::ModelError;
use fesc_mpc::MpcError;
use fesc_net::NetError;
use fesc_ring::RingError;
use fesc_rlwe::RlweError;
use fesc_scan::ScanError;

/// The result of this crate.
pub type Result<T, E = InferError> = std::result::Result<T, E>;

/// An error of an inference. Each ends the session; nothing is retried inside it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InferError {
    /// A protocol on shares failed.
    #[error(transparent)]
    Mpc(#[from] MpcError),
    /// The scan failed.
    #[error(transparent)]
    Scan(ScanError),
    /// A conversion between shares and ciphertexts, or a circuit, failed.
    #[error(transparent)]
    Hybrid(#[from] HybridError),
    /// Weights that are larger than the masks of a projection under encryption are for.
    #[error(
        "the {matrix} projection of layer {layer}: with its weights a result can be {bound:.1}, and {most:.1} is the most that a mask \
         covers under encryption (sums of magnitudes of 8 sqrt(2 rows) in a column and of 8 in a channel's taps), so that it \
         would show; take projection=rlwe in the plan, or train with smaller weights"
    )]
    WeightBound {
        /// Which layer.
        layer: usize,
        /// Which projection.
        matrix: &'static str,
        /// The largest result that they can have.
        bound: f64,
        /// The largest that is masked.
        most: f64,
    },
    /// The linear layer or the embedding failed.
    #[error(transparent)]
    Rlwe(#[from] RlweError),
    /// The model or its outline is not usable.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The channel failed.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A packed vector from the peer is malformed.
    #[error("malformed vector from the peer: {0}")]
    Ring(#[from] RingError),
    /// No schedule for such a length.
    #[error("a schedule of {tokens} tokens: 1 to {most} are possible; split the document")]
    Length {
        /// Tokens asked for.
        tokens: usize,
        /// The longest schedule.
        most: usize,
    },
    /// The document does not fit the schedule.
    #[error("a document of {tokens} tokens in a schedule of {room}: it must have 1 to {room}; take a larger bucket")]
    Document {
        /// Tokens of the document.
        tokens: usize,
        /// Tokens of the schedule.
        room: usize,
    },
    /// A token id that the table does not have.
    #[error("token {index} is {id}, the vocabulary ends at {vocabulary}; tokenizer and model do not belong together")]
    Token {
        /// Which token.
        index: usize,
        /// Its id.
        id: u32,
        /// Rows of the table.
        vocabulary: usize,
    },
    /// A plan that two parties cannot run.
    #[error("{why}; plans that can be run are {known}")]
    Plan {
        /// Why not.
        why: String,
        /// Those that can.
        known: String,
    },
    /// Something belongs to the other party, or to another model.
    #[error("{what}: {why}")]
    Misuse {
        /// What was wrong.
        what: &'static str,
        /// Why.
        why: &'static str,
    },
    /// A tensor or a list has the wrong size.
    #[error("{what}: expected {expected}, got {got}")]
    Size {
        /// Which one.
        what: &'static str,
        /// What it must have.
        expected: usize,
        /// What it has.
        got: usize,
    },
    /// The opened label is no class.
    #[error("the opened label is none of the {classes} classes; the peer did not follow the protocol")]
    Answer {
        /// Classes of the model.
        classes: usize,
    },
    /// The setup of a model could not be read or written.
    #[error("the model's setup: {0}")]
    Io(#[from] io::Error),
    /// The setup is not one, or not this model's.
    #[error("the model's setup: {0}; delete it and download it again")]
    Setup(&'static str),
    /// A file of a model's setup ends too early.
    #[error("{what}: its file ends at byte {got}, {expected} are needed; it was cut short, delete it and make it anew")]
    Short {
        /// What was to be read.
        what: &'static str,
        /// Bytes that there must be.
        expected: u64,
        /// Bytes that there are.
        got: u64,
    },
    /// A matrix that came back from the server's file is not the one that went there.
    #[error(
        "matrix {matrix} of layer {layer}, {bytes} bytes from byte {at} of the server's file, is not what was written; \
         look at the disk, and start the server again"
    )]
    Damaged {
        /// The layer.
        layer: usize,
        /// 0: in, 1: out.
        matrix: usize,
        /// Where it begins.
        at: u64,
        /// Its length.
        bytes: usize,
    },
    /// A hint is not the one that was there when the public part was opened.
    #[error(
        "hint {matrix} of layer {layer}, {bytes} bytes from byte {at} of the file of the model's public part, changed after it was opened; \
         delete the file and download it again"
    )]
    Changed {
        /// The layer.
        layer: usize,
        /// 0: in, 1: out.
        matrix: usize,
        /// Where it begins.
        at: u64,
        /// Its length.
        bytes: u64,
    },
    /// The thread that prepares blocks ended before the run did.
    #[error("the thread that prepares the linear layers ended early; its error came before")]
    BlockSource,
}

impl From<ScanError> for InferError {
    /// What failed below the scan is named as itself, so that whoever asks whether the peer failed need not
    /// look inside it.
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Mpc(error) => error.into(),
            ScanError::Hybrid(error) => error.into(),
            error => InferError::Scan(error),
        }
    }
}

/// Refuses sizes that differ.
pub(crate) fn check(what: &'static str, expected: usize, got: usize) -> Result<()> {
    if expected == got { Ok(()) } else { Err(InferError::Size { what, expected, got }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_dies_in_the_scan_is_named_as_such() {
        let closed = || NetError::Closed { index: 7 };
        let error = InferError::from(ScanError::Mpc(MpcError::Net(closed())));
        assert!(matches!(error, InferError::Mpc(MpcError::Net(NetError::Closed { index: 7 }))), "{error:?}");
        let error = InferError::from(ScanError::Hybrid(HybridError::Net(closed())));
        assert!(matches!(error, InferError::Hybrid(HybridError::Net(NetError::Closed { index: 7 }))), "{error:?}");
    }
}
