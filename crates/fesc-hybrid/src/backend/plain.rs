//! The back end that computes on complex numbers in the clear, with levels, scales and noise as formulas.
//!
//! Levels and scales are checked as the scheme checks them. With a real set ([`Plain::of`]) each ciphertext
//! carries the mean square of the error of every slot, and [`Plain::noisy`] adds noise of that size to the
//! slots.
//!
//! # The error of a slot
//! What encryption, rounding and key switching add (the variances of [`fesc_ckks::noise`]) is the same in all
//! slots: `N V / scale^2`. A product multiplies the error of a slot by the other factor's value *in that
//! slot*, so that zeros of masks and of padding take errors away with them; an energy of the whole ciphertext
//! would spread them. In units of the value, with `E` the mean square of an error:
//!
//! | operation | `E` of a slot |
//! |---|---|
//! | sum | `E_a + E_b`; `4 E` for `a + a` |
//! | product | `\|b\|^2 E_a + \|a\|^2 E_b + E_a E_b`; `4 \|a\|^2 E + 2 E^2` for `a a` |
//! | product by a plaintext of period `p` | `\|w\|^2 E + \|a\|^2 p / 6 scale^2` |
//! | rotation, conjugation | that of the slot it comes from |
//! | key switch, rescaling | `E +` what it adds |
//!
//! Errors of different ciphertexts and of different slots are taken as independent. They are averages over
//! keys: rounding errors of a slot are multiplied by the secret's value there, whose square has an
//! exponential distribution, so that under one key the largest of `n` errors is nearer to `ln n` than to
//! `sqrt(2 ln n)` deviations.

use std::sync::{Arc, Mutex, PoisonError};

use fesc_ckks::{Params, noise};
use fesc_ring::Prg;
use num_complex::Complex64;

use super::{Backend, Chain, Live, LiveCounts, Operation, Operations, Term, check_above, check_level, check_period};
use crate::expand::packed;
use crate::{HybridError, Result};

/// Largest relative difference of scales that counts as equal.
const TOLERANCE: f64 = 1e-11;

/// Complex slots in the clear.
pub struct Plain {
    chain: Chain,
    params: Option<Params>,
    noise: Option<Mutex<Prg>>,
    operations: Operations,
    live: Arc<LiveCounts>,
}

/// Slots with the level, scale and noise that a ciphertext of them would have.
#[derive(Clone)]
pub struct PlainCt {
    slots: Arc<Vec<Complex64>>,
    level: usize,
    scale: f64,
    /// Mean square of the error of each slot; none without a set.
    errors: Arc<Vec<f64>>,
    _live: Live,
}

/// Slots of a sum of products.
pub struct PlainSum {
    slots: Vec<Complex64>,
    level: usize,
    scale: f64,
    errors: Vec<f64>,
    square: bool,
    _live: Live,
}

impl PlainCt {
    /// The slots.
    pub fn slots(&self) -> &[Complex64] {
        &self.slots
    }

    /// Mean square of the error of each slot by formula, half of it in each part; nothing without a set.
    pub fn errors(&self) -> &[f64] {
        &self.errors
    }

    /// Root of the mean square of a slot's error by formula, over all slots.
    pub fn deviation(&self) -> f64 {
        (self.errors.iter().sum::<f64>() / self.slots.len() as f64).sqrt()
    }

    /// Whether it is the very same ciphertext.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.slots, &other.slots)
    }
}

impl Plain {
    /// For this chain, without noise.
    pub fn new(chain: Chain) -> Self {
        Self { chain, params: None, noise: None, operations: Operations::default(), live: Arc::default() }
    }

    /// For a real set: the noise is counted by formula.
    pub fn of(params: &Params) -> Self {
        Self { params: Some(params.clone()), ..Self::new(Chain::of(params)) }
    }

    /// For a real set: noise is counted and added to the slots.
    pub fn noisy(params: &Params, prg: Prg) -> Self {
        Self { noise: Some(Mutex::new(prg)), ..Self::of(params) }
    }

    /// An input at `level`; slots that are not given are zero.
    ///
    /// # Errors
    /// If there are too many.
    pub fn fresh(&self, values: &[Complex64], level: usize) -> Result<PlainCt> {
        self.fresh_parts(values, level, 1)
    }

    /// An input of `parts` packed parts ([`crate::expand`]); slots that are not given are zero.
    ///
    /// # Errors
    /// If there are too many.
    pub fn fresh_parts(&self, values: &[Complex64], level: usize, parts: usize) -> Result<PlainCt> {
        check_above("an input", level, self.chain.top())?;
        let n = self.chain.slots();
        if values.len() > n {
            return Err(HybridError::Shape { what: "values", got: values.len(), need: format!("{n} slots") });
        }
        let mut slots = values.to_vec();
        slots.resize(n, Complex64::ZERO);
        let slots = if parts == 1 { slots } else { packed(&slots, parts) };
        let scale = self.chain.scale(level) / parts as f64;
        Ok(self.noised(slots, self.no_errors(), level, scale, noise::fresh_secret() + 1.0 / 12.0))
    }

    /// Live ciphertexts.
    pub fn live(&self) -> &LiveCounts {
        &self.live
    }

    /// Errors of nothing.
    fn no_errors(&self) -> Vec<f64> {
        vec![0.0; if self.params.is_some() { self.chain.slots() } else { 0 }]
    }

    /// A ciphertext of these slots, with an error of variance `added` in each coefficient of the phase more.
    fn noised(&self, mut slots: Vec<Complex64>, mut errors: Vec<f64>, level: usize, scale: f64, added: f64) -> PlainCt {
        // A slot holds N coefficients' worth of noise.
        let added = 2.0 * slots.len() as f64 * added / (scale * scale);
        errors.iter_mut().for_each(|e| *e += added);
        if let Some(prg) = &self.noise {
            let deviation = (added / 2.0).sqrt();
            let mut prg = prg.lock().unwrap_or_else(PoisonError::into_inner);
            for z in &mut slots {
                *z += gaussian(&mut prg) * deviation;
            }
        }
        let live = Live::new(&self.live, level, self.chain.ciphertext_bytes(level));
        PlainCt { slots: Arc::new(slots), level, scale, errors: Arc::new(errors), _live: live }
    }

    /// The same errors, other slots and scale.
    fn mapped(&self, c: &PlainCt, scale: f64, work: impl Fn(Complex64) -> Complex64) -> PlainCt {
        let slots = c.slots.iter().map(|&z| work(z)).collect();
        let live = Live::new(&self.live, c.level, self.chain.ciphertext_bytes(c.level));
        PlainCt { slots: Arc::new(slots), level: c.level, scale, errors: Arc::clone(&c.errors), _live: live }
    }

    /// The variance of a rounding, and of the digits' errors of a key switch at a level.
    fn switch_noise(&self, level: usize) -> Result<(f64, f64)> {
        match &self.params {
            Some(p) => Ok((noise::rounding(p), noise::digit_errors(p, level)?)),
            None => Ok((0.0, 0.0)),
        }
    }

    /// `a + sign b`.
    fn pair(&self, a: &PlainCt, b: &PlainCt, sign: f64) -> Result<PlainCt> {
        check_level("a sum", a.level, b.level)?;
        check_scale("a sum", a.scale, b.scale)?;
        let slots = a.slots.iter().zip(b.slots.iter()).map(|(x, y)| x + y * sign).collect();
        let together = if a.is(b) { sign } else { 0.0 };
        let errors = a.errors.iter().zip(b.errors.iter()).map(|(x, y)| x + y + 2.0 * together * x).collect();
        Ok(self.noised(slots, errors, a.level, a.scale, 0.0))
    }

    /// A key switch of slots that are taken from these places and changed.
    fn moved(
        &self,
        c: &PlainCt,
        from: impl Fn(usize) -> usize,
        work: impl Fn(Complex64) -> Complex64,
    ) -> Result<PlainCt> {
        let (rounding, digits) = self.switch_noise(c.level)?;
        let slots = (0..c.slots.len()).map(|i| work(c.slots[from(i)])).collect();
        let errors = (0..c.errors.len()).map(|i| c.errors[from(i)]).collect();
        Ok(self.noised(slots, errors, c.level, c.scale, rounding + digits))
    }

    fn rotated(&self, c: &PlainCt, step: i64) -> Result<PlainCt> {
        let n = c.slots.len();
        let by = step.rem_euclid(n as i64) as usize;
        if by == 0 {
            return Ok(c.clone());
        }
        self.moved(c, |i| (i + by) % n, |z| z)
    }
}

impl PlainSum {
    /// Adds a product, whose two factors may be one ciphertext.
    fn multiply(&mut self, a: &PlainCt, b: &PlainCt) {
        let values = || a.slots.iter().zip(b.slots.iter());
        self.slots.iter_mut().zip(values()).for_each(|(s, (x, y))| *s += x * y);
        let same = if a.is(b) { 2.0 } else { 1.0 };
        let errors = a.errors.iter().zip(b.errors.iter()).zip(values());
        for (sum, ((e, f), (x, y))) in self.errors.iter_mut().zip(errors) {
            *sum += same * (e * y.norm_sqr() + f * x.norm_sqr() + e * f);
        }
    }

    /// Adds a ciphertext.
    fn add(&mut self, a: &PlainCt) {
        self.slots.iter_mut().zip(a.slots.iter()).for_each(|(s, x)| *s += x);
        self.errors.iter_mut().zip(a.errors.iter()).for_each(|(s, e)| *s += e);
    }
}

/// Adds a product by known values, repeated and encoded at `scale`. Rounding the encoding is an error too: of
/// the `2 period` coefficients that are not zero.
fn multiply_plain((slots, errors): (&mut [Complex64], &mut [f64]), a: &PlainCt, values: &[Complex64], scale: f64) {
    let pairs = || a.slots.iter().zip(values.iter().cycle());
    slots.iter_mut().zip(pairs()).for_each(|(s, (x, y))| *s += x * y);
    let rounded = values.len() as f64 / (6.0 * scale * scale);
    for (sum, (e, (x, y))) in errors.iter_mut().zip(a.errors.iter().zip(pairs())) {
        *sum += e * y.norm_sqr() + rounded * x.norm_sqr();
    }
}

/// The slots of `X^power`.
pub(crate) fn monomial(slots: usize, power: i64) -> impl Iterator<Item = Complex64> {
    let order = 4 * slots as i64;
    let angles = std::iter::successors(Some(power.rem_euclid(order)), move |a| Some(a * 5 % order));
    angles.take(slots).map(move |a| Complex64::cis(std::f64::consts::TAU * a as f64 / order as f64))
}

/// A complex sample whose parts have deviation 1 (Box and Muller).
fn gaussian(prg: &mut Prg) -> Complex64 {
    let mut uniform = || ((prg.next_u64() >> 11) as f64 + 0.5) / 2f64.powi(53);
    let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f64::consts::TAU * uniform());
    Complex64::from_polar(radius, angle)
}

fn check_scale(operation: &'static str, left: f64, right: f64) -> Result<()> {
    if (left / right - 1.0).abs() <= TOLERANCE {
        return Ok(());
    }
    Err(HybridError::Scale { operation, left: left.log2(), right: right.log2() })
}

impl Backend for Plain {
    type Ct = PlainCt;
    type Sum = PlainSum;
    /// The values, and the level that they are for.
    type Pt = (Vec<Complex64>, usize);

    fn chain(&self) -> &Chain {
        &self.chain
    }

    fn operations(&self) -> &Operations {
        &self.operations
    }

    fn level(&self, c: &PlainCt) -> usize {
        c.level
    }

    fn encode(&self, values: &[Complex64], level: usize) -> Result<Self::Pt> {
        check_period(values.len(), self.chain.slots())?;
        Ok((values.to_vec(), level))
    }

    fn add(&self, a: &PlainCt, b: &PlainCt) -> Result<PlainCt> {
        self.pair(a, b, 1.0)
    }

    fn sub(&self, a: &PlainCt, b: &PlainCt) -> Result<PlainCt> {
        self.pair(a, b, -1.0)
    }

    fn add_values(&self, a: &PlainCt, values: &[Complex64]) -> Result<PlainCt> {
        check_period(values.len(), self.chain.slots())?;
        let slots = a.slots.iter().zip(values.iter().cycle()).map(|(x, y)| x + y).collect();
        Ok(self.noised(slots, a.errors.to_vec(), a.level, a.scale, 0.0))
    }

    fn times_i(&self, a: &PlainCt) -> Result<PlainCt> {
        Ok(self.mapped(a, a.scale, |z| z * Complex64::I))
    }

    fn times_monomial(&self, a: &PlainCt, power: i64) -> Result<PlainCt> {
        self.operations.write(Operation::PlainProduct, a.level, 1);
        let slots = a.slots.iter().zip(monomial(a.slots.len(), power)).map(|(z, root)| z * root).collect();
        Ok(self.noised(slots, a.errors.to_vec(), a.level, a.scale, 0.0))
    }

    fn halve(&self, a: &PlainCt) -> Result<PlainCt> {
        let slots = a.slots.iter().map(|z| z * 0.5).collect();
        let errors = a.errors.iter().map(|e| e / 4.0).collect();
        Ok(self.noised(slots, errors, a.level, 2.0 * a.scale, 0.0))
    }

    fn lower(&self, c: &PlainCt, level: usize) -> Result<PlainCt> {
        check_above("lowering", level, c.level)?;
        if c.level == level {
            return Ok(c.clone());
        }
        self.operations.write(Operation::Rescale, level + 1, 1);
        let scale = self.chain.scale(level);
        let (rounding, _) = self.switch_noise(level)?;
        Ok(self.noised(c.slots.to_vec(), c.errors.to_vec(), level, scale, rounding))
    }

    fn multiply_plain(&self, c: &PlainCt, (values, level): &Self::Pt) -> Result<PlainCt> {
        check_level("a product by a plaintext", *level, c.level)?;
        self.operations.write(Operation::PlainProduct, c.level, 1);
        let weight = self.chain.scale(c.level);
        let mut product = (vec![Complex64::ZERO; c.slots.len()], self.no_errors());
        multiply_plain((&mut product.0, &mut product.1), c, values, weight);
        Ok(self.noised(product.0, product.1, c.level, c.scale * weight, 0.0))
    }

    fn rescale(&self, c: &PlainCt) -> Result<PlainCt> {
        check_above("rescaling", 1, c.level)?;
        self.operations.write(Operation::Rescale, c.level, 1);
        let (rounding, _) = self.switch_noise(c.level)?;
        let scale = c.scale / self.chain.modulus(c.level);
        Ok(self.noised(c.slots.to_vec(), c.errors.to_vec(), c.level - 1, scale, rounding))
    }

    fn empty_sum(&self, level: usize) -> Result<PlainSum> {
        check_above("a product", 1, level)?;
        let live = Live::new(&self.live, level, self.chain.ciphertext_bytes(level) * 3 / 2);
        let slots = vec![Complex64::ZERO; self.chain.slots()];
        let scale = self.chain.scale(level).powi(2);
        Ok(PlainSum { slots, level, scale, errors: self.no_errors(), square: false, _live: live })
    }

    fn extend(&self, sum: &mut PlainSum, terms: &[Term<'_, Self>]) -> Result<()> {
        for term in terms {
            match term {
                Term::Product(a, b) => {
                    check_level("a product", sum.level, a.level)?;
                    check_level("a product", sum.level, b.level)?;
                    check_scale("a product", sum.scale, a.scale * b.scale)?;
                    sum.multiply(a, b);
                    sum.square = true;
                    self.operations.write(Operation::Product, sum.level, 1);
                }
                Term::Plain(a, (values, level)) => {
                    check_level("a product by a plaintext", sum.level, a.level)?;
                    check_level("a plaintext", sum.level, *level)?;
                    check_scale("a product by a plaintext", sum.scale, a.scale * self.chain.scale(sum.level))?;
                    let weight = self.chain.scale(sum.level);
                    multiply_plain((&mut sum.slots, &mut sum.errors), a, values, weight);
                    self.operations.write(Operation::PlainProduct, sum.level, 1);
                }
                Term::Addend(a) => {
                    check_above("an addend", sum.level, a.level)?;
                    sum.add(a);
                }
            }
        }
        Ok(())
    }

    fn finish(&self, sum: PlainSum) -> Result<PlainCt> {
        let kind = if sum.square { Operation::Relinearisation } else { Operation::Rescale };
        self.operations.write(kind, sum.level, 1);
        let (rounding, digits) = self.switch_noise(sum.level)?;
        let q = self.chain.modulus(sum.level);
        let added = rounding + if sum.square { digits / (q * q) } else { 0.0 };
        let (level, scale) = (sum.level - 1, sum.scale / q);
        Ok(self.noised(sum.slots, sum.errors, level, scale, added))
    }

    fn rotate(&self, c: &PlainCt, step: i64) -> Result<PlainCt> {
        self.operations.rotations(self.chain.slots(), c.level, &[step]);
        self.rotated(c, step)
    }

    fn rotate_many(&self, c: &PlainCt, steps: &[i64]) -> Result<Vec<PlainCt>> {
        self.operations.rotations(self.chain.slots(), c.level, steps);
        steps.iter().map(|&step| self.rotated(c, step)).collect()
    }

    fn conjugate(&self, c: &PlainCt) -> Result<PlainCt> {
        self.operations.write(Operation::Conjugation, c.level, 1);
        self.moved(c, |i| i, |z| z.conj())
    }
}
