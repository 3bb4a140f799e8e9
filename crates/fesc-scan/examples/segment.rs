//! One segment of the scan at the paper's base shape (24 heads of 64 channels, 128 states): declared cost by
//! step, and time of both parties on this machine with correlations dealt beforehand.
//! `cargo run --release -p fesc-scan --example segment [tokens]`.

use std::error::Error;
use std::time::Instant;

use fesc_model::outline::scale::RING;
use fesc_model::twin::{Calibration, Plan, Twin};
use fesc_model::{Config, Model, Shape, Weights};
use fesc_mpc::provider::{Budget, Dealer, Queue, serve_dealer};
use fesc_mpc::{Ledger, Party, Role, Shared};
use fesc_net::Channel;
use fesc_ring::Prg;
use fesc_scan::{Dual, Packet, Scan, ScanError};

type Fail = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Fail> {
    let tokens = std::env::args().nth(1).map_or(Ok(2048), |t| t.parse())?;
    let tiny = *Config::named("tiny").ok_or("no shape of that name")?.shape();
    let shape = Shape { vocab: 50, layers: 1, heads: 24, head_dim: 64, state: 128, groups: 1, ..tiny };
    let config = Config::new(shape)?;
    let weights = Weights::random(&config, Some(2), &mut Prg::from_seed([1; 16]));
    let model = Model::new(config, weights)?;
    let calibration = Calibration::collect(&model, [[1u32, 2, 3, 4]])?;
    let forms = Twin::new(&model, &calibration, Plan::FAST)?.outline()?.layer(0)?;

    let kernel = Dual::new(&shape, &forms, tokens, false, false)?;
    for (name, cost) in kernel.steps()? {
        println!("{name:32} {:>12} bytes {:>3} rounds", cost.total_bytes(), cost.rounds);
    }
    let mut ledger = Ledger::new();
    kernel.declare(&mut ledger)?;
    println!("{:32} {:>12} bytes {:>3} rounds", "all", ledger.cost().total_bytes(), ledger.cost().rounds);

    // A document of zeros, shared: the work does not depend on the values.
    let packet = |role: Role| {
        let part = |width: usize| {
            let (a, b) = Shared::split(RING, &vec![0; tokens * width], &mut Prg::from_seed([2; 16]));
            if role == Role::P0 { a } else { b }
        };
        let (x, bc, heads) = (shape.inner(), shape.group_width(), shape.heads);
        Packet { x: part(x), b: part(bc), c: part(bc), delta: part(heads), z: part(heads) }
    };
    let run = |role: Role, mut channel: Channel, dealer: Channel| -> Result<(f64, f64), Fail> {
        let start = Instant::now();
        let queue = Queue::prepare(&mut Dealer::new(role, dealer), &mut channel, ledger.demand())?;
        let mut party = Party::new(role, channel, Box::new(queue));
        let (packet, skip) = (packet(role), vec![0i64; shape.heads]);
        let dealt = start.elapsed().as_secs_f64();
        let start = Instant::now();
        kernel
            .run(&mut party, None, &packet, (role == Role::P1).then_some(&skip), None)
            .map_err(|e: ScanError| e.to_string())?;
        Ok((dealt, start.elapsed().as_secs_f64()))
    };
    let (p0, p1) = Channel::memory_pair();
    let (d0, e0) = Channel::memory_pair();
    let (d1, e1) = Channel::memory_pair();
    let (first, second) = std::thread::scope(|scope| {
        scope.spawn(move || serve_dealer(e0, e1, &mut Prg::from_seed([3; 16]), &Budget::unlimited()));
        let peer = scope.spawn(|| run(Role::P1, p1, d1));
        (run(Role::P0, p0, d0), peer.join())
    });
    let second = second.map_err(|_| "the server's thread ended early")?;
    for (role, (dealt, online)) in [("client", first?), ("server", second?)] {
        println!("{role}: dealt in {dealt:.2} s, online {online:.2} s");
    }
    Ok(())
}
