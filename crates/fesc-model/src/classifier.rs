//! A classifier of text with all that belongs to it, from a directory or from the program itself.

use std::path::{Path, PathBuf};

use crate::checkpoint::read_text;
use crate::tokenizer::TOKENIZER_LIMIT;
use crate::twin::{Calibration, Plan, Twin};
use crate::{Checkpoint, Model, ModelError, Result, Tokenizer, metrics};

/// The shipped model. It is part of this package, so that an installed program needs no other file.
mod shipped {
    macro_rules! file {
        ($name:literal) => {
            concat!(env!("CARGO_MANIFEST_DIR"), "/models/scotus/", $name)
        };
    }
    /// What it is called in results.
    pub const NAME: &str = "scotus (shipped)";
    pub const CONFIG: &str = include_str!(file!("config.json"));
    pub const WEIGHTS: &[u8] = include_bytes!(file!("model.safetensors"));
    pub const TOKENIZER: &str = include_str!(file!("tokenizer.json"));
    pub const CALIBRATION: &str = include_str!(file!("calibration.json"));
}

/// A classifier of text: config with the names of its classes, weights, tokenizer and, where it was
/// calibrated, the ranges that its fixed-point twin needs.
///
/// ```
/// use fesc_model::Classifier;
/// # fn main() -> fesc_model::Result<()> {
/// let classifier = Classifier::shipped()?;
/// let document = classifier.tokenizer().encode("The officers searched the car without a warrant.", 2048)?;
/// let verdict = classifier.classify(&document.ids)?;
/// assert_eq!(classifier.label(verdict.class), Some("Criminal Procedure"));
/// # Ok(())
/// # }
/// ```
///
/// Everything is checked on loading: names and shapes of the tensors against the config, every weight for
/// being a number, the tokenizer's ids against the embedding. The calibration is read when the twin is made.
///
/// Not guaranteed: that the tokenizer is the one that the model was trained with.
pub struct Classifier {
    name: String,
    /// Where the files are; `None` for the shipped model.
    directory: Option<PathBuf>,
    model: Model,
    tokenizer: Tokenizer,
    tokenizer_json: String,
}

/// What was decided about a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The class.
    pub class: usize,
    /// One logit per class.
    pub logits: Vec<f64>,
}

impl Classifier {
    /// The classifier that is part of this package: a small one of Supreme Court opinions. Its card is
    /// `models/scotus/README.md`.
    pub fn shipped() -> Result<Self> {
        let checkpoint = Checkpoint::embedded(shipped::NAME, shipped::CONFIG, shipped::WEIGHTS)?;
        Self::checked(shipped::NAME.into(), None, &checkpoint, shipped::TOKENIZER.into())
    }

    /// The classifier of a directory with `config.json`, `model.safetensors` and `tokenizer.json`.
    pub fn open(directory: &Path) -> Result<Self> {
        if !directory.join("config.json").exists() {
            return Err(ModelError::NoModel { directory: directory.into() });
        }
        let checkpoint = Checkpoint::open(directory)?;
        let Some(path) = checkpoint.tokenizer_path() else {
            return Err(ModelError::NoTokenizer { directory: directory.into() });
        };
        let tokenizer = read_text(&path, TOKENIZER_LIMIT)?;
        Self::checked(directory.display().to_string(), Some(directory.into()), &checkpoint, tokenizer)
    }

    fn checked(name: String, directory: Option<PathBuf>, checkpoint: &Checkpoint, json: String) -> Result<Self> {
        if checkpoint.classes().is_none() {
            return Err(ModelError::NoHead { head: "classifier" });
        }
        let tokenizer = Tokenizer::from_json(&json)?;
        tokenizer.check(checkpoint.config().vocab)?;
        Ok(Self { name, directory, model: checkpoint.load()?, tokenizer, tokenizer_json: json })
    }

    /// Where it comes from: its directory, or the name of the shipped one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Config and weights.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Text to token ids.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The text of the tokenizer's file, which a server gives to its clients.
    pub fn tokenizer_json(&self) -> &str {
        &self.tokenizer_json
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.model.weights().head.as_ref().map_or(0, |head| head.bias.len())
    }

    /// The name of a class, if the config has names.
    pub fn label(&self, class: usize) -> Option<&str> {
        self.model.config().labels().get(class).map(String::as_str)
    }

    /// Classifies tokens in the clear, in `f32`.
    pub fn classify(&self, ids: &[u32]) -> Result<Verdict> {
        let logits = self.model.classify(ids)?;
        let class = metrics::largest(&logits).ok_or(ModelError::NoHead { head: "finite logit" })?;
        Ok(Verdict { class, logits: logits.into_iter().map(f64::from).collect() })
    }

    /// The ranges of its values on documents (`calibration.json`); an error where it has none.
    pub fn calibration(&self) -> Result<Calibration> {
        match &self.directory {
            Some(directory) => Calibration::load(directory),
            None => Calibration::from_json(shipped::CALIBRATION),
        }
    }

    /// The same model in integers, as the private protocol computes it. It shares the weights, so that they
    /// stay in memory until both are gone.
    pub fn twin(&self, plan: Plan) -> Result<Twin> {
        Twin::new(&self.model, &self.calibration()?, plan)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn shipped_directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("models/scotus")
    }

    #[test]
    fn the_shipped_classifier_is_the_one_of_its_directory() {
        let (built_in, opened) = (Classifier::shipped().unwrap(), Classifier::open(&shipped_directory()).unwrap());
        assert_eq!(built_in.name(), "scotus (shipped)");
        assert_eq!((built_in.classes(), built_in.label(0)), (13, Some("Criminal Procedure")));
        assert_eq!(built_in.label(13), None);
        assert_eq!(built_in.tokenizer_json(), opened.tokenizer_json());
        let ids = built_in.tokenizer().encode("The union asked the board to bargain.", 64).unwrap().ids;
        assert_eq!(built_in.classify(&ids).unwrap(), opened.classify(&ids).unwrap());
        let digest = |c: &Classifier| c.twin(Plan::FAST).unwrap().outline().unwrap().digest().unwrap();
        assert_eq!(digest(&built_in), digest(&opened));
    }

    #[test]
    fn what_a_directory_lacks_is_named() {
        let place = tempfile::tempdir().unwrap();
        let open = || Classifier::open(place.path()).map(drop).unwrap_err();
        let copy = |name: &str| std::fs::copy(shipped_directory().join(name), place.path().join(name)).unwrap();
        assert!(matches!(open(), ModelError::NoModel { .. }));
        copy("config.json");
        assert!(matches!(open(), ModelError::NoWeights { .. }));
        copy("model.safetensors");
        assert!(matches!(open(), ModelError::NoTokenizer { .. }));
        copy("tokenizer.json");
        let classifier = Classifier::open(place.path()).unwrap();
        assert!(classifier.twin(Plan::FAST).map(drop).unwrap_err().to_string().contains("calibration.json"));
    }
}
