//! How far the twin is from the float model, layer by layer.

use serde::Serialize;

use super::range::Margin;
use super::rounding::Rounding;
use super::run::{Shown, Twin};
use crate::{Model, Result, Site, Tensor};

/// Margins that a report lists.
const CLOSEST: usize = 5;

/// The distance of two tensors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gap {
    /// Largest difference.
    pub max_abs: f64,
    /// Root of the mean square of the differences.
    pub rms: f64,
    /// Root of the mean square of the float tensor.
    pub scale: f64,
    /// `log2(scale / rms)`: bits that agree.
    pub bits: f64,
}

impl Gap {
    /// The distance of a twin's values from the float model's.
    pub fn of(twin: impl Iterator<Item = f64>, float: impl Iterator<Item = f64>) -> Self {
        let (mut max_abs, mut error, mut size, mut count) = (0.0f64, 0.0, 0.0, 0usize);
        for (a, b) in twin.zip(float) {
            max_abs = max_abs.max((a - b).abs());
            error += (a - b) * (a - b);
            size += b * b;
            count += 1;
        }
        let mean = |sum: f64| (sum / count.max(1) as f64).sqrt();
        let (rms, scale) = (mean(error), mean(size));
        // Two equal tensors agree in all bits that f64 has.
        let bits = if rms > 0.0 && scale > 0.0 { (scale / rms).log2() } else { 53.0 };
        Self { max_abs, rms, scale, bits }
    }
}

/// One tensor of one layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerGap {
    /// The block; the stream that leaves the last one is block `layers`.
    pub layer: usize,
    /// `residual`, `delta`, `scanned` or `gated`.
    pub tensor: &'static str,
    /// The distance.
    pub gap: Gap,
}

/// The twin against the float model on one document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The plan's name.
    pub plan: String,
    /// Tokens of the document.
    pub tokens: usize,
    /// By layer and tensor, in the order of computation.
    pub layers: Vec<LayerGap>,
    /// The logits.
    pub logits: Gap,
    /// The float model's class.
    pub float_class: usize,
    /// The twin's.
    pub twin_class: usize,
    /// The quantities that came closest to the end of their range, closest first; what a nonlinear form fixes
    /// by itself is not among them.
    pub closest: Vec<Margin>,
}

fn name(tensor: Tensor) -> Option<&'static str> {
    match tensor {
        Tensor::Residual => Some("residual"),
        Tensor::Delta => Some("delta"),
        Tensor::Scanned => Some("scanned"),
        Tensor::Gated => Some("gated"),
        Tensor::Normed | Tensor::Projected | Tensor::Convolved | Tensor::GatedNormed => None,
    }
}

impl Twin {
    /// Runs both on a document. Keeps the twin's tensors of all layers for the comparison, so that its memory
    /// grows with layers.
    pub fn report(&self, model: &Model, ids: &[u32]) -> Result<Report> {
        let mut seen: Vec<(Site, Vec<f32>)> = Vec::new();
        let mut keep = |shown: Shown<'_>| {
            let unit = (-f64::from(shown.frac)).exp2();
            seen.push((shown.site, shown.values.iter().map(|&v| (v as f64 * unit) as f32).collect()));
        };
        let (outcome, mut closest) = self.classify_with(ids, ids.len(), &mut Rounding::nearest(), &mut keep)?;
        let mut layers = Vec::new();
        let states = model.forward_with(ids, model.default_scan(), &mut |site, x| {
            let Some(tensor) = name(site.tensor) else { return };
            if let Some((_, values)) = seen.iter().find(|(s, _)| *s == site) {
                let real = |v: &f32| f64::from(*v);
                let gap = Gap::of(values.iter().map(real), x.data().iter().map(real));
                layers.push(LayerGap { layer: site.layer, tensor, gap });
            }
        })?;
        let float = model.class_logits(&model.pool(&states, ids.len())?)?;
        let float_class = float.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(i, _)| i);
        closest.retain(|m| !m.quantity.is_internal());
        closest.sort_by(|a, b| b.used.total_cmp(&a.used));
        closest.truncate(CLOSEST);
        Ok(Report {
            plan: self.plan().name(),
            tokens: ids.len(),
            layers,
            logits: Gap::of(outcome.logits.iter().copied(), float.iter().map(|&v| v.into())),
            float_class,
            twin_class: outcome.class,
            closest,
        })
    }
}

/// How far a tensor is from what it should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Apart {
    /// The largest difference, in units of the last place.
    pub max_ulps: u64,
    /// Euclidean distance by Euclidean length.
    pub relative: f64,
    /// What `relative` is where every value is off by one unit.
    pub ulp: f64,
}

impl Apart {
    /// Of a tensor from what it should be.
    pub fn between(got: &[i64], expected: &[i64]) -> Self {
        let pairs = || got.iter().zip(expected).map(|(a, b)| (a.wrapping_sub(*b), *b));
        let max_ulps = pairs().map(|(d, _)| d.unsigned_abs()).max().unwrap_or(0);
        let sum = |f: fn((i64, i64)) -> f64| pairs().map(f).sum::<f64>();
        let (off, length) = (sum(|(d, _)| (d as f64).powi(2)), sum(|(_, b)| (b as f64).powi(2)));
        let relative = |off: f64| if length > 0.0 { (off / length).sqrt() } else { off.sqrt() };
        Self { max_ulps, relative: relative(off), ulp: relative(expected.len() as f64) }
    }

    /// The larger distance of both, in each measure.
    #[must_use]
    pub fn farther(&self, other: &Self) -> Self {
        let (max_ulps, relative) = (self.max_ulps.max(other.max_ulps), self.relative.max(other.relative));
        Self { max_ulps, relative, ulp: self.ulp }
    }
}
