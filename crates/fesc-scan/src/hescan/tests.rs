//! Kernels held to the recurrence.
#![allow(clippy::unwrap_used)]

use fesc_ckks::sets::Set;
use fesc_hybrid::backend::{Backend, Chain, Count, Plain};

use super::trial::{self, Inputs, Measured, Precision};
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

/// Runs a kernel with fresh keys of `set`, on so many threads. What is done must be what is counted, and the
/// errors must be those of the formula.
pub(crate) fn run_encrypted(kernel: &impl HeScan, set: &Set, threads: usize, seed: u8) -> Measured {
    let params = set.params().unwrap();
    let measured = trial::encrypted(kernel, &params, threads, Inputs::Held, seed).unwrap();
    assert_eq!(measured.tally, count(kernel, Chain::of(&params)).operations().tally());
    let formula = trial::noise(kernel, &params, seed).unwrap();
    errors_are_those_of_the_formula(kernel, measured.precision, formula);
    measured
}

/// Both ways: a formula that is too large says as little as one that is too small.
fn errors_are_those_of_the_formula(kernel: &impl HeScan, measured: Precision, formula: f64) {
    let Precision { rms, error, .. } = measured;
    let shape = kernel.shape();
    println!("{shape:?}: {:.2} bits, {:.3} times the formula", measured.bits(), rms / formula);
    assert!(rms < 2.0 * formula && formula < 2.0 * rms, "{shape:?}: {rms:e}, formula {formula:e}");
    // The largest of m errors under one key is about ln m deviations (`Plain`).
    let most = 3.0 * formula * ((shape.tokens * shape.channels()) as f64).ln().max(1.0);
    assert!(error < most, "{shape:?}: {error:e} is more than {most:e}");
    // Packed inputs have larger errors of encryption.
    let least = if (0..kernel.inputs()).any(|i| kernel.parts(i) > 1) { 22.0 } else { 23.0 };
    assert!(measured.bits() >= least, "{shape:?}: {measured:?}");
}

/// Shapes of the tests of every packing: tokens, heads, channels of a head, groups, states.
pub(crate) const SHAPES: [[usize; 5]; 6] =
    [[1, 1, 1, 1, 1], [5, 1, 2, 1, 3], [16, 2, 4, 1, 4], [13, 4, 3, 2, 5], [32, 3, 2, 3, 2], [33, 2, 4, 1, 8]];

pub(crate) fn shape([tokens, heads, head_dim, groups, state]: [usize; 5]) -> ScanShape {
    ScanShape { tokens, heads, head_dim, groups, state }
}
