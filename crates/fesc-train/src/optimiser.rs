//! AdamW with decoupled weight decay, clipping by the global norm, warm-up and linear decay.
//!
//! Moments are dense, the embedding's too: its rows that a batch does not touch still move by their momentum
//! and decay, as in the reference implementations. Cost: one pass over all values and their moments.

use pulp::Arch;
use serde::{Deserialize, Serialize};

use crate::parameters::{ParameterKind, Parameters};

/// The constants of the optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamW {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decay of matrices and of the embedding per unit of learning rate.
    pub weight_decay: f64,
    /// Gradients of a larger global norm are scaled to this one; 0 is never.
    pub clip: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.05, clip: 1.0 }
    }
}

/// Moments of all parameters.
#[derive(Clone, PartialEq)]
pub struct Moments {
    /// First moments.
    pub m: Vec<Vec<f32>>,
    /// Second moments.
    pub v: Vec<Vec<f32>>,
    /// Steps taken.
    pub steps: u64,
}

impl Moments {
    /// Before the first step.
    pub fn new(parameters: &Parameters) -> Self {
        let zeros: Vec<Vec<f32>> = parameters.list.iter().map(|p| vec![0.0; p.values.len()]).collect();
        Self { m: zeros.clone(), v: zeros, steps: 0 }
    }
}

/// The norm of all gradients together.
pub fn global_norm(gradients: &[Vec<f32>]) -> f64 {
    let square = |g: &Vec<f32>| g.chunks(4096).map(|c| f64::from(c.iter().map(|v| v * v).sum::<f32>())).sum::<f64>();
    Arch::new().dispatch(
        #[inline(always)]
        || gradients.iter().map(square).sum::<f64>().sqrt(),
    )
}

/// The learning rate of a step: up over the first `warmup` of the steps, linearly down to `last` of the peak.
pub fn learning_rate(peak: f64, warmup: f64, last: f64, step: usize, steps: usize) -> f64 {
    let done = step as f64 / steps.max(1) as f64;
    let rise = (step + 1) as f64 / (warmup * steps as f64).max(1.0);
    peak * rise.min(1.0) * ((1.0 - done) * (1.0 - last) + last)
}

struct Rates {
    beta1: f32,
    beta2: f32,
    /// Of the gradient, from clipping.
    scale: f32,
    /// 1 - lr decay.
    keep: f32,
    step: f32,
    root_correction: f32,
    eps: f32,
}

#[inline(always)]
fn update(r: &Rates, values: &mut [f32], gradient: &[f32], m: &mut [f32], v: &mut [f32]) {
    for (((p, g), m), v) in values.iter_mut().zip(gradient).zip(m).zip(v) {
        let g = g * r.scale;
        *m = r.beta1 * *m + (1.0 - r.beta1) * g;
        *v = r.beta2 * *v + (1.0 - r.beta2) * g * g;
        *p = *p * r.keep - r.step * *m / (v.sqrt() * r.root_correction + r.eps);
    }
}

impl AdamW {
    /// One step with a learning rate for every kind; returns the norm of the gradient before clipping.
    ///
    /// A parameter whose gradient is empty took no part: it and its moments stay as they are.
    pub fn step(
        &self,
        parameters: &mut Parameters,
        gradients: &[Vec<f32>],
        moments: &mut Moments,
        lr: impl Fn(ParameterKind) -> f64,
    ) -> f64 {
        let norm = global_norm(gradients);
        let scale = if self.clip > 0.0 && norm > self.clip { self.clip / norm } else { 1.0 };
        moments.steps += 1;
        let steps = i32::try_from(moments.steps).unwrap_or(i32::MAX);
        let (first, second) = (1.0 - self.beta1.powi(steps), 1.0 - self.beta2.powi(steps));
        let slots = moments.m.iter_mut().zip(&mut moments.v);
        for ((parameter, gradient), (m, v)) in parameters.list.iter_mut().zip(gradients).zip(slots) {
            if gradient.is_empty() {
                continue;
            }
            let lr = lr(parameter.kind);
            let decay = if matches!(parameter.kind, ParameterKind::Vector | ParameterKind::HeadBias) {
                0.0
            } else {
                self.weight_decay
            };
            let rates = Rates {
                beta1: self.beta1 as f32,
                beta2: self.beta2 as f32,
                scale: scale as f32,
                keep: (1.0 - lr * decay) as f32,
                step: (lr / first) as f32,
                root_correction: (1.0 / second.sqrt()) as f32,
                eps: self.eps as f32,
            };
            Arch::new().dispatch(
                #[inline(always)]
                || update(&rates, &mut parameter.values, gradient, m, v),
            );
        }
        norm
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::recipe::Recipe;

    fn parameters() -> Parameters {
        let text = r#"{"name": "t", "seed": 1, "classes": 3, "tokenizer": {"vocab": 5}, "evaluation": {"lengths": [9]},
            "shape": {"d_model": 4, "layers": 1, "heads": 1, "head_dim": 8, "state": 2}, "stages": [
            {"length": 9, "epochs": 1, "batch": 2, "lr": 1}]}"#;
        let recipe: Recipe = serde_json::from_str(text).unwrap();
        let config = recipe.config(5).unwrap();
        Parameters::new(&config, crate::initial_weights(&recipe, &config, &[], 1).unwrap()).unwrap()
    }

    /// Three steps of the textbook's formulas in f64.
    #[test]
    fn steps_are_those_of_the_formula() {
        let mut parameters = parameters();
        let before = parameters.clone();
        let mut moments = Moments::new(&parameters);
        let adam = AdamW { clip: 2.0, ..AdamW::default() };
        let gradient = |p: usize, i: usize, step: usize| ((p * 31 + i * 7 + step * 13) % 17) as f32 / 8.0 - 1.0;
        let rate = |kind| if kind == ParameterKind::Embedding { 0.01 } else { 0.1 };
        let mut norms = Vec::new();
        for step in 0..3 {
            let make = |(p, parameter): (usize, &crate::Parameter)| {
                if p == 2 { Vec::new() } else { (0..parameter.values.len()).map(|i| gradient(p, i, step)).collect() }
            };
            let gradients: Vec<Vec<f32>> = parameters.list.iter().enumerate().map(make).collect();
            let square: f64 = gradients.iter().flatten().map(|g| f64::from(*g).powi(2)).sum();
            norms.push(square.sqrt());
            let norm = adam.step(&mut parameters, &gradients, &mut moments, rate);
            assert!((norm / square.sqrt() - 1.0).abs() < 1e-5);
        }
        assert!(norms.iter().all(|n| *n > 2.0), "clipping must act");
        for (p, (after, before)) in parameters.list.iter().zip(&before.list).enumerate() {
            let decay = if matches!(after.kind, ParameterKind::Vector | ParameterKind::HeadBias) { 0.0 } else { 0.05 };
            for (i, (after, start)) in after.values.iter().zip(&before.values).enumerate() {
                let (mut value, mut m, mut v) = (f64::from(*start), 0.0, 0.0);
                for (step, norm) in norms.iter().enumerate().filter(|_| p != 2) {
                    let lr = rate(before.kind);
                    let g = f64::from(gradient(p, i, step)) * 2.0 / norm;
                    m = 0.9 * m + 0.1 * g;
                    v = 0.99 * v + 0.01 * g * g;
                    let power = step as i32 + 1;
                    let root = (v / (1.0 - 0.99f64.powi(power))).sqrt();
                    value -= lr * decay * value + lr * (m / (1.0 - 0.9f64.powi(power))) / (root + 1e-8);
                }
                assert!((f64::from(*after) - value).abs() < 2e-5, "parameter {p}, entry {i}: {after} {value}");
            }
        }
    }

    #[test]
    fn the_rate_rises_and_falls() {
        let rates: Vec<f64> = (0..100).map(|step| learning_rate(2.0, 0.1, 0.05, step, 100)).collect();
        assert!((rates[0] - 0.2).abs() < 1e-12 && rates[..10].windows(2).all(|w| w[0] < w[1]));
        assert!(rates[10..].windows(2).all(|w| w[0] > w[1]));
        assert!((rates[99] - 2.0 * (0.01 * 0.95 + 0.05)).abs() < 1e-12);
        assert_eq!(learning_rate(1.0, 0.0, 0.0, 0, 10), 1.0);
    }
}
