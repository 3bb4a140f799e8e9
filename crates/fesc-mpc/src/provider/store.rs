//! Correlations made ahead, kept on disk, used once.
//!
//! A store is a directory for one session and one party: a `session` file and one file per correlation. A
//! correlation is obtained by reading its file, *deleting it and syncing the directory*, and only then
//! handing it out: whatever happens later, no byte that depends on it can have left before it was gone, so a
//! crash can only burn it. A lock keeps a second process out. Files have mode 0600 and end with a checksum.
//!
//! Not guaranteed: that a deleted file cannot be read back from the medium (use an encrypted or volatile
//! disk); single use when the directory is copied or restored from a snapshot. Restoring one side is caught
//! up to the peer's position, when the two stores agree; restoring both sides is reuse, and breaks privacy.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use fesc_net::Channel;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::Correlations;
use crate::Role;
use crate::correlation::{MAX_ENCODED_BYTES, MAX_HALF_BYTES, Material, Request, packed_len};
use crate::error::MpcError;
use crate::messages::tag::SYNC;

const MAGIC: &[u8; 8] = b"FESCcor1";
/// Holds the number of correlations ever made durable, so that a used-up store still knows its position.
const END: &str = "end";

/// A session's name: both parties' stores carry the same one.
pub type SessionId = [u8; 32];

/// One party's stored correlations of one session.
pub struct Store {
    dir: PathBuf,
    session: SessionId,
    role: Role,
    /// Number of the next correlation to take, and one past the last.
    next: u64,
    end: u64,
    _lock: File,
}

impl Store {
    /// Makes a new store; the directory must not exist yet.
    pub fn create(dir: &Path, session: SessionId, role: Role) -> Result<Self, MpcError> {
        let io = |source| MpcError::Io { path: dir.display().to_string(), source };
        fs::create_dir(dir).map_err(io)?;
        let mut head = MAGIC.to_vec();
        head.push(role.index() as u8);
        head.extend_from_slice(&session);
        write_new(&dir.join("session"), &head)?;
        let lock = lock(dir)?;
        sync_dir(dir)?;
        Ok(Self { dir: dir.to_path_buf(), session, role, next: 0, end: 0, _lock: lock })
    }

    /// Opens a store of this session and role, at its first unused correlation.
    pub fn open(dir: &Path, session: SessionId, role: Role) -> Result<Self, MpcError> {
        let bad = |reason: &str| MpcError::Store { path: dir.display().to_string(), reason: reason.into() };
        let lock = lock(dir)?;
        let head = read_bounded(&dir.join("session"), 41)?;
        if head.len() != 41 || !head.starts_with(MAGIC) {
            return Err(bad("not a correlation store, or of another version"));
        }
        if head.get(8) != Some(&(role.index() as u8)) {
            return Err(bad("belongs to the other party"));
        }
        if head.get(9..) != Some(&session[..]) {
            return Err(bad("belongs to another session"));
        }
        let end = match read_bounded(&dir.join(END), 8) {
            Ok(bytes) => bytes.first_chunk().copied().map(u64::from_le_bytes).ok_or_else(|| bad("damaged"))?,
            Err(MpcError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => 0,
            Err(e) => return Err(e),
        };
        let io = |source| MpcError::Io { path: dir.display().to_string(), source };
        let (mut kept, mut next) = (0, end);
        for entry in fs::read_dir(dir).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            match name.to_str().and_then(|n| n.strip_suffix(".half")).and_then(|n| n.parse::<u64>().ok()) {
                Some(n) if name.to_str() != Some(&file_name(n)) => return Err(bad("a file of another name")),
                Some(n) if n < end => (kept, next) = (kept + 1, next.min(n)),
                // Never made durable as a whole: the peer may not have its half.
                Some(_) => fs::remove_file(dir.join(&name)).map_err(io)?,
                None => {}
            }
        }
        if end - next != kept {
            return Err(bad("correlations are missing from the middle"));
        }
        Ok(Self { dir: dir.to_path_buf(), session, role, next, end, _lock: lock })
    }

    /// Bytes of the file of one correlation.
    pub fn bytes_of(request: &Request, role: Role) -> usize {
        84 + request.encode().len() + packed_len(&request.layout(role), |_| true)
    }

    /// Adds one correlation behind the others.
    pub fn append(&mut self, request: &Request, half: &Material) -> Result<(), MpcError> {
        let layout = request.layout(self.role);
        let name = request.encode();
        let mut bytes = Zeroizing::new(Vec::with_capacity(Self::bytes_of(request, self.role)));
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.session);
        bytes.extend_from_slice(&self.end.to_le_bytes());
        bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&name);
        bytes.extend_from_slice(&Zeroizing::new(half.write(&layout, |_| true)));
        let digest = Sha256::digest(&*bytes);
        bytes.extend_from_slice(&digest);
        write_new(&self.path(self.end), &bytes)?;
        self.end += 1;
        Ok(())
    }

    /// Makes everything appended so far durable. What was appended and not synced is dropped by
    /// [`Self::open`].
    pub fn sync(&self) -> Result<(), MpcError> {
        let (fresh, path) = (self.dir.join("end.new"), self.dir.join(END));
        let io = |source| MpcError::Io { path: path.display().to_string(), source };
        fs::remove_file(&fresh)
            .or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })
            .map_err(io)?;
        write_new(&fresh, &self.end.to_le_bytes())?;
        fs::rename(&fresh, &path).map_err(io)?;
        sync_dir(&self.dir)
    }

    /// Unused correlations left.
    pub fn left(&self) -> u64 {
        self.end - self.next
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(file_name(number))
    }

    /// Reads the next correlation, deletes it durably, and only then returns it.
    fn take(&mut self, request: &Request) -> Result<Material, MpcError> {
        request.validate()?;
        if self.next >= self.end {
            return Err(MpcError::Exhausted { prepared: self.end });
        }
        let number = self.next;
        let path = self.path(number);
        // The limit of any half, not of this one: a half made for another request is to be named as such, and
        // burnt.
        let bytes = Zeroizing::new(read_bounded(&path, 84 + MAX_ENCODED_BYTES + MAX_HALF_BYTES)?);
        self.burn()?;
        match parse_half(&bytes, &self.session, number, request, self.role) {
            Some(half) => half,
            None => Err(MpcError::Store { path: path.display().to_string(), reason: "damaged".into() }),
        }
    }

    /// Deletes the next correlation durably.
    fn burn(&mut self) -> Result<(), MpcError> {
        let path = self.path(self.next);
        fs::remove_file(&path).map_err(|source| MpcError::Io { path: path.display().to_string(), source })?;
        sync_dir(&self.dir)?;
        self.next += 1;
        Ok(())
    }
}

/// Reads a stored half: `None` if the file is damaged or not number `number` of this session, an error if it
/// was made for another request.
pub(crate) fn parse_half(
    bytes: &[u8],
    session: &SessionId,
    number: u64,
    request: &Request,
    role: Role,
) -> Option<Result<Material, MpcError>> {
    let (body, digest) = bytes.split_last_chunk::<32>()?;
    if Sha256::digest(body)[..] != digest[..] {
        return None;
    }
    let rest = body.strip_prefix(&MAGIC[..])?.strip_prefix(&session[..])?.strip_prefix(&number.to_le_bytes()[..])?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (name, fields) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let found = match Request::decode(name) {
        Ok(found) => found,
        Err(e) => return Some(Err(e)),
    };
    if found != *request {
        let (found, wanted) = (found.to_string(), request.to_string());
        return Some(Err(MpcError::WrongCorrelation { index: number, found, wanted }));
    }
    let layout = request.layout(role);
    let mut half = Material { fields: layout.iter().map(crate::correlation::Field::empty).collect() };
    Some(half.read(&layout, |_| true, fields).map(|()| half))
}

/// A store as a source of correlations.
pub struct Prepared {
    store: Store,
}

impl Prepared {
    /// Agrees with the peer's store before anything is used: same session, and both go to the later of the
    /// two positions (a crash may have burnt more on one side). One exchange of 48 bytes. The channel must
    /// already be that of the right peer (TLS and hello): a stranger could make this side burn its store.
    pub fn start(store: Store, channel: &mut Channel) -> Result<Self, MpcError> {
        let mut prepared = Self { store };
        let mut hello = prepared.store.session.to_vec();
        hello.extend_from_slice(&prepared.store.next.to_le_bytes());
        hello.extend_from_slice(&prepared.store.end.to_le_bytes());
        let reply = channel.exchange(SYNC, hello.clone(), hello.len())?;
        let bad = |reason| MpcError::PeerStore { path: prepared.store.dir.display().to_string(), reason };
        let (session, rest) = reply.split_first_chunk::<32>().ok_or_else(|| bad("sent too little"))?;
        if *session != prepared.store.session {
            return Err(bad("prepared another session"));
        }
        let (next, rest) = rest.split_first_chunk::<8>().ok_or_else(|| bad("sent too little"))?;
        let (next, end) = (u64::from_le_bytes(*next), rest.first_chunk::<8>().map_or(0, |e| u64::from_le_bytes(*e)));
        if end != prepared.store.end {
            return Err(bad("prepared another number of correlations"));
        }
        while prepared.store.next < next.min(prepared.store.end) {
            prepared.store.burn()?;
        }
        Ok(prepared)
    }

    /// Unused correlations left.
    pub fn left(&self) -> u64 {
        self.store.left()
    }
}

impl Correlations for Prepared {
    fn take(&mut self, _channel: &mut Channel, request: &Request) -> Result<Material, MpcError> {
        self.store.take(request)
    }
}

fn file_name(number: u64) -> String {
    format!("{number:08}.half")
}

fn lock(dir: &Path) -> Result<File, MpcError> {
    let io = |source| MpcError::Io { path: dir.display().to_string(), source };
    let file = OpenOptions::new().create(true).append(true).open(dir.join("lock")).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(MpcError::StoreInUse { path: dir.display().to_string() }),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

/// Writes a file that must not exist, readable by its owner only, and makes it durable.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), MpcError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let write = || {
        let mut file = options.open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|source| MpcError::Io { path: path.display().to_string(), source })
}

/// Reads a whole file of at most `limit` bytes.
fn read_bounded(path: &Path, limit: usize) -> Result<Vec<u8>, MpcError> {
    let read = || {
        let file = File::open(path)?;
        if file.metadata()?.len() > limit as u64 {
            return Err(std::io::Error::new(ErrorKind::InvalidData, format!("larger than {limit} bytes")));
        }
        let mut bytes = Vec::new();
        file.take(limit as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|source| MpcError::Io { path: path.display().to_string(), source })
}

fn sync_dir(dir: &Path) -> Result<(), MpcError> {
    File::open(dir)
        .and_then(|d| d.sync_all())
        .map_err(|source| MpcError::Io { path: dir.display().to_string(), source })
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
