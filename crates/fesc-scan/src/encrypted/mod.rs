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
//! With what the conversion can carry, `|x| <= X`, `|B|, |C| <= Y`, and decays in `[0, 1]`, no slot of a
//! result exceeds `sqrt(2) L d_s X Y^2`, padding and garbage included: a slot is a sum of at most `L d_s`
//! products of both lanes. Where the mask of that has no room, C goes up divided by `2^g`, which divides the
//! results and costs `g` bits of their precision.
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

pub use geometry::Geometry;

use std::sync::Arc;

use fesc_approx::{FixedPiecewise, Plan};
use fesc_hybrid::boundary::{Fixed, MaskBound, ToCiphertexts, ToShares, Values};
use fesc_hybrid::circuit::Circuit;
use fesc_model::outline::scale::{DELTA, PUSHED, RING};
use fesc_model::outline::{Exponential, LayerForms, Ranges, Scales};
use fesc_mpc::correlation::{Bundle, Product, Tensor};
use fesc_mpc::protocol::{Bilinear, Rescale};

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

/// Bits of a value with its sign, and what the conversion may carry of it at most, as a number.
fn width(range: i32, frac: u32) -> Result<(u32, f64)> {
    let bits = i64::from(frac) + i64::from(range) + 1;
    let refused = ScanError::Scale { what: "a tensor of the packet", bits };
    let bits = u32::try_from(bits).ok().filter(|b| (2..RING.bits()).contains(b)).ok_or(refused)?;
    // Three halves of the range.
    Ok((bits, 1.5 * f64::from(range).exp2()))
}

/// The conversions, and the fractional bits of the results.
fn circuit(geometry: &Arc<Geometry>, s: &Scales, ranges: &Ranges, totals: Totals) -> Result<(Circuit, u32)> {
    let (shape, params) = (geometry.shape(), geometry.params());
    let [(x_bits, x), (bc_bits, bc)] = [width(ranges.pushed, PUSHED)?, width(ranges.bc, s.bc)?];
    let largest = std::f64::consts::SQRT_2 * (shape.tokens * shape.state) as f64 * x * bc * bc;
    let scale = geometry.result_scale();
    // A unit for the noise.
    let phase = |divided: u32| (scale * (largest * (-f64::from(divided)).exp2() + 1.0)).log2().ceil() as u32;
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
    let tensors = [
        (Kind::X, x_bits, PUSHED),
        // At most 1, exactly.
        (Kind::Decays, s.exp + 2, s.exp),
        (Kind::B, bc_bits, s.bc),
        (Kind::C, bc_bits, s.bc + divided),
    ];
    let up = |(kind, bits, fraction): (Kind, u32, u32)| {
        let values = Values { ring: RING, bits, fraction, inference: totals.values.next_power_of_two() };
        ToCiphertexts::with_encodings(params, geometry.layout(kind), values, geometry.encodings(kind))
    };
    let up = tensors.into_iter().map(up).collect::<Result<Vec<_>, _>>()?;
    Ok((Circuit { up, down }, fraction))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fesc_approx::paper::PaperPlan;
    use fesc_approx::paper::mmexp::MinimaxExp;

    /// Whatever MMExp gives, negative near -8 and for inputs that no plan has, comes out in [0, 1]; what lies
    /// between stays as it is.
    #[test]
    fn decays_are_clamped_exactly() {
        for (degree, frac, out) in [(2, 20, 22), (4, 19, 22), (6, 18, 18), (4, 12, 12)] {
            let [above, below] = clamp(out).unwrap();
            let clamped = |y: i64| {
                let once = above.eval_exact(RING.from_signed(y));
                RING.to_signed(below.eval_exact(once))
            };
            let plan = PaperPlan { ring: RING, frac, cmp_shift: frac - 6, cmp_bits: 19 };
            let form = MinimaxExp::paper(degree).unwrap().fixed(&plan).unwrap();
            let mut negative = 0;
            for z in (-(10i64 << frac)..=2 << frac).step_by(997) {
                let y = RING.to_signed(form.eval(RING.from_signed(z), &mut || true)) << (out - frac);
                negative += i32::from(y < 0);
                assert_eq!(clamped(y), y.clamp(0, 1 << out), "{z}");
            }
            assert!(negative > 0, "degree {degree} has nothing to clamp");
            for y in [i64::MIN >> 17, -1, 0, 1, (1 << out) - 1, 1 << out, (1 << out) + 1, i64::MAX >> 18] {
                assert_eq!(clamped(y), y.clamp(0, 1 << out), "{y}");
            }
        }
    }
}
