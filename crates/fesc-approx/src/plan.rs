//! Where the binary points are: the fixed-point plan of a piecewise form.

use crate::error::ApproxError;
use crate::fixed::{FixedPiecewise, grid};
use crate::piecewise::Piecewise;
use fesc_ring::Ring;

/// The default ring, `Z_2^48`.
pub const RING48: Ring = ring(48);

/// A ring that is known to exist when the crate is compiled.
pub(crate) const fn ring(bits: u32) -> Ring {
    match Ring::new(bits) {
        Ok(ring) => ring,
        Err(_) => unreachable!(),
    }
}

/// Ring, scales and widths of a [`FixedPiecewise`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// `Z_2^l`.
    pub ring: Ring,
    /// Fractional bits of the input.
    pub in_frac: u32,
    /// Fractional bits of the output.
    pub out_frac: u32,
    /// Fractional bits `S` of the accumulated sum.
    pub sum_frac: u32,
    /// `s`: bits dropped before the comparison.
    pub cmp_shift: u32,
    /// `n`: width of the comparison ring.
    pub cmp_bits: u32,
}

impl Plan {
    /// The unit of the comparison ring as a real number, `2^(s - in_frac)`.
    pub fn unit(&self) -> f64 {
        (f64::from(self.cmp_shift) - f64::from(self.in_frac)).exp2()
    }

    /// One unit of the coefficients of `1, x, x^2`.
    pub fn grids(&self) -> [f64; 3] {
        [0, 1, 2].map(|j| grid(self.in_frac, self.sum_frac, j))
    }

    /// The integer form of `form` under this plan.
    ///
    /// # Errors
    /// As [`FixedPiecewise::new`].
    pub fn build(&self, form: &Piecewise) -> Result<FixedPiecewise, ApproxError> {
        FixedPiecewise::with_plan(form, self, None)
    }
}

/// A fit: the real form, its weighted error before truncation, its integer form.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The real form; knots are the centres of the zones that the comparison leaves to chance.
    pub form: Piecewise,
    /// The error that the fit was held to under its own weight, jitter of the comparison included, final
    /// truncation not: the largest one or a bound close above it (for softplus and exp the target).
    pub error: f64,
    /// The integer form.
    pub fixed: FixedPiecewise,
}
