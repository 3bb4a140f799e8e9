#![allow(clippy::unwrap_used)]

use super::fixture::ClientAndServer;
use super::*;
use crate::Tensor;
use crate::testing::{centred, integers, negacyclic};
use num_bigint::BigInt;
use num_complex::Complex64;

impl ClientAndServer {
    /// The phase over the integers, centred, without the code under test.
    fn phase(&self, parts: &[&Poly]) -> Vec<BigInt> {
        let s: Vec<BigInt> = self.secret.small.coefficients().iter().map(|&x| BigInt::from(x)).collect();
        let limbs = parts[0].len();
        let mut sum = vec![BigInt::from(0); s.len()];
        // Horner in s.
        for part in parts.iter().rev() {
            sum = negacyclic(&sum, &s);
            sum.iter_mut().zip(integers(&self.params, part)).for_each(|(x, y)| *x += y);
        }
        sum.iter().map(|x| centred(&self.params, limbs, x)).collect()
    }
}

pub(super) const SMALL: f64 = 1.0 / (1 << 24) as f64;

#[test]
fn products_and_rotations_at_every_level_of_several_sets() {
    for (log_n, levels, specials) in [(3, 1, 1), (4, 3, 2), (6, 5, 3), (8, 4, 1), (5, 7, 3)] {
        let mut pair = ClientAndServer::new(log_n, levels, specials, &[1, 3, -2]);
        let n = pair.params.slots();
        for level in 0..=levels {
            let ((x, a), (y, b)) = (pair.fresh(level), pair.fresh(level));
            let e = &pair.evaluator;
            for step in [0, 1, 3, -2, n as i64, n as i64 + 1] {
                let got = e.rotate(&a, step).unwrap();
                let want = |i: usize| x[(i as i64 + step).rem_euclid(n as i64) as usize];
                assert!(pair.error(&got, want) < SMALL, "{log_n} {level} rotation {step}");
            }
            assert!(pair.error(&e.conjugate(&a).unwrap(), |i| x[i].conj()) < SMALL, "{log_n} {level}");
            if level == 0 {
                assert_eq!(e.rescale(&a).err(), Some(CkksError::NoLevel { operation: "rescaling" }));
                continue;
            }
            let product = e.multiply(&a, &b).unwrap();
            assert_eq!((product.level, product.scale), (level, a.scale * b.scale));
            assert!(pair.error(&product, |i| x[i] * y[i]) < SMALL, "{log_n} {level}");
            let rescaled = e.rescale(&product).unwrap();
            let fused = e.multiply_rescale(&a, &b).unwrap();
            for c in [&rescaled, &fused] {
                assert_eq!(c.level, level - 1);
                assert_eq!(c.scale, a.scale * b.scale / pair.params.modulus(level).value() as f64);
                assert!(pair.error(c, |i| x[i] * y[i]) < SMALL, "{log_n} {level}");
            }
            assert!(pair.error(&e.square(&a).unwrap(), |i| x[i] * x[i]) < SMALL);
            assert!(pair.error(&e.square_rescale(&a).unwrap(), |i| x[i] * x[i]) < SMALL);
            assert!(e.square_rescale(&a).unwrap() == e.multiply_rescale(&a, &a).unwrap());
        }
    }
}

#[test]
fn hoisted_rotations_are_the_rotations() {
    for (log_n, levels, specials) in [(4, 3, 2), (6, 4, 3), (5, 2, 1)] {
        let steps = [1, 0, -2, 3];
        let mut pair = ClientAndServer::new(log_n, levels, specials, &steps);
        for level in 0..=levels {
            let (_, a) = pair.fresh(level);
            let e = &pair.evaluator;
            let many = e.rotate_many(&a, &steps).unwrap();
            let hoisted = e.decompose(&a).unwrap();
            assert_eq!(many.len(), steps.len());
            for (got, &step) in many.iter().zip(&steps) {
                let want = e.rotate(&a, step).unwrap();
                assert!(*got == want, "{log_n} {level} {step}");
                assert!(hoisted.rotate(step).unwrap() == want, "{log_n} {level} {step}");
            }
            assert!(e.rotate_many(&a, &[]).unwrap().is_empty());
        }
    }
}

/// A whole product against big integers: the tensor's phase is exactly the product of the phases,
/// relinearisation adds what the formula of its noise allows, and division is exact rounding but for the
/// noise of two parts.
#[test]
fn a_product_agrees_with_big_integers() {
    let mut pair = ClientAndServer::new(4, 3, 2, &[]);
    let n = BigInt::from(pair.params.degree());
    for level in 1..=3 {
        let ((_, a), (_, b)) = (pair.fresh(level), pair.fresh(level));
        let e = &pair.evaluator;
        let product = negacyclic(&pair.phase(&[&a.c0, &a.c1]), &pair.phase(&[&b.c0, &b.c1]));
        let product: Vec<BigInt> = product.iter().map(|x| centred(&pair.params, level + 1, x)).collect();
        let Tensor { c0, c1, c2, .. } = e.tensor(&a, &b).unwrap();
        assert_eq!(pair.phase(&[&c0, &c1, &c2.unwrap()]), product);

        // |sum_d c_d e_d| / P <= D N (Q_d / 2) max|e| / P, with Q_d < P, and (1 + N) / 2 for rounding.
        let bound = BigInt::from(pair.params.digits(level)) * &n * 20 + &n;
        let relinearised = e.multiply(&a, &b).unwrap();
        let got = pair.phase(&[&relinearised.c0, &relinearised.c1]);
        let off = |x: &BigInt, y: &BigInt| if x > y { x - y } else { y - x };
        assert!(got.iter().zip(&product).all(|(x, y)| off(x, y) <= bound), "level {level}");
        assert!(got != product, "a key switch without noise");

        let q = BigInt::from(pair.params.modulus(level).value());
        let divided: Vec<BigInt> = product.iter().map(|x| x / &q).collect();
        let limit = &n + 2;
        for c in [e.rescale(&relinearised).unwrap(), e.multiply_rescale(&a, &b).unwrap()] {
            let got = pair.phase(&[&c.c0, &c.c1]);
            assert!(got.iter().zip(&divided).all(|(x, y)| off(x, y) <= limit), "level {level}");
        }
    }
}

/// Division by the last prime is `round(c / q)` of each part, exactly.
#[test]
fn rescaling_rounds_to_the_nearest() {
    let mut pair = ClientAndServer::new(5, 3, 2, &[]);
    for level in 1..=3 {
        let (_, a) = pair.fresh(level);
        let q = BigInt::from(pair.params.modulus(level).value());
        let half = (&q - 1) / 2;
        let got = pair.evaluator.rescale(&pair.evaluator.multiply_constant(&a, 1.0.into(), 2f64.powi(20)).unwrap());
        let scaled = pair.evaluator.multiply_constant(&a, 1.0.into(), 2f64.powi(20)).unwrap();
        let got = got.unwrap();
        for (part, from) in [(&got.c0, &scaled.c0), (&got.c1, &scaled.c1)] {
            let want = integers(&pair.params, from).into_iter().map(|x| {
                let shifted: BigInt = x + &half;
                // Floor of a possibly negative number.
                let rest = ((&shifted % &q) + &q) % &q;
                (shifted - rest) / &q
            });
            let want: Vec<BigInt> = want.map(|x| centred(&pair.params, level, &x)).collect();
            assert_eq!(integers(&pair.params, part), want, "level {level}");
        }
    }
}

#[test]
fn one_relinearisation_serves_a_sum() {
    let mut pair = ClientAndServer::new(7, 3, 2, &[]);
    let inputs: Vec<_> = (0..6).map(|_| pair.fresh(3)).collect();
    let e = &pair.evaluator;
    let want = |i: usize| inputs.chunks_exact(2).map(|p| p[0].0[i] * p[1].0[i]).sum::<Complex64>();
    let mut lazy = e.tensor(&inputs[0].1, &inputs[1].1).unwrap();
    let mut eager = e.multiply(&inputs[0].1, &inputs[1].1).unwrap();
    for pair in inputs.chunks_exact(2).skip(1) {
        let t = e.tensor(&pair[0].1, &pair[1].1).unwrap();
        let third = |t: &Tensor| t.c2.as_ref().unwrap().words().to_vec();
        assert!(third(&e.add_tensor(&lazy, &t).unwrap()) != third(&lazy));
        e.add_tensor_assign(&mut lazy, &t).unwrap();
        e.add_assign(&mut eager, &e.multiply(&pair[0].1, &pair[1].1).unwrap()).unwrap();
    }
    let fused = e.relinearise_rescale(&lazy).unwrap();
    let lazy = e.relinearise(&lazy).unwrap();
    for c in [&lazy, &eager, &fused] {
        assert!(pair.error(c, want) < SMALL);
    }
    // The difference is noise of key switches alone: far below that of the products, and not nothing.
    let difference = pair.integers(&e.sub(&lazy, &eager).unwrap());
    let largest = difference.iter().map(|x| x.unsigned_abs()).max().unwrap();
    assert!(largest > 0 && largest < 1 << 12, "{largest}");
    let other = e.tensor(&inputs[0].1, &inputs[0].1).unwrap();
    let low = e.drop_to_level(&inputs[0].1, 2).unwrap();
    let low = e.tensor(&low, &low).unwrap();
    assert_eq!(e.add_tensor(&other, &low).err(), Some(CkksError::LevelMismatch { left: 3, right: 2 }));
}

/// After the first round no operation allocates a buffer: everything comes from the pool and goes back.
#[test]
fn operations_use_their_buffers_again() {
    let mut pair = ClientAndServer::new(6, 3, 2, &[1, 2]);
    let ((x, a), (_, b)) = (pair.fresh(3), pair.fresh(3));
    let q = pair.params.modulus(3).value() as f64;
    let diagonals: Vec<_> = (0..4).map(|k| (k, x.clone())).collect();
    let n1 = std::num::NonZeroUsize::new(2);
    let map = crate::linear::Transform::prepare(&pair.params, &diagonals, 3, q, n1).unwrap();
    let plain = crate::Encoder::new(&pair.params).encode_periodic(&x[..4], 3, pair.params.scale()).unwrap();
    let e = &pair.evaluator;
    let round = || {
        drop(e.product_sum(3, &[(&a, &b), (&b, &b)], &[(&a, &plain)], &[&a]).unwrap());
        drop(e.lower(&a, 1, a.scale).unwrap());
        let product = e.multiply_rescale(&a, &b).unwrap();
        let sum = e.add(&e.multiply(&a, &b).unwrap(), &e.square(&a).unwrap()).unwrap();
        let many = e.rotate_many(&e.rescale(&sum).unwrap(), &[1, 2]).unwrap();
        let kept = e.decompose(&a).unwrap().rotate(2).unwrap();
        let mapped = map.apply_rescale(e, &e.conjugate(&kept).unwrap()).unwrap();
        (product, many, mapped)
    };
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    one.install(|| {
        drop(round());
        let made = pair.params.pool().made();
        (0..3).for_each(|_| drop(round()));
        assert_eq!(pair.params.pool().made(), made);
    });
}
