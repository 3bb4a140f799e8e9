//! The back end that only counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use num_complex::Complex64;

use super::{Backend, Chain, Live, LiveCounts, Operation, Operations, Tally, Term, check_above, check_level};
use crate::{HybridError, Result};

/// Counts operations by level, live ciphertexts and the rotations that need keys; computes nothing.
pub struct Count {
    chain: Chain,
    operations: Operations,
    live: Arc<LiveCounts>,
    /// Inputs that were asked for, by level.
    inputs: Mutex<BTreeMap<usize, u64>>,
    /// Bytes that may be alive at once.
    limit: u64,
}

/// A level.
#[derive(Clone)]
pub struct CountCt {
    level: usize,
    _live: Live,
}

/// A level, and whether it must be relinearised.
pub struct CountSum {
    level: usize,
    square: bool,
    _live: Live,
}

impl Count {
    /// For this chain.
    pub fn new(chain: Chain) -> Self {
        Self {
            chain,
            operations: Operations::default(),
            live: Arc::default(),
            inputs: Mutex::default(),
            limit: u64::MAX,
        }
    }

    /// The same, which refuses to go on when more bytes than these are alive.
    #[must_use]
    pub fn within(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// Whether more bytes were alive than [`Count::within`] allows.
    pub fn exceeded(&self) -> bool {
        self.live.most_bytes() > self.limit
    }

    fn check_limit(&self) -> Result<()> {
        if !self.exceeded() {
            return Ok(());
        }
        let (got, need) = (self.live.most_bytes() as usize, format!("at most {} are allowed", self.limit));
        Err(HybridError::Shape { what: "bytes of ciphertexts at once", got, need })
    }

    /// An input at `level`. Whoever holds inputs as they came expands one each time.
    pub fn fresh(&self, level: usize) -> CountCt {
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        *inputs.entry(level).or_default() += 1;
        self.made(level)
    }

    /// How often inputs of each level were asked for.
    pub fn inputs(&self) -> BTreeMap<usize, u64> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn made(&self, level: usize) -> CountCt {
        CountCt { level, _live: Live::new(&self.live, level, self.chain.ciphertext_bytes(level)) }
    }

    /// Live ciphertexts.
    pub fn live(&self) -> &LiveCounts {
        &self.live
    }

    /// What was done in each part that the circuit named.
    pub fn parts(&self) -> BTreeMap<&'static str, Tally> {
        self.operations.parts()
    }
}

impl Backend for Count {
    type Ct = CountCt;
    type Sum = CountSum;
    type Pt = ();

    fn chain(&self) -> &Chain {
        &self.chain
    }

    fn operations(&self) -> &Operations {
        &self.operations
    }

    fn level(&self, c: &CountCt) -> usize {
        c.level
    }

    fn encode(&self, _: &[Complex64], _: usize) -> Result<()> {
        Ok(())
    }

    fn encode_by(&self, _: usize, _: impl Fn(usize) -> Complex64, _: usize) -> Result<()> {
        Ok(())
    }

    fn add(&self, a: &CountCt, b: &CountCt) -> Result<CountCt> {
        check_level("a sum", a.level, b.level)?;
        Ok(a.clone())
    }

    fn sub(&self, a: &CountCt, b: &CountCt) -> Result<CountCt> {
        self.add(a, b)
    }

    fn add_values(&self, a: &CountCt, _: &[Complex64]) -> Result<CountCt> {
        Ok(a.clone())
    }

    fn times_i(&self, a: &CountCt) -> Result<CountCt> {
        Ok(a.clone())
    }

    fn times_monomial(&self, a: &CountCt, _: i64) -> Result<CountCt> {
        self.operations.write(Operation::PlainProduct, a.level, 1);
        Ok(a.clone())
    }

    fn halve(&self, a: &CountCt) -> Result<CountCt> {
        Ok(a.clone())
    }

    fn lower(&self, c: &CountCt, level: usize) -> Result<CountCt> {
        self.check_limit()?;
        check_above("lowering", level, c.level)?;
        if c.level > level {
            self.operations.write(Operation::Rescale, level + 1, 1);
        }
        Ok(self.made(level))
    }

    fn multiply_plain(&self, c: &CountCt, (): &()) -> Result<CountCt> {
        self.operations.write(Operation::PlainProduct, c.level, 1);
        Ok(c.clone())
    }

    fn rescale(&self, c: &CountCt) -> Result<CountCt> {
        self.check_limit()?;
        check_above("rescaling", 1, c.level)?;
        self.operations.write(Operation::Rescale, c.level, 1);
        Ok(self.made(c.level - 1))
    }

    fn empty_sum(&self, level: usize) -> Result<CountSum> {
        check_above("a product", 1, level)?;
        // Three parts where a ciphertext has two.
        let bytes = self.chain.ciphertext_bytes(level) * 3 / 2;
        Ok(CountSum { level, square: false, _live: Live::new(&self.live, level, bytes) })
    }

    fn extend(&self, sum: &mut CountSum, terms: &[Term<'_, Self>]) -> Result<()> {
        for term in terms {
            match term {
                Term::Product(a, b) => {
                    check_level("a product", sum.level, a.level)?;
                    check_level("a product", sum.level, b.level)?;
                    sum.square = true;
                    self.operations.write(Operation::Product, sum.level, 1);
                }
                Term::Plain(a, ()) => {
                    check_level("a product by a plaintext", sum.level, a.level)?;
                    self.operations.write(Operation::PlainProduct, sum.level, 1);
                }
                Term::Addend(a) => check_above("an addend", sum.level, a.level)?,
            }
        }
        Ok(())
    }

    fn finish(&self, sum: CountSum) -> Result<CountCt> {
        self.check_limit()?;
        let kind = if sum.square { Operation::Relinearisation } else { Operation::Rescale };
        self.operations.write(kind, sum.level, 1);
        Ok(self.made(sum.level - 1))
    }

    fn rotate(&self, c: &CountCt, step: i64) -> Result<CountCt> {
        self.check_limit()?;
        self.operations.rotations(self.chain.slots(), c.level, &[step]);
        Ok(c.clone())
    }

    fn rotate_many(&self, c: &CountCt, steps: &[i64]) -> Result<Vec<CountCt>> {
        self.operations.rotations(self.chain.slots(), c.level, steps);
        Ok(steps.iter().map(|_| c.clone()).collect())
    }

    fn conjugate(&self, c: &CountCt) -> Result<CountCt> {
        self.operations.write(Operation::Conjugation, c.level, 1);
        Ok(c.clone())
    }

    fn alike<T: Clone>(&self, count: usize, work: impl Fn(usize) -> Result<T>) -> Result<Vec<T>> {
        if count < 2 {
            return (0..count).map(work).collect();
        }
        let (operations, live, before) = (self.operations.mark(), self.live.start(), self.inputs());
        let first = work(0)?;
        self.operations.repeat(&operations, count as u64);
        self.live.end(&live, count as u64);
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        for (level, n) in inputs.iter_mut() {
            *n += (*n - before.get(level).copied().unwrap_or(0)) * (count as u64 - 1);
        }
        Ok(vec![first; count])
    }

    fn each_alike<T: Clone + Send>(&self, count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
        self.alike(count, work)
    }

    fn part<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> T {
        self.operations.open(name);
        let result = work();
        self.operations.close();
        result
    }
}
