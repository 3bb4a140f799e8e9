//! Whole products over a [`Layout`]: what each side sends, and the shares.
//!
//! One message each way: [`KeyHolder::upload`], [`Evaluator::answer`], [`KeyHolder::finish`]. On all threads
//! of the current rayon pool.

use fesc_ring::Prg;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{Evaluator, KeyHolder, Layout, Piece, RESPONSE_BYTES, Scalars};
use crate::error::length;
use crate::{Result, RlweError};

/// One stream per ciphertext, drawn in order, so that the result does not depend on threads.
fn streams(prg: &mut Prg, count: usize) -> Vec<Prg> {
    (0..count).map(|_| prg.fork()).collect()
}

/// The shares of an answer's coefficients to the rows of its results.
fn spread(piece: &Piece, shares: &[u64], rows: &mut [u64], width: usize) {
    for (i, row) in rows.chunks_exact_mut(width).enumerate() {
        row[piece.columns()].iter_mut().zip(piece.places(i)).for_each(|(o, at)| *o = shares[at]);
    }
}

impl KeyHolder {
    /// The message of [`Layout::upload_bytes`], and the vectors that it encrypts: `vectors x width`,
    /// row-major, uniform in `Z_2^48` for the evaluator.
    ///
    /// # Errors
    /// None with these constants.
    pub fn upload(&self, layout: &Layout, prg: &mut Prg) -> Result<(Vec<u8>, Vec<u64>)> {
        let mut bytes = Vec::with_capacity(layout.upload_bytes());
        let mut values = vec![0; layout.vectors() * layout.width()];
        for piece in layout.pieces() {
            let streams = streams(prg, layout.ciphers(piece)).into_par_iter();
            let ciphers: Vec<_> = streams.map(|mut prg| self.random(piece, &mut prg)).collect();
            let mut rows = values.chunks_exact_mut(layout.width());
            for cipher in ciphers {
                let (part, messages) = cipher?;
                let messages = Zeroizing::new(messages);
                bytes.extend_from_slice(&part);
                // Places first: a ciphertext that has no more must not take a row with it.
                for (place, row) in (0..piece.per_cipher()).zip(&mut rows) {
                    let values = messages[place..].iter().step_by(piece.per_cipher());
                    row[piece.columns()].iter_mut().zip(values).for_each(|(o, &v)| *o = v);
                }
            }
        }
        Ok((bytes, values))
    }

    /// This party's shares of the results, `outputs x width`, from the evaluator's message of
    /// [`Layout::response_bytes`].
    ///
    /// # Errors
    /// If the message has another length.
    pub fn finish(&self, layout: &Layout, responses: &[u8]) -> Result<Vec<u64>> {
        length("answers of a product, in bytes", layout.response_bytes(), responses.len())?;
        let mut out = vec![0; layout.outputs() * layout.width()];
        let mut rest = responses;
        for piece in layout.pieces() {
            let (part, later) = rest.split_at((layout.answers(piece) * RESPONSE_BYTES).min(rest.len()));
            rest = later;
            let rows = out.par_chunks_mut((piece.pack * layout.width()).max(1));
            rows.zip(part.par_chunks_exact(RESPONSE_BYTES)).try_for_each(|(rows, response)| {
                spread(piece, &Zeroizing::new(self.open(response)?), rows, layout.width());
                Ok::<_, RlweError>(())
            })?;
        }
        Ok(out)
    }
}

impl Evaluator {
    /// The message of [`Layout::response_bytes`] to the key holder's `upload`, and this party's shares of the
    /// results, `outputs x width`.
    ///
    /// # Errors
    /// If a length does not fit the layout, or there are more than [`super::MAX_SUMMANDS`] vectors.
    pub fn answer(
        &self,
        layout: &Layout,
        upload: &[u8],
        scalars: Scalars<'_>,
        prg: &mut Prg,
    ) -> Result<(Vec<u8>, Vec<u64>)> {
        length("an upload of a product, in bytes", layout.upload_bytes(), upload.len())?;
        let mut bytes = Vec::with_capacity(layout.response_bytes());
        let mut out = vec![0; layout.outputs() * layout.width()];
        let mut rest = upload;
        for piece in layout.pieces() {
            let (part, later) = rest.split_at((layout.ciphers(piece) * piece.upload_bytes()).min(rest.len()));
            rest = later;
            let rows = out.chunks_mut((piece.pack * layout.width()).max(1));
            for (rows, (response, share)) in rows.zip(self.answer_piece(layout, piece, part, scalars, prg)?) {
                bytes.extend_from_slice(&response);
                spread(piece, &Zeroizing::new(share), rows, layout.width());
            }
        }
        Ok((bytes, out))
    }

    /// The answers, and this party's shares of their coefficients.
    fn answer_piece(
        &self,
        layout: &Layout,
        piece: &Piece,
        upload: &[u8],
        scalars: Scalars<'_>,
        prg: &mut Prg,
    ) -> Result<Vec<(Vec<u8>, Vec<u64>)>> {
        let ciphers = upload.par_chunks_exact(piece.upload_bytes()).map(|c| self.receive_random(piece, c));
        let ciphers = ciphers.collect::<Result<Vec<_>>>()?;
        let sums = self.combine(&ciphers, piece, layout.vectors(), scalars, layout.outputs())?;
        let streams = streams(prg, sums.len());
        sums.par_iter().zip(streams).map(|(sum, mut prg)| self.respond(sum, &mut prg)).collect()
    }
}
