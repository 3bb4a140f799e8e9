//! Exact RLWE: noise is a few units of the input's last place, and nothing is rounded.
//!
//! Where to look:
//! - [`Params`]: degree and modulus, refused below 128 bits;
//! - [`Secrets`]: where the secrets of what is published once come from;
//! - [`linear`]: `Y = conv(X W)` of a shared `X` by the server's secret `W` and taps, with one message from
//!   the client and none back (design 6.1);
//! - [`embedding`]: rows of the server's secret table as shares, for token ids that are the client's secret
//!   (design 6.6);
//! - [`coefficients`]: one party's scalars times the other's vectors, as shares, off by one in the last place
//!   or by a few units: matrix triples (review G);
//! - [`slots`]: sums of products of both parties' vectors, slot by slot, as exact shares: OLEs and matrix
//!   triples (design 5, review G).
//!
//! Not guaranteed: anything against a party that leaves the protocol. [`linear`] says what each side's view
//! is worth.
#![forbid(unsafe_code)]

pub mod coefficients;
pub mod embedding;
mod error;
pub mod linear;
mod messages;
mod params;
pub mod products;
mod public;
mod secrets;
pub mod slots;
mod stream;
#[cfg(test)]
mod testing;

pub use error::RlweError;
pub use messages::MESSAGES;
pub use params::Params;
pub use public::Seed;
pub use secrets::Secrets;

/// The result of this crate.
pub type Result<T, E = RlweError> = std::result::Result<T, E>;
