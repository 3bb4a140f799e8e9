#![allow(clippy::unwrap_used)]
use super::*;
use crate::Prg;

const BITS_104: u128 = (1 << 104) - 1;

/// The definition.
fn naive(shape: Shape, scalars: &[i64], rows: &[u128], outputs: usize) -> Vec<u64> {
    let mut out = Vec::new();
    for o in 0..outputs {
        for c in 0..shape.cols {
            let terms = (0..shape.terms)
                .map(|j| (scalars[o * shape.terms + j] as i128 as u128).wrapping_mul(rows[j * shape.cols + c]));
            let sum = terms.fold(0, u128::wrapping_add) & BITS_104;
            out.push((((sum + (1 << (shape.shift - 1))) & BITS_104) >> shape.shift) as u64);
        }
    }
    out
}

fn check(shape: Shape, outputs: usize, rows: &[u128], scalars: &[i64]) {
    let cols = shape.cols;
    let want = naive(shape, scalars, rows, outputs);
    let read = |j: usize, from: usize, lo: &mut [u64], hi: &mut [u64]| {
        assert_eq!(hi.len(), if shape.wide { lo.len() } else { 0 });
        let row = &rows[j * cols + from..][..lo.len()];
        lo.iter_mut().zip(row).for_each(|(o, &x)| *o = x as u64 & WORD);
        hi.iter_mut().zip(row).for_each(|(o, &x)| *o = (x >> WORD_BITS) as u64);
    };
    for path in Path::available() {
        let mut got = vec![7; outputs * cols];
        combine_with(path, shape, scalars, read, &mut got).unwrap();
        assert!(got == want, "{shape:?} {outputs} outputs, {path:?}");
    }
}

#[test]
fn every_path_agrees_with_the_definition() {
    let mut prg = Prg::from_seed([1; 16]);
    for (terms, cols, outputs) in
        [(1, 1, 1), (0, 3, 2), (3, 24, 4), (2, 25, 5), (7, 47, 18), (16, 96, 33), (5, 0, 3), (4, 9, 0)]
    {
        for (wide, shift) in [(true, 40), (false, 36), (true, 52), (true, 1), (false, 52)] {
            let limit = if wide { BITS_104 } else { u128::from(WORD) };
            let rows: Vec<u128> = (0..terms * cols).map(|_| prg.next_u128() & limit).collect();
            let scalars: Vec<i64> = (0..outputs * terms).map(|_| prg.next_u64() as i64 >> 13).collect();
            check(Shape { terms, cols, wide, shift }, outputs, &rows, &scalars);
        }
    }
}

/// The most terms of the largest words: the accumulators are full, and no more.
#[test]
fn the_longest_sum_of_the_largest_numbers_is_exact() {
    let shape = Shape { terms: MAX_TERMS, cols: 2, wide: true, shift: 1 };
    for scalar in [(1 << 50) - 1, -1 << 50, -1, 0] {
        check(shape, 1, &vec![BITS_104; MAX_TERMS * 2], &vec![scalar; MAX_TERMS]);
    }
    check(Shape { wide: false, ..shape }, 1, &vec![u128::from(WORD); MAX_TERMS * 2], &vec![(1 << 50) - 1; MAX_TERMS]);
}

#[test]
fn more_columns_than_are_packed_at_once() {
    let (terms, cols) = (900, 2400);
    assert!(terms * cols * 2 > 2 * PACKED_WORDS, "two rounds of packing");
    let mut prg = Prg::from_seed([2; 16]);
    let rows: Vec<u128> = (0..terms * cols).map(|_| prg.next_u128() & BITS_104).collect();
    let scalars: Vec<i64> = (0..terms).map(|_| prg.next_u64() as i64 >> 16).collect();
    check(Shape { terms, cols, wide: true, shift: 40 }, 1, &rows, &scalars);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let none = |_: usize, _: usize, _: &mut [u64], _: &mut [u64]| {};
    let shape = Shape { terms: 2, cols: 3, wide: true, shift: 40 };
    let run = |shape, scalars: &[i64], out: usize| combine(shape, scalars, none, &mut vec![0; out]);
    assert!(run(shape, &[1; 4], 6).is_ok());
    for (scalars, out) in [(3, 6), (4, 5), (4, 3), (2, 6)] {
        assert!(matches!(run(shape, &vec![1; scalars], out), Err(WideError::Shape { .. })), "{scalars} {out}");
    }
    for shift in [0, 53] {
        assert_eq!(run(Shape { shift, ..shape }, &[1; 4], 6), Err(WideError::Shift { shift }));
    }
    let terms = MAX_TERMS + 1;
    assert_eq!(run(Shape { terms, ..shape }, &vec![1; terms], 3), Err(WideError::Terms { terms }));
}
