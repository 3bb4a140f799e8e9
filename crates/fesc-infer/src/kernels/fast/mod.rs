//! Kernels of the fast plan: RLWE linear layers, and what is on shares in every plan: activations by pieces
//! or by polynomials, norms by buckets and Newton steps, each by the form that the outline has.
//!
//! | kernel | stage | messages |
//! |---|---|---|
//! | [`Linear`], [`RlweProjection`] | projections with the convolution | one per block, from the client |
//! | [`Activate`], [`Steps`]: [`Elementwise`] | SiLU; Delta, A Delta | roundings, comparisons, product, mux |
//! | [`Norm`] | norms | one bundle, an inverse root, roundings |
//!
//! Its scan is [`fesc_scan::Dual`].

mod activate;
pub(crate) mod linear;
mod norm;
mod projection;
mod steps;

pub use activate::{Activate, Elementwise};
pub use linear::{Bias, Linear};
pub use norm::Norm;
pub use projection::RlweProjection;
pub use steps::Steps;
