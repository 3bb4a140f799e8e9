//! Whole products over a [`Layout`]: what each side sends, and the shares.
//!
//! One message each way: [`KeyHolder::upload`], [`Evaluator::answer`], [`KeyHolder::finish`]. On all threads of the current rayon pool.

use fesc_ring::Prg;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{Evaluator, KeyHolder, Layout, Piece, RANDOM_BYTES, RESPONSE_BYTES};
use crate::error::length;
use crate::{Result, RlweError};

/// One stream per ciphertext, drawn in order, so that the result does not depend on threads.
fn streams(prg: &mut Prg, count: usize) -> Vec<Prg> {
    (0..count).map(|_| prg.fork()).collect()
}

impl KeyHolder {
    /// The message of [`Layout::upload_bytes`], and the vectors that it encrypts: `vectors x width`, row-major, uniform in `Z_2^48` for the evaluator.
    ///
    /// # Errors
    /// None with these constants.
    pub fn upload(&self, layout: &Layout, prg: &mut Prg) -> Result<(Vec<u8>, Vec<u64>)> {
        let mut bytes = Vec::with_capacity(layout.upload_bytes());
        let mut values = vec![0; layout.vectors() * layout.width()];
        for piece in layout.pieces() {
            let ciphers: Vec<_> =
                streams(prg, layout.ciphers(piece)).into_par_iter().map(|mut prg| self.random(&mut prg)).collect();
            let mut rows = values.chunks_exact_mut(layout.width());
            for cipher in ciphers {
                let (part, messages) = cipher?;
                let messages = Zeroizing::new(messages);
                bytes.extend_from_slice(&part);
                // Blocks first: a ciphertext that has no more must not take a row with it.
                for (block, row) in messages.chunks_exact(piece.block).zip(&mut rows) {
                    row[piece.columns()].copy_from_slice(&block[..piece.width]);
                }
            }
        }
        Ok((bytes, values))
    }

    /// This party's shares of the results, `outputs x width`, from the evaluator's message of [`Layout::response_bytes`].
    ///
    /// # Errors
    /// If the message has another length.
    pub fn finish(&self, layout: &Layout, responses: &[u8]) -> Result<Vec<u64>> {
        length("answers of a product, in bytes", layout.response_bytes(), responses.len())?;
        let mut out = vec![0; layout.outputs() * layout.width()];
        let all = responses.chunks_exact((layout.outputs() * RESPONSE_BYTES).max(1));
        for (piece, responses) in layout.pieces().iter().zip(all) {
            let work = out.par_chunks_exact_mut(layout.width()).zip(responses.par_chunks_exact(RESPONSE_BYTES));
            work.try_for_each(|(row, response)| {
                row[piece.columns()].copy_from_slice(&Zeroizing::new(self.open(response, piece.width)?));
                Ok::<_, RlweError>(())
            })?;
        }
        Ok(out)
    }
}

impl Evaluator {
    /// The message of [`Layout::response_bytes`] to the key holder's `upload`, and this party's shares of the results, `outputs x width`.
    /// `scalars` are `outputs x vectors`, row-major.
    ///
    /// # Errors
    /// If a length does not fit the layout, or there are more than [`super::MAX_SUMMANDS`] vectors.
    pub fn answer(
        &self,
        layout: &Layout,
        upload: &[u8],
        scalars: &[u64],
        prg: &mut Prg,
    ) -> Result<(Vec<u8>, Vec<u64>)> {
        length("an upload of a product, in bytes", layout.upload_bytes(), upload.len())?;
        let mut bytes = Vec::with_capacity(layout.response_bytes());
        let mut out = vec![0; layout.outputs() * layout.width()];
        let mut rest = upload;
        for piece in layout.pieces() {
            let (part, later) = rest.split_at((layout.ciphers(piece) * RANDOM_BYTES).min(rest.len()));
            rest = later;
            for (row, (response, share)) in
                out.chunks_exact_mut(layout.width()).zip(self.answer_piece(layout, piece, part, scalars, prg)?)
            {
                bytes.extend_from_slice(&response);
                row[piece.columns()].copy_from_slice(&Zeroizing::new(share));
            }
        }
        Ok((bytes, out))
    }

    /// The answer and the share of every output.
    fn answer_piece(
        &self,
        layout: &Layout,
        piece: &Piece,
        upload: &[u8],
        scalars: &[u64],
        prg: &mut Prg,
    ) -> Result<Vec<(Vec<u8>, Vec<u64>)>> {
        let ciphers =
            upload.par_chunks_exact(RANDOM_BYTES).map(|c| self.receive_random(c)).collect::<Result<Vec<_>>>()?;
        let sums = self.combine(&ciphers, piece, layout.vectors(), scalars, layout.outputs())?;
        let streams = streams(prg, sums.len());
        sums.par_iter().zip(streams).map(|(sum, mut prg)| self.respond(sum, &mut prg)).collect()
    }
}
