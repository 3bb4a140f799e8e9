//! The form of a norm: widths, scales and the inverse square root (docs/DESIGN.md, 6.4).

use fesc_approx::paper::nerms::{NeRms, NeRmsFixed};
use fesc_approx::rsqrt::Rsqrt;
use fesc_approx::transcript::Transcript;
use fesc_approx::{ApproxError, FixedPiecewise};
use serde::{Deserialize, Serialize};

use super::scale::{FRAC, RING};
use crate::twin::calibrate::{PAPER_VARIANCE_MARGIN, VARIANCE_MARGIN};
use crate::twin::{Span, TwinError};
use crate::{Result, plan};

/// Bits of the smallest `v` that are enough: rounding costs 2^-15 of the root.
const V_BITS: f64 = 14.0;
/// Bits that the sum of squares may be shifted to the left by; calibration stays far below.
const V_SHIFT: u32 = 32;
/// The most fractional bits of `v`.
const V_FRAC: u32 = 60;

/// One norm: `v = sum u^2 / 4^exponent + eps` at [`InverseRoot::v_frac`] bits, `n = u rsqrt(v)`.
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
    /// The inverse root.
    pub rsqrt: InverseRoot,
    /// The smallest and the largest `v` that it is right for.
    pub range: (f64, f64),
}

/// `1 / sqrt(v)` by buckets of `v` and Newton steps.
#[derive(Debug, Clone, PartialEq)]
pub enum InverseRoot {
    /// A line for each bucket.
    Lines(Rsqrt),
    /// A constant for each bucket: NeRMS.
    Constants(NeRmsFixed),
}

impl InverseRoot {
    fn new(norm: plan::Norm, root: Root) -> Result<Self, ApproxError> {
        let (v_min, octaves, v_frac) = (f64::from(root.v_log).exp2(), root.octaves, root.v_frac);
        Ok(match norm {
            plan::Norm::Buckets => Self::Lines(Rsqrt::new(RING, v_min, octaves, 1, 2, v_frac)?),
            plan::Norm::Nerms(plan::Nerms { buckets, steps }) => {
                Self::Constants(NeRms::octaves(RING, v_min, octaves, (buckets, steps), v_frac)?)
            }
        })
    }

    /// The table that it starts from.
    pub fn start(&self) -> &FixedPiecewise {
        match self {
            Self::Lines(form) => form.start(),
            Self::Constants(form) => form.start(),
        }
    }

    /// Fractional bits of `v`.
    pub fn v_frac(&self) -> u32 {
        self.start().in_frac()
    }

    /// Fractional bits of the result.
    pub fn y_frac(&self) -> u32 {
        self.start().out_frac()
    }
}

impl Transcript for InverseRoot {
    fn write(&self, out: &mut Vec<u64>) {
        match self {
            Self::Lines(form) => form.write(out),
            Self::Constants(form) => form.write(out),
        }
    }
}

/// What an outline stores of a norm: the range of `v` and its scale. All else follows from the shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Root {
    /// `log2` of the smallest `v`. A whole number: the outline is public, and more digits would tell more of
    /// the calibration documents.
    v_log: i32,
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
    pub(crate) fn choose(norm: plan::Norm, width: usize, span: Span, eps: f64) -> Self {
        let margin = match norm {
            plan::Norm::Buckets => VARIANCE_MARGIN,
            plan::Norm::Nerms(_) => PAPER_VARIANCE_MARGIN,
        };
        let (low, high) = ((span.min + eps) / margin, (span.max + eps) * margin);
        let low = low.max(eps * 0.99);
        let (_, ratio) = exponent(width);
        // Down to a power of two: the range is not smaller, and costs at most one octave more.
        let v_log = (low * ratio).log2().floor();
        let (v_min, v_max) = (v_log.exp2(), high * ratio);
        let octaves = (v_max / v_min).log2().ceil().max(1.0);
        let v_bits = (23.5 - octaves / 2.0).min(V_BITS);
        let v_frac = (v_bits - v_log).floor().clamp(0.0, V_FRAC.into()) as u32;
        Self { v_log: v_log as i32, octaves: octaves as u32, v_frac }
    }
}

impl NormForm {
    /// The form over `width` values at `square` bits. [`InverseRoot`] holds the range to what the ring has
    /// room for.
    pub(crate) fn new(norm: plan::Norm, layer: usize, width: usize, square: u32, eps: f64, root: Root) -> Result<Self> {
        let form = |source| TwinError::Form { layer, what: "rsqrt", source };
        let rsqrt = InverseRoot::new(norm, root).map_err(form)?;
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
        let low = f64::from(root.v_log).exp2();
        let range = (low, low * f64::from(root.octaves).exp2());
        Ok(Self { width, square, exponent, eps, frac: FRAC, rsqrt, range })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_covers_its_span_and_tells_powers_of_two_only() {
        for width in [96, 128, 768, 1536] {
            for (min, max) in [(1e-9, 1.0), (0.013, 0.7), (0.5, 0.5), (1.0, 900.0)] {
                let (root, (_, ratio)) =
                    (Root::choose(plan::Norm::Buckets, width, Span { min, max }, 1e-5), exponent(width));
                let low = f64::from(root.v_log).exp2();
                let smallest = ((min + 1e-5) / VARIANCE_MARGIN).max(0.99e-5) * ratio;
                assert!(low <= smallest && smallest < 2.0 * low, "{root:?} for {min}");
                assert!(low * f64::from(root.octaves).exp2() >= (max + 1e-5) * VARIANCE_MARGIN * ratio, "{root:?}");
            }
        }
        let near = |min, max| Root::choose(plan::Norm::Buckets, 128, Span { min, max }, 0.0);
        assert_eq!(near(0.6, 3.0), near(0.9, 3.9), "spans within the same powers of two look alike");
        assert_ne!(near(0.6, 3.0), near(0.4, 3.0));
    }
}
