//! Time and memory of a float forward pass of a random model: `forward [NAME] [TOKENS] [BLOCK]`; block 0 is
//! sequential.
//!
//! Prints wall and CPU seconds of each of three runs, the wall time up to each tensor of a block summed over
//! the blocks, and the largest resident size (Linux).
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use fesc_model::{Config, Model, Scan, Tensor, Weights};
use fesc_ring::Prg;

/// CPU seconds of this process, all threads (clock ticks of 10 ms).
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

fn peak_memory() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:").map(|size| size.trim().to_string()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("base", String::as_str);
    let tokens: u32 = args.get(1).map_or(Ok(2048), |s| s.parse())?;
    let config = Config::named(name).ok_or_else(|| format!("the names are {:?}", Config::NAMES))?;
    let weights = Weights::random(&config, Some(13), &mut Prg::from_seed([1; 16]));
    let model = Model::new(config, weights)?;
    let scan = match args.get(2).map(|s| s.parse()).transpose()? {
        None => model.default_scan(),
        Some(0) => Scan::Sequential,
        Some(block) => Scan::Blocks(block),
    };
    let vocab = model.config().vocab as u32;
    let ids: Vec<u32> = (0..tokens).map(|i| i.wrapping_mul(2_654_435_761) % vocab).collect();
    println!("{name}, {tokens} tokens, {scan:?}, {} threads", rayon::current_num_threads());
    let mut stages: BTreeMap<Tensor, Duration> = BTreeMap::new();
    for _ in 0..3 {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        let mut last = start;
        let states = model.forward_with(&ids, scan, &mut |site, _| {
            *stages.entry(site.tensor).or_default() += last.elapsed() / 3;
            last = Instant::now();
        })?;
        let logits = model.class_logits(&model.pool(&states, ids.len())?)?;
        let wall = start.elapsed().as_secs_f64();
        let cpu = cpu_seconds().zip(cpu).map_or("?".into(), |(end, start)| format!("{:.2}", end - start));
        println!("wall {wall:.2} s, CPU {cpu} s, first logit {:.6}", logits.first().copied().unwrap_or_default());
    }
    for (tensor, time) in stages {
        println!("  {:<12} {:>7.3} s", format!("{tensor:?}"), time.as_secs_f64());
    }
    println!("peak memory {}", peak_memory().unwrap_or_else(|| "unknown".into()));
    Ok(())
}
