//! The float reference: Mamba-2 in `f32`.
//!
//! One block, for a residual stream u of L tokens (paper, appendix model-details):
//!
//! ```text
//! [z, x, B, C, dt] = RMSNorm(u) W_in^T
//! [x, B, C]        = SiLU(conv(x, B, C) + bias)          causal, depthwise
//! Delta            = clamp(softplus(dt + dt_bias))       a_t = exp(A Delta_t), A = -exp(A_log)
//! h_t              = a_t h_(t-1) + Delta_t x_t B_t^T     per head, h_0 = 0
//! y_t              = h_t C_t + D x_t
//! u               += RMSNorm(y SiLU(z)) W_out^T
//! ```
//!
//! then a final RMSNorm, and a classifier on pooled states or the language model head. The recurrence is
//! [`Scan::Sequential`] as written, or [`Scan::Blocks`] in the block dual form of Mamba-2, which is the same
//! sum in another order and much faster.
//!
//! Cost of one layer at L tokens: L d_model (proj_dim + inner) multiplications for the projections and about
//! L inner (Q + 2 state) for the scan in blocks of Q. Mamba-base at 2,048 tokens takes about 6.3 CPU seconds
//! (AVX2 kernels, Xeon) and 0.43 GB (`examples/forward`).
//!
//! Not guaranteed: that memory is cleared. Weights come from a file on the same machine, and the document is
//! in the clear here.

mod block;
mod gemm;
mod init;
mod matrix;
mod model;
mod ops;
mod recurrence;
mod scan;
mod ssd;
mod weights;

pub use block::{Site, Tensor};
pub use matrix::Matrix;
pub use model::Model;
pub use recurrence::{Factors, recurrence};
pub use scan::{Scan, ScanInput};
pub use weights::{Head, Layer, Weights};
