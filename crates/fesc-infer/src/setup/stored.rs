//! Bytes in a file that are read where they are needed.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Take, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use crate::{InferError, Result};

/// Bytes that [`Stored::copy`] holds.
const PIECE: usize = 1 << 20;

/// A file whose content does not change any more. Threads share it.
pub(super) struct Stored {
    /// One reader at a time: the file has one position.
    file: Mutex<File>,
}

/// A file without a name in `directory`: nobody else can open it, whoever else works in the directory does
/// not meet it, and it is gone when this process ends, however that happens.
pub(super) fn nameless(directory: &Path) -> Result<File> {
    let file = tempfile::tempfile_in(directory)?;
    // Before the first byte. Even without a name it has a door in /proc.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

impl Stored {
    pub fn new(file: File) -> Self {
        Self { file: Mutex::new(file) }
    }

    fn file(&self) -> MutexGuard<'_, File> {
        // A thread that died with it left no harm: every use sets the position.
        self.file.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Gives `bytes` bytes from `at` on to `take`.
    pub fn read<T>(
        &self,
        what: &'static str,
        at: u64,
        bytes: u64,
        take: impl FnOnce(&mut Take<&mut File>) -> Result<T>,
    ) -> Result<T> {
        let mut file = self.file();
        let (end, got) = (at.saturating_add(bytes), file.metadata()?.len());
        if got < end {
            return Err(InferError::Short { what, expected: end, got });
        }
        file.seek(SeekFrom::Start(at))?;
        take(&mut (&mut *file).take(bytes))
    }

    /// The same through a buffer.
    pub fn stream<T>(
        &self,
        what: &'static str,
        at: u64,
        bytes: u64,
        take: impl FnOnce(&mut dyn Read) -> Result<T>,
    ) -> Result<T> {
        self.read(what, at, bytes, |input| take(&mut BufReader::with_capacity(PIECE, input)))
    }

    /// Writes `bytes` bytes from `at` on to `out`. The file is free between two pieces, so that a slow reader
    /// keeps nobody waiting.
    pub fn copy(&self, what: &'static str, at: u64, bytes: u64, out: &mut impl Write) -> Result<()> {
        let mut piece = vec![0; PIECE];
        let mut done = 0;
        while done < bytes {
            piece.truncate((bytes - done).min(PIECE as u64) as usize);
            self.read(what, at + done, piece.len() as u64, |input| Ok(input.read_exact(&mut piece)?))?;
            out.write_all(&piece)?;
            done += piece.len() as u64;
        }
        Ok(())
    }
}
