//! Linear layers: exact integer products, and the convolution folded into them (docs/DESIGN.md, 6.1).
//!
//! Fast: `y_k = bias_k + sum_d tap_kd (n W)_(t-d, k)`, all at the scale F + F_w + F_t, truncated once. Paper:
//! the product and the convolution are CKKS kernels that give F bits each; their sums are not in the ring and
//! have no limit of their own (their noise is not part of this twin).

use fesc_ring::gemm::{Update, gemm_par};
use fesc_ring::{Ring, View};

use super::error::TwinError;
use super::range::{Quantity as Q, Run};
use crate::Result;

/// What is known of `outputs` rows of `inputs` weights without them.
pub(super) struct Linear {
    inputs: usize,
    outputs: usize,
    /// The largest Euclidean norm of a row.
    norm: f64,
}

fn norm(row: &[i64]) -> f64 {
    row.iter().map(|&v| (v as f64) * (v as f64)).sum::<f64>().sqrt()
}

/// The signed matrix as the kernels want it: two's complement.
pub(super) fn view(data: &[i64], rows: usize, cols: usize) -> Result<View<'_>> {
    Ok(View::new(bytemuck::cast_slice(data), rows, cols).map_err(TwinError::from)?)
}

/// Largest magnitude of a matrix.
fn largest(a: View<'_>) -> f64 {
    a.lines().flatten().fold(0u64, |most, &v| most.max((v as i64).unsigned_abs())) as f64
}

/// An entry as an integer; 0 outside.
fn entry(a: View<'_>, row: usize, col: usize) -> i128 {
    a.get(row, col).map_or(0, |v| i128::from(v as i64))
}

/// What does not fit becomes the end of i64, which no range holds.
fn narrow(v: i128) -> i64 {
    v.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// `sum + a b`; a sum that did not fit stays outside.
#[inline]
pub(super) fn add_product(sum: i64, a: i64, b: i64) -> i64 {
    if sum == i64::MIN || sum == i64::MAX { sum } else { narrow(i128::from(sum) + i128::from(a) * i128::from(b)) }
}

/// `a b` over the integers. 64 bits hold it where the largest entries say so; else it is computed wide and
/// cut to the ends of i64, so that a sum far outside its range can not come back into it.
pub(super) fn exact(out: &mut [i64], a: View<'_>, b: View<'_>) -> Result<()> {
    if a.cols() as f64 * largest(a) * largest(b) >= 62f64.exp2() && a.cols() == b.rows() {
        for (i, row) in out.chunks_exact_mut(b.cols().max(1)).enumerate() {
            for (j, out) in row.iter_mut().enumerate() {
                let terms = (0..a.cols()).map(|k| entry(a, i, k) * entry(b, k, j));
                *out = narrow(terms.fold(0, i128::saturating_add));
            }
        }
        return Ok(());
    }
    let ring = Ring::new(64).map_err(|_| TwinError::BadCalibration { reason: "64 bits are no ring".into() })?;
    Ok(fesc_ring::gemm::gemm(ring, a, b, bytemuck::cast_slice_mut(out), Update::Set).map_err(TwinError::from)?)
}

impl Linear {
    pub(super) fn new(inputs: usize, outputs: usize, weights: &[i64]) -> Self {
        let norm = weights.chunks_exact(inputs).map(norm).fold(0.0, f64::max);
        Self { inputs, outputs, norm }
    }

    /// `x W^T` for the weights that it was made from, exactly: 52 bits hold it where the inequality of Cauchy
    /// and Schwarz says so, else 64.
    pub(super) fn run(&self, run: &mut Run<'_>, weights: &[i64], x: &mut [i64]) -> Result<Vec<i64>> {
        run.disturb_inputs(x);
        let bound = self.norm * x.chunks_exact(self.inputs).map(norm).fold(0.0, f64::max);
        let mut local = run.local();
        local.see(Q::Product, bound.min(1e19) as i64, 0, 1 << 62, 0);
        run.settle(vec![local])?;
        let bits = if bound < 51f64.exp2() { 52 } else { 64 };
        let ring = Ring::new(bits).map_err(|_| TwinError::BadCalibration { reason: "no such ring".into() })?;
        let rows = x.len() / self.inputs;
        let mut y = vec![0i64; rows * self.outputs];
        let (left, right) = (view(x, rows, self.inputs)?, view(weights, self.outputs, self.inputs)?);
        gemm_par(ring, left, right.t(), bytemuck::cast_slice_mut(&mut y), Update::Set).map_err(TwinError::from)?;
        if bits < 64 {
            y.iter_mut().for_each(|v| *v = ring.to_signed(*v as u64));
        }
        Ok(y)
    }
}

/// Taps of the causal depthwise convolution, by distance into the past.
pub(super) struct Conv {
    pub(super) channels: usize,
    /// `taps[d][c]`: the weight of the value `d` tokens before.
    pub(super) taps: Vec<Vec<i64>>,
    /// Bias at the scale of the sum.
    pub(super) bias: Vec<i64>,
}

impl Conv {
    /// Columns `first..` of `x` (rows of `width`), summed over the past; the result is not truncated.
    pub(super) fn run(&self, run: &mut Run<'_>, x: &[i64], width: usize, first: usize) -> Result<Vec<i64>> {
        let rows = x.len() / width;
        let mut out = vec![0i64; rows * self.channels];
        run.rows(&mut out, self.channels, |_, t, row| {
            for (c, (out, &bias)) in row.iter_mut().zip(&self.bias).enumerate() {
                let past = self.taps.iter().zip((0..=t).rev());
                let products = past.map(|(taps, t)| i128::from(x[t * width + first + c]) * i128::from(taps[c]));
                // Wide: two products that left 64 bits in opposite directions must not cancel.
                *out = narrow(products.sum::<i128>() + i128::from(bias));
            }
        })?;
        run.disturb_outputs(&mut out);
        Ok(out)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::super::rounding::Rounding;
    use super::*;
    use fesc_ring::Prg;

    /// Both widths give the integer product; a sum that no width holds is refused.
    #[test]
    fn products_are_exact() {
        let mut nearest = Rounding::nearest();
        let mut run = Run::new(48, true, &mut nearest);
        for size in [1i64 << 20, 1 << 28] {
            let weights = [size, -3, 5, 7 * size, -size, -size];
            let linear = Linear::new(2, 3, &weights);
            let y = linear.run(&mut run, &weights, &mut [size, 11, -size, 4]).unwrap();
            let s = i128::from(size);
            let want = [s * s - 33, 5 * s + 77 * s, -s * s - 11 * s, -s * s - 12, -5 * s + 28 * s, s * s - 4 * s];
            assert_eq!(y.iter().map(|&v| i128::from(v)).collect::<Vec<_>>(), want);
        }
        let huge = Linear::new(1, 1, &[1 << 40]);
        let error = huge.run(&mut run, &[1 << 40], &mut [1 << 40]).unwrap_err().to_string();
        assert!(error.contains("accumulator of a linear layer"), "{error}");
    }

    /// RLWE noise enters where the design says, and only in the fast plan.
    #[test]
    fn noise_is_on_the_inputs() {
        let linear = Linear::new(1, 1, &[1000]);
        for (rlwe, low, high) in [(true, 3000.0, 3400.0), (false, 0.0, 0.0)] {
            let mut noisy = Rounding::noisy(Prg::from_seed([2; 16]));
            let y = linear.run(&mut Run::new(48, rlwe, &mut noisy), &[1000], &mut vec![0; 20_000]).unwrap();
            let deviation = (y.iter().map(|&v| (v as f64).powi(2)).sum::<f64>() / 20_000.0).sqrt();
            assert!((low..=high).contains(&deviation), "{deviation}");
        }
    }

    /// Sums that leave 64 bits do not come back as small ones.
    #[test]
    fn what_leaves_64_bits_stays_outside() {
        let cut = |a: &[i64], b: &[i64]| {
            let mut out = [0];
            exact(&mut out, view(a, 1, a.len()).unwrap(), view(b, b.len(), 1).unwrap()).unwrap();
            out[0]
        };
        // Modulo 2^64 these are 0, 5 and -2^40.
        assert_eq!(cut(&[1 << 40; 4], &[1 << 40; 4]), i64::MAX);
        assert_eq!(cut(&[-(1 << 40), 5], &[1 << 40, 1]), i64::MIN);
        assert_eq!(cut(&[1 << 40, -1], &[1 << 24, 1 << 40]), i64::MAX);
        // Large terms whose sum is small are exact.
        assert_eq!(cut(&[1 << 40, 1 << 40, 3], &[1 << 40, -(1 << 40), 7]), 21);
        assert_eq!(add_product(i64::MIN, 1 << 40, 1 << 40), i64::MIN);
        assert_eq!((add_product(-1, 1 << 40, 1 << 40), add_product(-6, 2, 3)), (i64::MAX, 0));
        let mut nearest = Rounding::nearest();
        let mut run = Run::new(48, true, &mut nearest);
        let conv = Conv { channels: 1, taps: vec![vec![1 << 20], vec![-(1 << 20)]], bias: vec![5] };
        assert_eq!(conv.run(&mut run, &[3 << 50, 1 << 50, 1 << 50], 1, 0).unwrap(), [i64::MAX, i64::MIN, 5]);
    }

    #[test]
    fn convolution_looks_back() {
        let mut nearest = Rounding::nearest();
        let mut run = Run::new(48, true, &mut nearest);
        let conv = Conv { channels: 1, taps: vec![vec![100], vec![10], vec![1]], bias: vec![5] };
        // Column 1 of two.
        let x = [0, 1, 0, 2, 0, 3, 0, 4];
        assert_eq!(conv.run(&mut run, &x, 2, 1).unwrap(), [105, 215, 326, 437]);
    }
}
