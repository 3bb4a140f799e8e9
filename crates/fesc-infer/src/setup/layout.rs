//! Sizes and places of a model's public part in bytes.

use std::io::{Read, Write};

use fesc_model::Shape;
use fesc_ring::Ring;
use fesc_rlwe::linear::{Domain, Hint};
use fesc_rlwe::{Params, Seed};

use super::Matrix;
use crate::stage::Embedding;
use crate::{InferError, Result};

/// Magic, kind, digest, seed.
pub(super) const HEADER: u64 = 8 + 1 + 32 + 32;

/// Elements that are packed at once; a multiple of 8, so that parts end at bytes.
const PART: usize = 1 << 16;

/// Writes packed elements.
pub(super) fn write_elements(ring: Ring, out: &mut (impl Write + ?Sized), values: &[u64]) -> Result<()> {
    for part in values.chunks(PART) {
        out.write_all(&ring.pack(part))?;
    }
    Ok(())
}

/// Reads packed elements. Grows with what arrives, so that a stream that ends early costs no more memory than
/// it had bytes.
pub(super) fn read_elements(ring: Ring, input: &mut (impl Read + ?Sized), count: usize) -> Result<Vec<u64>> {
    let mut values = Vec::new();
    let mut bytes = vec![0; ring.packed_len(PART.min(count))];
    while values.len() < count {
        let part = PART.min(count - values.len());
        bytes.truncate(ring.packed_len(part));
        input.read_exact(&mut bytes)?;
        values.extend(ring.unpack(&bytes, part)?);
    }
    Ok(values)
}

/// The sizes and the public seed of a model's hints.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub params: Params,
    pub shape: Shape,
    pub seed: Seed,
}

impl Layout {
    fn elements(&self, matrix: Matrix) -> Result<usize> {
        Ok(matrix.shape(&self.shape)?.outputs() * self.params.degree())
    }

    /// Bytes of one hint.
    pub fn hint_bytes(&self, matrix: Matrix) -> Result<u64> {
        Ok(self.params.ring().packed_len(self.elements(matrix)?) as u64)
    }

    /// Bytes of all hints.
    pub fn all_bytes(&self) -> Result<u64> {
        Ok(self.shape.layers as u64 * (self.hint_bytes(Matrix::InProj)? + self.hint_bytes(Matrix::OutProj)?))
    }

    /// Where a hint begins in the public part.
    pub fn hint(&self, layer: usize, matrix: Matrix) -> Result<u64> {
        let got = self.shape.layers;
        if layer >= got {
            return Err(InferError::Size { what: "layers of the client", expected: layer + 1, got });
        }
        let [input, output] = [self.hint_bytes(Matrix::InProj)?, self.hint_bytes(Matrix::OutProj)?];
        let before = if matrix == Matrix::OutProj { input } else { 0 };
        Ok(HEADER + layer as u64 * (input + output) + before)
    }

    /// Bytes of the table before its rows: seed and key.
    fn key_bytes(&self, embedding: Embedding) -> u64 {
        match embedding {
            Embedding::Encrypted => 32 + self.params.ring().packed_len(self.params.degree()) as u64,
            Embedding::Public => 0,
        }
    }

    /// Bytes of a row of the table. Rows begin at bytes, since the ring's elements have whole ones.
    pub fn row_bytes(&self) -> Result<u64> {
        let bits = self.params.ring().bits();
        if !bits.is_multiple_of(8) {
            return Err(InferError::Misuse { what: "the ring", why: "rows of the table do not begin at bytes" });
        }
        Ok(self.shape.d_model as u64 * u64::from(bits / 8))
    }

    /// Where a row of the table begins in the public part.
    pub fn row(&self, id: u64, embedding: Embedding) -> Result<u64> {
        Ok(HEADER + self.all_bytes()? + self.key_bytes(embedding) + id * self.row_bytes()?)
    }

    /// Bytes of the public part.
    pub fn bytes(&self, embedding: Embedding) -> Result<u64> {
        self.row(self.shape.vocab as u64, embedding)
    }

    /// The hint that comes next in a stream.
    pub fn read(&self, input: &mut (impl Read + ?Sized), layer: usize, matrix: Matrix) -> Result<Hint> {
        let rows = read_elements(self.params.ring(), input, self.elements(matrix)?)?;
        let domain = Domain { seed: self.seed, layer: layer as u32, matrix: matrix.index() as u32 };
        Ok(Hint::new(self.params, matrix.shape(&self.shape)?, domain, rows)?)
    }
}
