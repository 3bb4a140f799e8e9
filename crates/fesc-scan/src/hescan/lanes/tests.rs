#![allow(clippy::unwrap_used)]

use fesc_ckks::sets::{BOUNDARY, SCAN_D10, SCAN_D14};
use fesc_hybrid::backend::{Backend, Chain, Operation};

use super::*;
use crate::hescan::packed::Packed;
use crate::hescan::tests::{SHAPES, count, equals_the_recurrence, run_encrypted, shape};

fn params(blocks: usize, coordinates: usize, leaf: usize, fold: bool) -> LanesParams {
    LanesParams { blocks, coordinates, leaf, floor: 1, fold, together: 1 + blocks % 4 }
}

#[test]
fn every_cut_of_every_shape_equals_the_recurrence() {
    for (number, sizes) in SHAPES.into_iter().enumerate() {
        for (blocks, coordinates) in [(1, 1), (1, 4), (2, 2), (4, 1), (8, 2), (16, 1)] {
            for leaf in [1, 2, 4, 8] {
                let kernel = Lanes::new(shape(sizes), 32, params(blocks, coordinates, leaf, leaf == 2)).unwrap();
                equals_the_recurrence(&kernel, 32, kernel.top(), number as u8);
                inputs_repeat_as_they_say(&kernel);
                let packed = Packed::new(kernel);
                equals_the_recurrence(&packed, 32, packed.inner().top(), number as u8);
            }
        }
    }
}

fn inputs_repeat_as_they_say(kernel: &Lanes) {
    for i in 0..kernel.inputs() {
        let lanes = kernel.lanes(i);
        let run = lanes.len() / kernel.repeats(i).times;
        assert!(lanes.iter().zip(lanes.iter().skip(run)).all(|(a, b)| a == b), "{:?}, {i}", kernel.shape());
    }
}

/// At base B and C go up 256 in one, decays 32; what takes them apart is one key switch each.
#[test]
fn uploads_are_few_where_inputs_repeat() {
    let new = |together| {
        let cut = LanesParams { floor: BOUNDARY, together, ..params(8, 8, 8, false) };
        Lanes::new(shape([128, 24, 64, 1, 128]), 1 << 14, cut).unwrap()
    };
    let kernel = new(1);
    let [x, a, b, c] = kernel.input_counts();
    let packed = Packed::new(kernel.clone());
    assert_eq!((x, a, b, c), (48, 48, 256, 256));
    assert_eq!(packed.inputs(), x + 2 + 1 + 1);
    let switches = |k: &dyn Fn(Chain) -> u64| k(Chain::ideal(1 << 14, 40, 12, 5));
    let apart = switches(&|chain| count(&kernel, chain).operations().tally().key_switches());
    // Three blocks of channels ask for B and C, one by one or together.
    for (together, times) in [(1, 3), (2, 2), (3, 1), (9, 1)] {
        let packed = Packed::new(new(together));
        let all = switches(&|chain| count(&packed, chain).operations().tally().key_switches());
        assert_eq!(all - apart, (31 + 15 + times * (255 + 255)) as u64);
    }
}

#[test]
fn a_long_document_equals_the_recurrence() {
    for (leaf, blocks) in [(2, 32), (32, 64), (8, 2), (1, 16)] {
        let kernel = Lanes::new(shape([2048, 2, 4, 1, 2]), 256, params(blocks, 1, leaf, false)).unwrap();
        equals_the_recurrence(&kernel, 256, kernel.top(), 9);
    }
}

#[test]
fn counts_are_those_of_the_formula() {
    let base = shape([128, 24, 64, 1, 128]);
    for (blocks, coordinates, leaf, fold) in [(16, 8, 1, true), (16, 8, 2, false), (16, 8, 8, false), (8, 16, 4, true)]
    {
        let kernel = Lanes::new(base, 1 << 14, params(blocks, coordinates, leaf, fold)).unwrap();
        let counted = count(&kernel, Chain::ideal(1 << 14, 40, kernel.top(), 5));
        let tally = counted.operations().tally();
        let formula = kernel.formula();
        let decays = tally.key_switches() - formula.total();
        // Decays: some for each place of each of the six blocks of channels, not of the 96 columns.
        let places = (kernel.results() as u64) * (3 + 2 * leaf.ilog2() as u64) * leaf as u64;
        assert!(decays < places, "{decays} decays, {formula:?}");
        assert_eq!(kernel.depth(), 10);
        assert_eq!(tally.total(Operation::Conjugation), 0);
        println!("blocks {blocks} leaf {leaf} fold {fold}: {formula:?}, {decays} decays, {}", tally.key_switches());
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let base = shape([128, 24, 64, 1, 128]);
    assert!(Lanes::new(base, 16, params(8, 4, 1, false)).is_err());
    assert!(Lanes::new(base, 16, params(3, 1, 1, false)).is_err());
    assert!(Lanes::new(base, 16, params(2, 1, 3, false)).is_err());
    assert!(Lanes::new(shape([0, 1, 1, 1, 1]), 16, params(1, 1, 1, false)).is_err());
    assert!(Lanes::new(shape([1, 3, 1, 2, 1]), 16, params(1, 1, 1, false)).is_err());
}

/// 2,048 tokens in pairs, and `hybrid` with packed inputs.
#[test]
fn encrypted_scans_equal_the_recurrence() {
    for (tokens, blocks, leaf, set) in [(2048, 32, 2, SCAN_D14), (64, 16, 8, SCAN_D10)] {
        let cut = LanesParams { blocks, coordinates: 16, leaf, floor: BOUNDARY, fold: false, together: 1 };
        let kernel = Lanes::new(shape([tokens, 4, 16, 1, 16]), 1 << 14, cut).unwrap();
        assert!(kernel.top() <= set.levels);
        let kernel = if leaf == 2 { Packed::apart(kernel) } else { Packed::new(kernel) };
        run_encrypted(&kernel, &set, 2, 1);
    }
}

/// A count takes chunks, and blocks of channels, that are alike as one, with the same result.
#[test]
fn what_is_alike_is_counted_once_with_the_same_result() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let shape = ScanShape { tokens: 64, heads: 12, head_dim: 16, groups: 2, state: 16 };
    for (blocks, coordinates, leaf, together) in [(4, 2, 2, 1), (8, 1, 4, 1), (1, 4, 2, usize::MAX), (16, 2, 4, 1)] {
        let params = LanesParams { blocks, coordinates, leaf, floor: 1, fold: false, together };
        let kernel = Lanes::new(shape, 512, params).unwrap();
        let chain = || fesc_hybrid::backend::Chain::ideal(512, 40, kernel.top(), 3);
        let all = crate::hescan::tests::count(&kernel, chain());
        let (once, asked) = (fesc_hybrid::backend::Count::new(chain()), AtomicU64::new(0));
        let input = |i: usize| {
            asked.fetch_add(1, Ordering::Relaxed);
            Ok(once.fresh(kernel.level(i)))
        };
        crate::hescan::packed::Packed::apart(kernel.clone()).run(&once, &input).unwrap();
        assert_eq!(once.operations().tally(), all.operations().tally());
        assert_eq!(once.inputs(), all.inputs());
        let live = |c: &fesc_hybrid::backend::Count| (c.live().most(), c.live().most_bytes(), c.live().by_level());
        assert_eq!(live(&once), live(&all));
        let inputs: u64 = all.inputs().values().sum();
        assert!(asked.load(Ordering::Relaxed) < inputs / 2, "{} of {inputs}", asked.load(Ordering::Relaxed));
    }
}
