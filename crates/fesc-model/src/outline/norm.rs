//! The form of a norm: widths, scales and the inverse square root (design 6.4, review H1 and H2).

use fesc_approx::ApproxError;
use fesc_approx::rsqrt::Rsqrt;
use serde::{Deserialize, Serialize};

use super::scale::{FRAC, RING};
use crate::Result;
use crate::twin::calibrate::VARIANCE_MARGIN;
use crate::twin::{Span, TwinError};

/// Bits of the smallest `v` that are enough: rounding costs 2^-15 of the root.
const V_BITS: f64 = 14.0;
/// Bits that the sum of squares may be shifted to the left by; calibration stays far below.
const V_SHIFT: u32 = 32;
/// The most fractional bits of `v`.
const V_FRAC: u32 = 60;

/// One norm: `v = sum u^2 / 4^exponent + eps` at [`Rsqrt::v_frac`] bits, `n = u rsqrt(v)`.
#[derive(Debug, Clone, PartialEq)]
pub struct NormForm {
    /// Values of a row, or of one group of it.
    pub width: usize,
    /// Scale of the input as it is squared.
    pub square: u32,
    /// `2^exponent` is the power of two nearest to `sqrt(width)`.
    pub exponent: u32,
    /// `norm_eps width / 4^exponent` at the scale of `v`.
    pub eps: i64,
    /// Scale of the result.
    pub frac: u32,
    /// The inverse root and its range.
    pub rsqrt: Rsqrt,
}

/// What an outline stores of a norm: the range of `v` and its scale. All else follows from the shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Root {
    /// The smallest `v`, an f64 as its bits: the tables follow from every one of them.
    v_min: u64,
    octaves: u32,
    v_frac: u32,
}

/// `log2` of the power of two nearest to `sqrt(width)`, and `width` over its square.
fn exponent(width: usize) -> (u32, f64) {
    let exponent = ((width as f64).log2() / 2.0).round() as u32;
    (exponent, width as f64 / f64::from(2 * exponent).exp2())
}

impl Root {
    /// The range of a norm over `width` values whose mean of squares lies in `span`.
    pub(crate) fn choose(width: usize, span: Span, eps: f64) -> Self {
        let (low, high) = ((span.min + eps) / VARIANCE_MARGIN, (span.max + eps) * VARIANCE_MARGIN);
        let low = low.max(eps * 0.99);
        let (_, ratio) = exponent(width);
        let (v_min, v_max) = (low * ratio, high * ratio);
        let octaves = (v_max / v_min).log2().ceil().max(1.0);
        let v_bits = (23.5 - octaves / 2.0).min(V_BITS);
        let v_frac = (v_bits - v_min.log2()).floor().clamp(0.0, V_FRAC.into()) as u32;
        Self { v_min: v_min.to_bits(), octaves: octaves as u32, v_frac }
    }
}

impl NormForm {
    /// The form over `width` values at `square` bits. [`Rsqrt::new`] holds the range to what the ring has room for.
    pub(crate) fn new(layer: usize, width: usize, square: u32, eps: f64, root: Root) -> Result<Self> {
        let form = |source| TwinError::Form { layer, what: "rsqrt", source };
        let rsqrt = Rsqrt::new(RING, f64::from_bits(root.v_min), root.octaves, 1, 2, root.v_frac).map_err(form)?;
        let (exponent, ratio) = exponent(width);
        if root.v_frac > 2 * (square + exponent) + V_SHIFT {
            let remedy = "not so much finer than the squares";
            return Err(form(ApproxError::Parameter { what: "v_frac", value: root.v_frac.into(), remedy }).into());
        }
        let eps = (eps * ratio * f64::from(root.v_frac).exp2()).round() as i64;
        let (_, high) = rsqrt.start().input_range_int();
        if eps > high {
            let remedy = "at most the largest v of the norm";
            return Err(form(ApproxError::Parameter { what: "epsilon", value: eps as f64, remedy }).into());
        }
        Ok(Self { width, square, exponent, eps, frac: FRAC, rsqrt })
    }

    /// `sqrt(width) / 2^exponent`: what the next layer's weights are multiplied by.
    pub fn ratio(&self) -> f64 {
        (self.width as f64).sqrt() / f64::from(self.exponent).exp2()
    }

    /// The numbers that the protocol depends on, without those of the root.
    pub(super) fn widths(&self) -> [u64; 5] {
        [self.width as u64, self.square.into(), self.exponent.into(), self.eps as u64, self.frac.into()]
    }
}
