//! The client's half of the linear layers, which does not depend on the document
//! ([`fesc_rlwe::linear::Prepared`]).
//!
//! [`crate::Schedule::blocks`] lists what a run takes, in order. A source of them is a [`BlockSource`]:
//! [`FreshBlocks`] computes each when it is asked for, [`BlocksAhead`] computes them in a thread of its own
//! and keeps a few ready. Either way each is used once: a prepared block is moved out and consumed by its one
//! message (docs/SECURITY-ARGUMENTS.md, A).

pub mod disk;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use fesc_ring::Prg;
use fesc_rlwe::linear::{Block, Prepared};

use crate::schedule::Schedule;
use crate::setup::{ClientSetup, Matrix};
use crate::{InferError, Result};

/// One block of one matrix on one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockId {
    /// The layer.
    pub layer: usize,
    /// The matrix.
    pub matrix: Matrix,
    /// The segment.
    pub segment: usize,
    /// Which block of the segment.
    pub index: usize,
    /// The block.
    pub block: Block,
}

impl BlockId {
    /// Draws a fresh secret and computes the block.
    ///
    /// # Errors
    /// If the setup has no such matrix.
    pub fn prepare(&self, setup: &ClientSetup, prg: &mut Prg) -> Result<Prepared> {
        Ok(Prepared::new(&setup.hint(self.layer, self.matrix)?, self.block, prg)?)
    }
}

/// A source of prepared blocks. A run asks in the order of [`Schedule::blocks`].
pub trait BlockSource {
    /// The prepared block of `pad`, for the first and only time.
    ///
    /// # Errors
    /// If there is none.
    fn take(&mut self, pad: &BlockId) -> Result<Prepared>;

    /// Seconds of computing so far. They are input-independent: a report counts them as offline.
    fn seconds(&self) -> f64;
}

/// Computes each block when it is asked for.
pub struct FreshBlocks<'a> {
    setup: &'a ClientSetup,
    prg: Prg,
    seconds: f64,
}

impl<'a> FreshBlocks<'a> {
    /// From the client's setup and randomness of its own.
    pub fn new(setup: &'a ClientSetup, prg: Prg) -> Self {
        Self { setup, prg, seconds: 0.0 }
    }
}

impl BlockSource for FreshBlocks<'_> {
    fn take(&mut self, pad: &BlockId) -> Result<Prepared> {
        let start = Instant::now();
        let made = pad.prepare(self.setup, &mut self.prg);
        self.seconds += start.elapsed().as_secs_f64();
        made
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }
}

type Made = Result<(BlockId, Prepared, f64)>;

/// Computes blocks in a thread, a few ahead of the run. Dropping it ends the thread.
pub struct BlocksAhead {
    ready: Option<Receiver<Made>>,
    thread: Option<JoinHandle<()>>,
    seconds: f64,
}

impl BlocksAhead {
    /// Starts the thread; at most `depth` blocks wait at a time (at Mamba-base one is 70 MB).
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(setup: Arc<ClientSetup>, schedule: &Schedule, depth: usize, prg: Prg) -> Result<Self> {
        let (sender, ready) = sync_channel(depth.max(1));
        let schedule = schedule.clone();
        let work = move || fill(&setup, &schedule, prg, &sender);
        let thread = std::thread::Builder::new().name("fesc-pads".into()).spawn(work)?;
        Ok(Self { ready: Some(ready), thread: Some(thread), seconds: 0.0 })
    }
}

/// Sends every block, or the error that ended the work; ends when nobody listens any more.
fn fill(setup: &ClientSetup, schedule: &Schedule, mut prg: Prg, sender: &SyncSender<Made>) {
    for pad in schedule.blocks() {
        let start = Instant::now();
        let made = pad.and_then(|pad| Ok((pad, pad.prepare(setup, &mut prg)?, start.elapsed().as_secs_f64())));
        let failed = made.is_err();
        if sender.send(made).is_err() || failed {
            return;
        }
    }
}

impl BlockSource for BlocksAhead {
    fn take(&mut self, pad: &BlockId) -> Result<Prepared> {
        let made = self.ready.as_ref().and_then(|ready| ready.recv().ok()).ok_or(InferError::BlockSource)??;
        let (found, prepared, seconds) = made;
        self.seconds += seconds;
        if found != *pad {
            return Err(InferError::Misuse { what: "prepared blocks", why: "they were made for another schedule" });
        }
        Ok(prepared)
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }
}

impl Drop for BlocksAhead {
    fn drop(&mut self) {
        // The thread sees that nobody listens, at the latest after the block it is at.
        self.ready = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
