//! The fixed-point twin of Mamba-2: the model in integers modulo 2^l, as the two-party protocol computes it.
//!
//! This page is the specification of the fast plan's protocol. Scales are fractional bits, F = 16, l = 48;
//! `round` is "subtract one, truncation" (floor or ceiling of the quotient, [`fesc_approx::trunc::round`]),
//! with known sign where the table does not say otherwise; s.* are the layer's [`Scales`]. Scales and forms
//! are the [`Outline`](crate::Outline)'s, which follows from [`Calibration`] and is public; weights are the
//! server's ([`Twin::secrets`]). One block:
//!
//! | stage | computes | from, to | range |
//! |---|---|---|---|
//! | embedding | row of the table | 30, F | 2^16 |
//! | norm (`norm.rs`) | u, sum of squares | F, s.norm | sum of squares 2^(46 - 2 s.norm) |
//! | | v, their mean | 2 s.norm + 2e, v_frac | |
//! | | r = rsqrt(v), two Newton steps; n = u r | s.norm + y_frac, F | v within 16 times of calibration |
//! | in_proj (`linear.rs`) | n W, exact | F + s.*_weight | |
//! | z | into the 34 bits of SiLU, local | F + s.gate_weight, F | |
//! | x, B, C | convolution folded in, bias added | F + s.conv_weight + s.conv_tap | 2^8 at 38 bits |
//! | | into the 34 bits of SiLU | to F | |
//! | SiLU of z, x, B, C | at 25 bits in Z_2^34 | from F | 122 (121 with ten thresholds) |
//! | | the truncation leads back into Z_2^l | z: F, x: s.x, B and C: s.bc | |
//! | dt | bias added | F + s.step_weight, 12 | |
//! | Delta | softplus, 14 bit comparison | 12, 22 | -70 to 50 |
//! | A Delta | server's A at 18 bits; -16 where dt is at or above the server's threshold | 40, 22 | 17.1 |
//! | scan (`scan/dual.rs`) | six steps, block dual form, by segments of 2,048 tokens | y at s.scanned | |
//! | gate | y SiLU(z) | s.scanned + F, s.gated | |
//! | gated norm | by group, as above | s.gated, F | |
//! | out_proj | n W, exact; added to u | F + s.out_weight, F | |
//!
//! then the final norm per token, pooling by a client-secret selection vector, the exact head, arg-max
//! (`head.rs`). With the paper's polynomials (`activation.rs`): SiLU at F bits in Z_2^48, inputs to 128 -
//! tau; dt to the 20 to 22 bits of MoSoft, which gives Delta with as many and is 0 where its polynomial could
//! be negative; the clamp where Delta reaches 16 / A by that form. exp may be MMExp (`exponent.rs`), of one
//! token's A Delta in a scan under CKKS, of sums in block dual form. `paper-44` is the same list at l = 44
//! and 19 bits everywhere, without the clamp, with the recurrence token by token (`scan/sequential.rs`).
//!
//! How a private result differs from the twin ([`Rounding::nearest`]): every `round` gives the same integer
//! or its neighbour, and RLWE adds noise of deviation 3.2 to the inputs of linear layers; inside a zone of
//! chance a piecewise form may take either piece. No bound for a whole layer follows from single ulps without
//! assumptions about the weights, so it is measured: `tests/spread.rs` states it in ulps by stage and by
//! block, [`Rounding::noisy`] measures it for any model, and [`Twin::layer`] computes one block from a
//! private input, so that a comparison does not carry the spread of one layer into the next.
//!
//! Cost: the products of the float model, in 52 or 64 bit integers. Memory does not grow with layers.
//!
//! Not guaranteed: that a document is computed at all. A value outside its range is an error that names it.

mod activation;
mod block;
pub mod calibrate;
mod error;
mod exponent;
mod forms;
mod head;
mod linear;
mod memory;
mod norm;
mod quantize;
mod range;
mod report;
mod rounding;
mod run;
mod scan;
mod secrets;
mod stats;

pub use crate::outline::Scales;
pub use crate::outline::scale::CHUNK;
pub use crate::plan::{Activations, ExpForm, Plan};
pub use calibrate::Calibration;
pub use error::TwinError;
pub use head::Outcome;
pub use memory::{Heads, states};
pub use range::{Margin, Quantity};
pub use report::{Apart, Gap, LayerGap, Report};
pub use rounding::{Rounding, StageNoise};
pub use run::{Shown, Twin};
pub use secrets::{HeadSecrets, LayerSecrets};
pub use stats::{LayerStats, NormStats, Span};

#[cfg(test)]
mod tests;
