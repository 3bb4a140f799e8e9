//! The scan contract: a packet in, the contracted output out.
//!
//! A selective state space model keeps a state that decays and is fed by every token. [`Scan`] is the
//! interface of whatever computes this on shares: a [`Packet`] of factors in, the contracted output out, the
//! exact cost declared before.
//!
//! # What is in it
//! - [`Scan`], [`Packet`], [`Carry`]: the contract; [`on_shares`]: the kernel that a plan names;
//! - [`Dual`]: the block dual form, one segment at a time, a [`Carry`] between segments;
//! - [`hescan`]: the scan under CKKS; [`Encrypted`]: the same as a kernel on shares; [`Refreshed`]: in parts;
//! - [`cost_by_chunk`]: what the size of a chunk costs.
//!
//! # Example
//! `examples/segment.rs` runs one segment between two parties. What every kernel computes is the recurrence
//! ([`fesc_model::float::recurrence`]), here an impulse that halves with every token:
//! ```
//! use fesc_model::float::{Factors, recurrence};
//! use fesc_model::{Config, Shape};
//!
//! let tiny = *Config::named("tiny").ok_or("no such shape")?.shape();
//! let shape = Shape { heads: 1, head_dim: 1, state: 1, groups: 1, ..tiny };
//! let (one, z) = (vec![1.0; 3], vec![0.5f64.ln(); 3]);
//! let x = vec![1.0, 0.0, 0.0];
//! let factors = Factors { x, b: one.clone(), c: one.clone(), delta: one, z, skip: vec![0.0] };
//! let y = recurrence(&shape, &factors, &mut [0.0]);
//! assert!((y[0] - 1.0).abs() < 1e-12 && (y[2] - 0.25).abs() < 1e-12);
//! # Ok::<(), &str>(())
//! ```
//!
//! # What it does not promise
//! A right result when a value leaves the range of its scale, and anything against a party that leaves the
//! protocol.
#![forbid(unsafe_code)]

mod contract;
mod cost;
mod dual;
mod encrypted;
mod error;
mod exponential;
pub mod hescan;
#[cfg(test)]
mod tests;

pub use contract::{Carry, Packet, Scan};
pub use cost::{ChunkCost, cost_by_chunk};
pub use dual::Dual;
pub use encrypted::{Encrypted, Geometries, Geometry, Refreshed, Span, Totals};
pub use error::{Result, ScanError};

use fesc_model::outline::LayerForms;
use fesc_model::{Shape, plan};

/// Makes a kernel for so many tokens of one segment, with a state that enters or is handed on.
pub type Make = fn(&Shape, &LayerForms, tokens: usize, carry_in: bool, carry_out: bool) -> Result<Box<dyn Scan>>;

/// The kernel on shares that a plan names, if it is one.
pub fn on_shares(scan: plan::Scan) -> Option<Make> {
    match scan {
        plan::Scan::Dual => {
            Some(|shape, forms, tokens, from, to| Ok(Box::new(Dual::new(shape, forms, tokens, from, to)?)))
        }
        plan::Scan::HeScan(_) => None,
    }
}
