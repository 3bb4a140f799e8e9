//! Online cost of one layer by stage, from the declarations:
//! `cargo run --release -p fesc-infer --example stage_costs [shape]`.
//!
//! The scales come from a random model of one layer, calibrated on random tokens; they change shifts, not
//! bytes.

use std::collections::BTreeMap;

use fesc_infer::{Reveal, Schedule};
use fesc_model::outline::Outline;
use fesc_model::twin::{Calibration, Plan};
use fesc_model::{Config, Model, Shape, Weights};
use fesc_mpc::Request;
use fesc_ring::Prg;

fn outline(name: &str) -> Result<Outline, Box<dyn std::error::Error>> {
    let named = Config::named(name).ok_or(format!("no shape {name}; there are {}", Config::NAMES.join(", ")))?;
    let config = Config::new(Shape { layers: 1, vocab: 256, ..*named.shape() })?;
    let mut prg = Prg::from_seed([1; 16]);
    let model = Model::new(config.clone(), Weights::random(&config, Some(13), &mut prg))?;
    let document: Vec<u32> = (0..64).map(|_| (prg.next_u64() % 256) as u32).collect();
    let calibration = Calibration::collect(&model, [document])?;
    Ok(Outline::new(&config, &calibration, Plan::FAST)?.with_classes(13)?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "base".into());
    let outline = outline(&name)?;
    for tokens in [128, 2048] {
        let schedule = Schedule::new(&outline, tokens, Reveal::Label)?;
        println!("{name}, one layer, {tokens} tokens");
        println!("{:12} {:>12} {:>12} {:>8}  correlations", "stage", "to server", "to client", "rounds");
        let (mut up, mut down, mut rounds) = (0, 0, 0);
        for cost in schedule.costs()? {
            let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
            for request in &cost.demand {
                let kind = match request {
                    Request::Bundle(_) => "bundles",
                    Request::Select(_) => "selections",
                    Request::BitTriples(_) => "ANDs",
                    Request::BitProducts(_) | Request::LongBitProducts(_) => "wraps",
                    Request::DaBits(_) => "daBits",
                    Request::Leaves(_) => "leaves",
                    Request::Transfers(_) => "transfers",
                };
                *kinds.entry(kind).or_default() += 1;
            }
            let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            let online = cost.online;
            println!(
                "{:12} {:>12} {:>12} {:>8}  {}",
                cost.stage,
                online.p0_to_p1_bytes,
                online.p1_to_p0_bytes,
                online.rounds,
                kinds.join(", ")
            );
            up += online.p0_to_p1_bytes;
            down += online.p1_to_p0_bytes;
            rounds += online.rounds;
        }
        println!("{:12} {up:>12} {down:>12} {rounds:>8}\n", "sum");
    }
    Ok(())
}
