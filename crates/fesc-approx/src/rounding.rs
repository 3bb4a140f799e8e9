//! From a real piecewise form to the integers of a plan.
//!
//! Coefficients are rounded from `x^2` down; what rounding takes from one is put back, as well as it can be,
//! into the lower ones over the inputs that may reach the piece. A coefficient that already lies on its grid
//! is taken as it is.

use crate::error::ApproxError;
use crate::fixed::{grid, promised_range, reach};
use crate::piecewise::Piecewise;
use crate::plan::Plan;
use fesc_ring::Ring;

/// Thresholds and integer pieces of `form` under `plan`.
pub(crate) fn round_form(
    form: &Piecewise,
    plan: &Plan,
    limit: Option<(f64, f64)>,
) -> Result<(Vec<i64>, Vec<[i64; 3]>), ApproxError> {
    check_shape(form)?;
    let taus = thresholds(form, plan.in_frac, plan.cmp_shift, plan.cmp_bits)?;
    let range = promised_range(&taus, plan, limit)?;
    let piece = |(k, piece): (usize, &[f64; 3])| {
        quantise(piece, k, plan.ring, plan.in_frac, plan.sum_frac, reach(&taus, range, plan.cmp_shift, k))
    };
    let pieces = form.pieces.iter().enumerate().map(piece).collect::<Result<_, _>>()?;
    Ok((taus, pieces))
}

fn check_shape(form: &Piecewise) -> Result<(), ApproxError> {
    let (knots, pieces) = (form.knots.len(), form.pieces.len());
    if pieces != knots + 1 {
        return Err(ApproxError::PieceCount { knots, pieces });
    }
    if let Some(index) = form.knots.iter().position(|k| !k.is_finite()) {
        return Err(ApproxError::NotFinite { what: "knot", index });
    }
    if let Some(index) = form.pieces.iter().position(|p| p.iter().any(|c| !c.is_finite())) {
        return Err(ApproxError::NotFinite { what: "piece", index });
    }
    Ok(())
}

/// Thresholds in units of `2^s` ulps; the zone `[tau - 1, tau)` is centred on the knot.
fn thresholds(form: &Piecewise, in_frac: u32, shift: u32, bits: u32) -> Result<Vec<i64>, ApproxError> {
    let unit = (f64::from(in_frac) - f64::from(shift)).exp2();
    let half = if shift == 0 { 0.0 } else { 0.5 };
    let limit = (f64::from(bits) - 1.0).exp2();
    let mut taus: Vec<i64> = Vec::with_capacity(form.knots.len());
    for (index, knot) in form.knots.iter().enumerate() {
        let t = (knot * unit + half).round();
        if t.abs() >= limit {
            return Err(ApproxError::ThresholdRange { value: t as i128, cmp_bits: bits });
        }
        if taus.last().is_some_and(|&last| last >= t as i64) {
            return Err(ApproxError::KnotOrder { index: index - 1, cmp_shift: shift });
        }
        taus.push(t as i64);
    }
    Ok(taus)
}

/// Rounds one piece, from the highest power down, each time handing the remainder to the lower powers in the
/// way that is best on the interval: `x^2 ~ (a + b) x - (a^2 + 6ab + b^2)/8`, `x ~ (a + b)/2`.
fn quantise(
    piece: &[f64; 3],
    k: usize,
    ring: Ring,
    in_frac: u32,
    sum_frac: u32,
    reach: (i64, i64),
) -> Result<[i64; 3], ApproxError> {
    let ulp = (-f64::from(in_frac)).exp2();
    let (a, b) = (reach.0 as f64 * ulp, reach.1 as f64 * ulp);
    let limit = (f64::from(ring.bits()) - 1.0).exp2();
    let mut c = *piece;
    let mut out = [0i64; 3];
    for j in (0..3).rev() {
        let unit = grid(in_frac, sum_frac, j);
        let q = (c[j] / unit).round();
        if q.abs() >= limit {
            return Err(ApproxError::CoefficientRange { piece: k, power: j, ring_bits: ring.bits() });
        }
        out[j] = q as i64;
        let rest = c[j] - q * unit;
        match j {
            2 => {
                c[1] += rest * (a + b);
                c[0] -= rest * (a * a + 6.0 * a * b + b * b) / 8.0;
            }
            1 => c[0] += rest * (a + b) / 2.0,
            _ => {}
        }
    }
    Ok(out)
}
