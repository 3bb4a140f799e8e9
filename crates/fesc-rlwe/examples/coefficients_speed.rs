//! Speed and bytes of the coefficients engine, and of the whole products that the scan takes from it.
//!
//! `cargo run --release -p fesc-rlwe --example coefficients_speed`; `RAYON_NUM_THREADS=1` for one core.
//! Times are of the fastest run: the least disturbed one.

use std::time::Instant;

use fesc_ring::cpu::Path;
use fesc_ring::wide::{self, Shape, WORD};
use fesc_ring::{Prg, Ring};
use fesc_rlwe::coefficients::{
    DEGREE, Evaluator, GIVEN_BYTES, KEY_BYTES, KeyHolder, Layout, Piece, RANDOM_BYTES, RESPONSE_BYTES,
};

/// Milliseconds of the fastest run in 0.5 seconds, and of at least three.
fn best(mut f: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let (mut least, mut runs) = (f64::INFINITY, 0);
    while runs < 3 || begin.elapsed().as_secs_f64() < 0.5 {
        let start = Instant::now();
        f();
        least = least.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    least * 1e3
}

fn kernels(prg: &mut Prg) -> Result<(), wide::WideError> {
    for (outputs, terms) in [(128, 128), (16, 16)] {
        let words: Vec<[Vec<u64>; 2]> =
            (0..terms).map(|_| std::array::from_fn(|_| (0..DEGREE).map(|_| prg.next_u64() & WORD).collect())).collect();
        let scalars: Vec<i64> = (0..outputs * terms).map(|_| prg.next_u64() as i64 >> 16).collect();
        let mut out = vec![0; outputs * DEGREE];
        for path in Path::available() {
            for wide in [true, false] {
                let shape = Shape { terms, cols: DEGREE, wide, shift: 40 };
                let mut failed = None;
                let ms = best(|| {
                    let read = |j: usize, from: usize, lo: &mut [u64], hi: &mut [u64]| {
                        lo.copy_from_slice(&words[j][0][from..from + lo.len()]);
                        hi.copy_from_slice(&words[j][1][from..from + hi.len()]);
                    };
                    failed = wide::combine_with(path, shape, &scalars, read, &mut out).err();
                });
                failed.map_or(Ok(()), Err)?;
                let rate = (outputs * terms * DEGREE) as f64 / ms / 1e6;
                let bits = if wide { 104 } else { 52 };
                println!("{outputs:4} sums of {terms:4} rows of {bits:3} bits, {:8}: {rate:6.2} GMAC/s", path.name());
            }
        }
    }
    Ok(())
}

fn steps(holder: &KeyHolder, evaluator: &Evaluator, prg: &mut Prg) -> fesc_rlwe::Result<()> {
    let piece = Piece::whole(DEGREE)?;
    let (upload, _) = holder.random(&piece, prg)?;
    let cipher = [evaluator.receive_random(&piece, &upload)?];
    let sums = evaluator.combine(&cipher, &piece, 1, [12_345].as_slice().into(), 1)?;
    let (response, _) = evaluator.respond(&sums[0], prg)?;
    println!("bytes: key {KEY_BYTES}, random {RANDOM_BYTES}, given {GIVEN_BYTES}, answer {RESPONSE_BYTES}");
    println!("encrypt random   {:8.3} ms", best(|| drop(holder.random(&piece, prg))));
    println!("encrypt given    {:8.3} ms", best(|| drop(holder.encrypt(&[1, 2, 3], prg))));
    println!("receive random   {:8.3} ms", best(|| drop(evaluator.receive_random(&piece, &upload))));
    println!("respond          {:8.3} ms", best(|| drop(evaluator.respond(&sums[0], prg))));
    println!("open             {:8.3} ms", best(|| drop(holder.open(&response))));
    Ok(())
}

/// One product in one direction; a triple takes both.
fn product(
    name: &str,
    holder: &KeyHolder,
    evaluator: &Evaluator,
    layout: &Layout,
    prg: &mut Prg,
) -> fesc_rlwe::Result<()> {
    let scalars = prg.ring_vec(Ring::new(48)?, layout.outputs() * layout.vectors());
    let (upload, _) = holder.upload(layout, prg)?;
    let (answer, _) = evaluator.answer(layout, &upload, scalars.as_slice().into(), prg)?;
    let times = [
        best(|| drop(holder.upload(layout, prg))),
        best(|| drop(evaluator.answer(layout, &upload, scalars.as_slice().into(), prg))),
        best(|| drop(holder.finish(layout, &answer))),
    ];
    let both = 2.0 * (upload.len() + answer.len()) as f64 / (layout.outputs() * layout.width()) as f64;
    println!(
        "{name} ({} x {} by {} x {}): upload {} B, answer {} B, {both:.1} B per result both ways; \
         encrypt {:.2}, answer {:.2}, open {:.2} ms; {} key switches; noise {:.3}",
        layout.outputs(),
        layout.vectors(),
        layout.vectors(),
        layout.width(),
        upload.len(),
        answer.len(),
        times[0],
        times[1],
        times[2],
        layout.switches(),
        layout.noise()
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut prg = Prg::from_os()?;
    println!("{} threads", rayon::current_num_threads());
    kernels(&mut prg)?;
    let (holder, key) = KeyHolder::new(&mut prg)?;
    let evaluator = Evaluator::new(&key)?;
    steps(&holder, &evaluator, &mut prg)?;
    product("B^T V and C H, per chunk", &holder, &evaluator, &Layout::new(128, 1536, 128), &mut prg)?;
    product("recurrence, per head", &holder, &evaluator, &Layout::new(16, 8192, 16), &mut prg)?;
    product("M X, per chunk and head", &holder, &evaluator, &Layout::new(128, 64, 128), &mut prg)?;
    product("S, per chunk", &holder, &evaluator, &Layout::new(128, 128, 128), &mut prg)?;
    // One term: all but the packing is little.
    product("packing of 64 results", &holder, &evaluator, &Layout::new(1, 64, 64), &mut prg)?;
    Ok(())
}
