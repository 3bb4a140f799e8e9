//! Two-party computation on additive shares over `Z_2^l`.
//!
//! Every protocol is a small struct that fixes its shape: `declare` writes its exact cost and its
//! correlations to a [`Ledger`] before anything runs, `run` does the work on shares. All of them are batched
//! over whole tensors: rounds do not grow with the number of elements.
//!
//! # What is in it
//! | for | see |
//! |---|---|
//! | shares, and a party with its channel and its correlations | [`Shared`], [`SharedBits`], [`Party`] |
//! | what the parties hold before they compute, and who makes it | [`correlation`], [`provider`] |
//! | open, multiply, rescale, compare, select, arg-max | [`protocol`] |
//! | SiLU, softplus, exp, rsqrt, in our forms and in the paper's | [`activation`] |
//! | declared costs | [`Ledger`], [`Cost`] |
//! | messages | [`MESSAGES`] |
//!
//! # Example
//! The client has 6, the server 7; they end with shares of the product:
//! ```
//! use fesc_mpc::{MpcError, Party, Role, Shared};
//! use fesc_mpc::{correlation::Bundle, protocol::Bilinear, provider::TwoParty};
//! # use {fesc_net::Channel, fesc_ot::CotKind, fesc_ring::{Prg, Ring}};
//! let ring = Ring::new(48)?;
//! let run = |role: Role, mut channel: Channel, [x, y]: [u64; 2]| {
//!     let prg = Prg::from_seed([role.index() as u8; 16]);
//!     let source = TwoParty::setup(role, &mut channel, CotKind::Iknp, prg)?;
//!     let mut party = Party::new(role, channel, Box::new(source));
//!     let [x, y] = [x, y].map(|value| Shared::new(ring, vec![value]));
//!     Ok::<_, MpcError>(Bilinear { bundle: Bundle::triples(ring, 1) }.run(&mut party, &[&x, &y])?.remove(0))
//! };
//! let (a, b) = Channel::memory_pair();
//! let (mine, theirs) = std::thread::scope(|s| {
//!     let server = s.spawn(|| run(Role::P1, b, [0, 7]));
//!     (run(Role::P0, a, [6, 0]), server.join().unwrap())
//! });
//! assert_eq!(ring.add(mine?.values()[0], theirs?.values()[0]), 42);
//! # Ok::<(), MpcError>(())
//! ```
//!
//! # What it does not promise
//! Anything against a party that leaves the protocol: security is semi-honest. Values that leave their
//! stated range give arbitrary results, silently; whoever chooses scales keeps tensors inside.
#![forbid(unsafe_code)]

pub mod activation;
mod bilinear;
pub mod correlation;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod hostile;
mod ledger;
mod messages;
#[deny(clippy::indexing_slicing)]
mod party;
pub mod protocol;
pub mod provider;
mod share;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod views;

pub use correlation::Request;
pub use error::MpcError;
pub use ledger::{Cost, Ledger};
pub use messages::MESSAGES;
pub use party::{Party, Role};
pub use share::{Shared, SharedBits};
