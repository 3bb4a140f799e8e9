//! How much a store directory may hold, and for how long: a client decides how many stores a server keeps, so
//! that both are limited.
//!
//! Sizes are those on disk: every file takes whole blocks of 4 KiB. They are known before anything is made
//! ([`bytes_of`]), and the room is reserved then, so that several clients together do not pass the limit.
//! Only this process is counted that way: two servers on one store directory can pass it by what they make at
//! once.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fesc_mpc::Role;
use fesc_mpc::provider::Store;

use super::{NOTE, StoreDirectory};
use crate::blocks::disk;
use crate::schedule::Schedule;
use crate::session::error::{Result, at};

const BLOCK: u64 = 4096;
/// The directory, and of its files the note, the session and the number of correlations; the lock is empty.
const FIXED: u64 = 4 * BLOCK;

/// Stores and their bytes: what a store directory may hold, or holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Stores.
    pub stores: usize,
    /// Their bytes on disk.
    pub bytes: u64,
}

fn on_disk(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK)
}

/// Bytes on disk of one party's store for a run: correlations, and the client's blocks of the linear layers.
pub fn bytes_of(schedule: &Schedule, role: Role) -> Result<u64> {
    let halves = schedule.demand().map(|request| Ok(Store::bytes_of(&request?, role)));
    let blocks = disk::bytes_of(schedule).filter(|_| role == Role::P0);
    halves.chain(blocks).try_fold(FIXED, |sum, bytes: crate::Result<usize>| Ok(sum + on_disk(bytes? as u64)))
}

/// Room for stores that are to be made; given back when dropped.
pub struct Reservation {
    reserved: Arc<Mutex<Amount>>,
    left: usize,
    each: u64,
}

impl Reservation {
    /// One of them is on the store directory now, and is counted there.
    pub fn kept(&mut self) {
        self.give_back(1);
    }

    fn give_back(&mut self, count: usize) {
        let count = count.min(self.left);
        self.left -= count;
        let mut reserved = lock(&self.reserved);
        reserved.stores -= count;
        reserved.bytes -= self.each * count as u64;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.give_back(self.left);
    }
}

// Nothing that can panic runs under the lock, so a poisoned amount is a valid one.
fn lock(reserved: &Mutex<Amount>) -> MutexGuard<'_, Amount> {
    reserved.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoreDirectory {
    /// Whole, unused stores.
    pub fn holds(&self) -> Result<Amount> {
        // Without a note it is none of ours, whatever its name.
        let ours = self.ids()?.into_iter().map(|id| self.path(id)).filter(|path| path.join(NOTE).exists());
        ours.map(|path| size(&path))
            .try_fold(Amount::default(), |sum, bytes| Ok(Amount { stores: sum.stores + 1, bytes: sum.bytes + bytes? }))
    }

    /// Room for `count` stores of `each` bytes besides those that are here and those that other sessions of
    /// this process may still make; else what there is.
    pub fn reserve(&self, count: usize, each: u64, limit: Amount) -> Result<std::result::Result<Reservation, Amount>> {
        // Held while the stores are counted, so that two sessions cannot both get the last room.
        let mut reserved = lock(&self.reserved);
        let mut there = self.holds()?;
        there.stores += reserved.stores;
        there.bytes = there.bytes.saturating_add(reserved.bytes);
        let more = each.saturating_mul(count as u64);
        if there.stores.saturating_add(count) > limit.stores || there.bytes.saturating_add(more) > limit.bytes {
            return Ok(Err(there));
        }
        reserved.stores += count;
        reserved.bytes += more;
        Ok(Ok(Reservation { reserved: Arc::clone(&self.reserved), left: count, each }))
    }

    /// Deletes unused stores that are older than `age`, but for those that somebody has claimed. Returns how
    /// many.
    pub fn expire(&self, age: Duration) -> Result<usize> {
        let _alone = self.locked(std::fs::File::lock)?;
        let mut gone = 0;
        for id in self.ids()? {
            let note = self.path(id).join(NOTE);
            let made = match fs::metadata(&note).and_then(|m| m.modified()) {
                // Without a note it is none of ours, whatever its name.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                made => made.map_err(at(&note))?,
            };
            // A store from the future, after the clock was set back, is not old.
            if made.elapsed().is_ok_and(|since| since > age)
                && let Some(_lock) = self.lock(id)?
            {
                drop(self.mark(id)?);
                gone += 1;
            }
        }
        Ok(gone)
    }
}

/// Bytes on disk of a store. One that is taken away meanwhile has none.
fn size(store: &Path) -> Result<u64> {
    let gone = |e: &std::io::Error| e.kind() == ErrorKind::NotFound;
    let files = match fs::read_dir(store) {
        Ok(files) => files,
        Err(e) if gone(&e) => return Ok(0),
        Err(e) => return Err(at(store)(e)),
    };
    let mut bytes = BLOCK;
    for file in files {
        match file.and_then(|f| f.metadata()) {
            Ok(found) => bytes += on_disk(found.len()),
            Err(e) if gone(&e) => {}
            Err(e) => return Err(at(store)(e)),
        }
    }
    Ok(bytes)
}
