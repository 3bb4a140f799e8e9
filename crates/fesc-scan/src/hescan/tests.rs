//! Kernels held to the recurrence.
#![allow(clippy::unwrap_used)]

use fesc_ckks::sets::Set;
use fesc_hybrid::backend::{Backend, Chain, Count, Plain};

use super::trial::{self, Inputs, Measured};
use super::{HeScan, ScanShape};

/// Runs a kernel in the clear at `slots` slots with `levels` levels; the largest error, relative to the
/// largest output, must be small, and what it does must be what is counted.
pub(crate) fn equals_the_recurrence(kernel: &impl HeScan, slots: usize, levels: usize, seed: u8) {
    let chain = Chain::ideal(slots, 40, levels, 3);
    let plain = Plain::new(chain.clone());
    let precision = trial::in_the_clear(kernel, &plain, seed).unwrap();
    assert!(precision.error <= 1e-9 * precision.largest, "{:?}: {precision:?}", kernel.shape());
    assert!(precision.largest > 0.0);
    assert_eq!(count(kernel, chain).operations().tally(), plain.operations().tally());
}

/// A kernel, counted.
pub(crate) fn count(kernel: &impl HeScan, chain: Chain) -> Count {
    trial::count(kernel, chain).unwrap()
}

/// Runs a kernel with fresh keys of `set`, on so many threads. What is done must be what is counted.
pub(crate) fn run_encrypted(kernel: &impl HeScan, set: &Set, threads: usize, seed: u8) -> Measured {
    let params = set.params().unwrap();
    let measured = trial::encrypted(kernel, &params, threads, Inputs::Held, seed).unwrap();
    assert_eq!(measured.tally, count(kernel, Chain::of(&params)).operations().tally());
    measured
}

/// Shapes of the tests of every packing: tokens, heads, channels of a head, groups, states.
pub(crate) const SHAPES: [[usize; 5]; 6] =
    [[1, 1, 1, 1, 1], [5, 1, 2, 1, 3], [16, 2, 4, 1, 4], [13, 4, 3, 2, 5], [32, 3, 2, 3, 2], [33, 2, 4, 1, 8]];

pub(crate) fn shape([tokens, heads, head_dim, groups, state]: [usize; 5]) -> ScanShape {
    ScanShape { tokens, heads, head_dim, groups, state }
}
