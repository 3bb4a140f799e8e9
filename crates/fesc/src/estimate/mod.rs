//! `fesc estimate`: what a run will cost, before it runs.
//!
//! | what | from |
//! |---|---|
//! | bytes, rounds | sums of declarations ([`declared`]): exact for a model, and for a named shape |
//! | keys, key switches, levels | the kernels' own counts: exact |
//! | times | one layer on one segment, measured and scaled to the run ([`times`]); the network's part |
//! | times under CKKS | counts times measured costs ([`circuits`]) |
//! | memory | what each side holds at its peak ([`memory`]): a model |
//!
//! A named shape is declared as `bench infer` runs it. A session computes a document in its length bucket,
//! so that is what is estimated. Not in it: TLS (0.2 percent of the bytes), the handshake's few kilobytes,
//! and that a session makes correlations beside the protocol: its time lies between the larger of `online_s`
//! and `offline_s` and their sum.

mod circuits;
mod declared;
mod memory;
mod plans;
mod times;

use anyhow::{Context, Result};
use fesc_infer::session::bucket::bucket;
use fesc_infer::session::download::wire_bytes;
use fesc_infer::session::public::declare;
use fesc_infer::{Embedding, Schedule};
use fesc_model::outline::Outline;
use fesc_model::twin::Calibration;
use fesc_model::{Classifier, Config, Plan};
use fesc_mpc::Ledger;
use serde_json::json;

use crate::classifier;
use crate::cli::{self, EstimateArgs, PlanChoice};
use crate::measured::encrypted::Encrypted;
use crate::measured::{Task, random_model};
use crate::progress::Progress;
use crate::report::{Format, Report, Row};
use circuits::Machine;
use declared::{Declared, Prices};
use memory::Memory;
use times::{Sample, Times};

/// Prints the estimate.
pub fn run(args: &EstimateArgs, format: Format) -> Result<()> {
    let progress = Progress::start("reading declarations");
    let tokens = bucket(args.length as usize).context("no run is so long")?;
    let subject = Subject::find(args, tokens)?;
    let prices = Prices::new(args.provider)?;
    let plan = match args.plan {
        PlanChoice::All => return plans::run(args, &subject, &prices, tokens, progress, format),
        PlanChoice::One(plan) => plan,
    };
    let costs = Costs::new(args, &subject, &prices, plan, tokens)?;
    let times = if args.no_time { None } else { Some(costs.times(args, &prices, &progress)?) };
    drop(progress);
    let Costs { outline, declared, public, memory, .. } = &costs;
    let mut report = Report::new(format);
    let seconds = |f: fn(&Times) -> f64| times.as_ref().map(f);
    report.add(
        Row::new()
            .with("model", subject.name.as_str())
            .with("layers", outline.shape().layers)
            .with("length", args.length)
            .with("bucket", tokens)
            .with("plan", outline.plan().name())
            .with("provider", cli::name(args.provider))
            .with("net", args.net.to_string())
            .with("online_s", seconds(|t| t.online_s))
            .with("offline_s", seconds(|t| t.offline_s))
            .with("setup_s", seconds(|t| t.setup_s))
            .with("keys_s", seconds(|t| t.keys_s))
            .with("online_bytes", declared.online_bytes())
            .with("offline_bytes", declared.offline_bytes())
            .with("setup_bytes", wire_bytes(*public) + prices.setup_bytes())
            .with("key_bytes", declared.keys.bytes())
            .with("key_switches", declared.key_switches())
            .with("rounds", declared.rounds())
            .with("memory_bytes_client", memory.client)
            .with("memory_bytes_server", memory.server)
            .detail("public_bytes", *public)
            .detail("key_memory_bytes", declared.keys.memory())
            .detail("log2_distance", costs.schedule.log_distance()?)
            .detail("offline_rounds", times.as_ref().map(|t| t.offline_rounds))
            .detail("sample_tokens", times.as_ref().map(|t| t.tokens))
            .detail("threads", args.threads)
            .detail("stages", declared.stages.iter().map(|s| stage(s, declared, times.as_ref())).collect::<Vec<_>>()),
    )?;
    if format == Format::Table {
        declared.stages.iter().try_for_each(|stage| report.add(stage_row(stage, declared, times.as_ref())))?;
    }
    report.finish()
}

/// What a plan costs, before anything is measured.
struct Costs {
    outline: Outline,
    schedule: Schedule,
    declared: Declared,
    public: u64,
    memory: Memory,
}

impl Costs {
    fn new(args: &EstimateArgs, subject: &Subject, prices: &Prices, plan: Plan, tokens: usize) -> Result<Self> {
        let outline = subject.outline(plan)?;
        let schedule = Schedule::new(&outline, tokens, args.reveal)?;
        let declared = Declared::new(&schedule, prices)?;
        let public = public_bytes(&outline, subject.tokenizer.clone())?;
        let memory = memory::model(&schedule, &declared, prices)?;
        Ok(Self { outline, schedule, declared, public, memory })
    }

    /// Measures what its times need.
    fn times(&self, args: &EstimateArgs, prices: &Prices, progress: &Progress) -> Result<Times> {
        let sample = Sample::measure(&self.outline, args, prices, self.schedule.tokens(), progress)?;
        let works = self.declared.works.iter().flat_map(|(_, works)| works);
        let machine = Machine::measure(works, args.threads, progress)?;
        Times::new(args, &self.declared, prices, self.public, &sample, &machine)
    }
}

/// A stage as a line of the table.
fn stage_row(stage: &declared::StageCost, declared: &Declared, times: Option<&Times>) -> Row {
    let time = times.and_then(|t| t.of(stage.name));
    let works = declared.works(stage.name);
    let encrypted = (!works.is_empty()).then(|| Encrypted::new(works));
    Row::new()
        .with("stage", stage.name.name())
        .with("calls", stage.calls)
        .with("online_s", time.map(|t| t.online_s))
        .with("online_bytes", stage.online.total_bytes())
        .with("rounds", stage.online.rounds)
        .with("offline_s", time.map(|t| t.offline_s))
        .with("offline_bytes", stage.offline.0 + stage.offline.1)
        .with("key_switches", encrypted.as_ref().map(|e| e.key_switches))
        .with("plain_products", encrypted.as_ref().map(|e| e.plain_products))
        .with("uploads", encrypted.as_ref().map(|e| e.uploads))
        .with("depth", encrypted.as_ref().map(|e| e.depth))
        .with("set", encrypted.map(|e| e.set))
}

/// A stage as JSON, by the names that `bench infer` has for it.
fn stage(stage: &declared::StageCost, declared: &Declared, times: Option<&Times>) -> serde_json::Value {
    let time = times.and_then(|t| t.of(stage.name));
    let works = declared.works(stage.name);
    json!({
        "stage": stage.name,
        "calls": stage.calls,
        "online_s": time.map(|t| t.online_s),
        "offline_s": time.map(|t| t.offline_s),
        "online_bytes": stage.online.total_bytes(),
        "rounds": stage.online.rounds,
        "offline_bytes": stage.offline.0 + stage.offline.1,
        "encrypted": (!works.is_empty()).then(|| Encrypted::new(works)),
    })
}

/// What is estimated.
struct Subject {
    name: String,
    model: Model,
    /// The tokenizer's file, where there is one.
    tokenizer: Option<String>,
}

enum Model {
    Loaded(Box<Classifier>),
    /// The random one that `bench infer` makes of a named shape.
    Random(Box<Config>, Calibration),
}

impl Subject {
    fn find(args: &EstimateArgs, tokens: usize) -> Result<Self> {
        let Some(shape) = &args.shape else {
            let directory = args.model.as_deref().filter(|d| d.as_os_str() != "built-in");
            let model = classifier::load(directory)?;
            let (name, tokenizer) = (model.name().into(), Some(model.tokenizer_json().into()));
            return Ok(Self { name, model: Model::Loaded(Box::new(model)), tokenizer });
        };
        let task = Task::new(shape, args.layers.map(|l| l as usize), tokens, args.provider)?;
        let (config, calibration) = random_model(&task)?;
        Ok(Self { name: shape.clone(), model: Model::Random(Box::new(config), calibration), tokenizer: None })
    }

    /// The outline by a plan.
    fn outline(&self, plan: Plan) -> Result<Outline> {
        match &self.model {
            Model::Loaded(model) => Ok(model.twin(plan)?.outline()?.clone()),
            Model::Random(config, calibration) => crate::measured::outline(config, calibration, plan),
        }
    }
}

/// What a client downloads once, as declared.
fn public_bytes(outline: &Outline, tokenizer: Option<String>) -> Result<u64> {
    let mut ledger = Ledger::new();
    declare(outline, Embedding::Encrypted, tokenizer, &mut ledger)?;
    Ok(ledger.setup_bytes())
}
