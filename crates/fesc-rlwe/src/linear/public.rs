//! The public polynomials `a'` and `a_j` of a matrix.

use crate::{Params, Seed};

/// Which matrix of the model: no two share a polynomial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domain {
    /// The hint's seed.
    pub seed: Seed,
    /// Layer.
    pub layer: u32,
    /// Matrix within the layer.
    pub matrix: u32,
}

impl Domain {
    /// `a'`: index 0, which no `a_j` has.
    pub(super) fn common(&self, params: &Params) -> Vec<u64> {
        self.polynomial(params, 0)
    }

    /// `a_j`, `j` from 0.
    pub(super) fn feature(&self, params: &Params, j: usize) -> Vec<u64> {
        self.polynomial(params, j as u64 + 1)
    }

    fn polynomial(&self, params: &Params, index: u64) -> Vec<u64> {
        self.seed.polynomial(params, b"linear layer    ", [self.layer.into(), self.matrix.into(), index])
    }
}
