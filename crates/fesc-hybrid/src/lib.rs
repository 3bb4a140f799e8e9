//! What needs CKKS and shares at once.
//!
//! # What is in it
//! - [`backend`]: the operations that a circuit is written in, and three back ends of them: one counts, one
//!   computes on complex numbers in the clear, one computes on ciphertexts;
//! - [`boundary`]: ciphertexts to additive shares and back; [`MESSAGES`];
//! - [`keys`]: a client's keys for a plan; [`circuit`]: shares to shares through a kernel under encryption;
//! - [`expand`]: many ciphertexts of repeated slots from one;
//! - [`work`]: what a circuit costs besides bytes, counted; [`verify`]: its results against those in the
//!   clear;
//! - [`project`]: encrypted activations times known weights, and the convolution behind them.
//!
//! # Example
//! A circuit is a function over any back end. Here it is counted, not run:
//! ```
//! use fesc_hybrid::backend::{Backend, Chain, Count, Operation, Term};
//!
//! fn square_and_sum<B: Backend>(b: &B, x: &B::Ct) -> fesc_hybrid::Result<B::Ct> {
//!     let square = b.combine(b.level(x), &[Term::Product(x, x)])?;
//!     b.add(&square, &b.rotate(&square, 1)?)
//! }
//! let count = Count::new(Chain::ideal(1 << 14, 40, 3, 2));
//! square_and_sum(&count, &count.fresh(3))?;
//! assert_eq!(count.operations().tally().total(Operation::Rotation), 1);
//! assert_eq!(count.operations().tally().key_switches(), 2);
//! # Ok::<(), fesc_hybrid::HybridError>(())
//! ```
//!
//! # What it does not promise
//! That a circuit's error is small for every input: the noise is that of the set, relative to the largest
//! value. Anything against a party that leaves the protocol.
#![forbid(unsafe_code)]

pub mod backend;
pub mod boundary;
pub mod circuit;
mod error;
pub mod expand;
pub mod keys;
pub mod project;
pub mod verify;
pub mod work;

pub use boundary::MESSAGES;
pub use error::{HybridError, Result};
pub use fesc_ckks as ckks;
