//! `fesc inspect`: what is in a checkpoint, read from its headers alone.

use std::path::Path;

use anyhow::Result;
use fesc_model::Checkpoint;

use crate::report::{self, Format};

/// Prints the summary of a checkpoint directory; no tensor is loaded.
pub fn run(directory: &Path, format: Format) -> Result<()> {
    let summary = Checkpoint::open(directory)?.summary();
    match format {
        Format::Json => report::line(&serde_json::to_string(&summary)?),
        Format::Table => report::line(&summary.to_string()),
    }
}
