use fesc_mpc::{activation::*, provider::*, *};
use fesc_net::Channel;
use fesc_ot::CotKind;
use fesc_ring::*;
use std::time::Instant;
fn main() {
    let n: usize = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1 << 20);
    let table = fesc_approx::silu::preset().unwrap();
    let act = Piecewise::new(table);
    let mut ledger = Ledger::new();
    act.declare(n, &mut ledger).unwrap();
    let demand = ledger.demand().to_vec();
    let (c0, c1) = Channel::memory_pair();
    let secret: Vec<u64> =
        (0..n as u64).map(|i| table.ring().from_signed((i as i64 * 7919) % (16 << 16) - (8 << 16))).collect();
    let (a, b) = Shared::split(table.ring(), &secret, &mut Prg::from_os().unwrap());
    let barrier = std::sync::Barrier::new(2);
    let run = |role: Role, mut ch: Channel, x: Shared| {
        let t = Instant::now();
        let mut tp = TwoParty::setup(role, &mut ch, CotKind::Silent, Prg::from_os().unwrap()).unwrap();
        let setup = t.elapsed();
        let s0 = ch.stats().total;
        let t = Instant::now();
        let mut per = Vec::new();
        let q = if std::env::var("PER").is_ok() {
            for r in &demand {
                let t = Instant::now();
                tp.take(&mut ch, r).unwrap();
                per.push((r.to_string(), t.elapsed()));
            }
            return;
        } else {
            Queue::prepare(&mut tp, &mut ch, &demand).unwrap()
        };
        let _ = &per;
        let off = t.elapsed();
        let s1 = ch.stats().total;
        let mut p = Party::new(role, ch, Box::new(q));
        barrier.wait();
        let t = Instant::now();
        let y = act.run(&mut p, &x).unwrap();
        let on = t.elapsed();
        let s2 = p.channel().stats().total;
        let d = s1.since(s0);
        let e = s2.since(s1);
        if role == Role::P0 {
            println!(
                "setup {setup:?} {} B; offline {off:?} {:.3} us/el {:.1} B/el; online {on:?} {:.3} us/el {:.2} B/el rounds {}",
                s0.sent_bytes + s0.received_bytes,
                off.as_secs_f64() * 1e6 / n as f64,
                (d.sent_bytes + d.received_bytes) as f64 / n as f64,
                on.as_secs_f64() * 1e6 / n as f64,
                (e.sent_bytes + e.received_bytes) as f64 / n as f64,
                e.rounds
            );
        }
        drop(y);
    };
    std::thread::scope(|s| {
        s.spawn(|| run(Role::P1, c1, b));
        run(Role::P0, c0, a);
    });
}
