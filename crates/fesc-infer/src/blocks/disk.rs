//! Prepared blocks of the linear layers on disk, beside the correlations of their session: the client's
//! online phase then has no product of ring elements left.
//!
//! ```text
//! NNNNNNNN.block   magic (8)  session (32)  number, layer, matrix, segment, index (8 each)
//!                  block (48 bits each)  SHA-256 of all that
//! ```
//!
//! A block is used once: [`BlockReader`] reads a file, deletes it, and only then hands it out; the directory
//! as a whole is marked as used before ([`crate::session::source::stores`]). Files have mode 0600. At
//! Mamba-base a segment of 2,048 tokens takes about 90 MB a layer.
//!
//! Not guaranteed: that a deleted file cannot be read back from the medium.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use fesc_rlwe::Params;
use fesc_rlwe::linear::Prepared;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::blocks::{BlockId, BlockSource};
use crate::schedule::Schedule;
use crate::setup::ClientSetup;
use crate::{InferError, Result};

const MAGIC: &[u8; 8] = b"FESCblk1";
const HEAD: usize = 80;
const DIGEST: usize = 32;

fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:08}.block"))
}

/// What a file begins with: whose block it is, and which.
fn head(session: &[u8; 32], number: u64, pad: &BlockId) -> Vec<u8> {
    let place = [pad.layer, pad.matrix.index(), pad.segment, pad.index].map(|n| (n as u64).to_le_bytes());
    [&MAGIC[..], session, &number.to_le_bytes(), place.as_flattened()].concat()
}

/// Bytes of the file of each block of a run, in order.
pub fn bytes_of(schedule: &Schedule) -> impl Iterator<Item = Result<usize>> + '_ {
    schedule.blocks().map(|pad| {
        let (pad, params) = (pad?, Params::linear()?);
        let shape = pad.matrix.shape(schedule.outline().shape())?;
        Ok(HEAD + Prepared::packed_len(&params, &shape, &pad.block) + DIGEST)
    })
}

/// Computes the blocks of a run and writes them, one after the other.
pub struct BlockWriter<'a> {
    directory: PathBuf,
    session: [u8; 32],
    setup: &'a ClientSetup,
    next: u64,
}

impl<'a> BlockWriter<'a> {
    /// Into a directory, for one session.
    pub fn new(directory: &Path, session: [u8; 32], setup: &'a ClientSetup) -> Self {
        Self { directory: directory.to_path_buf(), session, setup, next: 0 }
    }

    /// Makes one block and keeps it.
    ///
    /// # Errors
    /// If the setup has no such matrix, or the disk fails.
    pub fn keep(&mut self, pad: &BlockId, prg: &mut fesc_ring::Prg) -> Result<()> {
        let block = pad.prepare(self.setup, prg)?.pack();
        let head = head(&self.session, self.next, pad);
        let digest = Sha256::new().chain_update(&head).chain_update(&*block).finalize();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path(&self.directory, self.next))?;
        for part in [&head[..], &block, &digest] {
            file.write_all(part)?;
        }
        file.sync_all()?;
        self.next += 1;
        Ok(())
    }
}

/// Blocks that a [`BlockWriter`] wrote, in the order of their use.
pub struct BlockReader<'a> {
    directory: PathBuf,
    session: [u8; 32],
    schedule: &'a Schedule,
    next: u64,
}

impl<'a> BlockReader<'a> {
    /// From the directory of one session. Nothing is read yet.
    pub fn new(directory: &Path, session: [u8; 32], schedule: &'a Schedule) -> Self {
        Self { directory: directory.to_path_buf(), session, schedule, next: 0 }
    }

    fn read(&mut self, pad: &BlockId) -> Result<Prepared> {
        let damaged = InferError::Misuse {
            what: "kept blocks",
            why: "a file is damaged, or of another session; delete the directory and prepare again",
        };
        let (path, params) = (path(&self.directory, self.next), Params::linear()?);
        let shape = pad.matrix.shape(self.schedule.outline().shape())?;
        let bytes = HEAD + Prepared::packed_len(&params, &shape, &pad.block) + DIGEST;
        let mut read = Zeroizing::new(Vec::with_capacity(bytes + 1));
        File::open(&path)?.take(bytes as u64 + 1).read_to_end(&mut read)?;
        fs::remove_file(&path)?;
        let head = head(&self.session, self.next, pad);
        self.next += 1;
        let Some((body, digest)) = read.split_last_chunk::<DIGEST>() else { return Err(damaged) };
        if read.len() != bytes || Sha256::digest(body)[..] != digest[..] {
            return Err(damaged);
        }
        let block = body.strip_prefix(&head[..]).ok_or(damaged)?;
        Ok(Prepared::unpack(&params, &shape, pad.block, block)?)
    }
}

impl BlockSource for BlockReader<'_> {
    fn take(&mut self, pad: &BlockId) -> Result<Prepared> {
        self.read(pad)
    }

    fn seconds(&self) -> f64 {
        // Nothing is computed; reading is a part of the run.
        0.0
    }
}
