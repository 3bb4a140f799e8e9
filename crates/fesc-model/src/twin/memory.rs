//! The scan alone: what heads remember after a document. For tests and reports about memory.

use super::error::TwinError;
use super::exponent::Exp;
use super::forms;
use super::quantize::{self, Quantizer};
use super::range::{Quantity as Q, Run};
use super::rounding::Rounding;
use super::scan::{self, Packet};
use super::stats::{self, LayerStats};
use crate::Plan;
use crate::float::{Layer, Matrix};
use crate::outline::{Exponential, Scales, Softplus};
use crate::{Result, Shape};

/// Heads and what they are fed, as real numbers.
#[derive(Debug, Clone, Copy)]
pub struct Heads<'a> {
    /// Only `heads`, `head_dim`, `state`, `groups` and `delta_limit` are used.
    pub shape: &'a Shape,
    /// x, B, C: one row of `conv_dim` values per token.
    pub xbc: &'a Matrix,
    /// dt with its bias, before softplus: one row of `heads` values per token.
    pub steps: &'a Matrix,
    /// |A| of each head.
    pub rates: &'a [f32],
}

/// The states after the last token: by head, `head_dim` rows of `state` values.
///
/// Inputs are rounded to the plan's scales, which follow from the inputs' own ranges with the usual
/// margins.
pub fn states(heads: &Heads<'_>, plan: Plan, rounding: &mut Rounding) -> Result<Vec<Vec<f64>>> {
    let shape = heads.shape;
    let (count, tokens) = (shape.heads, heads.steps.rows());
    let sizes = [heads.xbc.cols() == shape.conv_dim(), heads.steps.cols() == count, heads.rates.len() == count];
    if tokens == 0 || heads.xbc.rows() != tokens || sizes.contains(&false) {
        return Err(TwinError::BadCalibration { reason: "the scan's inputs do not fit its shape".into() }.into());
    }
    forms::check(&plan)?;
    let scales = scales(heads, &plan)?;
    let (softplus, exp) = if plan.numbers.uniform {
        let (_, softplus, exp) = forms::paper(0, &plan)?;
        (softplus, exp)
    } else {
        let sums = [Exponential::chunk(0, plan.exp, scales.exp)?, Exponential::document(0, plan.exp, scales.exp)?];
        (Softplus::new(0, plan.activations, shape.delta_limit)?, Exp::Sums(Box::new(sums)))
    };
    let q = Quantizer { layer: 0, bits: plan.numbers.bits };
    let rates = heads.rates.iter().map(|&v| v.into());
    let steps = quantize::steps(&q, &plan, softplus, shape.delta_limit, rates)?;
    let scan = scan::new(&q, &plan, &scales, exp, &vec![0.0; count])?;
    let inner = shape.inner();
    let mut xbc = Vec::with_capacity(heads.xbc.data().len());
    for row in heads.xbc.data().chunks_exact(shape.conv_dim()) {
        let real = |v: &f32| f64::from(*v);
        xbc.extend(q.all("x", row[..inner].iter().map(real), scales.x)?);
        xbc.extend(q.all("B, C", row[inner..].iter().map(real), scales.bc)?);
    }
    let step_frac = steps.in_frac();
    let mut run = Run::new(plan.numbers.bits, false, rounding);
    let mut local = run.local();
    let (mut delta, mut z) = (Vec::with_capacity(tokens * count), Vec::with_capacity(tokens * count));
    for (i, &v) in heads.steps.data().iter().enumerate() {
        // Rounded like any other value: the nearest integer alone would repeat one error on a constant input.
        let fine = q.one("dt", v.into(), step_frac + 12)?;
        let v = local.round(Q::Step, fine, step_frac + 12, step_frac);
        let (d, s) = steps.eval(&mut local, i % count, v);
        delta.push(d);
        z.push(s);
    }
    run.settle(vec![local])?;
    let packet = Packet { shape, xbc: &xbc, delta: &delta, z: &z, last: true };
    let unit = (-f64::from(scales.state)).exp2();
    let (n, dim) = (shape.state, shape.head_dim);
    let (_, last) = scan.run(&mut run, &packet)?;
    let entry = |head: usize, p: usize, i: usize| last[i * inner + head * dim + p] as f64 * unit;
    let one = |head| (0..dim).flat_map(|p| (0..n).map(move |i| (p, i))).map(|(p, i)| entry(head, p, i)).collect();
    Ok((0..count).map(one).collect())
}

/// Scales from the ranges of these very inputs.
fn scales(heads: &Heads<'_>, plan: &Plan) -> Result<Scales> {
    let shape = heads.shape;
    let layer = Layer {
        norm: Vec::new(),
        in_proj: Vec::new(),
        conv: Vec::new(),
        conv_bias: Vec::new(),
        dt_bias: Vec::new(),
        a_log: heads.rates.iter().map(|a| a.ln()).collect(),
        d: Vec::new(),
        gated_norm: Vec::new(),
        out_proj: Vec::new(),
    };
    let (low, high) = shape.delta_limit;
    let mut delta = heads.steps.clone();
    for v in delta.data_mut() {
        *v = fesc_approx::functions::softplus(f64::from(*v)) as f32;
        *v = v.clamp(low, high);
    }
    let mut stats = LayerStats::empty();
    stats::scan_ranges(&mut stats, shape, &layer, heads.xbc, &delta);
    match plan.numbers.uniform {
        false => Scales::choose(0, &stats, 1, 1),
        true => Ok(Scales::uniform(plan.numbers.frac)),
    }
}
