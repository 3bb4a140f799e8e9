//! RMSNorm with groups: `y = x r(v) w`, `v = mean(x^2) + eps` over each of `groups` equal parts of a row.
//!
//! With `g = w dy` of one part of width n: `dx = r g + r'(v) (2/n) (g . x) x`,
//! `dw = sum over rows of dy x r`. `r'` is `-r^3/2` with the form's own `r` ([`crate::forms`]). candle_nn's
//! RmsNorm drops gradients; this one is tested.

use std::sync::{Arc, Mutex};

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use pulp::Arch;

use super::{sized, tensor, values, with_values, wrong};
use crate::forms::{Range, Rsqrt};

/// The norm of one place in the model.
#[derive(Debug, Clone)]
pub struct Norm {
    /// Parts of a row that are normalised apart.
    pub groups: usize,
    /// Added to the mean of squares.
    pub eps: f32,
    /// The form of `1/sqrt`.
    pub rsqrt: Rsqrt,
    /// During calibration: what the mean of squares is between.
    pub seen: Option<Arc<Mutex<Range>>>,
}

/// Sixteen partial sums: one order on every machine, and vector code.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (a, b) in a.iter().zip(b) {
        for i in 0..16 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[inline(always)]
fn dot3(a: &[f32], b: &[f32], c: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let ((a, a_rest), (b, b_rest), (c, c_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>(), c.as_chunks::<16>());
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        for i in 0..16 {
            sums[i] += a[i] * b[i] * c[i];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).zip(c_rest).map(|((a, b), c)| a * b * c).sum();
    sums.iter().sum::<f32>() + rest
}

impl Norm {
    fn width(&self, row: usize) -> Result<usize> {
        match row.checked_div(self.groups) {
            Some(width) if width > 0 && width * self.groups == row => Ok(width),
            _ => Err(wrong(&format!("a row of {row} for {} norm groups", self.groups))),
        }
    }

    #[inline(always)]
    fn mean_square(&self, part: &[f32]) -> f64 {
        f64::from(dot(part, part)) / part.len() as f64 + f64::from(self.eps)
    }

    #[inline(always)]
    fn forward(&self, x: &[f32], w: &[f32], y: &mut [f32], width: usize, range: &mut Range) {
        for (row, out) in x.chunks_exact(w.len()).zip(y.chunks_exact_mut(w.len())) {
            let parts = row.chunks_exact(width).zip(w.chunks_exact(width)).zip(out.chunks_exact_mut(width));
            for ((x, w), y) in parts {
                let v = self.mean_square(x);
                range.see(v);
                let r = self.rsqrt.at(v) as f32;
                y.iter_mut().zip(x).zip(w).for_each(|((y, x), w)| *y = x * r * w);
            }
        }
    }

    #[inline(always)]
    fn backward(&self, x: &[f32], w: &[f32], dy: &[f32], width: usize, dx: &mut [f32], dw: &mut [f32]) {
        let n = w.len();
        for ((x, dy), dx) in x.chunks_exact(n).zip(dy.chunks_exact(n)).zip(dx.chunks_exact_mut(n)) {
            for from in (0..n).step_by(width) {
                let part = from..from + width;
                let (x, w, dy) = (&x[part.clone()], &w[part.clone()], &dy[part.clone()]);
                let (dx, dw) = (&mut dx[part.clone()], &mut dw[part]);
                let r = self.rsqrt.at(self.mean_square(x)) as f32;
                let scale = -r * r * r * dot3(x, w, dy) / width as f32;
                for i in 0..width {
                    dx[i] = r * w[i] * dy[i] + scale * x[i];
                    dw[i] += dy[i] * x[i] * r;
                }
            }
        }
    }
}

impl CustomOp2 for Norm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        let (x, w) = (values(s1, l1)?, values(s2, l2)?);
        let width = self.width(w.len())?;
        sized("a row of the norm", l1.dims().last().copied().unwrap_or(0), w.len())?;
        let mut y = vec![0.0; x.len()];
        let mut range = Range::EMPTY;
        Arch::new().dispatch(
            #[inline(always)]
            || self.forward(x, w, &mut y, width, &mut range),
        );
        if let Some(mut seen) = self.seen.as_ref().and_then(|seen| seen.lock().ok()) {
            *seen = seen.join(range);
        }
        Ok((CpuStorage::F32(y), l1.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, w: &Tensor, _: &Tensor, dy: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let dy = dy.contiguous()?;
        let (mut dx, mut dw) = (vec![0.0; x.elem_count()], vec![0.0; w.elem_count()]);
        let width = self.width(w.elem_count())?;
        with_values(x, |x| {
            with_values(w, |w| {
                with_values(&dy, |dy| {
                    Arch::new().dispatch(
                        #[inline(always)]
                        || self.backward(x, w, dy, width, &mut dx, &mut dw),
                    );
                    Ok(())
                })
            })
        })?;
        Ok((Some(tensor(dx, x.shape())?), Some(tensor(dw, w.shape())?)))
    }
}

/// Normalises every row of `x` and multiplies by `weight`.
pub fn rms_norm(x: &Tensor, weight: &Tensor, norm: Norm) -> Result<Tensor> {
    x.apply_op2(weight, norm)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::ops::testing::{Check, random};

    fn elementary(x: &Tensor, w: &Tensor, groups: usize, eps: f64) -> Result<Tensor> {
        let (rows, n) = x.dims2()?;
        let parts = x.reshape((rows, groups, n / groups))?;
        let scale = (parts.sqr()?.mean_keepdim(2)? + eps)?.sqrt()?;
        parts.broadcast_div(&scale)?.reshape((rows, n))?.broadcast_mul(w)
    }

    #[test]
    fn agrees_with_elementary_operations_and_with_differences() {
        for (groups, width) in [(1, 7), (2, 12), (3, 48)] {
            let (x, w) = (random(4, &[5, width]), random(5, &[width]));
            let norm = Norm { groups, eps: 1e-3, rsqrt: Rsqrt::Exact, seen: None };
            Check { x: &x, w: &w, step: 1e-2, tolerance: 3e-4 }
                .run(|x, w| rms_norm(x, w, norm.clone()), |x, w| elementary(x, w, groups, 1e-3));
        }
    }

    #[test]
    fn buckets_are_close_and_calibration_sees_the_range() {
        let (x, w) = (random(6, &[9, 32]), random(7, &[32]));
        let seen = Arc::new(Mutex::new(Range::EMPTY));
        let exact = Norm { groups: 1, eps: 1e-5, rsqrt: Rsqrt::Exact, seen: Some(seen.clone()) };
        let y: Vec<f32> = rms_norm(&x, &w, exact).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        let range = *seen.lock().unwrap();
        let squares: Vec<f64> = x
            .to_vec2::<f32>()
            .unwrap()
            .iter()
            .map(|row| row.iter().map(|v| f64::from(v * v)).sum::<f64>() / 32.0 + 1e-5)
            .collect();
        let (low, high) = squares.iter().fold((f64::MAX, 0.0f64), |(l, h), v| (l.min(*v), h.max(*v)));
        assert!((range.low - low).abs() < 1e-6 && (range.high - high).abs() < 1e-6);
        let worst = |steps| {
            let rsqrt = Rsqrt::buckets(range, steps).unwrap();
            let norm = Norm { groups: 1, eps: 1e-5, rsqrt, seen: None };
            let z: Vec<f32> = rms_norm(&x, &w, norm).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            y.iter().zip(z).map(|(y, z)| (y - z).abs() / y.abs().max(1e-6)).fold(0.0, f32::max)
        };
        assert!(worst(1) > worst(2) && worst(3) < 1e-4, "{} {} {}", worst(1), worst(2), worst(3));
    }
}
