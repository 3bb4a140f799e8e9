//! Times of what a client does, and of a server's encryptions, on one thread: minimum and median over repetitions, and processor time per
//! call (Linux; the release of the result included), which does not count the time that other programs take.
//!
//! `cargo run --release -p fesc-ckks --example client_speed [set]`; the set is `chain-3` unless named. The last line is a transform of one
//! limb in the same run, to judge the machine by.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Instant;

use fesc_ckks::client::{Decryptor, KeyGenerator, SecretEncryptor, SecretKey};
use fesc_ckks::server::KeyPurpose;
use fesc_ckks::{Encoder, RingMask, sets, wire};
use fesc_ring::Prg;
use num_complex::Complex64;

/// Milliseconds that this thread has run.
fn processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse::<f64>().ok().map(|ns| ns / 1e6)
}

fn time<T>(name: &str, repetitions: usize, mut work: impl FnMut() -> T) {
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
    let used = processor().zip(before).map_or(f64::NAN, |(after, before)| (after - before) / repetitions as f64);
    times.sort_by(f64::total_cmp);
    println!("{name:32} {:9.3} {:9.3} {used:9.3}", times[0], times[times.len() / 2]);
}

fn run() {
    let wanted = std::env::args().nth(1).unwrap_or_else(|| "chain-3".into());
    let set = sets::ALL.iter().find(|s| s.name == wanted).unwrap();
    let params = set.params().unwrap();
    println!("{}: {}", set.name, set.doc(&params));
    println!("{:32} {:>9} {:>9} {:>9}", "milliseconds", "minimum", "median", "processor");
    let mut prg = Prg::from_os().unwrap();
    let (encoder, level, scale) = (Encoder::new(&params), params.levels(), params.scale());
    let mut next = || (prg.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0;
    let values: Vec<Complex64> = (0..params.slots()).map(|_| Complex64::new(next(), next())).collect();
    let mut integers = vec![0; params.degree()];
    let r = 60;
    time("encode to integers", r, || encoder.encode_slots_to_integers(&values, scale, &mut integers).unwrap());
    time("encode, top level", r, || encoder.encode(&values, level, scale).unwrap());
    let plain = encoder.encode(&values, level, scale).unwrap();
    let low = encoder.encode(&values, 1, scale).unwrap();
    time("decode, two primes", r, || encoder.decode(&low).unwrap());
    time("decode, top level", r, || encoder.decode(&plain).unwrap());
    time("coefficients, two primes", r, || low.coefficients().unwrap());
    let secret = SecretKey::generate(&params, &mut prg);
    let generator = KeyGenerator::new(&secret);
    let public = generator.public_key(&mut prg);
    let encryptor = SecretEncryptor::new(&secret);
    time("encrypt, secret key", r, || encryptor.encrypt(&plain, &mut prg).unwrap());
    time("expand an upload", r, || encryptor.encrypt(&plain, &mut prg).unwrap().expand());
    time("encrypt, public key", r, || public.encrypt(&plain, &mut prg).unwrap());
    let c = public.encrypt(&plain, &mut prg).unwrap();
    let decryptor = Decryptor::new(&secret);
    time("decrypt, top level", r, || decryptor.decrypt(&c).unwrap());
    time("fresh zero, three primes", r, || public.zero(2.min(level), &mut prg).unwrap());
    let at = 2.min(level);
    time("bounded mask, three primes", r, || RingMask::bounded(&params, at, 10, 1 << 20, &mut prg).ok());
    time("switching key", 8, || generator.key(KeyPurpose::Galois(5), &mut prg).unwrap());
    time("switching key, expanded", 8, || generator.key(KeyPurpose::Galois(5), &mut prg).unwrap().expand());
    let upload = encryptor.encrypt(&plain, &mut prg).unwrap();
    let mut bytes = Vec::with_capacity(wire::upload_bytes(&params, level));
    time("write an upload", r, || {
        bytes.clear();
        upload.write(&mut bytes).unwrap();
    });
    time("read an upload", r, || fesc_ckks::Upload::read(&params, &bytes).unwrap());
    let mut limb = fesc_ring::aligned::Aligned::zeroed(params.degree());
    time("one transform", 500, || params.ntt(0).forward(&mut limb));
}

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(run);
}
