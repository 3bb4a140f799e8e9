//! One layer's projections of mamba-base for 128 tokens under encryption, alone: HEInProj (768 to 3352) with
//! HEConv on 1792 channels, and HEOutProj (1536 to 768). Prints seconds, counts and precision.
//!
//! `cargo run --release -p fesc-hybrid --example project_base [tokens|features] [segment]`

use std::time::Instant;

use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::server::{EvaluationKeys, Evaluator, KeyId};
use fesc_ckks::sets;
use fesc_hybrid::backend::{Backend, Chain, Ckks, CkksCt, Count, Operation, Tally};
use fesc_hybrid::project::{InProjection, Lane, Layout, Pairing, Projection};
use fesc_ring::Prg;
use num_complex::Complex64;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const TOKENS: usize = 128;

/// A number in -1 .. 1 that depends on its place alone.
fn number(seed: u64, i: usize, j: usize) -> f64 {
    let mut x = seed ^ ((i as u64) << 32 | j as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ x >> 31) >> 11) as f64 / 2f64.powi(52) - 1.0
}

/// CPU seconds of all threads so far, where Linux tells: on a machine that others use, seconds on the clock
/// say little.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

struct Session {
    secret: SecretKey,
    owner: KeyId,
    server: Ckks,
}

impl Session {
    fn new(counted: impl FnOnce(&Count) -> Fallible<()>) -> Fallible<Self> {
        let params = sets::PROJECT.params()?;
        let count = Count::new(Chain::of(&params));
        counted(&count)?;
        let (plan, start) = (count.operations().key_plan(), Instant::now());
        let mut prg = Prg::from_seed([1; 16]);
        let secret = SecretKey::generate(&params, &mut prg);
        let owner = KeyGenerator::new(&secret).public_key(&mut prg)?.id();
        let mut keys = EvaluationKeys::new(&params, &plan, owner);
        for key in KeyGenerator::new(&secret).keys(&plan, &mut prg) {
            keys.insert(key?)?;
        }
        println!("{} rotation keys, {:.1} s; {}", plan.rotations.len(), start.elapsed().as_secs_f64(), line(&count));
        let server = Ckks::new(Evaluator::new(&params, keys)?, 2)?;
        Ok(Self { secret, owner, server })
    }

    fn encrypt(&self, lanes: &[Lane], level: usize, number: usize, x: &[f64]) -> fesc_hybrid::Result<CkksCt> {
        let part = |at: Option<u32>| at.map_or(0.0, |at| x[at as usize]);
        let slots: Vec<_> = lanes.iter().map(|&[re, im]| Complex64::new(part(re), part(im))).collect();
        let plain = self.server.encoder().encode(&slots, level, self.server.chain().scale(level))?;
        let mut prg = Prg::from_seed([number as u8; 16]);
        Ok(SecretEncryptor::new(&self.secret).encrypt(&plain, &mut prg)?.expand(self.owner))
    }

    /// Largest error and largest value of the outputs.
    fn compare(&self, results: &[CkksCt], lanes: impl Fn(usize) -> Vec<Lane>, want: &[f64]) -> Fallible<(f64, f64)> {
        let (mut error, mut seen) = (0f64, 0);
        for (i, c) in results.iter().enumerate() {
            let slots = self.server.encoder().decode(&Decryptor::new(&self.secret).decrypt(c)?)?;
            for (lane, z) in lanes(i).iter().zip(&slots) {
                for (at, got) in lane.iter().zip([z.re, z.im]) {
                    if let Some(at) = at {
                        error = error.max((got - want[*at as usize]).abs());
                        seen += 1;
                    }
                }
            }
        }
        if seen != want.len() {
            return Err(format!("{seen} outputs of {}", want.len()).into());
        }
        Ok((error, want.iter().fold(0f64, |m, x| m.max(x.abs()))))
    }
}

fn line(count: &Count) -> String {
    let tally: Tally = count.operations().tally();
    let counts: Vec<_> = Operation::ALL.iter().map(|&o| format!("{} {}", o.name(), tally.total(o))).collect();
    let memory = count.live().most_bytes() as f64 / 1e9;
    format!("{}; key switches {}, ciphertexts {memory:.2} GB", counts.join(", "), tally.key_switches())
}

fn product(x: &[f64], rows: usize, columns: usize, w: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let mut y = vec![0.0; TOKENS * columns];
    for r in 0..rows {
        for c in 0..columns {
            let w = w(r, c);
            (0..TOKENS).for_each(|t| y[t * columns + c] += x[t * rows + r] * w);
        }
    }
    y
}

fn report(name: &str, runs: [[f64; 2]; 2], (error, largest): (f64, f64)) {
    let [first, second] = runs.map(|[clock, cpu]| format!("{clock:.2} s (CPU {cpu:.2} s)"));
    println!("{name}: {first}, again {second}, largest error 2^{:.1} of |y| up to {largest:.1}", error.log2());
}

fn input_projection(layout: Layout) -> Fallible<()> {
    let (rows, columns, range, count) = (768, 3352, 1536..3328, 4);
    let kernel = InProjection::new(layout, rows, columns, range.clone(), count)?;
    let (weights, taps) = (|r: usize, c: usize| number(1, r, c) * 0.1, |c: usize, r: usize| number(2, c, r));
    let bias = |c: usize| number(3, c, 0);
    let x: Vec<f64> = (0..TOKENS * rows).map(|i| number(4, i, 0)).collect();
    let session = Session::new(|count| {
        kernel.run(count, &weights, &taps, &bias, &|_| Ok(count.fresh(kernel.level())))?;
        Ok(())
    })?;
    let inputs = (0..kernel.inputs())
        .map(|i| session.encrypt(&kernel.lanes(i), kernel.level(), i, &x))
        .collect::<fesc_hybrid::Result<Vec<_>>>()?;
    let run = || {
        let (start, before) = (Instant::now(), cpu());
        let results = kernel.run(&session.server, &weights, &taps, &bias, &|i| Ok(inputs[i].clone()));
        (results, [start.elapsed().as_secs_f64(), cpu() - before])
    };
    let (first, second) = (run(), run());
    let q = product(&x, rows, columns, weights);
    let mut want = q.clone();
    for (t, c) in (0..TOKENS).flat_map(|t| range.clone().map(move |c| (t, c))) {
        let channel = c - range.start;
        let tap = |r: usize| t.checked_sub(r).map_or(0.0, |s| taps(channel, r) * q[s * columns + c]);
        want[t * columns + c] = bias(channel) + (0..count).map(tap).sum::<f64>();
    }
    let errors = session.compare(&second.0?, |i| kernel.outputs(i), &want)?;
    println!("{} inputs, {} results, n1 {}", kernel.inputs(), kernel.results(), kernel.projection().steps());
    report("in-proj and conv", [first.1, second.1], errors);
    Ok(())
}

fn output_projection(layout: Layout) -> Fallible<()> {
    let (rows, columns) = (1536, 768);
    let kernel = Projection::new(layout, rows, columns)?;
    let weights = |r: usize, c: usize| number(5, r, c) * 0.1;
    let x: Vec<f64> = (0..TOKENS * rows).map(|i| number(6, i, 0)).collect();
    let session = Session::new(|count| {
        kernel.run(count, &weights, &|_| Ok(count.fresh(kernel.level())))?;
        Ok(())
    })?;
    let inputs = (0..kernel.inputs())
        .map(|i| session.encrypt(&kernel.lanes(i), kernel.level(), i, &x))
        .collect::<fesc_hybrid::Result<Vec<_>>>()?;
    let run = || {
        let (start, before) = (Instant::now(), cpu());
        let results = kernel.run(&session.server, &weights, &|i| Ok(inputs[i].clone()));
        (results, [start.elapsed().as_secs_f64(), cpu() - before])
    };
    let (first, second) = (run(), run());
    let want = product(&x, rows, columns, weights);
    let errors = session.compare(&second.0?, |i| kernel.outputs(i), &want)?;
    println!("{} inputs, {} results, n1 {}", kernel.inputs(), kernel.results(), kernel.steps());
    report("out-proj", [first.1, second.1], errors);
    Ok(())
}

fn main() -> Fallible<()> {
    let pairing = match std::env::args().nth(1).as_deref() {
        Some("features") => Pairing::Features,
        _ => Pairing::Tokens,
    };
    let mut layout = Layout::fitting(1 << 14, TOKENS, pairing, 64, 2);
    if let Some(segment) = std::env::args().nth(2) {
        layout.segment = segment.parse()?;
    }
    println!("{layout:?}");
    input_projection(layout)?;
    output_projection(layout)
}
