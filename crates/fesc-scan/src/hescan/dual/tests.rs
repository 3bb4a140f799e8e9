#![allow(clippy::unwrap_used)]

use fesc_ckks::sets::{BOUNDARY, CHAIN_2, PROJECT};
use fesc_hybrid::backend::{Chain, Plain};

use super::*;
use crate::hescan::tests::{count, equals_the_recurrence, run_encrypted};
use crate::hescan::trial::ClearPacket;

const BASE: ScanShape = ScanShape { tokens: 128, heads: 24, head_dim: 64, groups: 1, state: 128 };

fn shape(tokens: usize, heads: usize, head_dim: usize, groups: usize, state: usize) -> ScanShape {
    ScanShape { tokens, heads, head_dim, groups, state }
}

#[test]
fn outputs_are_those_of_the_recurrence() {
    let cases = [
        (shape(1, 1, 1, 1, 1), 64),
        (shape(1, 2, 3, 2, 5), 64),
        (shape(2, 2, 4, 1, 3), 64),
        (shape(3, 2, 2, 2, 4), 64),
        (shape(4, 1, 5, 1, 7), 64),
        (shape(5, 3, 3, 1, 6), 64),
        (shape(7, 2, 4, 1, 64), 128),
        (shape(16, 4, 3, 2, 5), 64),
        (shape(16, 2, 8, 1, 16), 1024),
        (shape(33, 3, 5, 3, 9), 128),
        (shape(33, 6, 4, 2, 16), 4096),
        (shape(64, 1, 2, 1, 3), 64),
        (shape(100, 2, 6, 1, 8), 512),
        (shape(128, 4, 4, 1, 16), 2048),
        (shape(128, 3, 3, 1, 20), 4096),
    ];
    for (seed, (shape, slots)) in cases.into_iter().enumerate() {
        for out in [0, 2] {
            let kernel = DualScan::new(shape, slots, out).unwrap();
            equals_the_recurrence(&kernel, slots, out + kernel.depth(), seed as u8);
        }
    }
}

/// A chunk has as many tokens as there are states, padded, and at least 4.
#[test]
fn chunks_with_carries_give_the_recurrence_and_are_counted() {
    let cases = [
        (shape(3, 2, 3, 1, 5), 64),
        (shape(5, 1, 1, 1, 1), 64),
        (shape(8, 2, 4, 1, 3), 64),
        (shape(9, 2, 4, 2, 4), 64),
        (shape(16, 4, 3, 2, 5), 64),
        (shape(33, 3, 5, 3, 9), 128),
        (shape(64, 1, 2, 1, 3), 64),
        (shape(77, 2, 4, 1, 8), 512),
        (shape(128, 4, 4, 1, 16), 1024),
        (shape(300, 2, 3, 1, 7), 1024),
        (shape(2048, 1, 2, 1, 8), 2048),
    ];
    for (seed, (shape, slots)) in cases.into_iter().enumerate() {
        let kernel = DualScan::chunked(shape, slots, 1).unwrap();
        equals_the_recurrence(&kernel, slots, 1 + kernel.depth(), seed as u8);
        let counted = count(&kernel, Chain::ideal(slots, 40, 1 + kernel.depth(), 3));
        assert_eq!(counted.operations().tally().key_switches(), kernel.key_switches(), "{shape:?}");
    }
}

/// Bounds of what is masked need to count outputs only.
#[test]
fn slots_without_an_output_are_zero() {
    for kernel in [DualScan::new, DualScan::chunked].map(|new| new(shape(21, 3, 5, 1, 6), 128, 0).unwrap()) {
        let clear = ClearPacket::random(*kernel.shape(), kernel.factors(), 3);
        let plain = Plain::new(Chain::ideal(128, 40, kernel.depth(), 3));
        let results = kernel.run(&plain, &|i| plain.fresh(&clear.slots(&kernel, i), kernel.level(i))).unwrap();
        for (i, result) in results.iter().enumerate() {
            let parts = kernel
                .outputs(i)
                .into_iter()
                .zip(result.slots())
                .flat_map(|(lane, z)| lane.into_iter().zip([z.re, z.im]));
            let mut unnamed = parts.filter(|(output, _)| output.is_none());
            assert!(unnamed.all(|(_, part)| part.abs() < 1e-12));
        }
    }
}

#[test]
fn every_number_of_baby_steps_gives_the_same_and_is_counted() {
    for tokens in [5, 21, 64] {
        for baby in [4, 8, 16, 32] {
            let mut kernel = DualScan::new(shape(tokens, 2, 4, 1, 6), 256, 0).unwrap();
            kernel.baby = baby;
            equals_the_recurrence(&kernel, 256, kernel.depth(), baby as u8);
            let counted = count(&kernel, Chain::ideal(256, 40, kernel.depth(), 3));
            let switches = counted.operations().tally().key_switches();
            assert_eq!(switches, kernel.key_switches(), "{tokens} tokens, {baby} baby steps");
        }
    }
}

#[test]
fn the_base_shape_takes_1104_key_switches_and_30_keys() {
    let kernel = DualScan::new(BASE, 1 << 14, BOUNDARY).unwrap();
    let counted = count(&kernel, Chain::of_set(&PROJECT));
    let operations = counted.operations();
    // Scores: 64 pairs with a relinearisation, 5 rotations, a conjugation; 7 rotations of B and 7 of C for
    // each of 4 parts of the states. Each of 6 blocks: 3 near shifts (rotation, relinearisation), 5 levels
    // with r, 4 + 12 + 3 * 15 rotations, 1 + 1 + 2 + 4 + 8 sums, 11 giant steps, and the last sum.
    assert_eq!(64 * 7 + 4 * 14 + 6 * (6 + 5 + 61 + 16 + 11 + 1), 1104);
    assert_eq!(operations.tally().key_switches(), 1104);
    assert_eq!((kernel.key_switches(), kernel.baby, kernel.states), (1104, 16, 32));
    let plan = operations.key_plan();
    assert_eq!(plan.rotations.len() + 2, 30);
    assert_eq!((kernel.inputs(), kernel.results()), (2 * 4 + 6 * (1 + 3 + 10), 6));
}

#[test]
fn carries_make_long_documents_linear() {
    let switches = |tokens: usize, carries: bool| {
        let shape = ScanShape { tokens, ..BASE };
        let made = if carries { DualScan::chunked(shape, 1 << 14, 2) } else { DualScan::new(shape, 1 << 14, 2) };
        let kernel = made.unwrap();
        (kernel.key_switches(), kernel.depth())
    };
    assert_eq!((switches(512, false), switches(512, true)), ((7264, 3), (5232, 5)));
    assert_eq!((switches(2048, false), switches(2048, true)), ((53888, 3), (19936, 6)));
    // 96 blocks; 64 pairs with 3 rotations; 16 parts of the states.
    assert_eq!(96 * (100 + 2 * (31 + 8 + 7) + 2 + 8) + 64 * 5 + 16 * 14, 19936);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    assert!(DualScan::new(shape(0, 1, 1, 1, 1), 64, 0).is_err());
    assert!(DualScan::new(shape(65, 1, 1, 1, 1), 64, 0).is_err());
    assert!(DualScan::new(shape(8, 3, 1, 2, 1), 64, 0).is_err());
    assert!(DualScan::new(shape(8, 1, 1, 1, 1), 48, 0).is_err());
}

#[test]
fn ciphertexts_give_the_recurrence_too() {
    let kernel = DualScan::new(shape(13, 4, 7, 2, 6), 1 << 14, BOUNDARY).unwrap();
    let carries = DualScan::chunked(shape(50, 2, 5, 1, 3), 1 << 14, BOUNDARY).unwrap();
    assert_eq!((carries.depth(), carries.chunk), (CHAIN_2.levels - BOUNDARY, 4));
    for (kernel, set) in [(kernel, PROJECT), (carries, CHAIN_2)] {
        let run = run_encrypted(&kernel, &set, 2, 5);
        assert_eq!(run.tally.key_switches(), kernel.key_switches());
    }
}
