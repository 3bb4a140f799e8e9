//! `fesc estimate`: what a run will cost, before anything runs.
//!
//! Bytes and rounds are sums of declarations: [`Flow::costs`] online, the generators' own declarations offline. Times are a model:
//! two small runs of the same shape (one layer, [`SAMPLES`] tokens) are measured on this machine, both parties on it, and each stage
//! gets a line through them, `seconds = fixed + rate bytes`, for each of its calls; then the network's part is added,
//! `rounds rtt / 2 + bytes / bandwidth` a direction. Memory is a
//! model too: what each side holds of the public part, the residual stream, and the largest correlations of a stage.

use std::time::Duration;

use anyhow::{Context, Result};
use fesc_infer::session::bucket::bucket;
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

/// Tokens of the measured runs: at least two chunks, so that every part of the scan is in them.
const SAMPLES: [usize; 2] = [256, 768];

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
    // A session runs a document in its bucket, so that is what it will cost.
    let tokens = bucket(args.length as usize).context("no run is so long")?;
    let flow = Flow::new(&outline, tokens, reveal)?;
    let declared = Declared::new(&flow, &Prices::new(args.provider)?)?;
    progress.say("measuring two small runs of this shape");
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
            .with("bucket", tokens)
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
            .detail("sample_tokens", SAMPLES.to_vec()),
    )?;
    for stage in &declared.stages {
        let row = Row::new()
            .with("stage", stage.time.stage.as_str())
            .with("online_bytes", stage.time.online_bytes)
            .with("rounds", stage.time.rounds)
            .with("offline_bytes", stage.offline_bytes);
        let lines = times.as_ref().and_then(|t| t.lines.iter().find(|l| l.stage == stage.time.stage));
        report.add(
            row.with("calls", stage.calls)
                .with("online_ms", lines.map(|l| 1e3 * l.online.fixed))
                .with("online_ns_per_byte", lines.map(|l| 1e9 * l.online.rate))
                .with("offline_ms", lines.map(|l| 1e3 * l.offline.fixed))
                .with("offline_ns_per_byte", lines.map(|l| 1e9 * l.offline.rate)),
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
    let task = Task::new(shape, args.layers.map(|l| l as usize), args.length as usize, args.provider)?;
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
    fn new(provider: Provider) -> Result<Self> {
        Ok(match provider {
            Provider::TwoParty => Prices::TwoParty(Box::new(price_list()?)),
            Provider::Dealer => Prices::Dealer,
        })
    }

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
    /// How often it is called: once for each layer and segment.
    calls: u64,
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
                declared.stages.push(Stage { time, offline_bytes: 0, calls: 0 });
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
            declared.stages[at].calls += 1;
            declared.stages[at].time.online_bytes += cost.online.total_bytes();
            declared.stages[at].time.rounds += cost.online.rounds;
        }
        Ok(declared)
    }
}

/// `fixed + rate bytes` seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    fixed: f64,
    rate: f64,
}

impl Line {
    /// Through two measured points, neither part below zero.
    fn through((bytes, seconds): (u64, f64), (more, longer): (u64, f64)) -> Self {
        let (low, high) = (bytes as f64, more as f64);
        if high <= low {
            return Self { fixed: (seconds + longer) / 2.0, rate: 0.0 };
        }
        let rate = ((longer - seconds) / (high - low)).clamp(0.0, longer / high);
        Self { fixed: (longer - rate * high).max(0.0), rate }
    }

    fn at(&self, calls: u64, bytes: u64) -> f64 {
        self.fixed * calls as f64 + self.rate * bytes as f64
    }
}

/// What a stage takes.
struct StageLines {
    stage: String,
    online: Line,
    offline: Line,
}

struct Times {
    online_s: f64,
    offline_s: f64,
    lines: Vec<StageLines>,
}

impl Times {
    fn measure(outline: &Outline, args: &EstimateArgs, declared: &Declared, progress: &Progress) -> Result<Self> {
        let small = sample_config(outline)?;
        let link =
            LinkArgs { net: Profile::NONE, tls: false, threads: args.threads, timeout: Duration::from_secs(300) };
        let prices = Prices::new(args.provider)?;
        let mut points = Vec::new();
        for tokens in SAMPLES {
            let mut task = Task::new("tiny", Some(1), tokens, args.provider)?;
            task.shape = small.to_json("float32")?;
            let made = Declared::new(&Flow::new(&random_outline(&small, 1)?, tokens, Reveal::Label)?, &prices)?;
            points.push((measure(&link, &task, progress)?.stages(), made));
        }
        let [(low, low_made), (high, high_made)] = points.as_slice() else { anyhow::bail!("two measured runs") };
        let offline = |made: &Declared, stage: &str| {
            made.stages.iter().find(|s| s.time.stage == stage).map_or(0, |s| s.offline_bytes)
        };
        let lines: Vec<StageLines> = low
            .iter()
            .filter_map(|a| {
                let b = high.iter().find(|b| b.stage == a.stage)?;
                let (few, many) = (offline(low_made, &a.stage), offline(high_made, &a.stage));
                Some(StageLines {
                    stage: a.stage.clone(),
                    online: Line::through((a.online_bytes, a.online_s), (b.online_bytes, b.online_s)),
                    offline: Line::through((few, a.offline_s), (many, b.offline_s)),
                })
            })
            .collect();
        let (mut online_s, mut offline_s) = (0.0, 0.0);
        for stage in &declared.stages {
            let Some(line) = lines.iter().find(|l| l.stage == stage.time.stage) else { continue };
            let (bytes, rounds) = (stage.time.online_bytes, stage.time.rounds);
            online_s += line.online.at(stage.calls, bytes) + network(args.net, bytes, rounds);
            offline_s += line.offline.at(stage.calls, stage.offline_bytes) + network(args.net, stage.offline_bytes, 0);
        }
        Ok(Self { online_s, offline_s, lines })
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
    // Correlations of a stage, and about as much again of opened values and results.
    BASE_MEMORY + model + 3 * stream + 2 * declared.largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points_and_not_below_zero() {
        let line = Line::through((100, 1.5), (300, 2.5));
        assert!((line.at(1, 100) - 1.5).abs() < 1e-12 && (line.at(2, 300) - (2.0 + 1.5)).abs() < 1e-12);
        assert_eq!(Line::through((0, 1.0), (0, 3.0)), Line { fixed: 2.0, rate: 0.0 });
        assert_eq!(Line::through((100, 3.0), (300, 2.0)).rate, 0.0);
        let steep = Line::through((100, 0.1), (200, 9.0));
        assert!(steep.fixed >= 0.0 && (steep.at(1, 200) - 9.0).abs() < 1e-12);
    }

    #[test]
    fn a_slow_network_adds_its_latency_and_its_bandwidth() {
        assert_eq!(network(Profile::NONE, 1 << 30, 100), 0.0);
        let slow = Profile::new(8_000_000, Duration::from_millis(100));
        assert!((network(slow, 2_000_000, 10) - (1.0 + 0.5)).abs() < 1e-9);
    }
}
