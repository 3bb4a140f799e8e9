//! A polynomial over several primes: limb-major words, every residue reduced.
//!
//! At rest all polynomials are transformed (`fesc_ring::ntt` order); coefficients exist inside operations
//! only.

use std::ops::{Deref, DerefMut};

use fesc_ring::aligned::Aligned;
use fesc_ring::pool::Pooled;
use rayon::prelude::*;
use zeroize::Zeroize;

use crate::Params;

/// Where the words are: in memory of their own (keys, secrets) or in a buffer of the set's pool (everything
/// short-lived).
#[derive(Clone)]
enum Words {
    Owned(Aligned<u64>),
    Pooled(Pooled),
}

impl Deref for Words {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            Words::Owned(w) => w,
            Words::Pooled(w) => w,
        }
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u64] {
        match self {
            Words::Owned(w) => w,
            Words::Pooled(w) => w,
        }
    }
}

/// `limbs` rows of `N` words.
#[derive(Clone)]
pub(crate) struct Poly {
    words: Words,
    degree: usize,
}

impl Poly {
    /// From the pool, with whatever its last user left: for results that are written as a whole.
    pub(crate) fn scratch(params: &Params, limbs: usize) -> Self {
        Self { words: Words::Pooled(params.pool().take(limbs * params.degree())), degree: params.degree() }
    }

    /// From the pool, all zero.
    pub(crate) fn zero(params: &Params, limbs: usize) -> Self {
        Self { words: Words::Pooled(params.pool().take_zeroed(limbs * params.degree())), degree: params.degree() }
    }

    /// In memory of its own, all zero: for keys, which live long, and for secrets.
    pub(crate) fn owned(params: &Params, limbs: usize) -> Self {
        Self { words: Words::Owned(Aligned::zeroed(limbs * params.degree())), degree: params.degree() }
    }

    /// Overwrites all words with zeros that the compiler may not leave out.
    pub(crate) fn wipe(&mut self) {
        self.words.zeroize();
    }

    /// Number of limbs.
    pub(crate) fn len(&self) -> usize {
        self.words.len() / self.degree
    }

    /// Limb `i`.
    pub(crate) fn limb(&self, i: usize) -> &[u64] {
        &self.words[i * self.degree..(i + 1) * self.degree]
    }

    /// Limb `i`, to be changed.
    pub(crate) fn limb_mut(&mut self, i: usize) -> &mut [u64] {
        &mut self.words[i * self.degree..(i + 1) * self.degree]
    }

    /// All limbs in order.
    pub(crate) fn limbs(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        self.words.chunks_exact(self.degree)
    }

    /// All words, limb after limb.
    #[cfg(test)]
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// All words, limb after limb, to be changed.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Runs `work` on every limb, in parallel when there is more than one thread. The result does not depend
    /// on that.
    pub(crate) fn for_each_limb(&mut self, work: impl Fn(usize, &mut [u64]) + Sync + Send) {
        let degree = self.degree;
        if rayon::current_num_threads() > 1 {
            self.words.par_chunks_exact_mut(degree).enumerate().for_each(|(i, limb)| work(i, limb));
        } else {
            self.words.chunks_exact_mut(degree).enumerate().for_each(|(i, limb)| work(i, limb));
        }
    }

    /// [`Poly::for_each_limb`] over two polynomials of equal length.
    pub(crate) fn for_each_limb_of_two(
        a: &mut Self,
        b: &mut Self,
        work: impl Fn(usize, &mut [u64], &mut [u64]) + Sync + Send,
    ) {
        let degree = a.degree;
        if rayon::current_num_threads() > 1 {
            let pairs = a.words.par_chunks_exact_mut(degree).zip(b.words.par_chunks_exact_mut(degree));
            pairs.enumerate().for_each(|(i, (x, y))| work(i, x, y));
        } else {
            let pairs = a.words.chunks_exact_mut(degree).zip(b.words.chunks_exact_mut(degree));
            pairs.enumerate().for_each(|(i, (x, y))| work(i, x, y));
        }
    }
}

/// A limb of scratch space for secrets: from the pool, wiped before it goes back.
pub(crate) struct SecretLimb(Pooled);

impl SecretLimb {
    /// With whatever its last user left.
    pub(crate) fn take(params: &Params) -> Self {
        Self(params.pool().take(params.degree()))
    }
}

impl Deref for SecretLimb {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0
    }
}

impl DerefMut for SecretLimb {
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }
}

impl Drop for SecretLimb {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
