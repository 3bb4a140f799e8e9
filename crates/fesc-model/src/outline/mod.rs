//! What both parties know of a model: shapes, scales and forms of its plan, and no weight.
//!
//! The owner makes an [`Outline`] from config and calibration; it travels to the client as JSON, and its
//! [`Outline::digest`] is compared in the handshake. The twin is built from an outline plus weights, so that
//! the integers of the protocol have one source.
//!
//! What is in it: the shape; the number of classes and their names; which form of SiLU and exp, and the
//! plan's other choices where they are not the fast plan's; per layer the sixteen [`Scales`] and, of each
//! norm, the smallest variance as a power of two, its octaves and its scale. All tables ([`LayerForms`],
//! [`NormForm`]) follow from these numbers. What it tells about the model and the calibration documents:
//! the order of magnitude of each tensor, and the range of each norm's variance in powers of two. Not in
//! it: weights, A, D, thresholds of the clamp, any other statistic of the calibration.
//!
//! The JSON has integers only (floats as their bits), so that it is read back to the same outline, and text
//! in one way only. Reading checks every number: limits of sizes, of scales, and that all forms can be built.
//! A fit of an inverse root or of a polynomial goes through the platform's functions, whose last bit may
//! differ between machines; the digest is over the resulting integer tables too.
//!
//! Cost: a kilobyte per layer; building the forms of a layer takes about a millisecond.

mod activation;
mod digest;
mod exponential;
mod forms;
mod norm;
mod ranges;
pub mod scale;
mod scales;
mod wire;

use fesc_ring::Ring;
use serde::{Deserialize, Serialize};

pub use activation::{Silu, Softplus};
pub use exponential::Exponential;
pub use forms::LayerForms;
pub(crate) use norm::Root;
pub use norm::{InverseRoot, NormForm};
pub use ranges::Ranges;
pub use scales::Scales;

use crate::twin::{Calibration, LayerStats};
use crate::{Config, ModelError, Plan, Result, Shape};

/// What is stored of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    scales: Scales,
    norm: Root,
    gated: Root,
    /// Of plans with a scan under encryption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ranges: Option<Ranges>,
}

/// What is stored of the final norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Last {
    square: u32,
    root: Root,
}

/// The public part of a model; see the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "wire::Wire", into = "wire::Wire")]
pub struct Outline {
    config: Config,
    classes: usize,
    plan: Plan,
    layers: Vec<Layer>,
    last: Last,
}

fn refuse(reason: impl Into<String>) -> ModelError {
    ModelError::Outline { reason: reason.into() }
}

impl Outline {
    /// The outline of a model; as many classes as the config names. Only a plan with calibrated
    /// scales has one.
    pub fn new(config: &Config, calibration: &Calibration, plan: Plan) -> Result<Self> {
        wire::check_plan(&plan)?;
        calibration.check(config)?;
        let (eps, group) = (f64::from(config.norm_eps), config.inner() / config.norm_groups);
        let layer = |(i, stats): (usize, &LayerStats)| {
            let scales = Scales::choose(i, stats, config.d_model, group)?;
            let norm = Root::choose(plan.norm, config.d_model, stats.norm.mean_square, eps);
            let gated = Root::choose(plan.norm, group, stats.gated.mean_square, eps);
            let ranges = plan.scans_encrypted().then(|| Ranges::choose(stats));
            Ok(Layer { scales, norm, gated, ranges })
        };
        let layers = calibration.layers.iter().enumerate().map(layer).collect::<Result<_>>()?;
        let span = calibration.last.mean_square;
        let square = scales::last_square(config.layers, config.d_model, span.max)?;
        let last = Last { square, root: Root::choose(plan.norm, config.d_model, span, eps) };
        let outline = Self { classes: config.labels().len(), config: config.clone(), plan, layers, last };
        outline.check()?;
        Ok(outline)
    }

    /// The same with this many classes: what the weights' head has. The config's names must be as many, if
    /// there are any.
    pub fn with_classes(mut self, classes: usize) -> Result<Self> {
        self.classes = classes;
        if classes == 0 {
            // Names without a classifier are names of nothing.
            self.config = self.config.with_labels(Vec::new());
        }
        self.check_classes()?;
        Ok(self)
    }

    /// The model's shape.
    pub fn shape(&self) -> &Shape {
        self.config.shape()
    }

    /// The ring of all shares.
    pub fn ring(&self) -> Ring {
        scale::RING
    }

    /// Fractional bits F of activations and of the residual stream.
    pub fn frac(&self) -> u32 {
        scale::FRAC
    }

    /// Classes of the head; 0 where there is none.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Names of the classes, by index; empty where the config names none.
    pub fn labels(&self) -> &[String] {
        self.config.labels()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Scales and forms of a layer.
    pub fn layer(&self, i: usize) -> Result<LayerForms> {
        let Some(Layer { scales, norm, gated, .. }) = self.layers.get(i).copied() else {
            return Err(refuse(format!("layer {i} was asked for, it has {}", self.layers.len())));
        };
        let (activations, exp) = (self.plan.activations, self.plan.exp);
        let (shape, eps) = (self.shape(), f64::from(self.config.norm_eps));
        let group = shape.inner() / shape.norm_groups;
        Ok(LayerForms {
            norm: NormForm::new(self.plan.norm, i, shape.d_model, scales.norm, eps, norm)?,
            gated: NormForm::new(self.plan.norm, i, group, scales.gated, eps, gated)?,
            gate: Silu::new(i, activations, scale::FRAC)?,
            x: Silu::new(i, activations, scales.x)?,
            bc: Silu::new(i, activations, scales.bc)?,
            softplus: Softplus::new(i, activations, shape.delta_limit)?,
            chunk: Exponential::chunk(i, exp, scales.exp)?,
            document: Exponential::document(i, exp, scales.exp)?,
            scales,
        })
    }

    /// What the scan of a layer carries, where it is under encryption.
    pub fn ranges(&self, i: usize) -> Option<Ranges> {
        self.layers.get(i).and_then(|layer| layer.ranges)
    }

    /// The final norm.
    pub fn last(&self) -> Result<NormForm> {
        let (shape, eps) = (self.shape(), f64::from(self.config.norm_eps));
        NormForm::new(self.plan.norm, shape.layers, shape.d_model, self.last.square, eps, self.last.root)
    }
}

#[cfg(test)]
mod tests;
