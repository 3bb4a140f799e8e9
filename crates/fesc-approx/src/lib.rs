//! Approximations of SiLU, softplus, exp and rsqrt for two-party computation: fits, fixed-point forms, plaintext twins.
//!
//! Pure mathematics: no I/O and no protocol. Every form comes in three guises that agree within a stated bound:
//! a real function (`f64`), the integers that the protocol uses, and a twin that computes from them exactly what
//! the two parties compute together, for every value of the truncation carries.
//!
//! Ours (design 6.2): [`Piecewise`] and [`FixedPiecewise`], the power form of exp, rsqrt with a linear start.
//! The paper's (sections "Even-Residual SiLU and Softplus", "Split Inverse-RMS", "Selective-Decay Exponential"): Remez fits.
#![forbid(unsafe_code)]

pub mod error;
pub mod exp;
pub mod exp_square;
pub mod fit;
pub mod fixed;
pub mod functions;
pub mod paper;
pub mod piecewise;
pub mod plan;
pub mod remez;
pub mod report;
mod rounding;
pub mod rsqrt;
pub mod scan;
pub mod silu;
pub mod softplus;
pub mod trunc;

pub use error::ApproxError;
pub use fixed::FixedPiecewise;
pub use piecewise::Piecewise;
pub use plan::{Fit, Plan, RING48};
