//! `fesc bench forms`: what each form of the nonlinearities does to a model's accuracy, with and without
//! training for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use fesc_model::{Config, Weights};
use fesc_train::recipe::{Recipe, Stage};
use fesc_train::{Control, Document, FormSet, Forms, Inputs, calibrate, evaluate};
use serde_json::json;

use crate::classifier;
use crate::cli::FormsArgs;
use crate::corpus;
use crate::progress::Progress;
use crate::report::{Format, Report, Row};

/// Validation documents of the short training: only its end matters.
const VALIDATED: usize = 200;

struct Data {
    training: Vec<Document>,
    validation: Vec<Document>,
    test: Vec<Document>,
}

/// Measures and prints.
pub fn run(args: &FormsArgs, format: Format) -> Result<()> {
    let classifier = classifier::load(args.model.as_deref())?;
    let model = classifier.model();
    let (config, weights) = (model.config().clone(), model.weights().clone());
    let read = |name, limit, length| -> Result<Vec<Document>> {
        let path = corpus::file(&args.data, name)?;
        let encode = |text: &str| Ok(classifier.tokenizer().encode(text, length)?.ids);
        let documents = corpus::read(&path, limit, Some(classifier.classes()), encode)?;
        Ok(documents.into_iter().map(|d| (d.ids, d.label)).collect())
    };
    let length = args.length as usize;
    let data = Data {
        training: read("train", usize::MAX, usize::MAX)?,
        validation: read("validation", VALIDATED, length)?,
        test: read("test", usize::MAX, length)?,
    };
    let workers = corpus::workers(args.threads);
    let mut report = Report::new(format);
    for &forms in std::iter::once(&FormSet::EXACT).chain(&args.forms) {
        let start = Instant::now();
        let progress = Progress::start(format!("forms {forms}"));
        let score = |weights: &Weights| -> Result<f64> {
            let installed = installed(forms, &config, weights, &data, length, workers)?;
            Ok(evaluate(&config, weights, &installed, &data.test, length, workers)?.accuracy)
        };
        let post_swap = score(&weights)?;
        let aware = score(&trained(args, forms, &config, &weights, &data, workers, &progress)?)?;
        drop(progress);
        report.add(
            Row::new()
                .with("forms", forms.to_string())
                .with("length", args.length)
                .with("post_swap", post_swap)
                .with("aware", aware)
                .with("documents", data.test.len())
                .with("epochs", args.epochs)
                .with("seconds", start.elapsed().as_secs_f64()),
        )?;
    }
    report.finish()
}

/// The forms with buckets from training documents, where they have any.
fn installed(
    forms: FormSet,
    config: &Config,
    weights: &Weights,
    data: &Data,
    length: usize,
    workers: usize,
) -> Result<Arc<Forms>> {
    if !forms.needs_calibration() {
        return Ok(Arc::new(Forms::new(forms, None)?));
    }
    let others = Arc::new(Forms::new(FormSet { newton: None, ..forms }, None)?);
    let ranges = calibrate(config, weights, others, &data.training, length, workers)?;
    Ok(Arc::new(Forms::new(forms, Some(&ranges))?))
}

/// The weights after a short training with the forms in place.
fn trained(
    args: &FormsArgs,
    forms: FormSet,
    config: &Config,
    weights: &Weights,
    data: &Data,
    workers: usize,
    progress: &Progress,
) -> Result<Weights> {
    let recipe = recipe(args, forms, config, weights.head.as_ref().map_or(0, |head| head.bias.len()))?;
    let inputs = Inputs {
        config: config.clone(),
        weights: weights.clone(),
        training: &data.training,
        validation: &data.validation,
        teacher: None,
        workers,
        save_every: Duration::MAX,
        log_every: 10,
    };
    let place = tempfile::tempdir()?;
    let outcome = fesc_train::run(&recipe, &inputs, place.path(), false, &mut |event| {
        if let fesc_train::Event::Step { step, steps, loss, seconds_left, .. } = event {
            progress.say(format!("forms {forms}: step {step} of {steps}, loss {loss:.3}, {seconds_left:.0} s left"));
        }
        Control::Continue
    })?;
    match outcome.checkpoint {
        Some(directory) => Ok(fesc_model::Checkpoint::open(&directory)?.load()?.weights().clone()),
        None => anyhow::bail!("training wrote no checkpoint"),
    }
}

fn recipe(args: &FormsArgs, forms: FormSet, config: &Config, classes: usize) -> Result<Recipe> {
    let stage: Stage = serde_json::from_value(json!({
        "forms": forms.to_string(), "length": args.length, "crop": "mixed", "epochs": args.epochs, "batch": 16,
        "lr": args.lr, "warmup": 0.06, "embedding_lr": 0.3, "label_smoothing": 0.1, "token_dropout": 0.2,
    }))?;
    let c = config.shape();
    Ok(serde_json::from_value(json!({
        "name": "forms", "seed": 0, "classes": classes, "tokenizer": { "vocab": c.vocab },
        "shape": {
            "d_model": c.d_model, "layers": c.layers, "heads": c.heads, "head_dim": c.head_dim, "state": c.state,
            "groups": c.groups, "conv_width": c.conv_width,
        },
        // One evaluation, after the last step.
        "evaluation": { "lengths": [args.length], "every_epochs": args.epochs.max(1.0) * 2.0 },
        "stages": [stage],
    }))?)
}
