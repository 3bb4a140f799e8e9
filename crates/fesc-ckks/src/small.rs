//! Small secret polynomials: the secret key, and the noise of encryptions. Wiped on drop.

use fesc_ring::{Prg, sample};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::Params;

/// `N` small signed coefficients. No `Debug`, no `Clone`.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Small(Vec<i64>);

impl Small {
    /// Uniform over -1, 0, 1.
    pub(crate) fn ternary(params: &Params, prg: &mut Prg) -> Self {
        let mut out = vec![0; params.degree()];
        sample::ternary(prg, &mut out);
        Self(out)
    }

    /// Discrete Gaussian with deviation 3.2.
    pub(crate) fn gaussian(params: &Params, prg: &mut Prg) -> Self {
        let mut out = vec![0; params.degree()];
        sample::gaussian(prg, &mut out);
        Self(out)
    }

    /// The image under `X -> X^element`, `element` odd.
    pub(crate) fn automorphism(&self, element: u32) -> Self {
        let degree = self.0.len();
        let mut out = vec![0; degree];
        let mut at = 0;
        for &x in &self.0 {
            // X^N = -1: an exponent in the upper half of the order changes the sign.
            out[at % degree] = if at < degree { x } else { -x };
            at = (at + element as usize) % (2 * degree);
        }
        Self(out)
    }

    /// Residues modulo prime `i`, transformed.
    pub(crate) fn lift(&self, params: &Params, i: usize, limb: &mut [u64]) {
        params.prime(i).reduce_signed(&self.0, limb);
        params.ntt(i).forward(limb);
    }

    /// Of these coefficients.
    pub(crate) fn from_coefficients(params: &Params, coefficient: impl Fn(usize) -> i64) -> Self {
        // In memory of its final size: a vector that grows leaves copies behind.
        let mut out = vec![0; params.degree()];
        out.iter_mut().enumerate().for_each(|(i, c)| *c = coefficient(i));
        Self(out)
    }

    pub(crate) fn coefficients(&self) -> &[i64] {
        &self.0
    }
}
