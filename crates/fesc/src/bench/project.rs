//! `fesc bench project`: a layer's projections under encryption: HEInProj with HEConv, and HEOutProj.
//!
//! Weights and activations are random; results are decrypted and compared with those in the clear. Keys are
//! made for the run, and client and server are one process.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, ensure};
use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::server::{EvaluationKeyPlan, EvaluationKeys, Evaluator, KeyId};
use fesc_ckks::sets::{self, Set};
use fesc_ckks::{Ciphertext, Params};
use fesc_hybrid::backend::{Backend, Chain, Ckks, Count, Operation};
use fesc_hybrid::project::{InProjection, Lane, Layout, Pairing, Projection};
use fesc_model::Shape;
use fesc_ring::Prg;
use num_complex::Complex64;
use rayon::ThreadPoolBuilder;
use serde_json::Value;

use crate::cli::ProjectArgs;
use crate::measured::named;
use crate::progress::Progress;
use crate::random::os_random;
use crate::report::{Format, Report, Row};
use crate::usage;

/// The set of both projections.
const SET: Set = sets::PROJECT;
/// Fewest features of a row in the slots.
const LEAST_SEGMENT: usize = 64;
/// The paper's seconds at 2,048 tokens (table runtime-breakdown), one A100.
const PAPER: [(&str, f64); 2] = [("in_proj_conv", 15.2), ("out_proj", 17.4)];

/// Measures and prints.
pub fn run(args: &ProjectArgs, format: Format) -> Result<()> {
    let config = named(&args.shape)?;
    let params = SET.params()?;
    let progress = Progress::start("projections");
    let mut report = Report::new(format);
    let pool = ThreadPoolBuilder::new().num_threads(args.threads.into()).build()?;
    let layout = Layout::fitting(params.slots(), args.length as usize, Pairing::Tokens, LEAST_SEGMENT, sets::BOUNDARY);
    let measured = [false, true].into_iter().try_for_each(|out| {
        progress.say(if out { "out-projection" } else { "in-projection and convolution" }.to_string());
        let work = Work::new(layout, config.shape(), out)?;
        report.add(pool.install(|| work.measure(args, &params))?)
    });
    drop(progress);
    report.finish()?;
    measured
}

enum Kernel {
    In(InProjection),
    Out(Projection),
}

/// A kernel with its weights, taps and bias, in the clear.
struct Work {
    kernel: Kernel,
    tokens: usize,
    rows: usize,
    columns: usize,
    weights: Vec<f64>,
    taps: Vec<f64>,
    bias: Vec<f64>,
    convolved: std::ops::Range<usize>,
    width: usize,
    x: Vec<f64>,
}

impl Work {
    fn new(layout: Layout, shape: &Shape, out: bool) -> Result<Self> {
        let (rows, columns) = if out { (shape.inner(), shape.d_model) } else { (shape.d_model, shape.proj_dim()) };
        let convolved = if out { 0..0 } else { shape.inner()..shape.inner() + shape.conv_dim() };
        let width = shape.conv_width;
        let kernel = if out {
            Kernel::Out(Projection::new(layout, rows, columns)?)
        } else {
            Kernel::In(InProjection::new(layout, rows, columns, convolved.clone(), width)?)
        };
        let mut prg = os_random()?;
        let tokens = layout.tokens;
        Ok(Self {
            kernel,
            tokens,
            rows,
            columns,
            // Results as large as a sum of so many random terms of magnitude 1.
            weights: random(rows * columns, 1.0 / (rows as f64).sqrt(), &mut prg),
            taps: random(convolved.len() * width, 0.5, &mut prg),
            bias: random(convolved.len(), 0.5, &mut prg),
            convolved,
            width,
            x: random(tokens * rows, 1.0, &mut prg),
        })
    }

    fn run<B: Backend>(
        &self,
        backend: &B,
        input: &(impl Fn(usize) -> fesc_hybrid::Result<B::Ct> + Sync),
    ) -> fesc_hybrid::Result<Vec<B::Ct>> {
        let weights = |r: usize, c: usize| self.weights[r * self.columns + c];
        let taps = |c: usize, r: usize| self.taps[c * self.width + r];
        match &self.kernel {
            Kernel::In(k) => k.run(backend, &weights, &taps, &|c| self.bias[c], input),
            Kernel::Out(k) => k.run(backend, &weights, input),
        }
    }

    /// Inputs, their level, results.
    fn sizes(&self) -> (usize, usize, usize) {
        match &self.kernel {
            Kernel::In(k) => (k.inputs(), k.level(), k.results()),
            Kernel::Out(k) => (k.inputs(), k.level(), k.results()),
        }
    }

    fn lanes(&self, i: usize) -> Vec<Lane> {
        match &self.kernel {
            Kernel::In(k) => k.lanes(i),
            Kernel::Out(k) => k.lanes(i),
        }
    }

    fn outputs(&self, i: usize) -> Vec<Lane> {
        match &self.kernel {
            Kernel::In(k) => k.outputs(i),
            Kernel::Out(k) => k.outputs(i),
        }
    }

    /// The true results, token by token.
    fn truth(&self) -> Vec<f64> {
        let mut y = vec![0.0; self.tokens * self.columns];
        for (x, y) in self.x.chunks(self.rows).zip(y.chunks_mut(self.columns)) {
            for (x, weights) in x.iter().zip(self.weights.chunks(self.columns)) {
                y.iter_mut().zip(weights).for_each(|(y, w)| *y += x * w);
            }
        }
        let mut out = y.clone();
        for t in 0..self.tokens {
            for (channel, c) in self.convolved.clone().enumerate() {
                let before = |r: usize| t.checked_sub(r).map_or(0.0, |s| y[s * self.columns + c]);
                let sum: f64 = (0..self.width).map(|r| self.taps[channel * self.width + r] * before(r)).sum();
                out[t * self.columns + c] = self.bias[channel] + sum;
            }
        }
        out
    }

    fn measure(&self, args: &ProjectArgs, params: &Params) -> Result<Row> {
        let (inputs, level, results) = self.sizes();
        let count = Count::new(Chain::of(params));
        self.run(&count, &|_| Ok(count.fresh(level)))?;
        let session = Session::new(params, &count.operations().key_plan(), args.threads.into())?;
        let held = session.server.each(inputs, |i| session.encrypt(&self.lanes(i), level, &self.x))?;
        let cpu = || usage::cpu_seconds().unwrap_or(f64::NAN);
        let (start, before) = (Instant::now(), cpu());
        let made = self.run(&session.server, &|i| Ok(held[i].clone()))?;
        let (seconds, cpu_s) = (start.elapsed().as_secs_f64(), cpu() - before);
        let bits = self.precision(&session, &made)?;
        let tally = count.operations().tally();
        let name = if matches!(self.kernel, Kernel::In(_)) { PAPER[0] } else { PAPER[1] };
        let known = args.shape == "base" && self.tokens == 2048;
        let keys = count.operations().key_plan();
        Ok(Row::new()
            .with("kernel", name.0)
            .with("length", self.tokens)
            .with("key_switches", tally.key_switches())
            .with("plain_products", tally.total(Operation::PlainProduct))
            .with("depth", level - sets::BOUNDARY)
            .with("seconds", seconds)
            .with("peak_bytes", usage::peak_rss_bytes())
            .with("precision_bits", bits)
            .with("paper", if known { name.1.into() } else { Value::Null })
            .detail("cpu_s", cpu_s)
            .detail("shape", args.shape.as_str())
            .detail("set", SET.name)
            .detail("rows", self.rows)
            .detail("columns", self.columns)
            .detail("inputs", inputs)
            .detail("results", results)
            .detail("hoisted_rotations", tally.total(Operation::HoistedRotation))
            .detail("key_bytes", keys.bytes(params) as u64)
            .detail("key_memory_bytes", keys.memory(params) as u64)
            .detail("live_bytes", count.live().most_bytes())
            .detail("threads", args.threads))
    }

    /// `-log2` of the largest error over the largest result.
    fn precision(&self, session: &Session, made: &[Ciphertext]) -> Result<f64> {
        let truth = self.truth();
        let (mut error, mut seen) = (0f64, 0);
        for (i, c) in made.iter().enumerate() {
            let slots = session.server.encoder().decode(&Decryptor::new(&session.secret).decrypt(c)?)?;
            let outputs = self.outputs(i);
            let parts = outputs.iter().zip(&slots).flat_map(|(lane, z)| lane.iter().zip([z.re, z.im]));
            for (at, got) in parts.filter_map(|(at, got)| at.map(|at| (at, got))) {
                error = error.max((got - truth[at as usize]).abs());
                seen += 1;
            }
        }
        ensure!(
            seen == truth.len(),
            "{seen} results of {}; this is a fault of fesc-hybrid, please report it",
            truth.len()
        );
        Ok(-(error / truth.iter().fold(0f64, |m, y| m.max(y.abs()))).log2())
    }
}

/// A client and its server in one place.
struct Session {
    secret: SecretKey,
    owner: KeyId,
    server: Ckks,
    prg: Mutex<Prg>,
}

impl Session {
    fn new(params: &Params, plan: &EvaluationKeyPlan, threads: usize) -> Result<Self> {
        let mut prg = os_random()?;
        let secret = SecretKey::generate(params, &mut prg);
        let generator = KeyGenerator::new(&secret);
        let owner = generator.public_key(&mut prg)?.id();
        let mut keys = EvaluationKeys::new(params, plan, owner);
        for key in generator.keys(plan, &mut prg) {
            keys.insert(key?)?;
        }
        let server = Ckks::new(Evaluator::new(params, keys)?, threads)?;
        Ok(Self { secret, owner, server, prg: Mutex::new(prg) })
    }

    fn encrypt(&self, lanes: &[Lane], level: usize, x: &[f64]) -> fesc_hybrid::Result<Ciphertext> {
        let part = |at: Option<u32>| at.map_or(0.0, |at| x[at as usize]);
        let slots: Vec<Complex64> = lanes.iter().map(|&[re, im]| Complex64::new(part(re), part(im))).collect();
        let plain = self.server.encoder().encode(&slots, level, self.server.chain().scale(level))?;
        let mut prg = self.prg.lock().unwrap_or_else(PoisonError::into_inner).fork();
        Ok(SecretEncryptor::new(&self.secret).encrypt(&plain, &mut prg)?.expand(self.owner))
    }
}

/// Random numbers up to `size` in magnitude.
fn random(count: usize, size: f64, prg: &mut Prg) -> Vec<f64> {
    (0..count).map(|_| size * ((prg.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0)).collect()
}
