//! The whole model: embedding, blocks, final norm, heads.

use std::fmt;
use std::sync::Arc;

use super::block::{self, Site, Tensor};
use super::gemm::linear;
use super::matrix::Matrix;
use super::ops;
use super::scan::Scan;
use super::weights::Weights;
use crate::{Config, ModelError, Pooling, Result};

/// Longer blocks cost more in the block's own square than they save between blocks (measured with
/// `examples/forward`: base at 2,048 tokens takes 6.3, 6.9 and 7.8 CPU seconds at 64, 128 and 256).
const LARGEST_BLOCK: usize = 64;

/// A config with weights that fit it. The weights are the owner's secret: `Debug` shows the config only.
pub struct Model {
    config: Config,
    weights: Arc<Weights>,
    /// A = -exp(A_log), per layer and head.
    decay_rates: Vec<Vec<f32>>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Model {
    /// Checks that the weights are the config's.
    pub fn new(config: Config, weights: Weights) -> Result<Self> {
        weights.check(&config)?;
        let rates = |a_log: &Vec<f32>| a_log.iter().map(|v| -v.exp()).collect();
        let decay_rates = weights.layers.iter().map(|layer| rates(&layer.a_log)).collect();
        Ok(Self { config, weights: Arc::new(weights), decay_rates })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The weights for a twin, which makes its integers from them when it needs them.
    pub(crate) fn shared_weights(&self) -> Arc<Weights> {
        Arc::clone(&self.weights)
    }

    /// The form of the scan that is used unless another is asked for.
    pub fn default_scan(&self) -> Scan {
        Scan::Blocks(self.config.chunk.min(LARGEST_BLOCK))
    }

    /// The final normalised states, one row per token.
    pub fn forward(&self, ids: &[u32]) -> Result<Matrix> {
        self.forward_with(ids, self.default_scan(), &mut |_, _| {})
    }

    /// The same with a given form of the scan, showing every tensor to `see`.
    pub fn forward_with(&self, ids: &[u32], scan: Scan, see: &mut dyn FnMut(Site, &Matrix)) -> Result<Matrix> {
        let mut stream = self.embed(ids)?;
        for (layer, (weights, a)) in self.weights.layers.iter().zip(&self.decay_rates).enumerate() {
            let mut show = |tensor, values: &Matrix| see(Site { layer, tensor }, values);
            block::forward(&self.config, weights, a, scan, &mut stream, &mut show)?;
            finite(&stream, layer)?;
        }
        let layer = self.config.layers;
        see(Site { layer, tensor: Tensor::Residual }, &stream);
        let states = ops::rms_norm_rows(&stream, &self.weights.norm, self.config.norm_eps);
        see(Site { layer, tensor: Tensor::Normed }, &states);
        finite(&states, layer)?;
        Ok(states)
    }

    /// Rows of the embedding.
    fn embed(&self, ids: &[u32]) -> Result<Matrix> {
        if ids.is_empty() {
            return Err(ModelError::NoTokens);
        }
        let width = self.config.d_model;
        let mut stream = Matrix::zeros(ids.len(), width);
        for (index, (row, &id)) in stream.data_mut().chunks_exact_mut(width).zip(ids).enumerate() {
            let at = id as usize * width;
            let Some(source) = self.weights.embedding.get(at..at + width) else {
                return Err(ModelError::TokenId { index, id, vocab: self.config.vocab });
            };
            row.copy_from_slice(source);
        }
        Ok(stream)
    }

    /// One vector for a document: the pooled states of its first `tokens` tokens; what follows is padding.
    pub fn pool(&self, states: &Matrix, tokens: usize) -> Result<Vec<f32>> {
        if tokens == 0 || tokens > states.rows() {
            return Err(ModelError::Pool { tokens, rows: states.rows() });
        }
        match self.config.pooling {
            Pooling::Last => Ok(states.row(tokens - 1).to_vec()),
            Pooling::Mean => {
                let mut sum = vec![0.0f64; states.cols()];
                for t in 0..tokens {
                    sum.iter_mut().zip(states.row(t)).for_each(|(sum, v)| *sum += f64::from(*v));
                }
                Ok(sum.into_iter().map(|v| (v / tokens as f64) as f32).collect())
            }
        }
    }

    /// The classifier on a pooled vector: one logit per class.
    pub fn class_logits(&self, pooled: &[f32]) -> Result<Vec<f32>> {
        let Some(head) = &self.weights.head else { return Err(ModelError::NoHead { head: "classifier" }) };
        if pooled.len() != self.config.d_model {
            return Err(ModelError::WeightSize {
                tensor: "pooled".into(),
                expected: self.config.d_model,
                found: pooled.len(),
            });
        }
        let dot = |row: &[f32]| row.iter().zip(pooled).map(|(w, v)| f64::from(*w) * f64::from(*v)).sum::<f64>();
        let rows = head.weight.chunks_exact(pooled.len());
        Ok(rows.zip(&head.bias).map(|(row, bias)| (dot(row) + f64::from(*bias)) as f32).collect())
    }

    /// Class logits of a document.
    pub fn classify(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let states = self.forward(ids)?;
        self.class_logits(&self.pool(&states, ids.len())?)
    }

    /// Logits of the language model for final states: `vocab` values per row, so give it few rows.
    pub fn lm_logits(&self, states: &Matrix) -> Result<Matrix> {
        let tied = self.config.tied.then_some(&self.weights.embedding);
        let Some(weight) = self.weights.lm_head.as_ref().or(tied) else {
            return Err(ModelError::NoHead { head: "language model head" });
        };
        if states.cols() != self.config.d_model {
            return Err(ModelError::WeightSize {
                tensor: "states".into(),
                expected: self.config.d_model,
                found: states.cols(),
            });
        }
        Ok(linear(states, weight, self.config.vocab))
    }
}

/// Weights may be finite and their products still leave the range of f32.
fn finite(states: &Matrix, layer: usize) -> Result<()> {
    match states.data().iter().position(|v| !v.is_finite()) {
        Some(at) => Err(ModelError::StateNotFinite { layer, token: at / states.cols() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
