//! `fesc estimate`: what a run will cost, before anything runs.
//!
//! Bytes and rounds are sums of declarations: [`Flow::costs`] online, the generators' own declarations offline. Times are a model:
//! a small run of the same shape (one layer, [`SAMPLE`] tokens) is measured on this machine, both parties on it, and each stage's
//! time is scaled by its bytes; then the network's part is added, `rounds rtt / 2 + bytes / bandwidth` a direction. Memory is a
//! model too: what each side holds of the public part, the residual stream, and the largest correlations of a stage.

use std::time::Duration;

use anyhow::{Context, Result};
use fesc_infer::session::source::{half_bytes, two_party};
use fesc_infer::{ClientSetup, Embedding, Flow, Reveal};
use fesc_model::outline::Outline;
use fesc_model::twin::{Calibration, Preset};
use fesc_model::{Config, Model, Shape, Weights};
use fesc_mpc::provider::{TwoParty, dealer_cost};
use fesc_mpc::{Request, Role};
use fesc_net::{Channel, Profile};
use fesc_ring::Prg;

use crate::bench::infer::{StageTime, Task, measure};
use crate::classifier::TwinFiles;
use crate::cli::{self, EstimateArgs, LinkArgs, Provider, RevealArg};
use crate::parties::child::os_random;
use crate::progress::Progress;
use crate::report::{Format, Report, Row};

/// Tokens of the measured run: two chunks, so that every part of the scan is in it.
const SAMPLE: usize = 256;

/// Rows of the table in the measured run; the table's size changes the set-up only.
const SAMPLE_VOCAB: usize = 512;

/// Classes of a random model.
const CLASSES: usize = 13;

/// What both parties hold besides data: program, engine tables, buffers.
const BASE_MEMORY: u64 = 200 << 20;

/// Prints the estimate.
pub fn run(args: &EstimateArgs, format: Format) -> Result<()> {
    let progress = Progress::start("reading declarations");
    let (name, outline) = outline(args)?;
    let reveal = if args.reveal == RevealArg::Logits { Reveal::Logits } else { Reveal::Label };
    let flow = Flow::new(&outline, args.length as usize, reveal)?;
    let prices = match args.provider {
        Provider::TwoParty => Prices::TwoParty(Box::new(price_list()?)),
        Provider::Dealer => Prices::Dealer,
    };
    let declared = Declared::new(&flow, &prices)?;
    progress.say("measuring a small run of this shape");
    let times = if args.no_time { None } else { Some(Times::measure(&outline, args, &declared, &progress)?) };
    drop(progress);
    let public = ClientSetup::bytes(&outline, Embedding::Encrypted)?;
    let online: u64 = declared.stages.iter().map(|s| s.time.online_bytes).sum();
    let rounds: u64 = declared.stages.iter().map(|s| s.time.rounds).sum();
    let offline: u64 = declared.stages.iter().map(|s| s.offline_bytes).sum();
    let mut report = Report::new(format);
    report.add(
        Row::new()
            .with("model", name)
            .with("layers", outline.shape().layers)
            .with("length", args.length)
            .with("provider", cli::name(args.provider))
            .with("net", args.net.to_string())
            .with("online_s", times.as_ref().map(|t| t.online_s))
            .with("offline_s", times.as_ref().map(|t| t.offline_s))
            .with("online_bytes", online)
            .with("offline_bytes", offline)
            .with("setup_bytes", public)
            .with("rounds", rounds)
            .with("memory_bytes_client", memory(&flow, &declared, public * 8 / 6))
            .with("memory_bytes_server", memory(&flow, &declared, weights_bytes(&outline)))
            .detail("sample_tokens", SAMPLE)
            .detail("sample_online_s", times.as_ref().map(|t| t.sample_online_s))
            .detail("sample_offline_s", times.as_ref().map(|t| t.sample_offline_s)),
    )?;
    for stage in &declared.stages {
        let row = Row::new()
            .with("stage", stage.time.stage.as_str())
            .with("online_bytes", stage.time.online_bytes)
            .with("rounds", stage.time.rounds)
            .with("offline_bytes", stage.offline_bytes);
        let rates = times.as_ref().and_then(|t| t.rates.iter().find(|r| r.stage == stage.time.stage));
        report.add(
            row.with("online_ns_per_byte", rates.map(|r| 1e9 * r.online_s))
                .with("offline_ns_per_byte", rates.map(|r| 1e9 * r.offline_s)),
        )?;
    }
    report.finish()
}

/// Shapes and scales of a model, or of a random one of a named shape.
fn outline(args: &EstimateArgs) -> Result<(String, Outline)> {
    let Some(shape) = &args.shape else {
        let directory = args.model.as_deref().filter(|d| d.as_os_str() != "built-in");
        let TwinFiles { name, twin, .. } = TwinFiles::load(directory)?;
        return Ok((name, twin.outline()?.clone()));
    };
    let task = Task::new(shape, args.layers.map(|l| l as usize), SAMPLE, args.provider)?;
    let config = crate::bench::infer::config(&task)?;
    Ok((shape.clone(), random_outline(&config, config.shape().layers)?))
}

/// The outline of a random model. Scales come from one layer: they change shifts, not bytes.
fn random_outline(config: &Config, layers: usize) -> Result<Outline> {
    let one = Config::new(Shape { layers: 1, vocab: SAMPLE_VOCAB, ..*config.shape() })?;
    let mut prg = Prg::from_seed([1; 16]);
    let model = Model::new(one.clone(), Weights::random(&one, Some(CLASSES), &mut prg))?;
    let document: Vec<u32> = (0..64).map(|_| (prg.next_u64() % SAMPLE_VOCAB as u64) as u32).collect();
    let mut calibration = Calibration::collect(&model, [document])?;
    let layer = calibration.layers.first().cloned().context("a calibrated layer")?;
    calibration.layers = vec![layer; layers];
    Ok(Outline::new(config, &calibration, Preset::FAST)?.with_classes(CLASSES)?)
}

/// One layer of a model, as the measured run has it.
fn sample_config(outline: &Outline) -> Result<Config> {
    Ok(Config::new(Shape { layers: 1, vocab: SAMPLE_VOCAB, ..*outline.shape() })?)
}

/// What correlations cost.
enum Prices {
    TwoParty(Box<TwoParty>),
    Dealer,
}

impl Prices {
    /// Bytes to make one correlation, all directions.
    fn of(&self, request: &Request) -> u64 {
        match self {
            Prices::TwoParty(maker) => {
                let (up, down) = maker.declared(request);
                up + down
            }
            Prices::Dealer => {
                [Role::P0, Role::P1].into_iter().map(|role| dealer_cost(request, role)).map(|(u, d)| u + d).sum()
            }
        }
    }
}

/// A generator that is set up and never used: it declares.
fn price_list() -> Result<TwoParty> {
    let (mut near, mut far) = Channel::memory_pair();
    let (mut here, mut there) = (os_random()?, os_random()?);
    let peer = std::thread::spawn(move || two_party(Role::P1, &mut far, &mut there).map(drop));
    let list = two_party(Role::P0, &mut near, &mut here)?;
    peer.join().map_err(|_| anyhow::anyhow!("the peer of a price list died"))??;
    Ok(list)
}

/// A stage's declared cost.
struct Stage {
    time: StageTime,
    offline_bytes: u64,
}

struct Declared {
    stages: Vec<Stage>,
    /// The largest half of all correlations of one stage of one segment.
    largest: u64,
}

impl Declared {
    fn new(flow: &Flow, prices: &Prices) -> Result<Self> {
        let mut declared = Self { stages: Vec::new(), largest: 0 };
        // Layers are alike, so a request is priced once.
        let mut known: Vec<(Request, u64)> = Vec::new();
        for cost in flow.costs()? {
            let at = declared.stages.iter().position(|s| s.time.stage == cost.stage).unwrap_or_else(|| {
                let time = StageTime { stage: cost.stage.into(), ..StageTime::default() };
                declared.stages.push(Stage { time, offline_bytes: 0 });
                declared.stages.len() - 1
            });
            let mut halves = 0;
            for request in &cost.demand {
                let price = known.iter().find(|(r, _)| r == request).map(|(_, p)| *p).unwrap_or_else(|| {
                    let price = prices.of(request);
                    known.push((request.clone(), price));
                    price
                });
                declared.stages[at].offline_bytes += price;
                halves += half_bytes(request, Role::P0).max(half_bytes(request, Role::P1)) as u64;
            }
            declared.largest = declared.largest.max(halves);
            declared.stages[at].time.online_bytes += cost.online.total_bytes();
            declared.stages[at].time.rounds += cost.online.rounds;
        }
        Ok(declared)
    }
}

/// Seconds.
struct Times {
    online_s: f64,
    offline_s: f64,
    sample_online_s: f64,
    sample_offline_s: f64,
    /// Seconds a byte, by stage.
    rates: Vec<StageTime>,
}

impl Times {
    fn measure(outline: &Outline, args: &EstimateArgs, declared: &Declared, progress: &Progress) -> Result<Self> {
        let small = sample_config(outline)?;
        let mut task = Task::new("tiny", Some(1), SAMPLE, args.provider)?;
        task.shape = small.to_json("float32")?;
        let timeout = Duration::from_secs(300);
        let link = LinkArgs { net: Profile::NONE, tls: false, threads: args.threads, timeout };
        let ran = measure(&link, &task, progress)?;
        let small = Flow::new(&random_outline(&small, 1)?, SAMPLE, Reveal::Label)?;
        let prices = match args.provider {
            Provider::TwoParty => Prices::TwoParty(Box::new(price_list()?)),
            Provider::Dealer => Prices::Dealer,
        };
        let small = Declared::new(&small, &prices)?;
        let rate = |seconds: f64, bytes: u64| if bytes == 0 { 0.0 } else { seconds / bytes as f64 };
        let mut rates = Vec::new();
        for stage in ran.stages() {
            let made = small.stages.iter().find(|s| s.time.stage == stage.stage).map_or(0, |s| s.offline_bytes);
            let (online_s, offline_s) = (rate(stage.online_s, stage.online_bytes), rate(stage.offline_s, made));
            rates.push(StageTime { online_s, offline_s, ..stage });
        }
        let (mut online_s, mut offline_s) = (0.0, 0.0);
        for stage in &declared.stages {
            let Some(rate) = rates.iter().find(|r| r.stage == stage.time.stage) else { continue };
            online_s += rate.online_s * stage.time.online_bytes as f64
                + network(args.net, stage.time.online_bytes, stage.time.rounds);
            offline_s += rate.offline_s * stage.offline_bytes as f64 + network(args.net, stage.offline_bytes, 0);
        }
        let sums = ran.stages().iter().fold((0.0, 0.0), |(a, b), s| (a + s.online_s, b + s.offline_s));
        Ok(Self { online_s, offline_s, sample_online_s: sums.0, sample_offline_s: sums.1, rates })
    }
}

/// A network's part: half a round trip a round, and half of the bytes in each direction.
fn network(net: Profile, bytes: u64, rounds: u64) -> f64 {
    let wire = net.bits_per_second.map_or(0.0, |rate| bytes as f64 / 2.0 * 8.0 / rate as f64);
    wire + rounds as f64 * net.rtt.as_secs_f64() / 2.0
}

/// The server's weights and hint secrets, in bytes of memory.
fn weights_bytes(outline: &Outline) -> u64 {
    let s = outline.shape();
    let matrices = (s.d_model * s.proj_dim() + s.inner() * s.d_model) as u64 * 8;
    let secrets = (s.proj_dim() + s.d_model) as u64 * 2048;
    // The public part is kept too, to be sent.
    let public = ClientSetup::bytes(outline, Embedding::Encrypted).unwrap_or(0) * 8 / 6;
    s.layers as u64 * (2 * matrices + secrets) + s.vocab as u64 * s.d_model as u64 * 8 + public
}

/// What a side holds at most, without the queue of correlations.
fn memory(flow: &Flow, declared: &Declared, model: u64) -> u64 {
    let stream = (flow.tokens() * flow.outline().shape().d_model * 8) as u64;
    // Correlations of a stage, the opened values beside them, and the results.
    BASE_MEMORY + model + 3 * stream + 3 * declared.largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_network_adds_its_latency_and_its_bandwidth() {
        assert_eq!(network(Profile::NONE, 1 << 30, 100), 0.0);
        let slow = Profile::new(8_000_000, Duration::from_millis(100));
        assert!((network(slow, 2_000_000, 10) - (1.0 + 0.5)).abs() < 1e-9);
    }
}
