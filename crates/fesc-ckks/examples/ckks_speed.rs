//! Times of what a server does: minimum and median over repetitions, and processor time of the busiest thread, which does not count what other
//! programs take; then minimum and processor time as multiples of a loop with as many transforms in the same run.
//!
//! `cargo run --release -p fesc-ckks --example ckks_speed [set] [threads] [repetitions] [line]`; `chain-3`, one thread and 20 unless named. The loop
//! transforms limbs that are in the cache, on as many threads: a multiple of 1 would mean that conversions, sums with the keys and memory
//! cost nothing. What they cost, `perf record` on this program says: each kind of kernel is a function of its own.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Instant;

use fesc_ckks::client::{KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::server::{EvaluationKeyPlan, EvaluationKeys, Evaluator, SwitchCost};
use fesc_ckks::{Encoder, Params, sets};
use fesc_ring::Prg;
use fesc_ring::aligned::Aligned;
use num_complex::Complex64;
use rayon::prelude::*;

/// Milliseconds that each thread of this program has run (Linux).
fn processor() -> Vec<(String, f64)> {
    let mut out = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) else { continue };
        let ns = text.split(' ').next().and_then(|t| t.parse::<f64>().ok()).unwrap_or(f64::NAN);
        out.push((task.file_name().to_string_lossy().into_owned(), ns / 1e6));
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

/// What a piece of work took, in milliseconds.
struct Time {
    least: f64,
    median: f64,
    /// Mean processor time of the busiest thread.
    processor: f64,
}

/// After one call that is not counted. The result is dropped outside of the measured time, but its release counts as processor time.
fn time<T>(repetitions: usize, mut work: impl FnMut() -> T) -> Time {
    // The first one allocates.
    drop(work());
    let before = processor();
    let mut times: Vec<f64> = (0..repetitions)
        .map(|_| {
            let start = Instant::now();
            let result = work();
            let elapsed = start.elapsed().as_secs_f64() * 1e3;
            drop(result);
            elapsed
        })
        .collect();
    let used = processor().into_iter().zip(before).map(|(after, before)| after.1 - before.1).fold(0.0, f64::max);
    times.sort_by(f64::total_cmp);
    Time { least: times[0], median: times[times.len() / 2], processor: used / repetitions as f64 }
}

/// `count` transforms on all threads, each thread on a limb of its own.
fn transforms(params: &Params, count: usize, repetitions: usize) -> Time {
    let mut limbs: Vec<Aligned<u64>> =
        (0..rayon::current_num_threads()).map(|_| Aligned::zeroed(params.degree())).collect();
    let threads = limbs.len();
    let run = || {
        limbs.par_iter_mut().enumerate().with_max_len(1).for_each(|(t, limb)| {
            for _ in (t..count).step_by(threads) {
                params.ntt(0).forward(limb);
            }
        });
    };
    time(repetitions, run)
}

struct Report<'a> {
    params: &'a Params,
    repetitions: usize,
    only: Option<String>,
}

impl Report<'_> {
    /// `count` is the number of transforms in it.
    fn line<T>(&self, name: &str, count: usize, work: impl FnMut() -> T) {
        if self.only.as_ref().is_some_and(|only| only != name) {
            return;
        }
        let got = time(self.repetitions, work);
        let pure = transforms(self.params, count.max(1), self.repetitions);
        print!("{name:28} {:9.3} {:9.3} {:9.3} {count:7}", got.least, got.median, got.processor);
        if count > 0 {
            print!(" {:9.2} {:9.2}", got.least / pure.least, got.processor / pure.processor);
        }
        println!();
    }
}

fn run(wanted: &str, repetitions: usize, only: Option<String>) {
    let set = sets::ALL.iter().find(|s| s.name == wanted).unwrap();
    let params = set.params().unwrap();
    println!("{}: {}", set.name, set.doc(&params));
    println!("{} threads", rayon::current_num_threads());
    println!(
        "{:28} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9}",
        "milliseconds", "minimum", "median", "processor", "NTTs", "/ pure", "processor"
    );
    let mut prg = Prg::from_os().unwrap();
    let secret = SecretKey::generate(&params, &mut prg);
    let rotations: Vec<i64> = (0..8).map(|k| 1 << k).collect();
    let plan = EvaluationKeyPlan { rotations: rotations.clone(), conjugation: false, relinearisation: true };
    let mut keys = EvaluationKeys::new(&params);
    for key in KeyGenerator::new(&secret).keys(&plan, &mut prg) {
        keys.insert(key.unwrap()).unwrap();
    }
    let evaluator = Evaluator::new(&params, keys).unwrap();
    let level = params.levels();
    let mut next = || (prg.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0;
    let values: Vec<Complex64> = (0..params.slots()).map(|_| Complex64::new(next(), next())).collect();
    let plain = Encoder::new(&params).encode(&values, level, params.scale()).unwrap();
    let encryptor = SecretEncryptor::new(&secret);
    let a = encryptor.encrypt(&plain, &mut prg).unwrap().expand();
    let b = encryptor.encrypt(&plain, &mut prg).unwrap().expand();
    let product = evaluator.tensor(&a, &b).unwrap();
    let wide = evaluator.multiply_plain(&a, &plain).unwrap();
    let report = Report { params: &params, repetitions, only };
    let (cost, fused) = (SwitchCost::new(&params, level, false), SwitchCost::new(&params, level, true));
    let once = level + 1 + cost.digits * cost.sums - (level + 1);
    report.line("add", 0, || evaluator.add(&a, &b).unwrap());
    report.line("multiply plain", 0, || evaluator.multiply_plain(&a, &plain).unwrap());
    report.line("tensor", 0, || evaluator.tensor(&a, &b).unwrap());
    report.line("rescale", 2 * level + 2, || evaluator.rescale(&wide).unwrap());
    report.line("relinearise", cost.transforms, || evaluator.relinearise(&product).unwrap());
    report.line("multiply", cost.transforms, || evaluator.multiply(&a, &b).unwrap());
    report.line("multiply, rescale", cost.transforms + 2 * level + 2, || {
        evaluator.rescale(&evaluator.multiply(&a, &b).unwrap()).unwrap()
    });
    report.line("multiply and rescale, fused", fused.transforms, || evaluator.multiply_rescale(&a, &b).unwrap());
    report.line("rotate", cost.transforms, || evaluator.rotate(&a, 1).unwrap());
    let many = once + 8 * (cost.transforms - once);
    report.line("8 hoisted rotations", many, || evaluator.rotate_many(&a, &rotations).unwrap());
    report.line("8 from kept digits", many, || {
        let hoisted = evaluator.decompose(&a).unwrap();
        rotations.iter().map(|&k| hoisted.rotate(k).unwrap()).collect::<Vec<_>>()
    });
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let set = arguments.next().unwrap_or_else(|| "chain-3".into());
    let threads = arguments.next().map_or(1, |t| t.parse().unwrap());
    let repetitions = arguments.next().map_or(20, |r| r.parse().unwrap());
    let only = arguments.next();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| run(&set, repetitions, only));
}
