//! Labelled documents: one JSON object a line, plain or compressed with zstd.
//!
//! Fields: `label` (0, 1, ...), `text`, and perhaps `id`; other fields are passed over. Blank lines too.
//! Whether a file is compressed is decided by its first bytes, not by its name; several frames and skippable
//! frames are taken.
//!
//! The reader streams: it holds one line (at most [`LINE_LIMIT`] bytes) and the zstd window (at most
//! [`WINDOW_LIMIT`]). Every error names the line. After an error the iterator ends, since nothing that
//! follows can be trusted.

mod frames;
#[cfg(test)]
mod tests;
mod tokens;

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{ModelError, Result};

use frames::Frames;
pub use tokens::{Tokens, at, read_tokens};

/// The longest line taken, in bytes: a document of about four million tokens.
pub const LINE_LIMIT: u64 = 16 << 20;
/// The largest zstd window taken, in bytes. `zstd -19` needs 8 MiB, `--long=25` needs all of it.
pub const WINDOW_LIMIT: u64 = 32 << 20;
/// Labels are below this.
pub const LABEL_LIMIT: usize = 1 << 16;

/// One labelled document. `Debug` shows where it is and how long, not its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    /// Its line in the file, from 1.
    pub line: usize,
    /// Its name, if the file gives one.
    pub id: Option<String>,
    /// Its class.
    pub label: usize,
    /// Its text.
    pub text: String,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document(line {}, label {}, {} bytes)", self.line, self.label, self.text.len())
    }
}

#[derive(Deserialize)]
struct Line {
    label: usize,
    text: String,
    #[serde(default)]
    id: Option<String>,
}

/// The documents of a file, in its order.
pub struct Documents {
    path: PathBuf,
    /// `None` after an error or the end.
    source: Option<Box<dyn BufRead + Send>>,
    line: usize,
    bytes: Vec<u8>,
}

impl fmt::Debug for Documents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Documents({}, {} lines read)", self.path.display(), self.line)
    }
}

impl Documents {
    /// Opens a file of either kind. Nothing but its first four bytes is read.
    pub fn open(path: &Path) -> Result<Self> {
        let io = |source| ModelError::Io { path: path.into(), source };
        let mut file = File::open(path).map_err(io)?;
        let mut first = Vec::with_capacity(4);
        Read::by_ref(&mut file).take(4).read_to_end(&mut first).map_err(io)?;
        let compressed = frames::begins(&first);
        let whole = BufReader::with_capacity(1 << 16, Cursor::new(first).chain(file));
        let source: Box<dyn BufRead + Send> =
            if compressed { Box::new(BufReader::with_capacity(1 << 16, Frames::new(whole))) } else { Box::new(whole) };
        Ok(Self { path: path.into(), source: Some(source), line: 0, bytes: Vec::new() })
    }

    /// The next line that is not blank, in `self.bytes`; false at the end.
    fn advance(&mut self) -> Result<bool, String> {
        loop {
            let Some(source) = &mut self.source else { return Ok(false) };
            self.bytes.clear();
            self.line += 1;
            let read = source.take(LINE_LIMIT + 1).read_until(b'\n', &mut self.bytes).map_err(|e| e.to_string())?;
            if read as u64 > LINE_LIMIT {
                return Err(format!("the line has more than {LINE_LIMIT} bytes; split the document"));
            }
            if read == 0 {
                self.source = None;
                return Ok(false);
            }
            if !self.bytes.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    fn parse(&self) -> Result<Document, String> {
        // The text of a library's message may repeat the document; a beginning of it says enough.
        let short = |e: serde_json::Error| {
            let text = e.to_string().replace(" at line 1 column ", " at column ");
            text.chars().take(200).collect::<String>()
        };
        // An array of the right values would do for the library.
        if self.bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err("a JSON object is expected".into());
        }
        let Line { label, text, id } = serde_json::from_slice(&self.bytes).map_err(short)?;
        if label >= LABEL_LIMIT {
            return Err(format!("label {label} is not below {LABEL_LIMIT}"));
        }
        Ok(Document { line: self.line, id, label, text })
    }
}

impl Iterator for Documents {
    type Item = Result<Document>;

    fn next(&mut self) -> Option<Self::Item> {
        let document = self.advance().and_then(|more| if more { self.parse().map(Some) } else { Ok(None) });
        let failed = |reason| {
            self.source = None;
            ModelError::Data { path: self.path.clone(), line: self.line, reason }
        };
        document.map_err(failed).transpose()
    }
}
