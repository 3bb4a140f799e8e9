//! `fesc bench infer`: a whole private inference between two processes, with random weights of a named shape.
//!
//! Correlations are made at the moment of use, on the same channel, so that their time and bytes are counted
//! apart from those of the protocol (`serve` and `classify` make them ahead, beside it).

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::{self, InferArgs};
use crate::measured::errors::{Check, LogitCheck};
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
    let switches: u64 = stages.iter().filter_map(|s| s.encrypted.as_ref()).map(|e| e.key_switches).sum();
    let logits = server.errors.as_ref().and_then(|e| e.logits.as_ref());
    let checks = || server.errors.iter().flat_map(|e| &e.checks);
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
            .with("keys_s", ran.slower(|m| m.keys_s))
            .with("key_bytes", client.key_bytes)
            .with("key_switches", switches)
            .with("rounds", client.rounds)
            .with("peak_rss_bytes_client", client.peak_rss_bytes)
            .with("peak_rss_bytes_server", server.peak_rss_bytes)
            .with("rel_error", of(server, |e| e.rel_error))
            .with("max_error", of(server, |e| e.max_error))
            .with("logit_bound", logits.map(|l| l.logit_bound))
            .with("logit_error", logits.map(|l| l.logit_error))
            .detail("logit_bits", logits.map(|l| l.logit_bits))
            .detail("plan", task.plan.as_str())
            .detail("offline_rounds", client.offline_rounds)
            .detail("declared_online_bytes", client.declared_online_bytes)
            .detail("threads", args.link.threads)
            .detail("cpu_s_client", client.cpu_s)
            .detail("cpu_s_server", server.cpu_s)
            .detail("within", server.errors.as_ref().map(|e| e.within))
            .detail("checks", serde_json::to_value(server.errors.as_ref().map(|e| &e.checks))?)
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
                    .with("offline_s", stage.offline_s)
                    .with("key_switches", stage.encrypted.as_ref().map(|e| e.key_switches))
                    .with("plain_products", stage.encrypted.as_ref().map(|e| e.plain_products))
                    .with("uploads", stage.encrypted.as_ref().map(|e| e.uploads))
                    .with("set", stage.encrypted.as_ref().map(|e| e.set.as_str())),
            )?;
        }
        checks().try_for_each(|check| report.add(check.row()))?;
    }
    report.finish()?;
    checks().try_for_each(Check::ensure)?;
    logits.into_iter().try_for_each(LogitCheck::ensure)
}
