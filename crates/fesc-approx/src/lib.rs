//! Approximations of SiLU, softplus, exp and rsqrt for two-party computation: fits, fixed-point forms,
//! plaintext twins.
//!
//! Mathematics only: no I/O and no protocol. Every form comes in three versions that agree within a stated
//! bound: a real function (`f64`), the integers that the protocol uses, and a twin that computes from them
//! exactly what the two parties compute together, for every value of the truncation carries.
//!
//! # What is in it
//! - what the protocol computes, step by step: [`fixed`] (all piecewise forms), [`folded`], [`exp_square`],
//!   [`rsqrt`], [`paper`]; what a truncation of shares can give: [`mod@trunc`];
//! - the default forms: [`silu::preset`], [`softplus::preset`], [`exp::preset`],
//!   [`exp_square::ExpSquare::preset`], [`rsqrt::Rsqrt::preset`];
//! - the mathematics of the fits: [`piecewise`], [`remez`], [`fit`], [`plan`]; the true functions:
//!   [`functions`]; measured errors: [`scan`], [`report`](mod@report);
//! - the numbers both parties must agree on: [`transcript`].
//!
//! # Example
//! ```
//! use fesc_approx::{functions, silu};
//!
//! let form = silu::preset()?;
//! let scale = f64::from(1u32 << form.in_frac());
//! let x = form.ring().from_signed((-1.25 * scale) as i64);
//! // What two parties may compute together: one value for each of the carries that may be lost.
//! for (jitter, carry) in [(false, false), (false, true), (true, false), (true, true)] {
//!     let y = form.ring().to_signed(form.eval_jitter(x, jitter, carry)) as f64;
//!     let error = y / f64::from(1u32 << form.out_frac()) - functions::silu(-1.25);
//!     assert!(error.abs() < 0.02, "{error}");
//! }
//! # Ok::<(), fesc_approx::ApproxError>(())
//! ```
//!
//! # What it does not promise
//! Anything for inputs outside a form's stated range. There a comparison or a truncation wraps, and the
//! result is arbitrary. Calibration must keep tensors inside.
#![forbid(unsafe_code)]

pub mod error;
pub mod exp;
pub mod exp_square;
pub mod fit;
pub mod fixed;
pub mod folded;
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
mod tables;
pub mod transcript;
pub mod trunc;

pub use error::ApproxError;
pub use fixed::FixedPiecewise;
pub use folded::Folded;
pub use piecewise::Piecewise;
pub use plan::{Fit, Plan, RING48};
