//! Final norm, pooling, classifier (docs/DESIGN.md, 6.4).
//!
//! Every token's state is normed; the client's secret selection vector (`1/len` at 24 bits for the mean, one
//! entry of 2^24 for the last token) times the L x d_model matrix is one product, rounded to F. The head is
//! exact: weights at 16 bits (the norm's weight folded in), logits at F + 16, never truncated. Arg-max
//! compares the exact integers; a tie goes to the first class, as in the float model and
//! `fesc_mpc::protocol::ArgMax`. Logits that are revealed are floored to 4 bits.

use super::linear::{exact, view};
use super::norm::Norm;
use super::quantize::{Quantizer, fold};
use super::range::{Quantity as Q, Run};
use crate::Plan;
use crate::float::Weights;
use crate::metrics::largest;
use crate::outline::scale::{HEAD, REVEAL};
use crate::{ModelError, Pooling, Result, Shape};

/// What the protocol computes for a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The exact logits as real numbers.
    pub logits: Vec<f64>,
    /// The class that the client learns.
    pub class: usize,
    /// The exact logits as integers at `frac` bits.
    pub integers: Vec<i64>,
    /// Their fractional bits.
    pub frac: u32,
    /// Logits floored to 4 fractional bits: what `--reveal logits` shows.
    pub revealed: Vec<i64>,
}

/// The last stages.
pub(super) struct Head {
    norm: Norm,
    pooling: Pooling,
    pub(super) weights: Vec<i64>,
    pub(super) bias: Vec<i64>,
    frac: u32,
    /// Fractional bits of the selection vector.
    pool: u32,
}

impl Head {
    /// The head from the form of the final norm and the weights; `None` where the model has none.
    pub(super) fn new(plan: &Plan, shape: &Shape, norm: Norm, weights: &Weights) -> Result<Option<Self>> {
        let Some(head) = &weights.head else { return Ok(None) };
        let pool = plan.numbers.pool;
        let q = Quantizer { layer: shape.layers, bits: plan.numbers.bits };
        let rows = q.rows("head", &head.weight, &fold(&weights.norm, norm.ratio()), HEAD)?;
        let bias = q.all("head bias", head.bias.iter().map(|&v| v.into()), plan.numbers.frac + HEAD)?;
        Ok(Some(Self { norm, pooling: shape.pooling, weights: rows, bias, frac: plan.numbers.frac, pool }))
    }

    /// Classifies from the residual stream; the first `tokens` rows are the document, what follows is
    /// padding.
    pub(super) fn run(&self, run: &mut Run<'_>, stream: &[i64], width: usize, tokens: usize) -> Result<Outcome> {
        let rows = stream.len() / width;
        if tokens == 0 || tokens > rows {
            return Err(ModelError::Pool { tokens, rows });
        }
        let f = self.frac;
        let mut states = stream.to_vec();
        self.norm.run(run, &mut states, width, f)?;
        let one = 1i64 << self.pool;
        let select: Vec<i64> = (0..rows)
            .map(|t| match self.pooling {
                Pooling::Last => {
                    if t + 1 == tokens {
                        one
                    } else {
                        0
                    }
                }
                Pooling::Mean if t < tokens => (one as f64 / tokens as f64).round() as i64,
                Pooling::Mean => 0,
            })
            .collect();
        let mut pooled = vec![0i64; width];
        exact(&mut pooled, view(&select, 1, rows)?, view(&states, rows, width)?)?;
        run.round(Q::Pooled, &mut pooled, width, f + self.pool, f)?;
        let mut integers = vec![0i64; self.bias.len()];
        exact(&mut integers, view(&pooled, 1, width)?, view(&self.weights, self.bias.len(), width)?.t())?;
        integers.iter_mut().zip(&self.bias).for_each(|(v, b)| *v = v.saturating_add(*b));
        let frac = f + HEAD;
        // The comparison of two needs their difference in half the ring.
        let limit = (1i64 << (run.bits - 2)) - 1;
        let mut local = run.local();
        integers.iter().for_each(|&v| local.see(Q::Logit, v, -limit, limit, frac));
        run.settle(vec![local])?;
        let class = largest(&integers).unwrap_or(0);
        let logits = integers.iter().map(|&v| v as f64 * (-f64::from(frac)).exp2()).collect();
        let revealed = integers.iter().map(|&v| v >> (frac - REVEAL)).collect();
        Ok(Outcome { logits, class, integers, frac, revealed })
    }
}
