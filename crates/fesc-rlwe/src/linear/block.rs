//! The shape of a layer, and how a document is cut into blocks.

use crate::{Params, Result, RlweError};

/// Most taps: Mamba-2 has 4, and blocks stay long.
const MAX_TAPS: usize = 64;

/// A linear layer with a causal depthwise convolution after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    inputs: usize,
    outputs: usize,
    taps: usize,
}

impl Shape {
    /// `inputs` features to `outputs`, then `taps` taps; one tap means no convolution.
    ///
    /// # Errors
    /// If a number is 0, or there are more taps than a block can carry.
    pub fn new(inputs: usize, outputs: usize, taps: usize) -> Result<Self> {
        if inputs == 0 || outputs == 0 || taps == 0 || taps > MAX_TAPS {
            return Err(RlweError::Shape { inputs, outputs, taps, most: MAX_TAPS });
        }
        Ok(Self { inputs, outputs, taps })
    }

    /// Features in, `m`.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Features out, `n`.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Taps of the convolution.
    pub fn taps(&self) -> usize {
        self.taps
    }
}

/// One block: some tokens of a document, and those before it that the convolution reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    first: usize,
    tokens: usize,
    overlap: usize,
}

impl Block {
    /// Cuts `length` tokens into the fewest blocks, of even size.
    ///
    /// # Errors
    /// If the taps leave no room for a token.
    pub fn cut(params: &Params, shape: &Shape, length: usize) -> Result<Vec<Self>> {
        Self::cut_after(params, shape, 0, length)
    }

    /// The same for the `length` tokens that follow the first `before` rows of a share: those rows are only
    /// read by the convolution. So a document that is computed piece by piece carries the end of one piece
    /// into the next.
    ///
    /// # Errors
    /// As [`Self::cut`].
    pub fn cut_after(params: &Params, shape: &Shape, before: usize, length: usize) -> Result<Vec<Self>> {
        let overlap = shape.taps - 1;
        let degree = params.degree();
        let room = degree.checked_sub(overlap).filter(|&r| r > 0);
        let room = room.ok_or(RlweError::Block { tokens: 1, overlap, degree })?;
        let count = length.div_ceil(room);
        let ends = (0..=count).map(|i| length * i / count.max(1));
        let ends: Vec<usize> = ends.collect();
        Ok(ends.windows(2).map(|w| Self { first: before + w[0], tokens: w[1] - w[0], overlap }).collect())
    }

    /// The first token whose output this block gives.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Tokens whose outputs this block gives.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Tokens before the first that the block carries; those before the document's start are zero.
    pub fn overlap(&self) -> usize {
        self.overlap
    }

    /// Coefficients in use: [`Self::tokens`] and [`Self::overlap`].
    pub fn coefficients(&self) -> usize {
        self.tokens + self.overlap
    }
}
