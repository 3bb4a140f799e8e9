//! The matrix against one sum after the other.
#![allow(clippy::unwrap_used)]

use super::super::fixture::ClientAndServer;
use crate::{CkksError, Encoder};

#[test]
fn a_matrix_of_plaintexts_gives_the_bits_of_single_sums() {
    // Degrees below and above a tile, runs longer and shorter than one.
    for (log_n, level) in [(5, 2), (11, 1)] {
        let mut pair = ClientAndServer::new(log_n, 2, 1, &[]);
        let scale = pair.params.scale();
        let encoder = Encoder::new(&pair.params);
        let factors: Vec<_> = (0..5).map(|_| pair.fresh(level).1).collect();
        let factors: Vec<_> = factors.iter().collect();
        let weights: Vec<Vec<_>> = (0..4)
            .map(|j| {
                (0..j)
                    .map(|k| {
                        let period = [1, 4, 1 << (log_n - 1), 2][(j + k) % 4];
                        let values = &pair.values()[..period];
                        (k * 2 % 5, encoder.encode_periodic(values, level, scale).unwrap())
                    })
                    .collect()
            })
            .collect();
        let e = &pair.evaluator;
        let mut sums: Vec<_> = (0..4).map(|_| e.empty_sum(level, scale * scale).unwrap()).collect();
        // Twice, to see that it adds.
        e.add_plain_matrix(&mut sums, &factors, &weights).unwrap();
        e.add_plain_matrix(&mut sums, &factors, &weights).unwrap();
        for (sum, weights) in sums.iter().zip(&weights) {
            let terms: Vec<_> = weights.iter().map(|(i, w)| (factors[*i], w)).collect();
            let mut want = e.empty_sum(level, scale * scale).unwrap();
            e.add_plain_products(&mut want, &terms).unwrap();
            e.add_plain_products(&mut want, &terms).unwrap();
            assert!(e.finish_sum(sum).unwrap() == e.finish_sum(&want).unwrap());
        }
    }
}

#[test]
fn a_matrix_that_does_not_fit_is_refused() {
    let mut pair = ClientAndServer::new(5, 2, 1, &[]);
    let scale = pair.params.scale();
    let (_, c) = pair.fresh(2);
    let w = Encoder::new(&pair.params).encode_periodic(&pair.values()[..4], 2, scale).unwrap();
    let e = &pair.evaluator;
    let sum = |level| e.empty_sum(level, scale * scale).unwrap();
    let refused = |mut sums: Vec<_>, weights: &[Vec<_>]| e.add_plain_matrix(&mut sums, &[&c], weights).unwrap_err();
    let one = vec![(0, w.clone())];
    assert!(matches!(refused(vec![sum(2)], &[vec![(1, w)]]), CkksError::Factors { needed: 2, factors: 1, .. }));
    assert!(matches!(refused(vec![sum(2)], &[]), CkksError::Factors { rows: 0, sums: 1, .. }));
    assert!(matches!(refused(vec![sum(2), sum(1)], &[one.clone(), one]), CkksError::LevelMismatch { .. }));
}
