//! Where correlations come from: one trait, so that an online protocol does not know who made them.
//!
//! - [`TwoParty`]: the two parties make them, by oblivious transfer and, where given, a generator of
//!   [`CrossTerms`]. The default.
//! - [`Dealer`]: a third process hands them out. It learns nothing about inputs but must not collude with
//!   either party.
//! - [`Queue`], [`Prepared`]: made ahead by either of them, kept in memory or on disk, used once.
//! - `Seeded`: both halves from one seed, compiled only into this crate's tests.

#[deny(clippy::indexing_slicing)]
mod budget;
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

pub use budget::Budget;
pub use dealer::{Dealer, dealer_cost, serve as serve_dealer};
pub use queue::Queue;
#[cfg(test)]
pub(crate) use seeded::Seeded;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use store::parse_half;
pub use store::{Prepared, SessionId, Store};
pub use two_party::{Price, TwoParty};

use crate::Role;
use crate::correlation::{Bundle, Material, Request};
use crate::error::MpcError;

/// A source of correlations. Both parties must ask for the same requests in the same order.
pub trait Correlations {
    /// Takes this party's half of one correlation. `channel` leads to the peer; only generators use it.
    fn take(&mut self, channel: &mut Channel, request: &Request) -> Result<Material, MpcError>;
}

/// Makes both parties' shares of the cross terms `left0 right1 + left1 right0` of every product of a bundle,
/// where index 0 is P0's share of a mask and 1 is P1's. [`TwoParty`] uses it for the bundles that it takes,
/// and Gilboa's method for the others.
///
/// Both sides must decide alike: `declared` may depend only on the bundle and on what both know.
pub trait CrossTerms: Send {
    /// Bytes from P0 to P1 and from P1 to P0, frame headers included, exactly; `None` if this generator does
    /// not make the products of this (valid) bundle.
    fn declared(&self, bundle: &Bundle) -> Option<(u64, u64)>;

    /// This party's share of every product's cross terms, in order, from its shares of the masks. A generator
    /// may replace this party's own share of a mask, by one that is as random to the peer, before anything
    /// else uses it. Products that need not be exact ([`Product::exact`](crate::correlation::Product::exact))
    /// may be off by a few units of the last place; all others are right.
    ///
    /// # Errors
    /// A failed channel, or a message of the peer's that is not what the protocol says.
    fn run(
        &mut self,
        role: Role,
        channel: &mut Channel,
        bundle: &Bundle,
        masks: &mut [Vec<u64>],
    ) -> Result<Vec<Vec<u64>>, MpcError>;
}
