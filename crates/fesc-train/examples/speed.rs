//! Tokens a second of forward and backward for a shape, and the time of each operation alone.
//!
//! `cargo run --release -p fesc-train --example speed [workers] [layers d_model heads head_dim state batch
//! length]`

use std::sync::Arc;
use std::time::Instant;

use fesc_ring::Prg;
use fesc_train::recipe::Recipe;
use fesc_train::{Control, Event, Inputs, Result, run};

fn main() -> Result<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let at = |i: usize, default: usize| numbers.get(i).copied().unwrap_or(default);
    let workers = at(0, 2);
    let (layers, d_model, heads, head_dim, state) = (at(1, 2), at(2, 128), at(3, 4), at(4, 64), at(5, 32));
    let (batch, length) = (at(6, 8), at(7, 512));
    let vocab = 8192;
    let text = format!(
        r#"{{"name": "speed", "seed": 1, "classes": 13, "tokenizer": {{"vocab": {vocab}}},
        "shape": {{"d_model": {d_model}, "layers": {layers}, "heads": {heads}, "head_dim": {head_dim}, "state": {state}}},
        "evaluation": {{"lengths": [{length}], "documents": 1}},
        "stages": [{{"length": {length}, "epochs": 1, "batch": {batch}, "lr": 1e-3}}]}}"#
    );
    let path = std::env::temp_dir().join(format!("fesc-speed-{}", std::process::id()));
    let recipe: Recipe = match serde_json::from_str(&text) {
        Ok(recipe) => recipe,
        Err(e) => return Err(fesc_train::TrainError::RecipeFile { path, reason: e.to_string() }),
    };
    let mut prg = Prg::from_seed([1; 16]);
    let steps = 20;
    let mut document = || ((0..length).map(|_| (prg.next_u64() % vocab as u64) as u32).collect::<Vec<u32>>(), 0);
    let documents: Vec<_> = (0..steps * batch).map(|_| document()).collect();
    let config = recipe.config(vocab)?;
    let weights = fesc_train::initial_weights(&recipe, &config, &documents, workers)?;
    parts(&config, &weights, &documents[..batch.div_ceil(workers)])?;
    let inputs = Inputs {
        config,
        weights,
        training: &documents,
        validation: &documents[..1],
        teacher: None,
        workers,
        save_every: std::time::Duration::from_secs(3600),
        log_every: 5,
    };
    let mut spent = process_cpu();
    let outcome = run(&recipe, &inputs, &path, false, &mut |event| {
        if let Event::Step { tokens_per_second, step, .. } = event {
            // On a busy machine the processor's time says more than the clock.
            let (now, tokens) = (process_cpu(), (5 * batch * length) as f64);
            let of_cpu = tokens / (now - spent).max(1e-9);
            println!("step {step}: {tokens_per_second:.0} tokens/s, {of_cpu:.0} per second of one processor");
            spent = now;
        }
        Control::Continue
    });
    std::fs::remove_dir_all(&path).ok();
    outcome.map(|_| ())
}

/// Processor seconds of all threads, ended ones too, in hundredths; 0 where the kernel does not tell.
fn process_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|v| v.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Seconds that this thread has run, or the wall clock where the kernel does not tell.
fn cpu() -> f64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let start = *START.get_or_init(Instant::now);
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.and_then(|s| s.split_whitespace().next()?.parse::<f64>().ok());
    nanos.map_or_else(|| start.elapsed().as_secs_f64(), |n| n * 1e-9)
}

/// Forward and backward time of one worker's share, and of every operation in it.
fn parts(config: &fesc_model::Config, weights: &fesc_model::Weights, documents: &[fesc_train::Document]) -> Result<()> {
    use fesc_train::forms::{Forms, Rsqrt};
    use fesc_train::ops::{Layout, embed::embed, linear::linear, mixer, norm};
    let layout = Arc::new(Layout::new(documents.iter().map(|(ids, _)| ids.len())));
    let ids: Arc<[u32]> = documents.iter().flat_map(|(ids, _)| ids.iter().copied()).collect();
    let leaf = |values: &Vec<f32>, shape: &[usize]| {
        candle_core::Var::from_vec(values.clone(), shape, &candle_core::Device::Cpu)
    };
    let (rows, d, inner, proj) = (layout.rows(), config.d_model, config.inner(), config.proj_dim());
    let layer = &weights.layers[0];
    let random = |cols: usize| candle_core::Var::randn(0f32, 1f32, (rows, cols), &candle_core::Device::Cpu);
    let time = |name: &str, f: &dyn Fn() -> candle_core::Result<candle_core::Tensor>| -> Result<()> {
        let start = cpu();
        let y = f()?;
        let middle = cpu();
        // The sum's own backward pass is in it: a few copies of the output.
        y.sum_all()?.backward()?;
        let end = cpu();
        let per_token = |t: f64| t * 1e6 / rows as f64;
        let (forward, backward) = (per_token(middle - start), per_token(end - middle));
        println!("{name:>10}: forward {forward:6.2} us/token, backward {backward:6.2}");
        Ok(())
    };
    let norm_of = || norm::Norm { groups: 1, eps: 1e-5, rsqrt: Rsqrt::Exact, seen: None };
    let table = leaf(&weights.embedding, &[config.vocab, d])?;
    let (x, y, p) = (random(d)?, random(inner)?, random(proj)?);
    let (w_in, w_out) = (leaf(&layer.in_proj, &[proj, d])?, leaf(&layer.out_proj, &[d, inner])?);
    let (n_in, n_out) = (leaf(&layer.norm, &[d])?, leaf(&layer.gated_norm, &[inner])?);
    let packed = [&layer.conv, &layer.conv_bias, &layer.dt_bias, &layer.a_log, &layer.d].map(Clone::clone).concat();
    let packed = leaf(&packed, &[packed.len()])?;
    let forms = Arc::new(Forms::exact());
    let op = mixer::Mixer::new(config.shape(), layout, forms);
    for _ in 0..2 {
        time("embed", &|| embed(&table, ids.clone()))?;
        time("norm", &|| norm::rms_norm(&x, &n_in, norm_of()))?;
        time("in_proj", &|| linear(&x, &w_in))?;
        time("mixer", &|| mixer::mixer(&p, &packed, op.clone()))?;
        time("gated norm", &|| norm::rms_norm(&y, &n_out, norm_of()))?;
        time("out_proj", &|| linear(&y, &w_out))?;
    }
    Ok(())
}
