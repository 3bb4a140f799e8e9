//! `fesc inspect`: what is in a checkpoint, read from its headers alone; or every kind of message of this program.

use anyhow::Result;
use fesc_infer::audit::{KINDS, Kind};
use fesc_model::Checkpoint;

use crate::cli::InspectArgs;
use crate::report::{self, Format, Report, Row};

/// Prints the summary of a checkpoint directory (no tensor is loaded), or the table of messages.
pub fn run(args: &InspectArgs, format: Format) -> Result<()> {
    let Some(directory) = &args.directory else {
        return messages(format);
    };
    let summary = Checkpoint::open(directory)?.summary();
    match format {
        Format::Json => report::line(&serde_json::to_string(&summary)?),
        Format::Table => report::line(&summary.to_string()),
    }
}

fn messages(format: Format) -> Result<()> {
    let mut report = Report::new(format);
    KINDS.iter().try_for_each(|kind| report.add(row(kind)))?;
    report.finish()
}

fn row(kind: &Kind) -> Row {
    Row::new()
        .with("tag", format!("{:#06x}", kind.tag))
        .with("message", kind.name)
        .with("way", kind.way())
        .with("phase", kind.phase())
        .with("bytes", kind.formula)
        .with("hidden", kind.cover.name())
        .with("by", kind.mask)
        .detail("crate", kind.owner)
        .detail("tests", kind.tests)
}
