//! A kernel tried on a random packet: in the clear, and under encryption. For tests and measurements.
//!
//! The packet is random and nobody's; keys are made for the trial alone. What a client and a server have is
//! in one place here, which no session does.

mod clear;

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::server::{EvaluationKeys, Evaluator, KeyId};
use fesc_ckks::{Encoder, Params, Upload, memory};
use fesc_hybrid::Result;
use fesc_hybrid::backend::{Backend, Chain, Ckks, CkksCt, Tally};
use fesc_hybrid::expand::packed;
use fesc_ring::Prg;
use num_complex::Complex64;

use super::HeScan;
pub use clear::{ClearPacket, Precision, count, in_the_clear, noise};

/// Where a kernel's inputs are while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inputs {
    /// All in memory as they travel, half of each a seed, and expanded whenever the kernel asks for one.
    Held,
    /// Encrypted whenever the kernel asks for one; the time for it is counted apart.
    Streamed,
}

/// What a run under encryption took and how precise it was.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Evaluation alone, without expanding or encrypting inputs, in memory that was used before.
    pub seconds: f64,
    /// What the caller's clock counted meanwhile, inputs included.
    pub clocked: f64,
    /// Expanding inputs while it ran, and encrypting them if they were streamed: of all threads together.
    pub input_seconds: f64,
    /// What was done.
    pub tally: Tally,
    /// Most ciphertexts' bytes at once, by the count.
    pub live_bytes: u64,
    /// Against the recurrence.
    pub precision: Precision,
    /// Bytes of the evaluation keys on the wire, and in memory.
    pub key_bytes: [usize; 2],
}

/// A client and its server in one place: keys, a packet and its encryptions.
pub struct Trial<'a, K> {
    kernel: &'a K,
    secret: SecretKey,
    owner: KeyId,
    encoder: Encoder,
    clear: ClearPacket,
    prg: Mutex<Prg>,
    server: Ckks,
    held: Vec<Upload>,
    /// Nanoseconds that inputs took.
    spent: AtomicU64,
}

impl<'a, K: HeScan> Trial<'a, K> {
    /// Fresh keys for what the kernel does, and a packet.
    ///
    /// # Errors
    /// If the set has too few levels.
    pub fn new(kernel: &'a K, params: &Params, threads: usize, inputs: Inputs, seed: u8) -> Result<Self> {
        let plan = count(kernel, Chain::of(params))?.operations().key_plan();
        let mut prg = Prg::from_seed([seed; 16]);
        let secret = SecretKey::generate(params, &mut prg);
        let generator = KeyGenerator::new(&secret);
        let owner = generator.public_key(&mut prg)?.id();
        let mut keys = EvaluationKeys::new(params, &plan, owner);
        for key in generator.keys(&plan, &mut prg) {
            keys.insert(key?)?;
        }
        let server = Ckks::new(Evaluator::new(params, keys)?, threads)?;
        let (clear, encoder) = (ClearPacket::of(kernel, seed), Encoder::new(params));
        let (prg, held, spent) = (Mutex::new(prg), Vec::new(), AtomicU64::new(0));
        let mut trial = Self { kernel, secret, owner, encoder, clear, prg, server, held, spent };
        if inputs == Inputs::Held {
            trial.held = trial.server.each(kernel.inputs(), |i| trial.encrypt(i))?;
        }
        Ok(trial)
    }

    fn encrypt(&self, i: usize) -> Result<Upload> {
        let level = self.kernel.level(i);
        let (slots, parts) = (self.clear.slots(self.kernel, i), self.kernel.parts(i));
        let scale = self.server.chain().scale(level) / parts as f64;
        let slots = if parts == 1 { slots } else { packed(&slots, parts) };
        let plain = self.encoder.encode(&slots, level, scale)?;
        let mut prg = self.prg.lock().unwrap_or_else(PoisonError::into_inner).fork();
        Ok(SecretEncryptor::new(&self.secret).encrypt(&plain, &mut prg)?)
    }

    /// The back end with the keys.
    pub fn server(&self) -> &Ckks {
        &self.server
    }

    /// An input as the server has it.
    ///
    /// # Errors
    /// If it cannot be encrypted.
    pub fn input(&self, i: usize) -> Result<CkksCt> {
        let start = Instant::now();
        let upload = self.held.get(i).map_or_else(|| self.encrypt(i), |kept| Ok(kept.clone()));
        let c = upload.map(|u| u.expand(self.owner));
        self.spent.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        c
    }

    /// Decrypted results against the recurrence.
    ///
    /// # Errors
    /// If they are of other keys.
    pub fn precision(&self, results: &[CkksCt]) -> Result<Precision> {
        let decryptor = Decryptor::new(&self.secret);
        let open = |c: &CkksCt| Ok(self.encoder.decode(&decryptor.decrypt(c)?)?);
        let slots = results.iter().map(open).collect::<Result<Vec<Vec<Complex64>>>>()?;
        let got = self.clear.read(self.kernel, slots.iter().map(Vec::as_slice));
        Ok(Precision::of(&got, &self.clear.recurrence()))
    }
}

/// Runs a kernel under fresh keys, on so many threads.
///
/// # Errors
/// If the set has too few levels, or refuses an operation.
pub fn encrypted(kernel: &impl HeScan, params: &Params, threads: usize, inputs: Inputs, seed: u8) -> Result<Measured> {
    encrypted_by(&|| 0.0, kernel, params, threads, inputs, seed)
}

/// The same beside a clock of the caller's, as of processor time: a machine that others use has no other.
///
/// # Errors
/// As [`encrypted`].
pub fn encrypted_by(
    clock: &dyn Fn() -> f64,
    kernel: &impl HeScan,
    params: &Params,
    threads: usize,
    inputs: Inputs,
    seed: u8,
) -> Result<Measured> {
    let trial = Trial::new(kernel, params, threads, inputs, seed)?;
    let counted = count(kernel, Chain::of(params))?;
    // As a server does while keys are on their way.
    memory::reserve(counted.live().most_bytes());
    let (start, before) = (Instant::now(), clock());
    let results = kernel.run(&trial.server, &|i| trial.input(i))?;
    let clocked = clock() - before;
    let input_seconds = trial.spent.load(Ordering::Relaxed) as f64 * 1e-9;
    let seconds = start.elapsed().as_secs_f64() - input_seconds / threads.max(1) as f64;
    let plan = counted.operations().key_plan();
    Ok(Measured {
        seconds,
        clocked,
        input_seconds,
        tally: trial.server.operations().tally(),
        live_bytes: counted.live().most_bytes(),
        precision: trial.precision(&results)?,
        key_bytes: [plan.bytes(params), plan.memory(params)],
    })
}
