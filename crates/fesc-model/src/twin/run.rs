//! The whole model, layer by layer.

use std::ops::Range;
use std::sync::Arc;

use super::block::See;
use super::calibrate::Calibration;
use super::forms::{self, Forms};
use super::head::{Head, Outcome};
use super::norm::Norm;
use super::quantize::{Block, Quantizer};
use super::range::{Margin, Quantity as Q, Run};
use super::rounding::Rounding;
use crate::float::Weights;
use crate::outline::{Outline, Scales};
use crate::plan::Projection;
use crate::{Config, Model, ModelError, Plan, Result, Site, Tensor};

/// One tensor of a run: integers with `frac` fractional bits, rows of `cols` values, one row per token.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// Where it is.
    pub site: Site,
    /// The integers.
    pub values: &'a [i64],
    /// Values per token.
    pub cols: usize,
    /// Fractional bits.
    pub frac: u32,
}

/// The fixed-point twin of a model. Holds the weights, shared with the model that it was made from, and makes
/// matrices and rows of the table from them when they are used. As secret as the weights, so no `Debug`.
pub struct Twin {
    plan: Plan,
    pub(super) config: Config,
    /// What a plan with calibrated scales is built from.
    pub(super) outline: Option<Outline>,
    pub(super) weights: Arc<Weights>,
    pub(super) blocks: Vec<Block>,
    pub(super) head: Option<Head>,
}

impl Twin {
    /// The twin of a model with the scales that its calibration gives.
    pub fn new(model: &Model, calibration: &Calibration, plan: Plan) -> Result<Self> {
        let (config, weights) = (model.config(), model.shared_weights());
        calibration.check(config)?;
        forms::check(&plan)?;
        // Every weight is looked at now: one that does not fit is no surprise later.
        let (q, frac) = table_scale(&plan);
        weights.embedding.iter().try_for_each(|&v| q.one("embedding", v.into(), frac).map(drop))?;
        let outline = match plan.numbers.uniform {
            false => {
                let classes = weights.head.as_ref().map_or(0, |head| head.bias.len());
                Some(Outline::new(config, calibration, plan)?.with_classes(classes)?)
            }
            true => None,
        };
        let blocks = weights.layers.iter().zip(&calibration.layers).enumerate().map(|(i, (w, stats))| {
            let calibrated = outline.as_ref().map(|outline| outline.layer(i)).transpose()?;
            Block::new(i, &plan, config, Forms::new(i, &plan, config, stats, calibrated)?, w)
        });
        let blocks = blocks.collect::<Result<_>>()?;
        let (span, eps) = (calibration.last.mean_square, f64::from(config.norm_eps));
        let last = outline.as_ref().map(Outline::last).transpose()?;
        let norm = Norm::new(config.layers, &plan, last, config.d_model, span, eps)?;
        let head = Head::new(&plan, config, norm, &weights)?;
        Ok(Self { plan, config: config.clone(), outline, weights, blocks, head })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The scales of every layer.
    pub fn scales(&self) -> impl Iterator<Item = &Scales> {
        self.blocks.iter().map(|b| &b.scales)
    }

    /// The residual stream after the last block: integers with [`Plan::frac`] bits, `d_model` per token.
    /// Shows the residual stream that enters each block (and leaves the last), Delta, y and the gated y on
    /// the way.
    pub fn forward(&self, ids: &[u32], rounding: &mut Rounding, see: &mut dyn FnMut(Shown<'_>)) -> Result<Vec<i64>> {
        let mut run = self.start(rounding);
        self.stream(&mut run, ids, see)
    }

    /// One block alone, on a residual stream that came from elsewhere: how a private run is compared layer by
    /// layer.
    pub fn layer(&self, layer: usize, stream: &mut [i64], rounding: &mut Rounding) -> Result<()> {
        let width = self.config.d_model;
        let part = self.blocks.get(layer).zip(self.weights.layers.get(layer));
        let (Some((block, weights)), true) = (part, stream.len().is_multiple_of(width)) else {
            let (expected, found) = (self.blocks.len() * width, stream.len());
            return Err(ModelError::WeightSize {
                tensor: format!("residual stream of layer {layer}"),
                expected,
                found,
            });
        };
        if stream.is_empty() {
            return Err(ModelError::NoTokens);
        }
        let mut run = self.start(rounding);
        run.layer = layer;
        block.run(&mut run, &self.plan, &self.config, weights, stream, &mut |_, _, _, _| ())
    }

    /// Logits and class from the residual stream that leaves the last block.
    pub fn finish(&self, stream: &[i64], tokens: usize, rounding: &mut Rounding) -> Result<Outcome> {
        let mut run = self.start(rounding);
        run.layer = self.config.layers;
        self.head()?.run(&mut run, stream, self.config.d_model, tokens)
    }

    fn head(&self) -> Result<&Head> {
        self.head.as_ref().ok_or(ModelError::NoHead { head: "classifier" })
    }

    /// Logits and class of a document.
    pub fn classify(&self, ids: &[u32], rounding: &mut Rounding) -> Result<Outcome> {
        self.classify_padded(ids, ids.len(), rounding)
    }

    /// The same for `ids` that are padded on the right: the document is the first `tokens` of them.
    pub fn classify_padded(&self, ids: &[u32], tokens: usize, rounding: &mut Rounding) -> Result<Outcome> {
        Ok(self.classify_with(ids, tokens, rounding, &mut |_| ())?.0)
    }

    /// The same, showing tensors, with the margins of every range.
    pub(super) fn classify_with(
        &self,
        ids: &[u32],
        tokens: usize,
        rounding: &mut Rounding,
        see: &mut dyn FnMut(Shown<'_>),
    ) -> Result<(Outcome, Vec<Margin>)> {
        let head = self.head()?;
        let mut run = self.start(rounding);
        let stream = self.stream(&mut run, ids, see)?;
        let outcome = head.run(&mut run, &stream, self.config.d_model, tokens)?;
        Ok((outcome, run.margins))
    }

    pub(super) fn start<'a>(&self, rounding: &'a mut Rounding) -> Run<'a> {
        Run::new(self.plan.numbers.bits, self.plan.projection == Projection::Rlwe, rounding)
    }

    fn stream(&self, run: &mut Run<'_>, ids: &[u32], see: &mut dyn FnMut(Shown<'_>)) -> Result<Vec<i64>> {
        let (width, frac) = (self.config.d_model, self.plan.numbers.frac);
        let mut stream = self.embed(run, ids)?;
        for (layer, (block, weights)) in self.blocks.iter().zip(&self.weights.layers).enumerate() {
            run.layer = layer;
            let mut show = |tensor, values: &[i64], cols, frac| {
                see(Shown { site: Site { layer, tensor }, values, cols, frac });
            };
            let show: &mut See<'_> = &mut show;
            block.run(run, &self.plan, &self.config, weights, &mut stream, show)?;
        }
        run.layer = self.config.layers;
        let site = Site { layer: run.layer, tensor: Tensor::Residual };
        see(Shown { site, values: &stream, cols: width, frac });
        Ok(stream)
    }

    /// Rows of the table, rounded to F. Under encryption the table has 30 bits and noise.
    fn embed(&self, run: &mut Run<'_>, ids: &[u32]) -> Result<Vec<i64>> {
        if ids.is_empty() {
            return Err(ModelError::NoTokens);
        }
        let width = self.config.d_model;
        let mut stream = Vec::with_capacity(ids.len() * width);
        for (index, &id) in ids.iter().enumerate() {
            let at = id as usize;
            if at >= self.config.vocab {
                return Err(ModelError::TokenId { index, id, vocab: self.config.vocab });
            }
            stream.extend(self.table(at..at + 1)?);
        }
        if self.plan.numbers.table != self.plan.numbers.frac {
            run.disturb_rows(&mut stream);
            run.round(Q::Embedding, &mut stream, width, self.plan.numbers.table, self.plan.numbers.frac)?;
        }
        Ok(stream)
    }

    /// Rows of the embedding table, `d_model` values each, at 30 bits (F in the paper plan).
    pub fn table(&self, rows: Range<usize>) -> Result<Vec<i64>> {
        let width = self.config.d_model;
        let values = self.weights.embedding.get(rows.start.saturating_mul(width)..rows.end.saturating_mul(width));
        let Some(values) = values else {
            let (tensor, expected) = ("rows of the embedding".into(), self.config.vocab);
            return Err(ModelError::WeightSize { tensor, expected, found: rows.end });
        };
        let (q, frac) = table_scale(&self.plan);
        q.all("embedding", values.iter().map(|&v| v.into()), frac)
    }
}

/// How the embedding is rounded.
fn table_scale(plan: &Plan) -> (Quantizer, u32) {
    let frac = plan.numbers.table;
    (Quantizer { layer: 0, bits: plan.numbers.bits }, frac)
}
