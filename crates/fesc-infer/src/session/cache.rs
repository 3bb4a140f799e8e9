//! The client's cache of public parts: one file per model, named by the model id.
//!
//! A file appears under its name only when it is whole and checked (written aside, synced, renamed), and is checked again
//! against its name whenever it is read. Two processes may fill the cache at once: each writes its own file aside.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use fesc_net::Channel;
use fesc_ring::Prg;

use super::download::{Download, network};
use super::error::{Result, SessionError, at};
use super::hex::Hex32;
use super::public::Known;

/// A directory of public parts.
pub struct Cache {
    directory: PathBuf,
}

impl Cache {
    /// Opens a cache, making the directory if needed.
    pub fn open(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).map_err(at(directory))?;
        Ok(Self { directory: directory.to_path_buf() })
    }

    /// Where the public part of a model is, or would be.
    pub fn path(&self, id: Hex32) -> PathBuf {
        self.directory.join(format!("{id}.public"))
    }

    /// The public part of a model: `None` if it is not here. A damaged file is deleted, and is then not here.
    pub fn find(&self, id: Hex32) -> Result<Option<Known>> {
        let path = self.path(id);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(at(&path)(e)),
        };
        match Known::read(&mut BufReader::with_capacity(1 << 20, file), id, "its file is damaged") {
            Ok(known) => Ok(Some(known)),
            Err(_) => {
                fs::remove_file(&path).map_err(at(&path))?;
                Ok(None)
            }
        }
    }

    /// Downloads a public part of `bytes` bytes, checks it, and keeps it.
    pub fn fill(&self, id: Hex32, bytes: u64, channel: &mut Channel, prg: &mut Prg) -> Result<Known> {
        let aside = self.directory.join(format!(".{id}.{:016x}", prg.next_u64()));
        let kept = self.fill_aside(&aside, id, bytes, channel);
        if kept.is_err() {
            // Nothing half-made stays; if it cannot be deleted it is still under no model's name.
            let _ = fs::remove_file(&aside);
        }
        kept
    }

    fn fill_aside(&self, aside: &Path, id: Hex32, bytes: u64, channel: &mut Channel) -> Result<Known> {
        let file = OpenOptions::new().write(true).create_new(true).open(aside).map_err(at(aside))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        copy(&mut Download::new(channel, bytes), &mut out, aside)?;
        let file = out.into_inner().map_err(|e| at(aside)(e.into_error()))?;
        file.sync_all().map_err(at(aside))?;
        let read = File::open(aside).map_err(at(aside))?;
        let remedy = "the server sent another model than it offered; do not use it";
        let known = Known::read(&mut BufReader::with_capacity(1 << 20, read), id, remedy)?;
        let path = self.path(id);
        fs::rename(aside, &path).map_err(at(&path))?;
        Ok(known)
    }
}

/// Copies a stream; an error of the network is one, and an error of the disk is one.
fn copy(source: &mut impl Read, out: &mut impl Write, path: &Path) -> Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = match source.read(&mut buffer) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(network(e).map_or_else(at(path), SessionError::Net)),
        };
        let Some(got) = buffer.get(..n).filter(|g| !g.is_empty()) else { return Ok(()) };
        out.write_all(got).map_err(at(path))?;
    }
}
