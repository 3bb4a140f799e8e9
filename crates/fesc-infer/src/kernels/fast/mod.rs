//! The fast plan: RLWE linear layers, piecewise activations by shared thresholds, norms by buckets and Newton
//! steps.
//!
//! | kernel | stage | messages |
//! |---|---|---|
//! | [`Linear`], [`RlweProjection`] | projections with the convolution | one per block, from the client |
//! | [`Activate`], [`Steps`]: [`Piecewise`] | SiLU; Delta, A Delta | roundings, comparisons, product, mux |
//! | [`Norm`] | norms | one bundle, an inverse root, roundings |
//!
//! Its scan is [`fesc_scan::Dual`].

mod activate;
mod linear;
mod norm;
mod projection;
mod steps;

pub use activate::{Activate, Piecewise};
pub use linear::{Bias, Linear};
pub use norm::Norm;
pub use projection::RlweProjection;
pub use steps::Steps;
