//! The kernel against the recurrence, the ledger and the formulas.
#![allow(clippy::unwrap_used)]

use fesc_ckks::sets::{CHAIN_2, SCAN_D10, SCAN_D12};
use fesc_hybrid::backend::{Chain, CkksCt, Count, Operation, Plain, PlainCt, Tally};

use super::*;
use crate::hescan::paper;
use crate::hescan::tests::{SHAPES, count, equals_the_recurrence, run_encrypted, shape};
use crate::hescan::trial::{ClearPacket, Inputs, Precision, Trial};

mod factors;

const PARALLEL: Carry = Carry::Parallel;
const NEEDED: Work = Work::Needed;
const COUNTED: Work = Work::Counted;
const SERIAL: Carry = Carry::Serial;

fn options(state_slots: usize, block: usize) -> Options {
    Options { state_slots, block, hold: false, ..Options::whole(&shape([1; 5]), 1) }
}

/// A kernel whose depth is that of the formula.
fn kernel(shape: ScanShape, slots: usize, options: Options) -> Chunks {
    let kernel = Chunks::new(shape, slots, options).unwrap();
    assert_eq!(kernel.plan.top, options.end + kernel.depth(), "{shape:?} {options:?}");
    kernel
}

/// Holds a kernel to the recurrence, and what it does to its formulas.
fn holds(shape: ScanShape, slots: usize, options: Options) {
    let kernel = kernel(shape, slots, options);
    holds_with(&kernel, slots);
    let counted = count(&kernel, Chain::ideal(slots, 40, kernel.plan.top, 3));
    assert_eq!(counted.operations().tally().key_switches(), kernel.key_switches(), "{shape:?} {options:?}");
}

fn holds_with(kernel: &Chunks, slots: usize) {
    let (shape, options) = (kernel.shape(), kernel.options);
    assert_eq!(kernel.plan.top, options.end + kernel.depth(), "{shape:?} {options:?}");
    equals_the_recurrence(kernel, slots, kernel.plan.top, 7);
    let counted = count(kernel, Chain::ideal(slots, 40, kernel.plan.top, 3));
    let broadcasts = counted.parts().get("broadcast").map_or(0, |t| t.key_switches());
    assert_eq!(broadcasts, kernel.broadcasts(), "{shape:?} {options:?}");
    // The first and the last operation are masks: what lies between them is the depth.
    let masks: Vec<usize> = counted.operations().tally().by_level(Operation::PlainProduct).map(|(l, _)| l).collect();
    let ends = masks.first().copied().zip(masks.last().copied());
    assert_eq!(ends, Some((options.end + 1, options.end + kernel.depth())));
}

#[test]
fn equals_the_recurrence_for_odd_shapes() {
    // K_s is 1, 2, 4, 5, 3, 6, 5, 4, 1.
    let cases = [
        (shape([5, 1, 2, 1, 2]), 8, 4),
        (shape([13, 2, 4, 2, 4]), 32, 16),
        (shape([5, 4, 4, 2, 8]), 32, 32),
        (shape([32, 5, 2, 1, 4]), 16, 8),
        (shape([13, 3, 4, 1, 2]), 16, 8),
        (shape([5, 3, 4, 3, 8]), 64, 16),
        (shape([13, 3, 3, 1, 4]), 32, 8),
        (shape([5, 4, 4, 2, 2]), 64, 10),
        (shape([1, 2, 2, 1, 4]), 32, 16),
    ];
    let others = SHAPES.map(|sizes| (shape(sizes), 32, 16));
    for (shape, slots, state_slots) in cases.into_iter().chain(others) {
        for work in [Work::Needed, Work::Counted] {
            for hold in [false, true] {
                for block in [shape.tokens, shape.tokens.div_ceil(3)] {
                    holds(shape, slots, Options { work, hold, ..options(state_slots, block) });
                }
            }
        }
    }
}

#[test]
fn equals_the_recurrence_for_every_network_block_and_carry() {
    for tokens in [1, 5, 13, 32] {
        let shape = shape([tokens, 2, 4, 1, 4]);
        for block in [1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32].into_iter().filter(|b| *b <= tokens) {
            for topology in Topology::ALL {
                for (carry, work) in [(PARALLEL, NEEDED), (SERIAL, NEEDED), (PARALLEL, COUNTED), (SERIAL, COUNTED)] {
                    holds(shape, 16, Options { topology, carry, work, end: 1, ..options(16, block) });
                }
            }
        }
    }
}

#[test]
fn a_long_document_equals_the_recurrence() {
    for (tokens, block, carry) in [(2048, 2048, PARALLEL), (2048, 64, PARALLEL), (1000, 256, SERIAL)] {
        let options = Options { carry, ..options(16, block) };
        holds(shape([tokens, 2, 4, 1, 4]), 16, options);
    }
}

#[test]
fn a_state_enters_and_is_handed_on() {
    for tokens in [1, 5, 13] {
        let shape = shape([tokens, 3, 4, 1, 3]);
        for block in [1, 3, 4, 13].into_iter().filter(|b| *b <= tokens) {
            for (carry, topology) in [(PARALLEL, Topology::BrentKung), (SERIAL, Topology::Sklansky)] {
                for (carry_in, carry_out) in [(true, false), (false, true), (true, true)] {
                    holds(shape, 16, Options { carry, topology, carry_in, carry_out, end: 1, ..options(16, block) });
                }
            }
        }
    }
    let counted = Options { work: COUNTED, carry_in: true, ..options(16, 5) };
    assert!(Chunks::new(shape([5, 2, 4, 1, 4]), 16, counted).is_err());
}

/// Parts of `blocks` blocks, each with a kernel of its own and fresh encryptions of the state between them,
/// are the recurrence over all of them.
#[test]
fn refreshed_carries_equal_the_recurrence_at_the_depth_of_a_part() {
    let whole = shape([13, 2, 4, 1, 4]);
    let clear = ClearPacket::random(whole, &Factors::MAMBA2, 3);
    for (block, blocks) in [(1, 1), (1, 5), (2, 2), (3, 1), (4, 2), (13, 1)] {
        let (mut state, mut outputs) = (vec![0.0; whole.state * whole.channels()], Vec::new());
        for first in (0..whole.tokens).step_by(block * blocks) {
            let tokens = (block * blocks).min(whole.tokens - first);
            let (carry_in, carry_out) = (first > 0, first + tokens < whole.tokens);
            let carry = if block == 2 { PARALLEL } else { SERIAL };
            let part = Options { carry, carry_in, carry_out, ..options(16, block.min(tokens)) };
            let kernel = kernel(ScanShape { tokens, ..whole }, 16, part);
            let plain = Plain::new(Chain::ideal(16, 40, kernel.plan.top, 3));
            let clear = clear.part(first..first + tokens, state);
            let results = kernel.run(&plain, &|i| plain.fresh(&clear.slots(&kernel, i), kernel.level(i))).unwrap();
            let mut got = clear.read(&kernel, results.iter().map(PlainCt::slots));
            state = got.split_off(tokens * whole.channels());
            outputs.extend(got);
        }
        let precision = Precision::of(&outputs, &clear.recurrence());
        assert!(precision.error < 1e-9 * precision.largest, "block {block}, {blocks} blocks: {precision:?}");
    }
}

#[test]
fn a_refresh_bounds_the_depth() {
    let depth = |tokens, block, carries| {
        let options = Options { carry: SERIAL, carry_in: carries, carry_out: carries, ..options(1 << 14, block) };
        kernel(paper::base(tokens), 1 << 14, options).depth()
    };
    // The paper: 22, 26, 34, 48, 24, without masks.
    let rows = paper::long().map(|row| match row.refresh {
        None => depth(row.depth.tokens, row.depth.block, false),
        Some(blocks) => depth(blocks * row.depth.block, row.depth.block, true),
    });
    assert_eq!(rows, [23, 21, 28, 43, 20]);
    let whole = paper::AUDIT.map(|row| depth(row.tokens, row.tokens, false));
    // The paper: 17, 19, 21, 23 (2,048 in two blocks: 22).
    assert_eq!(whole, [16, 18, 20, 22, 24]);
}

#[test]
fn any_number_of_workers_gives_the_same_bits() {
    for (work, shape) in [(Work::Needed, shape([5, 5, 4, 1, 4])), (Work::Counted, shape([5, 3, 4, 1, 4]))] {
        let kernel = kernel(shape, 32, Options { work, ..options(16, 3) });
        let plain = Plain::new(Chain::ideal(32, 40, kernel.plan.top, 3));
        let clear = ClearPacket::random(shape, kernel.factors(), 3);
        let input = |i| plain.fresh(&clear.slots(&kernel, i), kernel.level(i));
        let alone = kernel.run(&plain, &input).unwrap();
        assert_eq!(alone.len(), kernel.results());
        for workers in 1..8 {
            let mut next = 0;
            for g in 0..workers {
                let range = kernel.range(workers, g);
                let results = kernel.run_chunks(&plain, &input, range.clone()).unwrap();
                assert_eq!(kernel.results_of(&range), next..next + results.len());
                let same = |(a, b): (&PlainCt, &PlainCt)| a.slots() == b.slots();
                assert!(results.iter().zip(&alone[next..]).all(same));
                next += results.len();
            }
            assert_eq!(next, alone.len());
        }
        assert!(kernel.run_chunks(&plain, &input, 0..1).is_err());
    }
    // The paper's partition: disjoint, whole, sizes differ by at most one.
    for (count, workers) in [(12, 4), (12, 5), (5, 4), (3, 8)] {
        let sizes: Vec<usize> = (0..workers).map(|g| partition(count, workers, g).len()).collect();
        assert_eq!(sizes.iter().sum::<usize>(), count);
        assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
    }
}

/// What was done, without the parts that the paper does not count.
fn counted_by_the_paper(count: &Count) -> [u64; 3] {
    let (all, parts) = (count.operations().tally(), count.parts());
    // Building is counted; building again is not.
    let apart = ["broadcast", "build again"].map(|name| parts.get(name).cloned().unwrap_or_default());
    let of = |o: Operation| all.total(o) - apart.iter().map(|t: &Tally| t.total(o)).sum::<u64>();
    [of(Operation::Relinearisation), of(Operation::Rotation), of(Operation::Conjugation)]
}

#[test]
fn the_ledger_equals_the_papers_formulas() {
    let check = |shape: ScanShape, slots: usize, state_slots: usize, block: usize| {
        let kernel = kernel(shape, slots, Options { work: Work::Counted, ..options(state_slots, block) });
        let counted = count(&kernel, Chain::ideal(slots, 40, kernel.plan.top, 3));
        assert_eq!(kernel.chunks() as u64, paper::chunks(&shape, state_slots));
        assert_eq!(kernel.compositions(), paper::resident(shape.tokens, block));
        let (rotations, conjugations) = paper::reduction(&shape, state_slots);
        let products = paper::products(&shape, state_slots, block);
        assert_eq!(counted_by_the_paper(&counted), [products, rotations, conjugations]);
        let again = counted.parts().get("build again").map_or(0, |t| t.total(Operation::Product));
        let passes = u64::from(block < shape.tokens);
        assert_eq!(again, passes * shape.tokens as u64 * kernel.chunks() as u64);
        assert_eq!(counted.operations().tally().total(Operation::Product), products + again);
        assert_eq!(counted.parts()["broadcast"].total(Operation::Rotation), kernel.broadcasts());
    };
    for block in [1, 2, 8, 32] {
        check(shape([32, 3, 4, 1, 4]), 16, 16, block);
        check(shape([32, 5, 2, 1, 8]), 64, 32, block);
    }
    // The last block is short, but a power of two.
    check(shape([52, 2, 4, 1, 4]), 16, 16, 16);
    check(paper::base(128), 1 << 14, paper::STATE_SLOTS, 128);
    check(paper::base(128), 1 << 14, paper::STATE_SLOTS, 32);
}

#[test]
fn serial_carries_need_one_pass() {
    let of = |carry, work| kernel(paper::base(2048), 1 << 14, Options { carry, work, ..options(1 << 14, 256) });
    let nodes = Topology::BrentKung.compositions(256);
    assert_eq!(of(SERIAL, NEEDED).compositions(), 8 * nodes + 7 * 256);
    assert!(of(SERIAL, COUNTED).compositions() > 16 * nodes);
    assert_eq!(of(SERIAL, NEEDED).depth(), of(SERIAL, COUNTED).depth());
}

#[test]
fn padding_is_counted_by_the_paper_and_not_computed() {
    for (tokens, block) in [(13, 5), (31, 8), (20, 20), (33, 3)] {
        let counted = Options { work: Work::Counted, ..options(16, block) };
        let kernel = kernel(shape([tokens, 2, 4, 1, 4]), 16, counted);
        assert!(kernel.compositions() < paper::resident(tokens, block));
    }
}

#[test]
fn inputs_and_results_hold_what_the_boundary_counts() {
    let kernel = kernel(paper::base(128), 1 << 14, options(1 << 14, 128));
    // 12 of x, one each of a, B, C for 128 tokens; 6 results of two chunks.
    assert_eq!((kernel.inputs(), kernel.results()), (15, 6));
    let values: u64 = (0..15).map(|i| kernel.lanes(i).iter().flatten().flatten().count() as u64).sum();
    let outputs: u64 = (0..6).map(|i| kernel.outputs(i).iter().flatten().flatten().count() as u64).sum();
    let (inbound, outbound) = paper::boundary(&paper::base(128));
    // Decays of 12 chunks of two heads, each once; B and C once.
    assert_eq!((values, outputs), (inbound, outbound));
}

#[test]
fn live_ciphertexts_follow_the_schedule_and_not_the_number_of_chunks() {
    let live = |heads: usize, tokens: usize, block: usize, work: Work| {
        let kernel = kernel(shape([tokens, heads, 4, 1, 4]), 16, Options { work, ..options(16, block) });
        let counted = count(&kernel, Chain::ideal(16, 40, kernel.plan.top, 3));
        counted.live().most() - kernel.results() as u64
    };
    for work in [Work::Needed, Work::Counted] {
        for (tokens, block) in [(64, 64), (64, 16), (256, 16), (256, 64), (250, 31)] {
            let few = live(2, tokens, block, work);
            assert_eq!(few.max(live(16, tokens, block, work)), few, "{tokens} {block} {work:?}");
            let blocks = tokens.div_ceil(block);
            let bound = 4 * block + 4 * blocks + 10;
            println!("{tokens} {block} {work:?}: {few} <= {bound}");
            assert!(few <= bound as u64, "{few} > {bound}");
        }
    }
}

/// Prints what the base shape costs; the time of counting is printed too.
#[test]
fn the_base_shape_is_counted_at_every_length() {
    for (tokens, block) in [(128, 128), (512, 512), (2048, 1024), (8192, 256)] {
        for (work, hold, carry) in [(NEEDED, true, SERIAL), (NEEDED, false, PARALLEL), (COUNTED, false, PARALLEL)] {
            let start = std::time::Instant::now();
            let options = Options { work, hold, carry, ..options(1 << 14, block) };
            let kernel = kernel(paper::base(tokens), 1 << 14, options);
            let counted = count(&kernel, Chain::ideal(1 << 14, 40, kernel.plan.top, 3));
            let tally = counted.operations().tally();
            println!(
                "{tokens} {block} {work:?} {hold} {carry:?}: depth {}, key switches {}, broadcasts {}, keys {}, live {}, {:.2} s",
                kernel.depth(),
                tally.key_switches(),
                kernel.broadcasts(),
                counted.operations().key_plan().rotations.len() + 2,
                counted.live().most(),
                start.elapsed().as_secs_f64()
            );
            assert_eq!(counted.parts()["broadcast"].total(Operation::Rotation), kernel.broadcasts());
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let base = shape([8, 4, 4, 2, 8]);
    let refused = |shape, slots, options| Chunks::new(shape, slots, options).is_err();
    assert!(!refused(base, 32, options(32, 8)));
    assert!(refused(base, 33, options(32, 8)));
    assert!(refused(base, 32, options(64, 8)) && refused(base, 32, options(12, 8)) && refused(base, 32, options(0, 8)));
    assert!(refused(base, 32, options(32, 0)) && refused(base, 32, options(32, 9)));
    assert!(refused(shape([8, 4, 4, 3, 8]), 32, options(32, 8)));
    let plain = Plain::new(Chain::ideal(16, 40, 9, 3));
    assert!(kernel(base, 32, options(32, 8)).run(&plain, &|_| plain.fresh(&[], 8)).is_err());
}

#[test]
fn ciphertexts_give_the_recurrence_too() {
    // Two chunks of 32 channels, and all that the paper counts in three blocks.
    let whole = Options { hold: true, ..options(512, 32) };
    let blocks = Options { work: Work::Counted, carry: SERIAL, hold: true, ..options(16, 2) };
    for (sizes, options, set) in [([32, 4, 16, 1, 16], whole, SCAN_D12), ([6, 2, 4, 1, 4], blocks, SCAN_D10)] {
        let shape = shape(sizes);
        let depth = kernel(shape, 1 << 14, options).depth();
        let kernel = kernel(shape, 1 << 14, Options { end: set.levels - depth, ..options });
        run_encrypted(&kernel, &set, 2, 5);
    }
}

/// Ciphertexts of 1, 2 and 3 workers that share the chunks are those of one that has them all, bit for bit.
#[test]
fn workers_make_the_same_ciphertexts() {
    // Six chunks of two channels in four tokens; the last worker of two has two pairs.
    let kernel = kernel(shape([4, 3, 4, 1, 2]), 1 << 14, Options { hold: true, end: 2, ..options(4, 4) });
    assert_eq!((kernel.chunks(), kernel.depth()), (6, CHAIN_2.levels - 2));
    let trial = Trial::new(&kernel, &CHAIN_2.params().unwrap(), 2, Inputs::Held, 3).unwrap();
    let input = |i| trial.input(i);
    let alone = kernel.run(trial.server(), &input).unwrap();
    assert!(trial.precision(&alone).unwrap().bits() > 20.0);
    assert!(alone[0] != alone[1]);
    for workers in 1..=3 {
        let part = |g| kernel.run_chunks(trial.server(), &input, kernel.range(workers, g)).unwrap();
        let shared: Vec<CkksCt> = (0..workers).flat_map(part).collect();
        assert!(shared == alone, "{workers} workers");
    }
}
