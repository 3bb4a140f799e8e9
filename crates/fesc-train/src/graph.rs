//! The model as a graph of fused operations.

use std::sync::{Arc, Mutex};

use candle_core::{Device, Tensor, Var};
use fesc_model::Config;

use crate::Result;
use crate::forms::{Forms, Range};
use crate::ops::embed::embed;
use crate::ops::linear::linear;
use crate::ops::mixer::{Mixer, mixer};
use crate::ops::norm::{Norm, rms_norm};
use crate::ops::pool::pool;
use crate::ops::{Layout, wrong};
use crate::parameters::{PER_LAYER, Parameters};

/// Documents of one worker, packed.
#[derive(Debug, Clone)]
pub struct Packed {
    /// All tokens, document after document.
    pub ids: Arc<[u32]>,
    /// Where the documents are.
    pub layout: Arc<Layout>,
}

impl Packed {
    /// Packs documents.
    pub fn new<'a>(documents: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut ids = Vec::new();
        let mut lengths = Vec::new();
        for document in documents {
            ids.extend_from_slice(document);
            lengths.push(document.len());
        }
        Self { ids: ids.into(), layout: Arc::new(Layout::new(lengths)) }
    }
}

/// Parameters as tensors, and how to compute with them. Shared by the workers; holds copies.
pub struct Graph {
    config: Config,
    forms: Arc<Forms>,
    /// In the order of [`Parameters`].
    leaves: Vec<Tensor>,
    /// Blocks that are computed.
    layers: usize,
    seen: Option<Vec<Arc<Mutex<Range>>>>,
}

impl Graph {
    /// With gradients.
    pub fn training(config: &Config, parameters: &Parameters, forms: Arc<Forms>) -> Result<Self> {
        let leaf = |p: &crate::Parameter| Var::from_vec(p.values.clone(), p.shape.as_slice(), &Device::Cpu);
        let leaves = parameters.list.iter().map(|p| leaf(p).map(Var::into_inner)).collect::<Result<_, _>>()?;
        Ok(Self { config: config.clone(), forms, leaves, layers: config.layers, seen: None })
    }

    /// Without; `values` replace those of the parameters (an average, say).
    pub fn evaluation(
        config: &Config,
        parameters: &Parameters,
        values: &[Vec<f32>],
        forms: Arc<Forms>,
    ) -> Result<Self> {
        let pairs = parameters.list.iter().zip(values);
        let leaf =
            |(p, v): (&crate::Parameter, &Vec<f32>)| Tensor::from_vec(v.clone(), p.shape.as_slice(), &Device::Cpu);
        let leaves = pairs.map(leaf).collect::<Result<_, _>>()?;
        Ok(Self { config: config.clone(), forms, leaves, layers: config.layers, seen: None })
    }

    /// The same with the first `layers` blocks only.
    pub fn with_layers(mut self, layers: Option<usize>) -> Self {
        self.layers = layers.unwrap_or(self.layers).min(self.config.layers);
        self
    }

    /// The same, noting the range of every norm's mean square.
    pub fn observing(mut self) -> Self {
        let sites = 2 * self.config.layers + 1;
        self.seen = Some((0..sites).map(|_| Arc::new(Mutex::new(Range::EMPTY))).collect());
        self
    }

    /// What was noted, norm by norm.
    pub fn ranges(&self) -> Vec<Range> {
        let seen = self.seen.iter().flatten();
        seen.map(|range| range.lock().map_or(Range::EMPTY, |range| *range)).collect()
    }

    /// The leaves, in the order of [`Parameters`].
    pub fn leaves(&self) -> &[Tensor] {
        &self.leaves
    }

    fn leaf(&self, at: usize) -> candle_core::Result<&Tensor> {
        self.leaves.get(at).ok_or_else(|| wrong("a model without all its parameters"))
    }

    fn norm(&self, site: usize, groups: usize) -> Norm {
        let seen = self.seen.as_ref().and_then(|seen| seen.get(site)).cloned();
        Norm { groups, eps: self.config.norm_eps, rsqrt: self.forms.rsqrt(site), seen }
    }

    /// One pooled vector per document.
    pub fn pooled(&self, batch: &Packed) -> Result<Tensor> {
        let c = &self.config;
        let mut stream = embed(self.leaf(0)?, batch.ids.clone())?;
        for layer in 0..self.layers {
            let w = |part: usize| self.leaf(1 + layer * PER_LAYER + part);
            let normed = rms_norm(&stream, w(0)?, self.norm(2 * layer, 1))?;
            let projected = linear(&normed, w(1)?)?;
            let packed = Tensor::cat(&[w(2)?, w(3)?, w(4)?, w(5)?, w(6)?], 0)?;
            let op = Mixer::new(c.shape(), batch.layout.clone(), self.forms.clone());
            let gated = mixer(&projected, &packed, op)?;
            let gated = rms_norm(&gated, w(7)?, self.norm(2 * layer + 1, c.norm_groups))?;
            stream = (stream + linear(&gated, w(8)?)?)?;
        }
        let last = 1 + c.layers * PER_LAYER;
        let states = rms_norm(&stream, self.leaf(last)?, self.norm(2 * c.layers, 1))?;
        Ok(pool(&states, batch.layout.clone(), c.pooling)?)
    }

    /// Logits, one row per document. `dropout`, one row of factors per document, multiplies the pooled vectors.
    pub fn logits(&self, batch: &Packed, dropout: Option<&Tensor>) -> Result<Tensor> {
        let mut pooled = self.pooled(batch)?;
        if let Some(factors) = dropout {
            pooled = (pooled * factors)?;
        }
        let last = 1 + self.config.layers * PER_LAYER;
        Ok(linear(&pooled, self.leaf(last + 1)?)?.broadcast_add(self.leaf(last + 2)?)?)
    }
}
