//! Data parallelism: every worker builds the graph of its share of the batch; sums are taken in the order of
//! the workers.
//!
//! The result depends on the number of workers (the order of the sums) and on nothing else of the machine's
//! timing: the same seed and the same number of workers give the same weights, bit for bit.

use std::thread;

use candle_core::{Device, Tensor};

use crate::data::{Example, shares};
use crate::graph::{Graph, Packed};
use crate::loss::{self, Teaching};
use crate::recipe::Objective;
use crate::{Result, TrainError};

/// Loss and gradients of a step.
pub(crate) struct Step {
    /// Mean over the documents.
    pub(crate) loss: f64,
    /// In the order of the parameters.
    pub(crate) gradients: Vec<Vec<f32>>,
}

/// How the loss of a share is computed.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) objective: Objective,
    pub(crate) smoothing: f64,
    /// The teacher as a graph without gradients, all forms exact.
    pub(crate) teacher: Option<&'a Graph>,
    /// Factors of the pooled vector, one row of `d_model` per document of the batch; empty is none.
    pub(crate) dropout: &'a [f32],
}

/// Runs `f` on every share, each on a thread of its own.
fn on_threads<T: Send>(shares: &[Vec<usize>], f: impl Fn(&[usize]) -> Result<T> + Sync) -> Result<Vec<T>> {
    if let [only] = shares {
        return Ok(vec![f(only)?]);
    }
    let lost = || TrainError::Data { set: "training", reason: "a worker thread panicked".into() };
    thread::scope(|scope| {
        let handles: Vec<_> = shares.iter().map(|share| scope.spawn(|| f(share))).collect();
        handles.into_iter().map(|handle| handle.join().map_err(|_| lost())?).collect()
    })
}

fn rows(values: &[f32], width: usize, share: &[usize]) -> Result<Tensor> {
    let picked: Vec<f32> = share.iter().flat_map(|&i| values[i * width..(i + 1) * width].iter().copied()).collect();
    Ok(Tensor::from_vec(picked, (share.len(), width), &Device::Cpu)?)
}

/// One share: the sum of its losses over the batch's size, with gradients.
fn one(graph: &Graph, batch: &[Example], share: &[usize], task: Task<'_>) -> Result<Step> {
    let packed = Packed::new(share.iter().map(|&i| batch[i].ids.as_slice()));
    let labels: Vec<usize> = share.iter().map(|&i| batch[i].label).collect();
    let dropout = match task.dropout.len() / batch.len() {
        0 => None,
        width => Some(rows(task.dropout, width, share)?),
    };
    let answers = match (task.objective, task.teacher) {
        (Objective::Task, _) => None,
        (Objective::Distill { .. }, None) => {
            return Err(TrainError::Data { set: "training", reason: "distillation needs a teacher".into() });
        }
        (Objective::Distill { .. }, Some(teacher)) => {
            Some(teacher.logits(&Packed::new(share.iter().map(|&i| batch[i].whole.as_slice())), None)?)
        }
    };
    let teaching = match (task.objective, &answers) {
        (Objective::Distill { temperature, lambda }, Some(logits)) => Some(Teaching { logits, temperature, lambda }),
        _ => None,
    };
    let loss = |logits: &Tensor| Ok((loss::total(logits, &labels, task.smoothing, teaching)? / batch.len() as f64)?);
    let (loss, gradients) = graph.gradients(&packed, dropout.as_ref(), loss)?;
    Ok(Step { loss, gradients })
}

/// Loss and gradients of a batch on `workers` threads.
pub(crate) fn step(graph: &Graph, batch: &[Example], task: Task<'_>, workers: usize) -> Result<Step> {
    let lengths: Vec<usize> = batch.iter().map(|e| e.ids.len()).collect();
    let parts = on_threads(&shares(&lengths, workers), |share| one(graph, batch, share, task))?;
    let add = |mut sum: Step, part: Step| {
        sum.loss += part.loss;
        for (sum, part) in sum.gradients.iter_mut().zip(&part.gradients) {
            sum.iter_mut().zip(part).for_each(|(sum, v)| *sum += v);
        }
        sum
    };
    let none = || TrainError::Data { set: "training", reason: "a batch without documents".into() };
    parts.into_iter().reduce(add).ok_or_else(none)
}

/// Logits of many documents, in their order, without gradients. Workers take a few thousand tokens at a time.
pub(crate) fn logits(graph: &Graph, documents: &[&[u32]], workers: usize) -> Result<Vec<Vec<f32>>> {
    let lengths: Vec<usize> = documents.iter().map(|d| d.len()).collect();
    let shares = shares(&lengths, workers);
    let parts = on_threads(&shares, |share| {
        let mut answers = Vec::with_capacity(share.len());
        let mut rest = share;
        while !rest.is_empty() {
            let mut tokens = 0;
            let more = |&&i: &&usize| {
                tokens += lengths[i];
                tokens <= 4096
            };
            let count = rest.iter().take_while(more).count().max(1);
            let (now, later) = rest.split_at(count);
            let packed = Packed::new(now.iter().map(|&i| documents[i]));
            answers.extend(graph.logits(&packed, None)?.to_vec2::<f32>()?);
            rest = later;
        }
        Ok(answers)
    })?;
    let mut out = vec![Vec::new(); documents.len()];
    for (share, answers) in shares.iter().zip(parts) {
        for (&i, answer) in share.iter().zip(answers) {
            out[i] = answer;
        }
    }
    Ok(out)
}
