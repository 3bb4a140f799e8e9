//! The model as a graph of fused operations.
//!
//! [`Graph::logits`] builds candle's graph, and candle's `backward` differentiates it. Training goes another
//! way ([`Graph::gradients`]): the operations form a chain, so that their own backward passes are called one
//! after the other. candle adds every gradient to a tensor of zeros first, and that sum goes through one
//! spinning pool of threads in which the workers wait for each other; the chain needs neither. A test holds
//! the two ways to each other.

use std::sync::{Arc, Mutex};

use candle_core::{CustomOp1, CustomOp2, Device, Tensor, Var};
use fesc_model::Config;

use crate::Result;
use crate::forms::{Forms, Range};
use crate::ops::add::add;
use crate::ops::embed::{Embed, embed};
use crate::ops::linear::{Linear, linear};
use crate::ops::mixer::{Mixer, mixer};
use crate::ops::norm::{Norm, rms_norm};
use crate::ops::pool::{Pool, pool};
use crate::ops::{Layout, with_values, wrong};
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

    /// The parameters of a block's mixer as one vector.
    fn packed(&self, layer: usize) -> candle_core::Result<Tensor> {
        let w = |part: usize| self.leaf(1 + layer * PER_LAYER + part);
        Tensor::cat(&[w(2)?, w(3)?, w(4)?, w(5)?, w(6)?], 0)
    }

    fn mixer(&self, batch: &Packed) -> Mixer {
        Mixer::new(self.config.shape(), batch.layout.clone(), self.forms.clone())
    }

    fn block(&self, layer: usize, stream: Tensor, batch: &Packed) -> candle_core::Result<Block> {
        let w = |part: usize| self.leaf(1 + layer * PER_LAYER + part);
        let normed = rms_norm(&stream, w(0)?, self.norm(2 * layer, 1))?;
        let projected = linear(&normed, w(1)?)?;
        let packed = self.packed(layer)?;
        let gated = mixer(&projected, &packed, self.mixer(batch))?;
        let gated_normed = rms_norm(&gated, w(7)?, self.norm(2 * layer + 1, self.config.norm_groups))?;
        let out = add(&stream, &linear(&gated_normed, w(8)?)?)?;
        Ok(Block { stream, normed, projected, packed, gated, gated_normed, out })
    }

    /// The final states' norm and pool.
    fn finish(&self, stream: &Tensor, batch: &Packed) -> candle_core::Result<(Tensor, Tensor)> {
        let c = &self.config;
        let states = rms_norm(stream, self.leaf(1 + c.layers * PER_LAYER)?, self.norm(2 * c.layers, 1))?;
        let pooled = pool(&states, batch.layout.clone(), c.pooling)?;
        Ok((states, pooled))
    }

    fn head(&self, pooled: &Tensor, dropout: Option<&Tensor>) -> candle_core::Result<Tensor> {
        let last = 1 + self.config.layers * PER_LAYER;
        let dropped = match dropout {
            Some(factors) => &(pooled * factors)?,
            None => pooled,
        };
        linear(dropped, self.leaf(last + 1)?)?.broadcast_add(self.leaf(last + 2)?)
    }

    /// Logits, one row per document. `dropout`, one row of factors per document, multiplies the pooled
    /// vectors.
    pub fn logits(&self, batch: &Packed, dropout: Option<&Tensor>) -> Result<Tensor> {
        let mut stream = embed(self.leaf(0)?, batch.ids.clone())?;
        for layer in 0..self.layers {
            stream = self.block(layer, stream, batch)?.out;
        }
        let (_, pooled) = self.finish(&stream, batch)?;
        Ok(self.head(&pooled, dropout)?)
    }

    /// The loss that `loss` makes of the logits, and its gradient by every parameter, in order; empty for
    /// those that took no part.
    pub fn gradients(
        &self,
        batch: &Packed,
        dropout: Option<&Tensor>,
        loss: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<(f64, Vec<Vec<f32>>)> {
        let plain = self.detached();
        let mut blocks: Vec<Block> = Vec::with_capacity(self.layers);
        let first = embed(plain.leaf(0)?, batch.ids.clone())?;
        for layer in 0..self.layers {
            let stream = blocks.last().map_or(&first, |block| &block.out).clone();
            blocks.push(plain.block(layer, stream, batch)?);
        }
        let stream = blocks.last().map_or(&first, |block| &block.out).clone();
        let (states, pooled) = plain.finish(&stream, batch)?;
        // The head and the loss are small: candle differentiates them.
        let pooled = Var::from_tensor(&pooled)?;
        let loss = loss(&self.head(&pooled, dropout)?)?;
        let mut store = loss.backward()?;
        let mut found: Vec<Option<Tensor>> = self.leaves.iter().map(|leaf| store.remove(leaf)).collect();
        let mut keep = |at: usize, gradient: Option<Tensor>| {
            if let Some(place) = found.get_mut(at) {
                *place = gradient;
            }
        };
        let lost = || wrong("no gradient to go on with");
        let grad = store.remove(&pooled).ok_or_else(lost)?;
        let op = Pool { layout: batch.layout.clone(), pooling: self.config.pooling };
        let grad = op.bwd(&states, &pooled, &grad)?.ok_or_else(lost)?;
        let last = 1 + self.config.layers * PER_LAYER;
        let norm = self.norm(2 * self.config.layers, 1);
        let (grad, weight) = norm.bwd(&stream, plain.leaf(last)?, &states, &grad)?;
        keep(last, weight);
        let mut grad = grad.ok_or_else(lost)?;
        for (layer, block) in blocks.iter().enumerate().rev() {
            let at = 1 + layer * PER_LAYER;
            let w = |part: usize| plain.leaf(at + part);
            let (inner, weight) = Linear.bwd(&block.gated_normed, w(8)?, &block.out, &grad)?;
            keep(at + 8, weight);
            let norm = self.norm(2 * layer + 1, self.config.norm_groups);
            let (inner, weight) = norm.bwd(&block.gated, w(7)?, &block.gated_normed, &inner.ok_or_else(lost)?)?;
            keep(at + 7, weight);
            let inner = inner.ok_or_else(lost)?;
            let (inner, packed) = self.mixer(batch).bwd(&block.projected, &block.packed, &block.gated, &inner)?;
            let packed = packed.ok_or_else(lost)?;
            let mut from = 0;
            for part in 2..7 {
                let size = w(part)?.elem_count();
                keep(at + part, Some(packed.narrow(0, from, size)?));
                from += size;
            }
            let (inner, weight) = Linear.bwd(&block.normed, w(1)?, &block.projected, &inner.ok_or_else(lost)?)?;
            keep(at + 1, weight);
            let norm = self.norm(2 * layer, 1);
            let (inner, weight) = norm.bwd(&block.stream, w(0)?, &block.normed, &inner.ok_or_else(lost)?)?;
            keep(at, weight);
            grad = add(&grad, &inner.ok_or_else(lost)?)?;
        }
        keep(0, Embed { ids: batch.ids.clone() }.bwd(plain.leaf(0)?, &first, &grad)?);
        let values = |gradient: &Option<Tensor>| match gradient {
            Some(gradient) => with_values(gradient, |values| Ok(values.to_vec())),
            None => Ok(Vec::new()),
        };
        let gradients = found.iter().map(values).collect::<candle_core::Result<_>>()?;
        Ok((f64::from(loss.to_scalar::<f32>()?), gradients))
    }

    /// The same tensors without candle's record of operations.
    fn detached(&self) -> Self {
        let leaves = self.leaves.iter().map(Tensor::detach).collect();
        let (config, forms) = (self.config.clone(), self.forms.clone());
        Self { config, forms, leaves, layers: self.layers, seen: self.seen.clone() }
    }
}

/// The tensors of one block that its backward pass needs.
struct Block {
    stream: Tensor,
    normed: Tensor,
    projected: Tensor,
    packed: Tensor,
    gated: Tensor,
    gated_normed: Tensor,
    out: Tensor,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::loss;
    use crate::ops::testing::random;
    use crate::recipe::Recipe;

    #[test]
    fn the_chain_has_the_gradients_of_candle() {
        let text = r#"{"name": "t", "seed": 1, "classes": 3, "tokenizer": {"vocab": 20}, "evaluation": {"lengths": [9]},
            "shape": {"d_model": 8, "layers": 2, "heads": 2, "head_dim": 8, "state": 4}, "stages": [
            {"length": 9, "epochs": 1, "batch": 2, "lr": 1}], "init": {"embedding": {"normal": {"deviation": 1.0}}}}"#;
        let recipe: Recipe = serde_json::from_str(text).unwrap();
        let config = recipe.config(20).unwrap();
        let weights = crate::initial_weights(&recipe, &config, &[], 1).unwrap();
        let parameters = Parameters::new(&config, weights).unwrap();
        let batch = Packed::new([&[1u32, 5, 19, 1, 0][..], &[7, 7, 2]]);
        let dropout = random(5, &[2, 8]);
        for layers in [2, 1, 0] {
            let graph = Graph::training(&config, &parameters, Arc::new(Forms::exact())).unwrap();
            let graph = graph.with_layers(Some(layers));
            let loss = |logits: &Tensor| Ok(loss::total(logits, &[2, 0], 0.1, None)?);
            let (value, found) = graph.gradients(&batch, Some(&dropout), loss).unwrap();
            let expected = loss(&graph.logits(&batch, Some(&dropout)).unwrap()).unwrap();
            assert_eq!(value, f64::from(expected.to_scalar::<f32>().unwrap()));
            let store = expected.backward().unwrap();
            for ((leaf, found), p) in graph.leaves().iter().zip(found).zip(&parameters.list) {
                match store.get(leaf) {
                    None => assert!(found.is_empty(), "{}", p.name),
                    Some(grad) => {
                        let grad: Vec<f32> = grad.flatten_all().unwrap().to_vec1().unwrap();
                        assert!(found.iter().zip(&grad).all(|(f, e)| (f - e).abs() < 1e-6), "{}", p.name);
                        assert!(found.len() == grad.len() && grad.iter().any(|g| *g != 0.0), "{}", p.name);
                    }
                }
            }
        }
    }
}
