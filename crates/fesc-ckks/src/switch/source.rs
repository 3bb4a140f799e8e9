//! The digits of a polynomial, modulo any prime.

use fesc_ring::pool::Pooled;

use super::{Tables, each};
use crate::Params;
use crate::poly::Poly;

/// Something that has digits.
pub(crate) trait Digits: Sync {
    /// Number of digits.
    fn count(&self) -> usize;

    /// All digits modulo prime `j`, transformed. `scratch` has [`Digits::count`] limbs.
    fn at<'a>(&'a self, params: &Params, j: usize, scratch: &'a mut [u64]) -> Vec<&'a [u64]>;
}

/// A polynomial whose digits are computed when they are asked for.
pub(crate) struct Source<'a> {
    tables: &'a Tables,
    level: usize,
    /// Transformed: a digit modulo its own primes is the polynomial itself.
    poly: &'a Poly,
    /// Coefficients, scaled for the conversion of their digit.
    scaled: Pooled,
    /// One vector per digit.
    overflow: Pooled,
}

impl<'a> Source<'a> {
    /// Takes `poly` at `level` apart: `level + 1` inverse transforms.
    pub(crate) fn new(params: &Params, tables: &'a Tables, poly: &'a Poly, level: usize) -> Self {
        let (n, alpha, count) = (params.degree(), params.specials(), params.digits(level));
        let mut scaled = params.pool().take((level + 1) * n);
        each(scaled.chunks_exact_mut(n).collect(), |i, limb: &mut [u64]| {
            limb.copy_from_slice(poly.limb(i));
            params.ntt(i).inverse(limb);
            let digit = params.digit(i / alpha, level);
            if digit.len() > 1 {
                tables.digit(digit.end - 1).base.scale(i - digit.start, limb);
            }
        });
        let mut overflow = params.pool().take(count * n);
        each(overflow.chunks_exact_mut(n).collect(), |d, v: &mut [u64]| {
            let digit = params.digit(d, level);
            let limbs: Vec<&[u64]> = scaled[digit.start * n..digit.end * n].chunks_exact(n).collect();
            tables.digit(digit.end - 1).base.overflow(&limbs, v);
        });
        Self { tables, level, poly, scaled, overflow }
    }
}

impl Digits for Source<'_> {
    fn count(&self) -> usize {
        self.overflow.len() / (self.scaled.len() / (self.level + 1))
    }

    fn at<'a>(&'a self, params: &Params, j: usize, scratch: &'a mut [u64]) -> Vec<&'a [u64]> {
        let n = params.degree();
        let mut out: Vec<&'a [u64]> = Vec::with_capacity(self.count());
        for (d, limb) in scratch.chunks_exact_mut(n).take(self.count()).enumerate() {
            let digit = params.digit(d, self.level);
            if digit.contains(&j) {
                out.push(self.poly.limb(j));
                continue;
            }
            let limbs: Vec<&[u64]> = self.scaled[digit.start * n..digit.end * n].chunks_exact(n).collect();
            let overflow = &self.overflow[d * n..(d + 1) * n];
            self.tables.digit(digit.end - 1).targets[j].apply(&limbs, overflow, limb);
            params.ntt(j).forward(limb);
            out.push(limb);
        }
        out
    }
}
