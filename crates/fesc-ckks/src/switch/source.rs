//! The digits of a polynomial, modulo any prime.

use fesc_ring::pool::Pooled;

use super::{Tables, each};
use crate::Params;
use crate::poly::Poly;

/// Something that has digits.
pub(crate) trait Digits: Sync {
    /// Number of digits.
    fn count(&self) -> usize;

    /// What is done for several primes at once. `scratch` has [`Digits::count`] limbs for each prime.
    fn convert(&self, params: &Params, primes: &[usize], scratch: &mut [u64]);

    /// All digits modulo prime `j`, transformed. `scratch` is the prime's part of what [`Digits::convert`]
    /// wrote.
    fn at<'a>(&'a self, params: &Params, j: usize, scratch: &'a mut [u64]) -> Vec<&'a [u64]>;
}

/// A polynomial whose digits are computed when they are asked for.
pub(crate) struct LazyDigits<'a> {
    tables: &'a Tables,
    level: usize,
    /// Transformed: a digit modulo its own primes is the polynomial itself.
    poly: &'a Poly,
    /// Coefficients, scaled for the conversion of their digit.
    scaled: Pooled,
    /// One vector per digit.
    overflow: Pooled,
}

impl<'a> LazyDigits<'a> {
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

impl Digits for LazyDigits<'_> {
    fn count(&self) -> usize {
        self.overflow.len() / (self.scaled.len() / (self.level + 1))
    }

    fn convert(&self, params: &Params, primes: &[usize], scratch: &mut [u64]) {
        let (n, count) = (params.degree(), self.count());
        for d in 0..count {
            let digit = params.digit(d, self.level);
            let outs = scratch.chunks_exact_mut(n).skip(d).step_by(count).zip(primes);
            let mut outs: Vec<(usize, &mut [u64])> =
                outs.filter(|(_, j)| !digit.contains(j)).map(|(limb, &j)| (j, limb)).collect();
            let limbs: Vec<&[u64]> = self.scaled[digit.start * n..digit.end * n].chunks_exact(n).collect();
            let overflow = &self.overflow[d * n..(d + 1) * n];
            self.tables.digit(digit.end - 1).apply(&limbs, overflow, &mut outs);
        }
    }

    fn at<'a>(&'a self, params: &Params, j: usize, scratch: &'a mut [u64]) -> Vec<&'a [u64]> {
        let digits = scratch.chunks_exact_mut(params.degree()).take(self.count()).enumerate();
        let digit = |(d, limb): (usize, &'a mut [u64])| -> &'a [u64] {
            if params.digit(d, self.level).contains(&j) {
                return self.poly.limb(j);
            }
            params.ntt(j).forward(limb);
            limb
        };
        digits.map(digit).collect()
    }
}

/// Nothing has no digits.
impl<T: Digits> Digits for Option<T> {
    fn count(&self) -> usize {
        self.as_ref().map_or(0, Digits::count)
    }

    fn convert(&self, params: &Params, primes: &[usize], scratch: &mut [u64]) {
        if let Some(digits) = self {
            digits.convert(params, primes, scratch);
        }
    }

    fn at<'a>(&'a self, params: &Params, j: usize, scratch: &'a mut [u64]) -> Vec<&'a [u64]> {
        self.as_ref().map(|digits| digits.at(params, j, scratch)).unwrap_or_default()
    }
}
