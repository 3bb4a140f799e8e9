//! `fesc bench infer`: a whole private inference between two processes, with random weights of a named shape.
//!
//! Correlations are made at the moment of use, on the same channel, so that their time and bytes are counted
//! apart from those of the protocol (`serve` and `classify` make them ahead, beside it).

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::{self, InferArgs};
use crate::measured::{Errors, Measured, Task, config, measure};
use crate::progress::Progress;
use crate::report::{Format, Report, Row};

/// Without being told, a run of at most this many values of the residual stream, over all layers, is compared
/// with the twin.
const CHECKED: usize = 1 << 20;

/// Measures and prints.
pub fn run(args: &InferArgs, format: Format) -> Result<()> {
    let mut task = Task::new(&args.shape, args.layers.map(|l| l as usize), args.length as usize, args.provider)?;
    let values = task.length * task.layers * config(&task)?.shape().d_model;
    task.check = args.check || values <= CHECKED;
    task.reveal = args.reveal;
    task.plan = args.plan.name();
    task.vocab = args.vocab.map(|v| v as usize);
    let progress = Progress::start("private inference");
    let ran = measure(&args.link, &task, &progress)?;
    drop(progress);
    let [client, server] = &ran.parties;
    let stages = ran.stages();
    let mut report = Report::new(format);
    let of = |m: &Measured, f: fn(&Errors) -> f64| m.errors.as_ref().map_or(Value::Null, |e| json!(f(e)));
    report.add(
        Row::new()
            .with("shape", task.shape.as_str())
            .with("layers", task.layers)
            .with("length", task.length)
            .with("provider", cli::name(task.provider))
            .with("net", args.link.net.to_string())
            .with("online_s", ran.slower(|m| m.online_s))
            .with("offline_s", ran.slower(|m| m.offline_s))
            .with("setup_s", ran.slower(|m| m.setup_s))
            .with("online_bytes", ran.sum(|m| m.online_bytes))
            .with("offline_bytes", ran.sum(|m| m.offline_bytes))
            .with("setup_bytes", ran.sum(|m| m.setup_bytes))
            .with("rounds", client.rounds)
            .with("peak_rss_bytes_client", client.peak_rss_bytes)
            .with("peak_rss_bytes_server", server.peak_rss_bytes)
            .with("rel_error", of(server, |e| e.rel_error))
            .with("max_error", of(server, |e| e.max_error))
            .detail("plan", task.plan.as_str())
            .detail("offline_rounds", client.offline_rounds)
            .detail("declared_online_bytes", client.declared_online_bytes)
            .detail("threads", args.link.threads)
            .detail("stages", serde_json::to_value(&stages)?),
    )?;
    if format == Format::Table {
        for stage in &stages {
            report.add(
                Row::new()
                    .with("stage", stage.stage.as_str())
                    .with("online_s", stage.online_s)
                    .with("online_bytes", stage.online_bytes)
                    .with("rounds", stage.rounds)
                    .with("offline_s", stage.offline_s),
            )?;
        }
    }
    report.finish()
}
