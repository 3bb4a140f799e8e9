//! A back end that counts the values of plaintexts that are alive.

use std::sync::Arc;

use num_complex::Complex64;

use crate::Result;
use crate::backend::{Backend, Chain, Live, LiveCounts, Operations, Plain, PlainCt, PlainSum, Term};

pub(super) struct Counting {
    pub inner: Plain,
    pub words: Arc<LiveCounts>,
}

impl Counting {
    pub fn new(inner: Plain) -> Self {
        Self { inner, words: Arc::default() }
    }
}

impl Backend for Counting {
    type Ct = PlainCt;
    type Sum = PlainSum;
    type Pt = (<Plain as Backend>::Pt, Live);

    fn chain(&self) -> &Chain {
        self.inner.chain()
    }

    fn operations(&self) -> &Operations {
        self.inner.operations()
    }

    fn level(&self, c: &PlainCt) -> usize {
        self.inner.level(c)
    }

    fn encode(&self, values: &[Complex64], level: usize) -> Result<Self::Pt> {
        Ok((self.inner.encode(values, level)?, Live::new(&self.words, level, values.len() as u64)))
    }

    fn add(&self, a: &PlainCt, b: &PlainCt) -> Result<PlainCt> {
        self.inner.add(a, b)
    }

    fn sub(&self, a: &PlainCt, b: &PlainCt) -> Result<PlainCt> {
        self.inner.sub(a, b)
    }

    fn add_values(&self, a: &PlainCt, values: &[Complex64]) -> Result<PlainCt> {
        self.inner.add_values(a, values)
    }

    fn times_i(&self, a: &PlainCt) -> Result<PlainCt> {
        self.inner.times_i(a)
    }

    fn times_monomial(&self, a: &PlainCt, power: i64) -> Result<PlainCt> {
        self.inner.times_monomial(a, power)
    }

    fn halve(&self, a: &PlainCt) -> Result<PlainCt> {
        self.inner.halve(a)
    }

    fn lower(&self, c: &PlainCt, level: usize) -> Result<PlainCt> {
        self.inner.lower(c, level)
    }

    fn multiply_plain(&self, c: &PlainCt, (values, _): &Self::Pt) -> Result<PlainCt> {
        self.inner.multiply_plain(c, values)
    }

    fn rescale(&self, c: &PlainCt) -> Result<PlainCt> {
        self.inner.rescale(c)
    }

    fn empty_sum(&self, level: usize) -> Result<PlainSum> {
        self.inner.empty_sum(level)
    }

    fn extend(&self, sum: &mut PlainSum, terms: &[Term<'_, Self>]) -> Result<()> {
        let inner = |term: &Term<'_, Self>| match *term {
            Term::Product(a, b) => self.inner.extend(sum, &[Term::Product(a, b)]),
            Term::Plain(a, (values, _)) => self.inner.extend(sum, &[Term::Plain(a, values)]),
            Term::Addend(a) => self.inner.extend(sum, &[Term::Addend(a)]),
        };
        terms.iter().try_for_each(inner)
    }

    fn finish(&self, sum: PlainSum) -> Result<PlainCt> {
        self.inner.finish(sum)
    }

    fn rotate(&self, c: &PlainCt, step: i64) -> Result<PlainCt> {
        self.inner.rotate(c, step)
    }

    fn rotate_many(&self, c: &PlainCt, steps: &[i64]) -> Result<Vec<PlainCt>> {
        self.inner.rotate_many(c, steps)
    }

    fn conjugate(&self, c: &PlainCt) -> Result<PlainCt> {
        self.inner.conjugate(c)
    }
}
