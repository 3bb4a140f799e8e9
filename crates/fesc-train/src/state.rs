//! The state of a run in one file: values, moments, average, position. Written beside its place, then
//! renamed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::forms::Range;
use crate::optimiser::Moments;
use crate::parameters::Parameters;
use crate::{Result, TrainError};

/// Where a run is, besides its tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Position {
    /// The recipe, so that a state is never resumed under another one.
    pub(crate) recipe: String,
    /// Workers, on which the order of sums depends.
    pub(crate) workers: usize,
    /// Configuration, documents and teacher in 64 bits ([`crate::fingerprint`]); states of older versions
    /// have none.
    #[serde(default)]
    pub(crate) inputs: Option<u64>,
    pub(crate) stage: usize,
    /// Steps done in the stage.
    pub(crate) step: usize,
    /// Smallest validation loss of the stage.
    pub(crate) best: Option<f64>,
    /// Calibrated ranges, frozen.
    pub(crate) ranges: Option<Vec<Range>>,
    /// Seconds of training so far.
    pub(crate) seconds: f64,
    pub(crate) optimiser_steps: u64,
}

impl Position {
    /// Rounds to f32. JSON gives back an f64 but for its last bit, and a resumed run must see the numbers of
    /// the run.
    pub(crate) fn tidy(&mut self) {
        self.best = self.best.map(|loss| f64::from(loss as f32));
        self.ranges.iter_mut().flatten().for_each(|range| *range = range.rounded());
    }
}

/// Position and tensors.
pub(crate) struct State {
    pub(crate) position: Position,
    pub(crate) parameters: Parameters,
    pub(crate) moments: Moments,
    /// The moving average, if the stage has one.
    pub(crate) average: Option<Vec<Vec<f32>>>,
}

const KEY: &str = "fesc-train";

impl State {
    /// Writes the file.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let io = |source| TrainError::Io { path: path.into(), source };
        let other = |e: String| io(std::io::Error::other(e));
        let mut tensors: Vec<(String, &[f32])> = Vec::new();
        for (i, p) in self.parameters.list.iter().enumerate() {
            tensors.push((format!("values.{}", p.name), &p.values));
            tensors.push((format!("m.{}", p.name), &self.moments.m[i]));
            tensors.push((format!("v.{}", p.name), &self.moments.v[i]));
            if let Some(average) = &self.average {
                tensors.push((format!("average.{}", p.name), &average[i]));
            }
        }
        let mut views = Vec::with_capacity(tensors.len());
        for (name, values) in tensors {
            let view = TensorView::new(Dtype::F32, vec![values.len()], bytemuck::cast_slice(values));
            views.push((name, view.map_err(|e| other(e.to_string()))?));
        }
        let position = serde_json::to_string(&self.position).map_err(|e| other(e.to_string()))?;
        let metadata = HashMap::from([(KEY.to_string(), position)]);
        let new = path.with_extension("new");
        safetensors::serialize_to_file(views, Some(metadata), &new).map_err(|e| other(e.to_string()))?;
        fs::File::open(&new).and_then(|f| f.sync_all()).map_err(io)?;
        fs::rename(&new, path).map_err(io)
    }

    /// Reads a file into a run that has these parameters.
    pub(crate) fn read(path: &Path, mut parameters: Parameters) -> Result<Self> {
        let refuse = |reason: String| TrainError::Resume { path: path.into(), reason };
        let bytes = fs::read(path).map_err(|source| TrainError::Io { path: path.into(), source })?;
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| refuse(e.to_string()))?;
        let text = header.metadata().as_ref().and_then(|m| m.get(KEY));
        let text = text.ok_or_else(|| refuse("it is no state of a training run".into()))?;
        let mut position: Position = serde_json::from_str(text).map_err(|e| refuse(e.to_string()))?;
        position.tidy();
        let file = SafeTensors::deserialize(&bytes).map_err(|e| refuse(e.to_string()))?;
        let take = |kind: &str, name: &str, count: usize| {
            let view = file.tensor(&format!("{kind}.{name}")).map_err(|e| refuse(e.to_string()))?;
            if view.dtype() != Dtype::F32 || view.data().len() != 4 * count {
                return Err(refuse(format!("{kind}.{name} has another size than the model's")));
            }
            Ok(view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect::<Vec<f32>>())
        };
        let mut moments = Moments { m: Vec::new(), v: Vec::new(), steps: position.optimiser_steps };
        let mut average = Vec::new();
        let averaged = parameters.list.first().is_some_and(|p| file.tensor(&format!("average.{}", p.name)).is_ok());
        for p in &mut parameters.list {
            let count = p.values.len();
            moments.m.push(take("m", &p.name, count)?);
            moments.v.push(take("v", &p.name, count)?);
            if averaged {
                average.push(take("average", &p.name, count)?);
            }
            p.values = take("values", &p.name, count)?;
        }
        Ok(Self { position, parameters, moments, average: averaged.then_some(average) })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use fesc_model::{Config, Weights};
    use fesc_ring::Prg;

    fn state() -> State {
        let config = Config::named("tiny").unwrap();
        let weights = Weights::random(&config, Some(3), &mut Prg::from_seed([1; 16]));
        let parameters = Parameters::new(&config, weights).unwrap();
        let mut moments = Moments::new(&parameters);
        moments.m[1][2] = 0.5;
        moments.v[3][4] = 0.25;
        moments.steps = 7;
        let position = Position {
            recipe: "r".into(),
            workers: 2,
            inputs: Some(u64::MAX - 5),
            stage: 1,
            step: 5,
            best: Some(0.1),
            // Many numbers of many digits: some of them come back from JSON with another last bit.
            ranges: Some((1..2000).map(|i| Range { low: f64::from(i).sqrt(), high: f64::from(i).ln_1p() }).collect()),
            seconds: 1.5,
            optimiser_steps: 7,
        };
        let mut position = position;
        position.tidy();
        let average = Some(parameters.values());
        State { position, parameters, moments, average }
    }

    #[test]
    fn comes_back_and_is_refused_when_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.safetensors");
        let state = state();
        state.write(&path).unwrap();
        let read = || State::read(&path, state.parameters.clone());
        let back = read().unwrap();
        assert_eq!(back.position, state.position);
        assert!(back.parameters == state.parameters && back.moments == state.moments && back.average == state.average);
        let whole = std::fs::read(&path).unwrap();
        for keep in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..keep]).unwrap();
            assert!(matches!(read(), Err(TrainError::Resume { .. })), "{keep} bytes");
        }
        // Another file of the same kind, and another model's.
        std::fs::write(&path, &whole).unwrap();
        let mut other = state.parameters.clone();
        other.list[1].values.push(0.0);
        assert!(matches!(State::read(&path, other), Err(TrainError::Resume { .. })));
        safetensors::serialize_to_file(Vec::<(String, TensorView<'_>)>::new(), None, &path).unwrap();
        assert!(matches!(read(), Err(TrainError::Resume { .. })));
    }
}
