//! Validation and calibration: forward passes without gradients.

use std::sync::Arc;

use fesc_model::{Config, Weights};
use serde::Serialize;

use crate::data::{self, Document};
use crate::forms::{Forms, Range};
use crate::graph::Graph;
use crate::parameters::Parameters;
use crate::{Result, worker};

/// How good a model is on labelled documents.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Score {
    /// Tokens of a document, at most.
    pub length: usize,
    /// Mean cross-entropy.
    pub loss: f64,
    /// Share of right answers.
    pub accuracy: f64,
    /// Documents.
    pub documents: usize,
}

/// Cross-entropy and accuracy on the first `length` tokens of every document.
pub fn evaluate(
    config: &Config,
    weights: &Weights,
    forms: &Arc<Forms>,
    documents: &[Document],
    length: usize,
    workers: usize,
) -> Result<Score> {
    let parameters = Parameters::new(config, weights.clone())?;
    data::check("evaluation", documents, config.vocab, parameters.classes())?;
    let graph = Graph::evaluation(config, &parameters, &parameters.values(), forms.clone())?;
    score(&graph, documents, length, workers)
}

/// The same for a graph.
pub fn score(graph: &Graph, documents: &[Document], length: usize, workers: usize) -> Result<Score> {
    let cut: Vec<&[u32]> = documents.iter().map(|(ids, _)| &ids[..ids.len().min(length)]).collect();
    let answers = worker::logits(graph, &cut, workers)?;
    let (mut loss, mut right) = (0.0, 0);
    for (answer, (_, label)) in answers.iter().zip(documents) {
        let top = answer.iter().copied().fold(f32::MIN, f32::max);
        let sum: f64 = answer.iter().map(|v| f64::from(v - top).exp()).sum();
        let own = answer.get(*label).copied().unwrap_or(f32::MIN);
        loss += sum.ln() - f64::from(own - top);
        right += usize::from(answer.iter().position(|v| *v == top) == Some(*label));
    }
    let count = documents.len().max(1) as f64;
    Ok(Score { length, loss: loss / count, accuracy: right as f64 / count, documents: documents.len() })
}

/// Documents that calibration looks at, at most (the paper's number).
pub const CALIBRATION_DOCUMENTS: usize = 500;

/// The range of every norm's mean square over the first [`CALIBRATION_DOCUMENTS`] documents, with exact rsqrt
/// and the other forms as given.
pub fn calibrate(
    config: &Config,
    weights: &Weights,
    forms: Arc<Forms>,
    documents: &[Document],
    length: usize,
    workers: usize,
) -> Result<Vec<Range>> {
    let parameters = Parameters::new(config, weights.clone())?;
    let graph = Graph::evaluation(config, &parameters, &parameters.values(), forms)?.observing();
    let few = &documents[..documents.len().min(CALIBRATION_DOCUMENTS)];
    let cut: Vec<&[u32]> = few.iter().map(|(ids, _)| &ids[..ids.len().min(length)]).collect();
    worker::logits(&graph, &cut, workers)?;
    Ok(graph.ranges().into_iter().map(Range::rounded).collect())
}
