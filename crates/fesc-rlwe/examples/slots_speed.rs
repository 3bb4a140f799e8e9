//! Milliseconds of every step of the slots engine, and bytes. Each figure is the minimum over several calls:
//! of the wall, and of the processor time of all threads, which is what counts on a busy machine (Linux;
//! elsewhere 0). The scheduler books it late: for steps below a millisecond read the wall.
//!
//! `cargo run --release -p fesc-rlwe --example slots_speed`

use fesc_ring::Prg;
use fesc_rlwe::slots::{Cipher, Evaluator, KeyHolder, SlotParams};
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

/// Ciphertexts and outputs of the combination.
const TILE: usize = 128;

/// Processor time of all threads so far, in milliseconds.
fn processor() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    let time = |path: std::path::PathBuf| std::fs::read_to_string(path.join("schedstat")).ok();
    let texts = tasks.filter_map(|task| time(task.ok()?.path()));
    texts.filter_map(|text| text.split(' ').next()?.parse::<f64>().ok()).sum::<f64>() / 1e6
}

/// Prints and returns the least processor time.
fn best<T>(name: &str, rounds: usize, mut f: impl FnMut() -> T) -> f64 {
    let (mut wall, mut busy) = (f64::MAX, f64::MAX);
    for _ in 0..rounds {
        let (start, before) = (Instant::now(), processor());
        black_box(f());
        wall = wall.min(start.elapsed().as_secs_f64() * 1e3);
        busy = busy.min(processor() - before);
    }
    println!("{name:<38} {wall:9.3} ms wall {busy:9.3} ms processor");
    busy
}

fn main() -> Result<(), Box<dyn Error>> {
    let params = SlotParams::standard()?;
    let n = params.slots();
    println!("{n} slots, log2 q = {}, {} threads", params.log_q(), rayon::current_num_threads());
    println!("upload {} bytes, response {} bytes", params.upload_bytes(), params.response_bytes());
    for (terms, run) in [(2, 1), (128, 64), (2048, 1)] {
        let (noise, lift) = params.failure(terms, run);
        println!(
            "{terms} products, runs of {run}: a response fails by noise with 2^{:.1}, by a lift with 2^{:.1}",
            noise.log2(),
            lift.log2()
        );
    }
    let mut prg = Prg::from_os()?;
    best("parameters", 1, SlotParams::standard);
    let (holder, public) = KeyHolder::new(params.clone(), &mut prg);
    let evaluator = Evaluator::new(params, &public)?;
    let mut values = |count: usize| -> Vec<i64> { (0..count).map(|_| (prg.next_u64() as i64) >> 16).collect() };
    let (x, m, short) = (values(n), values(n), values(n / 64));
    let mut prg = Prg::from_os()?;
    let upload = holder.encrypt(&x, &mut prg)?;
    best("encrypt", 50, || holder.encrypt(&x, &mut prg));
    best("receive", 50, || evaluator.receive(&upload));
    let cipher = evaluator.receive(&upload)?;
    best("multiplier, run 1", 50, || evaluator.multiplier(&m, 1));
    best("multiplier, run 64", 50, || evaluator.multiplier(&short, 64));
    let (wide, narrow) = (evaluator.multiplier(&m, 1)?, evaluator.multiplier(&short, 64)?);
    let mut sum = evaluator.sum();
    best("mul_add, run 1", 50, || evaluator.mul_add(&mut sum, &cipher, &wide));
    best("mul_add, run 64", 50, || evaluator.mul_add(&mut sum, &cipher, &narrow));
    let mut sums: Vec<_> = (0..50)
        .map(|_| {
            let mut sum = evaluator.sum();
            evaluator.mul_add(&mut sum, &cipher, &wide);
            sum
        })
        .collect();
    let mut response = Vec::new();
    best("respond", 50, || {
        if let Some(sum) = sums.pop() {
            response = evaluator.respond(sum, &mut prg).0;
        }
    });
    best("open", 50, || holder.open(&response));
    let ciphers: Vec<Cipher> = (0..TILE).map(|_| evaluator.receive(&upload)).collect::<Result<_, _>>()?;
    for (name, run, triangle) in
        [("runs of 64", 64, false), ("runs of 64, triangle", 64, true), ("runs of 512", 512, false)]
    {
        let pairs = if triangle { TILE * (TILE + 1) / 2 } else { TILE * TILE };
        let ms = best(&format!("combine {TILE} x {TILE}, {name}"), 3, || {
            evaluator.combine_each(
                &ciphers,
                TILE,
                run,
                |o, j| triangle && j > o,
                |o, j, r| m[(o * 131 + j * 17 + r) & (n - 1)],
                |_, sum| {
                    drop(sum);
                    Ok::<_, fesc_rlwe::RlweError>(())
                },
            )
        });
        println!("{:<38} {:9.3} ns of processor per slot product", "", ms * 1e6 / (pairs * n) as f64);
    }
    Ok(())
}
