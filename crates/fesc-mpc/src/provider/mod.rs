//! Where correlations come from: one trait, so that an online protocol does not know who made them.
//!
//! - [`TwoParty`]: the two parties make them, by oblivious transfer. The default, no third party.
//! - [`Dealer`]: a third process hands them out. It learns nothing about inputs but must not collude with either party.
//! - [`Queue`], [`Prepared`]: made ahead by either of them, kept in memory or on disk, used once.
//! - `Seeded`: both halves from one seed, compiled only into this crate's tests.

#[deny(clippy::indexing_slicing)]
mod dealer;
mod queue;
#[cfg(test)]
mod seeded;
#[deny(clippy::indexing_slicing)]
mod store;
#[cfg(test)]
mod tests;
mod two_party;

use fesc_net::Channel;

pub use dealer::{Dealer, dealer_cost, serve as serve_dealer};
pub use queue::Queue;
#[cfg(test)]
pub(crate) use seeded::Seeded;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use store::parse_half;
pub use store::{Prepared, SessionId, Store};
pub use two_party::TwoParty;

use crate::correlation::{Material, Request};
use crate::error::MpcError;

/// A source of correlations. Both parties must ask for the same requests in the same order.
pub trait Correlations {
    /// Takes this party's half of one correlation. `channel` leads to the peer; only generators use it.
    fn take(&mut self, channel: &mut Channel, request: &Request) -> Result<Material, MpcError>;
}
