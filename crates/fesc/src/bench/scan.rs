//! `fesc bench scan`: the selective scan under encryption, in each packing, counted and measured.
//!
//! Before the run the operations that were counted are measured one by one at their levels; counts times
//! these times are the prediction. The packet is random, the keys are made for this run, and the results are
//! decrypted and compared with the recurrence.

use anyhow::{Context, Result};
use fesc_hybrid::HybridError;
use fesc_hybrid::backend::{Backend, Chain, Operation, Tally};
use fesc_scan::hescan::HeScan as _;
use fesc_scan::hescan::chunks::Chunks;
use fesc_scan::hescan::cut::{self, Chosen, Wanted};
use fesc_scan::hescan::trial::{self, ClearPacket, Inputs, Measured};
use fesc_scan::hescan::{ScanShape, paper};
use rayon::ThreadPoolBuilder;
use serde_json::{Value, json};

use super::ckks::Probe;
use crate::cli::{self, Packing, ScanArgs};
use crate::exit::Refusal;
use crate::measured::named;
use crate::progress::Progress;
use crate::report::{Format, Report, Row};
use crate::usage;

/// Measures and prints.
pub fn run(args: &ScanArgs, format: Format) -> Result<()> {
    check(args)?;
    let progress = Progress::start("scan");
    let mut report = Report::new(format);
    let measured = args.length.iter().try_for_each(|&length| {
        let mut shape = scan_shape(&args.shape, length as usize)?;
        shape.state = args.family.map_or(shape.state, |f| f.state);
        progress.say(format!("{length} tokens: counting"));
        let plan = choose(args, shape)?;
        let ran = if args.count { None } else { Some(Ran::new(args, &plan, &progress)?) };
        report.add(row(args, &plan, shape.tokens, ran.as_ref())?)
    });
    drop(progress);
    // What was measured before an error is printed all the same.
    report.finish()?;
    measured
}

/// The scan of a named shape.
pub fn scan_shape(name: &str, tokens: usize) -> Result<ScanShape> {
    let config = named(name)?;
    let s = config.shape();
    Ok(ScanShape { tokens, heads: s.heads, head_dim: s.head_dim, groups: s.groups, state: s.state })
}

/// The cut that is asked for, or the best one.
pub fn choose(args: &ScanArgs, shape: ScanShape) -> Result<Chosen> {
    let mut wanted = Wanted::from(args);
    if let Some(family) = args.family {
        wanted.factors = family.factors(|f| ClearPacket::random(shape, f, 0).known(true));
    }
    cut::choose(&wanted, shape).map_err(|e| match e {
        HybridError::Shape { what: what @ "bytes of ciphertexts at once", got, .. } => {
            let (value, max) = (got as u64, args.memory.saturating_mul(1_000_000));
            let remedy = "give more --memory, a shorter --length, or another packing or cut";
            Refusal::Limit { what, value, max, remedy }.into()
        }
        e => Refusal::Usage(e.to_string()).into(),
    })
}

/// Options that the packing does not have.
fn check(args: &ScanArgs) -> Result<()> {
    let lanes = matches!(args.packing, Packing::Lanes | Packing::Hybrid);
    let lanes_only = args.blocks.is_some() || args.coordinates.is_some() || args.leaf.is_some() || args.fold;
    let chunks_only = args.block.is_some()
        || args.family.is_some()
        || args.topology.name() != "brent-kung"
        || args.work != fesc_scan::hescan::chunks::Work::Needed;
    let refuse = |options: &str| {
        let name = cli::name(args.packing);
        Err(Refusal::Usage(format!("the packing {name} has none of the options {options}; leave them out")).into())
    };
    if lanes_only && !lanes {
        return refuse("--blocks, --coordinates, --leaf, --fold");
    }
    if chunks_only && args.packing != Packing::Chunks {
        return refuse("--block, --topology, --work, --family");
    }
    Ok(())
}

/// A run.
struct Ran {
    predicted_s: f64,
    held: bool,
    /// Of every layer.
    layers: Vec<Measured>,
}

impl Ran {
    fn new(args: &ScanArgs, plan: &Chosen, progress: &Progress) -> Result<Self> {
        let params = plan.set.params()?;
        let tally = plan.count.operations().tally();
        progress.say(format!("{}: times of operations by level", plan.set.name));
        let predicted = predicted(plan, &tally, args.seconds, args.threads.into())?;
        let budget = args.memory.saturating_mul(1_000_000) / 2;
        let held = cut::input_bytes(&plan.kernel, &Chain::of(&params)) <= budget;
        let inputs = if held { Inputs::Held } else { Inputs::Streamed };
        let threads = usize::from(args.threads);
        let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
        let mut layers = Vec::new();
        for layer in 0..args.layers {
            let how = if held { "inputs in memory" } else { "inputs encrypted when they are wanted" };
            progress.say(format!("{}: layer {} of {}, {how}", plan.set.name, layer + 1, args.layers));
            let seed = 1 + layer as u8;
            let cpu = || usage::cpu_seconds().unwrap_or(f64::NAN);
            let run = || trial::encrypted_by(&cpu, &plan.kernel, &params, threads, inputs, seed);
            layers.push(pool.install(run)?);
        }
        Ok(Self { predicted_s: predicted * f64::from(args.layers) / threads as f64, held, layers })
    }
}

/// Seconds of one scan, of all threads together: counts times what each operation takes at its level.
fn predicted(plan: &Chosen, tally: &Tally, seconds: f64, threads: usize) -> Result<f64> {
    let probe = Probe::new(&plan.set, |level| used(tally, level), seconds, threads)?;
    Ok(tally.cost(|operation, level| probe.seconds(operation, level)))
}

/// Whether anything happens at a level.
fn used(tally: &Tally, level: usize) -> bool {
    Operation::ALL.into_iter().any(|o| tally.by_level(o).any(|(l, _)| l == level))
}

fn row(args: &ScanArgs, plan: &Chosen, tokens: usize, ran: Option<&Ran>) -> Result<Row> {
    let tally = plan.count.operations().tally();
    let layers = u64::from(args.layers);
    let total = |kinds: &[Operation]| kinds.iter().map(|&o| tally.total(o)).sum::<u64>() * layers;
    let of = |f: &dyn Fn(&Ran) -> Value| ran.map_or(Value::Null, f);
    let sum = |f: fn(&Measured) -> f64| of(&|r| json!(r.layers.iter().map(f).sum::<f64>()));
    let topology = if args.packing == Packing::Dual { Value::Null } else { args.topology.name().into() };
    let keys = plan.count.operations().key_plan();
    let params = plan.set.params().context("a named set")?;
    let row = Row::new()
        .with("kernel", "scan")
        .with("packing", cli::name(args.packing))
        .with("topology", topology)
        .with("length", tokens)
        .with("block", plan.cut.block)
        .with("layers", args.layers)
        .with("key_switches", tally.key_switches() * layers)
        .with("rotations", total(&[Operation::Rotation, Operation::HoistedRotation]))
        .with("products", total(&[Operation::Product]))
        .with("depth", plan.kernel.inner().depth())
        .with("seconds", sum(|m| m.seconds))
        .with("predicted_s", of(&|r| json!(r.predicted_s)))
        .with("peak_bytes", of(&|_| json!(usage::peak_rss_bytes())))
        .with("precision_bits", of(&|r| json!(r.layers.iter().map(|m| m.precision.bits()).fold(f64::MAX, f64::min))))
        .with("paper", paper_seconds(&args.shape, tokens).map_or(Value::Null, |s| json!(s * layers as f64)));
    Ok(row
        .detail("cpu_s", sum(|m| m.clocked))
        .detail("shape", args.shape.as_str())
        .detail("set", plan.set.name)
        .detail("blocks", plan.cut.blocks)
        .detail("coordinates", plan.cut.coordinates)
        .detail("leaf", plan.cut.leaf)
        .detail("relinearisations", total(&[Operation::Relinearisation]))
        .detail("family", args.family.map(|f| f.name))
        .detail("composition_relinearisations", Chunks::composition_relinearisations(&plan.count) * layers)
        .detail("paper_composition_relinearisations", paper_compositions(args, tokens))
        .detail("conjugations", total(&[Operation::Conjugation]))
        .detail("plain_products", total(&[Operation::PlainProduct]))
        .detail("uploads", plan.kernel.inputs() as u64)
        .detail("key_bytes", keys.bytes(&params) as u64)
        .detail("key_memory_bytes", keys.memory(&params) as u64)
        .detail("inputs", of(&|r| json!(if r.held { "held" } else { "streamed" })))
        .detail("input_seconds", sum(|m| m.input_seconds))
        .detail("live_bytes", plan.count.live().most_bytes())
        .detail("threads", args.threads))
}

/// The paper's relinearisations of compositions for one scan of a family.
fn paper_compositions(args: &ScanArgs, tokens: usize) -> Option<u64> {
    let family = args.family.filter(|_| args.shape == "base" && tokens == 128)?;
    Some(family.relinearisations * u64::from(args.layers))
}

/// The paper's seconds for one scan on one A100: Mamba-base, Brent-Kung.
fn paper_seconds(shape: &str, tokens: usize) -> Option<f64> {
    let at = (0..paper::BRENT_KUNG_SECONDS.len()).find(|i| 128 << i == tokens)?;
    (shape == "base").then(|| paper::BRENT_KUNG_SECONDS[at])
}
