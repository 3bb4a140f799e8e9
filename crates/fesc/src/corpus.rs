//! Labelled documents of a command: where they are, and their tokens.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fesc_model::data::read_tokens;
pub use fesc_model::data::{Tokens, at};

use crate::exit::Refusal;
use crate::progress::Progress;

/// `NAME.jsonl` or `NAME.jsonl.zst` in a directory; both or neither is an error.
pub fn file(directory: &Path, name: &str) -> Result<PathBuf> {
    let [plain, compressed] = ["jsonl", "jsonl.zst"].map(|end| directory.join(format!("{name}.{end}")));
    match (plain.exists(), compressed.exists()) {
        (true, false) => Ok(plain),
        (false, true) => Ok(compressed),
        (both, _) => {
            let which = if both { "both" } else { "neither" };
            let text =
                format!("{} has {which} of {name}.jsonl and {name}.jsonl.zst; one is needed", directory.display());
            Err(Refusal::Usage(text).into())
        }
    }
}

/// The threads asked for, or all cores.
pub fn workers(threads: Option<u16>) -> usize {
    threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// Reads documents as tokens, at most `limit`; labels must be below `classes`.
pub fn read(
    path: &Path,
    limit: usize,
    classes: Option<usize>,
    encode: impl Fn(&str) -> fesc_model::Result<Vec<u32>> + Sync,
) -> Result<Vec<Tokens>> {
    let progress = Progress::start(format!("reading {}", path.display()));
    let seen = |count| progress.say(format!("reading {}: {count} documents", path.display()));
    Ok(read_tokens(path, limit, classes, encode, seen)?)
}
