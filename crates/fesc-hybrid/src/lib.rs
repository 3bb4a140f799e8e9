//! CKKS and additive shares together.
//!
//! # What is in it
//! | for | see |
//! |---|---|
//! | ciphertexts to shares and back | [`boundary`] |
//! | messages | [`MESSAGES`] |
//!
//! # What it does not promise
//! Anything against a party that leaves the protocol: security is semi-honest.
#![forbid(unsafe_code)]

pub mod boundary;
mod error;

pub use boundary::MESSAGES;
pub use error::{HybridError, Result};
