//! `fesc bench boundary`: what crosses between shares and ciphertexts around one scan (paper, table
//! ablation_boundary).
//!
//! Ciphertexts and bytes follow from declarations, layouts of a kernel from [`uploads`]. Seconds are those of
//! a sample, which is converted there and back between two parties in this process, times the number of
//! ciphertexts.

mod sample;

use anyhow::Result;
use fesc_ckks::sets::{self, Set};
use fesc_ckks::{Params, wire};
use fesc_hybrid::backend::{Chain, Operation};
use fesc_hybrid::boundary::{Fixed, LIFT_BITS, MaskBound, ToShares, Values};
use fesc_mpc::protocol::Extend;
use fesc_mpc::{Cost, Ledger, Role};
use fesc_ring::{LongRing, Ring};
use fesc_scan::hescan::uploads::{self, Declared, Prices};
use fesc_scan::hescan::{ScanShape, paper};
use serde_json::Value;

use super::ckks::Probe;
use super::scan::{choose, scan_shape};
use crate::cli::{BoundaryArgs, Packing, ScanArgs};
use crate::measured::named;
use crate::progress::Progress;
use crate::report::{Format, Report, Row};
pub use sample::{Sample, Size};

/// Bits of the ring of shares.
const RING_BITS: u32 = 48;
/// Fractional bits of shares.
const FRACTION: u32 = 16;
/// Bits of a value, sign included: magnitudes below 16.
const VALUE_BITS: u32 = FRACTION + sets::VALUE_BITS + 1;

/// The paper's ciphertexts and gigabytes at 128 .. 2,048 tokens of Mamba-base. The bytes are of one layer:
/// twelve of them take its minutes at 1 Gbit/s. What else of a layer crosses is in both.
const PAPER: [(&str, [(u64, f64); 5]); 3] = [
    ("dense", [(3_123, 6.20), (6_245, 12.39), (12_489, 24.79), (24_978, 49.57), (49_955, 99.15)]),
    ("contraction", [(1_623, 4.78), (3_245, 9.56), (6_489, 19.12), (12_978, 38.23), (25_955, 76.46)]),
    ("factorised", [(124, 0.39), (246, 0.77), (490, 1.54), (980, 3.08), (1_958, 6.16)]),
];

/// One way to cross.
struct Variant {
    name: &'static str,
    layout: &'static str,
    /// Distinct values on the way up.
    values: u64,
    /// Levels of the uploads, each with how many.
    uploads: Vec<(usize, usize)>,
    /// Ciphertexts on the way down.
    down: usize,
    /// What a kernel makes of it, and seconds on the network; nothing where no kernel takes it.
    own: Option<Own>,
}

/// A layout of a kernel.
struct Own {
    params: Params,
    set: Set,
    unpacking: u64,
    /// With the kernel itself.
    predicted_s: f64,
    cheapest: bool,
}

impl Variant {
    fn up(&self) -> usize {
        self.uploads.iter().map(|(_, n)| n).sum()
    }
}

/// Measures and prints.
pub fn run(args: &BoundaryArgs, format: Format) -> Result<()> {
    let shape = scan_shape(&args.shape, args.length as usize)?;
    let layers = named(&args.shape)?.shape().layers as u64;
    let progress = Progress::start("boundary");
    let scan = ScanArgs { packed: true, ..ScanArgs::new(Packing::Hybrid, &args.shape, args.length) };
    let plan = choose(&scan, shape)?;
    let params = plan.set.params()?;
    progress.say(format!("{}: converting a sample of {} ciphertexts", plan.set.name, args.sample));
    let ciphertexts = args.sample as usize;
    // All different, at the top.
    let (level, values) = (params.levels(), 2 * params.slots() * ciphertexts);
    let size = Size { level, ciphertexts, values, threads: args.threads.into() };
    let sample = Sample::measure(&params, &plan.set, &size)?;
    progress.say(format!("{}: a key switch", plan.set.name));
    let prices = prices(args, &plan.set, &sample)?;
    drop(progress);
    let mut variants = compact_ones(&shape, &params);
    let layouts = uploads::declare(&plan)?;
    variants.extend(own_ones(&layouts, &prices, paper::boundary(&shape).0)?);
    let mut report = Report::new(format);
    for variant in variants {
        report.add(row(args, &plan.set, &params, &variant, layers, &sample)?)?;
    }
    report.finish()
}

/// What the network and this machine take.
fn prices(args: &BoundaryArgs, set: &Set, sample: &Sample) -> Result<Prices> {
    let probe = Probe::new(set, |level| level == set.levels, 0.0, args.threads.into())?;
    let rotation = probe.seconds(Operation::Rotation, set.levels);
    let transforms = Chain::of_set(set).switch_transforms(set.levels) as f64;
    let convert_s = [sample.up_expanded(args.threads).seconds, sample.down.seconds];
    let transform_s = rotation / transforms / f64::from(args.threads);
    Ok(Prices { bits_per_second: args.net.bits_per_second, transform_s, convert_s })
}

/// The layouts of the kernel, the cheapest one marked.
fn own_ones(layouts: &[Declared], prices: &Prices, values: u64) -> Result<Vec<Variant>> {
    let least = uploads::cheapest(layouts, prices);
    let variant = |(i, d): (usize, &Declared)| {
        let (predicted_s, cheapest) = (d.seconds(prices), least == Some(i));
        let own = Own { params: d.set.params()?, set: d.set, unpacking: d.unpacking, predicted_s, cheapest };
        let uploads = d.uploads.iter().map(|(&level, &n)| (level, n)).collect();
        let (layout, down) = (d.layout.name(), d.results);
        Ok(Variant { name: "factorised", layout, values, uploads, down, own: Some(own) })
    };
    layouts.iter().enumerate().map(variant).collect()
}

/// What does not depend on a kernel: two values in each slot, all at the top level.
fn compact_ones(shape: &ScanShape, params: &Params) -> Vec<Variant> {
    let (slots, top) = (params.slots() as u64, params.levels());
    let ScanShape { tokens, heads, groups, state, .. } = *shape;
    let [outputs, decays, states] =
        [tokens * shape.channels(), tokens * heads, tokens * groups * state].map(|n| n as u64);
    let dense = outputs * state as u64;
    let full = |values: u64| values.div_ceil(2 * slots) as usize;
    let variant =
        |name, values, up, down| Variant { name, layout: "compact", values, uploads: vec![(top, up)], down, own: None };
    let compact = |name, values, down| variant(name, values, full(values), full(down));
    vec![compact("dense", dense + decays, dense), compact("contraction", dense + decays + states, outputs)]
}

/// How results are converted.
fn to_shares(params: &Params, set: &Set, ciphertexts: usize) -> Result<ToShares> {
    let bound = MaskBound { phase_bits: set.scale_bits + sets::VALUE_BITS, masked: sets::MASKED };
    let fixed = Fixed { ring: Ring::new(RING_BITS)?, fraction: FRACTION };
    Ok(ToShares::new(params, ciphertexts, params.scale(), bound, fixed)?)
}

/// What is converted to ciphertexts, so many values in an inference.
fn values(inference: u64) -> Result<Values> {
    Ok(Values { ring: Ring::new(RING_BITS)?, bits: VALUE_BITS, fraction: FRACTION, inference })
}

/// The cost of both ways, and the bytes up with uploads made ahead.
fn declared(params: &Params, set: &Set, variant: &Variant, layers: u64) -> Result<(Cost, u64)> {
    let values = values(variant.values * layers)?;
    // As the conversion chooses its integers: 40 bits, and one for each doubling of the values.
    let width = values.bits + LIFT_BITS + values.inference.next_power_of_two().ilog2();
    let parts = LongRing::new(width)?;
    let extend = Extend::new(values.ring, values.bits, parts, variant.values as usize)?;
    let mut ledger = Ledger::new();
    extend.declare(&mut ledger)?;
    let bits = ledger.cost().p0_to_p1_bytes;
    let uploads: usize = variant.uploads.iter().map(|&(level, n)| n * wire::upload_bytes(params, level)).sum();
    ledger.send(Role::P0, uploads);
    to_shares(params, set, variant.down)?.declare(&mut ledger);
    Ok((ledger.cost(), bits + parts.packed_len(variant.values as usize) as u64))
}

fn row(
    args: &BoundaryArgs,
    set: &Set,
    params: &Params,
    variant: &Variant,
    layers: u64,
    sample: &Sample,
) -> Result<Row> {
    let own = variant.own.as_ref();
    let (params, set) = own.map_or((params, set), |own| (&own.params, &own.set));
    let (cost, ahead) = declared(params, set, variant, layers)?;
    let up = sample.up_expanded(args.threads);
    let seconds = variant.up() as f64 * up.seconds + variant.down as f64 * sample.down.seconds;
    let table = paper_figures(args, variant);
    Ok(Row::new()
        .with("variant", variant.name)
        .with("layout", variant.layout)
        .with("length", args.length)
        .with("ciphertexts_up", variant.up())
        .with("ciphertexts_down", variant.down)
        .with("up_bytes", cost.p0_to_p1_bytes)
        .with("down_bytes", cost.p1_to_p0_bytes)
        .with("seconds", seconds)
        .with("unpacking", own.map(|own| own.unpacking))
        .with("predicted_s", own.map(|own| own.predicted_s))
        .with("cheapest", own.is_some_and(|own| own.cheapest))
        .with("paper_ciphertexts", table.map_or(Value::Null, |(n, _)| n.into()))
        .with("paper_bytes", table.map_or(Value::Null, |(_, gb)| (gb * 1e9).into()))
        .detail("shape", args.shape.as_str())
        .detail("set", set.name)
        .detail("values_up", variant.values)
        .detail("ahead_bytes", ahead)
        .detail("rounds", cost.rounds)
        .detail("sample", args.sample)
        .detail("up_ms", up.seconds * 1e3)
        .detail("up_cpu_ms", up.cpu_s * 1e3)
        .detail("down_ms", sample.down.seconds * 1e3)
        .detail("down_cpu_ms", sample.down.cpu_s * 1e3)
        .detail("net", args.net.to_string())
        .detail("threads", args.threads))
}

/// The paper's figures, beside the layout that is nearest to its own.
fn paper_figures(args: &BoundaryArgs, variant: &Variant) -> Option<(u64, f64)> {
    let at = (0..5).find(|i| 128 << i == args.length)?;
    let (_, row) = PAPER.iter().find(|(name, _)| *name == variant.name)?;
    (args.shape == "base" && variant.layout == "compact").then(|| row[at])
}
