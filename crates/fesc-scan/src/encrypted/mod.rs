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
//! # The bound
//! With what the conversion can carry whatever is shared, `|x| <= X` and `|B|, |C| <= Y`
//! ([`ToCiphertexts::largest`], three times the calibrated ranges), and decays in `[0, 1]`, no slot of a
//! result exceeds `sqrt(2) T X Y^2`, padding and garbage included: each part of a slot is a sum of at most
//! `T <= L d_s` products ([`HeScan::terms`]), and two lanes of x are all that a slot has beside real numbers.
//! Every factor may be off by 512 deviations of the set's noise. Where the mask of that has no room, C goes
//! up divided by `2^g`, which divides the results and costs `g` bits of their precision.
//!
//! # Cost
//! Declared: exps, two comparisons for each decay, one bundle, conversions. The kernel's operations are
//! [`Geometry::count`].
//!
//! # What is not guaranteed
//! More than one segment: the state does not leave the kernel.

mod geometry;
mod packet;
mod run;
#[cfg(test)]
mod tests;

pub use geometry::Geometry;

use std::sync::Arc;

use fesc_approx::{FixedPiecewise, Plan};
use fesc_hybrid::boundary::{Encoding, Fixed, MaskBound, ToCiphertexts, ToShares, Values};
use fesc_hybrid::circuit::Circuit;
use fesc_model::outline::scale::{DELTA, PUSHED, RING};
use fesc_model::outline::{Exponential, LayerForms, Ranges, Scales};
use fesc_mpc::correlation::{Bundle, Product, Tensor};
use fesc_mpc::protocol::{Bilinear, Rescale};

use crate::hescan::HeScan;
use crate::{Result, ScanError};
use geometry::Kind;

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
    /// exp of sums inside a chunk, and of longer ones.
    forms: [Exponential; 2],
    /// Below 0, then above 1.
    clamp: [FixedPiecewise; 2],
    product: Bilinear,
    pushed: Rescale,
    skipped: Rescale,
    circuit: Circuit,
    /// Fractional bits of the results.
    fraction: u32,
}

/// Largest width of a mask.
const WIDEST: u32 = fesc_ckks::mask::MAX_WIDTH;

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
        let (circuit, fraction) = circuit(geometry, &s, ranges, totals)?;
        Ok(Self {
            geometry: geometry.clone(),
            scales: s,
            forms: [forms.chunk.clone(), forms.document.clone()],
            clamp: clamp(s.exp)?,
            product: Bilinear { bundle },
            pushed: Rescale::new(RING, DELTA + s.x, PUSHED, count),
            skipped: Rescale::new(RING, s.mixed + s.x, s.scanned, count),
            circuit,
            fraction,
        })
    }

    /// Fractional bits that the results have when they come down.
    pub fn fraction(&self) -> u32 {
        self.fraction
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

/// Bits of a value with its sign.
fn width(range: i32, frac: u32) -> Result<u32> {
    let bits = i64::from(frac) + i64::from(range) + 1;
    let refused = ScanError::Scale { what: "a tensor of the packet", bits };
    u32::try_from(bits).ok().filter(|b| (2..RING.bits()).contains(b)).ok_or(refused)
}

/// The largest magnitude of a slot of a result, noise included, from the largest of x, B and C as they go up.
fn largest(geometry: &Geometry, [x, b, c]: [f64; 3]) -> f64 {
    let (kernel, set) = (&geometry.chosen().kernel, &geometry.chosen().set);
    let error = (9.0 - set.precision()).exp2();
    let decays = (1.0 + error).powi(geometry.shape().tokens as i32);
    let products = kernel.terms() as f64 * (x + error) * (b + error) * (c + error) * decays;
    // A unit for what the last steps and the fresh zero add.
    std::f64::consts::SQRT_2 * products + 1.0
}

/// The conversions, and the fractional bits of the results.
fn circuit(geometry: &Arc<Geometry>, s: &Scales, ranges: &Ranges, totals: Totals) -> Result<(Circuit, u32)> {
    let params = geometry.params();
    let up = |kind: Kind, bits: u32, fraction: u32| {
        let values = Values { ring: RING, bits, fraction, inference: totals.values.next_power_of_two() };
        let encodings: Vec<Encoding> =
            geometry.levels(kind).map(|level| Encoding { level, scale: geometry.scale(level) }).collect();
        ToCiphertexts::with_encodings(params, geometry.layout(kind), values, encodings)
    };
    let bc = width(ranges.bc, s.bc)?;
    let x = up(Kind::X, width(ranges.pushed, PUSHED)?, PUSHED)?;
    // At most 1, exactly.
    let decays = up(Kind::Decays, s.exp + 2, s.exp)?;
    let b = up(Kind::B, bc, s.bc)?;
    let scale = geometry.result_scale();
    let phase = |divided: u32| {
        let c = b.largest() * (-f64::from(divided)).exp2();
        (scale * largest(geometry, [x.largest(), b.largest(), c])).log2().ceil() as u32
    };
    let masked = totals.masked.next_power_of_two();
    let log_q = params.log_q(geometry.floor()).map_err(fesc_hybrid::HybridError::from)?;
    let most = WIDEST.min(log_q as u32 - 2);
    let fits = |g: &u32| fesc_ckks::mask::mask_width(phase(*g), masked) <= most;
    let divided = (0..=32).find(fits).unwrap_or(32);
    let bound = MaskBound { phase_bits: phase(divided), masked };
    let down = |fraction: u32| {
        let fixed = Fixed { ring: RING, fraction: fraction + divided };
        ToShares::new(params, geometry.results(), scale, bound, fixed).map(|down| (down, fraction))
    };
    // As many bits as the arithmetic of decoding has.
    let (down, fraction) = (0..s.scanned).rev().map(|f| down(f + 1)).find(|d| d.is_ok()).unwrap_or_else(|| down(0))?;
    let c = up(Kind::C, bc, s.bc + divided)?;
    Ok((Circuit { up: vec![x, decays, b, c], down }, fraction))
}
