//! Bytes and processor time of the scan's matrix products, both parties in this process.
//!
//! `cargo run --release -p fesc-rlwe --example products_speed [chunks]`; the base size has 16 chunks of 128
//! tokens, 24 heads of 64 channels and 128 states. Time is that of the process, over all threads: half of it
//! is one party's.

use std::time::Instant;

use fesc_mpc::correlation::{Bundle, Product, Tensor};
use fesc_mpc::provider::CrossTerms;
use fesc_mpc::{MpcError, Role};
use fesc_net::Channel;
use fesc_ring::{Prg, Ring};
use fesc_rlwe::products::Rlwe;

/// Seconds of processor time of this process so far, in steps of 10 ms; 0 where the system does not tell.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name in parentheses, fields 12 and 13 are user and system time.
    let fields = text.rsplit(')').next().map(|rest| rest.split_whitespace().collect::<Vec<_>>()).unwrap_or_default();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

type End = (Rlwe, Channel);

fn setup(role: Role, mut channel: Channel) -> Result<End, MpcError> {
    let prg = Prg::from_seed([role.index() as u8 + 1; 16]);
    Ok((Rlwe::setup(role, &mut channel, prg)?, channel))
}

fn run(role: Role, (source, channel): &mut End, bundle: &Bundle) -> Result<(), MpcError> {
    let mut prg = Prg::from_seed([role.index() as u8 + 3; 16]);
    let mut masks: Vec<_> = (0..bundle.masks.len()).map(|i| prg.ring_vec(bundle.ring, bundle.mask_len(i))).collect();
    source.run(role, channel, bundle, &mut masks).map(drop)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let chunks = std::env::args().nth(1).map_or(Ok(1), |s| s.parse::<usize>())?;
    let ring = Ring::new(48)?;
    let (full, lower) = (Tensor::new, Tensor::lower);
    // Axes: chunk 0, head 1, token 2 and 3, state 4, channel 5.
    let sizes = vec![chunks, 24, 128, 128, 128, 64];
    let products = [
        ("M X", lower(&[0, 1, 2, 3]), full(&[0, 3, 1, 5]), full(&[0, 2, 1, 5])),
        ("S", full(&[0, 2, 4]), full(&[0, 3, 4]), full(&[0, 2, 3])),
        ("B^T V", full(&[0, 3, 4]), full(&[0, 3, 1, 5]), full(&[0, 4, 1, 5])),
        ("C H", full(&[0, 2, 4]), full(&[0, 4, 1, 5]), full(&[0, 2, 1, 5])),
    ];
    let (c0, c1) = Channel::memory_pair();
    let (mut first, mut second) = std::thread::scope(|scope| {
        let peer = scope.spawn(move || setup(Role::P1, c1));
        Ok::<_, Box<dyn std::error::Error>>((setup(Role::P0, c0)?, peer.join().map_err(|_| "the peer failed")??))
    })?;
    println!("{chunks} chunks; set-up {} bytes each way", first.1.stats().total.sent_bytes);
    for (name, left, right, out) in products {
        let masks = vec![left, right];
        let bundle = Bundle { ring, sizes: sizes.clone(), masks, products: vec![Product::new(0, 1, out).rounded()] };
        let (up, down) = first.0.declared(&bundle).ok_or("a product that is cheaper otherwise")?;
        let (start, before) = (Instant::now(), cpu());
        std::thread::scope(|scope| {
            let peer = scope.spawn(|| run(Role::P1, &mut second, &bundle));
            run(Role::P0, &mut first, &bundle)?;
            peer.join().map_err(|_| "the peer failed")??;
            Ok::<_, Box<dyn std::error::Error>>(())
        })?;
        println!(
            "{name:6} {} results, {:.1} bytes per result in all, {:.2} s of processor time per party, {:.2} s on the clock",
            bundle.product_len(0),
            (up + down) as f64 / bundle.product_len(0) as f64,
            (cpu() - before) / 2.0,
            start.elapsed().as_secs_f64()
        );
    }
    Ok(())
}
