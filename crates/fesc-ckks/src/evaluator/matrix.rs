//! Many sums of products of the same ciphertexts with periodic plaintexts: a matrix of plaintexts times a
//! vector of ciphertexts.
//!
//! The sums are independent, so [`Evaluator::add_plain_products`] could make one after the other. It would
//! read all ciphertexts from memory for each, which costs more than the products. Here a tile of [`TILE`]
//! coefficients of all ciphertexts is read once and stays in the second-level cache while every sum takes it:
//! for 64 ciphertexts it has 512 KiB.

use fesc_ring::rns::Terms;

use crate::switch::{Row, each, rows};
use crate::{Ciphertext, CkksError, PeriodicPlaintext, Result, Tensor};

use super::{Evaluator, check_levels, check_scales};

/// Coefficients of a tile.
const TILE: usize = 512;

/// The words of a plaintext's limb for `len` coefficients from `start` of `degree`; `start` is a multiple of
/// `len`, and both lengths are powers of two.
fn words(limb: &[u64], degree: usize, start: usize, len: usize) -> &[u64] {
    let run = degree / limb.len();
    &limb[start / run..start / run + (len / run).max(1)]
}

impl Evaluator {
    /// `sums[j] += sum over (i, w) in weights[j] of w factors[i]`, with the bits of
    /// [`Evaluator::add_plain_products`]. All sums have one level and scale.
    ///
    /// # Errors
    /// As [`Evaluator::add_products`]; [`CkksError::Factors`] for a place that no factor has or another
    /// number of rows of weights than of sums.
    pub fn add_plain_matrix(
        &self,
        sums: &mut [Tensor],
        factors: &[&Ciphertext],
        weights: &[Vec<(usize, PeriodicPlaintext)>],
    ) -> Result<()> {
        let Some((level, scale)) = sums.first().map(|s| (s.level, s.scale)) else { return Ok(()) };
        let last = weights.iter().flatten().map(|(i, _)| i + 1).max().unwrap_or(0);
        if last > factors.len() || weights.len() != sums.len() {
            return Err(CkksError::Factors {
                factors: factors.len(),
                needed: last,
                sums: sums.len(),
                rows: weights.len(),
            });
        }
        for (sum, weights) in sums.iter().zip(weights) {
            self.check_mine(&sum.params, sum.owner)?;
            check_levels(level, sum.level)?;
            check_scales(scale, sum.scale)?;
            let terms: Vec<_> = weights.iter().map(|(i, w)| (factors[*i], w)).collect();
            self.check_plain_products(level, scale, &terms)?;
        }
        let n = self.params.degree();
        let tile = TILE.min(n);
        let pairs = sums.iter_mut().map(|s| [s.c0.words_mut(), s.c1.words_mut()]);
        each(rows(pairs, n), |j, mut row: Row<'_>| {
            for start in (0..n).step_by(tile) {
                for ([x, y], weights) in row.iter_mut().zip(weights) {
                    let part = start..start + tile;
                    let plain: Vec<_> = weights
                        .iter()
                        .map(|(i, w)| {
                            let c = factors[*i].limb(j).map(|limb| &limb[part.clone()]);
                            (words(w.limb(j), n, start, tile), c)
                        })
                        .collect();
                    let out = [&mut x[part.clone()], &mut y[part.clone()]];
                    self.params.prime(j).sum(Terms { products: &[], plain: &plain }, true, out, &mut []);
                }
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
