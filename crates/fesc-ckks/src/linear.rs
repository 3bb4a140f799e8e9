//! Linear maps of the slots: baby steps, giant steps, and one division for all of them.
//!
//! A map is the sum of its diagonals, `y_i = sum_k d_k[i] x_(i + k)`, indices modulo the number of slots.
//! With `k = g + b`, `b < n1` and `n1 | g`,
//!
//! ```text
//! y = sum_g rot_g( sum_b rot_(-g)(d_(g + b)) rot_b(x) )
//! ```
//!
//! needs a rotation per baby step `b` and per giant step `g`. **Double hoisting** (Bossuat, Mouchet,
//! Troncoso-Pastoriza, Hubaux, "Efficient bootstrapping for approximate homomorphic encryption with
//! non-sparse keys", 2021, section 5) leaves out divisions by `P`: baby steps share their digits and stay
//! over `Q P`, diagonals are encoded over `Q P` too, only the second half of each inner sum is divided before
//! its giant step, and one division of both halves ends it all. That is also fewer roundings than the
//! rotations alone would make.
//!
//! Cost at level `l`, with `D` digits and `K` special primes: `D (l + 1 + K)` transforms for all baby steps,
//! `(D + 1) (l + 1 + K)` for each giant step, `2 (l + 1 + K)` at the end; a sum with a key per step and a
//! product per diagonal and prime. Prepared diagonals have `(l + 1 + K) N` words each. The loop over primes
//! is outside, so rotated ciphertexts exist for one prime at a time; the inner sums, `2 (l + 1 + K) N` words
//! per giant step, are in memory.
//!
//! Prepared diagonals are the server's weights: they are wiped on drop.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use num_complex::Complex64;
use zeroize::Zeroize;

use crate::evaluator::Evaluator;
use crate::poly::Poly;
use crate::switch::{Job, LazyDigits, Own, Row, each_prime, prime_at, product_of_specials, rows};
use crate::{Ciphertext, CkksError, Encoder, Params, Result};

/// What a giant step costs in baby steps, roughly: digits of its own and two divisions.
const GIANT: usize = 3;

/// A linear map, encoded for one level.
pub struct Transform {
    params: Params,
    level: usize,
    scale: f64,
    /// Baby steps that occur, in order.
    babies: Vec<i64>,
    giants: Vec<Giant>,
}

struct Giant {
    step: i64,
    /// Index of a baby step, and the diagonal over `q_0 .. q_level` and the special primes.
    terms: Vec<(usize, Poly)>,
}

/// The number of baby steps, a power of two, with which diagonals of these indices cost least. Indices are
/// taken modulo `slots`.
pub fn baby_steps(slots: usize, indices: impl IntoIterator<Item = i64>) -> NonZeroUsize {
    let indices: BTreeSet<i64> = indices.into_iter().map(|k| k.rem_euclid(slots as i64)).collect();
    let cost = |n1: i64| {
        let steps = |f: fn(i64, i64) -> i64| {
            indices.iter().map(|&k| f(k, n1)).filter(|&s| s != 0).collect::<BTreeSet<i64>>().len()
        };
        steps(|k, n1| k % n1) + GIANT * steps(|k, n1| k - k % n1)
    };
    let choices = (0..=slots.ilog2()).filter_map(|log| NonZeroUsize::new(1 << log));
    choices.min_by_key(|n1| cost(n1.get() as i64)).unwrap_or(NonZeroUsize::MIN)
}

impl Transform {
    /// Encodes diagonals at `scale` for ciphertexts at `level`. A diagonal is its index and its values; those
    /// that are not given are zero, and diagonals of the same index add up. `n1` is the number of baby steps,
    /// [`baby_steps`] chooses it if none is given.
    ///
    /// # Errors
    /// A level or scale that does not exist; as [`Encoder::encode`] for the values of any diagonal.
    pub fn prepare(
        params: &Params,
        diagonals: &[(i64, Vec<Complex64>)],
        level: usize,
        scale: f64,
        n1: Option<NonZeroUsize>,
    ) -> Result<Self> {
        params.check_scale(level, scale)?;
        let slots = params.slots();
        let mut sums: BTreeMap<i64, Vec<Complex64>> = BTreeMap::new();
        for (index, values) in diagonals {
            if values.len() > slots {
                return Err(CkksError::TooMany { what: "slots", got: values.len(), max: slots });
            }
            let sum = sums.entry(index.rem_euclid(slots as i64)).or_insert_with(|| vec![Complex64::ZERO; slots]);
            sum.iter_mut().zip(values).for_each(|(s, v)| *s += v);
        }
        let n1 = n1.unwrap_or_else(|| baby_steps(slots, sums.keys().copied()));
        let n1 = i64::try_from(n1.get()).unwrap_or(i64::MAX);
        let babies: Vec<i64> = sums.keys().map(|k| k % n1).collect::<BTreeSet<_>>().into_iter().collect();
        let mut giants: BTreeMap<i64, Vec<(usize, Poly)>> = BTreeMap::new();
        let encoder = Encoder::new(params);
        for (index, mut values) in sums {
            let (baby, giant) = (index % n1, index - index % n1);
            // What the giant step turns back.
            values.rotate_right(giant as usize);
            let poly = encoder.encode_poly(&values, level, scale, params.specials());
            for z in &mut values {
                z.re.zeroize();
                z.im.zeroize();
            }
            let place = babies.binary_search(&baby).unwrap_or_default();
            giants.entry(giant).or_default().push((place, poly?));
        }
        let giants = giants.into_iter().map(|(step, terms)| Giant { step, terms }).collect();
        Ok(Self { params: params.clone(), level, scale, babies, giants })
    }

    /// The rotations that [`Transform::apply`] needs keys for, and no others.
    pub fn rotations(&self) -> Vec<i64> {
        let giants = self.giants.iter().map(|g| g.step);
        let steps: BTreeSet<i64> = self.babies.iter().copied().chain(giants).filter(|&s| s != 0).collect();
        steps.into_iter().collect()
    }

    /// The level of the ciphertexts that it takes.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The scale of the diagonals.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Bytes of the prepared diagonals.
    pub fn memory(&self) -> usize {
        let words = |g: &Giant| g.terms.iter().map(|(_, poly)| poly.len() * self.params.degree()).sum::<usize>();
        self.giants.iter().map(words).sum::<usize>() * size_of::<u64>()
    }

    /// The image of `c`, at the same level; the scale is the product of the scales.
    ///
    /// # Errors
    /// [`CkksError::LevelMismatch`], [`CkksError::Scale`] if the product of the scales does not fit,
    /// [`CkksError::MissingKey`], [`CkksError::ParamsMismatch`].
    pub fn apply(&self, evaluator: &Evaluator, c: &Ciphertext) -> Result<Ciphertext> {
        let [first, second] = self.sums(evaluator, c)?;
        let division = evaluator.tables().by_specials(self.level);
        let parts = division.divide_pair(&self.params, [&first, &second]);
        Ok(evaluator.ciphertext(self.level, c.scale * self.scale, parts))
    }

    /// The image of `c`, rescaled by the same division.
    ///
    /// # Errors
    /// As [`Transform::apply`]; [`CkksError::NoLevel`] at level 0.
    pub fn apply_rescale(&self, evaluator: &Evaluator, c: &Ciphertext) -> Result<Ciphertext> {
        let operation = "a rescaled linear map";
        self.params.check_same(evaluator.params())?;
        let (level, scale) = evaluator.rescaled(operation, self.level, c.scale * self.scale)?;
        let division = evaluator.tables().by_both(self.level).ok_or(CkksError::NoLevel { operation })?;
        let [first, second] = self.sums(evaluator, c)?;
        let parts = division.divide_pair(&self.params, [&first, &second]);
        Ok(evaluator.ciphertext(level, scale, parts))
    }

    /// `P` times the image, over `Q P`.
    fn sums(&self, evaluator: &Evaluator, c: &Ciphertext) -> Result<[Poly; 2]> {
        let params = &self.params;
        params.check_same(evaluator.params())?;
        evaluator.check_mine(&c.params, c.owner)?;
        if c.level != self.level {
            return Err(CkksError::LevelMismatch { left: c.level, right: self.level });
        }
        params.check_scale(self.level, c.scale * self.scale)?;
        let job = |step: i64| -> Result<Option<Job<'_>>> {
            let key = evaluator.rotation(step)?;
            Ok(key.map(|(key, order)| Job { key, order: Some(order), own: Own::Preset }))
        };
        let babies = self.babies.iter().map(|&b| job(b)).collect::<Result<Vec<_>>>()?;
        let giants = self.giants.iter().map(|g| job(g.step)).collect::<Result<Vec<_>>>()?;
        let (mut still, mut turned) = (None, Vec::new());
        for (job, pair) in giants.into_iter().zip(self.inner(evaluator, c, &babies)) {
            match job {
                None => still = Some(pair),
                Some(job) => turned.push((job, pair)),
            }
        }
        // What no giant step turns is where the sum starts.
        let limbs = self.level + 1 + params.specials();
        let mut sums = still.unwrap_or_else(|| [Poly::zero(params, limbs), Poly::zero(params, limbs)]);
        for (job, [w0, w1]) in turned {
            self.giant(evaluator, &job, [&w0, &w1], &mut sums);
        }
        Ok(sums)
    }

    /// The inner sums of all giant steps, over `Q P`.
    fn inner(&self, evaluator: &Evaluator, c: &Ciphertext, babies: &[Option<Job<'_>>]) -> Vec<[Poly; 2]> {
        let (params, n) = (&self.params, self.params.degree());
        let limbs = self.level + 1 + params.specials();
        let mut inner: Vec<[Poly; 2]> = self.giants.iter().map(|_| evaluator.pair(limbs)).collect();
        let rotates = babies.iter().any(Option::is_some);
        let source = rotates.then(|| LazyDigits::new(params, evaluator.tables(), &c.c1, self.level));
        let primes: Vec<usize> = (0..limbs).map(|place| prime_at(params, self.level, place)).collect();
        let pairs = inner.iter_mut().map(|[x, y]| [x.words_mut(), y.words_mut()]);
        let rows = rows(pairs, n).into_iter().enumerate().collect();
        // Both parts under every baby step, the parts themselves times P, and an image.
        let start = |_: &[usize]| params.pool().take((2 * babies.len() + 3) * n);
        each_prime(params, &source, &primes, rows, 0, start, |scratch, _, j, (place, row): (usize, Row<'_>), parts| {
            let (data, prime) = (place <= self.level, params.prime(j));
            let (own, rotated) = scratch.split_at_mut(3 * n);
            let (own, image) = own.split_at_mut(2 * n);
            if data {
                let (own0, own1) = own.split_at_mut(n);
                for (limb, part) in [(own0, &c.c0), (own1, &c.c1)] {
                    limb.copy_from_slice(part.limb(place));
                    prime.scale_assign(product_of_specials(params, j), limb);
                }
            } else {
                own.fill(0);
            }
            for (job, pair) in babies.iter().zip(rotated.chunks_exact_mut(2 * n)) {
                match job {
                    None => pair.copy_from_slice(own),
                    Some(job) => {
                        let (u0, u1) = pair.split_at_mut(n);
                        job.at(j, parts.len()).dot(parts, 0, [&mut *u0, u1], false);
                        if let Some(table) = job.order.filter(|_| data) {
                            table.apply(&own[..n], image);
                            prime.add_assign(u0, image);
                        }
                    }
                }
            }
            for (giant, [x, y]) in self.giants.iter().zip(row) {
                let diagonals: Vec<&[u64]> = giant.terms.iter().map(|(_, d)| d.limb(place)).collect();
                let half = |h: usize| -> Vec<&[u64]> {
                    giant.terms.iter().map(|&(b, _)| &rotated[(2 * b + h) * n..(2 * b + h + 1) * n]).collect()
                };
                prime.dot2(&diagonals, [&half(0), &half(1)], [x, y]);
            }
        });
        inner
    }

    /// Adds the rotation of an inner sum, over `Q P`.
    fn giant(&self, evaluator: &Evaluator, job: &Job<'_>, [w0, w1]: [&Poly; 2], sums: &mut [Poly; 2]) {
        let (params, n) = (&self.params, self.params.degree());
        let divided = evaluator.tables().by_specials(self.level).divide(params, w1);
        let source = LazyDigits::new(params, evaluator.tables(), &divided, self.level);
        let [x, y] = sums;
        let rows: Vec<(usize, Row<'_>)> = rows([[x.words_mut(), y.words_mut()]], n).into_iter().enumerate().collect();
        let primes: Vec<usize> = (0..rows.len()).map(|place| prime_at(params, self.level, place)).collect();
        let start = |_: &[usize]| params.pool().take(n);
        each_prime(params, &source, &primes, rows, 0, start, |image, _, j, (place, row), parts| {
            for [x, y] in row {
                job.at(j, parts.len()).dot(parts, 0, [&mut *x, y], true);
                if let Some(table) = job.order {
                    table.apply(w0.limb(place), image);
                    params.prime(j).add_assign(x, image);
                }
            }
        });
    }
}

impl Drop for Transform {
    fn drop(&mut self) {
        self.giants.iter_mut().flat_map(|g| &mut g.terms).for_each(|(_, poly)| poly.wipe());
    }
}

#[cfg(test)]
#[path = "linear/tests.rs"]
mod tests;
