//! HEInProj, HEConv and HEOutProj: encrypted activations times weights that whoever computes knows (the
//! paper, sections ks-he:ctpt, ks-he:conv and app:he-kernels:proj).
//!
//! # Layout
//! Slots are token-major: `row F + f`, with a segment of `F` features in each row. All tokens have the same
//! weights, so a diagonal of a weight matrix has the period `F` in the slots. Its encoding then has `2 F`
//! words a limb instead of `N`, and is made when it is used: no encoded matrix is ever stored. (With tokens
//! inside of a segment, as in the paper, a diagonal is constant along runs of slots, which does not compact:
//! 10,368 plaintexts of 2 MB for one layer of mamba-base.)
//!
//! # What the imaginary part is for
//! See [`Pairing`]: a second token, or a second block of features.
//!
//! # The wrap of features
//! A diagonal `d` needs feature `(f + d) mod F` of the *same* row, but a rotation by `d` takes features that
//! wrap from the next row. With `x' = rotate(x, -F)`, which has each row one row further down, the same
//! rotation of `x'` has them right. So a diagonal is two with disjoint supports, one for `rotate(x, q)` and
//! one for `rotate(x', q)`: twice the products and no level. The paper's masks (its `Psi`) cost a level for
//! the small steps, another for the giant steps, and twice the rotations at both; a product by a compact
//! diagonal has no transform and is far cheaper than a rotation. A shifted copy from the boundary in place of
//! `x'` would cost an upload for a single rotation.
//!
//! # Levels
//! A projection has depth 1, a convolution 1, both fused 2. Results are at [`Layout::floor`].
//!
//! # What is not guaranteed
//! Slots that name no output hold garbage (products of real inputs and weights, no noise alone): whoever
//! converts results must mask all slots, and must take [`Projection::output_bound`] for all of them.

mod convolution;
mod input;
mod layout;
mod projection;
mod squares;
#[cfg(test)]
mod tests;

pub use convolution::Convolution;
pub use input::InProjection;
pub use layout::{Lane, Layout, Pairing};
pub use projection::{Counts, Projection};
pub use squares::SquareSums;
