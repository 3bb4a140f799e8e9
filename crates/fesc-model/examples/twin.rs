//! The twin of a random model against float: `twin [NAME] [TOKENS] [fast|paper]`. Prints the report, times and memory.
//! Besides the named shapes there is `classifier`: two layers, d_model 128, 4 heads of 64, state 32, 8,192 tokens.
use std::fs;
use std::time::Instant;

use fesc_model::twin::{Calibration, Preset, Rounding, Twin};
use fesc_model::{Config, Model, Shape, Weights};
use fesc_ring::Prg;

fn peak_memory() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:").map(|size| size.trim().to_string()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("tiny", String::as_str);
    let tokens: u32 = args.get(1).map_or(Ok(2048), |s| s.parse())?;
    let preset = Preset::named(args.get(2).map_or("fast", String::as_str)).ok_or("the presets are fast and paper")?;
    let named = |name| Config::named(name).ok_or_else(|| format!("the names are classifier and {:?}", Config::NAMES));
    let config = match name {
        "classifier" => {
            let tiny = *named("tiny")?.shape();
            Config::new(Shape { vocab: 8192, d_model: 128, heads: 4, head_dim: 64, state: 32, ..tiny })?
        }
        other => named(other)?,
    };
    let weights = Weights::random(&config, Some(13), &mut Prg::from_seed([1; 16]));
    let model = Model::new(config, weights)?;
    let vocab = model.config().vocab as u32;
    let document = |salt: u32| -> Vec<u32> {
        (0..tokens).map(|i| (i + salt).wrapping_mul(2_654_435_761).rotate_left(7) % vocab).collect()
    };
    let start = Instant::now();
    let calibration = Calibration::collect(&model, [document(0)])?;
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
    Ok(())
}
