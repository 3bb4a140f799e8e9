//! The scan contract: a packet in, the contracted output out.
//!
//! A selective state space model keeps a state that decays and is fed by every token. [`Scan`] is the
//! interface of whatever computes this on shares: a [`Packet`] of factors in, the contracted output out, the
//! exact cost declared before. Kernels:
//!
//! - [`Dual`]: the block dual form (design 6.3), one segment at a time, a [`Carry`] between segments.
//!
//! What they are compared with is the recurrence itself, [`fesc_model::float::recurrence`].
//! [`cost_by_chunk`] shows what the size of a chunk costs.
#![forbid(unsafe_code)]

mod contract;
mod cost;
mod dual;
mod error;
#[cfg(test)]
mod tests;

pub use contract::{Carry, Packet, Scan};
pub use cost::{ChunkCost, cost_by_chunk};
pub use dual::Dual;
pub use error::{Result, ScanError};
