//! `fesc train`: documents and a recipe to a model that reads text.
//!
//! The output directory becomes a model: `config.json`, `model.safetensors`, `tokenizer.json` and, for the
//! fixed-point twin, `calibration.json`. The run itself lives in `training/` below it: state, log and the
//! checkpoint of every stage. `tokenizer.json` is there from the beginning, since a resumed run must see the
//! same tokens.

mod inputs;
mod watch;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use fesc_model::{Checkpoint, Model};
use fesc_train::{Inputs, Outcome, Recipe};

use crate::calibrate;
use crate::cli::TrainArgs;
use crate::corpus::{self, Tokens};
use crate::exit::Refusal;
use crate::report::{Format, Report, Row};

use inputs::{Corpus, Start};
use watch::Watch;

/// The run's own files, below the output directory.
const RUN: &str = "training";
/// Calibration looks at this many training documents.
const CALIBRATED: usize = 500;
/// A state is written this often.
const SAVE_EVERY: Duration = Duration::from_secs(120);
/// An event is made every this many steps.
const LOG_EVERY: usize = 10;

/// Trains, and writes the model.
pub fn run(args: &TrainArgs, format: Format) -> Result<()> {
    let recipe = Recipe::read(&args.recipe)?;
    let directory = args.out.join(RUN);
    refuse_to_overwrite(args)?;
    let workers = corpus::workers(args.threads);
    let tokenizer = inputs::tokenizer(args, &recipe)?;
    let corpus = Corpus::read(&args.data, &tokenizer, recipe.classes)?;
    let Start { config, weights, teacher } = inputs::start(args, &recipe, tokenizer.rows(), &corpus.training, workers)?;
    // Nothing is left behind by a command that is refused before this.
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    tokenizer.save(&args.out.join("tokenizer.json"))?;
    let inputs = Inputs {
        config,
        weights,
        training: &corpus.training,
        validation: &corpus.validation,
        teacher: teacher.as_ref(),
        workers,
        save_every: SAVE_EVERY,
        log_every: LOG_EVERY,
    };
    let mut watch = Watch::new(&recipe, format);
    let outcome = fesc_train::run(&recipe, &inputs, &directory, args.resume, &mut |event| watch.see(event))?;
    watch.finish()?;
    let model = publish(args, &outcome)?;
    let longest = recipe.evaluation.lengths.iter().copied().max().unwrap_or(usize::MAX);
    let calibrated = calibrate_on(&model, &corpus, longest, &args.data)?;
    calibrated.save(&args.out)?;
    let mut report = Report::new(format);
    report.add(
        Row::new()
            .with("model", args.out.display().to_string())
            .with("validation_loss", outcome.best_loss)
            .with("seconds", outcome.seconds)
            .with("documents", corpus.training.len())
            .with("vocabulary", tokenizer.rows())
            .with("calibrated_on", calibrated.documents),
    )?;
    report.finish()
}

/// A run or a model that is there is never lost by a repeated command.
fn refuse_to_overwrite(args: &TrainArgs) -> Result<()> {
    let model = args.out.join("model.safetensors").exists();
    let run = args.out.join(RUN).join("state.safetensors").exists();
    if !args.resume && (model || run) {
        let text = format!("{} has a model or a run; give --resume to go on, or another --out", args.out.display());
        return Err(Refusal::Usage(text).into());
    }
    if args.resume && !run {
        return Err(Refusal::Usage(format!("{} has no run to resume", args.out.display())).into());
    }
    Ok(())
}

/// Puts the best checkpoint of the last stage into the output directory, and reads it as it will be read from
/// then on.
fn publish(args: &TrainArgs, outcome: &Outcome) -> Result<Model> {
    let best = outcome.checkpoint.as_deref().context("training wrote no checkpoint")?;
    let best = Checkpoint::open(best)?.load()?;
    Checkpoint::write(&args.out, best.config(), best.weights(), args.precision.into())?;
    Ok(Checkpoint::open(&args.out)?.load()?)
}

/// Ranges over the beginnings of the first training documents.
fn calibrate_on(model: &Model, corpus: &Corpus, length: usize, data: &Path) -> Result<fesc_model::twin::Calibration> {
    let cut = |(line, (ids, label)): (usize, &fesc_train::Document)| Tokens {
        line: line + 1,
        label: *label,
        ids: ids.iter().copied().take(length).collect(),
    };
    let documents: Vec<Tokens> = corpus.training.iter().take(CALIBRATED).enumerate().map(cut).collect();
    calibrate::collect(model, &documents, data)
}
