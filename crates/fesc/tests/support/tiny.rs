//! A tiny model that reads text, with its calibration.

use std::fs;
use std::path::Path;

use fesc_model::twin::Calibration;
use fesc_model::{Case, Checkpoint, Config, Model, Precision, Shape, Tokenizer, Weights};
use fesc_ring::Prg;

/// Names of its classes.
pub const CLASSES: [&str; 3] = ["Unions", "Federal Taxation", "First Amendment"];

/// A text of its own for every number, from a few words.
pub fn text(i: usize) -> String {
    let words = ["the court", "tax", "union", "speech", "of", "strike", "income", "leaflet", "v."];
    (0..10 + i % 30).map(|k| words[(i * 7 + k * k * (i + 3)) % words.len()]).collect::<Vec<_>>().join(" ")
}

/// Writes a model of this many layers; the seed gives its weights.
pub fn write(directory: &Path, layers: usize, seed: u8) {
    let tokenizer = Tokenizer::train((0..40).map(text), 300, Case::Kept).unwrap();
    let tiny = *Config::named("tiny").unwrap().shape();
    let config = Config::new(Shape { vocab: 304, layers, ..tiny }).unwrap();
    let config = config.with_labels(CLASSES.map(String::from).to_vec());
    let mut weights = Weights::random(&config, Some(3), &mut Prg::from_seed([seed; 16]));
    // Larger than at the start of training, so that documents differ in class.
    weights.embedding.iter_mut().for_each(|v| *v *= 20.0);
    weights.head.as_mut().unwrap().weight.iter_mut().for_each(|v| *v *= 8.0);
    Checkpoint::write(directory, &config, &weights, Precision::F32).unwrap();
    tokenizer.save(&directory.join("tokenizer.json")).unwrap();
    let model = Model::new(config, weights).unwrap();
    let documents = (0..40).map(|i| tokenizer.encode(&text(i), 128).unwrap().ids);
    Calibration::collect(&model, documents).unwrap().save(directory).unwrap();
}

/// The same without its calibration.
pub fn write_uncalibrated(directory: &Path, layers: usize, seed: u8) {
    write(directory, layers, seed);
    fs::remove_file(directory.join("calibration.json")).unwrap();
}
