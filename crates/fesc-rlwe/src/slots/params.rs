//! Degree and primes, checked once.

use std::ops::Range;
use std::sync::Arc;

use fesc_ring::sample::gaussian::SIGMA;

use super::basis::{Basis, KEPT, LIMBS, PLAIN};
use crate::{Result, params};

/// Bytes of a seed on the wire.
pub(super) const SEED: usize = 16;

/// A checked set: cheap to clone, the tables are shared.
#[derive(Clone)]
pub struct SlotParams {
    basis: Arc<Basis>,
}

impl SlotParams {
    /// `N = 16384`, three plaintext primes of 48 bits, two kept ones of 29, three dropped ones of 49:
    /// `log2 q = 349` of at most 430.
    ///
    /// Chosen for the fewest bytes at which a whole inference meets no wrong answer but once in `2^22`
    /// (module docs).
    ///
    /// # Errors
    /// None with these constants.
    pub fn standard() -> Result<Self> {
        Self::new(16384, 48, 29, 49)
    }

    /// A set with the largest primes of the given bits: three of the plaintext, two that a response keeps,
    /// three that it drops.
    ///
    /// # Errors
    /// [`crate::RlweError::Weak`] if `q` is too large for the degree, [`crate::RlweError::Slots`] for sizes
    /// that the conversions do not take.
    pub fn new(degree: usize, plain: u32, kept: u32, dropped: u32) -> Result<Self> {
        params::check(degree, 3 * plain + 2 * kept + 3 * dropped)?;
        Ok(Self { basis: Arc::new(Basis::new(degree, plain, kept, dropped)?) })
    }

    pub(super) fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Slots of a ciphertext: the degree.
    pub fn slots(&self) -> usize {
        self.basis.degree()
    }

    /// `log2 q`, rounded up.
    pub fn log_q(&self) -> u32 {
        self.basis.bits(LIMBS)
    }

    /// Bytes of an upload, and of a public key.
    pub fn upload_bytes(&self) -> usize {
        SEED + self.basis.bits(LIMBS) as usize * self.slots() / 8
    }

    /// Bytes of a response.
    pub fn response_bytes(&self) -> usize {
        SEED + self.basis.bits(KEPT) as usize * self.slots() / 8
    }

    /// `log2 t`, rounded down: sums of products must stay far below `t` in magnitude (module docs).
    pub fn log_t(&self) -> u32 {
        self.basis.bits(PLAIN) - 1
    }

    fn product(&self, range: Range<usize>) -> f64 {
        self.basis.limbs[range].iter().map(|l| l.modulus.value() as f64).product()
    }

    /// Standard deviation of the noise of a response's phase (modulo `q'`), for a sum of `terms` products
    /// with multipliers on runs of `run` slots.
    pub fn noise(&self, terms: usize, run: usize) -> f64 {
        let n = self.slots() as f64;
        let (t, dropped) = (self.product(0..PLAIN), self.product(KEPT..LIMBS));
        let operands = terms as f64 * (n / run as f64) * (t / 2.0).powi(2);
        let before = SIGMA * (operands + 4.0 * n / 3.0 + 1.0).sqrt();
        ((before / dropped).powi(2) + (1.0 + 2.0 * n / 3.0) / 12.0).sqrt()
    }

    /// Expected number of failures of a response for a sum of `terms` products of uniform 48-bit operands,
    /// with multipliers on runs of `run` slots: one that makes all slots wrong (noise), and wrong slots
    /// (lift). Module docs have the argument.
    pub fn failure(&self, terms: usize, run: usize) -> (f64, f64) {
        // The mean magnitude of a Gaussian of deviation 1.
        let mean = (2.0 / std::f64::consts::PI).sqrt();
        let noise = mean * self.noise(terms, run) / self.product(PLAIN..KEPT);
        let lift = mean * (terms as f64).sqrt() * 2f64.powi(94) / 3.0 / self.product(0..PLAIN);
        (noise * self.slots() as f64, lift * self.slots() as f64)
    }
}
