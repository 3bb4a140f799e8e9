//! Hoisting: several rotations of one ciphertext share the digits (Halevi and Shoup, "Faster homomorphic
//! linear transformations in HElib", 2018).
//!
//! An automorphism permutes coefficients up to signs, so the digits of the image are the images of the
//! digits. They are computed once, in transformed order, and each rotation reads them through its
//! permutation. The results are those of [`Evaluator::rotate`], bit for bit.
//!
//! - [`Evaluator::rotate_many`] knows all steps beforehand and goes group by group of primes, so that digits
//!   and remainders are read a few times only. Memory: the remainders, `2 (K + 1) N` words per rotation, and
//!   50 MB a thread for a group.
//! - [`Evaluator::decompose`] keeps all digits, `D (l + 1 + K) N` words (33 MB for `chain-3`), for steps that
//!   come one by one.
//!
//! Cost of `r` rotations at level `l`: the digits once, `D (l + 1 + K)` transforms in all, and
//! `2 (l + 1 + K)` for each rotation.

use crate::evaluator::Evaluator;
use crate::poly::Poly;
use crate::switch::{Digits, Job, LazyDigits, Own, each_prime, prime_at};
use crate::{Ciphertext, Params, Result};

/// A ciphertext with its digits, ready for rotations.
pub struct Hoisted<'a> {
    evaluator: &'a Evaluator,
    c: &'a Ciphertext,
    digits: Stored,
}

/// Digits modulo every prime: for each prime of the level and then each special prime, all digits.
struct Stored {
    level: usize,
    count: usize,
    limbs: Poly,
}

impl Digits for Stored {
    fn count(&self) -> usize {
        self.count
    }

    fn convert(&self, _: &Params, _: &[usize], _: &mut [u64]) {}

    fn at<'a>(&'a self, params: &Params, j: usize, _: &'a mut [u64]) -> Vec<&'a [u64]> {
        let place = if j <= self.level { j } else { self.level + 1 + j - params.first_special() };
        (place * self.count..(place + 1) * self.count).map(|i| self.limbs.limb(i)).collect()
    }
}

impl Evaluator {
    /// The digits of `c`, for rotations that share them.
    ///
    /// # Errors
    /// [`CkksError::ParamsMismatch`](crate::CkksError::ParamsMismatch) for a ciphertext of another set.
    pub fn decompose<'a>(&'a self, c: &'a Ciphertext) -> Result<Hoisted<'a>> {
        let params = self.params();
        self.check_mine(&c.params, c.owner)?;
        let source = LazyDigits::new(params, self.tables(), &c.c1, c.level);
        let (n, level, count) = (params.degree(), c.level, source.count());
        let mut limbs = Poly::scratch(params, count * (level + 1 + params.specials()));
        let places = limbs.words_mut().chunks_exact_mut(count * n).collect();
        let primes: Vec<usize> =
            (0..level + 1 + params.specials()).map(|place| prime_at(params, level, place)).collect();
        each_prime(
            params,
            &source,
            &primes,
            places,
            count,
            |_| (),
            |(), _, _, chunk: &mut [u64], parts| {
                chunk.chunks_exact_mut(n).zip(parts).for_each(|(limb, part)| limb.copy_from_slice(part));
            },
        );
        Ok(Hoisted { evaluator: self, c, digits: Stored { level, count, limbs } })
    }

    /// [`Evaluator::rotate`] by each of several steps, with shared digits.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn rotate_many(&self, c: &Ciphertext, steps: &[i64]) -> Result<Vec<Ciphertext>> {
        self.check_mine(&c.params, c.owner)?;
        let source = LazyDigits::new(self.params(), self.tables(), &c.c1, c.level);
        self.rotations(c, &source, steps)
    }

    fn rotations(&self, c: &Ciphertext, digits: &impl Digits, steps: &[i64]) -> Result<Vec<Ciphertext>> {
        let keys = steps.iter().map(|&step| self.rotation(step)).collect::<Result<Vec<_>>>()?;
        let own = Own::Image(&c.c0);
        let jobs: Vec<Job<'_>> =
            keys.iter().flatten().map(|&(key, order)| Job { key, order: Some(order), own }).collect();
        let mut outs: Vec<[Poly; 2]> = jobs.iter().map(|_| self.pair(c.level + 1)).collect();
        self.tables().by_specials(c.level).switch(self.params(), digits, &jobs, &mut outs, None);
        let mut rotated = outs.into_iter().map(|parts| self.ciphertext(c.level, c.scale, parts));
        // A step without a key is a rotation by nothing.
        Ok(keys.iter().filter_map(|key| if key.is_some() { rotated.next() } else { Some(c.clone()) }).collect())
    }
}

impl Hoisted<'_> {
    /// [`Evaluator::rotate`] by one step.
    ///
    /// # Errors
    /// As [`Evaluator::rotate`].
    pub fn rotate(&self, step: i64) -> Result<Ciphertext> {
        let mut out = self.evaluator.rotations(self.c, &self.digits, &[step])?;
        Ok(out.pop().unwrap_or_else(|| self.c.clone()))
    }
}
