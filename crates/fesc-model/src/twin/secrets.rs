//! The server's half of a model as integers: what is left when the [`Outline`] is taken away.

use super::activation::Steps;
use super::error::TwinError;
use super::quantize::{Block, Quantizer};
use super::rounding::Rounding;
use super::run::Twin;
use super::scan::Packet;
use crate::float::Layer;
use crate::outline::Outline;
use crate::{ModelError, Result};

/// One layer's secrets but for its two matrices ([`Twin::in_proj`], [`Twin::out_proj`]). No `Debug`: they are
/// weights.
#[derive(Clone, Copy)]
pub struct LayerSecrets<'a> {
    /// `taps[d][c]`: the weight of the value `d` tokens in the past, s.conv_tap bits.
    pub taps: &'a [Vec<i64>],
    /// By channel of x, B, C, at F + s.conv_weight + s.conv_tap bits.
    pub conv_bias: &'a [i64],
    /// By head, at F + s.step_weight bits.
    pub step_bias: &'a [i64],
    /// |A| by head, 18 bits.
    pub rates: &'a [i64],
    /// By head, in units of softplus' comparison: where dt, reduced, is at or above it, A Delta is -16.
    /// Between one unit below the reduced inputs of the form and two above.
    pub thresholds: &'a [i64],
    /// D by head, at the scale that the scan's kernel takes: s.mixed bits in block dual form.
    pub skip: &'a [i64],
}

/// The classifier's secrets.
#[derive(Clone, Copy)]
pub struct HeadSecrets<'a> {
    /// One row of `d_model` per class, 16 bits, the final norm's weight folded in.
    pub weights: &'a [i64],
    /// By class, at F + 16 bits.
    pub bias: &'a [i64],
}

impl Twin {
    /// What the client may know. The paper's plan has none.
    pub fn outline(&self) -> Result<&Outline> {
        let reason = || format!("the plan {} has none; take the fast plan", self.plan().name());
        self.outline.as_ref().ok_or_else(|| ModelError::Outline { reason: reason() })
    }

    /// A layer's secrets; `None` beyond the last layer and in the paper plan.
    pub fn secrets(&self, layer: usize) -> Option<LayerSecrets<'_>> {
        let block = self.blocks.get(layer)?;
        let Steps::Fast { rates, thresholds, .. } = &block.steps else {
            return None;
        };
        Some(LayerSecrets {
            taps: &block.conv.taps,
            conv_bias: &block.conv.bias,
            step_bias: &block.step_bias,
            rates,
            thresholds,
            skip: block.scan.skip(),
        })
    }

    fn part(&self, layer: usize) -> Result<(&Block, &Layer, Quantizer)> {
        let (count, bits) = (self.blocks.len(), self.plan().ring_bits());
        let part = self.blocks.get(layer).zip(self.weights.layers.get(layer));
        let (block, weights) =
            part.ok_or_else(|| ModelError::Outline { reason: format!("there is no layer {layer} among {count}") })?;
        Ok((block, weights, Quantizer { layer, bits }))
    }

    /// A layer's input projection: `proj_dim` rows of `d_model`, z (s.gate_weight bits), x, B, C
    /// (s.conv_weight), dt (s.step_weight), the norm's weight folded in. It is made for the caller and not
    /// kept.
    pub fn in_proj(&self, layer: usize) -> Result<Vec<i64>> {
        let (block, weights, q) = self.part(layer)?;
        block.in_rows(&q, self.config.shape(), weights)
    }

    /// A layer's output projection: `d_model` rows of `inner`, s.out_weight bits, the gated norm's weight
    /// folded in. As [`Self::in_proj`].
    pub fn out_proj(&self, layer: usize) -> Result<Vec<i64>> {
        let (block, weights, q) = self.part(layer)?;
        block.out_rows(&q, weights)
    }

    /// The classifier's secrets; `None` without a classifier and in the paper plan.
    pub fn head_secrets(&self) -> Option<HeadSecrets<'_>> {
        let head = self.head.as_ref().filter(|_| self.outline.is_some())?;
        Some(HeadSecrets { weights: &head.weights, bias: &head.bias })
    }

    /// The scan of a layer alone, from x, B, C (s.x and s.bc bits), Delta and A Delta (both at the plan's
    /// bits of Delta): y at s.scanned.
    pub fn scan(
        &self,
        layer: usize,
        xbc: &[i64],
        delta: &[i64],
        z: &[i64],
        rounding: &mut Rounding,
    ) -> Result<Vec<i64>> {
        let shape = self.config.shape();
        let (block, _, q) = self.part(layer)?;
        let tokens = delta.len() / shape.heads;
        if tokens == 0 {
            return Err(ModelError::NoTokens);
        }
        let sizes = [
            ("x, B, C", xbc.len(), tokens * shape.conv_dim()),
            ("Delta", delta.len(), tokens * shape.heads),
            ("A Delta", z.len(), tokens * shape.heads),
        ];
        for (tensor, found, expected) in sizes {
            if found != expected {
                return Err(ModelError::WeightSize { tensor: tensor.into(), expected, found });
            }
        }
        // Sums of positive values would leave the range of exp; sums of huge ones that of i64.
        let lowest = -(1i64 << (q.bits - 2));
        if let Some(&value) = z.iter().find(|z| !(lowest..=0).contains(*z)) {
            let unit = (-f64::from(self.plan().numbers.delta)).exp2();
            let (value, low, remedy) = (value as f64 * unit, lowest as f64 * unit, "A is negative and Delta is not");
            return Err(TwinError::Range { layer, tensor: "A Delta", value, low, high: 0.0, remedy }.into());
        }
        let mut run = self.start(rounding);
        run.layer = layer;
        Ok(block.scan.run(&mut run, &Packet { shape, xbc, delta, z, last: false })?.0)
    }
}
