#![allow(clippy::unwrap_used)]

use super::*;
use crate::client::KeyGenerator;
use crate::evaluator::fixture::ClientAndServer;
use crate::{Ciphertext, Encoder, Tensor};

/// Sums of squares, from several keys and messages.
#[derive(Default)]
struct Measured {
    sum: f64,
    count: usize,
}

impl Measured {
    fn add(&mut self, errors: impl Iterator<Item = f64>) {
        for e in errors {
            self.sum += e * e;
            self.count += 1;
        }
    }

    fn assert(&self, name: &str, want: f64) {
        let got = self.sum / self.count as f64;
        assert!((got / want - 1.0).abs() < 0.1, "{name}: measured {got}, formula {want}");
    }
}

/// `a - b / q` without rounding in the large numbers.
fn off<'a>(a: &'a [i128], b: &'a [i128], q: u64) -> impl Iterator<Item = f64> + 'a {
    a.iter().zip(b).map(move |(a, b)| (a * i128::from(q) - b) as f64 / q as f64)
}

impl ClientAndServer {
    /// The phase of a product that has three parts.
    fn tensor_integers(&self, t: &Tensor) -> Vec<i128> {
        let (s, params) = (&self.secret.poly, &self.params);
        let mut c1 = t.c1.clone();
        c1.for_each_limb(|i, limb| params.ntt(i).mul_acc(limb, t.c2.as_ref().unwrap().limb(i), s.limb(i)));
        let Tensor { owner, level, scale, c0, .. } = t.clone();
        self.integers(&Ciphertext { params: params.clone(), owner, level, scale, c0, c1 })
    }

    /// The image of integer coefficients under a rotation by one slot.
    fn rotated(&self, phase: &[i128]) -> Vec<i128> {
        let n = phase.len();
        let mut out = vec![0; n];
        for (i, &x) in phase.iter().enumerate() {
            let at = 5 * i % (2 * n);
            out[at % n] = if at < n { x } else { -x };
        }
        out
    }
}

/// One special prime as large as a digit, where the errors of the key dominate, and two that are larger,
/// where rounding does.
#[test]
fn measured_variances_are_those_of_the_formulas() {
    for specials in [1, 2] {
        let mut m: [Measured; 8] = Default::default();
        let [secret, public, plain, tensor_, switch, rotation, divided, fused] = &mut m;
        let (mut params, mut energies) = (None, [0.0; 2]);
        let level = 2;
        let rounds = 6;
        for round in 0..rounds {
            // Another key and other messages each time.
            let mut pair = ClientAndServer::seeded(round, 11, level, specials, &[1]);
            let fixed = pair.values();
            let encoder = Encoder::new(&pair.params);
            let scale = pair.params.scale();
            let ma = encoder.encode(&fixed, level, scale).unwrap();
            let values = pair.values();
            let mb = encoder.encode(&values, level, scale).unwrap();
            let (a, b) = (pair.encrypt(&fixed, level), pair.encrypt(&values, level));
            let (ia, ib) = (ma.coefficients().unwrap(), mb.coefficients().unwrap());
            secret.add(off(&pair.integers(&a), &ia, 1));
            secret.add(off(&pair.integers(&b), &ib, 1));
            let key = KeyGenerator::new(&pair.secret).public_key(&mut pair.prg).unwrap();
            let by_public = key.encrypt(&ma, &mut pair.prg).unwrap();
            public.add(off(&pair.integers(&by_public), &ia, 1));

            let e = &pair.evaluator;
            // The exact product of the messages: an encryption of one of them without noise, times the other.
            let [c0, c1] = [ma.poly.clone(), crate::poly::Poly::zero(&pair.params, level + 1)];
            let exact = e.multiply_plain(&e.ciphertext(level, scale, [c0, c1]), &mb).unwrap();
            let exact = pair.integers(&exact);
            plain.add(off(&pair.integers(&e.multiply_plain(&a, &mb).unwrap()), &exact, 1));
            let t = e.tensor(&a, &b).unwrap();
            let phase = pair.tensor_integers(&t);
            tensor_.add(off(&phase, &exact, 1));
            switch.add(off(&pair.integers(&e.relinearise(&t).unwrap()), &phase, 1));
            let before = pair.integers(&a);
            rotation.add(off(&pair.integers(&e.rotate(&a, 1).unwrap()), &pair.rotated(&before), 1));
            let q = pair.params.modulus(level).value();
            let wide = e.multiply_constant(&a, 1.0.into(), 1024.0).unwrap();
            divided.add(off(&pair.integers(&e.rescale(&wide).unwrap()), &pair.integers(&wide), q));
            fused.add(off(&pair.integers(&e.multiply_rescale(&a, &b).unwrap()), &phase, q));
            for (sum, message) in energies.iter_mut().zip([&ia, &ib]) {
                *sum += message.iter().map(|&x| (x as f64).powi(2)).sum::<f64>() / f64::from(rounds);
            }
            params = Some(pair.params.clone());
        }
        let params = params.unwrap();
        // Real and imaginary parts uniform in -1 .. 1: mean square 2/3.
        assert!(energies.iter().all(|e| (e / energy(2.0 / 3.0, params.scale()) - 1.0).abs() < 0.05));
        let v = fresh_secret();
        secret.assert("secret-key encryption", v);
        public.assert("public-key encryption", fresh_public(&params));
        plain.assert("product by a plaintext", multiply_plain(v, energies[1]));
        tensor_.assert("product", tensor(&params, (energies[0], v), (energies[1], v)));
        switch.assert("relinearisation", key_switch(&params, level).unwrap());
        rotation.assert("rotation", key_switch(&params, level).unwrap());
        divided.assert("rescaling", rescale(&params, level, 0.0).unwrap());
        fused.assert("relinearisation and rescaling", relinearise_rescale(&params, level, 0.0).unwrap());
        // Which part dominates.
        let (errors, rounded) = (digit_errors(&params, level).unwrap(), rounding(&params));
        assert_eq!(errors > 5.0 * rounded, specials == 1);
    }
}

#[test]
fn a_level_that_does_not_exist_is_an_error() {
    let params = crate::testing::tiny(4, 2);
    assert!(key_switch(&params, 3).is_err() && rescale(&params, 3, 1.0).is_err());
    assert!(relinearise_rescale(&params, 3, 1.0).is_err());
}

/// The precision that the sets' table states follows from these formulas.
#[test]
fn the_table_of_sets_follows() {
    for set in crate::sets::ALL {
        let params = set.params().unwrap();
        let scale = params.scale();
        let mut variance = fresh_secret();
        for level in (params.levels() - set.depth + 1..=params.levels()).rev() {
            // A product by a constant of magnitude 1 at the scale of the prime, which keeps the noise, then
            // the division.
            let q = params.modulus(level).value() as f64;
            variance = rescale(&params, level, multiply_plain(variance, q * q)).unwrap();
        }
        // A stage's result leaves under a mask, with a fresh zero.
        if set.depth < set.levels {
            variance += fresh_public(&params);
        }
        let got = precision_bits(&params, variance, scale);
        assert!((got - set.precision()).abs() < 0.01, "{}: {got} for {}", set.name, set.precision());
    }
}
