//! Key switches at every level of a set: what a computation that goes down the levels pays.

use anyhow::{Result, bail, ensure};
use fesc_ckks::Ciphertext;
use fesc_ckks::server::SwitchCost;
use fesc_ckks::sets::Set;

use super::op::STEPS;
use super::probe::{LOWEST, LevelTimes};
use super::setting::Setting;
use crate::bench::timing::Times;
use crate::report::Row;

/// Three rows for each level, from the top.
pub fn rows(setting: &Setting, set: &Set, chain: u64, threads: u16, seconds: f64) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for level in (LOWEST..=setting.params().levels()).rev() {
        for (op, times, bits) in measure(setting, set, level, seconds)? {
            rows.push(row(setting, set, (chain, threads, level), op, times, bits));
        }
    }
    Ok(rows)
}

type Measured = (&'static str, Times, f64);

/// The three operations at one level, in turn, and the precision of their results.
fn measure(setting: &Setting, set: &Set, level: usize, seconds: f64) -> Result<[Measured; 3]> {
    let (evaluator, least) = (setting.evaluator(), super::least_precision(set));
    let ([a, b], [x, y]) = setting.at_level(level)?;
    let tensor = evaluator.tensor(&a, &b)?;
    let (p, r) = (evaluator.relinearise_rescale(&tensor)?, evaluator.rotate(&a, STEPS[0])?);
    let hoisted: Vec<Ciphertext> = evaluator.rotate_many(&a, &STEPS)?;
    let Some(h) = hoisted.last() else { bail!("rotations without a result") };
    let turned = |i: usize, step: i64| x[(i + step as usize) % x.len()];
    let bits = [
        setting.bits(&p, |i| x[i] * y[i])?,
        setting.bits(&r, |i| turned(i, STEPS[0]))?,
        setting.bits(h, |i| turned(i, STEPS[STEPS.len() - 1]))?,
    ];
    ensure!(
        bits.iter().all(|&b| b >= least),
        "level {level} of {}: results with {bits:.1?} correct bits instead of {least} or more; this is a fault of fesc-ckks, please report it",
        set.name
    );
    let times = LevelTimes::new(setting, level, seconds)?;
    Ok([
        ("relinearise_rescale", times.relinearise_rescale, bits[0]),
        ("rotate", times.rotate, bits[1]),
        ("hoisted_rotate", times.hoisted_rotate, bits[2]),
    ])
}

fn row(
    setting: &Setting,
    set: &Set,
    (chain, threads, level): (u64, u16, usize),
    op: &'static str,
    times: Times,
    bits: f64,
) -> Row {
    let params = setting.params();
    let cost = SwitchCost::new(params, level, op == "relinearise_rescale");
    Row::new()
        .with("n", params.degree() as u64)
        .with("levels", params.levels() as u64)
        .with("level", level as u64)
        .with("digits", cost.digits as u64)
        .with("log_qp", params.log_qp())
        .with("op", op)
        .with("threads", threads)
        .with("min_ms", times.min_ms)
        .with("median_ms", times.median_ms)
        .with("precision_bits", bits)
        .detail("set", set.name)
        .detail("chain", chain)
        .detail("cpu_ms", times.cpu_ms)
        .detail("transforms", cost.transforms as u64)
}
