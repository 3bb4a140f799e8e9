//! The back end that computes on ciphertexts.
//!
//! Threads: [`Backend::each`] gives every thread whole operations, each on one thread. A key switch on two
//! threads shares its digits and waits for the slower half; two key switches side by side do not. A single
//! operation outside of `each` uses all threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fesc_ckks::server::Evaluator;
use fesc_ckks::{Ciphertext, Encoder, PeriodicPlaintext, Plaintext, Tensor};
use num_complex::Complex64;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Backend, Chain, Operation, Operations, Term, Weights, check_above, check_level, check_period};
use crate::{HybridError, Result};

/// A ciphertext of this back end.
pub type CkksCt = Ciphertext;
/// A sum of products of this back end.
pub type CkksSum = Tensor;

/// Computes with one client's evaluation keys.
pub struct Ckks {
    evaluator: Evaluator,
    encoder: Encoder,
    chain: Chain,
    operations: Operations,
    /// One thread each.
    workers: Vec<ThreadPool>,
    /// Powers of `X` by power and level, as they were first asked for.
    monomials: Mutex<Monomials>,
}

type Monomials = BTreeMap<(i64, usize), Arc<Plaintext>>;

impl Ckks {
    /// With these keys and so many threads.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn new(evaluator: Evaluator, threads: usize) -> Result<Self> {
        let one = || ThreadPoolBuilder::new().num_threads(1).build().map_err(|e| HybridError::Threads(e.to_string()));
        let workers = (0..threads.max(1)).map(|_| one()).collect::<Result<_>>()?;
        let (encoder, chain) = (Encoder::new(evaluator.params()), Chain::of(evaluator.params()));
        let (operations, monomials) = (Operations::default(), Mutex::default());
        Ok(Self { evaluator, encoder, chain, operations, workers, monomials })
    }

    /// The evaluator.
    pub fn evaluator(&self) -> &Evaluator {
        &self.evaluator
    }

    /// The encoder.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }
}

impl Backend for Ckks {
    type Ct = CkksCt;
    type Sum = CkksSum;
    type Pt = PeriodicPlaintext;

    fn chain(&self) -> &Chain {
        &self.chain
    }

    fn operations(&self) -> &Operations {
        &self.operations
    }

    fn level(&self, c: &Ciphertext) -> usize {
        c.level()
    }

    fn encode(&self, values: &[Complex64], level: usize) -> Result<PeriodicPlaintext> {
        Ok(self.encoder.encode_periodic(values, level, self.chain.scale(level))?)
    }

    fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        Ok(self.evaluator.add(a, b)?)
    }

    fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        Ok(self.evaluator.sub(a, b)?)
    }

    fn add_values(&self, a: &Ciphertext, values: &[Complex64]) -> Result<Ciphertext> {
        check_period(values.len(), self.chain.slots())?;
        let slots: Vec<Complex64> = values.iter().copied().cycle().take(self.chain.slots()).collect();
        let plain = self.encoder.encode(&slots, a.level(), a.scale())?;
        Ok(self.evaluator.add_plain(a, &plain)?)
    }

    fn times_i(&self, a: &Ciphertext) -> Result<Ciphertext> {
        Ok(self.evaluator.multiply_by_i(a)?)
    }

    fn times_monomial(&self, a: &Ciphertext, power: i64) -> Result<Ciphertext> {
        self.operations.write(Operation::PlainProduct, a.level(), 1);
        Ok(self.evaluator.multiply_plain(a, &*self.monomial(power, a.level())?)?)
    }

    fn halve(&self, a: &Ciphertext) -> Result<Ciphertext> {
        Ok(self.evaluator.multiply_constant(a, Complex64::new(0.5, 0.0), 2.0)?)
    }

    fn lower(&self, c: &Ciphertext, level: usize) -> Result<Ciphertext> {
        check_above("lowering", level, c.level())?;
        if c.level() > level {
            self.operations.write(Operation::Rescale, level + 1, 1);
        }
        Ok(self.evaluator.lower(c, level, self.chain.scale(level))?)
    }

    fn multiply_plain(&self, c: &Ciphertext, w: &PeriodicPlaintext) -> Result<Ciphertext> {
        check_level("a product by a plaintext", w.level(), c.level())?;
        self.operations.write(Operation::PlainProduct, c.level(), 1);
        Ok(self.evaluator.multiply_periodic(c, w)?)
    }

    fn rescale(&self, c: &Ciphertext) -> Result<Ciphertext> {
        self.operations.write(Operation::Rescale, c.level(), 1);
        Ok(self.evaluator.rescale(c)?)
    }

    fn empty_sum(&self, level: usize) -> Result<Tensor> {
        check_above("a product", 1, level)?;
        Ok(self.evaluator.empty_sum(level, self.chain.scale(level).powi(2))?)
    }

    fn extend(&self, sum: &mut Tensor, terms: &[Term<'_, Self>]) -> Result<()> {
        let sorted = self.sort(sum.level(), terms)?;
        self.evaluator.add_products(sum, &sorted.products)?;
        self.evaluator.add_plain_products(sum, &sorted.plain)?;
        sorted.addends.iter().try_for_each(|c| self.evaluator.add_scaled(sum, c))?;
        Ok(())
    }

    fn extend_many(&self, sums: &mut [Tensor], factors: &[&Ciphertext], weights: &Weights<Self>) -> Result<()> {
        let Some(level) = sums.first().map(Tensor::level) else { return Ok(()) };
        factors.iter().try_for_each(|c| check_level("a product by a plaintext", level, c.level()))?;
        let count = weights.iter().map(|w| w.len() as u64).sum();
        self.operations.write(Operation::PlainProduct, level, count);
        Ok(self.evaluator.add_plain_matrix(sums, factors, weights)?)
    }

    fn finish(&self, sum: Tensor) -> Result<Ciphertext> {
        let kind = if sum.has_square() { Operation::Relinearisation } else { Operation::Rescale };
        self.operations.write(kind, sum.level(), 1);
        Ok(self.evaluator.finish_sum(&sum)?)
    }

    fn combine(&self, level: usize, terms: &[Term<'_, Self>]) -> Result<Ciphertext> {
        check_above("a product", 1, level)?;
        let sorted = self.sort(level, terms)?;
        let kind = if sorted.products.is_empty() { Operation::Rescale } else { Operation::Relinearisation };
        self.operations.write(kind, level, 1);
        Ok(self.evaluator.product_sum(level, &sorted.products, &sorted.plain, &sorted.addends)?)
    }

    fn rotate(&self, c: &Ciphertext, step: i64) -> Result<Ciphertext> {
        self.operations.rotations(self.chain.slots(), c.level(), &[step]);
        Ok(self.evaluator.rotate(c, step)?)
    }

    fn rotate_many(&self, c: &Ciphertext, steps: &[i64]) -> Result<Vec<Ciphertext>> {
        self.operations.rotations(self.chain.slots(), c.level(), steps);
        Ok(self.evaluator.rotate_many(c, steps)?)
    }

    fn conjugate(&self, c: &Ciphertext) -> Result<Ciphertext> {
        self.operations.write(Operation::Conjugation, c.level(), 1);
        Ok(self.evaluator.conjugate(c)?)
    }

    fn each<T: Send>(&self, count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
        // Inside of another `each`, or where one thread was asked for.
        if rayon::current_num_threads() == 1 || self.workers.len() == 1 && rayon::current_thread_index().is_some() {
            return (0..count).map(work).collect();
        }
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let done: Mutex<Vec<(usize, Result<T>)>> = Mutex::new(Vec::with_capacity(count));
        std::thread::scope(|scope| {
            for pool in self.workers.iter().take(count) {
                scope.spawn(|| {
                    pool.install(|| {
                        while !failed.load(Ordering::Relaxed) {
                            let i = next.fetch_add(1, Ordering::Relaxed);
                            if i >= count {
                                break;
                            }
                            let result = work(i);
                            failed.fetch_or(result.is_err(), Ordering::Relaxed);
                            done.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
                        }
                    });
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(i, _)| *i);
        done.into_iter().map(|(_, result)| result).collect()
    }
}

/// Terms by kind, as the evaluator takes them.
struct Sorted<'a> {
    products: Vec<(&'a Ciphertext, &'a Ciphertext)>,
    plain: Vec<(&'a Ciphertext, &'a PeriodicPlaintext)>,
    addends: Vec<&'a Ciphertext>,
}

impl Ckks {
    /// `X^power` as a plaintext at scale 1.
    fn monomial(&self, power: i64, level: usize) -> Result<Arc<Plaintext>> {
        let known = || self.monomials.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(&(power, level)) {
            return Ok(found.clone());
        }
        // X^N = -1.
        let degree = 2 * self.chain.slots();
        let at = power.rem_euclid(2 * degree as i64) as usize;
        let mut coefficients = vec![0i64; degree];
        coefficients[at % degree] = if at < degree { 1 } else { -1 };
        let made = Arc::new(self.encoder.encode_coefficients(&coefficients, level, 1.0)?);
        known().insert((power, level), made.clone());
        Ok(made)
    }

    /// Checks levels and writes products down.
    fn sort<'a>(&self, level: usize, terms: &[Term<'a, Self>]) -> Result<Sorted<'a>> {
        let mut sorted = Sorted { products: Vec::new(), plain: Vec::new(), addends: Vec::new() };
        for term in terms {
            match *term {
                Term::Product(a, b) => {
                    check_level("a product", level, a.level())?;
                    check_level("a product", level, b.level())?;
                    sorted.products.push((a, b));
                }
                Term::Plain(a, p) => {
                    check_level("a product by a plaintext", level, a.level())?;
                    sorted.plain.push((a, p));
                }
                Term::Addend(a) => {
                    check_above("an addend", level, a.level())?;
                    sorted.addends.push(a);
                }
            }
        }
        self.operations.write(Operation::Product, level, sorted.products.len() as u64);
        self.operations.write(Operation::PlainProduct, level, sorted.plain.len() as u64);
        Ok(sorted)
    }
}
