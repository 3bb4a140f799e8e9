//! A kernel tried on a random packet: in the clear, and under encryption. For tests and measurements.
//!
//! The packet is random and nobody's; keys are made for the trial alone. What a client and a server have is
//! in one place here, which no session does.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::server::{EvaluationKeys, Evaluator, KeyId};
use fesc_ckks::{Encoder, Params, Upload};
use fesc_hybrid::Result;
use fesc_hybrid::backend::{Backend, Chain, Ckks, Count, Plain, Tally};
use fesc_ring::Prg;
use num_complex::Complex64;

use super::{HeScan, ScanShape, Value, decay_product};

/// A packet in the clear.
pub struct ClearPacket {
    shape: ScanShape,
    x: Vec<f64>,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl ClearPacket {
    /// Values in -1 .. 1, decays in 0 .. 1, those of every second head above 0.9.
    pub fn random(shape: ScanShape, seed: u8) -> Self {
        let mut prg = Prg::from_seed([seed; 16]);
        let mut unit = || (prg.next_u64() >> 11) as f64 / 2f64.powi(53);
        let ScanShape { tokens, heads, groups, state, .. } = shape;
        let mut signed = |n: usize| (0..n).map(|_| 2.0 * unit() - 1.0).collect::<Vec<f64>>();
        let x = signed(tokens * shape.channels());
        let (b, c) = (signed(tokens * groups * state), signed(tokens * groups * state));
        let a = (0..tokens * heads).map(|i| if i % heads % 2 == 0 { unit() } else { 0.9 + 0.1 * unit() }).collect();
        Self { shape, x, a, b, c }
    }

    /// One value.
    pub fn value(&self, v: Value) -> f64 {
        match v {
            Value::X(i) => self.x[i as usize],
            Value::A(i) => self.a[i as usize],
            Value::B(i) => self.b[i as usize],
            Value::C(i) => self.c[i as usize],
            Value::Decays { head, from, to } => {
                decay_product(&self.a, self.shape.heads, head as usize, from as usize..to as usize)
            }
        }
    }

    /// The slots of an input of a kernel.
    pub fn slots(&self, kernel: &impl HeScan, i: usize) -> Vec<Complex64> {
        let part = |v: Option<Value>| v.map_or(0.0, |v| self.value(v));
        kernel.lanes(i).into_iter().map(|[re, im]| Complex64::new(part(re), part(im))).collect()
    }

    /// `m_t[e]` at `t E + e`, token by token.
    pub fn recurrence(&self) -> Vec<f64> {
        let ScanShape { tokens, heads, head_dim, groups, state } = self.shape;
        let channels = self.shape.channels();
        let mut h = vec![0.0; channels * state];
        let mut m = vec![0.0; tokens * channels];
        for t in 0..tokens {
            for e in 0..channels {
                let head = e / head_dim;
                let at = (t * groups + self.shape.group(head)) * state;
                for i in 0..state {
                    let s = &mut h[e * state + i];
                    *s = self.a[t * heads + head] * *s + self.x[t * channels + e] * self.b[at + i];
                    m[t * channels + e] += self.c[at + i] * *s;
                }
            }
        }
        m
    }

    /// The outputs that results hold: zero where no slot names one.
    pub fn read<'a>(&self, kernel: &impl HeScan, results: impl Iterator<Item = &'a [Complex64]>) -> Vec<f64> {
        let mut m = vec![0.0; self.shape.tokens * self.shape.channels()];
        for (i, slots) in results.enumerate() {
            for (lane, z) in kernel.outputs(i).into_iter().zip(slots) {
                for (place, part) in lane.into_iter().zip([z.re, z.im]) {
                    if let Some(m) = place.and_then(|at| m.get_mut(at as usize)) {
                        *m += part;
                    }
                }
            }
        }
        m
    }
}

/// A kernel, counted.
///
/// # Errors
/// If the chain has too few levels.
pub fn count(kernel: &impl HeScan, chain: Chain) -> Result<Count> {
    let count = Count::new(chain);
    kernel.run(&count, &|i| Ok(count.fresh(kernel.level(i))))?;
    Ok(count)
}

/// How right a trial was.
#[derive(Debug, Clone, Copy)]
pub struct Precision {
    /// Largest error of an output.
    pub error: f64,
    /// Largest output.
    pub largest: f64,
}

impl Precision {
    /// Of these outputs, against what they should be.
    pub fn of(got: &[f64], want: &[f64]) -> Self {
        let error = got.iter().zip(want).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
        Self { error, largest: want.iter().fold(0.0, |m, x| x.abs().max(m)) }
    }

    /// `-log2` of the largest error over the largest output.
    pub fn bits(&self) -> f64 {
        -(self.error / self.largest).log2()
    }
}

/// A kernel in the clear.
///
/// # Errors
/// If the back end refuses an operation.
pub fn in_the_clear(kernel: &impl HeScan, plain: &Plain, seed: u8) -> Result<Precision> {
    let clear = ClearPacket::random(*kernel.shape(), seed);
    let results = kernel.run(plain, &|i| plain.fresh(&clear.slots(kernel, i), kernel.level(i)))?;
    Ok(Precision::of(&clear.read(kernel, results.iter().map(|c| c.slots())), &clear.recurrence()))
}

/// The deviation of an output's error by the formulas of [`fesc_ckks::noise`], with the energies of the same
/// packet: that of the worst result, for as many parts as are added to an output. Energies are means over all
/// slots, so that a shape that leaves most slots empty has a larger error than this says.
///
/// # Errors
/// If the back end refuses an operation.
pub fn noise(kernel: &impl HeScan, params: &Params, seed: u8) -> Result<f64> {
    let (plain, clear) = (Plain::of(params), ClearPacket::random(*kernel.shape(), seed));
    let results = kernel.run(&plain, &|i| plain.fresh(&clear.slots(kernel, i), kernel.level(i)))?;
    let mut parts = vec![0u32; clear.shape.tokens * clear.shape.channels()];
    for i in 0..results.len() {
        for place in kernel.outputs(i).iter().flatten().flatten() {
            if let Some(parts) = parts.get_mut(*place as usize) {
                *parts += 1;
            }
        }
    }
    let most = parts.into_iter().max().unwrap_or(0);
    // Half of a slot's error is in its real part.
    let worst = results.iter().map(|c| c.deviation()).fold(0.0, f64::max);
    Ok(worst * (f64::from(most) / 2.0).sqrt())
}

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
    /// Evaluation alone, without expanding or encrypting inputs.
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

/// A client and its server in one place.
struct Trial {
    secret: SecretKey,
    owner: KeyId,
    encoder: Encoder,
    clear: ClearPacket,
    prg: Mutex<Prg>,
}

impl Trial {
    fn encrypt(&self, kernel: &impl HeScan, chain: &Chain, i: usize) -> Result<Upload> {
        let level = kernel.level(i);
        let plain = self.encoder.encode(&self.clear.slots(kernel, i), level, chain.scale(level))?;
        let mut prg = self.prg.lock().unwrap_or_else(PoisonError::into_inner).fork();
        Ok(SecretEncryptor::new(&self.secret).encrypt(&plain, &mut prg)?)
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
    let counted = count(kernel, Chain::of(params))?;
    let plan = counted.operations().key_plan();
    let mut prg = Prg::from_seed([seed; 16]);
    let secret = SecretKey::generate(params, &mut prg);
    let generator = KeyGenerator::new(&secret);
    let owner = generator.public_key(&mut prg)?.id();
    let mut keys = EvaluationKeys::new(params, &plan, owner);
    for key in generator.keys(&plan, &mut prg) {
        keys.insert(key?)?;
    }
    let ckks = Ckks::new(Evaluator::new(params, keys)?, threads)?;
    let (clear, encoder) = (ClearPacket::random(*kernel.shape(), seed), Encoder::new(params));
    let trial = Trial { secret, owner, encoder, clear, prg: Mutex::new(prg) };

    let held: Vec<Upload> = match inputs {
        Inputs::Held => ckks.each(kernel.inputs(), |i| trial.encrypt(kernel, ckks.chain(), i))?,
        Inputs::Streamed => Vec::new(),
    };
    let spent = AtomicU64::new(0);
    let input = |i: usize| {
        let start = Instant::now();
        let upload = held.get(i).map_or_else(|| trial.encrypt(kernel, ckks.chain(), i), |kept| Ok(kept.clone()));
        let c = upload.map(|u| u.expand(trial.owner));
        spent.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        c
    };
    let (start, before) = (Instant::now(), clock());
    let results = kernel.run(&ckks, &input)?;
    let clocked = clock() - before;
    let input_seconds = spent.load(Ordering::Relaxed) as f64 * 1e-9;
    let seconds = start.elapsed().as_secs_f64() - input_seconds / threads.max(1) as f64;
    let decryptor = Decryptor::new(&trial.secret);
    let slots: Vec<Vec<Complex64>> =
        results.iter().map(|c| Ok(trial.encoder.decode(&decryptor.decrypt(c)?)?)).collect::<Result<_>>()?;
    let got = trial.clear.read(kernel, slots.iter().map(Vec::as_slice));
    Ok(Measured {
        seconds,
        clocked,
        input_seconds,
        tally: ckks.operations().tally(),
        live_bytes: counted.live().most_bytes(),
        precision: Precision::of(&got, &trial.clear.recurrence()),
        key_bytes: [plan.bytes(params), plan.memory(params)],
    })
}
