//! What is done equals what formulas say.

use crate::backend::{Backend, Chain, Count, Operation, Plain, Tally};
use crate::project::{Convolution, InProjection, Layout, Pairing, Projection, SquareSums};

use super::super::projection::STEPS;
use super::clear::PAIRINGS;

fn at(tally: &Tally, operation: Operation, level: usize) -> u64 {
    tally.by_level(operation).filter(|(l, _)| *l == level).map(|(_, n)| n).sum()
}

fn counted(layout: &Layout, run: impl FnOnce(&Count)) -> Tally {
    let count = Count::new(Chain::ideal(layout.slots, 40, layout.floor + 2, 3));
    run(&count);
    count.operations().tally()
}

fn of_projection(projection: &Projection) -> Tally {
    counted(projection.layout(), |count| {
        projection.run(count, &|_, _| 1.0, &|_| Ok(count.fresh(projection.level()))).unwrap();
    })
}

#[test]
fn a_projection_does_what_its_formula_says_at_each_level() {
    for pairing in PAIRINGS {
        for (slots, segment, tokens) in [(32, 8, 3), (64, 8, 40), (8, 8, 1), (1024, 16, 500)] {
            for (rows, columns) in [(1, 1), (8, 8), (9, 17), (40, 3), (3, 50), (33, 64)] {
                let layout = Layout { slots, segment, tokens, pairing, floor: 2 };
                let projection = Projection::new(layout, rows, columns).unwrap();
                let (tally, counts) = (of_projection(&projection), projection.counts());
                assert_eq!(at(&tally, Operation::PlainProduct, 3), counts.plain_products);
                assert_eq!(at(&tally, Operation::HoistedRotation, 3), counts.hoisted_rotations);
                assert_eq!(at(&tally, Operation::Rotation, 3), counts.input_rotations);
                assert_eq!(at(&tally, Operation::Rotation, 2), counts.giant_rotations);
                assert_eq!(at(&tally, Operation::Rescale, 3), counts.rescales);
                let switches = counts.hoisted_rotations + counts.input_rotations + counts.giant_rotations;
                assert_eq!(tally.key_switches(), switches);
            }
        }
    }
}

#[test]
fn full_blocks_have_the_counts_of_the_module_documentation() {
    // HEInProj of mamba-base without its convolution, 128 tokens; the paper's blocks are half full of
    // garbage.
    for (pairing, segment, inputs, blocks) in [(Pairing::Tokens, 256, 3, 13), (Pairing::Features, 128, 3, 26)] {
        let layout = Layout { slots: 1 << 14, segment, tokens: 128, pairing, floor: 2 };
        let projection = Projection::new(layout, 768, 3328).unwrap();
        assert_eq!((projection.inputs(), projection.results()), (inputs, blocks));
        let (counts, n1, f) = (projection.counts(), projection.steps() as u64, segment as u64);
        let (inputs, blocks) = (inputs as u64, blocks as u64);
        assert_eq!(counts.plain_products, inputs * blocks * (2 * f - 1));
        assert_eq!(counts.hoisted_rotations, inputs * 2 * (n1 - 1));
        assert_eq!(counts.input_rotations, inputs);
        assert_eq!(counts.giant_rotations, blocks * (f / n1 - 1));
        assert_eq!(counts.rescales, blocks * f / n1);
    }
}

#[test]
fn a_convolution_does_what_its_documentation_says() {
    for (tokens, second) in [(3, 0), (16, 1), (40, 1)] {
        let layout = Layout { slots: 64, segment: 8, tokens, pairing: Pairing::Tokens, floor: 1 };
        let kernel = Convolution::new(layout, 20, 4).unwrap();
        let tally = counted(&layout, |count| {
            kernel.run(count, &|_, _| 1.0, &|_| 0.5, &|_| Ok(count.fresh(kernel.level()))).unwrap();
        });
        let (groups, blocks) = (layout.groups() as u64, 3);
        assert_eq!(at(&tally, Operation::HoistedRotation, 2), 3 * blocks * groups);
        assert_eq!(at(&tally, Operation::PlainProduct, 2), blocks * (7 * groups - 3 + 3 * second));
        assert_eq!(at(&tally, Operation::Rescale, 2), blocks * (groups + second));
        assert_eq!(at(&tally, Operation::Conjugation, 1), blocks * second);
        assert_eq!(tally.key_switches(), blocks * (3 * groups + second));
    }
}

#[test]
fn a_fused_projection_does_both_and_lowers_the_rest() {
    let layout = Layout { slots: 64, segment: 8, tokens: 16, pairing: Pairing::Tokens, floor: 1 };
    let kernel = InProjection::new(layout, 20, 50, 30..47, 4).unwrap();
    let tally = counted(&layout, |count| {
        let input = |_| Ok(count.fresh(kernel.level()));
        kernel.run(count, &|_, _| 1.0, &|_, _| 1.0, &|_| 0.5, &input).unwrap();
    });
    let counts = kernel.projection().counts();
    assert_eq!(at(&tally, Operation::PlainProduct, 3), counts.plain_products);
    assert_eq!(at(&tally, Operation::PlainProduct, 2), 3 * 7);
    // 7 blocks, of which the convolution takes the first 3, twice for second tokens.
    assert_eq!(at(&tally, Operation::Rescale, 2), 4 + 6);
    assert_eq!(kernel.results(), 7);
}

#[test]
fn sums_of_squares_are_one_relinearisation_for_all_blocks() {
    for (pairing, inputs, relinearisations) in [(Pairing::Features, 2, 1), (Pairing::Tokens, 3, 2)] {
        let layout = Layout { slots: 64, segment: 8, tokens: 8, pairing, floor: 1 };
        let kernel = SquareSums::new(layout, 20).unwrap();
        let tally = counted(&layout, |count| {
            kernel.run(count, &|_| Ok(count.fresh(kernel.level()))).unwrap();
        });
        assert_eq!(tally.total(Operation::Conjugation), inputs);
        assert_eq!(tally.total(Operation::Relinearisation), relinearisations);
        assert_eq!(tally.total(Operation::Product), inputs * relinearisations);
        assert_eq!(kernel.results() as u64, relinearisations);
    }
}

#[test]
fn ciphertexts_in_memory_do_not_grow_with_tokens_or_columns() {
    let most = |tokens: usize, columns: usize| {
        let layout = Layout { slots: 64, segment: 8, tokens, pairing: Pairing::Tokens, floor: 1 };
        let projection = Projection::new(layout, 24, columns).unwrap();
        let count = Count::new(Chain::ideal(64, 40, 2, 2));
        let results = projection.run(&count, &|_, _| 1.0, &|_| Ok(count.fresh(2))).unwrap();
        (count.live().most() - results.len() as u64, projection.steps())
    };
    let (one, steps) = most(16, 400);
    assert!(one <= (2 * 3 * steps + 2 * STEPS) as u64, "{one} for {steps} steps");
    assert_eq!((most(160, 400), most(16, 800)), ((one, steps), (one, steps)));
}

#[test]
fn encoded_weights_are_made_for_one_task_and_dropped() {
    // A back end whose plaintexts count themselves.
    let layout = Layout { slots: 64, segment: 8, tokens: 16, pairing: Pairing::Tokens, floor: 1 };
    let most = |rows: usize, columns: usize| {
        let projection = Projection::new(layout, rows, columns).unwrap();
        let counting = super::weights::Counting::new(Plain::new(Chain::ideal(64, 40, 2, 2)));
        let input = |_| counting.inner.fresh(&[], 2);
        projection.run(&counting, &|_, _| 1.0, &input).unwrap();
        assert_eq!(counting.words.now(), 0);
        (counting.words.most_bytes(), projection.steps())
    };
    // Each diagonal has 8 values, whatever the number of slots; a task has all small steps of all inputs,
    // twice.
    let (few, steps) = most(24, 400);
    assert!(few <= (STEPS * 2 * 3 * steps * 8) as u64, "{few} values");
    assert_eq!(most(24, 800), (few, steps));
}
