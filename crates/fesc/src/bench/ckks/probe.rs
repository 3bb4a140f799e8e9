//! Times of the operations that circuits are counted in, at each level of a set.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use fesc_ckks::Ciphertext;
use fesc_ckks::sets::Set;
use fesc_hybrid::backend::Operation;

use super::op::{CkksOp, STEPS};
use super::setting::Setting;
use crate::bench::timing::{Times, Work, in_turn};

/// What the keys are made for.
pub const OPS: &[CkksOp] = &[CkksOp::MultiplyRescale, CkksOp::Rotate, CkksOp::Hoisted8];

/// The lowest level at which a product has room.
pub const LOWEST: usize = 1;

/// Products of a timed sum: kernels add several before they relinearise.
const TERMS: usize = 4;

/// Times at one level.
#[derive(Debug, Clone, Copy)]
pub struct LevelTimes {
    /// A relinearisation with its rescaling.
    pub relinearise_rescale: Times,
    /// A rotation alone.
    pub rotate: Times,
    /// One of eight rotations of the same ciphertext.
    pub hoisted_rotate: Times,
    /// A product of two ciphertexts, added to a sum.
    product: Times,
    /// A product by a plaintext, added to a sum.
    plain_product: Times,
    /// A rescaling.
    rescale: Times,
}

impl LevelTimes {
    /// Measures all of them in turn.
    pub fn new(setting: &Setting, level: usize, seconds: f64) -> Result<Self> {
        let (evaluator, encoder) = (setting.evaluator(), setting.encoder());
        let ([a, b], [x, _]) = setting.at_level(level)?;
        let tensor = evaluator.tensor(&a, &b)?;
        let weight = encoder.encode_periodic(x, level, a.scale())?;
        let raised = evaluator.multiply_plain(&a, &encoder.encode(x, level, a.scale())?)?;
        let (mut sum, mut plain_sum) = (evaluator.tensor(&a, &b)?, evaluator.empty_sum(level, a.scale().powi(2))?);
        let mut relinearise = || Ok(vec![evaluator.relinearise_rescale(&tensor)?]);
        let mut rotate = || Ok(vec![evaluator.rotate(&a, STEPS[0])?]);
        let mut hoisted = || Ok(evaluator.rotate_many(&a, &STEPS)?);
        let mut product = || {
            evaluator.add_products(&mut sum, &[(&a, &b); TERMS])?;
            Ok(Vec::new())
        };
        let mut plain_product = || {
            evaluator.add_plain_products(&mut plain_sum, &[(&a, &weight); TERMS])?;
            Ok(Vec::new())
        };
        let mut rescale = || Ok(vec![evaluator.rescale(&raised)?]);
        let works: &mut [Work<'_, Vec<Ciphertext>>] =
            &mut [&mut relinearise, &mut rotate, &mut hoisted, &mut product, &mut plain_product, &mut rescale];
        let times = in_turn(seconds, works)?;
        let [relinearise_rescale, rotate, hoisted, product, plain_product, rescale] = times[..] else {
            bail!("six works have six times")
        };
        Ok(Self {
            relinearise_rescale,
            rotate,
            hoisted_rotate: hoisted.divided(STEPS.len()),
            product: product.divided(TERMS),
            plain_product: plain_product.divided(TERMS),
            rescale,
        })
    }
}

/// Times at the levels of a set that are wanted, on as many threads as the pool has where it is made.
pub struct Probe(BTreeMap<usize, LevelTimes>);

impl Probe {
    /// Measures, under keys that are dropped afterwards.
    pub fn new(set: &Set, wanted: impl Fn(usize) -> bool, seconds: f64) -> Result<Self> {
        let setting = Setting::new(&set.params()?, &CkksOp::plan(OPS))?;
        let levels = (LOWEST..=set.levels).filter(|&level| wanted(level));
        Ok(Self(levels.map(|level| Ok((level, LevelTimes::new(&setting, level, seconds)?))).collect::<Result<_>>()?))
    }

    /// Seconds of one operation at a level; NaN for a level that was not wanted.
    pub fn seconds(&self, operation: Operation, level: usize) -> f64 {
        let Some(times) = self.0.get(&level) else { return f64::NAN };
        let times = match operation {
            Operation::Relinearisation => times.relinearise_rescale,
            // A conjugation is the same key switch behind another permutation.
            Operation::Rotation | Operation::Conjugation => times.rotate,
            Operation::HoistedRotation => times.hoisted_rotate,
            Operation::Product => times.product,
            Operation::PlainProduct => times.plain_product,
            Operation::Rescale => times.rescale,
        };
        times.median_ms * 1e-3
    }
}
