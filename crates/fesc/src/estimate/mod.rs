//! `fesc estimate`: what a run will cost, before it runs.
//!
//! | what | from |
//! |---|---|
//! | bytes, rounds | sums of declarations ([`declared`]): exact for a model, and for a named shape |
//! | times | one layer on one segment, measured here, scaled to the run ([`times`]); the network's part |
//! | memory | what each side holds at its peak ([`memory`]): a model |
//!
//! A named shape is declared as `bench infer` runs it. A session computes a document in its length bucket,
//! so that is what is estimated. Not in it: TLS (0.2 percent of the bytes), the handshake's few kilobytes,
//! and that a session makes correlations beside the protocol: its time lies between the larger of `online_s`
//! and `offline_s` and their sum.

mod declared;
mod memory;
mod times;

use anyhow::{Context, Result};
use fesc_infer::session::bucket::bucket;
use fesc_infer::session::public::declare;
use fesc_infer::{Embedding, Schedule};
use fesc_model::outline::Outline;
use fesc_mpc::Ledger;
use serde_json::json;

use crate::classifier;
use crate::cli::{self, EstimateArgs};
use crate::measured::{Task, random_outline};
use crate::progress::Progress;
use crate::report::{Format, Report, Row};
use declared::{Declared, Prices};
use times::Times;

/// Prints the estimate.
pub fn run(args: &EstimateArgs, format: Format) -> Result<()> {
    let progress = Progress::start("reading declarations");
    let tokens = bucket(args.length as usize).context("no run is so long")?;
    let Subject { name, outline, tokenizer } = Subject::find(args, tokens)?;
    let schedule = Schedule::new(&outline, tokens, args.reveal)?;
    let prices = Prices::new(args.provider)?;
    let declared = Declared::new(&schedule, &prices)?;
    let public = public_bytes(&outline, tokenizer)?;
    let times = if args.no_time {
        None
    } else {
        Some(Times::measure(&outline, args, &declared, &prices, public, tokens, &progress)?)
    };
    drop(progress);
    let memory = memory::model(&schedule, &declared, &prices)?;
    let mut report = Report::new(format);
    let seconds = |f: fn(&Times) -> f64| times.as_ref().map(f);
    report.add(
        Row::new()
            .with("model", name)
            .with("layers", outline.shape().layers)
            .with("length", args.length)
            .with("bucket", tokens)
            .with("plan", outline.plan().name())
            .with("provider", cli::name(args.provider))
            .with("net", args.net.to_string())
            .with("online_s", seconds(|t| t.online_s))
            .with("offline_s", seconds(|t| t.offline_s))
            .with("setup_s", seconds(|t| t.setup_s))
            .with("online_bytes", declared.online_bytes())
            .with("offline_bytes", declared.offline_bytes())
            .with("setup_bytes", public + prices.setup_bytes())
            .with("rounds", declared.rounds())
            .with("memory_bytes_client", memory.client)
            .with("memory_bytes_server", memory.server)
            .detail("public_bytes", public)
            .detail("offline_rounds", times.as_ref().map(|t| t.offline_rounds))
            .detail("sample_tokens", times.as_ref().map(|t| t.tokens))
            .detail("threads", args.threads)
            .detail("stages", declared.stages.iter().map(|s| stage(s, times.as_ref())).collect::<Vec<_>>()),
    )?;
    if format == Format::Table {
        for stage in &declared.stages {
            let time = times.as_ref().and_then(|t| t.of(stage.name));
            report.add(
                Row::new()
                    .with("stage", stage.name.name())
                    .with("calls", stage.calls)
                    .with("online_s", time.map(|t| t.online_s))
                    .with("online_bytes", stage.online.total_bytes())
                    .with("rounds", stage.online.rounds)
                    .with("offline_s", time.map(|t| t.offline_s))
                    .with("offline_bytes", stage.offline.0 + stage.offline.1),
            )?;
        }
    }
    report.finish()
}

/// A stage as JSON, by the names that `bench infer` has for it.
fn stage(stage: &declared::StageCost, times: Option<&Times>) -> serde_json::Value {
    let time = times.and_then(|t| t.of(stage.name));
    json!({
        "stage": stage.name,
        "calls": stage.calls,
        "online_s": time.map(|t| t.online_s),
        "offline_s": time.map(|t| t.offline_s),
        "online_bytes": stage.online.total_bytes(),
        "rounds": stage.online.rounds,
        "offline_bytes": stage.offline.0 + stage.offline.1,
    })
}

/// What is estimated.
struct Subject {
    name: String,
    outline: Outline,
    /// The tokenizer's file, where there is one.
    tokenizer: Option<String>,
}

impl Subject {
    /// A model, or the random one that `bench infer` makes of a named shape.
    fn find(args: &EstimateArgs, tokens: usize) -> Result<Self> {
        let Some(shape) = &args.shape else {
            let directory = args.model.as_deref().filter(|d| d.as_os_str() != "built-in");
            let model = classifier::load(directory)?;
            let (name, tokenizer) = (model.name().into(), Some(model.tokenizer_json().into()));
            return Ok(Self { name, outline: model.twin(args.plan)?.outline()?.clone(), tokenizer });
        };
        let mut task = Task::new(shape, args.layers.map(|l| l as usize), tokens, args.provider)?;
        task.plan = args.plan.name();
        Ok(Self { name: shape.clone(), outline: random_outline(&task)?, tokenizer: None })
    }
}

/// What a client downloads once, as declared.
fn public_bytes(outline: &Outline, tokenizer: Option<String>) -> Result<u64> {
    let mut ledger = Ledger::new();
    declare(outline, Embedding::Encrypted, tokenizer, &mut ledger)?;
    Ok(ledger.setup_bytes())
}
