//! Sums of products against single products, against complex numbers, and against big integers.
#![allow(clippy::unwrap_used)]

use num_bigint::BigInt;
use num_complex::Complex64;

use super::super::fixture::ClientAndServer;
use super::super::tests::SMALL;
use crate::server::{EvaluationKeyPlan, EvaluationKeys, Evaluator};
use crate::testing::integers;
use crate::{Ciphertext, CkksError, Encoder, PeriodicPlaintext};

type Message = Vec<Complex64>;

impl ClientAndServer {
    /// A periodic plaintext whose product with a fresh ciphertext has the scale of two of these.
    fn periodic(&mut self, period: usize, level: usize) -> (Message, PeriodicPlaintext) {
        let values = self.values()[..period].to_vec();
        let plain = Encoder::new(&self.params).encode_periodic(&values, level, self.params.scale()).unwrap();
        (values, plain)
    }

    /// The sum by its single steps.
    fn by_steps(
        &self,
        level: usize,
        terms: &[(&Ciphertext, &Ciphertext)],
        plain: &[(&Ciphertext, &PeriodicPlaintext)],
        addends: &[&Ciphertext],
    ) -> Ciphertext {
        let (e, s) = (&self.evaluator, self.params.scale());
        let mut sum = e.empty_sum(level, s * s).unwrap();
        // In two calls, the second of which adds to what is there.
        let half = terms.len() / 2;
        for part in [&terms[..half], &terms[half..]] {
            e.add_products(&mut sum, part).unwrap();
        }
        e.add_plain_products(&mut sum, plain).unwrap();
        addends.iter().for_each(|c| e.add_scaled(&mut sum, c).unwrap());
        assert_eq!((sum.level(), sum.has_square()), (level, !terms.is_empty()));
        e.finish_sum(&sum).unwrap()
    }
}

#[test]
fn a_sum_of_all_kinds_of_terms_is_the_sum_of_its_parts() {
    for (log_n, levels, specials) in [(3, 2, 1), (5, 3, 2), (7, 4, 3)] {
        let mut pair = ClientAndServer::new(log_n, levels, specials, &[]);
        let slots = pair.params.slots();
        for level in 1..=levels {
            for (products, plains, addends) in [(1, 0, 0), (5, 0, 0), (0, 3, 0), (3, 2, 1), (0, 1, 2), (6, 5, 3)] {
                // Operands at levels from that of the sum to the top.
                let mut above = 0..;
                let mut next = || level + above.next().unwrap() % (levels + 1 - level);
                let a: Vec<_> = (0..products).map(|_| (pair.fresh(next()), pair.fresh(next()))).collect();
                let w: Vec<_> = (0..plains)
                    .map(|k| (pair.fresh(next()), pair.periodic(slots >> (k % (log_n as usize)), next())))
                    .collect();
                let d: Vec<_> = (0..addends).map(|_| pair.fresh(next())).collect();
                let terms: Vec<_> = a.iter().map(|(x, y)| (&x.1, &y.1)).collect();
                let plain: Vec<_> = w.iter().map(|(c, w)| (&c.1, &w.1)).collect();
                let added: Vec<_> = d.iter().map(|(_, c)| c).collect();
                let got = pair.evaluator.product_sum(level, &terms, &plain, &added).unwrap();
                let want = |i: usize| -> Complex64 {
                    a.iter().map(|(x, y)| x.0[i] * y.0[i]).sum::<Complex64>()
                        + w.iter().map(|(c, w)| c.0[i] * w.0[i % w.0.len()]).sum::<Complex64>()
                        + d.iter().map(|(z, _)| z[i]).sum::<Complex64>()
                };
                assert_eq!(got.level(), level - 1);
                assert!(pair.error(&got, want) < SMALL, "{log_n} {level}: {products} {plains} {addends}");
                assert!(got == pair.by_steps(level, &terms, &plain, &added), "the fused form differs");
            }
        }
    }
}

#[test]
fn a_sum_of_products_is_the_sum_of_tensors_bit_for_bit() {
    let mut pair = ClientAndServer::new(6, 3, 2, &[]);
    let inputs: Vec<_> = (0..7).map(|_| (pair.fresh(3).1, pair.fresh(3).1)).collect();
    let e = &pair.evaluator;
    let mut want = e.tensor(&inputs[0].0, &inputs[0].1).unwrap();
    for (a, b) in &inputs[1..] {
        e.add_tensor_assign(&mut want, &e.tensor(a, b).unwrap()).unwrap();
    }
    let mut got = e.empty_sum(3, want.scale()).unwrap();
    // A sum without a square takes that of the other.
    assert_eq!(e.add_tensor(&got, &want).unwrap().c2.unwrap().words(), want.c2.as_ref().unwrap().words());
    assert!(!e.add_tensor(&got, &got).unwrap().has_square());
    let terms: Vec<_> = inputs.iter().map(|(a, b)| (a, b)).collect();
    e.add_products(&mut got, &terms).unwrap();
    assert!(got.c0.words() == want.c0.words() && got.c1.words() == want.c1.words());
    assert_eq!(got.c2.as_ref().unwrap().words(), want.c2.as_ref().unwrap().words());
    assert!(e.finish_sum(&got).unwrap() == e.relinearise_rescale(&want).unwrap());
}

#[test]
fn a_sum_without_products_of_ciphertexts_needs_no_key() {
    let mut pair = ClientAndServer::new(5, 2, 1, &[]);
    let ((x, a), (w, plain), (y, b)) = (pair.fresh(2), pair.periodic(4, 2), pair.fresh(2));
    let none = EvaluationKeys::new(&pair.params, &EvaluationKeyPlan::default(), pair.public.id());
    let e = Evaluator::new(&pair.params, none).unwrap();
    let product = e.multiply_periodic(&a, &plain).unwrap();
    assert_eq!((product.level(), product.scale()), (2, a.scale() * plain.scale()));
    assert!(e.rescale(&product).unwrap() == e.product_sum(2, &[], &[(&a, &plain)], &[]).unwrap());
    let got = e.product_sum(2, &[], &[(&a, &plain)], &[&b]).unwrap();
    assert!(pair.error(&got, |i| x[i] * w[i % 4] + y[i]) < SMALL);
    let mut sum = e.empty_sum(2, a.scale() * plain.scale()).unwrap();
    e.add_scaled(&mut sum, &b).unwrap();
    let alone = e.relinearise(&sum).unwrap();
    assert_eq!((alone.level(), alone.scale()), (2, sum.scale()));
    assert!(pair.error(&alone, |i| y[i]) < SMALL);
    // A control: with one product it does.
    assert!(matches!(e.product_sum(2, &[(&a, &b)], &[], &[]), Err(CkksError::MissingKey { .. })));
    e.add_products(&mut sum, &[(&a, &b)]).unwrap();
    assert!(matches!(e.finish_sum(&sum), Err(CkksError::MissingKey { .. })));
}

#[test]
fn a_lowered_ciphertext_is_divided_exactly() {
    let mut pair = ClientAndServer::new(4, 4, 2, &[]);
    let (x, a) = pair.fresh(4);
    let scale = pair.params.scale();
    for level in 0..4 {
        for scale in [scale, scale * 1.37, scale / 8.0] {
            let got = pair.evaluator.lower(&a, level, scale).unwrap();
            assert_eq!((got.level(), got.scale()), (level, scale));
            assert!(pair.error(&got, |i| x[i]) < 8.0 * SMALL, "{level} {scale}");
            let q = BigInt::from(pair.params.modulus(level + 1).value());
            let k = BigInt::from((scale * pair.params.modulus(level + 1).value() as f64 / a.scale()).round() as u64);
            let dropped = pair.evaluator.drop_to_level(&a, level + 1).unwrap();
            // round(k c / q) modulo the primes that stay.
            for (got, from) in [(&got.c0, &dropped.c0), (&got.c1, &dropped.c1)] {
                let whole = (0..=level + 1).map(|i| BigInt::from(pair.params.modulus(i).value())).product::<BigInt>();
                for (got, c) in integers(&pair.params, got).into_iter().zip(integers(&pair.params, from)) {
                    // The centred residue of k c, divided with its nearest integer.
                    let mut kc = (&k * c) % &whole;
                    kc = if &kc * 2 > whole {
                        kc - &whole
                    } else if &kc * 2 < -&whole {
                        kc + &whole
                    } else {
                        kc
                    };
                    let off: BigInt = (&q * &got - &kc) * 2 % (&whole * 2);
                    let off = if off > whole {
                        off - &whole * 2
                    } else if off < -&whole {
                        off + &whole * 2
                    } else {
                        off
                    };
                    assert!(off <= q && off >= -&q, "{level}");
                }
            }
        }
    }
    let e = &pair.evaluator;
    assert!(e.lower(&a, 4, scale).unwrap() == a);
    assert!(matches!(e.lower(&a, 4, 2.0 * scale), Err(CkksError::ScaleMismatch { .. })));
    assert_eq!(e.lower(&a, 5, scale).err(), Some(CkksError::Level { level: 5, max: 4 }));
    assert!(matches!(e.lower(&a, 2, scale / 64.0), Err(CkksError::Factor { .. })));
    assert!(matches!(e.lower(&a, 2, f64::NAN), Err(CkksError::Scale { .. })));
}

#[test]
fn terms_that_do_not_fit_a_sum_are_refused_with_the_numbers() {
    let mut pair = ClientAndServer::new(4, 3, 2, &[]);
    let ((_, a), (_, low), (_, plain)) = (pair.fresh(3), pair.fresh(1), pair.periodic(2, 1));
    let e = &pair.evaluator;
    let mut sum = e.empty_sum(2, a.scale() * a.scale()).unwrap();
    let below = Some(CkksError::LevelMismatch { left: 2, right: 1 });
    assert_eq!(e.add_products(&mut sum, &[(&a, &a), (&a, &low)]).err(), below);
    assert_eq!(e.add_plain_products(&mut sum, &[(&a, &plain)]).err(), below);
    assert_eq!(e.add_scaled(&mut sum, &low).err(), below);
    let twice = e.multiply_constant(&a, 1.0.into(), 2.0).unwrap();
    assert!(matches!(e.add_products(&mut sum, &[(&a, &twice)]), Err(CkksError::ScaleMismatch { .. })));
    // Scales that no integer connects.
    let mut odd = e.empty_sum(2, a.scale() * 1.5).unwrap();
    assert!(matches!(e.add_scaled(&mut odd, &a), Err(CkksError::ScaleMismatch { .. })));
    let mut small = e.empty_sum(2, a.scale() / 4.0).unwrap();
    assert!(matches!(e.add_scaled(&mut small, &a), Err(CkksError::ScaleMismatch { .. })));
    assert_eq!(e.product_sum(2, &[], &[], &[&a]).err(), Some(CkksError::NoProducts));
    assert!(matches!(e.product_sum(0, &[(&a, &a)], &[], &[]), Err(CkksError::Scale { .. })));
    assert!(matches!(e.empty_sum(0, 2f64.powi(60)), Err(CkksError::Scale { .. })));
    assert!(matches!(e.empty_sum(4, 2.0), Err(CkksError::Level { .. })));
    let mut other = ClientAndServer::seeded(99, 4, 3, 2, &[]);
    let (_, theirs) = other.fresh(3);
    assert!(matches!(e.add_products(&mut sum, &[(&theirs, &a)]), Err(CkksError::KeyMismatch { .. })));
}
