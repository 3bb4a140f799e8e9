//! What is published of a model, as a file of named sections, each with its digest.
//!
//! ```text
//! magic "FESCpub2"   sections (u64)
//! for each: name (16 bytes, zeros behind it)   length (u64)   SHA-256 (32 bytes)
//! the sections' bytes, one after the other
//! ```
//!
//! All numbers are little-endian. The model id is the hash of everything before the sections' bytes, so it
//! names every byte of them, and a part that was changed on the way or on disk is refused. A plan says which
//! sections it needs ([`SECTIONS`]); another plan brings others, and none that a reader does not know is
//! taken.

use std::io::{Read, Write};

use sha2::{Digest, Sha256};

use super::error::{Result, SessionError};
use super::hex::Hex32;

const MAGIC: &[u8; 8] = b"FESCpub2";
const NAME: usize = 16;
const ENTRY: usize = NAME + 8 + 32;

/// Outline and tokenizer, as JSON.
pub const CARD: &str = "card";
/// Hints and table of the RLWE linear layers.
pub const RLWE: &str = "rlwe";
/// The sections of the fast plan, in their order.
pub const SECTIONS: [&str; 2] = [CARD, RLWE];

/// A section's place in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name, at most 16 bytes.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: u64,
    /// Their SHA-256.
    pub digest: [u8; 32],
}

/// The list of sections: what stands before their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    sections: Vec<Section>,
}

/// Bytes of a list of so many sections.
pub const fn index_bytes(sections: usize) -> u64 {
    (MAGIC.len() + 8 + sections * ENTRY) as u64
}

fn malformed(problem: impl std::fmt::Display) -> SessionError {
    SessionError::malformed("public part of a model", problem)
}

/// A name with zeros behind it.
fn padded(name: &str) -> [u8; NAME] {
    std::array::from_fn(|i| name.as_bytes().get(i).copied().unwrap_or(0))
}

impl Index {
    /// Of these sections, in this order.
    pub fn new(sections: Vec<Section>) -> Self {
        Self { sections }
    }

    fn encoded(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &(self.sections.len() as u64).to_le_bytes()].concat();
        for Section { name, bytes: length, digest } in &self.sections {
            bytes.extend([&padded(name)[..], &length.to_le_bytes(), digest].concat());
        }
        bytes
    }

    /// The model id.
    pub fn id(&self) -> Hex32 {
        Hex32(Sha256::new_with_prefix(b"fesc model 2\0").chain_update(self.encoded()).finalize().into())
    }

    /// Bytes of all of it, the list included.
    pub fn bytes(&self) -> u64 {
        self.sections.iter().fold(index_bytes(self.sections.len()), |sum, s| sum.saturating_add(s.bytes))
    }

    /// A section, and where it begins.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn section(&self, name: &str) -> Result<(u64, &Section)> {
        let found = self.sections.iter().position(|s| s.name == name);
        let (before, rest) = self.sections.split_at(found.unwrap_or(self.sections.len()));
        let section = rest.first().ok_or_else(|| malformed(format!("it has no section {name:?}")))?;
        let start = index_bytes(self.sections.len());
        Ok((before.iter().fold(start, |at, s| at.saturating_add(s.bytes)), section))
    }

    /// Writes the list.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        out.write_all(&self.encoded())
    }

    /// Reads the list, which must have exactly [`SECTIONS`].
    ///
    /// # Errors
    /// If it has not, or ends early.
    pub fn read(input: &mut impl Read, unread: impl Fn(std::io::Error) -> SessionError) -> Result<Self> {
        let mut bytes = [0; index_bytes(SECTIONS.len()) as usize];
        input.read_exact(&mut bytes).map_err(&unread)?;
        let entries = bytes[16..].as_chunks::<ENTRY>().0;
        let sections = SECTIONS.iter().zip(entries).map(|(&name, entry)| {
            let (length, digest) = entry[NAME..].split_at(8);
            let length = length.first_chunk().copied().map_or(0, u64::from_le_bytes);
            Section { name, bytes: length, digest: digest.first_chunk().copied().unwrap_or_default() }
        });
        let index = Self::new(sections.collect());
        // Magic, number and names are what this program writes, or it is something else.
        if index.encoded() != bytes {
            return Err(malformed("not a public part of this version, or its sections are not those of this plan"));
        }
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn index() -> Index {
        let section = |(i, name): (usize, &'static str)| Section { name, bytes: 10 + i as u64, digest: [i as u8; 32] };
        Index::new(SECTIONS.into_iter().enumerate().map(section).collect())
    }

    fn read(bytes: &[u8]) -> Result<Index> {
        Index::read(&mut &bytes[..], malformed)
    }

    #[test]
    fn a_list_is_read_as_it_was_written_and_every_byte_of_it_counts() {
        let mut bytes = Vec::new();
        index().write(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, index_bytes(2));
        assert_eq!(read(&bytes).unwrap(), index());
        assert_eq!(index().bytes(), index_bytes(2) + 21);
        assert_eq!(index().section(RLWE).unwrap().0, index_bytes(2) + 10);
        assert!(index().section("ckks").is_err());
        for i in 0..bytes.len() {
            let mut other = bytes.clone();
            other[i] ^= 1;
            assert!(read(&other).map_or(true, |other| other.id() != index().id()), "byte {i}");
            assert!(read(&bytes[..i]).is_err());
        }
    }
}
