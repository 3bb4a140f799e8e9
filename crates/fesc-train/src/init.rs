//! Initial weights: the reference's with a recipe's changes, or a student's from a deeper teacher.

use std::f64::consts::TAU;

use fesc_model::{Config, Weights};
use fesc_ring::Prg;

use crate::data::{Document, Purpose, generator, unit};
use crate::recipe::{EmbeddingInit, Recipe};
use crate::{Result, ppmi};

/// Box and Muller; 1 - u keeps the logarithm's argument above 0.
fn normal(prg: &mut Prg) -> f64 {
    (-2.0 * (1.0 - unit(prg)).ln()).sqrt() * (TAU * unit(prg)).cos()
}

pub(crate) fn fill(prg: &mut Prg, values: &mut [f32], deviation: f64) {
    values.iter_mut().for_each(|v| *v = (normal(prg) * deviation) as f32);
}

/// Weights as a recipe says; `documents` are for an embedding that is made from the texts.
pub fn initial_weights(recipe: &Recipe, config: &Config, documents: &[Document], workers: usize) -> Result<Weights> {
    let mut prg = generator(recipe.seed, Purpose::Weights, 0, 0);
    let mut weights = Weights::random(config, Some(recipe.classes), &mut prg);
    let init = &recipe.init;
    for layer in &mut weights.layers {
        if let Some(gain) = init.in_proj_gain {
            fill(&mut prg, &mut layer.in_proj, gain / (config.d_model as f64).sqrt());
        }
        if let Some(gain) = init.out_proj_gain {
            fill(&mut prg, &mut layer.out_proj, gain / (config.inner() as f64).sqrt());
        }
        if init.zero_conv_bias {
            layer.conv_bias.fill(0.0);
        }
    }
    if let Some(head) = weights.head.as_mut().filter(|_| init.zero_head) {
        head.weight.fill(0.0);
    }
    match init.embedding {
        None => {}
        Some(EmbeddingInit::Normal { deviation }) => fill(&mut prg, &mut weights.embedding, deviation),
        Some(EmbeddingInit::Ppmi { window, scale }) => {
            let mut prg = generator(recipe.seed, Purpose::Embedding, 0, 0);
            weights.embedding =
                ppmi::embedding(documents, config.vocab, config.d_model, window, scale, workers, &mut prg)?;
        }
    }
    Ok(weights)
}

/// A student of half the depth: every second layer of the teacher (the second, the fourth, ...), its
/// embedding, norm and heads. For 24 layers this is the paper's 12.
pub fn student(config: &Config, teacher: &Weights) -> Result<(Config, Weights)> {
    let mut shape = *config.shape();
    let layers: Vec<_> = teacher.layers.iter().skip(1).step_by(2).cloned().collect();
    shape.layers = layers.len();
    let config = Config::new(shape)?.with_labels(config.labels().to_vec());
    Ok((config, Weights { layers, ..teacher.clone() }))
}
