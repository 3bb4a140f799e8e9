//! The scan under CKKS as a kernel on shares: the packet goes up, HEScan runs at the server, y comes down.
//!
//! 1. `a = exp(sum z)` for every product of decays that the kernel names (for most kernels one for each token
//!    and head), by the plan's exp, then clamped to `[0, 1]` *exactly*: the bound on the results rests on it,
//!    whatever document the client chose.
//! 2. `u = Delta x` and `D x` from one bundle: x is opened once. D is the server's.
//! 3. u, a, B and C to ciphertexts, each with as many bits as its calibrated range has; the kernel; results
//!    to shares ([`fesc_hybrid::circuit`]).
//! 4. `y = m + D x`, values that lie in several slots added up.
//!
//! A long document goes in parts ([`Refreshed`]): a kernel of the paper's packing takes a state as one more
//! tensor and gives one as more results, on shares at s.state in between.
//!
//! # The bound
//! With what the conversion can carry whatever is shared, `|x| <= X` and `|B|, |C| <= Y`
//! ([`ToCiphertexts::largest`], three times the calibrated ranges), and decays in `[0, 1]`, no slot of a
//! result exceeds `sqrt(2) T X Y^2`, padding and garbage included: each part of a slot is a sum of at most
//! `T <= L d_s` products ([`HeScan::terms`]), and two lanes of x are all that a slot has beside real numbers.
//! Every factor may be off by 512 deviations of the set's noise. Where the mask of that has no room, C goes
//! up divided by `2^g`, which divides the results and costs `g` bits of their precision.
//!
//! A state that enters has as many bits as [`Scales::largest_state`] says, and no more goes up whatever is
//! shared: `|h_0| <= H`, three times that. So no state exceeds `sqrt(2) (H + L X Y)`, and `d_s H Y` more are
//! in a result, however many parts a document has. Where the mask of a state has no room, x and the state
//! that enters go up divided.
//!
//! # Cost
//! Declared: exps, two comparisons for each decay, one bundle, conversions. The kernel's operations are
//! [`Geometry::count`].
//!
//! # What is not guaranteed
//! A right result when a value leaves its range; it stays bounded.

mod conversions;
mod document;
mod geometry;
mod packet;
mod run;
#[cfg(test)]
mod tests;

pub use document::{Geometries, Refreshed, Span};
pub use geometry::Geometry;

use std::sync::Arc;

use fesc_approx::{FixedPiecewise, Plan};
use fesc_model::outline::scale::{DELTA, PUSHED, RING};
use fesc_model::outline::{Exponential, LayerForms, Ranges, Scales};
use fesc_mpc::correlation::{Bundle, Product, Tensor};
use fesc_mpc::protocol::{Bilinear, Rescale};

use crate::Result;
use crate::hescan::ScanShape;
use conversions::Conversions;

/// What an inference converts in all: public numbers, from which masks and parts get their widths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Values that become ciphertexts.
    pub values: u64,
    /// Coefficients that are masked.
    pub masked: u64,
}

/// The scan of one layer under CKKS.
pub struct Encrypted {
    geometry: Arc<Geometry>,
    scales: Scales,
    /// exp of sums inside a chunk, inside a segment, and of longer ones.
    forms: Vec<Exponential>,
    /// Below 0, then above 1.
    clamp: [FixedPiecewise; 2],
    product: Bilinear,
    pushed: Rescale,
    skipped: Rescale,
    conversions: Conversions,
}

impl Encrypted {
    /// For the layer of a model whose kernel is cut as `geometry` says.
    ///
    /// # Errors
    /// If ranges are too wide for the conversions.
    pub fn new(geometry: &Arc<Geometry>, forms: &LayerForms, ranges: &Ranges, totals: Totals) -> Result<Self> {
        let shape = geometry.shape();
        let (tokens, heads, dim) = (shape.tokens, shape.heads, shape.head_dim);
        let s = forms.scales;
        let all = Tensor::new(&[0, 1, 2]);
        let bundle = Bundle {
            ring: RING,
            sizes: vec![tokens, heads, dim],
            masks: vec![Tensor::new(&[1]), Tensor::new(&[0, 1]), all.clone()],
            products: vec![Product::new(1, 2, all.clone()), Product::new(0, 2, all)],
        };
        let count = tokens * heads * dim;
        let mut sums = vec![forms.chunk.clone(), forms.document.clone()];
        if packet::counts(geometry.ranges())[2] > 0 {
            sums.push(forms.document.further()?);
        }
        Ok(Self {
            geometry: geometry.clone(),
            scales: s,
            forms: sums,
            clamp: clamp(s.exp)?,
            product: Bilinear { bundle },
            pushed: Rescale::new(RING, DELTA + s.x, PUSHED, count),
            skipped: Rescale::new(RING, s.mixed + s.x, s.scanned, count),
            conversions: Conversions::new(geometry, &s, ranges, totals)?,
        })
    }

    /// Its shape.
    pub fn shape(&self) -> &ScanShape {
        self.geometry.shape()
    }

    /// Fractional bits that the results have when they come down.
    pub fn fraction(&self) -> u32 {
        self.conversions.outputs
    }
}

/// `max(x, 0)`, and `min(x, 1)` for what is not negative, each exact for every integer of the ring.
fn clamp(frac: u32) -> Result<[FixedPiecewise; 2]> {
    let plan = Plan { ring: RING, in_frac: frac, out_frac: frac, sum_frac: frac, cmp_shift: 0, cmp_bits: RING.bits() };
    let (zero, one, itself) = ([0, 0, 0], [1 << frac, 0, 0], [0, 1, 0]);
    // What is promised is for a truncation, of which there is none.
    let promised = f64::from(RING.bits() - 3 - frac).exp2();
    let form = |tau, pieces| FixedPiecewise::from_integers(&plan, &[tau], pieces, Some((-promised, promised)));
    Ok([form(0, vec![zero, itself])?, form(1 << frac, vec![itself, one])?])
}
