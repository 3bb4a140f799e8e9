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
//! Not guaranteed: single use when the directory is copied or restored from a snapshot (see [`fesc_mpc::provider::Store`]).

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

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
    /// Where it lies, to be deleted after use.
    pub path: PathBuf,
}

impl Shelf {
    /// Opens a shelf, making the directory (for its owner only) if needed.
    pub fn open(directory: &Path) -> Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(directory).map_err(at(directory))?;
        Ok(Self { directory: directory.to_path_buf() })
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

    /// Deletes what an earlier process left half-made or used. Only for the one process that owns the shelf.
    pub fn sweep(&self) -> Result<()> {
        for entry in fs::read_dir(&self.directory).map_err(at(&self.directory))? {
            let path = entry.map_err(at(&self.directory))?.path();
            if path.extension().is_some_and(|e| e == "new" || e == "used") {
                fs::remove_dir_all(&path).map_err(at(&path))?;
            }
        }
        Ok(())
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
        fs::rename(&path, &used).map_err(at(&path))?;
        sync(&self.directory)?;
        Ok(Burnt { store: Store::open(&used, id.0, role)?, path: used })
    }

    /// Forgets a store that the peer does not have.
    pub fn discard(&self, id: Hex32) -> Result<()> {
        let path = self.path(id);
        let used = path.with_extension("used");
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
        drop(burnt);
        assert!(shelf.burn(id, Role::P0, &note()).is_err(), "a crash after the marking leaves nothing to take");
        shelf.sweep().unwrap();
        assert_eq!(fs::read_dir(dir.path().join("shelf")).unwrap().count(), 0);
    }

    #[test]
    fn a_draft_that_is_not_finished_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(dir.path()).unwrap();
        drop(shelf.draft(Hex32([7; 32]), Role::P1, &note()).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
