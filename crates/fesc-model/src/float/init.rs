//! Random weights as the reference initialises them (state-spaces/mamba, `Mamba2.__init__` and
//! `_init_weights`).
//!
//! A uniform in [1, 16]; Delta's bias the inverse softplus of a log-uniform value in [0.001, 0.1]; D and
//! norms 1; embedding normal with deviation 0.02; linear layers and convolution uniform in +-1/sqrt(fan in);
//! the output projections divided by sqrt(layers), so that the residual stream does not grow with depth.

use std::f64::consts::TAU;

use fesc_ring::Prg;

use super::weights::{Head, Layer, Weights};
use crate::Config;

/// Uniform in [0, 1) with 53 bits.
fn unit(prg: &mut Prg) -> f64 {
    (prg.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn uniform(prg: &mut Prg, count: usize, bound: f64) -> Vec<f32> {
    (0..count).map(|_| ((2.0 * unit(prg) - 1.0) * bound) as f32).collect()
}

/// Box and Muller; 1 - u keeps the logarithm's argument above 0.
fn normal(prg: &mut Prg, count: usize, deviation: f64) -> Vec<f32> {
    let one = |prg: &mut Prg| (-2.0 * (1.0 - unit(prg)).ln()).sqrt() * (TAU * unit(prg)).cos();
    (0..count).map(|_| (one(prg) * deviation) as f32).collect()
}

fn fan_in(width: usize) -> f64 {
    1.0 / (width as f64).sqrt()
}

impl Weights {
    /// Random weights; with a classifier of `classes` classes, and with a head of its own where the config
    /// ties none.
    pub fn random(config: &Config, classes: Option<usize>, prg: &mut Prg) -> Self {
        let c = config.shape();
        let layers = (0..c.layers).map(|_| {
            let step = |prg: &mut Prg| {
                let delta = (0.001f64.ln() + unit(prg) * 100f64.ln()).exp();
                (delta + (-(-delta).exp_m1()).ln()) as f32
            };
            Layer {
                norm: vec![1.0; c.d_model],
                in_proj: uniform(prg, c.proj_dim() * c.d_model, fan_in(c.d_model)),
                conv: uniform(prg, c.conv_dim() * c.conv_width, fan_in(c.conv_width)),
                conv_bias: uniform(prg, c.conv_dim(), fan_in(c.conv_width)),
                dt_bias: (0..c.heads).map(|_| step(prg)).collect(),
                a_log: (0..c.heads).map(|_| (1.0 + 15.0 * unit(prg)).ln() as f32).collect(),
                d: vec![1.0; c.heads],
                gated_norm: vec![1.0; c.inner()],
                out_proj: uniform(prg, c.d_model * c.inner(), fan_in(c.inner()) * fan_in(c.layers)),
            }
        });
        let layers = layers.collect();
        Self {
            layers,
            embedding: normal(prg, c.vocab * c.d_model, 0.02),
            norm: vec![1.0; c.d_model],
            lm_head: (!c.tied).then(|| normal(prg, c.vocab * c.d_model, 0.02)),
            head: classes.map(|n| Head { weight: uniform(prg, n * c.d_model, fan_in(c.d_model)), bias: vec![0.0; n] }),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn initial_values_have_the_ranges_of_the_reference() {
        let config = Config::named("tiny").unwrap();
        let weights = Weights::random(&config, Some(3), &mut Prg::from_seed([7; 16]));
        weights.check(&config).unwrap();
        for layer in &weights.layers {
            for (&a_log, &bias) in layer.a_log.iter().zip(&layer.dt_bias) {
                assert!((1.0..=16.001).contains(&a_log.exp()), "{a_log}");
                let delta = super::super::ops::softplus(bias);
                assert!((0.00099..=0.1001).contains(&delta), "{delta}");
            }
        }
        let square: f64 = weights.embedding.iter().map(|v| f64::from(*v).powi(2)).sum();
        let deviation = (square / weights.embedding.len() as f64).sqrt();
        // 16,384 samples: the deviation of this estimate is 0.55 percent.
        assert!((deviation / 0.02 - 1.0).abs() < 0.03, "{deviation}");
        let again = Weights::random(&config, Some(3), &mut Prg::from_seed([7; 16]));
        assert_eq!(weights.embedding, again.embedding);
        let other = Weights::random(&config, Some(3), &mut Prg::from_seed([8; 16]));
        assert_ne!(weights.embedding, other.embedding);
    }
}
