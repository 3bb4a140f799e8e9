//! Stores of prepared correlations, one directory for each session to come.
//!
//! ```text
//! SHELF/<session id>.new     being made
//! SHELF/<session id>         whole, on both sides
//! SHELF/<session id>.used    taken: renamed and synced before the first of its correlations is read
//! ```
//!
//! A store is used by one session, as a whole: whatever happens after the renaming, nobody can take it again. Beside the
//! correlations lies a note of what they were made for, and for whom; anything else is refused.
//!
//! A process that is killed leaves its `.new` or `.used` behind, with the secrets of a session in it. Whoever opens the shelf
//! next deletes them ([`Shelf::sweep`]). Several processes may share a shelf: one that lives holds the lock of the stores it
//! works on, and holds the shelf's own lock, shared, while a store has a moment without one.
//!
//! Not guaranteed: single use when the directory is copied or restored from a snapshot (see [`fesc_mpc::provider::Store`]).

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fesc_mpc::Role;
use fesc_mpc::provider::Store;
use serde::{Deserialize, Serialize};

use crate::session::error::{Result, SessionError, at};
use crate::session::handshake::RevealChoice;
use crate::session::hex::Hex32;

const NOTE: &str = "note.json";
const MAX_NOTE: u64 = 4096;

/// What a store was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// The model id.
    pub model: Hex32,
    /// Tokens of the run.
    pub bucket: usize,
    /// What the client will learn.
    pub reveal: RevealChoice,
    /// The peer: at the client the server's fingerprint, at the server nothing (clients have no identity).
    pub peer: Option<String>,
}

/// A directory of stores.
pub struct Shelf {
    directory: PathBuf,
    /// Stores that sessions of this process are allowed to make and have not yet made.
    promised: Arc<Mutex<usize>>,
}

/// Room for stores that are to be made; given back when dropped.
pub struct Promise {
    promised: Arc<Mutex<usize>>,
    left: usize,
}

impl Promise {
    /// One of them is on the shelf now, and is counted there.
    pub fn kept(&mut self) {
        self.give_back(1);
    }

    fn give_back(&mut self, count: usize) {
        let count = count.min(self.left);
        self.left -= count;
        *self.promised.lock().unwrap_or_else(PoisonError::into_inner) -= count;
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.give_back(self.left);
    }
}

/// A store that is being made. Deleted when dropped before [`Draft::commit`].
pub struct Draft {
    /// For the correlations.
    pub store: Store,
    path: PathBuf,
    target: PathBuf,
    kept: bool,
}

/// A store that is marked as used, and open.
pub struct Burnt {
    /// The correlations.
    pub store: Store,
    /// Where they lie.
    pub ashes: Ashes,
}

/// A directory of used correlations. Deleted when dropped.
pub struct Ashes(PathBuf);

impl Drop for Ashes {
    fn drop(&mut self) {
        // It is marked as used already; a sweep finds what cannot be deleted now.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Shelf {
    /// Opens a shelf, making the directory (for its owner only) if needed, and deletes what dead processes left there.
    pub fn open(directory: &Path) -> Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(directory).map_err(at(directory))?;
        let shelf = Self { directory: directory.to_path_buf(), promised: Arc::default() };
        shelf.sweep()?;
        Ok(shelf)
    }

    fn path(&self, id: Hex32) -> PathBuf {
        self.directory.join(id.to_string())
    }

    /// Whole, unused stores.
    pub fn ids(&self) -> Result<Vec<Hex32>> {
        let entries = fs::read_dir(&self.directory).map_err(at(&self.directory))?;
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(at(&self.directory))?.file_name();
            ids.extend(name.to_str().and_then(|n| n.parse::<Hex32>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Deletes what a process that is gone left half-made or used. What a living one works on stays: it holds its lock.
    pub fn sweep(&self) -> Result<()> {
        let _alone = self.locked(File::lock)?;
        for entry in fs::read_dir(&self.directory).map_err(at(&self.directory))? {
            let path = entry.map_err(at(&self.directory))?.path();
            if path.extension().is_some_and(|e| e == "new" || e == "used") && abandoned(&path)? {
                match fs::remove_dir_all(&path) {
                    // Its owner lives and was deleting it too.
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    deleted => deleted.map_err(at(&path))?,
                }
            }
        }
        Ok(())
    }

    /// The shelf's own lock: shared while a store changes its name or is not locked yet, exclusive for a sweep.
    fn locked(&self, how: impl Fn(&File) -> std::io::Result<()>) -> Result<File> {
        let lock = || File::open(&self.directory).and_then(|d| how(&d).map(|()| d));
        lock().map_err(at(&self.directory))
    }

    /// Room for `count` stores besides those that are here and those that other sessions of this process may still make; else
    /// how many there are.
    pub fn promise(&self, count: usize, limit: usize) -> Result<std::result::Result<Promise, usize>> {
        // Held while the stores are counted, so that two sessions cannot both get the last room.
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let there = self.ids()?.len() + *promised;
        if there + count > limit {
            return Ok(Err(there));
        }
        *promised += count;
        Ok(Ok(Promise { promised: Arc::clone(&self.promised), left: count }))
    }

    /// The first store that fits.
    pub fn find(&self, note: &Note) -> Result<Option<Hex32>> {
        for id in self.ids()? {
            // A store that another process takes at this moment is no error, and not ours.
            if read_note(&self.path(id)).is_ok_and(|n| n == *note) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Whether this store is here, unused, and made for that.
    pub fn has(&self, id: Hex32, note: &Note) -> bool {
        read_note(&self.path(id)).is_ok_and(|n| n == *note)
    }

    /// Begins a store.
    pub fn draft(&self, id: Hex32, role: Role, note: &Note) -> Result<Draft> {
        let target = self.path(id);
        let path = target.with_extension("new");
        let _shared = self.locked(File::lock_shared)?;
        let store = Store::create(&path, id.0, role)?;
        let mut draft = Draft { store, path, target, kept: false };
        draft.write_note(note)?;
        Ok(draft)
    }

    /// Takes a store out of circulation for good and opens it.
    ///
    /// # Errors
    /// If it is not there (any more), or was made for something else: then it stays.
    pub fn burn(&self, id: Hex32, role: Role, note: &Note) -> Result<Burnt> {
        let (path, used) = (self.path(id), self.path(id).with_extension("used"));
        let found = read_note(&path)?;
        if found != *note {
            let problem = "these correlations were made for another model, length, output or peer; they stay unused";
            return Err(SessionError::File { path: path.display().to_string(), problem: problem.into() });
        }
        let _shared = self.locked(File::lock_shared)?;
        fs::rename(&path, &used).map_err(at(&path))?;
        let ashes = Ashes(used);
        sync(&self.directory)?;
        Ok(Burnt { store: Store::open(&ashes.0, id.0, role)?, ashes })
    }

    /// Forgets a store that the peer does not have.
    pub fn discard(&self, id: Hex32) -> Result<()> {
        let path = self.path(id);
        let used = path.with_extension("used");
        let _shared = self.locked(File::lock_shared)?;
        match fs::rename(&path, &used) {
            Ok(()) => fs::remove_dir_all(&used).map_err(at(&used)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(at(&path)(e)),
        }
    }
}

impl Draft {
    fn write_note(&mut self, note: &Note) -> Result<()> {
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

fn read_note(store: &Path) -> Result<Note> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn note() -> Note {
        Note { model: Hex32([1; 32]), bucket: 128, reveal: RevealChoice::Label, peer: Some("pin".into()) }
    }

    #[test]
    fn a_store_is_taken_once_and_only_for_what_it_was_made() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(&dir.path().join("shelf")).unwrap();
        let id = Hex32([7; 32]);
        let draft = shelf.draft(id, Role::P0, &note()).unwrap();
        assert!(shelf.ids().unwrap().is_empty(), "a draft cannot be found");
        draft.commit().unwrap();
        assert_eq!(shelf.find(&note()).unwrap(), Some(id));
        for other in [
            Note { model: Hex32([2; 32]), ..note() },
            Note { bucket: 256, ..note() },
            Note { reveal: RevealChoice::Logits, ..note() },
            Note { peer: Some("another".into()), ..note() },
        ] {
            assert_eq!(shelf.find(&other).unwrap(), None);
            assert!(shelf.burn(id, Role::P0, &other).is_err());
        }
        let burnt = shelf.burn(id, Role::P0, &note()).unwrap();
        assert!(shelf.burn(id, Role::P0, &note()).is_err() && shelf.find(&note()).unwrap().is_none());
        // A process that is killed drops nothing but its locks.
        let Burnt { store, ashes } = burnt;
        std::mem::forget(ashes);
        assert!(shelf.burn(id, Role::P0, &note()).is_err(), "a crash after the marking leaves nothing to take");
        shelf.sweep().unwrap();
        assert_eq!(count(&shelf), 1, "somebody still uses it");
        drop(store);
        shelf.sweep().unwrap();
        assert_eq!(count(&shelf), 0);
    }

    fn count(shelf: &Shelf) -> usize {
        fs::read_dir(&shelf.directory).unwrap().count()
    }

    /// As the handle of a process that is killed: the locks go, the files stay.
    fn killed(mut draft: Draft) {
        draft.kept = true;
    }

    #[test]
    fn whoever_opens_the_shelf_deletes_the_secrets_of_the_dead_and_nothing_of_the_living() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(dir.path()).unwrap();
        let living = shelf.draft(Hex32([1; 32]), Role::P0, &note()).unwrap();
        killed(shelf.draft(Hex32([2; 32]), Role::P0, &note()).unwrap());
        assert_eq!(count(&shelf), 2);
        let again = Shelf::open(dir.path()).unwrap();
        assert_eq!(count(&again), 1);
        living.commit().unwrap();
        assert_eq!(again.ids().unwrap(), [Hex32([1; 32])]);
    }

    #[test]
    fn a_session_that_fails_before_its_run_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(dir.path()).unwrap();
        let id = Hex32([7; 32]);
        shelf.draft(id, Role::P0, &note()).unwrap().commit().unwrap();
        let (mut channel, peer) = fesc_net::Channel::memory_pair();
        drop(peer);
        let burnt = shelf.burn(id, Role::P0, &note()).unwrap();
        assert!(crate::session::source::prepared(burnt, &mut channel).is_err());
        assert_eq!(count(&shelf), 0, "the peer died when the stores were to agree");
        // The wrong side's store is refused after it was marked.
        shelf.draft(id, Role::P0, &note()).unwrap().commit().unwrap();
        assert!(shelf.burn(id, Role::P1, &note()).is_err());
        assert_eq!(count(&shelf), 0);
    }

    #[test]
    fn room_on_the_shelf_is_given_once() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(dir.path()).unwrap();
        let mut first = shelf.promise(2, 3).unwrap().ok().unwrap();
        assert_eq!(shelf.promise(2, 3).unwrap().err(), Some(2), "nothing is made yet, and still it is taken");
        shelf.draft(Hex32([1; 32]), Role::P1, &note()).unwrap().commit().unwrap();
        first.kept();
        assert_eq!(shelf.promise(2, 3).unwrap().err(), Some(2));
        drop(first);
        assert!(shelf.promise(2, 3).unwrap().is_ok());
    }

    #[test]
    fn a_draft_that_is_not_finished_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(dir.path()).unwrap();
        drop(shelf.draft(Hex32([7; 32]), Role::P1, &note()).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
