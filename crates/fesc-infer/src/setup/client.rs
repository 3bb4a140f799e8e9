//! What every client of a model downloads: hints and table. Nothing in it is secret, and without the server's secrets it is
//! pseudorandom.
//!
//! As bytes (all numbers little-endian, elements packed to l bits): `FESCSET1`, the kind of table (1 byte), the outline's digest (32), the
//! hints' seed (32), for every layer the rows of both hints, then the table: seed (32), key, rows; or the public rows.
//! Every length follows from the outline, so that a reader knows all sizes before it allocates.

use std::io::{self, Read, Write};
use std::sync::OnceLock;

use fesc_model::outline::Outline;
use fesc_ring::Ring;
use fesc_rlwe::embedding::Table;
use fesc_rlwe::linear::{Domain, Hint};
use fesc_rlwe::{Params, Seed};
use sha2::{Digest, Sha256};

use super::Matrix;
use crate::flow::Flow;
use crate::stage::Embedding;
use crate::{InferError, Result};

const MAGIC: &[u8; 8] = b"FESCSET1";
/// Elements that are packed at once; a multiple of 8, so that parts end at bytes.
const PART: usize = 1 << 16;

/// The client's table.
pub(crate) enum TableCopy {
    Encrypted(Box<Table>),
    Public(Vec<i64>),
}

/// Hints and table of one model.
pub struct ClientSetup {
    params: Params,
    outline: [u8; 32],
    seed: Seed,
    hints: Vec<[Hint; 2]>,
    table: TableCopy,
    digest: OnceLock<[u8; 32]>,
}

impl ClientSetup {
    pub(super) fn from_parts(
        outline: &Outline,
        params: Params,
        seed: Seed,
        hints: Vec<[Hint; 2]>,
        table: TableCopy,
    ) -> Result<Self> {
        let digest = OnceLock::new();
        Ok(Self { params, outline: outline.digest()?, seed, hints, table, digest })
    }

    /// How the client gets rows of the table.
    pub fn embedding(&self) -> Embedding {
        match self.table {
            TableCopy::Encrypted(_) => Embedding::Encrypted,
            TableCopy::Public(_) => Embedding::Public,
        }
    }

    /// The digest of the outline that it belongs to.
    pub fn outline_digest(&self) -> [u8; 32] {
        self.outline
    }

    pub(crate) fn hint(&self, layer: usize, matrix: Matrix) -> Result<&Hint> {
        let found = self.hints.get(layer).map(|both| &both[matrix.index()]);
        found.ok_or(InferError::Size { what: "layers of the client", expected: layer + 1, got: self.hints.len() })
    }

    pub(crate) fn table(&self) -> &TableCopy {
        &self.table
    }

    /// Bytes of the setup of a model.
    ///
    /// # Errors
    /// If the model has no linear layers of a possible shape.
    pub fn bytes(outline: &Outline, embedding: Embedding) -> Result<u64> {
        let (params, shape) = (Params::linear()?, outline.shape());
        let packed = |elements: usize| params.ring().packed_len(elements) as u64;
        let columns = shape.proj_dim() + shape.d_model;
        let hints = shape.layers as u64 * packed(columns * params.degree());
        let rows = packed(shape.vocab * shape.d_model);
        let table = match embedding {
            Embedding::Encrypted => 32 + packed(params.degree()) + rows,
            Embedding::Public => rows,
        };
        Ok((MAGIC.len() + 1 + 32 + 32) as u64 + hints + table)
    }

    /// SHA-256 of what [`Self::write`] writes.
    ///
    /// # Errors
    /// None: a hash takes all bytes.
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
        let ring = self.params.ring();
        out.write_all(MAGIC)?;
        out.write_all(&[u8::from(self.embedding() == Embedding::Public)])?;
        out.write_all(&self.outline)?;
        out.write_all(&self.seed.0)?;
        for hint in self.hints.iter().flatten() {
            write_elements(ring, out, hint.rows())?;
        }
        match &self.table {
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

    /// Reads the setup of the model with this outline, to its last byte and no further.
    ///
    /// # Errors
    /// If it is cut short, or is another model's.
    pub fn read(input: &mut impl Read, outline: &Outline) -> Result<Self> {
        let mut input = Tee { inner: input, hash: Sha256::new() };
        let (params, shape) = (Params::linear()?, *outline.shape());
        let (ring, degree) = (params.ring(), params.degree());
        if input.take::<8>()? != *MAGIC {
            return Err(InferError::Setup("it does not begin with FESCSET1"));
        }
        let public = match input.take::<1>()? {
            [0] => false,
            [1] => true,
            _ => return Err(InferError::Setup("its table is of an unknown kind")),
        };
        let digest = input.take::<32>()?;
        if digest != outline.digest()? {
            return Err(InferError::Setup("it belongs to another model"));
        }
        let seed = Seed(input.take()?);
        let mut hints = Vec::with_capacity(shape.layers);
        for layer in 0..shape.layers {
            let mut hint = |matrix: Matrix| -> Result<Hint> {
                let linear = matrix.shape(&shape)?;
                let rows = input.elements(ring, linear.outputs() * degree)?;
                let domain = Domain { seed, layer: layer as u32, matrix: matrix.index() as u32 };
                Ok(Hint::new(params, linear, domain, rows)?)
            };
            hints.push([hint(Matrix::InProj)?, hint(Matrix::OutProj)?]);
        }
        let elements = shape.vocab * shape.d_model;
        let table = if public {
            let rows = input.elements(ring, elements)?;
            TableCopy::Public(rows.into_iter().map(|v| ring.to_signed(v)).collect())
        } else {
            let seed = Seed(input.take()?);
            let (key, rows) = (input.elements(ring, degree)?, input.elements(ring, elements)?);
            TableCopy::Encrypted(Box::new(Table::new(params, seed, shape.d_model, key, rows)?))
        };
        let setup = Self::from_parts(outline, params, seed, hints, table)?;
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

fn write_elements(ring: Ring, out: &mut impl Write, values: &[u64]) -> Result<()> {
    for part in values.chunks(PART) {
        out.write_all(&ring.pack(part))?;
    }
    Ok(())
}

/// Reads and hashes.
struct Tee<'a, R> {
    inner: &'a mut R,
    hash: Sha256,
}

impl<R: Read> Tee<'_, R> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.inner.read_exact(bytes)?;
        self.hash.update(bytes);
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Grows with what arrives, so that a stream that ends early costs no more memory than it had bytes.
    fn elements(&mut self, ring: Ring, count: usize) -> Result<Vec<u64>> {
        let mut values = Vec::new();
        let mut bytes = vec![0; ring.packed_len(PART.min(count))];
        while values.len() < count {
            let part = PART.min(count - values.len());
            bytes.truncate(ring.packed_len(part));
            self.fill(&mut bytes)?;
            values.extend(ring.unpack(&bytes, part)?);
        }
        Ok(values)
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
