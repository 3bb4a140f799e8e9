//! The remainder of a rounded division by a product of primes: `(x - [x]_D) / D`, `[x]_D` centred.

use fesc_ring::pool::Pooled;

use super::{Division, each};
use crate::Params;
use crate::poly::Poly;

/// Scaled coefficients modulo each prime of the divisor, and the overflow of their conversion.
pub(crate) struct Remainder {
    scaled: Pooled,
    overflow: Pooled,
}

impl Remainder {
    /// Room for one.
    pub(super) fn scratch(params: &Params, division: &Division) -> Self {
        let n = params.degree();
        Self { scaled: params.pool().take(division.sources() * n), overflow: params.pool().take(n) }
    }

    /// Of a transformed polynomial.
    pub(super) fn of(params: &Params, division: &Division, poly: &Poly) -> Self {
        let mut out = Self::scratch(params, division);
        let limbs: Vec<&mut [u64]> = out.scaled.chunks_exact_mut(params.degree()).collect();
        each(limbs, |i, limb| {
            limb.copy_from_slice(poly.limb(division.place(i)));
            division.take_remainder(params, i, limb);
        });
        out.finish(division);
        out
    }

    /// The limbs, which [`Division::take_remainder`] must have gone over.
    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.scaled
    }

    /// Computes the overflow; the limbs must be there.
    pub(super) fn finish(&mut self, division: &Division) {
        let limbs: Vec<&[u64]> = self.scaled.chunks_exact(self.overflow.len()).collect();
        division.conversion.base.overflow(&limbs, &mut self.overflow);
    }

    /// The coefficients modulo each of several data primes, a limb of `rests` for each.
    pub(super) fn convert(&self, division: &Division, primes: &[usize], rests: &mut [u64]) {
        let n = self.overflow.len();
        let limbs: Vec<&[u64]> = self.scaled.chunks_exact(n).collect();
        let mut outs: Vec<(usize, &mut [u64])> = primes.iter().copied().zip(rests.chunks_exact_mut(n)).collect();
        division.conversion.apply(&limbs, &self.overflow, &mut outs);
    }
}

impl Division {
    /// `out = (sum - rest) / divisor` modulo data prime `j`, or `out +=` that, for any part of transformed
    /// limbs. `rest` is what [`Remainder::convert`] gave.
    pub(super) fn quotient(&self, params: &Params, j: usize, sum: &[u64], rest: &[u64], out: &mut [u64], add: bool) {
        let (prime, inverse) = (params.prime(j), self.inverses[j]);
        if add {
            prime.sub_scale_add(inverse, sum, rest, out);
        } else {
            prime.sub_scale(inverse, sum, rest, out);
        }
    }
}
