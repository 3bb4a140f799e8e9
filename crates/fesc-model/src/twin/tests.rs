#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accuracy;
mod ranges;
mod reference;
mod segments;
mod spread;

use fesc_ring::Prg;

use super::*;
use crate::{Config, Model, Pooling, Shape, Weights};

/// A small shape with one group, four taps and mean pooling.
fn shape(d_model: usize, heads: usize, head_dim: usize, state: usize) -> Shape {
    Shape {
        vocab: 50,
        d_model,
        layers: 2,
        heads,
        head_dim,
        state,
        pooling: Pooling::Mean,
        ..*Config::named("tiny").unwrap().shape()
    }
}

fn model_with(shape: Shape, seed: u8, change: impl FnOnce(&mut Weights)) -> Model {
    let config = Config::new(shape).unwrap();
    let mut weights = Weights::random(&config, Some(5), &mut Prg::from_seed([seed; 16]));
    change(&mut weights);
    Model::new(config, weights).unwrap()
}

fn document(length: usize, seed: u8) -> Vec<u32> {
    let mut prg = Prg::from_seed([seed; 16]);
    (0..length).map(|_| (prg.next_u64() % 50) as u32).collect()
}

/// Calibrated on two other documents of the same length, and on one of 40 tokens.
fn twin(model: &Model, length: usize, plan: Plan) -> Twin {
    let documents = [document(length, 101), document(length, 102), document(40, 103)];
    Twin::new(model, &Calibration::collect(model, &documents).unwrap(), plan).unwrap()
}
