//! Products of ciphertexts, and rescaling.
//!
//! ```text
//! (a0, a1) (b0, b1) = (a0 b0, a0 b1 + a1 b0, a1 b1),    phase c0 + c1 s + c2 s^2
//! ```
//!
//! is a [`Tensor`] until a key switch of `c2` brings it back to two parts. Sums of tensors need one key
//! switch together.
//!
//! **Fused.** [`Evaluator::multiply_rescale`] divides by `P q_l` once, where relinearising and rescaling
//! divide by `P` and then by `q_l`: `2 l + 4` transforms less, one rounding less, and the noise of the key
//! switch is divided by `q_l` too.

use fesc_ring::modulus::Shoup;
use fesc_ring::pool::Pooled;

use crate::poly::Poly;
use crate::server::KeyPurpose;
use crate::switch::{Job, LazyDigits, Own, Row, each, product_of_specials, rows};
use crate::{Ciphertext, CkksError, Result, Tensor};

use super::{Evaluator, check_scales};

/// The two factors of a product.
#[derive(Clone, Copy)]
enum Factors<'a> {
    Two(&'a Ciphertext, &'a Ciphertext),
    Square(&'a Ciphertext),
}

impl<'a> Factors<'a> {
    fn first(self) -> &'a Ciphertext {
        match self {
            Factors::Two(a, _) | Factors::Square(a) => a,
        }
    }

    fn scale(self) -> f64 {
        match self {
            Factors::Two(a, b) => a.scale * b.scale,
            Factors::Square(a) => a.scale * a.scale,
        }
    }

    /// Limb `j` of the product.
    fn limb(self, j: usize, out: [&mut [u64]; 3]) {
        let prime = self.first().params.prime(j);
        match self {
            Factors::Two(a, b) => {
                prime.tensor(a.limb(j), b.limb(j), out);
            }
            Factors::Square(a) => prime.square(a.limb(j), out),
        }
    }
}

impl Evaluator {
    /// The product without relinearisation.
    ///
    /// # Errors
    /// [`CkksError::LevelMismatch`], [`CkksError::ParamsMismatch`], and [`CkksError::Scale`] if the product
    /// of the scales does not fit the level.
    pub fn tensor(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Tensor> {
        self.tensor_of(Factors::Two(a, b))
    }

    /// The square without relinearisation.
    ///
    /// # Errors
    /// As [`Evaluator::tensor`].
    pub fn tensor_square(&self, a: &Ciphertext) -> Result<Tensor> {
        self.tensor_of(Factors::Square(a))
    }

    /// `a += b`: one relinearisation then serves both.
    ///
    /// # Errors
    /// A level, scale or set that differs.
    pub fn add_tensor_assign(&self, a: &mut Tensor, b: &Tensor) -> Result<()> {
        self.check_pair((&a.params, a.owner, a.level), (&b.params, b.owner, b.level))?;
        check_scales(a.scale, b.scale)?;
        let add = |x: &mut Poly, y: &Poly| x.for_each_limb(|i, limb| self.params.prime(i).add_assign(limb, y.limb(i)));
        add(&mut a.c0, &b.c0);
        add(&mut a.c1, &b.c1);
        match (&mut a.c2, &b.c2) {
            (Some(x), Some(y)) => add(x, y),
            (none @ None, Some(y)) => *none = Some(y.clone()),
            (_, None) => {}
        }
        Ok(())
    }

    /// `a + b`.
    ///
    /// # Errors
    /// As [`Evaluator::add_tensor_assign`].
    pub fn add_tensor(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let mut out = a.clone();
        self.add_tensor_assign(&mut out, b)?;
        Ok(out)
    }

    /// Back to two parts; without a key switch if there is no third.
    ///
    /// # Errors
    /// [`CkksError::MissingKey`] without the relinearisation key, [`CkksError::ParamsMismatch`].
    pub fn relinearise(&self, t: &Tensor) -> Result<Ciphertext> {
        self.check_mine(&t.params, t.owner)?;
        let outs = [t.c0.clone(), t.c1.clone()];
        self.finish(outs, t.c2.as_ref(), t.level, t.scale)
    }

    /// Back to two parts, divided by the last prime: fused. Without a third part it is a rescaling.
    ///
    /// # Errors
    /// As [`Evaluator::relinearise`]; [`CkksError::NoLevel`] at level 0; [`CkksError::Scale`] if less than 1
    /// is left of the scale.
    pub fn relinearise_rescale(&self, t: &Tensor) -> Result<Ciphertext> {
        self.check_mine(&t.params, t.owner)?;
        let after = self.rescaled("a rescaled product", t.level, t.scale)?;
        let from = [&t.c0, &t.c1];
        let Some(c2) = &t.c2 else { return self.divide_by_last(from, t.level, after) };
        let own = self.preset(t.level, vec![(); t.level + 1], |j, out, ()| {
            out.into_iter().zip(from).for_each(|(o, c)| o.copy_from_slice(c.limb(j)));
        })?;
        self.finish_rescale(own, c2, t.level, after)
    }

    /// The product, relinearised. Its scale is the product of the scales.
    ///
    /// # Errors
    /// As [`Evaluator::tensor`] and [`Evaluator::relinearise`].
    pub fn multiply(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.keys.get(KeyPurpose::Relinearisation)?;
        let t = self.tensor(a, b)?;
        self.finish([t.c0, t.c1], t.c2.as_ref(), t.level, t.scale)
    }

    /// The square, relinearised.
    ///
    /// # Errors
    /// As [`Evaluator::multiply`].
    pub fn square(&self, a: &Ciphertext) -> Result<Ciphertext> {
        self.keys.get(KeyPurpose::Relinearisation)?;
        let t = self.tensor_square(a)?;
        self.finish([t.c0, t.c1], t.c2.as_ref(), t.level, t.scale)
    }

    /// The product, relinearised and rescaled by one division.
    ///
    /// # Errors
    /// As [`Evaluator::tensor`] and [`Evaluator::relinearise_rescale`].
    pub fn multiply_rescale(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        self.fused_product(Factors::Two(a, b))
    }

    /// The square, relinearised and rescaled by one division.
    ///
    /// # Errors
    /// As [`Evaluator::multiply_rescale`].
    pub fn square_rescale(&self, a: &Ciphertext) -> Result<Ciphertext> {
        self.fused_product(Factors::Square(a))
    }

    /// Divides by the last prime of the level, rounded. The scale shrinks by that prime.
    ///
    /// # Errors
    /// [`CkksError::NoLevel`] at level 0, [`CkksError::Scale`] if less than 1 is left of the scale,
    /// [`CkksError::ParamsMismatch`].
    pub fn rescale(&self, c: &Ciphertext) -> Result<Ciphertext> {
        self.check_mine(&c.params, c.owner)?;
        let after = self.rescaled("rescaling", c.level, c.scale)?;
        self.divide_by_last([&c.c0, &c.c1], c.level, after)
    }

    /// Both parts at level `from`, divided by its last prime; `after` has level and scale of the result.
    pub(super) fn divide_by_last(&self, parts: [&Poly; 2], from: usize, after: (usize, f64)) -> Result<Ciphertext> {
        let division = self.tables.by_last(from).ok_or(CkksError::NoLevel { operation: "rescaling" })?;
        let parts = division.divide_pair(&self.params, parts);
        Ok(self.ciphertext(after.0, after.1, parts))
    }

    /// Level and scale after a division by the last prime.
    pub(crate) fn rescaled(&self, operation: &'static str, level: usize, scale: f64) -> Result<(usize, f64)> {
        let below = level.checked_sub(1).ok_or(CkksError::NoLevel { operation })?;
        let scale = scale / self.params.modulus(level).value() as f64;
        self.params.check_scale(below, scale)?;
        Ok((below, scale))
    }

    fn tensor_of(&self, factors: Factors<'_>) -> Result<Tensor> {
        let (level, scale) = self.check_factors(factors)?;
        let [mut c0, mut c1] = self.pair(level + 1);
        let mut c2 = Poly::scratch(&self.params, level + 1);
        let n = self.params.degree();
        let limbs = c2.words_mut().chunks_exact_mut(n).zip(rows([[c0.words_mut(), c1.words_mut()]], n)).collect();
        each(limbs, |j, (z, row): (&mut [u64], Row<'_>)| {
            for [x, y] in row {
                factors.limb(j, [x, y, &mut *z]);
            }
        });
        Ok(Tensor { params: self.params.clone(), owner: self.keys.owner(), level, scale, c0, c1, c2: Some(c2) })
    }

    fn check_factors(&self, factors: Factors<'_>) -> Result<(usize, f64)> {
        let (first, scale) = (factors.first(), factors.scale());
        if let Factors::Two(a, b) = factors {
            self.check_pair((&a.params, a.owner, a.level), (&b.params, b.owner, b.level))?;
        }
        self.check_mine(&first.params, first.owner)?;
        self.params.check_scale(first.level, scale)?;
        Ok((first.level, scale))
    }

    fn fused_product(&self, factors: Factors<'_>) -> Result<Ciphertext> {
        let (level, scale) = self.check_factors(factors)?;
        let after = self.rescaled("a rescaled product", level, scale)?;
        self.keys.get(KeyPurpose::Relinearisation)?;
        let mut c2 = Poly::scratch(&self.params, level + 1);
        let thirds = c2.words_mut().chunks_exact_mut(self.params.degree()).collect();
        let own = self.preset(level, thirds, |j, [x, y], z| factors.limb(j, [x, y, z]))?;
        self.finish_rescale(own, &c2, level, after)
    }

    /// The first two parts, made limb by limb by `fill`, as a fused division wants them: divided by `q_level`
    /// modulo the primes below, and times `P` modulo `q_level`. Scaled while they are in the cache. `thirds`
    /// has something for each limb.
    pub(super) fn preset<T: Send>(
        &self,
        level: usize,
        thirds: Vec<T>,
        fill: impl Fn(usize, [&mut [u64]; 2], T) + Sync + Send,
    ) -> Result<([Poly; 2], [Pooled; 2])> {
        let (params, n) = (&self.params, self.params.degree());
        let division = self.tables.by_last(level).ok_or(CkksError::NoLevel { operation: "a rescaled product" })?;
        let factors: Vec<Shoup> =
            division.inverses.iter().copied().chain([product_of_specials(params, level)]).collect();
        let mut outs = self.pair(level);
        let mut last = [params.pool().take(n), params.pool().take(n)];
        let ([x, y], [u, v]) = (&mut outs, &mut last);
        let kept = rows([[x.words_mut(), y.words_mut()]], n);
        let limbs = kept.into_iter().chain(rows([[&mut **u, &mut **v]], n)).zip(thirds).collect();
        each(limbs, |j, (row, third): (Row<'_>, T)| {
            let Some([x, y]) = row.into_iter().next() else { return };
            fill(j, [&mut *x, &mut *y], third);
            for limb in [x, y] {
                params.prime(j).scale_assign(factors[j], limb);
            }
        });
        Ok((outs, last))
    }

    pub(super) fn finish_rescale(
        &self,
        (outs, last): ([Poly; 2], [Pooled; 2]),
        c2: &Poly,
        from: usize,
        (level, scale): (usize, f64),
    ) -> Result<Ciphertext> {
        let key = self.keys.get(KeyPurpose::Relinearisation)?;
        let division = self.tables.by_both(from).ok_or(CkksError::NoLevel { operation: "a rescaled product" })?;
        let source = LazyDigits::new(&self.params, &self.tables, c2, from);
        let mut outs = [outs];
        let jobs = [Job { key, order: None, own: Own::Preset }];
        let last: [&[u64]; 2] = [&last[0], &last[1]];
        division.switch(&self.params, &source, &jobs, &mut outs, Some(last));
        let [parts] = outs;
        Ok(self.ciphertext(level, scale, parts))
    }

    /// Adds the switched third part, if there is one, to the first two.
    fn finish(&self, outs: [Poly; 2], c2: Option<&Poly>, level: usize, scale: f64) -> Result<Ciphertext> {
        let Some(c2) = c2 else { return Ok(self.ciphertext(level, scale, outs)) };
        let key = self.keys.get(KeyPurpose::Relinearisation)?;
        let source = LazyDigits::new(&self.params, &self.tables, c2, level);
        let mut outs = [outs];
        let jobs = [Job { key, order: None, own: Own::Preset }];
        self.tables.by_specials(level).switch(&self.params, &source, &jobs, &mut outs, None);
        let [parts] = outs;
        Ok(self.ciphertext(level, scale, parts))
    }
}
