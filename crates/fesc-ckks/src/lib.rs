//! Leveled RNS-CKKS for the paper's kernels (Cheon, Kim, Kim, Song, "Homomorphic encryption for arithmetic of
//! approximate numbers", 2017; Cheon, Han, Kim, Kim, Song, "A full RNS variant", 2018).
//!
//! # Who has what
//! A client has a [`client::SecretKey`]; it encrypts by it, makes keys and decrypts. A server has evaluation
//! keys and a public key ([`server`]); it computes on a [`Ciphertext`], which has no wire form. What goes
//! back to a client is [`Masked`]: re-randomised by a fresh encryption of zero and masked. The types,
//! not comments, hold this:
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
//! # What is in it
//! | subject | module |
//! |---|---|
//! | sets, limits, primes | [`params`], [`sets`] |
//! | numbers to polynomials and back | [`Encoder`] |
//! | keys, encryption, decryption | [`client`], [`server`] |
//! | what may leave a server | [`mask`] |
//! | computing on ciphertexts | [`server::Evaluator`], [`linear`] |
//! | what that does to the noise | [`noise`] |
//! | bytes | [`wire`] |
//! | where ciphertexts are | [`memory`] |
//!
//! # Example
//! A server doubles a number. In a session it would mask the result, and both would travel as bytes.
//! ```
//! use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
//! use fesc_ckks::server::{EvaluationKeyPlan, EvaluationKeys, Evaluator};
//! use fesc_ckks::{Encoder, Params, ParamsLiteral};
//! # use {fesc_ring::Prg, num_complex::Complex64};
//! let sizes = ParamsLiteral { log_n: 12, q_bits: vec![34, 34], p_bits: vec![35], log_scale: 30 };
//! let (params, mut prg) = (Params::new(&sizes)?, Prg::from_seed([1; 16]));
//! let (encoder, secret) = (Encoder::new(&params), SecretKey::generate(&params, &mut prg));
//! let owner = KeyGenerator::new(&secret).public_key(&mut prg)?.id();
//! let plain = encoder.encode(&[Complex64::new(0.75, 0.0)], 1, params.scale())?;
//! let c = SecretEncryptor::new(&secret).encrypt(&plain, &mut prg)?.expand(owner);
//! let keys = EvaluationKeys::new(&params, &EvaluationKeyPlan::default(), owner);
//! let twice = Evaluator::new(&params, keys)?.add(&c, &c)?;
//! let result = encoder.decode(&Decryptor::new(&secret).decrypt(&twice)?)?;
//! assert!((result[0].re - 1.5).abs() < 1e-4);
//! # Ok::<(), fesc_ckks::CkksError>(())
//! ```
//!
//! # What it does not promise
//! Bootstrapping: a set has a fixed number of levels. Exact results: values have the precision of their set.
//! Anything against a party that leaves the protocol. That decrypted values may be given back to the server:
//! they must not ([`client::Decryptor`]).
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
pub mod memory;
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
pub use encoder::{Encoder, place_of_part};
pub use error::{CkksError, Result, WireError};
pub use mask::{FreshZero, Masked, RingMask, Share};
pub use params::{Params, ParamsLiteral};
pub use plaintext::{PeriodicPlaintext, Plaintext};
pub use upload::{Kept, Upload};
