//! The client's half: everything but one addition is prepared before the document is known.

mod keep;

use fesc_ring::poly::PolyRing;
use fesc_ring::sample::{gaussian, ternary};
use fesc_ring::{Prg, Ring};
use rayon::prelude::*;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::block::{Block, Shape};
use super::server::Hint;
use crate::error::length;
use crate::{Result, RlweError};

/// What one block of one matrix of one document needs, used once: not `Clone`, and [`Prepared::send`]
/// consumes it.
#[derive(ZeroizeOnDrop)]
pub struct Prepared {
    #[zeroize(skip)]
    ring: Ring,
    #[zeroize(skip)]
    shape: Shape,
    #[zeroize(skip)]
    block: Block,
    /// `b'`.
    common: Vec<u64>,
    /// `a_j s + e_j`: m rows of T.
    pads: Vec<u64>,
    /// `-c_k s`: n rows of `tokens`.
    share: Vec<u64>,
}

/// What goes to the server. Every element is masked.
pub struct Message {
    /// `b'`: N elements.
    pub common: Vec<u64>,
    /// `b_j`: m rows of T.
    pub features: Vec<u64>,
}

impl Prepared {
    /// Draws a fresh secret for one block and computes all that does not depend on the document.
    ///
    /// # Errors
    /// If the block does not fit the ring.
    pub fn new(hint: &Hint, block: Block, prg: &mut Prg) -> Result<Self> {
        let (params, shape) = (hint.params(), hint.shape());
        let (ring, degree, used) = (params.ring(), params.degree(), block.coefficients());
        if used > degree || block.overlap() + 1 != shape.taps() {
            return Err(RlweError::Block { tokens: block.tokens(), overlap: block.overlap(), degree });
        }
        let polys = PolyRing::new(ring, degree, 1)?;
        let mut secret = Zeroizing::new(vec![0; degree]);
        ternary(prg, &mut secret);
        let secret = polys.prepare_small(&secret)?;

        // One stream for each error polynomial, so that the work can be shared out; a key comes from the
        // caller's stream.
        let key = prg.fork();
        let error = |key: &mut Prg| {
            let mut e = Zeroizing::new(vec![0i64; degree]);
            gaussian(key, &mut e);
            e
        };
        let mut streams: Vec<Prg> = {
            let mut key = key;
            (0..=shape.inputs()).map(|_| key.fork()).collect()
        };
        let sample = |a: &[u64], stream: &mut Prg| -> Result<Vec<u64>> {
            let mut b = polys.mul(&polys.prepare_full(a)?, &secret)?;
            for (b, e) in b.iter_mut().zip(error(stream).iter()) {
                *b = ring.add(*b, ring.from_signed(*e));
            }
            Ok(b)
        };
        let (first, rest) = streams.split_at_mut(1);
        let common = sample(&hint.domain().common(params), &mut first[0])?;
        let mut pads = vec![0; shape.inputs() * used];
        pads.par_chunks_mut(used.max(1)).zip(rest).enumerate().try_for_each(|(j, (pad, stream))| {
            let mut b = sample(&hint.domain().feature(params, j), stream)?;
            pad.copy_from_slice(&b[..used]);
            b.zeroize();
            Ok::<_, RlweError>(())
        })?;
        let mut share = vec![0; shape.outputs() * block.tokens()];
        share.par_chunks_mut(block.tokens().max(1)).enumerate().try_for_each(|(k, share)| {
            let mut product = polys.mul(&polys.prepare_full(hint.row(k))?, &secret)?;
            for (y, &p) in share.iter_mut().zip(&product[block.overlap()..used]) {
                *y = ring.neg(p);
            }
            product.zeroize();
            Ok::<_, RlweError>(())
        })?;
        Ok(Self { ring, shape: *shape, block, common, pads, share })
    }

    /// The message for the client's share of the document (L rows of m), and its share of the result (n rows
    /// of `tokens`).
    ///
    /// # Errors
    /// If the share does not reach the end of the block.
    pub fn send(mut self, x0: &[u64]) -> Result<(Message, Vec<u64>)> {
        add_block(self.ring, &self.block, self.shape.inputs(), x0, &mut self.pads)?;
        let message = Message { common: std::mem::take(&mut self.common), features: std::mem::take(&mut self.pads) };
        Ok((message, std::mem::take(&mut self.share)))
    }
}

/// `out += x` over a block: `x` has rows of `inputs` (tokens), `out` has rows of T (features); nothing is
/// added before token 0.
pub(super) fn add_block(ring: Ring, block: &Block, inputs: usize, x: &[u64], out: &mut [u64]) -> Result<()> {
    let (first, overlap, used) = (block.first(), block.overlap(), block.coefficients());
    length("a feature for each token", out.len(), inputs * used)?;
    let end = (first + block.tokens()) * inputs;
    if x.len() < end || !x.len().is_multiple_of(inputs) {
        return Err(RlweError::Length { what: "a share of the document", expected: end, got: x.len() });
    }
    // Where the block begins before the document does, its first columns stay as they are.
    let skip = overlap.saturating_sub(first);
    for (i, row) in x[(first + skip - overlap) * inputs..end].chunks_exact(inputs).enumerate() {
        for (j, &value) in row.iter().enumerate() {
            let o = &mut out[j * used + skip + i];
            *o = ring.add(*o, value);
        }
    }
    Ok(())
}
