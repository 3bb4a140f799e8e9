//! A client and its server with a small insecure set, for unit tests.
#![allow(clippy::unwrap_used)]

use fesc_ring::Prg;
use num_complex::Complex64;

use super::Evaluator;
use crate::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use crate::server::{EvaluationKeyPlan, EvaluationKeys, PublicKey};
use crate::{Ciphertext, Encoder, Params, ParamsLiteral};

pub(crate) struct ClientAndServer {
    pub(crate) params: Params,
    pub(crate) secret: SecretKey,
    pub(crate) public: PublicKey,
    pub(crate) evaluator: Evaluator,
    pub(crate) prg: Prg,
}

impl ClientAndServer {
    /// Degree `2^log_n`, `levels` rescalings at scale `2^40`, and keys for these rotations, conjugation and
    /// products.
    pub(crate) fn new(log_n: u32, levels: usize, specials: usize, rotations: &[i64]) -> Self {
        Self::seeded(log_n as u8, log_n, levels, specials, rotations)
    }

    /// The same with randomness from a seed.
    pub(crate) fn seeded(seed: u8, log_n: u32, levels: usize, specials: usize, rotations: &[i64]) -> Self {
        let q_bits = std::iter::once(50).chain(std::iter::repeat_n(40, levels)).collect();
        let p_bits = vec![if specials == 1 { 50 } else { 48 }; specials];
        let literal = ParamsLiteral { log_n, q_bits, p_bits, log_scale: 40 };
        let params = Params::insecure_for_tests(&literal).unwrap();
        let mut prg = Prg::from_seed([seed; 16]);
        let secret = SecretKey::generate(&params, &mut prg);
        let plan = EvaluationKeyPlan { rotations: rotations.to_vec(), conjugation: true, relinearisation: true };
        // From a stream of its own, so that the other keys are those of the known answers.
        let public = KeyGenerator::new(&secret).public_key(&mut Prg::from_seed([!seed; 16])).unwrap();
        let mut keys = EvaluationKeys::new(&params, &plan, public.id());
        for key in KeyGenerator::new(&secret).keys(&plan, &mut prg) {
            keys.insert(key.unwrap()).unwrap();
        }
        let evaluator = Evaluator::new(&params, keys).unwrap();
        Self { params, secret, public, evaluator, prg }
    }

    /// Real and imaginary parts uniform in -1 .. 1.
    pub(crate) fn values(&mut self) -> Vec<Complex64> {
        let mut next = || (self.prg.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0;
        (0..self.params.slots()).map(|_| Complex64::new(next(), next())).collect()
    }

    pub(crate) fn encrypt(&mut self, values: &[Complex64], level: usize) -> Ciphertext {
        let plain = Encoder::new(&self.params).encode(values, level, self.params.scale()).unwrap();
        SecretEncryptor::new(&self.secret).encrypt(&plain, &mut self.prg).unwrap().expand(self.public.id())
    }

    pub(crate) fn fresh(&mut self, level: usize) -> (Vec<Complex64>, Ciphertext) {
        let values = self.values();
        let c = self.encrypt(&values, level);
        (values, c)
    }

    /// Largest distance of the decrypted slots from what they should be.
    pub(crate) fn error(&self, c: &Ciphertext, want: impl Fn(usize) -> Complex64) -> f64 {
        let plain = Decryptor::new(&self.secret).decrypt(c).unwrap();
        let got = Encoder::new(&self.params).decode(&plain).unwrap();
        got.iter().enumerate().map(|(i, g)| (g - want(i)).norm()).fold(0.0, f64::max)
    }

    pub(crate) fn integers(&self, c: &Ciphertext) -> Vec<i128> {
        Decryptor::new(&self.secret).decrypt_integers(c).unwrap()
    }
}
