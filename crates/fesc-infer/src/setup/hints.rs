//! Where the hints are: in memory, or in the file that they came in.
//!
//! A hint is read once per document, block and matrix, so that a file costs little, and memory does not grow with layers.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::sync::Mutex;

use fesc_model::Shape;
use fesc_ring::Ring;
use fesc_rlwe::linear::{Domain, Hint};
use fesc_rlwe::{Params, Seed};

use super::Matrix;
use crate::{InferError, Result};

/// Elements that are packed at once; a multiple of 8, so that parts end at bytes.
pub(super) const PART: usize = 1 << 16;

/// Writes packed elements.
pub(super) fn write_elements(ring: Ring, out: &mut (impl Write + ?Sized), values: &[u64]) -> Result<()> {
    for part in values.chunks(PART) {
        out.write_all(&ring.pack(part))?;
    }
    Ok(())
}

/// Reads packed elements. Grows with what arrives, so that a stream that ends early costs no more memory than it had bytes.
pub(super) fn read_elements(ring: Ring, input: &mut impl Read, count: usize) -> Result<Vec<u64>> {
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

    /// Bytes of one matrix.
    fn bytes(&self, matrix: Matrix) -> Result<u64> {
        Ok(self.params.ring().packed_len(self.elements(matrix)?) as u64)
    }

    /// Bytes of all hints.
    pub fn all_bytes(&self) -> Result<u64> {
        Ok(self.shape.layers as u64 * (self.bytes(Matrix::InProj)? + self.bytes(Matrix::OutProj)?))
    }

    /// Where a hint begins among them.
    fn offset(&self, layer: usize, matrix: Matrix) -> Result<u64> {
        let [input, output] = [self.bytes(Matrix::InProj)?, self.bytes(Matrix::OutProj)?];
        let before = if matrix == Matrix::OutProj { input } else { 0 };
        Ok(layer as u64 * (input + output) + before)
    }

    /// The hint that comes next in a stream.
    pub fn read(&self, input: &mut impl Read, layer: usize, matrix: Matrix) -> Result<Hint> {
        let rows = read_elements(self.params.ring(), input, self.elements(matrix)?)?;
        let domain = Domain { seed: self.seed, layer: layer as u32, matrix: matrix.index() as u32 };
        Ok(Hint::new(self.params, matrix.shape(&self.shape)?, domain, rows)?)
    }
}

/// All hints of a model.
pub(super) enum Hints {
    /// In memory.
    Memory(Vec<[Hint; 2]>),
    /// In a file, from this byte on.
    File { file: Mutex<File>, first: u64, layout: Layout },
}

impl Hints {
    /// Gives one hint to `take`.
    pub fn with<T>(&self, layer: usize, matrix: Matrix, take: impl FnOnce(&Hint) -> Result<T>) -> Result<T> {
        let missing = |got| InferError::Size { what: "layers of the client", expected: layer + 1, got };
        match self {
            Hints::Memory(hints) => match hints.get(layer) {
                Some(both) => take(&both[matrix.index()]),
                None => Err(missing(hints.len())),
            },
            Hints::File { layout, .. } if layer >= layout.shape.layers => Err(missing(layout.shape.layers)),
            Hints::File { file, first, layout } => {
                let at = first + layout.offset(layer, matrix)?;
                let hint = {
                    // One reader at a time: the file has one position. A thread that died with it left no harm.
                    let mut file = file.lock().unwrap_or_else(|e| e.into_inner());
                    file.seek(SeekFrom::Start(at))?;
                    layout.read(&mut BufReader::with_capacity(1 << 20, &mut *file), layer, matrix)?
                };
                take(&hint)
            }
        }
    }

    /// Writes all of them.
    pub fn write(&self, layers: usize, out: &mut impl Write) -> Result<()> {
        for layer in 0..layers {
            for matrix in Matrix::ALL {
                self.with(layer, matrix, |hint| write_elements(hint.params().ring(), out, hint.rows()))?;
            }
        }
        Ok(())
    }
}
