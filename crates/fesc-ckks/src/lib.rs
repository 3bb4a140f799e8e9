//! Leveled RNS-CKKS for the paper's kernels (Cheon, Kim, Kim, Song, "Homomorphic encryption for arithmetic of
//! approximate numbers", 2017; Cheon, Han, Kim, Kim, Song, "A full RNS variant", 2018).
//!
//! # Who has what
//! A client has a [`client::SecretKey`]; it encrypts by it, makes keys and decrypts. A server has evaluation
//! keys and a public key ([`server`]); it computes on a [`Ciphertext`], which has no wire form. What goes
//! back to a client is [`Masked`]: re-randomised by a fresh encryption of zero and masked (design 7.1). The
//! types, not comments, hold this:
//!
//! ```
//! use fesc_ckks::client::SecretKey;
//! ```
//! ```compile_fail,E0432
//! // There is no secret key in the server's module.
//! use fesc_ckks::server::SecretKey;
//! ```
//!
//! and a test of the workspace sees that no server's file names the client's module.
//!
//! # Where to look
//! | subject | module |
//! |---|---|
//! | sets, limits, primes | [`params`], [`sets`] |
//! | numbers to polynomials and back | [`Encoder`] |
//! | keys, encryption, decryption | [`client`], [`server`] |
//! | what may leave a server | [`mask`] |
//! | computing on ciphertexts | [`server::Evaluator`], [`linear`] |
//! | what that does to the noise | [`noise`] |
//! | bytes | [`wire`] |
#![forbid(unsafe_code)]

#[macro_use]
mod metadata;

mod ciphertext;
pub mod client;
mod encoder;
mod error;
mod evaluator;
#[doc(hidden)]
pub mod fuzzing;
mod hoist;
pub mod linear;
pub mod mask;
pub mod noise;
pub mod params;
mod plaintext;
mod poly;
mod residue;
mod seed;
pub mod server;
pub mod sets;
mod small;
mod switch;
#[cfg(test)]
mod testing;
mod upload;
pub mod wire;

pub use ciphertext::{Ciphertext, Tensor};
pub use encoder::Encoder;
pub use error::{CkksError, Result, WireError};
pub use mask::{FreshZero, Masked, RingMask, Share};
pub use params::{Params, ParamsLiteral};
pub use plaintext::Plaintext;
pub use upload::Upload;
