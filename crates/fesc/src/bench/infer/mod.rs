//! `fesc bench infer`: a whole private inference between two processes, with random weights of a named shape.
//!
//! Correlations are made at the moment of use, on the same channel, so that their time and bytes are counted
//! apart from those of the protocol (`serve` and `classify` make them ahead, beside it).

mod model;
pub mod party;
mod stages;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::{self, InferArgs, LinkArgs, Provider, RevealArg};
use crate::exit::Refusal;
use crate::parties;
use crate::parties::child::os_random;
use crate::parties::wire::Work;
use crate::progress::Progress;
use crate::report::{Format, Report, Row};
use model::config;
pub use model::random_outline;
use party::Measured;
pub use stages::StageTime;

/// Without being told, a run of at most this many values of the residual stream, over all layers, is compared
/// with the twin.
const CHECKED: usize = 1 << 20;

/// What is to be computed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// Name of the shape, or a config as JSON.
    pub shape: String,
    /// Layers.
    pub layers: usize,
    /// Rows of the embedding; the shape's own unless told.
    pub vocab: Option<usize>,
    /// Tokens.
    pub length: usize,
    /// Who makes correlations.
    pub provider: Provider,
    /// Show logits instead of the label.
    pub logits: bool,
    /// Compare the residual stream with the twin's.
    pub check: bool,
    /// The document comes from it. It is public: the document is nobody's.
    pub seed: [u8; 16],
}

impl Task {
    /// A task with a fresh seed.
    pub fn new(shape: &str, layers: Option<usize>, length: usize, provider: Provider) -> Result<Self> {
        let Some(named) = fesc_model::Config::named(shape) else {
            let names = fesc_model::Config::NAMES.join(", ");
            return Err(Refusal::Usage(format!("no shape {shape}; there are {names}")).into());
        };
        let mut seed = [0; 16];
        os_random()?.fill_bytes(&mut seed);
        let layers = layers.unwrap_or(named.shape().layers);
        Ok(Self { shape: shape.into(), layers, vocab: None, length, provider, logits: false, check: false, seed })
    }
}

/// What both parties measured.
pub struct Ran {
    /// P0's and P1's.
    pub parties: [Measured; 2],
}

impl Ran {
    fn slower(&self, f: fn(&Measured) -> f64) -> f64 {
        self.parties.iter().map(f).fold(0.0, f64::max)
    }

    fn sum(&self, f: fn(&Measured) -> u64) -> u64 {
        self.parties.iter().map(f).sum()
    }

    /// Each stage by name, both parties together: the slower one's time, in order of first use.
    pub fn stages(&self) -> Vec<StageTime> {
        stages::join(&self.parties[0].stages, &self.parties[1].stages)
    }
}

/// Runs a task between two processes, three with a dealer.
pub fn measure(link: &LinkArgs, task: &Task, progress: &Progress) -> Result<Ran> {
    let dealer = task.provider == Provider::Dealer;
    let parties = parties::run::<Measured>(link, dealer, Work::Infer(task.clone()), progress)?;
    Ok(Ran { parties })
}

/// Measures and prints.
pub fn run(args: &InferArgs, format: Format) -> Result<()> {
    let mut task = Task::new(&args.shape, args.layers.map(|l| l as usize), args.length as usize, args.provider)?;
    let values = task.length * task.layers * config(&task)?.shape().d_model;
    task.check = args.check || values <= CHECKED;
    task.logits = args.reveal == RevealArg::Logits;
    task.vocab = args.vocab.map(|v| v as usize);
    let progress = Progress::start("private inference");
    let ran = measure(&args.link, &task, &progress)?;
    drop(progress);
    let [client, server] = &ran.parties;
    let stages = ran.stages();
    let mut report = Report::new(format);
    let of = |m: &Measured, f: fn(&party::Errors) -> f64| m.errors.as_ref().map_or(Value::Null, |e| json!(f(e)));
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
            .detail("plan", "fast")
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
