//! The client's cache of public parts: one file per model, named by the model id.
//!
//! A file appears under its name only when it is whole and checked (written aside, synced, renamed), and is
//! checked again against its name whenever it is read. Two processes may fill the cache at once: each writes
//! its own file aside and holds its lock. What a process that was killed left aside is deleted by the next
//! download.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use fesc_net::Channel;
use fesc_ring::Prg;

use super::download::{Download, network};
use super::error::{Result, SessionError, at};
use super::hex::Hex32;
use super::public::Known;

/// How the name of a file ends that is not yet whole.
const ASIDE: &str = ".part";

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

    /// The user's own cache: `$XDG_CACHE_HOME/fesc`, or `~/.cache/fesc`.
    ///
    /// # Errors
    /// If there is no home directory, or it cannot be used.
    pub fn of_user() -> Result<Self> {
        Self::open(&user_directory("XDG_CACHE_HOME", ".cache", "the cache")?)
    }

    /// Where the public part of a model is, or would be.
    pub fn path(&self, id: Hex32) -> PathBuf {
        self.directory.join(format!("{id}.public"))
    }

    /// The public part of a model: `None` if it is not here. A file whose bytes are not that model's is
    /// deleted, and is then not here; one that cannot be read at this moment is an error, and stays.
    pub fn find(&self, id: Hex32) -> Result<Option<Known>> {
        let path = self.path(id);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(at(&path)(e)),
        };
        match Known::open(file, id, "its file is damaged") {
            Ok(known) => Ok(Some(known)),
            Err(SessionError::WrongModel { .. } | SessionError::Malformed { .. } | SessionError::TooLarge { .. }) => {
                match fs::remove_file(&path) {
                    // Another process has seen it too.
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    deleted => deleted.map_err(at(&path))?,
                }
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Downloads a public part of `bytes` bytes, checks it, and keeps it.
    pub fn fill(&self, id: Hex32, bytes: u64, channel: &mut Channel, prg: &mut Prg) -> Result<Known> {
        self.sweep()?;
        let aside = self.name_aside(id, prg.next_u64());
        let kept = self.fill_aside(&aside, id, bytes, channel);
        if kept.is_err() {
            // Nothing half-made stays; if it cannot be deleted it is still under no model's name.
            let _ = fs::remove_file(&aside);
        }
        kept
    }

    /// Deletes files aside that nobody writes any more.
    fn sweep(&self) -> Result<()> {
        let io = at(&self.directory);
        // Alone: a file has a moment without a lock when it is new.
        let _alone = File::open(&self.directory).and_then(|d| d.lock().map(|()| d)).map_err(&io)?;
        for entry in fs::read_dir(&self.directory).map_err(&io)? {
            let path = entry.map_err(&io)?.path();
            let aside = path.file_name().and_then(|n| n.to_str()).is_some_and(is_aside);
            // One that cannot be opened or locked is somebody's, or has just got its name.
            if aside && File::open(&path).is_ok_and(|f| f.try_lock().is_ok()) {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    fn name_aside(&self, id: Hex32, random: u64) -> PathBuf {
        self.directory.join(format!(".{id}.{random:016x}{ASIDE}"))
    }

    /// A new file aside, locked by this process as long as it is open.
    fn aside(&self, path: &Path) -> io::Result<File> {
        let _shared = File::open(&self.directory).and_then(|d| d.lock_shared().map(|()| d))?;
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.try_lock()?;
        Ok(file)
    }

    fn fill_aside(&self, aside: &Path, id: Hex32, bytes: u64, channel: &mut Channel) -> Result<Known> {
        let file = self.aside(aside).map_err(at(aside))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        copy(&mut Download::new(channel, bytes), &mut out, aside)?;
        let file = out.into_inner().map_err(|e| at(aside)(e.into_error()))?;
        file.sync_all().map_err(at(aside))?;
        let read = File::open(aside).map_err(at(aside))?;
        let remedy = "the server sent another model than it offered; do not use it";
        let known = Known::open(read, id, remedy)?;
        let path = self.path(id);
        fs::rename(aside, &path).map_err(at(&path))?;
        Ok(known)
    }
}

/// Whether a file of this name is one of ours that is not yet whole: `.MODEL.RANDOM.part`.
fn is_aside(name: &str) -> bool {
    let parts = name.strip_prefix('.').and_then(|n| n.strip_suffix(ASIDE)).and_then(|n| n.split_once('.'));
    parts.is_some_and(|(id, random)| {
        let digit = |b| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        id.parse::<Hex32>().is_ok() && random.len() == 16 && random.bytes().all(digit)
    })
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

/// The user's directory of this program for one purpose.
///
/// # Errors
/// If neither `variable` nor a home directory is set; `what` names the purpose.
pub fn user_directory(variable: &str, below_home: &str, what: &'static str) -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set(variable).or_else(|| set("HOME").map(|home| home.join(below_home)));
    Ok(base.ok_or(SessionError::NoHome(what))?.join("fesc"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_a_killed_download_left_is_deleted_and_a_living_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let [dead, living] = [1, 2].map(|random| cache.name_aside(Hex32([1; 32]), random));
        drop(cache.aside(&dead).unwrap());
        let lives = cache.aside(&living).unwrap();
        let whole = cache.path(Hex32([1; 32]));
        // Somebody else's, with names that are like ours.
        let id = Hex32([1; 32]);
        let foreign = [".part", ".notes.part", &format!(".{id}.part"), &format!(".{id}.0.part"), &format!("{id}.part")]
            .map(|name| dir.path().join(name));
        for path in foreign.iter().chain([&whole]) {
            fs::write(path, "something").unwrap();
        }
        cache.sweep().unwrap();
        assert!(!dead.exists() && living.exists() && whole.exists());
        assert!(foreign.iter().all(|path| path.exists()), "what is not ours stays");
        drop(lives);
    }

    #[test]
    fn a_server_that_sends_something_else_is_named_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let card = r#"{"outline":"{}","tokenizer":null}"#;
        let mut bytes = b"FESCmod1".to_vec();
        bytes.extend((card.len() as u64).to_le_bytes());
        bytes.extend(card.as_bytes());
        let (mut us, mut them) = Channel::memory_pair();
        them.send(crate::session::download::CHUNK, bytes.clone()).unwrap();
        let filled = cache.fill(Hex32([1; 32]), bytes.len() as u64, &mut us, &mut Prg::from_seed([1; 16]));
        assert!(matches!(filled, Err(SessionError::Malformed { .. })));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
