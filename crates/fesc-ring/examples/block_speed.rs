//! Speed of the block kernels on one core, best of several runs, for every SIMD path of this machine.
//!
//! `cargo run --release -p fesc-ring --example block_speed`

use std::hint::black_box;
use std::time::Instant;

use fesc_ring::Prg;
use fesc_ring::aligned::{Aligned, HUGE_FROM};
use fesc_ring::block::{Aes, LocalCode, transpose_128};
use fesc_ring::cpu::Path;

fn report(name: &str, blocks: usize, mut run: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..9 {
        let start = Instant::now();
        (0..100).for_each(|_| run());
        best = best.min(start.elapsed().as_secs_f64() / 100.0);
    }
    println!(
        "  {name:24} {:7.2} ns per block, {:6.2} GB/s",
        best * 1e9 / blocks as f64,
        16.0 * blocks as f64 / best / 1e9
    );
}

fn main() {
    let n = 4096;
    let (mut x, mut y, mut bytes) = (vec![0u128; n], vec![0u128; n], vec![0u8; 16 * n]);
    for path in Path::available() {
        println!("{}", path.name());
        let aes = Aes::with_path(5, path);
        report("counter stream", n, || aes.ctr(7, &mut bytes));
        report("tweaked hash", n, || aes.hash(&mut x, 7));
        report("tree level (parents)", n, || {
            black_box(aes.expand_level(&mut x, &mut y));
        });
        for k in [30_200u32, 73_800, 240_000, 590_000] {
            let code = LocalCode::with_path(9, k, path);
            // On a huge page, as silent OT has it.
            let table = Aligned::<u128>::zeroed((k as usize).max(HUGE_FROM / 16));
            // New rows on every call: the same rows again would find their places in the L1 cache.
            let mut row = 0;
            report(&format!("local code, k = {k}"), n, || {
                code.xor_rows(row, &table, &mut x);
                row += n as u64;
            });
        }
    }
    println!("the path of this process");
    let mut prg = Prg::from_seed([1; 16]);
    report("Prg::fill_u128", n, || prg.fill_u128(&mut x));
    report("Prg::fill_bytes", n, || prg.fill_bytes(&mut bytes));
    let rows = vec![3u64; 128 * n / 64];
    report("transpose", n, || transpose_128(&rows, n / 64, &mut x));
}
