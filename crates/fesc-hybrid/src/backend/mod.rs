//! The operations that circuits are written in, and what can execute them.
//!
//! A kernel (a scan, a projection) is one generic function over a [`Backend`]:
//!
//! | back end | a ciphertext is | for |
//! |---|---|---|
//! | [`Count`] | its level | operations by level, live ciphertexts, keys that are needed |
//! | [`Plain`] | complex slots, level, scale, noise | every map, schedule and shape in tests |
//! | [`Ckks`] | a ciphertext | the real thing |
//!
//! # Scales
//! Every ciphertext at level `l` has the canonical scale `S_l` of its [`Chain`]. With
//! `S_(l-1) = S_l^2 / q_l` a product of two canonical factors at level `l`, rescaled, is canonical at
//! `l - 1`, so that sums never meet two scales. A value that skips levels is brought there by
//! [`Backend::lower`], which costs a rescaling. [`Term::Addend`] adds a ciphertext of any scale to a sum of
//! products, multiplied by the integer nearest to the ratio of the scales (`2^40`: a relative error of
//! `2^-41`).
//!
//! # Cost
//! A [`Backend::combine`] has one key switch if one of its terms is a product of ciphertexts, else none. All
//! back ends write what they do to [`Operations`].

mod chain;
mod ckks;
mod count;
mod live;
mod operations;
mod plain;
#[cfg(test)]
mod tests;

use num_complex::Complex64;

pub use chain::Chain;
pub use ckks::{Ckks, CkksCt, CkksSum};
pub use count::{Count, CountCt, CountSum};
pub use live::{Live, LiveCounts};
pub use operations::{Operation, Operations, Tally};
pub(crate) use plain::monomial;
pub use plain::{Plain, PlainCt, PlainSum};

use crate::{HybridError, Result};

/// A part of a sum of products.
pub enum Term<'a, B: Backend + ?Sized> {
    /// Both are ciphertexts: the sum must be relinearised.
    Product(&'a B::Ct, &'a B::Ct),
    /// A known factor.
    Plain(&'a B::Ct, &'a B::Pt),
    /// A ciphertext itself, brought to the scale of the products.
    Addend(&'a B::Ct),
}

/// A ciphertext or a plaintext, where a circuit takes either.
pub enum Operand<B: Backend + ?Sized> {
    /// Encrypted.
    Ct(B::Ct),
    /// Known to whoever computes.
    Pt(B::Pt),
}

impl<B: Backend + ?Sized> Operand<B> {
    /// The product of a ciphertext and this.
    pub fn times<'a>(&'a self, c: &'a B::Ct) -> Term<'a, B> {
        match self {
            Self::Ct(own) => Term::Product(c, own),
            Self::Pt(own) => Term::Plain(c, own),
        }
    }
}

/// For each of several sums: places of factors and what they are multiplied by.
pub type Weights<B> = [Vec<(usize, <B as Backend>::Pt)>];

/// What executes a circuit.
pub trait Backend: Sync {
    /// A ciphertext. Cloning may be a copy of megabytes.
    type Ct: Clone + Send + Sync;
    /// A sum of products that has not been relinearised.
    type Sum: Send + Sync;
    /// An encoded vector.
    type Pt: Send + Sync;

    /// Levels, scales and sizes.
    fn chain(&self) -> &Chain;

    /// What was done so far.
    fn operations(&self) -> &Operations;

    /// The level of a ciphertext.
    fn level(&self, c: &Self::Ct) -> usize;

    /// Encodes slots for a product at `level`. Fewer values than slots, a power of two, are repeated.
    ///
    /// # Errors
    /// If they cannot be encoded.
    fn encode(&self, values: &[Complex64], level: usize) -> Result<Self::Pt>;

    /// Encodes `period` slots, a power of two, that are repeated. A back end that does not look at values
    /// does not ask for them.
    ///
    /// # Errors
    /// If they cannot be encoded.
    fn encode_by(&self, period: usize, value: impl Fn(usize) -> Complex64, level: usize) -> Result<Self::Pt> {
        self.encode(&(0..period).map(value).collect::<Vec<_>>(), level)
    }

    /// `a + b`, at one level.
    ///
    /// # Errors
    /// If levels or scales differ.
    fn add(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct>;

    /// `a - b`, at one level.
    ///
    /// # Errors
    /// If levels or scales differ.
    fn sub(&self, a: &Self::Ct, b: &Self::Ct) -> Result<Self::Ct>;

    /// `a` plus known values. Fewer values than slots, a power of two, are repeated.
    ///
    /// # Errors
    /// If they cannot be encoded.
    fn add_values(&self, a: &Self::Ct, values: &[Complex64]) -> Result<Self::Ct>;

    /// `a` times `i`. No level, no key.
    ///
    /// # Errors
    /// If the scheme refuses it.
    fn times_i(&self, a: &Self::Ct) -> Result<Self::Ct>;

    /// `a` times `X^power`: slot `j` times `zeta^(5^j power)`, `zeta = exp(i pi / N)`. Exact. No level, no
    /// key; a product by a plaintext.
    ///
    /// # Errors
    /// If the scheme refuses it.
    fn times_monomial(&self, a: &Self::Ct, power: i64) -> Result<Self::Ct>;

    /// Half of `a`, by another scale. No product takes it, unless that scale is the canonical one.
    ///
    /// # Errors
    /// If the scheme refuses it.
    fn halve(&self, a: &Self::Ct) -> Result<Self::Ct>;

    /// The same value at a lower level and its canonical scale. A rescaling, unless it is there already.
    ///
    /// # Errors
    /// If `c` is below `level`.
    fn lower(&self, c: &Self::Ct, level: usize) -> Result<Self::Ct>;

    /// `c` times a plaintext, not rescaled: at the same level, its scale the product of both. Sums, rotations
    /// and [`Backend::rescale`] take it, no product does. What rotations add to it vanishes in the rescaling,
    /// so that a value that is copied to many slots has the error of one.
    ///
    /// # Errors
    /// If a level does not fit.
    fn multiply_plain(&self, c: &Self::Ct, w: &Self::Pt) -> Result<Self::Ct>;

    /// Divided by the last prime of its level: at the level below.
    ///
    /// # Errors
    /// At level 0.
    fn rescale(&self, c: &Self::Ct) -> Result<Self::Ct>;

    /// A sum of products at `level` without terms.
    ///
    /// # Errors
    /// At level 0, whose products cannot be rescaled.
    fn empty_sum(&self, level: usize) -> Result<Self::Sum>;

    /// Adds terms. Factors must be at the level of the sum, addends at that level or above.
    ///
    /// # Errors
    /// If a level or scale does not fit.
    fn extend(&self, sum: &mut Self::Sum, terms: &[Term<'_, Self>]) -> Result<()>;

    /// Adds products of shared factors by plaintexts to several sums at one level: to sum `j` the products
    /// `factors[i] w` for all `(i, w)` in `weights[j]`. A back end may read a factor once for all sums.
    ///
    /// # Errors
    /// As [`Backend::extend`].
    fn extend_many(&self, sums: &mut [Self::Sum], factors: &[&Self::Ct], weights: &Weights<Self>) -> Result<()> {
        for (sum, weights) in sums.iter_mut().zip(weights) {
            let terms: Vec<_> = weights.iter().map(|(i, w)| Term::Plain(factors[*i], w)).collect();
            self.extend(sum, &terms)?;
        }
        Ok(())
    }

    /// Relinearised if it must be, and rescaled: at the level below.
    ///
    /// # Errors
    /// If a key is missing.
    fn finish(&self, sum: Self::Sum) -> Result<Self::Ct>;

    /// The sum of all terms at `level`, relinearised if it must be, and rescaled: at the level below.
    ///
    /// # Errors
    /// As the steps it is made of.
    fn combine(&self, level: usize, terms: &[Term<'_, Self>]) -> Result<Self::Ct> {
        let mut sum = self.empty_sum(level)?;
        self.extend(&mut sum, terms)?;
        self.finish(sum)
    }

    /// Slots moved to the left by `step`.
    ///
    /// # Errors
    /// If the key is missing.
    fn rotate(&self, c: &Self::Ct, step: i64) -> Result<Self::Ct>;

    /// Several rotations of one ciphertext, which share a part of their work.
    ///
    /// # Errors
    /// If a key is missing.
    fn rotate_many(&self, c: &Self::Ct, steps: &[i64]) -> Result<Vec<Self::Ct>>;

    /// Conjugated slots.
    ///
    /// # Errors
    /// If the key is missing.
    fn conjugate(&self, c: &Self::Ct) -> Result<Self::Ct>;

    /// `work` for all numbers below `count`, in any order, by as many threads as there are; one operation
    /// runs on one thread. Results in order. Inside of `work` it runs in sequence.
    ///
    /// # Errors
    /// The first error.
    fn each<T: Send>(&self, count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
        (0..count).map(work).collect()
    }

    /// `work` for all numbers below `count`, in order, whose operations are all the same: a back end that
    /// only counts does one of them.
    ///
    /// # Errors
    /// The first error.
    fn alike<T: Clone>(&self, count: usize, work: impl Fn(usize) -> Result<T>) -> Result<Vec<T>> {
        (0..count).map(work).collect()
    }

    /// [`Backend::each`] for work whose operations are all the same, as in [`Backend::alike`].
    ///
    /// # Errors
    /// The first error.
    fn each_alike<T: Clone + Send>(&self, count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
        self.each(count, work)
    }

    /// Runs `work` and writes what it does to a part of the ledger with this name, where operations are
    /// counted by part (no other thread may work meanwhile).
    fn part<T>(&self, _name: &'static str, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// The number of slots.
    fn slots(&self) -> usize {
        self.chain().slots()
    }

    /// The sum over an axis of the slots: `count` (a power of two) places `stride` apart, by rotations and
    /// additions. Every place of a cyclic axis has the whole sum afterwards.
    ///
    /// # Errors
    /// If a key is missing.
    fn fold(&self, c: Self::Ct, stride: usize, count: usize) -> Result<Self::Ct> {
        let steps: Vec<i64> = (0..count.ilog2()).rev().map(|k| (stride << k) as i64).collect();
        self.fold_by(c, &steps)
    }

    /// Adds to `c` what a rotation of it brings, for each step in turn.
    ///
    /// # Errors
    /// If a key is missing.
    fn fold_by(&self, c: Self::Ct, steps: &[i64]) -> Result<Self::Ct> {
        steps.iter().try_fold(c, |c, &step| self.add(&c, &self.rotate(&c, step)?))
    }
}

/// Refuses a number of values that cannot be repeated over all slots.
fn check_period(values: usize, slots: usize) -> Result<()> {
    if values.is_power_of_two() && values <= slots {
        return Ok(());
    }
    let need = format!("a power of two up to {slots}");
    Err(HybridError::Shape { what: "values of a plaintext", got: values, need })
}

/// Refuses a factor that is not at the level of its product.
fn check_level(operation: &'static str, level: usize, got: usize) -> Result<()> {
    if level == got { Ok(()) } else { Err(HybridError::Level { operation, level, got }) }
}

/// Refuses an operand below a level.
fn check_above(operation: &'static str, level: usize, got: usize) -> Result<()> {
    if got >= level { Ok(()) } else { Err(HybridError::Level { operation, level, got }) }
}
