//! The kernel against the recurrence, the ledger and the formulas.
#![allow(clippy::unwrap_used)]

use fesc_hybrid::backend::{Chain, Count, Operation, Plain, Tally};
use num_complex::Complex64;

use super::*;
use crate::hescan::tests::{Clear, count, equals_the_recurrence};

const PARALLEL: Carry = Carry::Parallel;
const SERIAL: Carry = Carry::Serial { refresh: None };

fn shape(tokens: usize, heads: usize, head_dim: usize, groups: usize, state: usize) -> ScanShape {
    ScanShape { tokens, heads, head_dim, groups, state }
}

fn options(state_slots: usize, block: usize) -> Options {
    let topology = Topology::BrentKung;
    Options { state_slots, block, topology, carry: PARALLEL, work: Work::Needed, hold: false, end: 0 }
}

/// Holds a kernel to the recurrence, and its depth to the formula.
fn holds(shape: ScanShape, slots: usize, options: Options) {
    let kernel = Chunks::new(shape, slots, options).unwrap();
    assert_eq!(kernel.plan.top, options.end + kernel.depth(), "{shape:?} {options:?}");
    equals_the_recurrence(&kernel, slots, kernel.plan.top, 7);
}

#[test]
fn equals_the_recurrence_for_odd_shapes() {
    // K_s is 1, 2, 4, 5, 3, 6, 5, 4.
    let cases = [
        (shape(5, 1, 2, 1, 2), 8, 4),
        (shape(13, 2, 4, 2, 4), 32, 16),
        (shape(5, 4, 4, 2, 8), 32, 32),
        (shape(32, 5, 2, 1, 4), 16, 8),
        (shape(13, 3, 4, 1, 2), 16, 8),
        (shape(5, 3, 4, 3, 8), 64, 16),
        (shape(13, 3, 3, 1, 4), 32, 8),
        (shape(5, 4, 4, 2, 2), 64, 10),
        (shape(1, 2, 2, 1, 4), 32, 8),
    ];
    for (shape, slots, state_slots) in cases {
        for work in [Work::Needed, Work::Counted] {
            for hold in [false, true] {
                holds(shape, slots, Options { work, hold, ..options(state_slots, shape.tokens) });
            }
        }
    }
}

#[test]
fn equals_the_recurrence_for_every_network_block_and_carry() {
    for tokens in [1, 5, 13, 32] {
        let shape = shape(tokens, 2, 4, 1, 4);
        for block in [1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32].into_iter().filter(|b| *b <= tokens) {
            for topology in Topology::ALL {
                for (carry, work) in [(PARALLEL, Work::Needed), (SERIAL, Work::Needed), (PARALLEL, Work::Counted)] {
                    holds(shape, 16, Options { topology, carry, work, end: 1, ..options(16, block) });
                }
            }
        }
    }
}
