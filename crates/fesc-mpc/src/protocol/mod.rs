//! The primitives, batched over whole tensors.
//!
//! | protocol | message bits per element, both ways | rounds |
//! |---|---|---|
//! | [`Open`] | 2 l (to one party: l) | 1 |
//! | [`Bilinear`] | 2 l per opened element | 1 |
//! | [`Convert`] (known-sign truncation, ring extension) | 2; truncate-reduce: 0 | 1; 0 |
//! | [`Extend`] (to integers wider than a word) | 2 | 1 |
//! | [`Compare`] | 3 D + 7 K (2 D - 1) + K (6 (D - 1) - 2 log2 D) | 2 + ceil(log2 D) |
//! | [`Mux`] | 2 l + 2 | 1 |
//! | [`CotMux`] (hardly any correlation) | 2 l + 2 | 2 |
//! | [`BitToArithmetic`] | 2 | 1 |
//! | [`ArgMax`] | the sum of its comparisons and muxes | depth of the tournament times theirs |
//!
//! A comparison of n bits has K thresholds and D = ceil((n-1)/3) digits; its bits are those for D a power
//! of 2.

mod and_tree;
mod argmax;
mod bilinear;
mod bits;
mod compare;
mod convert;
mod cot_mux;
mod extend;
mod leaf;
mod mux;
mod open;
mod rescale;
#[cfg(test)]
mod tests;

pub use argmax::ArgMax;
pub use bilinear::{Bilinear, Opened};
pub use bits::BitToArithmetic;
pub use compare::{Compare, Sender, Thresholds};
pub use convert::Convert;
pub use cot_mux::CotMux;
pub use extend::{Extend, Extended};
pub use mux::Mux;
pub(crate) use mux::{Selected, combine};
pub use open::Open;
pub use rescale::Rescale;

pub(crate) use crate::messages::tag;
