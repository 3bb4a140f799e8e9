//! `fesc estimate --plan all`: plans side by side, the cheapest marked.
//!
//! The plans are ours, the paper's with each of its scans, and those that differ from either in one stage:
//! what they differ in cost is what that stage buys. A plan that cannot run for the shape is listed with the
//! reason. The cheapest is the one that takes the least time for a document (`online_s + offline_s`; set-up
//! and keys are once), among those whose server and client each fit this machine's memory; without times, the
//! one with the fewest bytes.

use anyhow::Result;
use fesc_infer::kernels::private_plan;
use fesc_infer::session::download::wire_bytes;

use super::circuits::Machine;
use super::declared::Prices;
use super::times::{Sample, Times};
use super::{Costs, Subject};
use crate::cli::{self, EstimateArgs};
use crate::progress::Progress;
use crate::report::{Format, Report, Row};
use crate::usage::total_memory;

/// In the order in which they are listed.
const PLANS: [&str; 13] = [
    "fast",
    "fast,projection=ckks",
    "fast,scan=hescan",
    "fast,scan=he-dual",
    "fast,activations=polynomial",
    "fast,norm=nerms",
    "paper",
    "paper,scan=lanes",
    "paper,scan=chunks",
    "paper,scan=he-dual",
    "paper,exp=stable",
    "paper,projection=rlwe",
    "paper,scan=dual,exp=stable",
];

/// A plan and what it costs, or why it cannot run.
struct Line {
    plan: String,
    costs: Result<Costs, String>,
    times: Option<Times>,
}

impl Line {
    fn new(text: &str, args: &EstimateArgs, subject: &Subject, prices: &Prices, tokens: usize) -> Self {
        let costs = private_plan(text).map_err(anyhow::Error::from);
        let costs = costs.and_then(|plan| Costs::new(args, subject, prices, plan, tokens));
        Self { plan: text.into(), costs: costs.map_err(|e| format!("{e:#}")), times: None }
    }

    /// What a document costs: seconds, or bytes if nothing was measured.
    fn price(&self) -> f64 {
        match (&self.times, &self.costs) {
            (Some(times), _) => times.online_s + times.offline_s,
            (None, Ok(costs)) => (costs.declared.online_bytes() + costs.declared.offline_bytes()) as f64,
            (None, Err(_)) => f64::INFINITY,
        }
    }

    /// Whether each side fits so much memory.
    fn fits(&self, memory: Option<u64>) -> bool {
        let most = memory.unwrap_or(u64::MAX);
        self.costs.as_ref().is_ok_and(|c| c.memory.client.max(c.memory.server) <= most)
    }
}

/// Prints all plans.
pub fn run(
    args: &EstimateArgs,
    subject: &Subject,
    prices: &Prices,
    tokens: usize,
    progress: Progress,
    format: Format,
) -> Result<()> {
    let line = |text: &&str| {
        progress.say(format!("reading declarations of {text}"));
        Line::new(text, args, subject, prices, tokens)
    };
    let mut lines: Vec<Line> = PLANS.iter().map(line).collect();
    if !args.no_time {
        measure(&mut lines, args, prices, &progress)?;
    }
    drop(progress);
    let memory = total_memory();
    let fitting = lines.iter().enumerate().filter(|(_, line)| line.fits(memory));
    let cheapest = fitting.min_by(|(_, a), (_, b)| a.price().total_cmp(&b.price())).map(|(i, _)| i);
    let mut report = Report::new(format);
    for (i, line) in lines.iter().enumerate() {
        report.add(row(line, args, subject, prices, tokens, cheapest == Some(i), line.fits(memory)))?;
    }
    report.finish()
}

/// Measures once what all of them need.
fn measure(lines: &mut [Line], args: &EstimateArgs, prices: &Prices, progress: &Progress) -> Result<()> {
    let costs = || lines.iter().filter_map(|line| line.costs.as_ref().ok());
    let works: Vec<_> = costs().flat_map(|c| &c.declared.works).flat_map(|(_, works)| works).collect();
    let machine = Machine::measure(works.into_iter(), args.threads, progress)?;
    let mut samples: Vec<Sample> = Vec::new();
    for line in lines {
        let Ok(costs) = &line.costs else { continue };
        let plan = costs.outline.plan();
        if !samples.iter().any(|s| s.serves(plan)) {
            samples.push(Sample::measure(&costs.outline, args, prices, costs.schedule.tokens(), progress)?);
        }
        if let Some(sample) = samples.iter().find(|s| s.serves(plan)) {
            line.times = Some(Times::new(args, &costs.declared, prices, costs.public, sample, &machine)?);
        }
    }
    Ok(())
}

/// A plan; all rows have the same names.
fn row(
    line: &Line,
    args: &EstimateArgs,
    subject: &Subject,
    prices: &Prices,
    tokens: usize,
    cheapest: bool,
    fits: bool,
) -> Row {
    let (times, costs) = (line.times.as_ref(), line.costs.as_ref().ok());
    let seconds = |f: fn(&Times) -> f64| times.map(f);
    let number = |f: &dyn Fn(&Costs) -> u64| costs.map(f);
    Row::new()
        .with("plan", costs.map_or_else(|| line.plan.clone(), |c| c.outline.plan().name()))
        .with("online_s", seconds(|t| t.online_s))
        .with("offline_s", seconds(|t| t.offline_s))
        .with("keys_s", seconds(|t| t.keys_s))
        .with("online_bytes", number(&|c| c.declared.online_bytes()))
        .with("offline_bytes", number(&|c| c.declared.offline_bytes()))
        .with("key_bytes", number(&|c| c.declared.keys.bytes()))
        .with("rounds", number(&|c| c.declared.rounds()))
        .with("key_switches", number(&|c| c.declared.key_switches()))
        .with("memory_bytes_client", number(&|c| c.memory.client))
        .with("memory_bytes_server", number(&|c| c.memory.server))
        .with("cheapest", cheapest)
        .with("reason", line.costs.as_ref().err().map(String::as_str))
        .detail("model", subject.name.as_str())
        .detail("layers", costs.map(|c| c.outline.shape().layers))
        .detail("length", args.length)
        .detail("bucket", tokens)
        .detail("provider", cli::name(args.provider))
        .detail("net", args.net.to_string())
        .detail("threads", args.threads)
        .detail("setup_s", seconds(|t| t.setup_s))
        .detail("setup_bytes", number(&|c| wire_bytes(c.public) + prices.setup_bytes()))
        .detail("runs", costs.is_some())
        .detail("fits_memory", fits)
}
