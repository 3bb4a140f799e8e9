//! Times of the operations that circuits are counted in, at each level of a set.
//!
//! Threads share the memory's bandwidth and caches, so that one that works alone is faster than two: a
//! [`Probe`] has as many threads at work as the circuit will have, each with whole operations. Operands come
//! in turn from several, as a circuit's do, and are not in the nearest cache.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, bail};
use fesc_ckks::Ciphertext;
use fesc_ckks::sets::Set;
use fesc_hybrid::backend::{Chain, Operation};
use rayon::ThreadPoolBuilder;

use super::op::{CkksOp, STEPS};
use super::setting::Setting;
use crate::bench::timing::{Times, Work, in_turn_by};
use crate::usage;

/// What the keys are made for.
pub const OPS: &[CkksOp] = &[CkksOp::MultiplyRescale, CkksOp::Rotate, CkksOp::Hoisted8];

/// The lowest level at which a product has room.
pub const LOWEST: usize = 1;

/// Pairs of operands that are taken in turn.
const PAIRS: usize = 4;

/// Products by plaintexts of a timed sum, as in a linear map. Products of ciphertexts come one by one.
const TERMS: usize = 16;

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
    /// Measures all of them in turn, on the threads of this pool.
    pub fn new(setting: &Setting, level: usize, seconds: f64) -> Result<Self> {
        Self::by(&|| usage::cpu_seconds().unwrap_or(f64::NAN), setting, level, seconds)
    }

    /// The mean over so many threads that measure at once, one operation on each.
    fn beside(threads: usize, setting: &Setting, level: usize, seconds: f64) -> Result<Self> {
        let one = || -> Result<Self> {
            let pool = ThreadPoolBuilder::new().num_threads(1).build()?;
            pool.install(|| Self::by(&usage::thread_cpu_seconds, setting, level, seconds))
        };
        let all: Vec<Result<Self>> = thread::scope(|scope| {
            let running: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(one)).collect();
            let ended = running.into_iter().map(|t| t.join().unwrap_or_else(|_| bail!("a measurement has died")));
            ended.collect()
        });
        let all = all.into_iter().collect::<Result<Vec<Self>>>()?;
        let mean = |f: fn(&Self) -> Times| {
            let sum = |g: fn(Times) -> f64| all.iter().map(|t| g(f(t))).sum::<f64>() / all.len() as f64;
            Times { min_ms: sum(|t| t.min_ms), median_ms: sum(|t| t.median_ms), cpu_ms: sum(|t| t.cpu_ms) }
        };
        Ok(Self {
            relinearise_rescale: mean(|t| t.relinearise_rescale),
            rotate: mean(|t| t.rotate),
            hoisted_rotate: mean(|t| t.hoisted_rotate),
            product: mean(|t| t.product),
            plain_product: mean(|t| t.plain_product),
            rescale: mean(|t| t.rescale),
        })
    }

    fn by(clock: &dyn Fn() -> f64, setting: &Setting, level: usize, seconds: f64) -> Result<Self> {
        let (evaluator, encoder) = (setting.evaluator(), setting.encoder());
        let ([a, b], [x, _]) = setting.at_level(level)?;
        let pairs: Vec<[Ciphertext; 2]> = vec![[a.clone(), b.clone()]; PAIRS];
        let tensors = pairs.iter().map(|[a, b]| evaluator.tensor(a, b)).collect::<Result<Vec<_>, _>>()?;
        let turn = AtomicUsize::new(0);
        let next = || turn.fetch_add(1, Ordering::Relaxed) % PAIRS;
        let weight = encoder.encode_periodic(x, level, a.scale())?;
        let raised = evaluator.multiply_plain(&a, &encoder.encode(x, level, a.scale())?)?;
        let (mut sum, mut plain_sum) = (evaluator.tensor(&a, &b)?, evaluator.empty_sum(level, a.scale().powi(2))?);
        let mut relinearise = || Ok(vec![evaluator.relinearise_rescale(&tensors[next()])?]);
        let mut rotate = || Ok(vec![evaluator.rotate(&pairs[next()][0], STEPS[0])?]);
        let mut hoisted = || Ok(evaluator.rotate_many(&pairs[next()][0], &STEPS)?);
        let mut product = || {
            let [a, b] = &pairs[next()];
            evaluator.add_products(&mut sum, &[(a, b)])?;
            Ok(Vec::new())
        };
        let weighed: Vec<_> = pairs.iter().map(|[a, _]| (a, &weight)).cycle().take(TERMS).collect();
        let mut plain_product = || {
            evaluator.add_plain_products(&mut plain_sum, &weighed)?;
            Ok(Vec::new())
        };
        let mut rescale = || Ok(vec![evaluator.rescale(&raised)?]);
        let works: &mut [Work<'_, Vec<Ciphertext>>] =
            &mut [&mut relinearise, &mut rotate, &mut hoisted, &mut product, &mut plain_product, &mut rescale];
        let times = in_turn_by(clock, seconds, works)?;
        let [relinearise_rescale, rotate, hoisted, product, plain_product, rescale] = times[..] else {
            bail!("six works have six times")
        };
        Ok(Self {
            relinearise_rescale,
            rotate,
            hoisted_rotate: hoisted.divided(STEPS.len()),
            product,
            plain_product: plain_product.divided(TERMS),
            rescale,
        })
    }
}

impl LevelTimes {
    /// Seconds of one operation.
    fn seconds(&self, operation: Operation) -> f64 {
        let times = match operation {
            Operation::Relinearisation => self.relinearise_rescale,
            // A conjugation is the same key switch behind another permutation.
            Operation::Rotation | Operation::Conjugation => self.rotate,
            Operation::HoistedRotation => self.hoisted_rotate,
            Operation::Product => self.product,
            Operation::PlainProduct => self.plain_product,
            Operation::Rescale => self.rescale,
        };
        // Of one thread: what a busy machine takes away is not in it.
        if times.cpu_ms.is_nan() { times.median_ms * 1e-3 } else { times.cpu_ms * 1e-3 }
    }
}

/// Times at levels of a set, of an operation on one thread while others work.
pub struct Probe {
    chain: Chain,
    levels: BTreeMap<usize, LevelTimes>,
}

impl Probe {
    /// Measures at all levels that are wanted on so many threads, under keys that are dropped afterwards.
    pub fn new(set: &Set, wanted: impl Fn(usize) -> bool, seconds: f64, threads: usize) -> Result<Self> {
        Self::at(set, (LOWEST..=set.levels).filter(|&level| wanted(level)), seconds, threads)
    }

    /// Measures at `points` of the levels that are wanted, the lowest and the highest among them.
    pub fn sparse(set: &Set, wanted: impl Fn(usize) -> bool, points: usize, threads: usize) -> Result<Self> {
        let all: Vec<usize> = (LOWEST..=set.levels).filter(|&level| wanted(level)).collect();
        let last = all.len().saturating_sub(1);
        let at = |i: usize| all.get((i * last).div_ceil(points.max(2) - 1)).copied();
        Self::at(set, (0..points.max(2)).filter_map(at), 0.0, threads)
    }

    fn at(set: &Set, levels: impl Iterator<Item = usize>, seconds: f64, threads: usize) -> Result<Self> {
        let setting = Setting::new(&set.params()?, &CkksOp::plan(OPS))?;
        let mut found = BTreeMap::new();
        for level in levels {
            if let Entry::Vacant(entry) = found.entry(level) {
                entry.insert(LevelTimes::beside(threads, &setting, level, seconds)?);
            }
        }
        Ok(Self { chain: Chain::of_set(set), levels: found })
    }

    /// Seconds of one operation at a level. Between two levels that were measured, the time for each
    /// transform of a key switch, and for each prime of the other operations, lies on a line. NaN outside of
    /// them.
    pub fn seconds(&self, operation: Operation, level: usize) -> f64 {
        let weight = |level: usize| {
            if operation.switches() { self.chain.switch_transforms(level) as f64 } else { level as f64 + 1.0 }
        };
        let each = |(&at, times): (&usize, &LevelTimes)| (at as f64, times.seconds(operation) / weight(at));
        let (below, above) = (self.levels.range(..=level).next_back(), self.levels.range(level..).next());
        let (Some((a, low)), Some((b, high))) = (below.map(each), above.map(each)) else { return f64::NAN };
        let part = if b > a { (level as f64 - a) / (b - a) } else { 0.0 };
        (low + (high - low) * part) * weight(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(ms: f64) -> LevelTimes {
        let t = Times { min_ms: ms, median_ms: ms, cpu_ms: ms };
        LevelTimes { relinearise_rescale: t, rotate: t, hoisted_rotate: t, product: t, plain_product: t, rescale: t }
    }

    #[test]
    fn times_between_levels_are_by_transforms_and_primes() {
        let chain = Chain::ideal(1 << 14, 40, 6, 2);
        let levels = [(1, flat(2.0)), (3, flat(4.0)), (5, flat(6.0))].into_iter().collect();
        let probe = Probe { chain, levels };
        let seconds = |level| probe.seconds(Operation::Product, level);
        // A millisecond for each prime, at the levels that were measured and between them.
        for level in 1..=5 {
            assert!((seconds(level) - 1e-3 * (level as f64 + 1.0)).abs() < 1e-12, "{level}");
        }
        assert!(seconds(6).is_nan() && seconds(0).is_nan());
        let turned = |level| probe.seconds(Operation::Rotation, level);
        assert!((turned(3) - 4e-3).abs() < 1e-12 && turned(4) > turned(3) && turned(2) < turned(3));
    }
}
