//! A line that is cut: both sides end, and say that it was the peer.
//!
//! Who has not got a message must fail. Who had got all of its messages may have its result: the last message
//! of a run needs no answer. Nobody may hang, or name another cause.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod encrypted;
mod memory;
mod socket;

use common::{shape, twin};
use fesc_hybrid::HybridError;
use fesc_infer::{InferError, ServerSetup};
use fesc_model::Shape;
use fesc_mpc::MpcError;
use fesc_net::NetError;

/// A model as small as they come.
fn model() -> ServerSetup {
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, groups: 1, norm_groups: 1, ..shape() };
    ServerSetup::new(twin(small, 40, 1), [7; 32]).unwrap()
}

/// The error of the channel under an error of a run, if that is what it is.
fn of_channel(error: &InferError) -> Option<&NetError> {
    match error {
        InferError::Net(e)
        | InferError::Mpc(MpcError::Net(e))
        | InferError::Hybrid(HybridError::Net(e) | HybridError::Mpc(MpcError::Net(e))) => Some(e),
        _ => None,
    }
}

/// The peer is gone, and that was the first thing to go wrong.
fn gone(error: &NetError) -> bool {
    let os = |kind| matches!(kind, std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe);
    match error {
        NetError::Closed { .. } | NetError::ClosedOnSend { .. } | NetError::Truncated { .. } => true,
        NetError::Io { source, .. } => os(source.kind()),
        _ => false,
    }
}
