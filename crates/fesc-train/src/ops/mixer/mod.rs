//! The mixer between the two projections as one operation: convolution, SiLU, softplus, scan, skip, gate.
//!
//! Input: the projected tokens `z, x, B, C, dt`, one row each, and one vector of parameters ([`Parts`]).
//! Output: `y SiLU(z)`, one row of `inner` values per token. See [`fesc_model::float`] for the formulas and
//! `scan.rs` for the recurrence. The backward pass computes the forward pass again, so that the graph keeps
//! nothing but input and output; what it needs besides is one document's tensors and one state per sixteen
//! tokens.

mod conv;
mod scan;

use std::ops::Range;
use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp2, Layout as Strides, Result, Shape as Dims, Tensor};
use fesc_model::Shape;
use pulp::Arch;

use super::{Layout, sized, tensor, values, with_values};
use crate::forms::Forms;
use conv::Columns;
use scan::{Backward, Forward, Head};

/// Where the parameters are in the packed vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Convolution: `conv_dim` rows of `conv_width` taps.
    pub conv: Range<usize>,
    /// Its bias.
    pub conv_bias: Range<usize>,
    /// Delta's bias.
    pub dt_bias: Range<usize>,
    /// ln(-A).
    pub a_log: Range<usize>,
    /// The skip.
    pub d: Range<usize>,
}

impl Parts {
    /// The places for a shape.
    pub fn new(s: &Shape) -> Self {
        let mut end = 0;
        let mut next = |size| {
            let start = end;
            end += size;
            start..end
        };
        Self {
            conv: next(s.conv_dim() * s.conv_width),
            conv_bias: next(s.conv_dim()),
            dt_bias: next(s.heads),
            a_log: next(s.heads),
            d: next(s.heads),
        }
    }

    /// Values in all.
    pub fn size(&self) -> usize {
        self.d.end
    }
}

/// The operation for packed documents of one layout.
#[derive(Debug, Clone)]
pub struct Mixer {
    shape: Shape,
    layout: Arc<Layout>,
    forms: Arc<Forms>,
    parts: Parts,
}

/// One document after convolution and softplus.
struct Tokens {
    /// x, B, C.
    xbc: Vec<f32>,
    /// Derivative of SiLU there.
    slope: Vec<f32>,
    /// Delta by head: `heads` rows of one value per token.
    delta: Vec<f32>,
    /// dDelta / d dt, in the same order.
    delta_slope: Vec<f32>,
    /// The decay and its derivative by `A Delta`, in the same order.
    decay: Vec<f32>,
    decay_slope: Vec<f32>,
}

impl Mixer {
    /// The operation.
    pub fn new(shape: &Shape, layout: Arc<Layout>, forms: Arc<Forms>) -> Self {
        Self { shape: *shape, layout, forms, parts: Parts::new(shape) }
    }

    fn columns(&self) -> Columns {
        let s = &self.shape;
        Columns { stride: s.proj_dim(), first: s.inner(), channels: s.conv_dim() }
    }

    fn tokens(&self, x: &[f32], taps: &[f32], w: &[f32], slopes: bool) -> Tokens {
        let s = &self.shape;
        let length = x.len() / s.proj_dim();
        let mut u = vec![0.0; length * s.conv_dim()];
        conv::forward(x, self.columns(), taps, &w[self.parts.conv_bias.clone()], &mut u);
        let mut slope = Vec::new();
        let xbc = if slopes {
            let mut xbc = vec![0.0; u.len()];
            slope = vec![0.0; u.len()];
            self.forms.silu.values_and_slopes(&u, &mut xbc, &mut slope);
            xbc
        } else {
            let mut xbc = vec![0.0; u.len()];
            self.forms.silu.values(&u, &mut xbc);
            xbc
        };
        let mut raw = vec![0.0; s.heads * length];
        let biases = &w[self.parts.dt_bias.clone()];
        for (row, (t, bias)) in raw.chunks_exact_mut(length).zip(biases.iter().enumerate()) {
            let source = x.chunks_exact(s.proj_dim()).map(|row| row[s.proj_dim() - s.heads + t]);
            row.iter_mut().zip(source).for_each(|(out, v)| *out = v + bias);
        }
        let (mut delta, mut delta_slope) = (vec![0.0; raw.len()], vec![0.0; raw.len()]);
        self.forms.softplus.values_and_slopes(&raw, &mut delta, &mut delta_slope);
        let (low, high) = s.delta_limit;
        // A form of softplus may be a little below 0, and no protocol has a comparison for that.
        let low = if low > 0.0 { low } else { f32::NEG_INFINITY };
        for (delta, slope) in delta.iter_mut().zip(&mut delta_slope) {
            if *delta < low || *delta > high {
                (*delta, *slope) = (delta.clamp(low, high), 0.0);
            }
        }
        let (mut decay, mut decay_slope) = (raw, vec![0.0; delta.len()]);
        let rows = delta.chunks_exact(length).zip(&w[self.parts.a_log.clone()]);
        let out = decay.chunks_exact_mut(length).zip(decay_slope.chunks_exact_mut(length));
        for ((delta, a_log), (decay, slope)) in rows.zip(out) {
            let a = -a_log.exp();
            for ((delta, decay), slope) in delta.iter().zip(decay).zip(slope) {
                (*decay, *slope) = self.forms.decay.at(a * delta);
            }
        }
        Tokens { xbc, slope, delta, delta_slope, decay, decay_slope }
    }

    fn head<'a>(&self, tokens: &'a Tokens, w: &[f32], head: usize) -> Head<'a> {
        let s = &self.shape;
        let length = tokens.delta.len() / s.heads;
        let b_at = s.inner() + head / (s.heads / s.groups) * s.state;
        Head {
            xbc: &tokens.xbc,
            conv_dim: s.conv_dim(),
            x_at: head * s.head_dim,
            b_at,
            c_at: b_at + s.group_width(),
            head_dim: s.head_dim,
            state: s.state,
            delta: &tokens.delta[head * length..(head + 1) * length],
            decay: &tokens.decay[head * length..(head + 1) * length],
            d: w[self.parts.d.start + head],
        }
    }

    /// Writes `y SiLU(z)` of one document.
    fn document(&self, x: &[f32], taps: &[f32], w: &[f32], out: &mut [f32]) {
        let s = &self.shape;
        let (inner, p) = (s.inner(), s.head_dim);
        let tokens = self.tokens(x, taps, w, false);
        for i in 0..s.heads {
            let head = self.head(&tokens, w, i);
            Arch::new().dispatch(Forward { head, y: out, stride: inner, at: i * p, keep: None });
        }
        let mut gate = vec![0.0; inner];
        for (out, row) in out.chunks_exact_mut(inner).zip(x.chunks_exact(s.proj_dim())) {
            self.forms.silu.values(&row[..inner], &mut gate);
            out.iter_mut().zip(&gate).for_each(|(y, g)| *y *= g);
        }
    }

    /// Writes the gradient of one document's input and adds to that of the parameters (taps apart, by tap).
    fn document_backward(
        &self,
        x: &[f32],
        taps: &[f32],
        w: &[f32],
        dout: &[f32],
        dx: &mut [f32],
        (dw, dtaps): (&mut [f32], &mut [f32]),
    ) {
        let s = &self.shape;
        let (inner, p, proj) = (s.inner(), s.head_dim, s.proj_dim());
        let length = x.len() / proj;
        let tokens = self.tokens(x, taps, w, true);
        let mut y = vec![0.0; length * inner];
        let mut kept: Vec<Vec<f32>> = Vec::with_capacity(s.heads);
        for i in 0..s.heads {
            let head = self.head(&tokens, w, i);
            let mut keep = Vec::new();
            Arch::new().dispatch(Forward { head, y: &mut y, stride: inner, at: i * p, keep: Some(&mut keep) });
            kept.push(keep);
        }
        // Through the gate: y becomes its own gradient.
        let (mut gate, mut slope) = (vec![0.0; inner], vec![0.0; inner]);
        let rows = x.chunks_exact(proj).zip(dx.chunks_exact_mut(proj)).zip(dout.chunks_exact(inner));
        for (y, ((x, dx), dout)) in y.chunks_exact_mut(inner).zip(rows) {
            self.forms.silu.values_and_slopes(&x[..inner], &mut gate, &mut slope);
            let sides = gate.iter().zip(&slope).zip(dout);
            for ((y, dz), ((gate, slope), dout)) in y.iter_mut().zip(&mut dx[..inner]).zip(sides) {
                *dz = dout * *y * slope;
                *y = dout * gate;
            }
        }
        let mut dxbc = vec![0.0; tokens.xbc.len()];
        let (mut ddecay, mut ddelta) = (vec![0.0; length], vec![0.0; length]);
        for (i, kept) in kept.iter().enumerate() {
            let head = self.head(&tokens, w, i);
            let (dxbc, ddecay, ddelta) = (&mut dxbc[..], &mut ddecay[..], &mut ddelta[..]);
            let pass = Backward { head, kept, dy: &y, stride: inner, at: i * p, dxbc, ddecay, ddelta };
            dw[self.parts.d.start + i] += Arch::new().dispatch(pass);
            let a = -w[self.parts.a_log.start + i].exp();
            let (mut da, mut dbias) = (0.0, 0.0);
            for t in 0..length {
                let at = i * length + t;
                let dz = ddecay[t] * tokens.decay_slope[at];
                da += dz * tokens.delta[at];
                let ddt = (ddelta[t] + dz * a) * tokens.delta_slope[at];
                dbias += ddt;
                dx[t * proj + proj - s.heads + i] = ddt;
            }
            dw[self.parts.a_log.start + i] += da * a;
            dw[self.parts.dt_bias.start + i] += dbias;
        }
        dxbc.iter_mut().zip(&tokens.slope).for_each(|(d, slope)| *d *= slope);
        let dbias = &mut dw[self.parts.conv_bias.clone()];
        conv::backward(x, self.columns(), taps, &dxbc, dx, dtaps, dbias);
    }

    fn check(&self, x: usize, w: usize) -> Result<()> {
        sized("the mixer's tokens", x, self.layout.rows() * self.shape.proj_dim())?;
        sized("the mixer's parameters", w, self.parts.size())
    }
}

impl CustomOp2 for Mixer {
    fn name(&self) -> &'static str {
        "mixer"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Strides, s2: &CpuStorage, l2: &Strides) -> Result<(CpuStorage, Dims)> {
        let (x, w) = (values(s1, l1)?, values(s2, l2)?);
        self.check(x.len(), w.len())?;
        let (proj, inner) = (self.shape.proj_dim(), self.shape.inner());
        let taps = conv::by_tap(&w[self.parts.conv.clone()], self.shape.conv_dim());
        let mut out = vec![0.0; self.layout.rows() * inner];
        for d in self.layout.documents() {
            self.document(&x[d.start * proj..d.end * proj], &taps, w, &mut out[d.start * inner..d.end * inner]);
        }
        Ok((CpuStorage::F32(out), (self.layout.rows(), inner).into()))
    }

    fn bwd(&self, x: &Tensor, w: &Tensor, _: &Tensor, dout: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (proj, inner, channels) = (self.shape.proj_dim(), self.shape.inner(), self.shape.conv_dim());
        let (mut dx, mut dw) = (vec![0.0; x.elem_count()], vec![0.0; w.elem_count()]);
        let dout = dout.contiguous()?;
        with_values(x, |x| {
            with_values(w, |w| {
                with_values(&dout, |dout| {
                    self.check(x.len(), w.len())?;
                    let taps = conv::by_tap(&w[self.parts.conv.clone()], channels);
                    let mut dtaps = vec![0.0; taps.len()];
                    for d in self.layout.documents() {
                        let (wide, narrow) = (d.start * proj..d.end * proj, d.start * inner..d.end * inner);
                        let dx = &mut dx[wide.clone()];
                        self.document_backward(&x[wide], &taps, w, &dout[narrow], dx, (&mut dw, &mut dtaps));
                    }
                    conv::add_by_channel(&dtaps, channels, &mut dw[self.parts.conv.clone()]);
                    Ok(())
                })
            })
        })?;
        Ok((Some(tensor(dx, x.shape())?), Some(tensor(dw, w.shape())?)))
    }
}

/// `y SiLU(z)` of packed projected tokens.
pub fn mixer(projected: &Tensor, parameters: &Tensor, op: Mixer) -> Result<Tensor> {
    projected.apply_op2(parameters, op)
}

#[cfg(test)]
mod tests;
