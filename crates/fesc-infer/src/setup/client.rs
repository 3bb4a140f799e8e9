//! What every client of a model downloads: hints and table. Nothing in it is secret, and without the server's secrets it is
//! pseudorandom.
//!
//! As bytes (all numbers little-endian, elements packed to l bits): `FESCSET1`, the kind of table (1 byte), the outline's digest (32), the
//! hints' seed (32), for every layer the rows of both hints, then the table: seed (32), key, rows; or the public rows.
//! Every length follows from the outline, so that a reader knows all sizes before it allocates.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::sync::{Mutex, OnceLock};

use fesc_model::outline::Outline;
use fesc_ring::Ring;
use fesc_rlwe::embedding::Table;
use fesc_rlwe::linear::Hint;
use fesc_rlwe::{Params, Seed};
use sha2::{Digest, Sha256};

use super::Matrix;
use super::hints::{Hints, Layout, PART, read_elements, write_elements};
use crate::flow::Flow;
use crate::stage::Embedding;
use crate::{InferError, Result};

const MAGIC: &[u8; 8] = b"FESCSET1";
/// Magic, kind, digest, seed.
const HEADER: u64 = 8 + 1 + 32 + 32;

/// The client's table.
pub(crate) enum TableCopy {
    Encrypted(Box<Table>),
    Public(Vec<i64>),
}

impl TableCopy {
    fn embedding(&self) -> Embedding {
        match self {
            TableCopy::Encrypted(_) => Embedding::Encrypted,
            TableCopy::Public(_) => Embedding::Public,
        }
    }

    pub(super) fn write(&self, ring: Ring, out: &mut impl Write) -> Result<()> {
        match self {
            TableCopy::Encrypted(table) => {
                out.write_all(&table.seed().0)?;
                write_elements(ring, out, table.key())?;
                write_elements(ring, out, table.rows())
            }
            TableCopy::Public(rows) => {
                for part in rows.chunks(PART) {
                    let part: Vec<u64> = part.iter().map(|&v| ring.from_signed(v)).collect();
                    write_elements(ring, out, &part)?;
                }
                Ok(())
            }
        }
    }

    fn read(params: Params, outline: &Outline, public: bool, input: &mut impl Read) -> Result<Self> {
        let (ring, shape) = (params.ring(), outline.shape());
        let elements = shape.vocab * shape.d_model;
        if public {
            let rows = read_elements(ring, input, elements)?;
            return Ok(TableCopy::Public(rows.into_iter().map(|v| ring.to_signed(v)).collect()));
        }
        let seed = Seed(read_array(input)?);
        let (key, rows) = (read_elements(ring, input, params.degree())?, read_elements(ring, input, elements)?);
        Ok(TableCopy::Encrypted(Box::new(Table::new(params, seed, shape.d_model, key, rows)?)))
    }
}

/// Hints and table of one model.
pub struct ClientSetup {
    layout: Layout,
    outline: [u8; 32],
    hints: Hints,
    table: TableCopy,
    digest: OnceLock<[u8; 32]>,
}

/// Writes what comes before the hints.
pub(super) fn write_header(out: &mut impl Write, outline: &[u8; 32], seed: &Seed, embedding: Embedding) -> Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&[u8::from(embedding == Embedding::Public)])?;
    out.write_all(outline)?;
    Ok(out.write_all(&seed.0)?)
}

impl ClientSetup {
    pub(super) fn from_parts(layout: Layout, outline: &Outline, hints: Hints, table: TableCopy) -> Result<Self> {
        Ok(Self { layout, outline: outline.digest()?, hints, table, digest: OnceLock::new() })
    }

    /// How the client gets rows of the table.
    pub fn embedding(&self) -> Embedding {
        self.table.embedding()
    }

    /// The digest of the outline that it belongs to.
    pub fn outline_digest(&self) -> [u8; 32] {
        self.outline
    }

    /// Gives one hint to `take`.
    pub(crate) fn with_hint<T>(
        &self,
        layer: usize,
        matrix: Matrix,
        take: impl FnOnce(&Hint) -> Result<T>,
    ) -> Result<T> {
        self.hints.with(layer, matrix, take)
    }

    pub(crate) fn table(&self) -> &TableCopy {
        &self.table
    }

    /// Bytes of the setup of a model.
    ///
    /// # Errors
    /// If the model has no linear layers of a possible shape.
    pub fn bytes(outline: &Outline, embedding: Embedding) -> Result<u64> {
        let (params, shape) = (Params::linear()?, *outline.shape());
        let layout = Layout { params, shape, seed: Seed([0; 32]) };
        let packed = |elements: usize| params.ring().packed_len(elements) as u64;
        let rows = packed(shape.vocab * shape.d_model);
        let table = match embedding {
            Embedding::Encrypted => 32 + packed(params.degree()) + rows,
            Embedding::Public => rows,
        };
        Ok(HEADER + layout.all_bytes()? + table)
    }

    /// SHA-256 of what [`Self::write`] writes.
    ///
    /// # Errors
    /// If the hints are in a file that can not be read any more.
    pub fn digest(&self) -> Result<[u8; 32]> {
        if let Some(digest) = self.digest.get() {
            return Ok(*digest);
        }
        let mut hash = Hash(Sha256::new());
        self.write(&mut hash)?;
        let digest = hash.0.finalize().into();
        Ok(*self.digest.get_or_init(|| digest))
    }

    /// Writes the setup.
    ///
    /// # Errors
    /// If `out` does not take the bytes.
    pub fn write(&self, out: &mut impl Write) -> Result<()> {
        write_header(out, &self.outline, &self.layout.seed, self.embedding())?;
        self.hints.write(self.layout.shape.layers, out)?;
        self.table.write(self.layout.params.ring(), out)
    }

    /// Reads the setup of the model with this outline into memory, to its last byte and no further.
    ///
    /// # Errors
    /// If it is cut short, or is another model's.
    pub fn read(input: &mut impl Read, outline: &Outline) -> Result<Self> {
        Self::parse(input, outline, |layout, input| {
            let mut hints = Vec::new();
            for layer in 0..layout.shape.layers {
                let mut hint = |matrix| layout.read(input, layer, matrix);
                hints.push([hint(Matrix::InProj)?, hint(Matrix::OutProj)?]);
            }
            Ok(Hints::Memory(hints))
        })
    }

    /// The setup that begins at byte `at` of a file, whose hints stay there: memory does not grow with layers. All of it is read once, for its
    /// digest; afterwards the file must not change (one that appears by a rename does not).
    ///
    /// # Errors
    /// If it is cut short, or is another model's.
    pub fn open(mut file: File, at: u64, outline: &Outline) -> Result<Self> {
        file.seek(SeekFrom::Start(at))?;
        let mut reader = file.try_clone()?;
        let mut setup = Self::parse(&mut BufReader::with_capacity(1 << 20, &mut reader), outline, |layout, input| {
            let all = layout.all_bytes()?;
            if io::copy(&mut input.take(all), &mut io::sink())? != all {
                return Err(InferError::Setup("it is cut short"));
            }
            Ok(Hints::Memory(Vec::new()))
        })?;
        setup.hints = Hints::File { file: Mutex::new(file), first: at + HEADER, layout: setup.layout };
        Ok(setup)
    }

    fn parse<R: Read>(
        input: &mut R,
        outline: &Outline,
        hints: impl FnOnce(&Layout, &mut Tee<'_, R>) -> Result<Hints>,
    ) -> Result<Self> {
        let mut input = Tee { inner: input, hash: Sha256::new() };
        if read_array::<8>(&mut input)? != *MAGIC {
            return Err(InferError::Setup("it does not begin with FESCSET1"));
        }
        let public = match read_array::<1>(&mut input)? {
            [0] => false,
            [1] => true,
            _ => return Err(InferError::Setup("its table is of an unknown kind")),
        };
        if read_array::<32>(&mut input)? != outline.digest()? {
            return Err(InferError::Setup("it belongs to another model"));
        }
        let seed = Seed(read_array(&mut input)?);
        let layout = Layout { params: Params::linear()?, shape: *outline.shape(), seed };
        let hints = hints(&layout, &mut input)?;
        let table = TableCopy::read(layout.params, outline, public, &mut input)?;
        let setup = Self::from_parts(layout, outline, hints, table)?;
        // What was read is what would be written: packed elements have one form.
        let _ = setup.digest.set(input.hash.finalize().into());
        Ok(setup)
    }

    /// Refuses a schedule of another model or another kind of table.
    pub(crate) fn check(&self, flow: &Flow) -> Result<()> {
        if self.outline != flow.digest() {
            return Err(InferError::Setup("it belongs to another model"));
        }
        if self.embedding() != flow.embedding() {
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

/// Reads and hashes.
struct Tee<'a, R> {
    inner: &'a mut R,
    hash: Sha256,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.hash.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// A hash that takes bytes as a file does.
struct Hash(Sha256);

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
