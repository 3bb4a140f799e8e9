//! Sums of many products: of ciphertexts, of ciphertexts with periodic plaintexts, and ciphertexts
//! themselves.
//!
//! ```text
//! sum_i a_i b_i + sum_j w_j c_j + sum_k f_k d_k,    f_k = round(scale / scale of d_k)
//! ```
//!
//! is a [`Tensor`] until its end: one modular reduction for the terms of a call ([`fesc_ring::rns::Terms`]),
//! and one key switch for all of them, none if there is no product of ciphertexts. Operands may be above the
//! level of the sum: only the primes of the sum are read, so nothing is copied to drop a level.
//!
//! The integers `f_k` bring a ciphertext to the scale of the products. They make its scale wrong by `1 / 2
//! f_k` of itself at most, which is why `f_k` is large ([`Evaluator::lower`]) or exact
//! ([`Evaluator::add_scaled`]).
//!
//! Cost: reading the operands, 4 limbs per product and prime, and at the end a key switch and a division.

use fesc_ring::rns::Terms;

use crate::poly::Poly;
use crate::server::KeyPurpose;
use crate::switch::{Row, each, rows};
use crate::{Ciphertext, CkksError, PeriodicPlaintext, Result, Tensor};

use super::{Evaluator, check_scales};

/// Largest relative change of a scale by the rounding of an integer factor that a sum takes.
const FACTOR_TOLERANCE: f64 = 1.0 / (1u64 << 36) as f64;
/// Factors of a drop: smaller ones change the scale by more than `2^-37`, larger ones no 128 bits hold.
const FACTORS: [f64; 2] = [(1u64 << 36) as f64, (1u128 << 100) as f64];

/// What one call adds to a sum, checked.
#[derive(Default)]
struct Batch<'a> {
    products: &'a [(&'a Ciphertext, &'a Ciphertext)],
    plain: &'a [(&'a Ciphertext, &'a PeriodicPlaintext)],
    scaled: Vec<(u128, &'a Ciphertext)>,
}

impl Batch<'_> {
    /// Limb `j` of the sum of all, in place of what is there or added to it.
    fn limb(&self, e: &Evaluator, j: usize, add: bool, out: [&mut [u64]; 2], square: &mut [u64]) {
        let m = e.params.modulus(j);
        let factors: Vec<[u64; 1]> = self.scaled.iter().map(|&(k, _)| [m.reduce_u128(k)]).collect();
        let products: Vec<_> = self.products.iter().map(|(a, b)| [a.limb(j), b.limb(j)]).collect();
        let scaled = self.scaled.iter().zip(&factors).map(|((_, c), k)| (&k[..], c.limb(j)));
        let plain: Vec<_> = self.plain.iter().map(|(c, w)| (w.limb(j), c.limb(j))).chain(scaled).collect();
        e.params.prime(j).sum(Terms { products: &products, plain: &plain }, add, out, square);
    }
}

/// One slice of the third part for each limb; empty ones if there is none.
fn thirds(c2: Option<&mut Poly>, degree: usize, limbs: usize) -> Vec<&mut [u64]> {
    match c2 {
        Some(c2) => c2.words_mut().chunks_exact_mut(degree).collect(),
        None => (0..limbs).map(|_| Default::default()).collect(),
    }
}

impl Evaluator {
    /// A sum of nothing at `level`, whose products will have the scale `scale`.
    ///
    /// # Errors
    /// [`CkksError::Level`], [`CkksError::Scale`] if the scale does not fit the level.
    pub fn empty_sum(&self, level: usize, scale: f64) -> Result<Tensor> {
        self.params.check_scale(level, scale)?;
        let [c0, c1] = [Poly::zero(&self.params, level + 1), Poly::zero(&self.params, level + 1)];
        Ok(Tensor { params: self.params.clone(), owner: self.keys.owner(), level, scale, c0, c1, c2: None })
    }

    /// `sum += sum_i a_i b_i`. Operands may be above the sum's level; the products of their scales must be
    /// its scale.
    ///
    /// # Errors
    /// [`CkksError::LevelMismatch`] for an operand below the level of the sum, [`CkksError::ScaleMismatch`],
    /// [`CkksError::ParamsMismatch`], [`CkksError::KeyMismatch`].
    pub fn add_products(&self, sum: &mut Tensor, terms: &[(&Ciphertext, &Ciphertext)]) -> Result<()> {
        self.check_products(sum.level, sum.scale, terms)?;
        self.add_batch(sum, &Batch { products: terms, ..Batch::default() })
    }

    /// `sum += sum_i w_i c_i`. As [`Evaluator::add_products`].
    ///
    /// # Errors
    /// As [`Evaluator::add_products`].
    pub fn add_plain_products(&self, sum: &mut Tensor, terms: &[(&Ciphertext, &PeriodicPlaintext)]) -> Result<()> {
        self.check_plain_products(sum.level, sum.scale, terms)?;
        self.add_batch(sum, &Batch { plain: terms, ..Batch::default() })
    }

    /// `sum += k c`, where the integer `k` is the sum's scale over that of `c`, rounded.
    ///
    /// # Errors
    /// [`CkksError::ScaleMismatch`] if rounding `k` changes the scale by more than `2^-36` of itself;
    /// otherwise as [`Evaluator::add_products`].
    pub fn add_scaled(&self, sum: &mut Tensor, c: &Ciphertext) -> Result<()> {
        let scaled = vec![(self.check_addend(sum.level, sum.scale, c)?, c)];
        self.add_batch(sum, &Batch { scaled, ..Batch::default() })
    }

    /// The sum as a ciphertext, divided by the last prime of its level: relinearised if it has a square, and
    /// without any key if not.
    ///
    /// # Errors
    /// As [`Evaluator::relinearise_rescale`].
    pub fn finish_sum(&self, sum: &Tensor) -> Result<Ciphertext> {
        self.relinearise_rescale(sum)
    }

    /// [`Evaluator::empty_sum`] at `level`, all three kinds of terms, and [`Evaluator::finish_sum`], in one
    /// pass and with the same bits. The scale is that of the first product; the result is at `level - 1`.
    ///
    /// # Errors
    /// [`CkksError::NoProducts`] if there are addends alone or nothing at all; otherwise those of the single
    /// steps.
    pub fn product_sum(
        &self,
        level: usize,
        terms: &[(&Ciphertext, &Ciphertext)],
        plain: &[(&Ciphertext, &PeriodicPlaintext)],
        addends: &[&Ciphertext],
    ) -> Result<Ciphertext> {
        let of_products = terms.first().map(|(a, b)| a.scale * b.scale);
        let of_plain = || plain.first().map(|(c, w)| c.scale * w.scale);
        let scale = of_products.or_else(of_plain).ok_or(CkksError::NoProducts)?;
        self.params.check_scale(level, scale)?;
        self.check_products(level, scale, terms)?;
        self.check_plain_products(level, scale, plain)?;
        let scaled = addends.iter().map(|c| Ok((self.check_addend(level, scale, c)?, *c)));
        let batch = Batch { products: terms, plain, scaled: scaled.collect::<Result<_>>()? };
        let after = self.rescaled("a sum of products", level, scale)?;
        let n = self.params.degree();
        if terms.is_empty() {
            let [c0, c1] = self.without_square(level, &batch);
            return self.divide_by_last([&c0, &c1], level, after);
        }
        self.keys.get(KeyPurpose::Relinearisation)?;
        let mut c2 = Poly::scratch(&self.params, level + 1);
        let thirds = thirds(Some(&mut c2), n, level + 1);
        let own = self.preset(level, thirds, |j, out, z| batch.limb(self, j, false, out, z))?;
        self.finish_rescale(own, &c2, level, after)
    }

    /// `c w` at the level of `w`, to which `c` need not have been lowered. Not rescaled: the scale is the
    /// product of the scales, and what a key switch adds then is that much smaller.
    ///
    /// # Errors
    /// [`CkksError::LevelMismatch`] for a ciphertext below, [`CkksError::Scale`] if the product of the scales
    /// does not fit the level, [`CkksError::ParamsMismatch`], [`CkksError::KeyMismatch`].
    pub fn multiply_periodic(&self, c: &Ciphertext, w: &PeriodicPlaintext) -> Result<Ciphertext> {
        let (level, scale, plain) = (w.level, c.scale * w.scale, [(c, w)]);
        self.params.check_scale(level, scale)?;
        self.check_plain_products(level, scale, &plain)?;
        let parts = self.without_square(level, &Batch { plain: &plain, ..Batch::default() });
        Ok(self.ciphertext(level, scale, parts))
    }

    /// A sum without products of ciphertexts.
    fn without_square(&self, level: usize, batch: &Batch<'_>) -> [Poly; 2] {
        let [mut c0, mut c1] = self.pair(level + 1);
        Poly::for_each_limb_of_two(&mut c0, &mut c1, |j, x, y| batch.limb(self, j, false, [x, y], &mut []));
        [c0, c1]
    }

    /// The same value at a lower level and at a chosen scale: the first `level + 2` limbs times the integer
    /// `k = round(scale q / scale of c)`, divided by `q = q_(level + 1)`. The scale is then `scale`, to `1 /
    /// 2k` of itself. At the level of `c` it is a copy, and the scales must be equal.
    ///
    /// # Errors
    /// [`CkksError::Level`] for a level above that of `c`, [`CkksError::Factor`] for `k` outside `2^36 ..
    /// 2^100`, [`CkksError::Scale`], [`CkksError::ScaleMismatch`] at the level of `c`,
    /// [`CkksError::ParamsMismatch`].
    pub fn lower(&self, c: &Ciphertext, level: usize, scale: f64) -> Result<Ciphertext> {
        self.check_mine(&c.params, c.owner)?;
        if level > c.level {
            return Err(CkksError::Level { level, max: c.level });
        }
        if level == c.level {
            check_scales(c.scale, scale)?;
            return Ok(c.clone());
        }
        self.params.check_scale(level, scale)?;
        let q = self.params.modulus(level + 1).value() as f64;
        let factor = (scale * q / c.scale).round_ties_even();
        let [min, max] = FACTORS;
        if !(min..=max).contains(&factor) {
            return Err(CkksError::Factor { from: c.scale, to: scale, factor, min, max });
        }
        self.params.check_scale(level + 1, c.scale * factor)?;
        let [mut c0, mut c1] = self.pair(level + 2);
        Poly::for_each_limb_of_two(&mut c0, &mut c1, |j, x, y| {
            let m = self.params.modulus(j);
            let k = m.shoup(m.reduce_u128(factor as u128));
            for (out, from) in [(x, &c.c0), (y, &c.c1)] {
                out.copy_from_slice(from.limb(j));
                self.params.prime(j).scale_assign(k, out);
            }
        });
        self.divide_by_last([&c0, &c1], level + 1, (level, scale))
    }

    fn add_batch(&self, sum: &mut Tensor, batch: &Batch<'_>) -> Result<()> {
        self.check_mine(&sum.params, sum.owner)?;
        let (n, limbs) = (self.params.degree(), sum.level + 1);
        if !batch.products.is_empty() && sum.c2.is_none() {
            sum.c2 = Some(Poly::zero(&self.params, limbs));
        }
        // Without products the third part stays as it is.
        let third = sum.c2.as_mut().filter(|_| !batch.products.is_empty());
        let pairs = rows([[sum.c0.words_mut(), sum.c1.words_mut()]], n);
        let work = thirds(third, n, limbs).into_iter().zip(pairs).collect();
        each(work, |j, (z, row): (&mut [u64], Row<'_>)| {
            for pair in row {
                batch.limb(self, j, true, pair, z);
            }
        });
        Ok(())
    }

    fn check_operand(&self, level: usize, c: &Ciphertext) -> Result<()> {
        self.check_mine(&c.params, c.owner)?;
        if c.level >= level { Ok(()) } else { Err(CkksError::LevelMismatch { left: level, right: c.level }) }
    }

    fn check_products(&self, level: usize, scale: f64, terms: &[(&Ciphertext, &Ciphertext)]) -> Result<()> {
        terms.iter().try_for_each(|(a, b)| {
            self.check_operand(level, a)?;
            self.check_operand(level, b)?;
            check_scales(scale, a.scale * b.scale)
        })
    }

    pub(super) fn check_plain_products(
        &self,
        level: usize,
        scale: f64,
        terms: &[(&Ciphertext, &PeriodicPlaintext)],
    ) -> Result<()> {
        terms.iter().try_for_each(|(c, w)| {
            self.check_operand(level, c)?;
            self.params.check_same(&w.params)?;
            if w.level < level {
                return Err(CkksError::LevelMismatch { left: level, right: w.level });
            }
            check_scales(scale, c.scale * w.scale)
        })
    }

    /// The factor of a ciphertext that is added to a sum at this scale.
    fn check_addend(&self, level: usize, scale: f64, c: &Ciphertext) -> Result<u128> {
        self.check_operand(level, c)?;
        let factor = (scale / c.scale).round_ties_even().clamp(1.0, FACTORS[1]);
        let difference = (factor * c.scale - scale).abs() / scale;
        if difference > FACTOR_TOLERANCE {
            return Err(CkksError::ScaleMismatch { left: scale, right: factor * c.scale, difference });
        }
        Ok(factor as u128)
    }
}

#[cfg(test)]
mod tests;
