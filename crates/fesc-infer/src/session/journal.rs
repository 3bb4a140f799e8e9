//! A list that outlives its process: one JSON object a line, appended and synced before anybody acts on it.
//!
//! Several processes may share a list: each use holds the lock of `NAME.lock` and reads the file anew, so
//! that it sees what the others added. A last line that a crash cut short was acted on by nobody and is
//! dropped; a damaged line anywhere else is an error, since what it said is not known.
//!
//! Not guaranteed: anything when the file itself is deleted, or restored from an older copy.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{Result, SessionError, at};

/// No list is longer; whoever adds to one keeps it far below.
const MOST_BYTES: u64 = 256 << 20;

/// A list in a file.
pub(super) struct Journal<T> {
    path: PathBuf,
    entries: PhantomData<fn() -> T>,
}

/// A list that nobody else changes while this is held.
pub(super) struct Held<T> {
    path: PathBuf,
    file: File,
    entries: Vec<T>,
    _lock: File,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// The list `name` of a directory, which is made, for its owner only, if it is not there.
    pub fn open(directory: &Path, name: &str) -> Result<Self> {
        private_directory(directory)?;
        Ok(Self { path: directory.join(name), entries: PhantomData })
    }

    /// All entries, and the right to change them. Waits for others who have it.
    pub fn hold(&self) -> Result<Held<T>> {
        let lock = self.path.with_extension("lock");
        let lock = private_file(&lock).and_then(|f| f.lock().map(|()| f)).map_err(at(&lock))?;
        let mut file = private_file(&self.path).map_err(at(&self.path))?;
        let (mut text, length) = (Vec::new(), file.metadata().map_err(at(&self.path))?.len());
        if length > MOST_BYTES {
            let problem =
                format!("it has {length} bytes, at most {MOST_BYTES} are read; nothing is done without all of it");
            return Err(SessionError::File { path: self.path.display().to_string(), problem });
        }
        (&mut file).take(MOST_BYTES).read_to_end(&mut text).map_err(at(&self.path))?;
        let whole = text.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).and_then(|()| file.sync_all()).map_err(at(&self.path))?;
        }
        let lines = text.get(..whole).unwrap_or_default().split(|&b| b == b'\n').filter(|line| !line.is_empty());
        let parsed = lines.enumerate().map(|(number, line)| {
            serde_json::from_slice(line).map_err(|e| SessionError::File {
                path: self.path.display().to_string(),
                problem: format!("line {} is damaged ({e}); nothing is done without what it said", number + 1),
            })
        });
        Ok(Held { path: self.path.clone(), file, entries: parsed.collect::<Result<_>>()?, _lock: lock })
    }
}

impl<T: Serialize> Held<T> {
    /// What the list has.
    pub fn entries(&self) -> &[T] {
        &self.entries
    }

    /// One more entry. It is on the disk when this returns.
    pub fn add(&mut self, entry: T) -> Result<()> {
        let line = self.line(&entry)?;
        let write = |file: &mut File| {
            file.seek(SeekFrom::End(0))?;
            file.write_all(&line)?;
            file.sync_all()
        };
        write(&mut self.file).map_err(at(&self.path))?;
        self.entries.push(entry);
        Ok(())
    }

    /// Another list in place of this one, as a whole or not at all.
    pub fn replace(&mut self, entries: Vec<T>) -> Result<()> {
        let next = self.path.with_extension("next");
        let mut text = Vec::new();
        for entry in &entries {
            text.extend(self.line(entry)?);
        }
        let write = || {
            let mut file = private_file(&next)?;
            file.set_len(0)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&next, &self.path)?;
            self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())?;
            Ok(file)
        };
        self.file = write().map_err(at(&self.path))?;
        self.entries = entries;
        Ok(())
    }

    fn line(&self, entry: &T) -> Result<Vec<u8>> {
        let problem =
            |e: serde_json::Error| SessionError::File { path: self.path.display().to_string(), problem: e.to_string() };
        let mut line = serde_json::to_vec(entry).map_err(problem)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// A directory for its owner only. A new one is durable: what lies in it later would be gone with it.
pub(super) fn private_directory(directory: &Path) -> Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).map_err(at(directory))?;
    let parent = directory.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|p| p.sync_all()).map_err(at(parent))
}

/// A file for its owner only, made if it is not there.
pub(super) fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let made = !path.exists();
    let file = options.open(path)?;
    if made && let Some(directory) = path.parent() {
        // A new name is durable when its directory is.
        match File::open(directory).and_then(|d| d.sync_all()) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            synced => synced?,
        }
    }
    Ok(file)
}

/// Refuses a secret that others can read.
pub(super) fn owners_only(file: &File, path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.metadata().map_err(at(path))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(SessionError::Exposed { path: path.display().to_string(), mode: mode & 0o777 });
        }
    }
    let _ = (file, path);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_added_is_there_for_everybody_and_after_a_crash() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Journal::<u32>::open(&directory.path().join("state"), "list").unwrap();
        let (ours, theirs) = (open(), open());
        ours.hold().unwrap().add(1).unwrap();
        theirs.hold().unwrap().add(2).unwrap();
        assert_eq!(ours.hold().unwrap().entries(), [1, 2]);
        // A line that a crash cut short was acted on by nobody.
        let path = directory.path().join("state/list");
        fs::write(&path, "1\n2\n3").unwrap();
        let mut held = ours.hold().unwrap();
        assert_eq!(held.entries(), [1, 2]);
        held.add(4).unwrap();
        held.replace(vec![4, 5]).unwrap();
        held.add(6).unwrap();
        drop(held);
        assert_eq!(theirs.hold().unwrap().entries(), [4, 5, 6]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "4\n5\n6\n");
        fs::write(&path, "1\nx\n3\n").unwrap();
        assert!(ours.hold().err().unwrap().to_string().contains("line 2"), "what is not known is not forgotten");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn two_holders_wait_for_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::<u32>::open(directory.path(), "list").unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let mut held = journal.hold().unwrap();
                        let next = held.entries().len() as u32;
                        held.add(next).unwrap();
                    }
                });
            }
        });
        assert_eq!(journal.hold().unwrap().entries(), (0..40).collect::<Vec<_>>());
    }
}
