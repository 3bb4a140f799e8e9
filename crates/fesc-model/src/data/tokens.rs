//! Labelled documents as tokens: read one after the other, tokenized on all cores.

use std::path::Path;

use rayon::prelude::*;

use super::{Document, Documents};
use crate::{ModelError, Result};

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

/// Puts the file and the line before an error about a document.
pub fn at(path: &Path, line: usize, reason: impl ToString) -> ModelError {
    ModelError::Data { path: path.into(), line, reason: reason.to_string() }
}

/// Reads documents, at most `limit`, and lets `encode` turn each text into tokens. Labels must be below
/// `classes`. `seen` hears how many were read, now and then.
///
/// # Errors
/// If the file cannot be read, has no document, or one of them has no token or a label too large; the line is
/// named.
pub fn read_tokens(
    path: &Path,
    limit: usize,
    classes: Option<usize>,
    encode: impl Fn(&str) -> Result<Vec<u32>> + Sync,
    mut seen: impl FnMut(usize),
) -> Result<Vec<Tokens>> {
    let mut documents = Documents::open(path)?.take(limit);
    let mut all = Vec::new();
    loop {
        let batch = documents.by_ref().take(BATCH).collect::<Result<Vec<Document>>>()?;
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
        all.extend(batch.par_iter().map(one).collect::<Result<Vec<_>>>()?);
        seen(all.len());
    }
    if all.is_empty() {
        return Err(at(path, 1, "the file has no document"));
    }
    Ok(all)
}
