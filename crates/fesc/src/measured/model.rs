//! Random models of named shapes, calibrated on random tokens. Always the same ones: scales, and with them
//! bytes and rounds, follow from the weights, and `fesc estimate` must know them.

use anyhow::{Context, Result};
use fesc_infer::kernels::private_plan;
use fesc_model::outline::Outline;
use fesc_model::twin::{Calibration, Twin};
use fesc_model::{Config, Model, Plan, Shape, Weights};
use fesc_ring::Prg;

use super::Task;

/// Classes of the head.
const CLASSES: usize = 13;

/// Tokens of a calibration document, at most. Longer runs have the same scales.
const CALIBRATION: usize = 256;

/// The config of a task.
pub fn config(task: &Task) -> Result<Config> {
    let named = match Config::named(&task.shape) {
        Some(named) => named,
        None => Config::from_json(&task.shape).context("neither the name of a shape nor a config")?,
    };
    let vocab = task.vocab.unwrap_or(named.shape().vocab);
    Ok(Config::new(Shape { layers: task.layers, vocab, ..*named.shape() })?)
}

/// Weights, and the documents of the calibration.
const SEED: [u8; 16] = [0xfe; 16];

/// The model of a task, and its ranges.
fn model(task: &Task) -> Result<(Model, Calibration)> {
    let config = config(task)?;
    let mut prg = Prg::from_seed(SEED);
    let model = Model::new(config.clone(), Weights::random(&config, Some(CLASSES), &mut prg))?;
    let length = task.length.min(CALIBRATION);
    let documents: Vec<Vec<u32>> = (0..2).map(|_| tokens(config.shape().vocab, length, &mut prg)).collect();
    let calibration = Calibration::collect(&model, &documents)?;
    Ok((model, calibration))
}

/// The model of a task in integers.
pub fn twin(task: &Task) -> Result<Twin> {
    let (model, calibration) = model(task)?;
    Ok(Twin::new(&model, &calibration, private_plan(&task.plan)?)?)
}

/// Its config and ranges.
pub fn random_model(task: &Task) -> Result<(Config, Calibration)> {
    let (model, calibration) = model(task)?;
    Ok((model.config().clone(), calibration))
}

/// Its outline.
pub fn random_outline(task: &Task) -> Result<Outline> {
    let (config, calibration) = random_model(task)?;
    outline(&config, &calibration, private_plan(&task.plan)?)
}

/// The outline of a random model by a plan.
pub fn outline(config: &Config, calibration: &Calibration, plan: Plan) -> Result<Outline> {
    Ok(Outline::new(config, calibration, plan)?.with_classes(CLASSES)?)
}

/// The document of a task.
pub fn document(task: &Task) -> Result<Vec<u32>> {
    Ok(tokens(config(task)?.shape().vocab, task.length, &mut Prg::from_seed(task.seed)))
}

fn tokens(vocab: usize, length: usize, prg: &mut Prg) -> Vec<u32> {
    (0..length).map(|_| (prg.next_u64() % vocab.max(1) as u64) as u32).collect()
}
