//! `fesc bench residency`: the two-pass schedule of the paper's packing, counted for several sizes of blocks
//! (paper, table scan_residency). Nothing is encrypted.

use anyhow::Result;
use fesc_ckks::sets;
use fesc_hybrid::backend::{Backend, Chain};
use fesc_scan::hescan::chunks::{Carry, Chunks, Options, Work};
use fesc_scan::hescan::cut::deep_enough;
use fesc_scan::hescan::prefix::Topology;
use fesc_scan::hescan::{ScanShape, paper, trial};
use serde_json::{Value, json};

use super::scan::scan_shape;
use crate::cli::ResidencyArgs;
use crate::exit::Refusal;
use crate::progress::Progress;
use crate::report::{Format, Report, Row};

/// `log2 N` of the paper's chains for long documents.
const LOG_N: u32 = 16;
/// Special primes of the chain that is counted on: they change no count.
const SPECIALS: usize = 9;

/// Counts and prints.
pub fn run(args: &ResidencyArgs, format: Format) -> Result<()> {
    let shape = scan_shape(&args.shape, args.length as usize)?;
    let progress = Progress::start("residency");
    let mut report = Report::new(format);
    let counted = args.block.iter().try_for_each(|&block| {
        progress.say(format!("blocks of {block} tokens"));
        report.add(row(args, shape, block as usize)?)
    });
    drop(progress);
    report.finish()?;
    counted
}

fn row(args: &ResidencyArgs, shape: ScanShape, block: usize) -> Result<Row> {
    let slots = 1 << (LOG_N - 1);
    let options = |carry| Options {
        state_slots: paper::STATE_SLOTS,
        block,
        topology: Topology::BrentKung,
        carry,
        work: args.work,
        hold: args.hold,
        carry_in: false,
        carry_out: false,
        end: sets::BOUNDARY,
    };
    let kernel = |carry| Chunks::new(shape, slots, options(carry)).map_err(|e| Refusal::Usage(e.to_string()));
    let (parallel, serial) = (kernel(Carry::Parallel)?, kernel(Carry::Serial)?);
    let top = parallel.depth() + sets::BOUNDARY;
    let count = trial::count(&parallel, Chain::ideal(slots, 40, top, SPECIALS))?;
    let tally = count.operations().tally();
    let part = |name: &str| count.parts().get(name).map_or(0, |t| t.key_switches());
    let (broadcast, again) = (part("broadcast"), part("build again"));
    let known = args.shape == "base" && shape.tokens == 2048 && args.work == Work::Counted;
    let table = paper::residency().into_iter().find(|r| known && r.switches.block == block);
    let of = |f: &dyn Fn(&paper::Residency) -> Value| table.as_ref().map_or(Value::Null, f);
    Ok(Row::new()
        .with("length", shape.tokens)
        .with("block", block)
        .with("blocks", shape.tokens.div_ceil(block))
        .with("compositions", parallel.compositions() * parallel.chunks() as u64)
        .with("formula", paper::key_switches(&shape, paper::STATE_SLOTS, block))
        .with("counted", tally.key_switches() - broadcast - again)
        .with("key_switches", tally.key_switches())
        .with("depth", parallel.depth())
        .with("depth_serial", serial.depth())
        .with("live_bytes", count.live().most_bytes())
        .with("set", deep_enough(LOG_N, parallel.depth()).map_or(Value::Null, |s| s.name.into()))
        .with("paper_key_switches", of(&|r| r.switches.table.into()))
        .with("paper_peak_bytes", of(&|r| json!(r.peak.map(|gb| gb * 1e9))))
        .with("paper_s", of(&|r| json!(r.seconds)))
        .detail("shape", args.shape.as_str())
        .detail("chunks", parallel.chunks())
        .detail("broadcast", broadcast)
        .detail("build_again", again))
}
