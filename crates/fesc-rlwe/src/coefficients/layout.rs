//! How vectors lie in ciphertexts and results in answers: for the fewest bytes, work in mind.
//!
//! Columns of all vectors are cut into pieces. A piece of block size `B`, a power of two, puts `g = N / B`
//! vectors into one ciphertext, interleaved: value `p` of vector `j` in coefficient `g p + j mod g`. An
//! answer has up to `g` results in the same way, packed ([`super::pack`]). So a width that is a power of two
//! wastes nothing in either direction, and another one is worth cutting. All ways to cut a width at the bits
//! of its binary form are tried (a last piece is rounded up), with all numbers of results in an answer, as
//! far as the noise stays below [`MAX_NOISE`]. What is compared is bytes and a little for the evaluator's
//! work.

use std::ops::Range;

use super::{DEGREE, MAX_PACK, RESPONSE_BYTES, SEED_BYTES, noise};
use crate::{Result, RlweError};
use fesc_ring::wide::WORD_BITS;

/// Least block: with larger numbers of vectors in a ciphertext, packing would need automorphisms that mix
/// places.
const MIN_BLOCK: usize = DEGREE / MAX_PACK;
/// Largest deviation of the noise of one product that packing may lead to, in units of the last place. Up to
/// [`super::MAX_SUMMANDS`] all packings stay below 9.2.
const MAX_NOISE: f64 = 16.0;
/// A key switch weighs as much as this many bytes.
const SWITCH_PRICE: usize = 1024;
/// A scalar times the `N` coefficients of a ciphertext weighs as much as this many bytes: 0.9 microseconds,
/// where a switch takes 150.
const TERM_PRICE: usize = 8;

/// Some columns of all vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The first column.
    pub(super) from: usize,
    /// At most `block`.
    pub(super) width: usize,
    /// A power of two up to `N`.
    pub(super) block: usize,
    /// Results in an answer: a power of two up to `N / block`.
    pub(super) pack: usize,
}

impl Piece {
    /// Vectors of up to `N` values in one piece, one result to an answer.
    ///
    /// # Errors
    /// If `width` is 0 or above `N`.
    pub fn whole(width: usize) -> Result<Self> {
        if width == 0 || width > DEGREE {
            return Err(RlweError::Width { width, degree: DEGREE });
        }
        Ok(Self::new(0, width))
    }

    fn new(from: usize, width: usize) -> Self {
        Self { from, width, block: width.next_power_of_two().max(MIN_BLOCK), pack: 1 }
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

    /// Results of one answer.
    pub fn pack(&self) -> usize {
        self.pack
    }

    /// The coefficients of an answer that are the values of its result `i`.
    pub fn places(&self, i: usize) -> impl Iterator<Item = usize> + use<> {
        let (per, pack) = (self.per_cipher(), self.pack);
        (0..self.width).map(move |p| per * p + i * (per / pack))
    }

    /// Bits of a coefficient that an encryption of random messages sends: packing takes its factor from the
    /// message, and so from what is below it.
    pub(super) fn sent_bits(&self) -> u32 {
        WORD_BITS - self.pack.trailing_zeros()
    }

    /// Bytes of an encryption of random messages.
    pub fn upload_bytes(&self) -> usize {
        SEED_BYTES + DEGREE * self.sent_bits() as usize / 8
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
    /// The layout of the least weight, both directions together.
    pub fn new(vectors: usize, width: usize, outputs: usize) -> Self {
        let cut = |stop: u32| {
            let mut layout = Self { vectors, width, outputs, pieces: pieces(width, stop) };
            let packed = layout.pieces.iter().map(|p| layout.packed(p)).collect();
            layout.pieces = packed;
            layout
        };
        let top = DEGREE.trailing_zeros();
        let least = MIN_BLOCK.trailing_zeros();
        let best = (least..top).map(cut).fold(cut(top), |best, next| {
            let cost = |l: &Self| (l.weight(), l.pieces.len());
            if cost(&next) < cost(&best) { next } else { best }
        });
        // Without a vector, a value or an output there is nothing to send.
        if vectors == 0 || outputs == 0 { Self { pieces: Vec::new(), ..best } } else { best }
    }

    /// The piece with the number of results in an answer that weighs least.
    fn packed(&self, piece: &Piece) -> Piece {
        let most = piece.per_cipher().min(self.outputs.next_power_of_two());
        let ways = (0..=most.ilog2()).map(|log| Piece { pack: 1 << log, ..*piece });
        let quiet = ways.filter(|p| p.pack == 1 || noise(self.vectors, p.pack) <= MAX_NOISE);
        quiet.min_by_key(|p| self.piece_weight(p)).unwrap_or(*piece)
    }

    fn piece_weight(&self, piece: &Piece) -> usize {
        let bytes = self.ciphers(piece) * piece.upload_bytes() + self.answers(piece) * RESPONSE_BYTES;
        bytes + self.piece_switches(piece) * SWITCH_PRICE + self.outputs * self.vectors * TERM_PRICE
    }

    /// What layouts are compared by: bytes, and a little for the evaluator's work.
    pub fn weight(&self) -> usize {
        self.pieces.iter().map(|p| self.piece_weight(p)).sum()
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

    /// Answers of the piece.
    pub fn answers(&self, piece: &Piece) -> usize {
        self.outputs.div_ceil(piece.pack)
    }

    fn piece_switches(&self, piece: &Piece) -> usize {
        super::pack::switches(self.outputs, piece.pack)
    }

    /// Key switches of the evaluator.
    pub fn switches(&self) -> usize {
        self.pieces.iter().map(|p| self.piece_switches(p)).sum()
    }

    /// Largest deviation of the noise of a result, in units of the last place.
    pub fn noise(&self) -> f64 {
        self.pieces.iter().map(|p| noise(self.vectors, p.pack)).fold(0.0, f64::max)
    }

    /// Bytes that the key holder sends: [`Piece::upload_bytes`] for every ciphertext.
    pub fn upload_bytes(&self) -> usize {
        self.pieces.iter().map(|p| self.ciphers(p) * p.upload_bytes()).sum()
    }

    /// Bytes that the evaluator sends: [`RESPONSE_BYTES`] for every answer.
    pub fn response_bytes(&self) -> usize {
        self.pieces.iter().map(|p| self.answers(p)).sum::<usize>() * RESPONSE_BYTES
    }
}

/// Whole ciphertexts, then the bits of the rest down to `2^stop`, then what is left in one piece.
fn pieces(width: usize, stop: u32) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut from = 0;
    for bit in (stop..=DEGREE.trailing_zeros()).rev() {
        while width - from >= 1 << bit {
            out.push(Piece::new(from, 1 << bit));
            from += 1 << bit;
        }
    }
    // With `stop` at the top, whole ciphertexts are taken and the rest is below one.
    if from < width {
        out.push(Piece::new(from, width - from));
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
                        piece.width > 0
                            && piece.width <= piece.block
                            && DEGREE.is_multiple_of(piece.block)
                            && piece.per_cipher().is_multiple_of(piece.pack),
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
        let piece = |from, width, pack| Piece { from, width, block: width, pack };
        // B^T V and C H: 1536 = 1024 + 512, without waste.
        let layout = Layout::new(128, 1536, 128);
        assert_eq!(layout.pieces(), [piece(0, 1024, 4), piece(1024, 512, 8)]);
        let bytes = 32 * (16 + 512 * 50) + 16 * (16 + 512 * 49);
        assert_eq!((layout.upload_bytes(), layout.response_bytes()), (bytes, 48 * 28_688));
        // M X: 64 vectors of 64 in a ciphertext, 64 results in an answer.
        let layout = Layout::new(128, 64, 128);
        assert_eq!(layout.pieces(), [piece(0, 64, 64)]);
        assert_eq!((layout.upload_bytes(), layout.response_bytes()), (2 * (16 + 512 * 46), 2 * 28_688));
        assert_eq!(layout.switches(), 126);
        // S.
        let layout = Layout::new(128, 128, 128);
        assert_eq!(layout.pieces(), [piece(0, 128, 32)]);
        assert_eq!((layout.upload_bytes(), layout.response_bytes()), (4 * (16 + 512 * 47), 4 * 28_688));
        // The recurrence: two ciphertexts per vector of 8192, nothing to pack.
        let layout = Layout::new(16, 8192, 16);
        assert_eq!((layout.upload_bytes(), layout.response_bytes()), (32 * 26_640, 32 * 28_688));
        let nothing = [(0, 5, 5), (5, 0, 5), (5, 5, 0)].map(|(v, w, o)| Layout::new(v, w, o));
        assert!(nothing.iter().all(|l| l.upload_bytes() + l.response_bytes() == 0));
    }

    #[test]
    fn long_sums_are_packed_less() {
        let pack = |vectors| Layout::new(vectors, 64, 64).pieces()[0].pack;
        assert_eq!([pack(16), pack(128), pack(2000), pack(4000)], [64, 64, 32, 32]);
        assert!([16, 128, 2000, 4000].iter().all(|&v| Layout::new(v, 64, 64).noise() <= MAX_NOISE));
    }

    #[test]
    fn many_vectors_are_cut_finer_than_many_outputs() {
        // One output: an upload of 3072 columns without waste is worth a second answer.
        assert_eq!(Layout::new(1000, 3072, 1).pieces().len(), 2);
        assert_eq!(Layout::new(1, 3072, 1).pieces().len(), 1);
        // No other way to cut at bits weighs less.
        for (vectors, width, outputs) in [(40, 1000, 9), (300, 3000, 7), (9, 5000, 30), (64, 1536, 2)] {
            let best = Layout::new(vectors, width, outputs);
            for stop in 6..=12 {
                for pack in [1, 2, 4, 64].into_iter().filter(|&p| p <= outputs.next_power_of_two()) {
                    let pieces = pieces(width, stop);
                    let pieces = pieces.iter().map(|p| Piece { pack: pack.min(p.per_cipher()), ..*p }).collect();
                    let other = Layout { pieces, ..best.clone() };
                    assert!(best.weight() <= other.weight(), "{vectors} {width} {outputs} {stop} {pack}");
                }
            }
        }
    }
}
