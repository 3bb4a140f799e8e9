//! One side's directory of kept keys.
//!
//! ```text
//! DIRECTORY/<random>.new    being written: their first session is not over
//! DIRECTORY/<name>.keys     kept
//! DIRECTORY/<name>.taken    in a session that has begun to compute
//! ```
//!
//! Keys are kept when their first session has ended well. A later session renames them before its online
//! phase and gives them their name back when it has ended well; whoever dies in between leaves `.taken`
//! behind, which is retired: by the session that ends, or when the directory is opened next. That is earlier
//! than the first conversion to shares, and needs no hook in the kernels.
//!
//! Retired keys are deleted, and their name is on a list beside the directory, so that keys that are put back
//! from a copy are refused ([`UsedList`]). Whoever works with a file holds its lock, so a file without one is
//! nobody's; who changes names holds the lock of the directory. Files that are not ours are left alone.
//!
//! Not guaranteed: anything when the list is put back too, or when the directory is put back between a death
//! and the next opening.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fesc_mpc::Role;

use super::file::{Note, Reader, Writer, read};
use crate::session::error::{Result, SessionError, at};
use crate::session::hex::Hex32;
use crate::session::journal::{owners_only, private_directory};
use crate::session::report::side;
use crate::session::source::stores::UsedList;
use crate::session::source::stores::used::Stamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    New,
    Whole,
    Taken,
}

impl Kind {
    const fn ending(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Whole => "keys",
            Self::Taken => "taken",
        }
    }
}

/// A directory of kept keys.
pub(in crate::session) struct Shelf {
    directory: PathBuf,
    role: Role,
    retired: UsedList,
}

/// What came of a claim.
pub(in crate::session) enum Claimed<'a> {
    /// They are ours.
    Mine(Claim<'a>),
    /// A session has them.
    Busy,
    /// They are not here, or are retired.
    Absent,
}

/// Kept keys.
pub(in crate::session) struct Entry {
    pub name: Hex32,
    pub note: Note,
    /// A session computes with them.
    pub taken: bool,
}

impl Entry {
    /// How old they are. Keys from the future, after the clock was set back, are new.
    pub fn age(&self) -> Duration {
        age(self.note.stamp)
    }
}

fn age(stamp: Stamp) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(stamp.made))
}

/// Not one of our files, or one that was not written to its end.
fn is_foreign(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}

/// A file that is not there need not be deleted.
fn gone(deleted: io::Result<()>) -> io::Result<()> {
    deleted.or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// Whether its lock is ours now.
fn locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

impl Shelf {
    /// One side's directory in a state directory, made if it is not there. What dead processes left is
    /// deleted, and keys that they computed with are retired.
    pub fn open(state: &Path, role: Role) -> Result<Self> {
        let directory = state.join(format!("keys-{}", side(role)));
        private_directory(&directory)?;
        let retired = UsedList::named(state, &format!("retired-{}.jsonl", side(role)))?;
        let shelf = Self { directory, role, retired };
        shelf.sweep()?;
        Ok(shelf)
    }

    fn path(&self, name: Hex32, kind: Kind) -> PathBuf {
        self.directory.join(format!("{name}.{}", kind.ending()))
    }

    /// The right to change names.
    fn alone(&self) -> Result<File> {
        File::open(&self.directory).and_then(|d| d.lock().map(|()| d)).map_err(at(&self.directory))
    }

    fn sync(&self) -> Result<()> {
        File::open(&self.directory).and_then(|d| d.sync_all()).map_err(at(&self.directory))
    }

    fn names(&self, kind: Kind) -> Result<Vec<Hex32>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(at(&self.directory))? {
            let entry = entry.map_err(at(&self.directory))?;
            let name = entry.file_name();
            let stem = name.to_str().and_then(|n| n.strip_suffix(kind.ending())?.strip_suffix('.'));
            let ours =
                stem.and_then(|s| s.parse::<Hex32>().ok()).filter(|_| entry.file_type().is_ok_and(|t| t.is_file()));
            names.extend(ours);
        }
        names.sort_unstable();
        Ok(names)
    }

    /// A file that is there, opened. One that others can read is refused.
    fn opened(&self, path: &Path) -> Result<Option<File>> {
        match File::open(path) {
            Ok(file) => owners_only(&file, path).map(|()| Some(file)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(at(path)(e)),
        }
    }

    /// The note of a file of ours.
    fn note(&self, file: &File, path: &Path) -> Result<Option<Note>> {
        match read(file, self.role) {
            Ok((note, _)) => Ok(Some(note)),
            Err(e) if is_foreign(&e) => Ok(None),
            Err(e) => Err(at(path)(e)),
        }
    }

    fn sweep(&self) -> Result<()> {
        let _alone = self.alone()?;
        for name in self.names(Kind::New)? {
            let path = self.path(name, Kind::New);
            // One that is gone meanwhile has ended by itself.
            let Some(file) = self.opened(&path)? else { continue };
            if locked(&file).map_err(at(&path))? {
                gone(fs::remove_file(&path)).map_err(at(&path))?;
            }
        }
        for name in self.names(Kind::Taken)? {
            let path = self.path(name, Kind::Taken);
            let Some(file) = self.opened(&path)? else { continue };
            if locked(&file).map_err(at(&path))?
                && let Some(note) = self.note(&file, &path)?
            {
                self.retire(name, note.stamp, &path)?;
            }
        }
        Ok(())
    }

    /// Nobody takes these keys again. The right to change names must be held.
    fn retire(&self, name: Hex32, stamp: Stamp, path: &Path) -> Result<()> {
        self.retired.mark(name, stamp)?;
        gone(fs::remove_file(path)).map_err(at(path))?;
        self.sync()
    }

    /// All keys that are here.
    pub fn list(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for kind in [Kind::Whole, Kind::Taken] {
            for name in self.names(kind)? {
                let path = self.path(name, kind);
                let note = self.opened(&path)?.map(|file| self.note(&file, &path)).transpose()?.flatten();
                entries.extend(note.map(|note| Entry { name, note, taken: kind == Kind::Taken }));
            }
        }
        Ok(entries)
    }

    /// Takes keys out of the hands of all others.
    pub fn claim(&self, name: Hex32) -> Result<Claimed<'_>> {
        let _alone = self.alone()?;
        let path = self.path(name, Kind::Whole);
        let Some(file) = self.opened(&path)? else {
            let taken = self.path(name, Kind::Taken).exists();
            return Ok(if taken { Claimed::Busy } else { Claimed::Absent });
        };
        let Some(note) = self.note(&file, &path)? else { return Ok(Claimed::Absent) };
        if !locked(&file).map_err(at(&path))? {
            return Ok(Claimed::Busy);
        }
        if self.retired.was_used(name, note.stamp)? {
            self.retire(name, note.stamp, &path)?;
            return Ok(Claimed::Absent);
        }
        Ok(Claimed::Mine(Claim { shelf: self, name, stamp: note.stamp, file, begun: false }))
    }

    /// Deletes keys that no session has. False for those that one has.
    pub fn delete(&self, name: Hex32) -> Result<bool> {
        Ok(match self.claim(name)? {
            Claimed::Mine(claim) => claim.discard().map(|()| true)?,
            Claimed::Absent => true,
            Claimed::Busy => false,
        })
    }

    /// Deletes keys that are older, or older than they may be, but for those that a session has.
    pub fn expire(&self, most: Duration) -> Result<()> {
        let old = |e: &Entry| e.age() >= most.min(Duration::from_secs(e.note.serve_s));
        for entry in self.list()?.into_iter().filter(|e| !e.taken && old(e)) {
            self.delete(entry.name)?;
        }
        Ok(())
    }

    /// What keys that are made now carry.
    pub fn stamp(&self) -> Result<Stamp> {
        self.retired.stamp()
    }

    /// Begins to write keys. `random` is a name for the time being.
    pub fn draft(&self, random: Hex32, note: &Note) -> Result<Draft<'_>> {
        let path = self.path(random, Kind::New);
        let _alone = self.alone()?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(at(&path))?;
        let mut draft = Draft { shelf: self, stamp: note.stamp, path, writer: None };
        locked(&file).map_err(at(&draft.path))?;
        draft.writer = Some(Writer::new(file, self.role, note).map_err(at(&draft.path))?);
        Ok(draft)
    }
}

/// Keys that are being written. Deleted when dropped before [`Draft::commit`].
pub(in crate::session) struct Draft<'a> {
    shelf: &'a Shelf,
    stamp: Stamp,
    path: PathBuf,
    writer: Option<Writer<File>>,
}

impl Draft<'_> {
    /// More of the keys.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write_all(bytes))
    }

    /// Refuses a name that was here before: honest keys are new.
    pub fn check(&self, name: Hex32) -> Result<()> {
        let here = [Kind::Whole, Kind::Taken].iter().any(|&kind| self.shelf.path(name, kind).exists());
        if here || self.shelf.retired.was_used(name, self.stamp)? {
            let problem = "keys that are here already, or are retired; fresh ones must be made".into();
            return Err(SessionError::Malformed { what: "keys", problem });
        }
        Ok(())
    }

    /// The keys are whole, and are kept under this name.
    pub fn commit(mut self, name: Hex32) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.finish(name).and_then(|file| file.sync_all()).map_err(at(&self.path))?;
        let _alone = self.shelf.alone()?;
        self.check(name)?;
        fs::rename(&self.path, self.shelf.path(name, Kind::Whole)).map_err(at(&self.path))?;
        self.shelf.sync()
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // Under its new name it is no longer here; the next opening finds what cannot be deleted now.
        let _ = fs::remove_file(&self.path);
    }
}

/// Kept keys that are this session's alone. Dropped before [`Claim::begin`] they are as before, dropped
/// after it they are retired.
pub(in crate::session) struct Claim<'a> {
    shelf: &'a Shelf,
    name: Hex32,
    stamp: Stamp,
    file: File,
    begun: bool,
}

impl Claim<'_> {
    /// Their name.
    pub fn name(&self) -> Hex32 {
        self.name
    }

    /// The keys, from the first byte.
    pub fn keys(&self) -> io::Result<Reader<&File>> {
        read(&self.file, self.shelf.role).map(|(_, reader)| reader)
    }

    /// The session computes with them from now on: the mark is on the disk when this returns.
    pub fn begin(&mut self) -> Result<()> {
        self.rename(Kind::Whole, Kind::Taken)?;
        self.begun = true;
        self.shelf.sync()
    }

    /// The session has ended well: they may serve again.
    pub fn end(mut self) -> Result<()> {
        self.rename(Kind::Taken, Kind::Whole)?;
        self.begun = false;
        self.shelf.sync()
    }

    /// They serve no more.
    pub fn discard(self) -> Result<()> {
        let kind = if self.begun { Kind::Taken } else { Kind::Whole };
        let _alone = self.shelf.alone()?;
        self.shelf.retire(self.name, self.stamp, &self.shelf.path(self.name, kind))
    }

    fn rename(&self, from: Kind, to: Kind) -> Result<()> {
        let _alone = self.shelf.alone()?;
        let [from, to] = [from, to].map(|kind| self.shelf.path(self.name, kind));
        fs::rename(&from, to).map_err(at(&from))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.begun
            && let Ok(_alone) = self.shelf.alone()
        {
            // What fails now is done by the next opening: nobody claims keys under this ending.
            let _ = self.shelf.retire(self.name, self.stamp, &self.shelf.path(self.name, Kind::Taken));
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
