//! Who may take a store: a claim by its lock, then the marking as used.
//!
//! A claim is made before anybody else hears of the store, so that of two processes on one store directory
//! each talks about a store of its own. It marks nothing: the store of a process that dies with a claim, or
//! gives it back, is as good as before. Burning renames the store, and only then is it read.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fesc_mpc::Role;
use fesc_mpc::provider::Store;

use super::{Note, Stamp, StoreDirectory, read_note, sync};
use crate::session::error::{Result, SessionError, at};
use crate::session::hex::Hex32;

/// A store that nobody else can take; free again when dropped.
pub struct Claim {
    id: Hex32,
    stamp: Stamp,
    lock: File,
}

impl Claim {
    /// The name of the store.
    pub fn id(&self) -> Hex32 {
        self.id
    }
}

/// What came of a claim.
pub enum Claimed {
    /// It is ours.
    Mine(Claim),
    /// Somebody else has claimed it, or still writes it.
    Busy,
    /// It is not here, or was made for something else.
    Absent,
    /// It was used before: this is a copy.
    Used,
}

/// A store that is marked as used, and open.
pub struct UsedStore {
    /// The correlations.
    pub store: Store,
    /// Where they lie.
    pub directory: UsedDirectory,
}

/// A directory of used correlations. Deleted when dropped.
pub struct UsedDirectory(pub(super) PathBuf);

impl UsedDirectory {
    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for UsedDirectory {
    fn drop(&mut self) {
        // It is marked as used already; a sweep finds what cannot be deleted now.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl StoreDirectory {
    /// Claims the first store that fits and is free. One that cannot be read, or was used before, is an error
    /// only if there is no other.
    pub fn claim_any(&self, note: &Note) -> Result<Option<Claim>> {
        let mut unread = None;
        for id in self.ids()? {
            match self.claim(id, note) {
                Ok(Claimed::Mine(claim)) => return Ok(Some(claim)),
                Ok(Claimed::Used) => unread = Some(self.used_before()),
                Ok(Claimed::Busy | Claimed::Absent) => {}
                Err(e) => unread = Some(e),
            }
        }
        unread.map_or(Ok(None), Err)
    }

    /// Claims one store, if it is here, unused, and made for that.
    pub fn claim(&self, id: Hex32, note: &Note) -> Result<Claimed> {
        // Shared: nobody marks a store as used meanwhile, so what is locked under this name still has it.
        let _shared = self.locked(File::lock_shared)?;
        match read_note(&self.path(id)) {
            Ok(found) if found.note == *note && self.spent.was_used(id, found.stamp)? => Ok(Claimed::Used),
            Ok(found) if found.note == *note => match self.lock(id)? {
                Some(lock) => Ok(Claimed::Mine(Claim { id, stamp: found.stamp, lock })),
                None => Ok(Claimed::Busy),
            },
            // Made for something else, or no note at all: somebody takes the store away, or it is none.
            Ok(_) | Err(SessionError::File { .. }) => Ok(Claimed::Absent),
            Err(SessionError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(Claimed::Absent),
            // A disk that fails now says nothing about the store: the peer must not throw its half away for
            // that.
            Err(e) => Err(e),
        }
    }

    /// Takes the lock of a store; `None` when somebody else has it, or takes the store away. The store
    /// directory's own must be held.
    pub(super) fn lock(&self, id: Hex32) -> Result<Option<File>> {
        let path = self.path(id).join("lock");
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(at(&path)(e)),
        };
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(at(&path)(e)),
        }
    }

    /// Takes a store out of circulation for good and opens it.
    pub fn mark_used(&self, claim: Claim, role: Role) -> Result<UsedStore> {
        // Alone: the store has a moment without its lock.
        let _alone = self.locked(File::lock)?;
        let Claim { id, stamp, lock } = claim;
        if !self.spent.mark(id, stamp)? {
            return Err(self.used_before());
        }
        let directory = self.mark(id)?;
        sync(&self.directory)?;
        drop(lock);
        Ok(UsedStore { store: Store::open(&directory.0, id.0, role)?, directory })
    }

    fn used_before(&self) -> SessionError {
        SessionError::UsedBefore { path: self.directory.display().to_string() }
    }

    /// Forgets a store that the peer does not have.
    pub fn discard(&self, claim: Claim) -> Result<()> {
        let _alone = self.locked(File::lock)?;
        self.mark(claim.id).map(drop)
    }

    /// Renames a store to what nobody takes. The store directory's own lock must be held, alone.
    pub(super) fn mark(&self, id: Hex32) -> Result<UsedDirectory> {
        let path = self.path(id);
        let used = path.with_extension("used");
        fs::rename(&path, &used).map_err(at(&path))?;
        Ok(UsedDirectory(used))
    }
}
