//! The trained values: named vectors in a fixed order, to and from [`Weights`].

use fesc_model::float::{Head, Layer};
use fesc_model::{Config, Weights};

use crate::{Result, TrainError};

/// What a parameter is, for learning rate and weight decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// Rows of the vocabulary: decays, learning rate of its own.
    Embedding,
    /// A projection: decays.
    Matrix,
    /// The classifier's weight: decays, learning rate of its own.
    Head,
    /// The classifier's bias: the same rate, never decays.
    HeadBias,
    /// Norms, biases, convolution, Delta's bias, A_log, D: never decays.
    Vector,
}

/// One parameter. No `Debug`: weights are their owner's secret.
#[derive(Clone, PartialEq)]
pub struct Parameter {
    /// Its name in state files.
    pub name: String,
    /// What it is.
    pub kind: ParameterKind,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values, row-major.
    pub values: Vec<f32>,
}

/// Parameters of one layer, in order.
pub(crate) const PER_LAYER: usize = 9;

/// All parameters of a classifier: the embedding, the layers' nine each, the final norm, the classifier's
/// two.
#[derive(Clone, PartialEq)]
pub struct Parameters {
    /// In the order above.
    pub list: Vec<Parameter>,
    /// A language model head of its own is kept as it is, and not trained.
    lm_head: Option<Vec<f32>>,
}

impl Parameters {
    /// Takes weights apart. They must have a classifier.
    pub fn new(config: &Config, weights: Weights) -> Result<Self> {
        let c = config.shape();
        let Weights { embedding, layers, norm, lm_head, head } = weights;
        let Some(head) = head else { return Err(fesc_model::ModelError::NoHead { head: "classifier" }.into()) };
        let mut list = Vec::with_capacity(4 + PER_LAYER * layers.len());
        let mut push = |name: String, kind, shape: &[usize], values: Vec<f32>| {
            list.push(Parameter { name, kind, shape: shape.to_vec(), values });
        };
        push("embedding".into(), ParameterKind::Embedding, &[c.vocab, c.d_model], embedding);
        for (i, layer) in layers.into_iter().enumerate() {
            let mut part = |name: &str, kind, shape: &[usize], values| {
                push(format!("layers.{i}.{name}"), kind, shape, values);
            };
            part("norm", ParameterKind::Vector, &[c.d_model], layer.norm);
            part("in_proj", ParameterKind::Matrix, &[c.proj_dim(), c.d_model], layer.in_proj);
            part("conv", ParameterKind::Vector, &[c.conv_dim() * c.conv_width], layer.conv);
            part("conv_bias", ParameterKind::Vector, &[c.conv_dim()], layer.conv_bias);
            part("dt_bias", ParameterKind::Vector, &[c.heads], layer.dt_bias);
            part("a_log", ParameterKind::Vector, &[c.heads], layer.a_log);
            part("d", ParameterKind::Vector, &[c.heads], layer.d);
            part("gated_norm", ParameterKind::Vector, &[c.inner()], layer.gated_norm);
            part("out_proj", ParameterKind::Matrix, &[c.d_model, c.inner()], layer.out_proj);
        }
        push("norm".into(), ParameterKind::Vector, &[c.d_model], norm);
        let classes = head.bias.len();
        push("head.weight".into(), ParameterKind::Head, &[classes, c.d_model], head.weight);
        push("head.bias".into(), ParameterKind::HeadBias, &[classes], head.bias);
        for p in &list {
            let expected = p.shape.iter().product::<usize>();
            if p.values.len() != expected {
                let (tensor, found) = (p.name.clone(), p.values.len());
                return Err(fesc_model::ModelError::WeightSize { tensor, expected, found }.into());
            }
        }
        Ok(Self { list, lm_head })
    }

    /// Puts values of the same order and sizes back into weights.
    pub fn weights_of(&self, values: &[Vec<f32>]) -> Result<Weights> {
        let wrong = || TrainError::Data { set: "parameter", reason: "a parameter is missing".into() };
        let mut rest = values.iter().cloned();
        let mut next = || rest.next().ok_or_else(wrong);
        let embedding = next()?;
        let mut layers = Vec::new();
        for _ in 0..self.list.len().saturating_sub(4) / PER_LAYER {
            layers.push(Layer {
                norm: next()?,
                in_proj: next()?,
                conv: next()?,
                conv_bias: next()?,
                dt_bias: next()?,
                a_log: next()?,
                d: next()?,
                gated_norm: next()?,
                out_proj: next()?,
            });
        }
        let (norm, weight, bias) = (next()?, next()?, next()?);
        Ok(Weights { embedding, layers, norm, lm_head: self.lm_head.clone(), head: Some(Head { weight, bias }) })
    }

    /// The values alone.
    pub fn values(&self) -> Vec<Vec<f32>> {
        self.list.iter().map(|p| p.values.clone()).collect()
    }

    /// The weights as they are now.
    pub fn weights(&self) -> Result<Weights> {
        self.weights_of(&self.values())
    }

    /// Number of values.
    pub fn count(&self) -> usize {
        self.list.iter().map(|p| p.values.len()).sum()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.list.last().map_or(0, |p| p.values.len())
    }
}
