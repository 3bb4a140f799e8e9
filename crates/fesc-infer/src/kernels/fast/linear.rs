//! `X W` (and a convolution after it) by the server's matrix: one message of the client per block (design
//! 6.1, [`fesc_rlwe::linear`]).
//!
//! Rows come in token order, `before` rows of the past first, which only the convolution reads. What comes
//! out is cut by columns into parts, each in token order. Biases are the server's and enter its share.
//!
//! Online: `(N + m T) l` bits to the server for each block of T tokens (the past included), half a round,
//! nothing back.

use std::ops::Range;

use fesc_mpc::{Ledger, Party, Role, Shared};
use fesc_net::Tag;
use fesc_net::message::MessagePhase::Online;
use fesc_net::message::ways::UP;
use fesc_net::message::{self, Sessions, Size};
use fesc_ring::Ring;
use fesc_rlwe::Params;
use fesc_rlwe::linear::{Block, Message, Prepared, Server, Shape};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::error::check;
use crate::stage::Side;
use crate::{InferError, Result};

/// Columns of a tile of the transposition.
const TILE: usize = 32;

const BLOCK: Tag = Tag(0x0601);

/// What this file sends.
pub(crate) const MESSAGES: &[message::Message] = &[message::Message {
    tag: BLOCK.0,
    name: "blocks of linear layers",
    ways: UP,
    sessions: Sessions::Rlwe,
    size: Size::Multiple { of: 6, plus: 6 * 2048, most: Size::MOST },
    formula: "6 (N + m T), N = 2048, m features, T tokens of the block",
    mask: "RLWE: a s + e under a fresh secret for each block and matrix",
    tests: &["blocks_without_pads_give_the_input_away", "one_secret_for_two_blocks_gives_their_difference_away"],
    ..message::Message::masked("fesc-infer", &[Online])
}];

/// One linear layer on one segment.
pub struct Linear {
    params: Params,
    shape: Shape,
    blocks: Vec<Block>,
    before: usize,
    tokens: usize,
    parts: Vec<Range<usize>>,
}

/// The client's prepared blocks, by number; the server's secrets, and a bias for some columns at the scale of
/// the product.
type Halves<'a> = Side<&'a mut dyn FnMut(usize) -> Result<Prepared>, (&'a Server, &'a [Bias<'a>])>;

/// A bias for the columns from `first` on.
pub struct Bias<'a> {
    /// The first column.
    pub first: usize,
    /// One value per column.
    pub values: &'a [i64],
}

impl Linear {
    /// `tokens` rows after `before` rows of the past; `parts` are the ranges of columns that come out.
    ///
    /// # Errors
    /// If the shape has no blocks.
    pub fn new(
        params: Params,
        shape: Shape,
        before: usize,
        tokens: usize,
        parts: impl IntoIterator<Item = Range<usize>>,
    ) -> Result<Self> {
        let blocks = Block::cut_after(&params, &shape, before, tokens)?;
        let parts: Vec<_> = parts.into_iter().collect();
        for part in &parts {
            if part.start > part.end || part.end > shape.outputs() {
                return Err(InferError::Size {
                    what: "columns of a projection",
                    expected: shape.outputs(),
                    got: part.end,
                });
            }
        }
        Ok(Self { params, shape, blocks, before, tokens, parts })
    }

    /// The blocks, in order: what the client prepares.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Tokens of the past that the convolution reads.
    pub fn overlap(&self) -> usize {
        self.shape.taps() - 1
    }

    fn elements(&self, block: &Block) -> usize {
        self.params.degree() + self.shape.inputs() * block.coefficients()
    }

    /// Writes the cost.
    pub fn declare(&self, ledger: &mut Ledger) {
        for block in &self.blocks {
            ledger.send(Role::P0, self.params.ring().packed_len(self.elements(block)));
        }
    }

    /// Shares of the parts.
    ///
    /// # Errors
    /// If a half belongs to the other party or does not fit, or the channel fails.
    pub fn run(&self, party: &mut Party, half: Halves<'_>, x: &Shared) -> Result<Vec<Shared>> {
        let (ring, inputs) = (self.params.ring(), self.shape.inputs());
        check("rows of a projection's input", (self.before + self.tokens) * inputs, x.len())?;
        let mut out: Vec<Vec<u64>> = self.parts.iter().map(|p| vec![0; p.len() * self.tokens]).collect();
        match half.of(party.role(), "a linear layer")? {
            Side::Client(pads) => {
                for (i, block) in self.blocks.iter().enumerate() {
                    let (message, share) = pads(i)?.send(x.values())?;
                    let share = Zeroizing::new(share);
                    check(
                        "a prepared block's message",
                        self.elements(block),
                        message.common.len() + message.features.len(),
                    )?;
                    let mut bytes = Vec::with_capacity(ring.packed_len(self.elements(block)));
                    ring.pack_into(&mut bytes, &message.common);
                    ring.pack_into(&mut bytes, &message.features);
                    party.channel().send(BLOCK, bytes)?;
                    self.place(block, &share, &mut out)?;
                }
            }
            Side::Server((server, biases)) => {
                for block in &self.blocks {
                    let bytes = party.channel().recv(BLOCK, ring.packed_len(self.elements(block)))?;
                    let mut common = ring.unpack(&bytes, self.elements(block))?;
                    drop(bytes);
                    let features = common.split_off(self.params.degree());
                    let share = Zeroizing::new(server.share(block, Message { common, features }, x.values())?);
                    self.place(block, &share, &mut out)?;
                }
                self.add_biases(ring, biases, &mut out)?;
            }
        }
        Ok(out.into_iter().map(|values| Shared::new(ring, values)).collect())
    }

    /// A block's share, one row per column of the matrix, into the parts, one row per token.
    fn place(&self, block: &Block, share: &[u64], out: &mut [Vec<u64>]) -> Result<()> {
        let tokens = block.tokens();
        check("a block's share", self.shape.outputs() * tokens, share.len())?;
        let first = block.first() - self.before;
        for (part, out) in self.parts.iter().zip(out) {
            let width = part.len();
            let rows = &share[part.start * tokens..part.end * tokens];
            let rows_out = &mut out[first * width..(first + tokens) * width];
            // Tiles, so that neither side's stride leaves the cache.
            rows_out.par_chunks_mut((TILE * width).max(1)).enumerate().for_each(|(tile, out)| {
                for c in 0..width {
                    let column = &rows[c * tokens + tile * TILE..];
                    for (o, &v) in out.iter_mut().skip(c).step_by(width).zip(column) {
                        *o = v;
                    }
                }
            });
        }
        Ok(())
    }

    fn add_biases(&self, ring: Ring, biases: &[Bias<'_>], out: &mut [Vec<u64>]) -> Result<()> {
        for bias in biases {
            let end = bias.first + bias.values.len();
            for (part, out) in self.parts.iter().zip(&mut *out) {
                let (from, to) = (part.start.max(bias.first), part.end.min(end));
                let Some(values) =
                    from.checked_sub(bias.first).and_then(|f| bias.values.get(f..to.checked_sub(bias.first)?))
                else {
                    continue;
                };
                for row in out.chunks_exact_mut(part.len().max(1)) {
                    for (o, &b) in row[from - part.start..].iter_mut().zip(values) {
                        *o = ring.add(*o, ring.from_signed(b));
                    }
                }
            }
        }
        Ok(())
    }
}
