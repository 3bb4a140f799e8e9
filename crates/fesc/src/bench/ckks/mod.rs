//! `fesc bench ckks`: operations of CKKS on the chains of the peers' measurements. Every result is decrypted
//! and compared with the true one.

mod kernels;
mod levels;
mod op;
mod probe;
mod setting;

use anyhow::{Result, bail, ensure};
use clap::ValueEnum;
use fesc_ckks::sets::{self, Set};
use fesc_ckks::{Params, mask::QUERIES, server::SwitchCost};
use rayon::ThreadPoolBuilder;
use serde_json::Value;

use super::timing::{Times, Work, in_turn};
use crate::cli::{Chain, CkksArgs};
use crate::progress::Progress;
use crate::report::{Format, Report, Row};
use kernels::{Kernels, TransformLoop};
use setting::{Made, Setting};

pub use op::CkksOp;
pub use probe::Probe;

/// A result with fewer correct bits in its worst slot is a fault of the scheme, not noise: a product at scale
/// `2^40` and `N = 65536` has 23.5 (other scales that much less), and a rotation on chain 1, whose one
/// special prime is no larger than a digit, 22.
const LEAST_PRECISION: f64 = 21.0;

/// Measures and prints.
pub fn run(args: &CkksArgs, format: Format) -> Result<()> {
    let ops = if args.op.is_empty() { CkksOp::value_variants() } else { &args.op[..] };
    let progress = Progress::start("CKKS");
    let mut report = Report::new(format);
    let mut promises = Vec::new();
    let ops = if args.level { probe::OPS } else { ops };
    let measured = chains(args).into_iter().try_for_each(|(name, set)| {
        let params = set.params()?;
        let plan = CkksOp::plan(ops);
        let (sent, memory) = (plan.bytes(&params) as f64 / 1e6, plan.memory(&params) as f64 / 1e6);
        let keys = plan.purposes(&params).len();
        tracing::info!("{}: {keys} keys, {sent:.0} MB to send, {memory:.0} MB in memory", set.name);
        progress.say(format!("{}: making {keys} keys, {memory:.0} MB", set.name));
        promises.push(promise(Row::new().with("chain", name), &set, &params, Row::with));
        let mut setting = Setting::new(&params, &plan)?;
        for &threads in &args.threads {
            let pool = ThreadPoolBuilder::new().num_threads(threads.into()).build()?;
            if args.level {
                progress.say(format!("{}: key switches by level, threads: {threads}", set.name));
                let rows = pool.install(|| levels::rows(&setting, &set, name, threads, args.seconds))?;
                rows.into_iter().try_for_each(|row| report.add(row))?;
                continue;
            }
            for &op in ops {
                progress.say(format!("{}: {}, threads: {threads}", set.name, op.name()));
                let measured = pool.install(|| measure(&mut setting, op, least_precision(&set), args.seconds))?;
                report.add(row(name, &set, &params, op, threads, &measured))?;
            }
        }
        Ok(())
    });
    drop(progress);
    if format == Format::Table {
        promises.into_iter().try_for_each(|row| report.add(row))?;
    }
    // What was measured before an error is printed all the same.
    report.finish()?;
    measured
}

/// The bits of precision that a result of a set must have.
fn least_precision(set: &Set) -> f64 {
    LEAST_PRECISION - 40.0 + f64::from(set.scale_bits)
}

/// The sets that are asked for, with the number 0, or each chain that is asked for, once, in their order.
fn chains(args: &CkksArgs) -> Vec<(u64, Set)> {
    if !args.set.is_empty() {
        return args.set.iter().map(|&set| (0, set)).collect();
    }
    let asked = &args.chain;
    let all = [(Chain::One, sets::CHAIN_1), (Chain::Two, sets::CHAIN_2), (Chain::Three, sets::CHAIN_3)];
    let numbered = all.into_iter().chain([(Chain::Four, sets::CHAIN_4)]).zip(1..);
    let wanted = |chain: Chain| asked.contains(&Chain::All) || asked.contains(&chain);
    numbered.filter(|((chain, _), _)| wanted(*chain)).map(|((_, set), number)| (number, set)).collect()
}

/// What one row says.
struct Measured {
    times: Times,
    precision: f64,
    /// One transform, in the loop beside the operation.
    transform: Times,
    shares: Option<Shares>,
}

/// Parts of a key switch, each measured apart and in turn with the whole; fractions of the whole.
struct Shares {
    transforms: f64,
    conversion: f64,
    inner_product: f64,
    memory: f64,
}

fn measure(setting: &mut Setting, op: CkksOp, least: f64, seconds: f64) -> Result<Measured> {
    let made = setting.perform(op)?;
    let precision = setting.precision(op, made)?;
    ensure!(
        precision >= least,
        "{}: the result has {precision:.1} correct bits instead of {least} or more; this is a fault of fesc-ckks, please report it",
        op.name()
    );
    let params = setting.params().clone();
    let mut transforms = TransformLoop::new(&params, op.transforms(&params));
    if op == CkksOp::Rotate {
        return rotation(setting, transforms, precision, seconds);
    }
    let mut whole = || setting.perform(op);
    let mut alone = || {
        transforms.run();
        Ok(Made::Nothing)
    };
    let times = in_turn(seconds, &mut [&mut whole, &mut alone])?;
    let [whole, alone] = times[..] else { bail!("two works have two times") };
    Ok(Measured { times: whole, precision, transform: alone.divided(transforms.count()), shares: None })
}

/// A rotation with its parts.
fn rotation(setting: &mut Setting, mut transforms: TransformLoop, precision: f64, seconds: f64) -> Result<Measured> {
    let params = setting.params().clone();
    let (mut conversion, mut cached, mut streamed) =
        (Kernels::new(&params, false)?, Kernels::new(&params, false)?, Kernels::new(&params, true)?);
    let mut whole = || setting.perform(CkksOp::Rotate);
    let mut transforms_only = || {
        transforms.run();
        Ok(Made::Nothing)
    };
    let mut conversion = || {
        conversion.convert();
        Ok(Made::Nothing)
    };
    let mut cached = || {
        cached.inner_product();
        Ok(Made::Nothing)
    };
    let mut streamed = || {
        streamed.inner_product();
        Ok(Made::Nothing)
    };
    let works: &mut [Work<'_, Made>] =
        &mut [&mut whole, &mut transforms_only, &mut conversion, &mut cached, &mut streamed];
    let times = in_turn(seconds, works)?;
    let [whole, alone, conversion, cached, streamed] = times[..] else { bail!("five works have five times") };
    let share = |ms: f64| ms / whole.min_ms;
    let shares = Shares {
        transforms: share(alone.min_ms),
        conversion: share(conversion.min_ms),
        inner_product: share(cached.min_ms),
        memory: share((streamed.min_ms - cached.min_ms).max(0.0)),
    };
    Ok(Measured { times: whole, precision, transform: alone.divided(transforms.count()), shares: Some(shares) })
}

fn row(chain: u64, set: &Set, params: &Params, op: CkksOp, threads: u16, measured: &Measured) -> Row {
    let (transforms, min_ms) = (op.transforms(params), measured.times.min_ms);
    let share = |part: fn(&Shares) -> f64| measured.shares.as_ref().map_or(f64::NAN, part);
    let units = min_ms / measured.transform.min_ms;
    let row = Row::new()
        .with("n", params.degree() as u64)
        .with("levels", params.levels() as u64)
        .with("digits", SwitchCost::new(params, params.levels(), false).digits as u64)
        .with("log_qp", params.log_qp())
        .with("op", op.name())
        .with("threads", threads)
        .with("min_ms", min_ms)
        .with("median_ms", measured.times.median_ms)
        .with("precision_bits", measured.precision)
        .with("ntt_ratio", if transforms > 0 { units / transforms as f64 } else { f64::NAN })
        .detail("chain", chain)
        .detail("cpu_ms", measured.times.cpu_ms)
        .detail("transforms", transforms as u64)
        .detail("ntt_us", measured.transform.min_ms * 1e3)
        .detail("ntt_cpu_us", measured.transform.cpu_ms * 1e3)
        .detail("ntt_units", units)
        .detail("transforms_share", share(|s| s.transforms))
        .detail("conversion_share", share(|s| s.conversion))
        .detail("inner_product_share", share(|s| s.inner_product))
        .detail("memory_share", share(|s| s.memory))
        .detail("rest_share", share(|s| 1.0 - s.transforms - s.conversion - s.inner_product - s.memory));
    promise(row, set, params, Row::detail)
}

/// What a chain promises, whatever is measured: in the table once for each chain, in JSON in every row.
fn promise(row: Row, set: &Set, params: &Params, add: impl Fn(Row, &'static str, Value) -> Row) -> Row {
    let one = set.mask_distance();
    let row = add(row, "security_bits", params.security().into());
    let row = add(row, "mask_distance_log2", one.log2().into());
    let row = add(row, "mask_queries", QUERIES.into());
    add(row, "mask_distance_log2_over_queries", one.over(QUERIES).log2().into())
}
