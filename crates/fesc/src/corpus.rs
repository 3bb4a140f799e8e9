//! Labelled documents as tokens: read one after the other, tokenized on all cores.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fesc_model::ModelError;
use fesc_model::data::{Document, Documents};
use rayon::prelude::*;

use crate::exit::Refusal;
use crate::progress::Progress;

/// Documents that are tokenized at once: enough for all cores, few in memory.
const BATCH: usize = 64;

/// One document, ready for a model.
pub struct Tokens {
    /// Its line in the file.
    pub line: usize,
    /// Its class.
    pub label: usize,
    /// Its tokens, as many as were asked for.
    pub ids: Vec<u32>,
}

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

/// Puts the file and the line before an error about a document.
pub fn at(path: &Path, line: usize, reason: impl ToString) -> ModelError {
    ModelError::Data { path: path.into(), line, reason: reason.to_string() }
}

/// Reads documents, at most `limit`, and lets `encode` turn each text into tokens. Labels must be below
/// `classes`.
pub fn read(
    path: &Path,
    limit: usize,
    classes: Option<usize>,
    encode: impl Fn(&str) -> fesc_model::Result<Vec<u32>> + Sync,
) -> Result<Vec<Tokens>> {
    let progress = Progress::start(format!("reading {}", path.display()));
    let mut documents = Documents::open(path)?.take(limit);
    let mut all = Vec::new();
    loop {
        let batch = documents.by_ref().take(BATCH).collect::<Result<Vec<Document>, _>>()?;
        if batch.is_empty() {
            break;
        }
        let one = |document: &Document| {
            let Document { line, label, text, .. } = document;
            if let Some(classes) = classes.filter(|classes| label >= classes) {
                return Err(at(path, *line, ModelError::Label { label: *label, classes }));
            }
            let ids = encode(text).map_err(|e| at(path, *line, e))?;
            if ids.is_empty() {
                return Err(at(path, *line, ModelError::NoTokens));
            }
            Ok(Tokens { line: *line, label: *label, ids })
        };
        all.extend(batch.par_iter().map(one).collect::<Result<Vec<_>, _>>()?);
        progress.say(format!("reading {}: {} documents", path.display(), all.len()));
    }
    if all.is_empty() {
        return Err(at(path, 1, "the file has no document").into());
    }
    Ok(all)
}
