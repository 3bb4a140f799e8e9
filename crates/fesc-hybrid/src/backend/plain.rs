//! The back end that computes on complex numbers in the clear, with levels, scales and noise as formulas.
//!
//! Levels and scales are checked as the scheme checks them. With a real set ([`Plain::of`]) each ciphertext
//! carries the variance of its noise by the formulas of [`fesc_ckks::noise`], with the actual energies of the
//! slots, and [`Plain::noisy`] adds noise of that size to the slots.

use std::sync::{Arc, Mutex, PoisonError};

use fesc_ckks::{Params, noise};
use fesc_ring::Prg;
use num_complex::Complex64;

use super::{Backend, Chain, Live, LiveCounts, Operation, Operations, Term, check_above, check_level, check_period};
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
    /// Of a coefficient of the phase; zero without a set.
    variance: f64,
    _live: Live,
}

/// Slots of a sum of products.
pub struct PlainSum {
    slots: Vec<Complex64>,
    level: usize,
    scale: f64,
    variance: f64,
    square: bool,
    _live: Live,
}

impl PlainCt {
    /// The slots.
    pub fn slots(&self) -> &[Complex64] {
        &self.slots
    }

    /// Root of the mean square of a slot's error by formula, for `N` coefficients.
    pub fn deviation(&self) -> f64 {
        (2.0 * self.slots.len() as f64 * self.variance).sqrt() / self.scale
    }

    fn mean_square(&self) -> f64 {
        self.slots.iter().map(Complex64::norm_sqr).sum::<f64>() / self.slots.len() as f64
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
        check_above("an input", level, self.chain.top())?;
        let n = self.chain.slots();
        if values.len() > n {
            return Err(HybridError::Shape { what: "values", got: values.len(), need: format!("{n} slots") });
        }
        let mut slots = values.to_vec();
        slots.resize(n, Complex64::ZERO);
        let variance = if self.params.is_some() { noise::fresh_secret() + 1.0 / 12.0 } else { 0.0 };
        Ok(self.noised(slots, level, self.chain.scale(level), variance, variance))
    }

    /// Live ciphertexts.
    pub fn live(&self) -> &LiveCounts {
        &self.live
    }

    /// A ciphertext of these slots; `added` is the part of the variance that the slots do not have yet.
    fn noised(&self, mut slots: Vec<Complex64>, level: usize, scale: f64, variance: f64, added: f64) -> PlainCt {
        if let Some(prg) = &self.noise {
            // A complex slot holds N coefficients' worth of noise, half in each part.
            let deviation = (slots.len() as f64 * added).sqrt() / scale;
            let mut prg = prg.lock().unwrap_or_else(PoisonError::into_inner);
            for z in &mut slots {
                *z += gaussian(&mut prg) * deviation;
            }
        }
        let live = Live::new(&self.live, self.chain.ciphertext_bytes(level));
        PlainCt { slots: Arc::new(slots), level, scale, variance, _live: live }
    }

    /// The variance of a rounding, and of the digits' errors of a key switch at a level.
    fn switch_noise(&self, level: usize) -> Result<(f64, f64)> {
        match &self.params {
            Some(p) => Ok((noise::rounding(p), noise::digit_errors(p, level)?)),
            None => Ok((0.0, 0.0)),
        }
    }

    fn pair(&self, a: &PlainCt, b: &PlainCt, work: impl Fn(Complex64, Complex64) -> Complex64) -> Result<PlainCt> {
        check_level("a sum", a.level, b.level)?;
        check_scale("a sum", a.scale, b.scale)?;
        let slots = a.slots.iter().zip(b.slots.iter()).map(|(&x, &y)| work(x, y)).collect();
        Ok(self.noised(slots, a.level, a.scale, a.variance + b.variance, 0.0))
    }

    fn moved(&self, c: &PlainCt, slots: Vec<Complex64>) -> Result<PlainCt> {
        let (rounding, digits) = self.switch_noise(c.level)?;
        let added = rounding + digits;
        Ok(self.noised(slots, c.level, c.scale, c.variance + added, added))
    }

    fn rotated(&self, c: &PlainCt, step: i64) -> Result<PlainCt> {
        let n = c.slots.len();
        let by = step.rem_euclid(n as i64) as usize;
        if by == 0 {
            return Ok(c.clone());
        }
        self.moved(c, (0..n).map(|i| c.slots[(i + by) % n]).collect())
    }
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
        self.pair(a, b, |x, y| x + y)
    }

    fn sub(&self, a: &PlainCt, b: &PlainCt) -> Result<PlainCt> {
        self.pair(a, b, |x, y| x - y)
    }

    fn add_values(&self, a: &PlainCt, values: &[Complex64]) -> Result<PlainCt> {
        check_period(values.len(), self.chain.slots())?;
        let slots = a.slots.iter().zip(values.iter().cycle()).map(|(x, y)| x + y).collect();
        Ok(self.noised(slots, a.level, a.scale, a.variance, 0.0))
    }

    fn times_i(&self, a: &PlainCt) -> Result<PlainCt> {
        let slots = a.slots.iter().map(|z| z * Complex64::I).collect();
        Ok(self.noised(slots, a.level, a.scale, a.variance, 0.0))
    }

    fn halve(&self, a: &PlainCt) -> Result<PlainCt> {
        let slots = a.slots.iter().map(|z| z * 0.5).collect();
        Ok(self.noised(slots, a.level, 2.0 * a.scale, a.variance, 0.0))
    }

    fn lower(&self, c: &PlainCt, level: usize) -> Result<PlainCt> {
        check_above("lowering", level, c.level)?;
        if c.level == level {
            return Ok(c.clone());
        }
        self.operations.write(Operation::Rescale, level + 1, 1);
        let scale = self.chain.scale(level);
        let (rounding, _) = self.switch_noise(level)?;
        let ratio = scale / c.scale;
        Ok(self.noised(c.slots.to_vec(), level, scale, c.variance * ratio * ratio + rounding, rounding))
    }

    fn empty_sum(&self, level: usize) -> Result<PlainSum> {
        check_above("a product", 1, level)?;
        let live = Live::new(&self.live, self.chain.ciphertext_bytes(level) * 3 / 2);
        let slots = vec![Complex64::ZERO; self.chain.slots()];
        let scale = self.chain.scale(level).powi(2);
        Ok(PlainSum { slots, level, scale, variance: 0.0, square: false, _live: live })
    }

    fn extend(&self, sum: &mut PlainSum, terms: &[Term<'_, Self>]) -> Result<()> {
        for term in terms {
            match term {
                Term::Product(a, b) => {
                    check_level("a product", sum.level, a.level)?;
                    check_level("a product", sum.level, b.level)?;
                    check_scale("a product", sum.scale, a.scale * b.scale)?;
                    sum.slots.iter_mut().zip(a.slots.iter().zip(b.slots.iter())).for_each(|(s, (x, y))| *s += x * y);
                    if let Some(params) = &self.params {
                        let [x, y] = [a, b].map(|c| (noise::energy(c.mean_square(), c.scale), c.variance));
                        sum.variance += noise::tensor(params, x, y);
                    }
                    sum.square = true;
                    self.operations.write(Operation::Product, sum.level, 1);
                }
                Term::Plain(a, (values, level)) => {
                    check_level("a product by a plaintext", sum.level, a.level)?;
                    check_level("a plaintext", sum.level, *level)?;
                    check_scale("a product by a plaintext", sum.scale, a.scale * self.chain.scale(sum.level))?;
                    let repeated = values.iter().cycle();
                    sum.slots.iter_mut().zip(a.slots.iter().zip(repeated)).for_each(|(s, (x, y))| *s += x * y);
                    let square = values.iter().map(Complex64::norm_sqr).sum::<f64>() / values.len() as f64;
                    sum.variance += a.variance * noise::energy(square, self.chain.scale(sum.level));
                    self.operations.write(Operation::PlainProduct, sum.level, 1);
                }
                Term::Addend(a) => {
                    check_above("an addend", sum.level, a.level)?;
                    sum.slots.iter_mut().zip(a.slots.iter()).for_each(|(s, x)| *s += x);
                    sum.variance += a.variance * (sum.scale / a.scale).powi(2);
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
        Ok(self.noised(sum.slots, level, scale, sum.variance / (q * q) + added, added))
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
        self.moved(c, c.slots.iter().map(Complex64::conj).collect())
    }
}
