//! Calibration: the ranges of a model's tensors on sample documents.
//!
//! Scales and the ranges of the norms follow from it (`plan.rs`) with these margins: a magnitude may grow by
//! [`RANGE_MARGIN`] and a variance may leave its span by [`VARIANCE_MARGIN`] on both sides before a document
//! is refused. The file `calibration.json` lies beside the checkpoint. Scales are public in the protocol, so
//! that a calibration tells a peer the order of magnitude of each tensor; take public sample documents.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::TwinError;
use super::stats::{self, Kept, LayerStats, NormStats};
use crate::outline::scale::CHUNK;
use crate::{Model, ModelError, Result, Shape, Tensor};

/// A magnitude may be this many times the largest one seen.
pub const RANGE_MARGIN: f64 = 2.0;
/// A mean of squares may be this many times below the smallest or above the largest one seen. The gated
/// norm's is heavy-tailed: a factor of 4 was passed by the first other document on a half-trained classifier.
/// It costs four octaves on each side, so eight thresholds per token, and two bits of what is squared.
pub const VARIANCE_MARGIN: f64 = 16.0;
/// The same in the paper plan, where eight constant buckets must cover the range: a wider one costs
/// accuracy.
pub const PAPER_VARIANCE_MARGIN: f64 = 4.0;
/// The file's name beside a checkpoint.
pub const FILE: &str = "calibration.json";
/// A calibration of 4,096 layers has about 4 MB.
const LIMIT: u64 = 16 << 20;
const VERSION: u32 = 1;

/// The ranges seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    version: u32,
    /// Shape of the model: d_model, heads, head_dim, state, groups, norm groups.
    shape: [usize; 6],
    chunk: usize,
    /// Documents and tokens that were looked at.
    pub documents: u64,
    /// All tokens together.
    pub tokens: u64,
    /// By block.
    pub layers: Vec<LayerStats>,
    /// The final norm.
    pub last: NormStats,
}

fn key(s: &Shape) -> [usize; 6] {
    [s.d_model, s.heads, s.head_dim, s.state, s.groups, s.norm_groups]
}

fn bad(reason: impl Into<String>) -> ModelError {
    TwinError::BadCalibration { reason: reason.into() }.into()
}

impl Calibration {
    /// Runs the float model over documents and records the ranges.
    pub fn collect<D: AsRef<[u32]>>(model: &Model, documents: impl IntoIterator<Item = D>) -> Result<Self> {
        let config = model.config();
        let mut all: Option<Self> = None;
        for document in documents {
            let one = Self::of(model, document.as_ref())?;
            match &mut all {
                None => all = Some(one),
                Some(all) => all.merge(&one)?,
            }
        }
        let mut all = all.ok_or_else(|| bad("it was made from no document"))?;
        all.tidy();
        all.check(config)?;
        Ok(all)
    }

    fn of(model: &Model, ids: &[u32]) -> Result<Self> {
        let (config, weights) = (model.config(), model.weights());
        let mut layers = vec![LayerStats::empty(); config.layers];
        let mut last = NormStats::EMPTY;
        let mut kept = Kept::default();
        model.forward_with(ids, model.default_scan(), &mut |site, x| {
            if site.tensor == Tensor::Residual
                && let Some(before) = site.layer.checked_sub(1).and_then(|i| layers.get_mut(i))
            {
                stats::note_output(before, &mut kept, x);
            }
            match (layers.get_mut(site.layer), weights.layers.get(site.layer)) {
                (Some(stats), Some(layer)) => {
                    stats::note(stats, &mut kept, config, layer, CHUNK, site.tensor, x);
                }
                _ if site.tensor == Tensor::Residual => last.note(x, 1),
                _ => {}
            }
        })?;
        let (documents, tokens) = (1, ids.len() as u64);
        Ok(Self { version: VERSION, shape: key(config), chunk: CHUNK, documents, tokens, layers, last })
    }

    /// Takes the ranges of another calibration of the same model into this one.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if (self.shape, self.chunk, self.layers.len()) != (other.shape, other.chunk, other.layers.len()) {
            return Err(bad("the two are of models of different shapes"));
        }
        self.layers.iter_mut().zip(&other.layers).for_each(|(a, b)| a.merge(b));
        self.last.merge(&other.last);
        self.documents += other.documents;
        self.tokens += other.tokens;
        Ok(())
    }

    /// Rounds to f32. JSON gives back an f64 to its last bit only; scales must not depend on whether a
    /// calibration was saved.
    fn tidy(&mut self) {
        let round = |v: &mut f64| *v = f64::from(*v as f32);
        for layer in &mut self.layers {
            layer.magnitudes().into_iter().for_each(round);
            [&mut layer.norm.mean_square, &mut layer.gated.mean_square, &mut layer.step]
                .into_iter()
                .for_each(|span| [&mut span.min, &mut span.max].into_iter().for_each(round));
        }
        let last = &mut self.last;
        [&mut last.input, &mut last.mean_square.min, &mut last.mean_square.max].into_iter().for_each(round);
    }

    /// Holds the numbers to being those of a model of this shape.
    pub(crate) fn check(&self, shape: &Shape) -> Result<()> {
        if self.version != VERSION {
            return Err(bad(format!("its version is {}, this program reads {VERSION}", self.version)));
        }
        if self.shape != key(shape) || self.layers.len() != shape.layers || self.chunk != CHUNK {
            return Err(bad("it was made for a model of another shape"));
        }
        for (i, layer) in self.layers.iter().enumerate() {
            let spans = [layer.norm.mean_square, layer.gated.mean_square, layer.step];
            let magnitudes = layer.clone().magnitudes().map(|v| *v);
            if !spans.iter().all(super::stats::Span::is_sound) || magnitudes.iter().any(|v| !(0.0..1e30).contains(v)) {
                return Err(bad(format!("layer {i} has a range that is empty or not finite")));
            }
        }
        if !self.last.mean_square.is_sound() || !(0.0..1e30).contains(&self.last.input) {
            return Err(bad("the final norm has a range that is empty or not finite"));
        }
        Ok(())
    }

    /// Reads `calibration.json` of a checkpoint directory.
    pub fn load(directory: &Path) -> Result<Self> {
        let path = directory.join(FILE);
        if !path.exists() {
            return Err(TwinError::NoCalibration { path }.into());
        }
        let text = crate::checkpoint::read_text(&path, LIMIT)?;
        Self::parse(&text).map_err(|reason| ModelError::Json { path, reason })
    }

    /// The same from the text of such a file.
    pub fn from_json(text: &str) -> Result<Self> {
        Self::parse(text).map_err(|reason| ModelError::Json { path: FILE.into(), reason })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut read: Self = serde_json::from_str(text).map_err(|e| e.to_string())?;
        read.tidy();
        Ok(read)
    }

    /// Writes `calibration.json` into a checkpoint directory.
    pub fn save(&self, directory: &Path) -> Result<()> {
        let path = directory.join(FILE);
        let reason = |e: serde_json::Error| ModelError::Json { path: path.clone(), reason: e.to_string() };
        let text = serde_json::to_string_pretty(self).map_err(reason)?;
        fs::write(&path, text + "\n").map_err(|source| ModelError::Io { path, source })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::{Config, Weights};
    use fesc_ring::Prg;

    fn model(name: &str) -> Model {
        let config = Config::named(name).unwrap();
        let weights = Weights::random(&config, Some(3), &mut Prg::from_seed([1; 16]));
        Model::new(config, weights).unwrap()
    }

    #[test]
    fn merging_is_collecting_together() {
        let model = model("tiny");
        let documents: [Vec<u32>; 2] = [(0..200).collect(), (7..90).rev().collect()];
        let together = Calibration::collect(&model, &documents).unwrap();
        let mut merged = Calibration::collect(&model, &documents[..1]).unwrap();
        merged.merge(&Calibration::collect(&model, &documents[1..]).unwrap()).unwrap();
        assert_eq!(merged, together);
        assert_eq!((together.documents, together.tokens), (2, 283));
        let error = Calibration::collect(&model, [[0u32; 0]; 0]).unwrap_err().to_string();
        assert!(error.contains("no document"), "{error}");
    }

    #[test]
    fn files_come_back_and_bad_ones_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let error = Calibration::load(directory.path()).unwrap_err().to_string();
        assert!(error.contains("calibration.json is missing") && error.contains("Calibration::collect"), "{error}");
        let model = model("tiny");
        let made = Calibration::collect(&model, [[1u32, 2, 3, 4]]).unwrap();
        made.save(directory.path()).unwrap();
        let mut read = Calibration::load(directory.path()).unwrap();
        assert_eq!(read, made);
        assert_eq!(Calibration::from_json(&fs::read_to_string(directory.path().join(FILE)).unwrap()).unwrap(), made);
        assert!(matches!(Calibration::from_json("{}"), Err(ModelError::Json { .. })));
        read.check(model.config()).unwrap();
        read.layers[1].state = f64::INFINITY;
        assert!(read.check(model.config()).unwrap_err().to_string().contains("layer 1"));
        read.layers.pop();
        assert!(read.check(model.config()).unwrap_err().to_string().contains("another shape"));
        assert!(made.clone().merge(&read).is_err());
        for text in ["{}", "[1", "{\"version\": 9}"] {
            fs::write(directory.path().join(FILE), text).unwrap();
            assert!(matches!(Calibration::load(directory.path()), Err(ModelError::Json { .. })), "{text}");
        }
    }
}
