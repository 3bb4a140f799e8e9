//! Microseconds per transform, pointwise product, ring product and sample, on one core: every path of this
//! processor, and `tfhe-ntt` in the same run. Each figure is the minimum over many calls; the contestants
//! take turns, so that all of them see the same machine.
//!
//! `cargo run --release -p fesc-ring --example ntt_speed`

use fesc_ring::cpu::Path;
use fesc_ring::modulus::Modulus;
use fesc_ring::ntt::Ntt;
use fesc_ring::poly::PolyRing;
use fesc_ring::primes::ntt_primes;
use fesc_ring::{Prg, Ring, sample};
use std::error::Error;
use std::time::Instant;

const ROUNDS: usize = 1500;

fn time(best: &mut f64, f: impl FnOnce()) {
    let start = Instant::now();
    f();
    *best = best.min(start.elapsed().as_secs_f64() * 1e6);
}

/// The part of a buffer that starts on a cache line (or `off` words after one).
fn aligned(buffer: &mut [u64], n: usize, off: usize) -> &mut [u64] {
    let start = buffer.as_ptr().align_offset(64) + off;
    &mut buffer[start..start + n]
}

fn transforms(log: u32) -> Result<(), Box<dyn Error>> {
    let n = 1usize << log;
    let p = ntt_primes(50, n, 1)?[0];
    let plan = Ntt::new(Modulus::new(p)?, n)?;
    let other = tfhe_ntt::prime64::Plan::try_new(n, p).ok_or("tfhe-ntt refuses the prime")?;
    let paths: Vec<Path> = Path::available().collect();
    let mut prg = Prg::from_seed([0; 16]);
    let (mut first, mut second, mut shifted) = (vec![0; n + 8], vec![0; n + 8], vec![0; n + 16]);
    let (a, b, c) = (aligned(&mut first, n, 0), aligned(&mut second, n, 0), aligned(&mut shifted, n, 2));
    for x in [&mut *a, &mut *b, &mut *c] {
        sample::uniform_mod(&mut prg, plan.modulus(), x);
    }
    // Forward, inverse, multiply-accumulate; rows: our paths, then tfhe-ntt; last: our best path and theirs
    // off a cache line.
    let mut best = vec![[f64::MAX; 3]; paths.len() + 1];
    let mut off_line = [f64::MAX; 2];
    for round in 0..ROUNDS {
        for (row, &path) in best.iter_mut().zip(&paths) {
            // The slow path needs fewer repetitions.
            if path == Path::Portable && round % 10 != 0 {
                continue;
            }
            plan.prepare(path);
            time(&mut row[0], || plan.forward_with(path, a));
            time(&mut row[1], || plan.inverse_with(path, a));
            time(&mut row[2], || plan.mul_acc_with(path, a, b, c));
        }
        let row = &mut best[paths.len()];
        time(&mut row[0], || other.fwd(a));
        time(&mut row[1], || other.inv(a));
        time(&mut row[2], || other.mul_accumulate(a, b, c));
        // Its inverse leaves a factor N, its values stay reduced.
        time(&mut off_line[0], || plan.forward(c));
        time(&mut off_line[1], || other.fwd(c));
    }
    let names = paths.iter().map(|p| p.name()).chain(["tfhe-ntt"]);
    for (name, [forward, inverse, product]) in names.zip(&best) {
        println!(
            "N = {n:6} {name:>9}: forward {forward:8.2}  inverse {inverse:8.2}  multiply-accumulate {product:7.2}"
        );
    }
    println!("N = {n:6} forward, buffer 16 bytes off a line: ours {:.2}, tfhe-ntt {:.2}", off_line[0], off_line[1]);
    Ok(())
}

fn ring_product() -> Result<(), Box<dyn Error>> {
    let (ring, n) = (Ring::new(48)?, 2048);
    let poly = PolyRing::new(ring, n, 1)?;
    let mut prg = Prg::from_seed([1; 16]);
    let a = prg.ring_vec(ring, n);
    let mut s = vec![0; n];
    sample::ternary(&mut prg, &mut s);
    let (full, small) = (poly.prepare_full(&a)?, poly.prepare_small(&s)?);
    let mut out = vec![0; n];
    let mut best = [f64::MAX; 3];
    for _ in 0..ROUNDS {
        time(&mut best[0], || drop(std::hint::black_box(poly.prepare_full(&a))));
        time(&mut best[1], || drop(std::hint::black_box(poly.prepare_small(&s))));
        time(&mut best[2], || drop(std::hint::black_box(poly.mul_add(&mut out, &full, &small))));
    }
    println!("mod 2^48, N = 2048: prepare full {:.2}, prepare small {:.2}, product {:.2}", best[0], best[1], best[2]);
    Ok(())
}

fn samplers() -> Result<(), Box<dyn Error>> {
    let mut prg = Prg::from_seed([2; 16]);
    let mut out = vec![0; 2048];
    for path in Path::available() {
        let mut best = f64::MAX;
        (0..ROUNDS).for_each(|_| time(&mut best, || sample::gaussian::gaussian_with(path, &mut prg, &mut out)));
        println!("gaussian, {:>8}: {:.1} ns per sample", path.name(), best * 1e3 / 2048.0);
    }
    let mut best = [f64::MAX; 3];
    let modulus = Modulus::new(ntt_primes(50, 2048, 1)?[0])?;
    let mut words = vec![0; 2048];
    for _ in 0..ROUNDS {
        time(&mut best[0], || sample::ternary(&mut prg, &mut out));
        time(&mut best[1], || drop(sample::centred_binomial(&mut prg, 21, &mut out)));
        time(&mut best[2], || sample::uniform_mod(&mut prg, modulus, &mut words));
    }
    let [ternary, binomial, uniform] = best.map(|us| us * 1e3 / 2048.0);
    println!("ns per sample: ternary {ternary:.1}, binomial {binomial:.1}, uniform mod p {uniform:.1}");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    for log in [11, 12, 13, 15, 16] {
        transforms(log)?;
    }
    ring_product()?;
    samplers()
}
