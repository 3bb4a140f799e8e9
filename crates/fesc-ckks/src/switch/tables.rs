//! The constants of all conversions and divisions of one set. Made once; a few hundred kilobytes.

use std::ops::Range;

use fesc_ring::modulus::Shoup;
use fesc_ring::rns::{Base, Prime, Target};

use crate::{Params, Result};

/// Coefficients that are converted to all primes of a group before the next ones: a few limbs of them fit a
/// second-level cache.
const BLOCK: usize = 4096;

/// From some primes to each prime of the set.
pub(crate) struct Conversion {
    pub(crate) base: Base,
    /// By index of the prime.
    targets: Vec<Target>,
}

impl Conversion {
    fn new(params: &Params, from: impl Iterator<Item = usize>) -> Result<Self> {
        let primes: Vec<Prime> = from.map(|i| *params.prime(i)).collect();
        let base = Base::new(&primes)?;
        let targets = (0..params.primes()).map(|j| base.target(params.prime(j))).collect();
        Ok(Self { base, targets })
    }

    /// Scaled coefficients to each of several primes, block by block, so that each is read from memory once.
    pub(super) fn apply(&self, limbs: &[&[u64]], overflow: &[u64], outs: &mut [(usize, &mut [u64])]) {
        let mut block = Vec::with_capacity(limbs.len());
        for start in (0..overflow.len()).step_by(BLOCK) {
            let range = start..overflow.len().min(start + BLOCK);
            block.clear();
            block.extend(limbs.iter().map(|limb| &limb[range.clone()]));
            for (j, out) in outs.iter_mut() {
                self.targets[*j].apply(&block, &overflow[range.clone()], &mut out[range.clone()]);
            }
        }
    }
}

/// Rounded division by a product of primes: an optional data prime, then special primes.
pub(crate) struct Division {
    pub(crate) conversion: Conversion,
    /// Indices of the divisor's primes.
    primes: Vec<usize>,
    /// Where each of them is in a polynomial over `q_0 .. q_level` and the special primes.
    places: Vec<usize>,
    /// The inverse of the divisor modulo each data prime that is left.
    pub(crate) inverses: Vec<Shoup>,
}

impl Division {
    /// By data prime `last` (the highest one, if any) and the special primes `specials`; `level` is that of
    /// the input.
    fn new(params: &Params, level: usize, last: Option<usize>, specials: Range<usize>) -> Result<Self> {
        let primes: Vec<usize> = last.into_iter().chain(specials.clone()).collect();
        let special = |i: usize| level + 1 + i - params.first_special();
        let places = last.into_iter().chain(specials.map(special)).collect();
        let conversion = Conversion::new(params, primes.iter().copied())?;
        let inverse = |j: usize| {
            let m = params.modulus(j);
            let divisor = primes.iter().fold(1, |d, &i| m.mul(d, m.reduce(params.modulus(i).value())));
            Ok(m.shoup(m.inv(divisor)?))
        };
        let inverses = (0..level + usize::from(last.is_none())).map(inverse).collect::<Result<Vec<Shoup>>>()?;
        Ok(Self { conversion, primes, places, inverses })
    }

    /// By `P`, for every level.
    pub(crate) fn by_specials(params: &Params) -> Result<Vec<Self>> {
        let specials = params.first_special()..params.primes();
        (0..=params.levels()).map(|level| Self::new(params, level, None, specials.clone())).collect()
    }

    /// Primes that are left.
    pub(crate) fn kept(&self) -> usize {
        self.inverses.len()
    }

    /// Number of the divisor's primes.
    pub(crate) fn sources(&self) -> usize {
        self.primes.len()
    }

    /// Index of the divisor's prime `i`.
    pub(crate) fn divisor(&self, i: usize) -> usize {
        self.primes[i]
    }

    /// The limb that belongs to the divisor's prime `i`.
    pub(crate) fn place(&self, i: usize) -> usize {
        self.places[i]
    }

    /// A limb of the divisor's prime `i` from transformed to scaled coefficients.
    pub(crate) fn take_remainder(&self, params: &Params, i: usize, limb: &mut [u64]) {
        params.ntt(self.primes[i]).inverse(limb);
        // Alone, a prime's factor is 1.
        if self.primes.len() > 1 {
            self.conversion.base.scale(i, limb);
        }
    }
}

/// Everything that key switching and rescaling precompute.
pub(crate) struct Tables {
    /// By the last prime of a digit: the last digit of a level may be short.
    digits: Vec<Conversion>,
    /// Division by `P`, by level.
    by_specials: Vec<Division>,
    /// Division by `P q_level`, by level less one.
    by_both: Vec<Division>,
    /// Division by `q_level`, by level less one.
    by_last: Vec<Division>,
}

impl Tables {
    /// For a set.
    pub(crate) fn new(params: &Params) -> Result<Self> {
        let (alpha, specials) = (params.specials(), params.first_special()..params.primes());
        let digit = |last: usize| Conversion::new(params, last / alpha * alpha..last + 1);
        let levels = 0..=params.levels();
        Ok(Self {
            digits: levels.map(digit).collect::<Result<_>>()?,
            by_specials: Division::by_specials(params)?,
            by_both: (1..=params.levels())
                .map(|l| Division::new(params, l, Some(l), specials.clone()))
                .collect::<Result<_>>()?,
            by_last: (1..=params.levels()).map(|l| Division::new(params, l, Some(l), 0..0)).collect::<Result<_>>()?,
        })
    }

    /// The conversion of the digit that ends with data prime `last`.
    pub(crate) fn digit(&self, last: usize) -> &Conversion {
        &self.digits[last]
    }

    /// Division by `P` at `level`.
    pub(crate) fn by_specials(&self, level: usize) -> &Division {
        &self.by_specials[level]
    }

    /// Division by `P q_level`; none at level 0.
    pub(crate) fn by_both(&self, level: usize) -> Option<&Division> {
        self.by_both.get(level.checked_sub(1)?)
    }

    /// Division by `q_level`; none at level 0.
    pub(crate) fn by_last(&self, level: usize) -> Option<&Division> {
        self.by_last.get(level.checked_sub(1)?)
    }
}
