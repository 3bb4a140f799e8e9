//! Stores of prepared correlations, one directory for each session to come.
//!
//! ```text
//! DIRECTORY/<session id>.new     being made
//! DIRECTORY/<session id>         whole, on both sides
//! DIRECTORY/<session id>.used    taken: renamed and synced before the first of its correlations is read
//! ```
//!
//! A store is used by one session, as a whole: whatever happens after the renaming, nobody can take it again.
//! Beside the correlations lies a note of what they were made for, and for whom; anything else is refused.
//! Who wants a store claims it first, by its lock (`claim`): two processes on one store directory never talk
//! about the same store. How much a store directory may hold, and for how long, is `room`.
//!
//! A process that is killed leaves its `.new` or `.used` behind, with the secrets of a session in it. Whoever
//! opens the store directory next deletes them ([`StoreDirectory::sweep`]). Several processes may share a
//! store directory: one that lives holds the lock of the stores it works on, and holds the store directory's
//! own lock, shared, while a store has a moment without one.
//!
//! A directory that is copied and put back has its used stores again; the list of used ones, which is kept
//! elsewhere, refuses them ([`used`]).
//!
//! Not guaranteed: single use when that list is put back too.

mod claim;
mod room;
#[cfg(test)]
mod tests;
pub mod used;

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fesc_mpc::Role;
use fesc_mpc::provider::Store;
use serde::{Deserialize, Serialize};

use crate::schedule::Reveal;
use crate::session::error::{Result, SessionError, at};
use crate::session::hex::Hex32;

use super::super::journal::private_directory;
pub use claim::{Claim, Claimed, UsedDirectory, UsedStore};
pub use room::{Amount, Reservation, bytes_of};
use used::Stamp;
pub use used::UsedList;

const NOTE: &str = "note.json";
const MAX_NOTE: u64 = 4096;

/// What a store was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// The model id.
    pub model: Hex32,
    /// The plan.
    pub plan: String,
    /// Tokens of the run.
    pub bucket: usize,
    /// What the client will learn.
    pub reveal: Reveal,
    /// The peer: at the client the server's fingerprint; at the server that of the client, if it showed a
    /// certificate.
    pub peer: Option<String>,
}

/// What lies beside the correlations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    note: Note,
    /// Which list knows whether it was used.
    stamp: Stamp,
}

/// A directory of stores.
pub struct StoreDirectory {
    directory: PathBuf,
    spent: UsedList,
    /// What sessions of this process are allowed to make and have not yet made.
    reserved: Arc<Mutex<Amount>>,
}

/// A store that is being made. Deleted when dropped before [`Draft::commit`].
pub struct Draft {
    /// For the correlations.
    pub store: Store,
    path: PathBuf,
    target: PathBuf,
    kept: bool,
}

impl StoreDirectory {
    /// Opens a store directory, making the directory (for its owner only) if needed, and deletes what dead
    /// processes left there. `spent` knows which stores were used.
    pub fn open(directory: &Path, spent: UsedList) -> Result<Self> {
        private_directory(directory)?;
        let stores = Self { directory: directory.to_path_buf(), spent, reserved: Arc::default() };
        stores.sweep()?;
        Ok(stores)
    }

    fn path(&self, id: Hex32) -> PathBuf {
        self.directory.join(id.to_string())
    }

    /// Our own directories, by their kind. Whatever else lies here is somebody's, and is left alone.
    fn found(&self, wanted: Kind) -> Result<Vec<(Hex32, PathBuf)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(at(&self.directory))? {
            let entry = entry.map_err(at(&self.directory))?;
            let named = entry.file_name().to_str().and_then(kind).filter(|(_, kind)| *kind == wanted);
            // One that is gone meanwhile has no type.
            found.extend(
                named.filter(|_| entry.file_type().is_ok_and(|t| t.is_dir())).map(|(id, _)| (id, entry.path())),
            );
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Whole, unused stores.
    pub fn ids(&self) -> Result<Vec<Hex32>> {
        Ok(self.found(Kind::Whole)?.into_iter().map(|(id, _)| id).collect())
    }

    /// Deletes what a process that is gone left half-made or used. What a living one works on stays: it holds
    /// its lock.
    pub fn sweep(&self) -> Result<()> {
        let _alone = self.locked(File::lock)?;
        for (_, path) in self.found(Kind::Passing)? {
            if abandoned(&path)? {
                match fs::remove_dir_all(&path) {
                    // Its owner lives and was deleting it too.
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    deleted => deleted.map_err(at(&path))?,
                }
            }
        }
        Ok(())
    }

    /// The store directory's own lock: shared while a store is made or claimed, exclusive while one is taken
    /// away.
    fn locked(&self, how: impl Fn(&File) -> std::io::Result<()>) -> Result<File> {
        let lock = || File::open(&self.directory).and_then(|d| how(&d).map(|()| d));
        lock().map_err(at(&self.directory))
    }

    /// Begins a store.
    pub fn draft(&self, id: Hex32, role: Role, note: &Note) -> Result<Draft> {
        let target = self.path(id);
        let path = target.with_extension("new");
        let _shared = self.locked(File::lock_shared)?;
        let store = Store::create(&path, id.0, role)?;
        let mut draft = Draft { store, path, target, kept: false };
        draft.write_note(&Written { note: note.clone(), stamp: self.spent.stamp()? })?;
        Ok(draft)
    }
}

impl Draft {
    fn write_note(&mut self, note: &Written) -> Result<()> {
        let path = self.path.join(NOTE);
        let text = serde_json::to_vec(note)
            .map_err(|e| SessionError::File { path: path.display().to_string(), problem: e.to_string() })?;
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(&text)?;
            file.sync_all()
        };
        write().map_err(at(&path))
    }

    /// Where it lies until then.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it durable and whole. Call it when the peer has its half too.
    pub fn commit(mut self) -> Result<()> {
        self.store.sync()?;
        fs::rename(&self.path, &self.target).map_err(at(&self.target))?;
        self.kept = true;
        self.target.parent().map_or(Ok(()), sync)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // A draft under its own ending is never taken; a sweep finds what cannot be deleted now.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// What a name says of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    /// Half-made or used.
    Passing,
}

fn kind(name: &str) -> Option<(Hex32, Kind)> {
    let (stem, kind) = match name.strip_suffix(".new").or(name.strip_suffix(".used")) {
        Some(stem) => (stem, Kind::Passing),
        None => (name, Kind::Whole),
    };
    Some((stem.parse().ok()?, kind))
}

/// Whether nobody works on this store any more.
fn abandoned(store: &Path) -> Result<bool> {
    let path = store.join("lock");
    match File::open(&path) {
        Ok(file) => match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(at(&path)(e)),
        },
        // It died before the lock was there, or while it deleted the store; or it has just deleted it.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(store.exists()),
        Err(e) => Err(at(&path)(e)),
    }
}

fn read_note(store: &Path) -> Result<Written> {
    let path = store.join(NOTE);
    let mut text = Vec::new();
    let file = File::open(&path).map_err(at(&path))?;
    file.take(MAX_NOTE).read_to_end(&mut text).map_err(at(&path))?;
    serde_json::from_slice(&text)
        .map_err(|e| SessionError::File { path: path.display().to_string(), problem: e.to_string() })
}

fn sync(directory: &Path) -> Result<()> {
    File::open(directory).and_then(|d| d.sync_all()).map_err(at(directory))
}
