//! A file of kept keys: what they are for, the keys, and a digest of both.
//!
//! ```text
//! magic (8)   length of the note (u32)   the note, JSON
//! the keys: at a client its secret keys set by set, two bits a coefficient (`SecretKey::keep` of CKKS),
//!           at a server the payloads of the upload, one after the other
//! SHA-256 of everything before and of the name (32)
//! ```
//!
//! Numbers are little-endian. The magic ends with the version; another one is not read. The name is that of
//! the file: a file under another name is damaged. Sizes are checked against the length of the file before
//! anything is read, and the digest before anything that was read is used.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};

use fesc_mpc::Role;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::session::hex::Hex32;
use crate::session::source::stores::used::Stamp;

const CLIENT: &[u8; 8] = b"FESCkc01";
const SERVER: &[u8; 8] = b"FESCks01";
const DIGEST: u64 = 32;
/// No note is longer.
const MOST_NOTE: u32 = 4096;

/// Which keys of one set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetNote {
    /// What the set is for: `project` or `scan`.
    pub set: String,
    /// Its degree.
    pub degree: usize,
    /// Evaluation keys.
    pub keys: usize,
}

/// What keys were made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::session) struct Note {
    /// At the client: the server that has the other half; empty at the server.
    pub server: String,
    /// Fingerprint of the client's certificate.
    pub client: Option<String>,
    /// Digest of their shape.
    pub shape: Hex32,
    /// The plan that they were made for.
    pub plan: String,
    /// The bucket that they were made for.
    pub bucket: usize,
    /// Their sets.
    pub sets: Vec<SetNote>,
    /// Bytes that travelled, without frames.
    pub bytes: u64,
    /// Seconds that they may serve.
    pub serve_s: u64,
    /// When they were made, and which list knows whether they are retired.
    pub stamp: Stamp,
}

fn magic(role: Role) -> &'static [u8; 8] {
    match role {
        Role::P0 => CLIENT,
        Role::P1 => SERVER,
    }
}

pub(super) fn damaged(problem: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidData, problem.to_string())
}

/// Writes a file of kept keys. Nothing is buffered: at a client the bytes are secret.
pub(super) struct Writer<W> {
    out: W,
    hash: Sha256,
}

impl<W: Write> Writer<W> {
    /// Begins with the note.
    pub fn new(out: W, role: Role, note: &Note) -> Result<Self> {
        let note = serde_json::to_vec(note).map_err(damaged)?;
        let length = u32::try_from(note.len()).ok().filter(|n| *n <= MOST_NOTE);
        let length = length.ok_or_else(|| damaged(format!("a note of {} bytes", note.len())))?;
        let mut writer = Self { out, hash: Sha256::new() };
        writer.write_all(&[&magic(role)[..], &length.to_le_bytes(), &note].concat())?;
        Ok(writer)
    }

    /// More of the keys.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.out.write_all(bytes)
    }

    /// Ends with the digest.
    pub fn finish(mut self, name: Hex32) -> Result<W> {
        self.out.write_all(&self.hash.chain_update(name.0).finalize())?;
        Ok(self.out)
    }
}

/// Reads a file of kept keys.
pub(in crate::session) struct Reader<R> {
    input: R,
    hash: Sha256,
    left: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the note of a file of this length.
    pub fn new(mut input: R, length: u64, role: Role) -> Result<(Note, Self)> {
        let mut head = [0; 12];
        input.read_exact(&mut head)?;
        let [.., a, b, c, d] = head;
        let note = u32::from_le_bytes([a, b, c, d]);
        if !head.starts_with(magic(role)) || note > MOST_NOTE {
            return Err(damaged("no keys of this version"));
        }
        let used = head.len() as u64 + u64::from(note) + DIGEST;
        let left = length.checked_sub(used).ok_or_else(|| damaged("it is cut short"))?;
        let mut text = vec![0; note as usize];
        input.read_exact(&mut text)?;
        let hash = Sha256::new_with_prefix(head).chain_update(&text);
        Ok((serde_json::from_slice(&text).map_err(damaged)?, Self { input, hash, left }))
    }

    /// Bytes of the keys that are still to be read.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// More of the keys.
    pub fn read_exact(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(|| damaged("it has fewer keys"))?;
        self.input.read_exact(bytes)?;
        self.hash.update(&bytes);
        Ok(())
    }

    /// All keys were read, and are those that were written under this name.
    pub fn finish(mut self, name: Hex32) -> Result<()> {
        let mut digest = [0; DIGEST as usize];
        self.input.read_exact(&mut digest)?;
        if self.left > 0 || self.hash.chain_update(name.0).finalize()[..] != digest {
            return Err(damaged("its keys are not those that were written"));
        }
        Ok(())
    }
}

/// What a fuzzer gives as a file: what is accepted is written and read again as the same. Whether it was.
///
/// # Panics
/// If it is not.
pub(super) fn fuzz(data: &[u8]) -> bool {
    const NAME: Hex32 = Hex32([3; 32]);
    let whole = |data: &[u8], role| -> Result<(Note, Vec<u8>)> {
        let (note, mut reader) = Reader::new(data, data.len() as u64, role)?;
        let mut keys = vec![0; usize::try_from(reader.left()).map_err(damaged)?];
        reader.read_exact(&mut keys)?;
        reader.finish(NAME).map(|()| (note, keys))
    };
    let mut accepted = false;
    for role in [Role::P0, Role::P1] {
        let Ok((note, keys)) = whole(data, role) else { continue };
        accepted = true;
        let written = Writer::new(Vec::new(), role, &note).and_then(|mut writer| {
            writer.write_all(&keys)?;
            writer.finish(NAME)
        });
        assert!(written.and_then(|bytes| whole(&bytes, role)).is_ok_and(|again| again == (note, keys)));
    }
    accepted
}

/// A file from its beginning.
pub(super) fn read(mut file: &File, role: Role) -> Result<(Note, Reader<&File>)> {
    file.seek(SeekFrom::Start(0))?;
    Reader::new(file, file.metadata()?.len(), role)
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub const NAME: Hex32 = Hex32([3; 32]);

    pub fn note() -> Note {
        Note {
            server: "ab".repeat(32),
            client: None,
            shape: Hex32([1; 32]),
            plan: "fast,projection=ckks".into(),
            bucket: 128,
            sets: vec![SetNote { set: "project".into(), degree: 16384, keys: 25 }],
            bytes: 1 << 20,
            serve_s: 86_400,
            stamp: Stamp { list: Hex32([2; 32]), made: 1_800_000_000 },
        }
    }

    /// A file with these keys.
    pub fn written(role: Role, keys: &[u8]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), role, &note()).unwrap();
        keys.chunks(7).for_each(|part| writer.write_all(part).unwrap());
        writer.finish(NAME).unwrap()
    }

    fn back(bytes: &[u8], role: Role, name: Hex32) -> Result<(Note, Vec<u8>)> {
        let (note, mut reader) = Reader::new(bytes, bytes.len() as u64, role)?;
        let mut keys = vec![0; reader.left() as usize];
        reader.read_exact(&mut keys)?;
        reader.finish(name).map(|()| (note, keys))
    }

    /// Files of one version have these bytes, whatever builds write them.
    #[test]
    fn known_answer_of_a_file_of_kept_keys() {
        let keys: Vec<u8> = (0..100).collect();
        let hex = |bytes: &[u8]| Hex32(Sha256::digest(bytes).into()).to_string();
        for (role, known) in [
            (Role::P0, "a2e106847a847c2c7c7791987655ffa1e7e871129294d999b7eec44a2551ae6a"),
            (Role::P1, "89eb9c54cdc13070b3da79e329b5edd738bbdc8fcd085da27f2f4079ee191055"),
        ] {
            let bytes = written(role, &keys);
            assert_eq!(back(&bytes, role, NAME).unwrap(), (note(), keys.clone()));
            assert_eq!(hex(&bytes), known, "{role:?}");
        }
    }

    #[test]
    fn every_changed_or_missing_byte_another_side_and_another_name_are_refused() {
        let bytes = written(Role::P0, &[5; 40]);
        assert!(back(&bytes, Role::P1, NAME).is_err() && back(&bytes, Role::P0, Hex32([4; 32])).is_err());
        for i in 0..bytes.len() {
            let mut other = bytes.clone();
            other[i] ^= 1;
            assert!(back(&other, Role::P0, NAME).is_err(), "byte {i}");
            assert!(back(&bytes[..i], Role::P0, NAME).is_err(), "{i} bytes");
        }
        assert!(back(&[&bytes[..], &[0]].concat(), Role::P0, NAME).is_err());
        // Less than all of it is not taken for all of it.
        let (_, mut reader) = Reader::new(&bytes[..], bytes.len() as u64, Role::P0).unwrap();
        assert!(reader.read_exact(&mut [0; 41]).is_err());
        let (_, mut reader) = Reader::new(&bytes[..], bytes.len() as u64, Role::P0).unwrap();
        reader.read_exact(&mut [0; 39]).unwrap();
        assert!(reader.finish(NAME).is_err());
    }
}
