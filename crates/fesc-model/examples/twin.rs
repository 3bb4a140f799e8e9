//! The twin of a random model, or of a checkpoint on random tokens, against float:
//! `twin [NAME or DIRECTORY] [TOKENS] [fast|fine|paper]`. Prints the report, times and memory. Besides the
//! named shapes there is `classifier`: two layers, d_model 128, 4 heads of 64, state 32, 8,192 tokens.
use std::fs;
use std::path::Path;
use std::time::Instant;

use fesc_model::twin::{Activations, Calibration, Plan, Rounding, Twin};
use fesc_model::{Checkpoint, Config, Model, Shape, Weights};
use fesc_ring::Prg;

/// Documents whose classes are compared.
const DOCUMENTS: u8 = 10;

fn peak_memory() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:").map(|size| size.trim().to_string()))
}

/// A checkpoint directory, or a random model of a named shape.
fn load(name: &str) -> Result<Model, Box<dyn std::error::Error>> {
    if Path::new(name).is_dir() {
        return Ok(Checkpoint::open(Path::new(name))?.load()?);
    }
    let named = |name| Config::named(name).ok_or_else(|| format!("the names are classifier and {:?}", Config::NAMES));
    let config = match name {
        "classifier" => {
            let tiny = *named("tiny")?.shape();
            Config::new(Shape { vocab: 8192, d_model: 128, heads: 4, head_dim: 64, state: 32, ..tiny })?
        }
        other => named(other)?,
    };
    let weights = Weights::random(&config, Some(13), &mut Prg::from_seed([1; 16]));
    Ok(Model::new(config, weights)?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("tiny", String::as_str);
    let tokens: u32 = args.get(1).map_or(Ok(2048), |s| s.parse())?;
    let preset = match args.get(2).map_or("fast", String::as_str) {
        "fine" => Plan::FAST.with_activations(Activations::Ten),
        name => Plan::parse(name)?,
    };
    let model = load(name)?;
    let vocab = model.config().vocab as u32;
    // Frequent and rare words: the density of an id falls with its square root.
    let document = |salt: u8| -> Vec<u32> {
        let mut prg = Prg::from_seed([salt; 16]);
        let word = |u: f64| ((u * u * f64::from(vocab)) as u32).min(vocab - 1);
        (0..tokens).map(|_| word((prg.next_u64() >> 11) as f64 / (1u64 << 53) as f64)).collect()
    };
    let start = Instant::now();
    let calibration = Calibration::collect(&model, [document(0), document(1)])?;
    println!("calibration {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let twin = Twin::new(&model, &calibration, preset)?;
    println!("quantization {:.2} s", start.elapsed().as_secs_f64());
    println!("{:?}", twin.scales().next());
    let ids = document(77);
    for _ in 0..2 {
        let start = Instant::now();
        let outcome = twin.classify(&ids, &mut Rounding::nearest())?;
        println!("classify {:.2} s, class {}", start.elapsed().as_secs_f64(), outcome.class);
    }
    println!("peak memory {}", peak_memory().unwrap_or_else(|| "unknown".into()));
    let report = twin.report(&model, &ids)?;
    for line in &report.layers {
        let g = line.gap;
        println!(
            "{:>3} {:<9} max {:.2e} rms {:.2e} of {:.2e}: {:.1} bits",
            line.layer, line.tensor, g.max_abs, g.rms, g.scale, g.bits
        );
    }
    println!("logits {:?}, classes {} {}", report.logits, report.float_class, report.twin_class);
    for m in &report.closest {
        println!("layer {} {}: {:.4} of {:.4} ({:.3})", m.layer, m.quantity.name(), m.value, m.limit, m.used);
    }
    let mut same = 0;
    let mut off: f64 = 0.0;
    for salt in 100..100 + DOCUMENTS {
        let ids = document(salt);
        let (float, twin) = (model.classify(&ids)?, twin.classify(&ids, &mut Rounding::nearest())?);
        let class = float.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(i, _)| i);
        same += u32::from(class == Some(twin.class));
        off = float.iter().zip(&twin.logits).map(|(a, b)| (f64::from(*a) - b).abs()).fold(off, f64::max);
    }
    println!("{same} of {DOCUMENTS} classes agree with float, logits within {off:.4}");
    Ok(())
}
