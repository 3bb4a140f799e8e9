//! How vectors lie in ciphertexts: for the fewest bytes.
//!
//! Columns of all vectors are cut into pieces. A piece of block size `B`, a power of two, puts `N / B` vectors into one ciphertext and costs one answer
//! per output, whatever its width. So many outputs ask for few pieces, and many vectors for blocks without waste. All ways to cut a width at the
//! bits of its binary form are tried (a last piece is rounded up), and the cheapest in bytes is taken; of equals, the one with fewer pieces.

use std::ops::Range;

use super::{DEGREE, RANDOM_BYTES, RESPONSE_BYTES};
use crate::{Result, RlweError};

/// Some columns of all vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The first column.
    pub(super) from: usize,
    /// At most `block`.
    pub(super) width: usize,
    /// A power of two up to `N`.
    pub(super) block: usize,
}

impl Piece {
    /// Vectors of up to `N` values in one piece.
    ///
    /// # Errors
    /// If `width` is 0 or above `N`.
    pub fn whole(width: usize) -> Result<Self> {
        if width == 0 || width > DEGREE {
            return Err(RlweError::Width { width, degree: DEGREE });
        }
        Ok(Self { from: 0, width, block: width.next_power_of_two() })
    }

    /// The columns.
    pub fn columns(&self) -> Range<usize> {
        self.from..self.from + self.width
    }

    /// Coefficients that a vector takes in a ciphertext.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Vectors of one ciphertext.
    pub fn per_cipher(&self) -> usize {
        DEGREE / self.block
    }
}

/// A product of `outputs x vectors` scalars by `vectors x width` values, and how it lies in ciphertexts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    vectors: usize,
    width: usize,
    outputs: usize,
    pieces: Vec<Piece>,
}

impl Layout {
    /// The layout of the fewest bytes, both directions together.
    pub fn new(vectors: usize, width: usize, outputs: usize) -> Self {
        let cut = |stop: u32| Self { vectors, width, outputs, pieces: pieces(width, stop) };
        let top = DEGREE.trailing_zeros();
        let best = (0..top).map(cut).fold(cut(top), |best, next| {
            let cost = |l: &Self| (l.upload_bytes() + l.response_bytes(), l.pieces.len());
            if cost(&next) < cost(&best) { next } else { best }
        });
        // Without a vector, a value or an output there is nothing to send.
        if vectors == 0 || outputs == 0 { Self { pieces: Vec::new(), ..best } } else { best }
    }

    /// Vectors `v_j`.
    pub fn vectors(&self) -> usize {
        self.vectors
    }

    /// Values of a vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Sums.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The pieces, in the order of the messages.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Ciphertexts of the piece.
    pub fn ciphers(&self, piece: &Piece) -> usize {
        self.vectors.div_ceil(piece.per_cipher())
    }

    /// Bytes that the key holder sends: [`RANDOM_BYTES`] for every ciphertext.
    pub fn upload_bytes(&self) -> usize {
        self.pieces.iter().map(|p| self.ciphers(p)).sum::<usize>() * RANDOM_BYTES
    }

    /// Bytes that the evaluator sends: [`RESPONSE_BYTES`] for every piece of every output.
    pub fn response_bytes(&self) -> usize {
        self.pieces.len() * self.outputs * RESPONSE_BYTES
    }
}

/// Whole ciphertexts, then the bits of the rest down to `2^stop`, then what is left in one piece.
fn pieces(width: usize, stop: u32) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut from = 0;
    for bit in (stop..=DEGREE.trailing_zeros()).rev() {
        while width - from >= 1 << bit {
            out.push(Piece { from, width: 1 << bit, block: 1 << bit });
            from += 1 << bit;
        }
    }
    // With `stop` at the top, whole ciphertexts are taken and the rest is below one.
    if from < width {
        out.push(Piece { from, width: width - from, block: (width - from).next_power_of_two() });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_every_column_once() {
        for width in [0, 1, 2, 3, 64, 100, 1536, 2047, 2048, 2049, 4095, 4096, 4097, 8192, 10_000] {
            for (vectors, outputs) in [(1, 1), (128, 128), (1000, 1), (1, 1000), (7, 3)] {
                let layout = Layout::new(vectors, width, outputs);
                let mut at = 0;
                for piece in layout.pieces() {
                    assert_eq!(piece.from, at, "{width}");
                    assert!(
                        piece.width > 0 && piece.width <= piece.block && DEGREE.is_multiple_of(piece.block),
                        "{piece:?}"
                    );
                    at += piece.width;
                }
                assert_eq!(at, width);
            }
        }
    }

    #[test]
    fn bytes_of_the_products_of_the_scan() {
        // B^T V and C H: two vectors of 1536 per ciphertext, 128 answers.
        let layout = Layout::new(128, 1536, 128);
        assert_eq!(layout.pieces(), [Piece { from: 0, width: 1536, block: 2048 }]);
        assert_eq!((layout.upload_bytes(), layout.response_bytes()), (64 * 26_640, 128 * 28_688));
        // The recurrence: two ciphertexts per vector of 8192.
        let layout = Layout::new(16, 8192, 16);
        assert_eq!((layout.upload_bytes(), layout.response_bytes()), (32 * 26_640, 32 * 28_688));
        let nothing = [(0, 5, 5), (5, 0, 5), (5, 5, 0)].map(|(v, w, o)| Layout::new(v, w, o));
        assert!(nothing.iter().all(|l| l.upload_bytes() + l.response_bytes() == 0));
    }

    #[test]
    fn many_vectors_are_cut_finer_than_many_outputs() {
        // One output: an upload of 3072 columns without waste is worth a second answer.
        assert_eq!(Layout::new(1000, 3072, 1).pieces().len(), 2);
        assert_eq!(Layout::new(1, 3072, 1000).pieces().len(), 1);
        // No other way to cut at bits is cheaper.
        for (vectors, width, outputs) in [(40, 1000, 9), (300, 3000, 7), (9, 5000, 30), (64, 1536, 2)] {
            let best = Layout::new(vectors, width, outputs);
            for stop in 0..=12 {
                let other = Layout { pieces: pieces(width, stop), ..best.clone() };
                let bytes = |l: &Layout| l.upload_bytes() + l.response_bytes();
                assert!(bytes(&best) <= bytes(&other), "{vectors} {width} {outputs} {stop}");
            }
        }
    }
}
