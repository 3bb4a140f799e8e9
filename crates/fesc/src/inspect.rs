//! `fesc inspect`: what is in a checkpoint, read from its headers alone; or every kind of message of this
//! program; or the sets of CKKS.

use anyhow::Result;
use fesc_ckks::mask::QUERIES;
use fesc_ckks::sets::{self, Set};
use fesc_ckks::wire;
use fesc_infer::audit::{Message, messages as all_messages};
use fesc_model::Checkpoint;

use crate::cli::InspectArgs;
use crate::report::{self, Format, Report, Row};

/// Prints the summary of a checkpoint directory (no tensor is loaded), or a table.
pub fn run(args: &InspectArgs, format: Format) -> Result<()> {
    let Some(directory) = &args.directory else {
        return if args.sets { parameter_sets(format) } else { messages(format) };
    };
    let summary = Checkpoint::open(directory)?.summary();
    match format {
        Format::Json => report::line(&serde_json::to_string(&summary)?),
        Format::Table => report::line(&summary.to_string()),
    }
}

fn messages(format: Format) -> Result<()> {
    let mut report = Report::new(format);
    all_messages().try_for_each(|message| report.add(row(message)))?;
    report.finish()
}

fn row(message: &Message) -> Row {
    Row::new()
        .with("tag", format!("{:#06x}", message.tag))
        .with("message", message.name)
        .with("way", message.way())
        .with("phase", message.phase())
        .with("bytes", message.formula)
        .with("hidden", message.cover.name())
        .with("by", message.mask)
        .detail("crate", message.owner)
        .detail("tests", message.tests)
}

fn parameter_sets(format: Format) -> Result<()> {
    let mut report = Report::new(format);
    sets::ALL.iter().try_for_each(|set| report.add(parameter_set(set)?))?;
    report.finish()
}

fn parameter_set(set: &Set) -> Result<Row> {
    let params = set.params()?;
    Ok(Row::new()
        .with("set", set.name)
        .with("n", params.degree() as u64)
        .with("levels", params.levels() as u64)
        .with("depth", set.depth as u64)
        .with("digits", params.digits(params.levels()) as u64)
        .with("special_primes", params.specials() as u64)
        .with("log_qp", params.log_qp())
        .with("security_bits", params.security())
        .with("precision_bits", set.precision())
        .with("key_bytes", wire::switching_key_bytes(&params) as u64)
        .with("key_memory_bytes", params.key_memory() as u64)
        .with("mask_distance_log2", set.mask_distance().log2())
        .with("mask_queries", QUERIES)
        .with("mask_distance_log2_over_queries", set.mask_distance().over(QUERIES).log2()))
}
