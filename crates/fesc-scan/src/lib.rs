//! The scan contract: a packet in, the contracted output out.
//!
//! A selective state space model keeps a state that decays and is fed by every token. [`Scan`] is the
//! interface of whatever computes this on shares: a [`Packet`] of factors in, the contracted output out, the
//! exact cost declared before. Kernels:
//!
//! - [`Dual`]: the block dual form (design 6.3), one segment at a time, a [`Carry`] between segments;
//! - [`mod@reference`]: the recurrence itself, token by token in floating point, for comparison.
//!
//! [`cost_by_chunk`] shows what the size of a chunk costs.
//!
//! ```
//! use fesc_model::{Config, Shape};
//! use fesc_scan::reference::{Plain, recurrence};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tiny = Config::named("tiny").ok_or("no such shape")?;
//! let shape = Shape { heads: 1, head_dim: 1, state: 1, groups: 1, ..*tiny.shape() };
//! // H = exp(z) H + Delta x B, y = C H + D x: an impulse that halves with every token.
//! let half = 0.5f64.ln();
//! let packet = Plain {
//!     x: vec![1.0, 0.0, 0.0],
//!     b: vec![1.0; 3],
//!     c: vec![1.0; 3],
//!     delta: vec![1.0; 3],
//!     z: vec![half; 3],
//!     skip: vec![0.0],
//! };
//! let y = recurrence(&shape, &packet, &mut [0.0]);
//! assert!((y[0] - 1.0).abs() < 1e-12 && (y[2] - 0.25).abs() < 1e-12);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod contract;
mod cost;
mod dual;
mod error;
pub mod reference;
#[cfg(test)]
mod tests;

pub use contract::{Carry, Packet, Scan};
pub use cost::{ChunkCost, cost_by_chunk};
pub use dual::Dual;
pub use error::{Result, ScanError};
