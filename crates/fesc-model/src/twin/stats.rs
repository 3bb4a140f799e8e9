//! The ranges of one block's tensors on one document, measured on the float model.
//!
//! [`Model::forward_with`](crate::Model::forward_with) shows the tensors between stages; what lies inside a
//! stage (the convolution before its SiLU, C B^T, the states of the block dual form) is computed again here.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::float::{Layer, Matrix};
use crate::outline::scale::CHUNK;
use crate::{Shape, Tensor};

/// The smallest and the largest value seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Span {
    const EMPTY: Self = Self { min: f64::MAX, max: f64::MIN };

    fn note(&mut self, v: f64) {
        self.min = self.min.min(v);
        self.max = self.max.max(v);
    }

    fn merge(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub(super) fn is_sound(&self) -> bool {
        self.min.is_finite() && self.max.is_finite() && self.min <= self.max
    }
}

/// Ranges of one norm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormStats {
    /// Largest |value| of the input.
    pub input: f64,
    /// The mean of squares of a row (of a group), epsilon not included.
    pub mean_square: Span,
}

impl NormStats {
    pub(super) const EMPTY: Self = Self { input: 0.0, mean_square: Span::EMPTY };

    /// Takes the rows of `x`, each in `groups` parts.
    pub(super) fn note(&mut self, x: &Matrix, groups: usize) {
        self.input = self.input.max(largest(x.data()));
        let width = x.cols() / groups;
        for part in x.data().chunks_exact(width) {
            let sum: f64 = part.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
            self.mean_square.note(sum / width as f64);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.input = self.input.max(other.input);
        self.mean_square.merge(&other.mean_square);
    }
}

/// Ranges of one block: largest magnitudes unless said otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerStats {
    /// The norm before the mixer.
    pub norm: NormStats,
    /// z.
    pub gate: f64,
    /// x, B and C before their SiLU, bias included.
    pub conv: f64,
    /// dt with its bias, before softplus.
    pub step: Span,
    /// The largest Delta.
    pub delta: f64,
    /// x after SiLU.
    pub x: f64,
    /// B and C after SiLU.
    pub bc: f64,
    /// C B^T inside a chunk.
    pub score: f64,
    /// The state that a chunk leaves alone.
    pub chunk_state: f64,
    /// The state.
    pub state: f64,
    /// C H with H the state at the chunk's begin.
    pub carried: f64,
    /// y.
    pub scanned: f64,
    /// The gated norm, by group.
    pub gated: NormStats,
    /// What the block adds to the residual stream.
    pub out: f64,
}

impl LayerStats {
    pub(super) fn empty() -> Self {
        Self {
            norm: NormStats::EMPTY,
            gate: 0.0,
            conv: 0.0,
            step: Span::EMPTY,
            delta: 0.0,
            x: 0.0,
            bc: 0.0,
            score: 0.0,
            chunk_state: 0.0,
            state: 0.0,
            carried: 0.0,
            scanned: 0.0,
            gated: NormStats::EMPTY,
            out: 0.0,
        }
    }

    /// The magnitudes, for merging and for checks.
    pub(super) fn magnitudes(&mut self) -> [&mut f64; 13] {
        let s = self;
        [
            &mut s.gate,
            &mut s.conv,
            &mut s.delta,
            &mut s.x,
            &mut s.bc,
            &mut s.score,
            &mut s.chunk_state,
            &mut s.state,
            &mut s.carried,
            &mut s.scanned,
            &mut s.out,
            &mut s.norm.input,
            &mut s.gated.input,
        ]
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        self.norm.merge(&other.norm);
        self.gated.merge(&other.gated);
        self.step.merge(&other.step);
        self.magnitudes().into_iter().zip(other.magnitudes()).for_each(|(a, b)| *a = a.max(*b));
    }
}

/// What must be kept from earlier tensors of a block until a later one can be measured.
#[derive(Default)]
pub(super) struct Kept {
    residual: Option<Matrix>,
    convolved: Option<Matrix>,
}

/// Largest magnitude.
fn largest(values: &[f32]) -> f64 {
    values.iter().fold(0.0f32, |m, v| m.max(v.abs())).into()
}

/// One tensor of a block.
pub(super) fn note(
    stats: &mut LayerStats,
    kept: &mut Kept,
    shape: &Shape,
    layer: &Layer,
    chunk: usize,
    tensor: Tensor,
    x: &Matrix,
) {
    match tensor {
        Tensor::Residual => {
            stats.norm.note(x, 1);
            kept.residual = Some(x.clone());
        }
        Tensor::Projected => projected(stats, shape, layer, x),
        Tensor::Convolved => {
            for row in x.data().chunks_exact(shape.conv_dim()) {
                let (inner, bc) = row.split_at(shape.inner());
                stats.x = stats.x.max(largest(inner));
                stats.bc = stats.bc.max(largest(bc));
            }
            kept.convolved = Some(x.clone());
        }
        Tensor::Delta => {
            stats.delta = stats.delta.max(largest(x.data()));
            if let Some(xbc) = kept.convolved.take() {
                scan(stats, shape, layer, chunk, &xbc, x);
            }
        }
        Tensor::Scanned => stats.scanned = stats.scanned.max(largest(x.data())),
        Tensor::Gated => stats.gated.note(x, shape.norm_groups),
        Tensor::Normed | Tensor::GatedNormed => {}
    }
}

/// The ranges of a scan that is not part of a model.
pub(super) fn scan_ranges(stats: &mut LayerStats, shape: &Shape, layer: &Layer, xbc: &Matrix, delta: &Matrix) {
    let mut kept = Kept::default();
    note(stats, &mut kept, shape, layer, CHUNK, Tensor::Convolved, xbc);
    note(stats, &mut kept, shape, layer, CHUNK, Tensor::Delta, delta);
    // The norms are not used; an empty span would have no scale.
    stats.step.note(0.0);
    stats.norm.mean_square.note(1.0);
    stats.gated.mean_square.note(1.0);
}

/// What the block added, once the next residual is known.
pub(super) fn note_output(stats: &mut LayerStats, kept: &mut Kept, next: &Matrix) {
    if let Some(before) = kept.residual.take() {
        let added = next.data().iter().zip(before.data()).map(|(a, b)| (a - b).abs());
        stats.out = stats.out.max(added.fold(0.0, f32::max).into());
    }
}

fn projected(stats: &mut LayerStats, shape: &Shape, layer: &Layer, x: &Matrix) {
    let (inner, channels, taps) = (shape.inner(), shape.conv_dim(), shape.conv_width);
    for t in 0..x.rows() {
        let row = x.row(t);
        stats.gate = stats.gate.max(largest(&row[..inner]));
        for (v, bias) in row[inner + channels..].iter().zip(&layer.dt_bias) {
            stats.step.note(f64::from(v + bias));
        }
    }
    let conv = (0..x.rows()).into_par_iter().map(|t| {
        let mut row = layer.conv_bias.clone();
        for k in 0..taps {
            let Some(from) = (t + 1 + k).checked_sub(taps) else { continue };
            let source = &x.row(from)[inner..inner + channels];
            for ((out, v), w) in row.iter_mut().zip(source).zip(layer.conv.iter().skip(k).step_by(taps)) {
                *out += v * w;
            }
        }
        largest(&row)
    });
    stats.conv = stats.conv.max(conv.reduce(|| 0.0, f64::max));
}

/// C B^T and the states, head by head.
fn scan(stats: &mut LayerStats, shape: &Shape, layer: &Layer, chunk: usize, xbc: &Matrix, delta: &Matrix) {
    let (n, width) = (shape.state, shape.group_width());
    for group in 0..shape.groups {
        let b_at = shape.inner() + group * n;
        let score = (0..xbc.rows()).into_par_iter().map(|i| {
            let c = &xbc.row(i)[b_at + width..b_at + width + n];
            let dot = |j: usize| c.iter().zip(&xbc.row(j)[b_at..b_at + n]).map(|(c, b)| c * b).sum::<f32>().abs();
            (i / chunk * chunk..=i).map(dot).fold(0.0, f32::max)
        });
        stats.score = stats.score.max(score.reduce(|| 0.0, f32::max).into());
    }
    let heads = (0..shape.heads).into_par_iter().map(|h| head(shape, layer, chunk, xbc, delta, h));
    let [chunk_state, state, carried] = heads.reduce(|| [0.0; 3], |a, b| std::array::from_fn(|i| f64::max(a[i], b[i])));
    stats.chunk_state = stats.chunk_state.max(chunk_state);
    stats.state = stats.state.max(state);
    stats.carried = stats.carried.max(carried);
}

/// Largest state of one chunk alone, largest state, largest C H of one head.
fn head(shape: &Shape, layer: &Layer, chunk: usize, xbc: &Matrix, delta: &Matrix, h: usize) -> [f64; 3] {
    let (p, n) = (shape.head_dim, shape.state);
    let b_at = shape.inner() + h / (shape.heads / shape.groups) * n;
    let c_at = b_at + shape.group_width();
    let a = -f64::from(layer.a_log[h]).exp();
    let most = |v: &[f64]| v.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    let (mut start, mut alone) = (vec![0.0f64; p * n], vec![0.0f64; p * n]);
    let mut seen = [0.0f64; 3];
    for from in (0..xbc.rows()).step_by(chunk) {
        let to = (from + chunk).min(xbc.rows());
        alone.fill(0.0);
        let mut through = 1.0;
        for t in from..to {
            let row = xbc.row(t);
            let step = f64::from(delta.row(t)[h]);
            let decay = (a * step).exp();
            through *= decay;
            let (b, c) = (&row[b_at..b_at + n], &row[c_at..c_at + n]);
            for (state, x) in alone.chunks_exact_mut(n).zip(&row[h * p..(h + 1) * p]) {
                let scale = step * f64::from(*x);
                state.iter_mut().zip(b).for_each(|(s, b)| *s = decay * *s + scale * f64::from(*b));
            }
            if from > 0 {
                for state in start.chunks_exact(n) {
                    let carried: f64 = state.iter().zip(c).map(|(s, c)| s * f64::from(*c)).sum();
                    seen[2] = seen[2].max(carried.abs());
                }
            }
        }
        seen[0] = seen[0].max(most(&alone));
        start.iter_mut().zip(&alone).for_each(|(s, a)| *s = through * *s + a);
        seen[1] = seen[1].max(most(&start));
    }
    seen
}
