//! A block's weights as integers.
//!
//! The weight of the norm before the mixer and `sqrt(d) / 2^e` (see [`super::norm`]) are folded into W_in,
//! those of the gated norm into W_out. Biases stand at the scale of the sum that they are added to. A has 18
//! bits and stays the server's.
//!
//! Both matrices are made from the floats whenever they are used and are not kept: a twin holds its weights
//! once, as f32, and making them costs less than a hundredth of the product that they go into. [`Block::new`]
//! makes them once, so that a weight that does not fit is found then.

use super::activation::Steps;
use super::error::TwinError;
use super::forms::Forms;
use super::linear::{Conv, Linear};
use super::norm::Norm;
use super::scan::{self, Scan};
use crate::Plan;
use crate::float::Layer;
use crate::outline::scale::RATE;
use crate::outline::{Scales, Silu, Softplus};
use crate::{Result, Shape};

/// Rounds weights of one tensor.
pub(super) struct Quantizer {
    pub(super) layer: usize,
    pub(super) bits: u32,
}

impl Quantizer {
    /// One value at `frac` bits, which must fit the ring.
    pub(super) fn one(&self, tensor: &'static str, value: f64, frac: u32) -> Result<i64> {
        let scaled = (value * f64::from(frac).exp2()).round();
        if scaled.abs() < f64::from(self.bits - 1).exp2() {
            return Ok(scaled as i64);
        }
        Err(TwinError::Weight { layer: self.layer, tensor, value, frac, ring: self.bits }.into())
    }

    /// A vector.
    pub(super) fn all(&self, tensor: &'static str, values: impl Iterator<Item = f64>, frac: u32) -> Result<Vec<i64>> {
        values.map(|v| self.one(tensor, v, frac)).collect()
    }

    /// Rows of a matrix, each column times `fold`.
    pub(super) fn rows(&self, tensor: &'static str, rows: &[f32], fold: &[f64], frac: u32) -> Result<Vec<i64>> {
        let mut out = Vec::with_capacity(rows.len());
        self.extend(&mut out, tensor, rows, fold, frac)?;
        Ok(out)
    }

    /// The same after what `out` has.
    fn extend(&self, out: &mut Vec<i64>, tensor: &'static str, rows: &[f32], fold: &[f64], frac: u32) -> Result<()> {
        for (&w, g) in rows.chunks_exact(fold.len()).flat_map(|row| row.iter().zip(fold)) {
            out.push(self.one(tensor, f64::from(w) * g, frac)?);
        }
        Ok(())
    }
}

/// `gamma ratio` as f64.
pub(super) fn fold(gamma: &[f32], ratio: f64) -> Vec<f64> {
    gamma.iter().map(|&g| f64::from(g) * ratio).collect()
}

/// Rows of the input projection: z, then x, B and C, then dt, each at its scale.
fn in_rows(q: &Quantizer, shape: &Shape, s: &Scales, norm: &Norm, w: &Layer) -> Result<Vec<i64>> {
    let before = fold(&w.norm, norm.ratio());
    let (z, rest) = w.in_proj.split_at(shape.inner() * shape.d_model);
    let (xbc, dt) = rest.split_at(shape.conv_dim() * shape.d_model);
    let mut rows = Vec::with_capacity(w.in_proj.len());
    let parts = [
        ("in_proj (z)", z, s.gate_weight),
        ("in_proj (x, B, C)", xbc, s.conv_weight),
        ("in_proj (dt)", dt, s.step_weight),
    ];
    for (tensor, part, frac) in parts {
        q.extend(&mut rows, tensor, part, &before, frac)?;
    }
    Ok(rows)
}

/// Rows of the output projection.
fn out_rows(q: &Quantizer, s: &Scales, gated: &Norm, w: &Layer) -> Result<Vec<i64>> {
    q.rows("out_proj", &w.out_proj, &fold(&w.gated_norm, gated.ratio()), s.out_weight)
}

/// One block, ready to run; its two matrices stay with the floats.
pub(super) struct Block {
    pub(super) scales: Scales,
    pub(super) norm: Norm,
    pub(super) in_proj: Linear,
    pub(super) conv: Conv,
    /// Bias of dt at the scale of its product.
    pub(super) step_bias: Vec<i64>,
    pub(super) gate: Silu,
    pub(super) x: Silu,
    pub(super) bc: Silu,
    pub(super) steps: Steps,
    pub(super) scan: Box<dyn Scan>,
    pub(super) gated: Norm,
    pub(super) out_proj: Linear,
}

/// From dt to Delta and A Delta. `rates` are the |A|.
pub(super) fn steps(
    q: &Quantizer,
    plan: &Plan,
    softplus: Softplus,
    limit: (f32, f32),
    rates: impl Iterator<Item = f64>,
) -> Result<Steps> {
    let f = plan.numbers.frac;
    Ok(match softplus {
        Softplus::Polynomial(form) if plan.numbers.uniform => Steps::paper(form, q.all("A", rates, f)?, f, limit),
        softplus => Steps::fast(softplus, q.all("A", rates, RATE)?, limit, plan.clamp),
    })
}

impl Block {
    /// A block from its forms and its weights.
    pub(super) fn new(layer: usize, plan: &Plan, shape: &Shape, forms: Forms, w: &Layer) -> Result<Self> {
        let q = Quantizer { layer, bits: plan.numbers.bits };
        let f = plan.numbers.frac;
        let Forms { scales, norm, gated, gate, x, bc, softplus, exp } = forms;
        let (inner, channels) = (shape.inner(), shape.conv_dim());
        let in_proj = Linear::new(shape.d_model, shape.proj_dim(), &in_rows(&q, shape, &scales, &norm, w)?);
        let width = shape.conv_width;
        let tap = |d: usize| w.conv.iter().skip(width - 1 - d).step_by(width).map(|&v| v.into());
        let taps = (0..width).map(|d| q.all("conv", tap(d), scales.conv_tap)).collect::<Result<_>>()?;
        let bias = q.all("conv bias", w.conv_bias.iter().map(|&v| v.into()), plan.conv_frac(&scales))?;
        let step_bias = q.all("dt bias", w.dt_bias.iter().map(|&v| v.into()), f + scales.step_weight)?;
        let rates = w.a_log.iter().map(|&v| f64::from(v).exp());
        let steps = steps(&q, plan, softplus, shape.delta_limit, rates)?;
        let scan = scan::new(&q, plan, &scales, exp, &w.d)?;
        let out_proj = Linear::new(inner, shape.d_model, &out_rows(&q, &scales, &gated, w)?);
        Ok(Self {
            norm,
            in_proj,
            conv: Conv { channels, taps, bias },
            step_bias,
            gate,
            x,
            bc,
            steps,
            scan,
            gated,
            out_proj,
            scales,
        })
    }

    /// The input projection as integers: `proj_dim` rows of `d_model`.
    pub(super) fn in_rows(&self, q: &Quantizer, shape: &Shape, w: &Layer) -> Result<Vec<i64>> {
        in_rows(q, shape, &self.scales, &self.norm, w)
    }

    /// The output projection as integers: `d_model` rows of `inner`.
    pub(super) fn out_rows(&self, q: &Quantizer, w: &Layer) -> Result<Vec<i64>> {
        out_rows(q, &self.scales, &self.gated, w)
    }
}
