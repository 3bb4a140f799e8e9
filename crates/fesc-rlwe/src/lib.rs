//! RLWE between two parties: the linear layer, rows of an encrypted table, and products of shares.
//!
//! # What is in it
//! - [`linear`]: `Y = conv(X W)` of a shared `X` by the server's secret `W` and taps, with one message from
//!   the client and none back. Its noise is a few units of the input's last place;
//! - [`embedding`]: rows of the server's secret table as shares, for token ids that are the client's secret,
//!   with noise of a known deviation;
//! - [`products`]: cross terms of products for `fesc_mpc::provider::TwoParty`, by two engines, whichever is
//!   cheaper where both may serve: [`slots`], sums of products slot by slot, as exact shares;
//!   [`coefficients`], one party's scalars times the other's vectors, *rounded*: off by one in the last
//!   place, or by a few units where results are packed;
//! - [`Params`]: degree and modulus, refused below 128 bits; [`Secrets`]: where the secrets of what is
//!   published once come from; [`Seed`]: public polynomials; [`MESSAGES`].
//!
//! # Example
//! One token of two features, `[7, 11]`, times the server's weights `[3, 5]`:
//! ```
//! use fesc_ring::Prg;
//! use fesc_rlwe::linear::{Block, Domain, Prepared, Server, Shape};
//! use fesc_rlwe::{Params, Secrets, Seed};
//!
//! let (params, shape, mut prg) = (Params::linear()?, Shape::new(2, 1, 1)?, Prg::from_seed([1; 16]));
//! let domain = Domain { seed: Seed::random(&mut prg), layer: 0, matrix: 0 };
//! let (server, hint) = Server::publish(params, shape, domain, &[3, 5], &[1], &Secrets::random(&mut prg))?;
//! let block = Block::cut(&params, &shape, 1)?.remove(0);
//! let (message, mine) = Prepared::new(&hint, block, &mut prg)?.send(&[7 << 20, 0])?;
//! let theirs = server.share(&block, message, &[0, 11 << 20])?;
//! let y = params.ring().to_signed(params.ring().add(mine[0], theirs[0]));
//! assert!((y - ((3 * 7 + 5 * 11) << 20)).abs() < 2000, "the noise has a deviation of some 170");
//! # Ok::<(), fesc_rlwe::RlweError>(())
//! ```
//!
//! # What it does not promise
//! Anything against a party that leaves the protocol. Results without noise or rounding: each module says how
//! large they are, and only [`slots`] is exact. [`linear`] says what each side's view is worth.
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
