//! The float model in f64 with the fast plan's SiLU and softplus installed, all else exact: what is left
//! between it and the twin is fixed-point arithmetic, exp and the inverse roots.

use fesc_approx::{FixedPiecewise, silu, softplus};

use crate::Pooling;
use crate::float::Layer;
use crate::{Model, Shape};

pub(super) struct Reference<'a> {
    model: &'a Model,
    silu: &'static FixedPiecewise,
    softplus: &'static FixedPiecewise,
}

fn norm(row: &[f64], weight: &[f32], eps: f32, groups: usize) -> Vec<f64> {
    let width = row.len() / groups;
    let mut out = Vec::with_capacity(row.len());
    for (part, weight) in row.chunks_exact(width).zip(weight.chunks_exact(width)) {
        let mean = part.iter().map(|v| v * v).sum::<f64>() / width as f64;
        let scale = (mean + f64::from(eps)).sqrt().recip();
        out.extend(part.iter().zip(weight).map(|(v, w)| v * scale * f64::from(*w)));
    }
    out
}

fn linear(row: &[f64], weight: &[f32]) -> Vec<f64> {
    let dot = |w: &[f32]| w.iter().zip(row).map(|(w, v)| f64::from(*w) * v).sum();
    weight.chunks_exact(row.len()).map(dot).collect()
}

impl<'a> Reference<'a> {
    pub(super) fn new(model: &'a Model) -> Self {
        Self { model, silu: silu::preset().unwrap(), softplus: softplus::preset().unwrap() }
    }

    /// The residual stream before every block and after the last.
    pub(super) fn streams(&self, ids: &[u32]) -> Vec<Vec<Vec<f64>>> {
        let (shape, weights) = (self.model.config().shape(), self.model.weights());
        let row = |&id: &u32| {
            let at = id as usize * shape.d_model;
            weights.embedding[at..at + shape.d_model].iter().map(|&v| v.into()).collect()
        };
        let mut streams: Vec<Vec<Vec<f64>>> = vec![ids.iter().map(row).collect()];
        for layer in &weights.layers {
            let mut stream = streams.last().unwrap().clone();
            self.block(shape, layer, &mut stream);
            streams.push(stream);
        }
        streams
    }

    pub(super) fn logits(&self, stream: &[Vec<f64>]) -> Vec<f64> {
        let (shape, weights) = (self.model.config().shape(), self.model.weights());
        let states: Vec<Vec<f64>> = stream.iter().map(|row| norm(row, &weights.norm, shape.norm_eps, 1)).collect();
        let pooled: Vec<f64> = match shape.pooling {
            Pooling::Last => states.last().unwrap().clone(),
            Pooling::Mean => {
                let column = |i: usize| states.iter().map(|s| s[i]).sum::<f64>() / states.len() as f64;
                (0..shape.d_model).map(column).collect()
            }
        };
        let head = weights.head.as_ref().unwrap();
        linear(&pooled, &head.weight).iter().zip(&head.bias).map(|(v, b)| v + f64::from(*b)).collect()
    }

    fn block(&self, shape: &Shape, layer: &Layer, stream: &mut [Vec<f64>]) {
        let (inner, channels, n, p) = (shape.inner(), shape.conv_dim(), shape.state, shape.head_dim);
        let taps = shape.conv_width;
        let projected: Vec<Vec<f64>> =
            stream.iter().map(|row| linear(&norm(row, &layer.norm, shape.norm_eps, 1), &layer.in_proj)).collect();
        let mut states = vec![vec![0.0; p * n]; shape.heads];
        for (t, row) in stream.iter_mut().enumerate() {
            let conv = |c: usize| {
                let past = (0..taps.min(t + 1))
                    .map(|d| projected[t - d][inner + c] * f64::from(layer.conv[c * taps + taps - 1 - d]));
                self.silu.eval_f64(past.sum::<f64>() + f64::from(layer.conv_bias[c]))
            };
            let xbc: Vec<f64> = (0..channels).map(conv).collect();
            let mut y = vec![0.0; inner];
            for (h, state) in states.iter_mut().enumerate() {
                let (low, high) = shape.delta_limit;
                let dt = projected[t][inner + channels + h] + f64::from(layer.dt_bias[h]);
                let delta = self.softplus.eval_f64(dt).clamp(low.into(), high.into());
                let decay = (-f64::from(layer.a_log[h]).exp() * delta).exp();
                let b_at = inner + h / (shape.heads / shape.groups) * n;
                let c_at = b_at + shape.group_width();
                for i in 0..p {
                    let x = xbc[h * p + i];
                    let mut sum = f64::from(layer.d[h]) * x;
                    for j in 0..n {
                        let s = &mut state[i * n + j];
                        *s = decay * *s + delta * x * xbc[b_at + j];
                        sum += *s * xbc[c_at + j];
                    }
                    y[h * p + i] = sum * self.silu.eval_f64(projected[t][h * p + i]);
                }
            }
            let normed = norm(&y, &layer.gated_norm, shape.norm_eps, shape.norm_groups);
            let out = linear(&normed, &layer.out_proj);
            row.iter_mut().zip(out).for_each(|(u, v)| *u += v);
        }
    }
}
