//! Elementwise operations, norms and the convolution.

use rayon::prelude::*;

use super::matrix::Matrix;

/// Rows that one task of an elementwise operation takes.
const ROWS: usize = 32;

/// `v sigma(v)`.
pub(super) fn silu(v: f32) -> f32 {
    v / (1.0 + (-v).exp())
}

/// `ln(1 + exp(v))` with small relative error at both ends.
pub(super) fn softplus(v: f32) -> f32 {
    v.max(0.0) + (-v.abs()).exp().ln_1p()
}

/// `v / sqrt(mean(v^2) + eps) * weight` for each of `groups` equal parts of a row. The mean is in f64.
pub(super) fn rms_norm(row: &mut [f32], weight: &[f32], eps: f32, groups: usize) {
    let width = row.len() / groups;
    for (part, weight) in row.chunks_exact_mut(width).zip(weight.chunks_exact(width)) {
        let sum: f64 = part.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
        let scale = (1.0 / (sum / width as f64 + f64::from(eps)).sqrt()) as f32;
        part.iter_mut().zip(weight).for_each(|(v, w)| *v *= scale * w);
    }
}

/// RMSNorm of every row of a copy of `x`.
pub(super) fn rms_norm_rows(x: &Matrix, weight: &[f32], eps: f32) -> Matrix {
    let mut out = x.clone();
    let cols = x.cols();
    out.data_mut().par_chunks_mut(ROWS * cols).for_each(|rows| {
        rows.chunks_exact_mut(cols).for_each(|row| rms_norm(row, weight, eps, 1));
    });
    out
}

/// `SiLU(conv(x) + bias)` of `channels` columns of `x` from column `first` on.
///
/// Causal and depthwise: `out[t, c] = bias[c] + sum_k weight[c, k] x[t + 1 - K + k, c]`, with zeros before
/// the document. `weight` has `channels` rows of K taps.
pub(super) fn conv_silu(x: &Matrix, first: usize, channels: usize, weight: &[f32], bias: &[f32]) -> Matrix {
    let taps = weight.len() / channels;
    // Taps by channel, so that the inner loop runs over neighbouring channels.
    let by_tap: Vec<Vec<f32>> = (0..taps).map(|k| weight.iter().skip(k).step_by(taps).copied().collect()).collect();
    let mut out = Matrix::zeros(x.rows(), channels);
    out.data_mut().par_chunks_mut(ROWS * channels).enumerate().for_each(|(task, rows)| {
        for (i, row) in rows.chunks_exact_mut(channels).enumerate() {
            let t = task * ROWS + i;
            row.copy_from_slice(bias);
            for (k, taps_k) in by_tap.iter().enumerate() {
                let Some(from) = (t + 1 + k).checked_sub(taps) else { continue };
                let source = &x.row(from)[first..first + channels];
                row.iter_mut().zip(source).zip(taps_k).for_each(|((out, v), w)| *out += v * w);
            }
            row.iter_mut().for_each(|v| *v = silu(*v));
        }
    });
    out
}

/// Delta: softplus of the last `bias.len()` columns of `x` plus bias, clamped.
pub(super) fn delta(x: &Matrix, bias: &[f32], (low, high): (f32, f32)) -> Matrix {
    let heads = bias.len();
    let mut out = Matrix::zeros(x.rows(), heads);
    for (t, row) in out.data_mut().chunks_exact_mut(heads).enumerate() {
        let source = &x.row(t)[x.cols() - heads..];
        row.iter_mut().zip(source).zip(bias).for_each(|((out, v), b)| *out = softplus(v + b).clamp(low, high));
    }
    out
}

/// `y *= SiLU(z)` with z the first columns of `x`.
pub(super) fn gate(y: &mut Matrix, x: &Matrix) {
    let cols = y.cols();
    y.data_mut().par_chunks_mut(ROWS * cols).enumerate().for_each(|(task, rows)| {
        for (i, row) in rows.chunks_exact_mut(cols).enumerate() {
            let z = &x.row(task * ROWS + i)[..cols];
            row.iter_mut().zip(z).for_each(|(y, z)| *y *= silu(*z));
        }
    });
}

/// The gated norm's second half: RMSNorm of every row in place.
pub(super) fn rms_norm_in_place(y: &mut Matrix, weight: &[f32], eps: f32, groups: usize) {
    let cols = y.cols();
    y.data_mut().par_chunks_mut(ROWS * cols).for_each(|rows| {
        rows.chunks_exact_mut(cols).for_each(|row| rms_norm(row, weight, eps, groups));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_are_exact_at_both_ends() {
        for v in [-80.0f32, -20.0, -7.5, -0.3, 0.0, 0.3, 7.5, 20.0, 80.0] {
            let exact = if v > 40.0 { f64::from(v) } else { f64::from(v).exp().ln_1p() };
            let error = (f64::from(softplus(v)) - exact).abs() / exact;
            assert!(error < 3e-7, "softplus({v}): relative error {error:e}");
            let exact = f64::from(v) / (1.0 + (-f64::from(v)).exp());
            let error = (f64::from(silu(v)) - exact).abs() / exact.abs().max(1e-30);
            assert!(error < 3e-6, "silu({v}): relative error {error:e}");
        }
    }

    #[test]
    fn convolution_sees_the_past_only() {
        // One channel of interest (column 1), taps 1, 10, 100: an impulse at token 2 shows at 2, 3 and 4.
        let mut x = Matrix::zeros(6, 3);
        x.data_mut()[2 * 3 + 1] = 1.0;
        let y = conv_silu(&x, 1, 1, &[100.0, 10.0, 1.0], &[5.0]);
        let expected: Vec<f32> = [5.0, 5.0, 6.0, 15.0, 105.0, 5.0].map(silu).to_vec();
        assert_eq!(y.data(), expected);
    }

    #[test]
    fn norm_groups_are_apart() {
        let mut row = [3.0, 4.0, 30.0, 40.0];
        rms_norm(&mut row, &[1.0, 1.0, 1.0, 2.0], 1e-12, 2);
        let unit = 12.5f32.sqrt();
        for (found, expected) in row.iter().zip([3.0 / unit, 4.0 / unit, 3.0 / unit, 8.0 / unit]) {
            assert!((found - expected).abs() < 1e-6, "{row:?}");
        }
    }
}
