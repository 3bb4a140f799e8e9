//! Two-party computation on additive shares over `Z_2^l`.
//!
//! Three floors, each over the one below:
//! - [`correlation`]: what the parties hold before they compute, and [`provider`]: who makes it;
//! - [`protocol`]: open, multiply, truncate, compare, select, arg-max;
//! - [`activation`]: SiLU, softplus, exp, rsqrt, in our forms and in the paper's.
//!
//! Every protocol is a small struct that fixes its shape: `declare` writes its exact cost and its
//! correlations to a [`Ledger`] before anything runs, `run` does the work on shares. All of them are batched
//! over whole tensors: rounds do not grow with the number of elements. Semi-honest security; no claim beyond
//! it.
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
