#![allow(clippy::unwrap_used)]

use super::*;
use crate::evaluator::fixture::ClientAndServer;
use fesc_ring::Prg;

type Diagonals = Vec<(i64, Vec<Complex64>)>;

fn numbers(prg: &mut Prg, count: usize) -> Vec<Complex64> {
    let mut next = || (prg.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0;
    (0..count).map(|_| Complex64::new(next(), next())).collect()
}

/// The product with the matrix whose diagonals these are, entry by entry.
fn naive(diagonals: &Diagonals, x: &[Complex64]) -> Vec<Complex64> {
    let n = x.len();
    let mut matrix = vec![vec![Complex64::ZERO; n]; n];
    for (k, values) in diagonals {
        for (i, v) in values.iter().enumerate() {
            matrix[i][(i as i64 + k).rem_euclid(n as i64) as usize] += v;
        }
    }
    matrix.iter().map(|row| row.iter().zip(x).map(|(m, x)| m * x).sum()).collect()
}

/// Dense, few, complex, negative, repeated, short and single diagonals, with each number of baby steps, and
/// only the declared keys.
#[test]
fn agrees_with_the_matrix_and_needs_the_declared_rotations_only() {
    let mut prg = Prg::from_seed([5; 16]);
    let all: Vec<i64> = (0..16).collect();
    let shapes: Vec<(Vec<i64>, usize)> = vec![
        (all, 16),
        (vec![0, 1, 5, -1], 16),
        (vec![0], 16),
        (vec![3], 16),
        (vec![4, 8], 16),
        (vec![2, 2, -14], 16),
        (vec![0, 7, 9], 5),
    ];
    for (indices, count) in shapes {
        let diagonals: Diagonals = indices.iter().map(|&k| (k, numbers(&mut prg, count))).collect();
        for n1 in [None, NonZeroUsize::new(1), NonZeroUsize::new(3), NonZeroUsize::new(4), NonZeroUsize::new(100)] {
            for (levels, specials) in [(2, 1), (3, 2)] {
                let probe = ClientAndServer::new(5, levels, specials, &[]);
                let q = probe.params.modulus(levels).value() as f64;
                let map = Transform::prepare(&probe.params, &diagonals, levels, q, n1).unwrap();
                let mut pair = ClientAndServer::new(5, levels, specials, &map.rotations());
                let (x, c) = pair.fresh(levels);
                let want = naive(&diagonals, &x);
                let got = map.apply(&pair.evaluator, &c).unwrap();
                assert_eq!((got.level(), got.scale()), (levels, c.scale() * q));
                assert!(pair.error(&got, |i| want[i]) < 1e-7, "{indices:?} {n1:?}");
                let got = map.apply_rescale(&pair.evaluator, &c).unwrap();
                assert_eq!((got.level(), got.scale()), (levels - 1, c.scale()));
                assert!(pair.error(&got, |i| want[i]) < 1e-7, "{indices:?} {n1:?}");
                // Each declared rotation is needed.
                for leave in map.rotations() {
                    let rest: Vec<i64> = map.rotations().into_iter().filter(|&r| r != leave).collect();
                    let poor = ClientAndServer::new(5, levels, specials, &rest);
                    let error = map.apply(&poor.evaluator, &c).err();
                    assert!(
                        matches!(error, Some(CkksError::MissingKey { what }) if what.contains(&format!("by {leave} ")))
                    );
                }
            }
        }
    }
}

#[test]
fn wrong_levels_scales_and_values_are_refused() {
    let mut pair = ClientAndServer::new(4, 2, 1, &[]);
    let one = vec![Complex64::new(1.0, 0.0); 8];
    let map = Transform::prepare(&pair.params, &[(0, one.clone())], 1, pair.params.scale(), None).unwrap();
    assert_eq!((map.level(), map.scale(), map.memory()), (1, pair.params.scale(), 3 * 16 * 8));
    let (_, c) = pair.fresh(2);
    let error = map.apply(&pair.evaluator, &c).err();
    assert_eq!(error, Some(CkksError::LevelMismatch { left: 2, right: 1 }));
    let (_, c) = pair.fresh(1);
    let large = pair.evaluator.multiply_constant(&c, 1.0.into(), 2f64.powi(20)).unwrap();
    assert!(matches!(map.apply(&pair.evaluator, &large), Err(CkksError::Scale { level: 1, .. })));
    let ground = Transform::prepare(&pair.params, &[(0, one.clone())], 0, 2.0, None).unwrap();
    let (_, low) = pair.fresh(0);
    assert!(matches!(ground.apply_rescale(&pair.evaluator, &low), Err(CkksError::NoLevel { .. })));
    assert!(ground.apply(&pair.evaluator, &low).is_ok());
    let long = vec![(1, vec![Complex64::ZERO; 9])];
    let error = Transform::prepare(&pair.params, &long, 1, 2.0, None).err();
    assert_eq!(error, Some(CkksError::TooMany { what: "slots", got: 9, max: 8 }));
    // An evaluator of another set, with fewer primes than the map has levels; and levels or scales that
    // nothing else would check.
    let other = ClientAndServer::new(4, 0, 1, &[]);
    let high = Transform::prepare(&pair.params, &[(0, one.clone())], 2, 2.0, None).unwrap();
    let (_, top) = pair.fresh(2);
    for result in [high.apply(&other.evaluator, &top), high.apply_rescale(&other.evaluator, &top)] {
        assert!(matches!(result, Err(CkksError::ParamsMismatch { .. })));
    }
    assert!(matches!(Transform::prepare(&pair.params, &[], 99, 2.0, None), Err(CkksError::Level { level: 99, .. })));
    assert!(matches!(Transform::prepare(&pair.params, &[], 1, f64::NAN, None), Err(CkksError::Scale { .. })));
    let infinite = vec![(1, vec![Complex64::new(f64::NAN, 0.0)])];
    assert!(matches!(Transform::prepare(&pair.params, &infinite, 1, 2.0, None), Err(CkksError::NotFinite { .. })));
}

#[test]
fn the_choice_of_baby_steps_saves_rotations() {
    // 64 diagonals: 15 + 3 rotations with 16 baby steps, and 15 + 3 * 3 is less than 7 + 3 * 7 and 31 + 3.
    assert_eq!(baby_steps(64, 0..64).get(), 16);
    // Two far diagonals cost one rotation each in any case; as baby steps they are cheaper.
    assert!(baby_steps(64, [1, 33]).get() > 32);
    assert_eq!(baby_steps(64, [0]).get(), 1);
}
