//! A kernel on ciphertexts of a real set, decrypted and held to the recurrence.

use std::time::Instant;

use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::server::{EvaluationKeys, Evaluator};
use fesc_ckks::sets::Set;
use fesc_ckks::{Ciphertext, Encoder};
use fesc_hybrid::backend::{Backend, Chain, Ckks};
use fesc_ring::Prg;

use super::{Clear, HeScan, count};

/// What a run under encryption took and how precise it was.
pub(crate) struct Measured {
    pub seconds: f64,
    pub key_switches: u64,
    /// Largest error.
    pub error: f64,
    /// Largest output.
    pub largest: f64,
}

/// Runs a kernel with fresh keys of `set`, on so many threads. What is done must be what is counted.
pub(crate) fn run_encrypted(kernel: &impl HeScan, set: &Set, threads: usize, seed: u8) -> Measured {
    let params = set.params().unwrap();
    let counted = count(kernel, Chain::of(&params));
    let mut prg = Prg::from_seed([seed; 16]);
    let secret = SecretKey::generate(&params, &mut prg);
    let generator = KeyGenerator::new(&secret);
    let owner = generator.public_key(&mut prg).unwrap().id();
    let plan = counted.operations().key_plan();
    let mut keys = EvaluationKeys::new(&params, &plan, owner);
    let made: Vec<_> = generator.keys(&plan, &mut prg).map(Result::unwrap).collect();
    made.into_iter().for_each(|key| keys.insert(key).unwrap());
    let ckks = Ckks::new(Evaluator::new(&params, keys).unwrap(), threads).unwrap();

    let (clear, encoder) = (Clear::random(*kernel.shape(), seed), Encoder::new(&params));
    let mut encrypt = |i: usize| {
        let level = kernel.level(i);
        let plain = encoder.encode(&clear.slots(kernel, i), level, ckks.chain().scale(level)).unwrap();
        SecretEncryptor::new(&secret).encrypt(&plain, &mut prg).unwrap().expand(owner)
    };
    let inputs: Vec<Ciphertext> = (0..kernel.inputs()).map(&mut encrypt).collect();
    let start = Instant::now();
    let results = kernel.run(&ckks, &|i| Ok(inputs[i].clone())).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(ckks.operations().tally(), counted.operations().tally());

    let decrypt = |c: &Ciphertext| encoder.decode(&Decryptor::new(&secret).decrypt(c).unwrap()).unwrap();
    let got = clear.read(kernel, &results.iter().map(decrypt).collect::<Vec<_>>());
    let want = clear.recurrence();
    let error = got.iter().zip(&want).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
    let largest = want.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    Measured { seconds, key_switches: ckks.operations().tally().key_switches(), error, largest }
}
