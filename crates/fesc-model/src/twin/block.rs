//! One block, stage by stage.

use super::activation::silu;
use super::quantize::{Block, Quantizer};
use super::range::{Quantity as Q, Run};
use super::scan::Packet;
use crate::Plan;
use crate::float::Layer;
use crate::{Result, Shape, Tensor};

/// Takes a tensor of a block: rows of so many columns, at so many fractional bits.
pub(super) type See<'a> = dyn FnMut(Tensor, &[i64], usize, u32) + 'a;

impl Block {
    /// Adds the block's output to `stream`; `weights` are those that the block was made from.
    pub(super) fn run(
        &self,
        run: &mut Run<'_>,
        plan: &Plan,
        shape: &Shape,
        weights: &Layer,
        stream: &mut [i64],
        see: &mut See<'_>,
    ) -> Result<()> {
        let (s, f, inner) = (&self.scales, plan.numbers.frac, shape.inner());
        let q = Quantizer { layer: run.layer, bits: plan.numbers.bits };
        see(Tensor::Residual, stream, shape.d_model, f);
        let mut normed = stream.to_vec();
        self.norm.run(run, &mut normed, shape.d_model, f)?;
        let mut projected = self.in_proj.run(run, &self.in_rows(&q, shape, weights)?, &mut normed)?;
        drop(normed);
        let xbc = self.convolve(run, plan, shape, &mut projected)?;
        let (delta, z) = self.steps(run, plan, shape, &projected)?;
        let delta_frac = plan.numbers.delta;
        see(Tensor::Delta, &delta, shape.heads, delta_frac);
        let packet = Packet { shape, xbc: &xbc, delta: &delta, z: &z, last: false };
        let (mut y, _) = self.scan.run(run, &packet)?;
        drop(xbc);
        run.disturb_stage(|n| n.scan, &mut y, s.scanned);
        see(Tensor::Scanned, &y, inner, s.scanned);
        self.gate(run, plan, shape, &mut y, &projected)?;
        drop(projected);
        see(Tensor::Gated, &y, inner, s.gated);
        self.gated.run(run, &mut y, inner, s.gated)?;
        let mut out = self.out_proj.run(run, &self.out_rows(&q, weights)?, &mut y)?;
        run.disturb_outputs(&mut out);
        run.disturb_stage(|n| n.out_proj, &mut out, f + s.out_weight);
        let bits = plan.numbers.product_bits;
        run.rows(&mut out, shape.d_model, |local, _, row| {
            for v in row {
                *v = local.round_in(Q::Residual, bits, *v, f + s.out_weight, f);
            }
        })?;
        stream.iter_mut().zip(out).for_each(|(u, v)| *u = u.saturating_add(v));
        Ok(())
    }

    /// x, B and C after convolution and SiLU.
    fn convolve(&self, run: &mut Run<'_>, plan: &Plan, shape: &Shape, projected: &mut [i64]) -> Result<Vec<i64>> {
        let (s, f, inner, width) = (&self.scales, plan.numbers.frac, shape.inner(), shape.proj_dim());
        let bits = plan.numbers.product_bits;
        if plan.rounds_before_convolution() {
            run.rows(projected, width, |local, _, row| {
                for v in &mut row[inner..inner + shape.conv_dim()] {
                    *v = local.round_in(Q::Conv, bits, *v, f + s.conv_weight, f);
                }
            })?;
        }
        let sum = plan.conv_frac(s);
        let mut xbc = self.conv.run(run, projected, width, inner)?;
        run.disturb_stage(|n| n.in_proj, &mut xbc, sum);
        run.rows(&mut xbc, shape.conv_dim(), |local, _, row| {
            for (c, v) in row.iter_mut().enumerate() {
                let form = if c < inner { &self.x } else { &self.bc };
                let rounded = local.round_in(Q::Conv, bits, *v, sum, form.in_frac());
                *v = silu(local, form, Q::ConvForm, rounded);
            }
        })?;
        Ok(xbc)
    }

    /// Delta and A Delta, one row of `heads` values per token.
    fn steps(&self, run: &mut Run<'_>, plan: &Plan, shape: &Shape, projected: &[i64]) -> Result<(Vec<i64>, Vec<i64>)> {
        let (f, heads, width) = (plan.numbers.frac, shape.heads, shape.proj_dim());
        let (bits, from) = (plan.numbers.product_bits, f + self.scales.step_weight);
        let to = self.steps.in_frac();
        // Delta and z side by side, so that one pass makes both.
        let mut both = vec![0i64; 2 * heads * (projected.len() / width)];
        let mut noisy: Vec<i64> =
            projected.chunks_exact(width).flat_map(|row| row[width - heads..].iter().copied()).collect();
        run.disturb_outputs(&mut noisy);
        run.disturb_stage(|n| n.in_proj, &mut noisy, from);
        run.rows(&mut both, 2 * heads, |local, t, row| {
            let (delta, z) = row.split_at_mut(heads);
            let dt = &noisy[t * heads..(t + 1) * heads];
            for (head, ((delta, z), (&v, &bias))) in
                delta.iter_mut().zip(z).zip(dt.iter().zip(&self.step_bias)).enumerate()
            {
                let v = local.round_in(Q::Step, bits, v.saturating_add(bias), from, to);
                (*delta, *z) = self.steps.eval(local, head, v);
            }
        })?;
        let part =
            |first: usize| both.chunks_exact(2 * heads).flat_map(move |r| r[first..first + heads].iter().copied());
        Ok((part(0).collect(), part(heads).collect()))
    }

    /// y SiLU(z) at the scale of the gated norm.
    fn gate(&self, run: &mut Run<'_>, plan: &Plan, shape: &Shape, y: &mut [i64], projected: &[i64]) -> Result<()> {
        let (s, f, inner, width) = (&self.scales, plan.numbers.frac, shape.inner(), shape.proj_dim());
        let bits = plan.numbers.product_bits;
        let mut z: Vec<i64> = projected.chunks_exact(width).flat_map(|row| row[..inner].iter().copied()).collect();
        run.disturb_outputs(&mut z);
        run.disturb_stage(|n| n.in_proj, &mut z, f + s.gate_weight);
        run.rows(y, inner, |local, t, row| {
            for (y, &z) in row.iter_mut().zip(&z[t * inner..(t + 1) * inner]) {
                let z = local.round_in(Q::Gate, bits, z, f + s.gate_weight, self.gate.in_frac());
                let gate = silu(local, &self.gate, Q::GateForm, z);
                *y = local.round(Q::Gated, y.saturating_mul(gate), s.scanned + f, s.gated);
            }
        })
    }
}
