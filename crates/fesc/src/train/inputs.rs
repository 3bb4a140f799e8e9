//! What a training run is given: tokenizer, documents, first weights, teacher.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fesc_model::data::Documents;
use fesc_model::float::Head;
use fesc_model::{Case, Checkpoint, Config, Model, Tokenizer, Weights};
use fesc_train::{Document, Recipe};

use crate::cli::TrainArgs;
use crate::corpus::{self, Tokens};
use crate::exit::Refusal;
use crate::progress::Progress;

/// Training and validation documents as tokens.
pub struct Corpus {
    /// For training.
    pub training: Vec<Document>,
    /// For choosing the checkpoint.
    pub validation: Vec<Document>,
}

impl Corpus {
    /// Reads and tokenizes `train` and `validation` of a directory. Documents are not cut: a recipe may train
    /// on any part of them.
    pub fn read(directory: &Path, tokenizer: &Tokenizer, classes: usize) -> Result<Self> {
        let read = |name| -> Result<Vec<Document>> {
            let encode = |text: &str| Ok(tokenizer.encode(text, usize::MAX)?.ids);
            let documents = corpus::read(&corpus::file(directory, name)?, usize::MAX, Some(classes), encode)?;
            Ok(documents.into_iter().map(|Tokens { ids, label, .. }| (ids, label)).collect())
        };
        Ok(Self { training: read("train")?, validation: read("validation")? })
    }
}

/// The tokenizer of the run that goes on, the one that the command line names, that of the first weights, or
/// one trained on the texts.
pub fn tokenizer(args: &TrainArgs, recipe: &Recipe) -> Result<Tokenizer> {
    let of_run = args.resume.then(|| args.out.join("tokenizer.json"));
    let of_model = || args.start.as_ref().or(args.teacher.as_ref()).map(|model| model.join("tokenizer.json"));
    if let Some(path) = of_run.or_else(|| args.tokenizer.clone()).or_else(of_model) {
        return Ok(Tokenizer::load(&path)?);
    }
    let path = corpus::file(&args.data, "train")?;
    let _progress = Progress::start(format!("training a tokenizer on {}", path.display()));
    let texts = Documents::open(&path)?.map(|document| document.map(|d| d.text)).collect::<Result<Vec<_>, _>>()?;
    let case = if recipe.tokenizer.lowercase { Case::Lower } else { Case::Kept };
    Ok(Tokenizer::train(texts.iter(), recipe.tokenizer.vocab, case)?)
}

/// Where training begins.
pub struct Start {
    /// The model's configuration.
    pub config: Config,
    /// Its weights.
    pub weights: Weights,
    /// Who is imitated, if anyone.
    pub teacher: Option<Model>,
}

/// Weights of a checkpoint, of half a teacher, or as the recipe makes them.
pub fn start(args: &TrainArgs, recipe: &Recipe, vocab: usize, documents: &[Document], workers: usize) -> Result<Start> {
    let open = |directory: &PathBuf| -> Result<Model> { Ok(Checkpoint::open(directory)?.load()?) };
    let teacher = args.teacher.as_ref().map(open).transpose()?;
    if recipe.needs_teacher() && teacher.is_none() {
        return Err(Refusal::Usage("the recipe distils: give the model to imitate with --teacher DIR".into()).into());
    }
    let (config, mut weights) = match (&args.start, &teacher) {
        (Some(directory), _) => {
            let model = open(directory)?;
            (model.config().clone(), model.weights().clone())
        }
        (None, Some(teacher)) if args.halve => fesc_train::student(teacher.config(), teacher.weights())?,
        _ => {
            let config = recipe.config(vocab)?;
            let weights = fesc_train::initial_weights(recipe, &config, documents, workers)?;
            (config, weights)
        }
    };
    agree(recipe, &config)?;
    // A language model has no classifier yet.
    let head = weights.head.get_or_insert_with(|| Head {
        weight: vec![0.0; recipe.classes * config.d_model],
        bias: vec![0.0; recipe.classes],
    });
    if head.bias.len() != recipe.classes {
        let found = head.bias.len();
        let text = format!("the first weights have a classifier of {found} classes, the recipe of {}", recipe.classes);
        return Err(Refusal::Usage(text).into());
    }
    let config = if recipe.labels.is_empty() { config } else { config.with_labels(recipe.labels.clone()) };
    Ok(Start { config, weights, teacher })
}

/// Holds weights that come from elsewhere to the recipe's shape.
fn agree(recipe: &Recipe, found: &Config) -> Result<()> {
    let wanted = recipe.config(found.vocab)?;
    let list = |c: &Config| [c.d_model, c.layers, c.heads, c.head_dim, c.state, c.groups, c.conv_width];
    if list(&wanted) != list(found) || wanted.pooling != found.pooling {
        let names = "d_model, layers, heads, head_dim, state, groups, conv_width";
        let text = format!(
            "the first weights have another shape than the recipe: {names} are {:?} and {:?} in the recipe, pooling {:?} and {:?}",
            list(found),
            list(&wanted),
            found.pooling,
            wanted.pooling
        );
        return Err(Refusal::Usage(text).into());
    }
    Ok(())
}
