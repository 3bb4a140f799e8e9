//! Speed of the matrix product on one core, per SIMD path, and of bit packing.
//!
//! `cargo run --release -p fesc-ring --example gemm_speed [m k n]`; by default shapes of Mamba-base, large
//! and small, and then packing. Prints GMAC/s (of the fastest run) and, for packing, GB/s of `u64` words.

use std::time::Instant;

use fesc_ring::cpu::Path;
use fesc_ring::gemm::{Update, gemm_par, gemm_with};
use fesc_ring::{Matrix, Prg, Ring};

/// Seconds of the fastest run in 0.2 seconds, and of at least three: the least disturbed one.
fn best(mut f: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let (mut least, mut runs) = (f64::INFINITY, 0);
    while runs < 3 || begin.elapsed().as_secs_f64() < 0.2 {
        let start = Instant::now();
        f();
        least = least.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    least
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = std::env::args().skip(1).map(|s| s.parse()).collect::<Result<Vec<usize>, _>>()?;
    let shapes = match args[..] {
        [m, k, n] => vec![(m, k, n)],
        _ => vec![(512, 768, 3352), (2048, 1536, 768), (128, 128, 64), (128, 64, 128), (16, 16, 8192), (1, 768, 3352)],
    };
    let mut prg = Prg::from_seed([7; 16]);
    for (m, k, n) in shapes {
        let work = (m * k * n) as f64;
        // Short products are repeated, so that the clock's resolution does not matter.
        let repeat = (1e7 / work).ceil() as usize;
        for bits in [48, 64] {
            let ring = Ring::new(bits)?;
            let (a, b) = (Matrix::random(ring, m, k, &mut prg)?, Matrix::random(ring, k, n, &mut prg)?);
            let bt = b.transpose();
            let mut out = vec![0; m * n];
            for path in Path::available() {
                let mut failed = None;
                let plain = best(|| {
                    for _ in 0..repeat {
                        failed = gemm_with(path, ring, a.view(), b.view(), &mut out, Update::Set).err();
                    }
                });
                let turned = best(|| {
                    for _ in 0..repeat {
                        failed = gemm_with(path, ring, a.view(), bt.view().t(), &mut out, Update::Add).err();
                    }
                });
                failed.map_or(Ok(()), Err)?;
                let rate = |seconds: f64| work * repeat as f64 / seconds / 1e9;
                let (plain, turned) = (rate(plain), rate(turned));
                let name = path.name();
                println!("{m}x{k}x{n} {bits} bits {name:8}: A*B {plain:6.2}, += A*(B^T)^T {turned:6.2} GMAC/s");
            }
            let par = best(|| {
                for _ in 0..repeat {
                    let _ = gemm_par(ring, a.view(), b.view(), &mut out, Update::Set);
                }
            });
            println!("{m}x{k}x{n} {bits} bits parallel: A*B {:6.2} GMAC/s", work * repeat as f64 / par / 1e9);
        }
    }
    if !args.is_empty() {
        return Ok(());
    }
    let count = 1 << 20;
    for bits in [1, 3, 8, 10, 13, 16, 20, 32, 37, 48, 57, 64] {
        let ring = Ring::new(bits)?;
        let mut values = prg.ring_vec(ring, count);
        let mut bytes = Vec::new();
        let pack = best(|| {
            bytes.clear();
            ring.pack_into(&mut bytes, &values);
        });
        let unpack = best(|| {
            let _ = ring.unpack_into(&bytes, &mut values);
        });
        let rate = |seconds: f64| 8.0 * count as f64 / seconds / 1e9;
        println!("{bits:2} bits: pack {:5.2} GB/s, unpack {:5.2} GB/s", rate(pack), rate(unpack));
    }
    Ok(())
}
