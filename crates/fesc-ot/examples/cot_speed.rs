//! Speed, bytes and memory of correlated and random OT: two threads over a memory channel, CPU time per
//! thread.
//!
//! `cargo run --release -p fesc-ot --example cot_speed [millions]`

use std::time::Instant;

use fesc_net::Channel;
use fesc_ot::{CotKind, OtReceiver, OtSender};
use fesc_ring::Prg;

/// CPU seconds of this thread so far: the first field of schedstat, in nanoseconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|s| s.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1e-9
}

/// Peak resident memory of the process in MB.
fn peak_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|s| s.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

const STEP: usize = 1 << 16;

/// Figures of one party: set-up, then `steps` calls of COT, random OT and 1-of-8 OT. CPU seconds and bytes
/// sent.
type Figures = [(f64, u64); 4];

type Error = Box<dyn std::error::Error + Send + Sync>;

fn measure(ch: &mut Channel, what: &mut dyn FnMut(&mut Channel) -> Result<(), Error>) -> Result<(f64, u64), Error> {
    let (start, sent) = (cpu(), ch.stats().total.sent_bytes);
    what(ch)?;
    Ok((cpu() - start, ch.stats().total.sent_bytes - sent))
}

fn sender(ch: &mut Channel, kind: CotKind, steps: usize) -> Result<Figures, Error> {
    let mut prg = Prg::from_os()?;
    let mut s = None;
    let setup = measure(ch, &mut |ch| {
        s = Some(OtSender::setup(ch, kind, &mut prg)?);
        Ok(())
    })?;
    let mut s = s.ok_or("no set-up")?;
    let cot = measure(ch, &mut |ch| (0..steps).try_for_each(|_| s.correlated(ch, STEP).map(drop).map_err(Into::into)))?;
    let ot = measure(ch, &mut |ch| (0..steps).try_for_each(|_| s.random(ch, STEP).map(drop).map_err(Into::into)))?;
    let of8 =
        measure(ch, &mut |ch| (0..steps).try_for_each(|_| s.random_1of8(ch, STEP / 4).map(drop).map_err(Into::into)))?;
    Ok([setup, cot, ot, of8])
}

fn receiver(ch: &mut Channel, kind: CotKind, steps: usize) -> Result<Figures, Error> {
    let mut prg = Prg::from_os()?;
    let mut r = None;
    let setup = measure(ch, &mut |ch| {
        r = Some(OtReceiver::setup(ch, kind, &mut prg)?);
        Ok(())
    })?;
    let mut r = r.ok_or("no set-up")?;
    let cot = measure(ch, &mut |ch| (0..steps).try_for_each(|_| r.correlated(ch, STEP).map(drop).map_err(Into::into)))?;
    let ot = measure(ch, &mut |ch| (0..steps).try_for_each(|_| r.random(ch, STEP).map(drop).map_err(Into::into)))?;
    let of8 =
        measure(ch, &mut |ch| (0..steps).try_for_each(|_| r.random_1of8(ch, STEP / 4).map(drop).map_err(Into::into)))?;
    Ok([setup, cot, ot, of8])
}

fn main() -> Result<(), Error> {
    let millions: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(32);
    let steps = (millions << 20) / STEP;
    println!("SIMD path {}, {} transfers per row (a quarter for 1-of-8)", fesc_ring::cpu::path().name(), steps * STEP);
    println!("kind    what    sender M/cpu-s  receiver M/cpu-s  B/OT s->r  B/OT r->s  wall s");
    for kind in [CotKind::Silent, CotKind::Iknp] {
        let (mut a, mut b) = Channel::memory_pair();
        let wall = Instant::now();
        let (s, r) = std::thread::scope(|scope| {
            let peer = scope.spawn(move || receiver(&mut b, kind, steps));
            let s = sender(&mut a, kind, steps);
            (s, peer.join().unwrap_or_else(|_| Err("the receiver's thread died".into())))
        });
        let (s, r) = (s?, r?);
        let wall = wall.elapsed().as_secs_f64();
        let (kb, ms) = ((s[0].1 + r[0].1) as f64 / 1e3, [s[0].0, r[0].0].map(|x| x * 1e3));
        println!("{kind:?} set-up: {kb:.1} kB, {:.1} ms sender, {:.1} ms receiver", ms[0], ms[1]);
        for (i, what, count) in [(1, "cot", steps * STEP), (2, "random", steps * STEP), (3, "1-of-8", steps * STEP / 4)]
        {
            let n = count as f64;
            println!(
                "{kind:?}\t{what}\t{:8.1}\t{:8.1}\t{:10.3}\t{:10.3}\t{wall:.2}",
                n / s[i].0 / 1e6,
                n / r[i].0 / 1e6,
                s[i].1 as f64 / n,
                r[i].1 as f64 / n
            );
        }
        // Memory only grows, so the silent source goes first: IKNP's receiver may run far ahead over a memory
        // channel.
        println!("{kind:?} peak memory of both parties and the queue between them: {:.0} MB", peak_mb());
    }
    Ok(())
}
