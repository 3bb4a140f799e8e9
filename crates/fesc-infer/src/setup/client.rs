//! What every client of a model downloads: hints and table. Nothing in it is secret, and without the server's
//! secrets it is pseudorandom.
//!
//! As bytes (all numbers little-endian, elements packed to l bits): `FESCSET3`, the kind of table (1 byte),
//! the outline's digest (32), the hints' seed (32), for every layer the rows of both hints, then the table:
//! seed (32), key, rows; or the public rows. Every length follows from the outline, so that a reader knows
//! all sizes before it allocates.
//!
//! It stays in its file on both sides: a hint is read once per document, block and matrix, a row of the table
//! once per token. So memory grows neither with layers nor with the vocabulary.
//!
//! All of it is hashed when it is opened, and that digest is part of the model's id. A hint is hashed again
//! whenever it is read, and refused if it is no longer what it was then, like a matrix of the server's
//! ([`super::vault`]): no second pass at the opening, 150 bytes a hint, and at Mamba-base 51 MB to hash for
//! one block of both matrices of a layer, 36 ms at the 1.4 GB/s of a core with SHA instructions. They fall to
//! the thread that prepares blocks. **Rows of the table are not**: digests of rows would be 1.6 MB, digests
//! of groups would mean a whole group to read for a token. A row that changes in the file after the opening
//! is a wrong answer that nobody notices. It gives nothing away: what hides a token is drawn by the client,
//! under a key that stays in memory.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

use fesc_model::outline::Outline;
use fesc_rlwe::embedding::Table;
use fesc_rlwe::linear::Hint;
use fesc_rlwe::{Params, Seed};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::Matrix;
use super::layout::{Layout, read_elements};
use super::stored::Stored;
use crate::schedule::Schedule;
use crate::stage::Embedding;
use crate::{InferError, Result};

const MAGIC: &[u8; 8] = b"FESCSET3";

/// Hints and table of one model, in their file.
pub struct ClientSetup {
    layout: Layout,
    outline: [u8; 32],
    digest: [u8; 32],
    file: Stored,
    first: u64,
    /// By layer and matrix.
    seals: Vec<[Seal; 2]>,
    /// `None`: the rows are public.
    table: Option<Box<Table>>,
}

/// What a hint is held to: the hash of the setup up to its first byte, to go on from, and up to its last.
struct Seal {
    before: Sha256,
    after: [u8; 32],
}

/// Writes what comes before the hints.
pub(super) fn write_header(out: &mut impl Write, outline: &[u8; 32], seed: &Seed, embedding: Embedding) -> Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&[u8::from(embedding == Embedding::Public)])?;
    out.write_all(outline)?;
    Ok(out.write_all(&seed.0)?)
}

impl ClientSetup {
    /// The setup that begins at byte `at` of a file, and stays there. All of it is read once, for its digest;
    /// afterwards the file must not change (one that appears by a rename does not).
    ///
    /// # Errors
    /// If it is cut short, or is another model's.
    pub fn open(mut file: File, at: u64, outline: &Outline) -> Result<Self> {
        file.seek(SeekFrom::Start(at))?;
        let got = file.metadata()?.len().saturating_sub(at);
        let mut input = Tee { inner: BufReader::with_capacity(1 << 20, &mut file), hash: Sha256::new() };
        if read_array::<8>(&mut input)? != *MAGIC {
            return Err(InferError::Setup("it does not begin with FESCSET3"));
        }
        let embedding = match read_array::<1>(&mut input)? {
            [0] => Embedding::Encrypted,
            [1] => Embedding::Public,
            _ => return Err(InferError::Setup("its table is of an unknown kind")),
        };
        if read_array::<32>(&mut input)? != outline.digest()? {
            return Err(InferError::Setup("it belongs to another model"));
        }
        let seed = Seed(read_array(&mut input)?);
        let layout = Layout { params: Params::linear()?, shape: *outline.shape(), seed };
        let expected = layout.bytes(embedding)?;
        if got < expected {
            return Err(InferError::Short { what: "the model's public part", expected, got });
        }
        let sizes = [layout.hint_bytes(Matrix::InProj)?, layout.hint_bytes(Matrix::OutProj)?];
        let mut seals = Vec::with_capacity(layout.shape.layers);
        for _ in 0..layout.shape.layers {
            let [first, second] = sizes;
            seals.push([seal(&mut input, first)?, seal(&mut input, second)?]);
        }
        let table = match embedding {
            Embedding::Public => None,
            Embedding::Encrypted => {
                let seed = Seed(read_array(&mut input)?);
                let key = read_elements(layout.params.ring(), &mut input, layout.params.degree())?;
                Some(Box::new(Table::new(layout.params, seed, layout.shape.d_model, key)?))
            }
        };
        skip(&mut input, layout.row_bytes()? * layout.shape.vocab as u64)?;
        let digest = input.hash.finalize().into();
        let outline = outline.digest()?;
        Ok(Self { layout, outline, digest, file: Stored::new(file), first: at, seals, table })
    }

    /// How the client gets rows of the table.
    pub fn embedding(&self) -> Embedding {
        match self.table {
            Some(_) => Embedding::Encrypted,
            None => Embedding::Public,
        }
    }

    /// The digest of the outline that it belongs to.
    pub fn outline_digest(&self) -> [u8; 32] {
        self.outline
    }

    /// Reads one hint, which must be what it was when the setup was opened.
    pub(crate) fn hint(&self, layer: usize, matrix: Matrix) -> Result<Hint> {
        let (at, bytes) = (self.first + self.layout.hint(layer, matrix)?, self.layout.hint_bytes(matrix)?);
        let missing = InferError::Size { what: "layers of the client", expected: layer + 1, got: self.seals.len() };
        let seal = self.seals.get(layer).map(|both| &both[matrix.index()]).ok_or(missing)?;
        let (hint, hash) = self.file.stream("a hint", at, bytes, |input| {
            let mut input = Tee { inner: input, hash: seal.before.clone() };
            Ok((self.layout.read(&mut input, layer, matrix)?, input.hash))
        })?;
        if hash.finalize()[..] != seal.after {
            return Err(InferError::Changed { layer, matrix: matrix.index(), at, bytes });
        }
        Ok(hint)
    }

    /// The key of an encrypted table.
    pub(crate) fn table(&self) -> Option<&Table> {
        self.table.as_deref()
    }

    /// Reads rows of the table, encrypted or public. Either way they tell the document to whoever has the
    /// table.
    pub(crate) fn rows(&self, ids: &[u32]) -> Result<Zeroizing<Vec<u64>>> {
        let (vocabulary, width, bytes) = (self.layout.shape.vocab, self.layout.shape.d_model, self.layout.row_bytes()?);
        let mut rows = Zeroizing::new(Vec::with_capacity(ids.len() * width));
        let mut row = Zeroizing::new(vec![0; bytes as usize]);
        for (index, &id) in ids.iter().enumerate() {
            if id as usize >= vocabulary {
                return Err(InferError::Token { index, id, vocabulary });
            }
            let at = self.first + self.layout.row(id.into(), self.embedding())?;
            self.file.read("a row of the table", at, bytes, |input| Ok(input.read_exact(&mut row)?))?;
            rows.extend_from_slice(&Zeroizing::new(self.layout.params.ring().unpack(&row, width)?));
        }
        Ok(rows)
    }

    /// Bytes of the setup of a model.
    ///
    /// # Errors
    /// If the model has no linear layers of a possible shape.
    pub fn bytes(outline: &Outline, embedding: Embedding) -> Result<u64> {
        Layout { params: Params::linear()?, shape: *outline.shape(), seed: Seed([0; 32]) }.bytes(embedding)
    }

    /// SHA-256 of what [`Self::write`] writes.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Writes the setup.
    ///
    /// # Errors
    /// If `out` does not take the bytes, or the file does not give them any more.
    pub fn write(&self, out: &mut impl Write) -> Result<()> {
        self.file.copy("the model's public part", self.first, self.layout.bytes(self.embedding())?, out)
    }

    /// Refuses a schedule of another model or another kind of table.
    pub(crate) fn check(&self, schedule: &Schedule) -> Result<()> {
        if self.outline != schedule.digest() {
            return Err(InferError::Setup("it belongs to another model"));
        }
        if self.embedding() != schedule.embedding() {
            return Err(InferError::Misuse { what: "the schedule", why: "its embedding is not the setup's" });
        }
        Ok(())
    }
}

fn read_array<const N: usize>(input: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads over what stays in the file.
fn skip(input: &mut impl Read, bytes: u64) -> Result<()> {
    let got = io::copy(&mut input.take(bytes), &mut io::sink())?;
    if got == bytes { Ok(()) } else { Err(InferError::Short { what: "the model's public part", expected: bytes, got }) }
}

/// Reads over a hint.
fn seal<R: Read>(input: &mut Tee<R>, bytes: u64) -> Result<Seal> {
    let before = input.hash.clone();
    skip(input, bytes)?;
    Ok(Seal { before, after: input.hash.clone().finalize().into() })
}

/// Reads and hashes.
struct Tee<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.hash.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }
}
