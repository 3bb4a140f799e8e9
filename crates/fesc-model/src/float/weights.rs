//! The weights in memory: f32, row-major, as checkpoints store them.

use crate::{Config, ModelError, Result};

/// One block.
#[derive(Clone)]
pub struct Layer {
    /// Weight of the norm before the mixer: `d_model`.
    pub norm: Vec<f32>,
    /// Input projection to z, x, B, C, dt: `proj_dim` rows of `d_model`.
    pub in_proj: Vec<f32>,
    /// Convolution: `conv_dim` rows of `conv_width` taps, the last tap is the present.
    pub conv: Vec<f32>,
    /// Bias of the convolution: `conv_dim`.
    pub conv_bias: Vec<f32>,
    /// Bias of dt: `heads`.
    pub dt_bias: Vec<f32>,
    /// ln(-A): `heads`.
    pub a_log: Vec<f32>,
    /// Skip D: `heads`.
    pub d: Vec<f32>,
    /// Weight of the gated norm: `inner`.
    pub gated_norm: Vec<f32>,
    /// Output projection: `d_model` rows of `inner`.
    pub out_proj: Vec<f32>,
}

/// A linear classifier.
#[derive(Clone)]
pub struct Head {
    /// `classes` rows of `d_model`.
    pub weight: Vec<f32>,
    /// `classes`.
    pub bias: Vec<f32>,
}

/// A whole model. No `Debug`: weights are their owner's secret.
#[derive(Clone)]
pub struct Weights {
    /// `vocab` rows of `d_model`.
    pub embedding: Vec<f32>,
    /// The blocks.
    pub layers: Vec<Layer>,
    /// Weight of the final norm: `d_model`.
    pub norm: Vec<f32>,
    /// Language model head where it is not the embedding: `vocab` rows of `d_model`.
    pub lm_head: Option<Vec<f32>>,
    /// The classifier.
    pub head: Option<Head>,
}

impl Weights {
    /// Holds every tensor to the size that the config gives it, and every value to being finite.
    pub(crate) fn check(&self, config: &Config) -> Result<()> {
        if self.layers.len() != config.layers {
            return Err(size("layers", config.layers, self.layers.len()));
        }
        let table = config.vocab * config.d_model;
        tensor("embedding", &self.embedding, table)?;
        for (i, layer) in self.layers.iter().enumerate() {
            let parts = [
                ("norm", &layer.norm, config.d_model),
                ("in_proj", &layer.in_proj, config.proj_dim() * config.d_model),
                ("conv", &layer.conv, config.conv_dim() * config.conv_width),
                ("conv_bias", &layer.conv_bias, config.conv_dim()),
                ("dt_bias", &layer.dt_bias, config.heads),
                ("a_log", &layer.a_log, config.heads),
                ("d", &layer.d, config.heads),
                ("gated_norm", &layer.gated_norm, config.inner()),
                ("out_proj", &layer.out_proj, config.d_model * config.inner()),
            ];
            for (name, values, expected) in parts {
                tensor(&format!("layers.{i}.{name}"), values, expected)?;
            }
            if let Some(head) = layer.a_log.iter().position(|v| !v.exp().is_finite()) {
                return Err(ModelError::Decay { layer: i, head, a_log: layer.a_log[head] });
            }
        }
        tensor("norm", &self.norm, config.d_model)?;
        if let Some(lm_head) = &self.lm_head {
            tensor("lm_head", lm_head, table)?;
        }
        if let Some(head) = &self.head {
            tensor("head.weight", &head.weight, head.bias.len() * config.d_model)?;
            tensor("head.bias", &head.bias, head.bias.len().max(1))?;
        }
        Ok(())
    }
}

fn size(tensor: &str, expected: usize, found: usize) -> ModelError {
    ModelError::WeightSize { tensor: tensor.into(), expected, found }
}

fn tensor(name: &str, values: &[f32], expected: usize) -> Result<()> {
    if values.len() != expected {
        return Err(size(name, expected, values.len()));
    }
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(ModelError::NotFinite { tensor: name.into(), index, value: values[index] }),
        None => Ok(()),
    }
}
