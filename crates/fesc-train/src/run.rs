//! A whole run: stages, steps, validation, checkpoints, state, log.
//!
//! Files in the output directory:
//! - `stage-N/`: the checkpoint of stage N with the smallest validation loss (f32, Hugging Face's layout);
//! - `state.safetensors`: everything needed to go on, written at every evaluation, every few minutes and on a
//!   stop;
//! - `calibration.json`: the ranges of the norms, where a stage has buckets;
//! - `log.jsonl`: one line per some steps and per evaluation.
//!
//! An interrupted and resumed run gives the same weights, bit for bit, as one that was not interrupted.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fesc_model::{Checkpoint, Config, Model, Precision, Weights};

use crate::data::{self, Document, Purpose, example, generator, order, unit};
use crate::evaluate::{calibrate, score};
use crate::fingerprint::fingerprint;
use crate::forms::{FormSet, Forms};
use crate::graph::Graph;
use crate::optimiser::{Moments, learning_rate};
use crate::parameters::{ParameterKind, Parameters};
use crate::recipe::{Recipe, Stage, Start};
use crate::state::{Position, State};
use crate::worker::{self, Task};
use crate::{Result, TrainError};

pub use crate::event::{Control, Event, Outcome};

/// What a run is given.
pub struct Inputs<'a> {
    /// The model's configuration, with labels where there are any.
    pub config: Config,
    /// The weights to begin with, classifier included.
    pub weights: Weights,
    /// Training documents.
    pub training: &'a [Document],
    /// Validation documents.
    pub validation: &'a [Document],
    /// The teacher of stages that distil.
    pub teacher: Option<&'a Model>,
    /// Threads. Part of what makes a run reproducible.
    pub workers: usize,
    /// A state is written this often, besides at every evaluation.
    pub save_every: Duration,
    /// A log line and an event are made every this many steps.
    pub log_every: usize,
}

/// Steps of one pass, and of a stage.
fn steps_of(stage: &Stage, documents: usize) -> (usize, usize) {
    let pass = documents.div_ceil(stage.batch);
    (pass, ((stage.epochs * pass as f64).round() as usize).max(1))
}

/// Tokens of a whole stage, about.
fn tokens_of(stage: &Stage, documents: &[Document]) -> f64 {
    let pass: usize = documents.iter().map(|(ids, _)| ids.len().min(stage.length)).sum();
    pass as f64 * stage.epochs
}

/// Where a stage's checkpoint goes.
pub fn stage_directory(directory: &Path, stage: usize) -> PathBuf {
    directory.join(format!("stage-{stage}"))
}

struct Run<'a> {
    recipe: &'a Recipe,
    inputs: &'a Inputs<'a>,
    directory: &'a Path,
    state: State,
    /// The teacher runs on the workers' own threads: fesc-model's forward pass would start a pool inside
    /// each.
    teacher: Option<Graph>,
    log: File,
    started: Instant,
    before: f64,
    saved: Instant,
}

/// Trains all stages of a recipe.
///
/// With `resume`, goes on from the state in the directory; without, refuses a directory that has one.
pub fn run(
    recipe: &Recipe,
    inputs: &Inputs<'_>,
    directory: &Path,
    resume: bool,
    see: &mut dyn FnMut(&Event) -> Control,
) -> Result<Outcome> {
    recipe.check()?;
    // What no checkpoint can say is refused now, not after the first epoch.
    inputs.config.to_json(Precision::F32.name())?;
    let parameters = Parameters::new(&inputs.config, inputs.weights.clone())?;
    data::check("training", inputs.training, inputs.config.vocab, parameters.classes())?;
    data::check("validation", inputs.validation, inputs.config.vocab, parameters.classes())?;
    if recipe.needs_teacher() && inputs.teacher.is_none() {
        return Err(TrainError::Data { set: "training", reason: "the recipe distils and there is no teacher".into() });
    }
    let drops = recipe.stages.iter().any(|s| s.token_dropout > 0.0);
    if drops && recipe.mask_token as usize >= inputs.config.vocab {
        let reason = format!("the vocabulary has {}", inputs.config.vocab);
        return Err(TrainError::Recipe { key: "mask_token".into(), value: recipe.mask_token.to_string(), reason });
    }
    fs::create_dir_all(directory).map_err(|source| TrainError::Io { path: directory.into(), source })?;
    let path = directory.join("state.safetensors");
    let written = serde_json::to_string(recipe)
        .map_err(|e| TrainError::RecipeFile { path: directory.into(), reason: e.to_string() })?;
    let given = fingerprint(inputs)?;
    let state = if resume {
        let state = State::read(&path, parameters)?;
        let refuse = |reason: &str| Err(TrainError::Resume { path: path.clone(), reason: reason.into() });
        if state.position.recipe != written {
            return refuse("it was written under another recipe");
        }
        if state.position.workers != inputs.workers {
            return refuse(&format!("it was written with {} workers; use as many", state.position.workers));
        }
        if state.position.inputs.is_some_and(|before| before != given) {
            return refuse("it was written with other documents, another first model or another teacher");
        }
        if state.position.stage >= recipe.stages.len() {
            return refuse(&format!("it is in stage {} of {}", state.position.stage, recipe.stages.len()));
        }
        state
    } else {
        if path.exists() {
            let reason = "the directory has a run; resume it or take another directory".into();
            return Err(TrainError::Resume { path, reason });
        }
        let position = Position {
            recipe: written,
            workers: inputs.workers,
            inputs: Some(given),
            stage: 0,
            step: 0,
            best: None,
            ranges: None,
            seconds: 0.0,
            optimiser_steps: 0,
        };
        State { position, moments: Moments::new(&parameters), parameters, average: None }
    };
    let teacher = match inputs.teacher.filter(|_| recipe.needs_teacher()) {
        None => None,
        Some(model) => {
            let teacher = Parameters::new(model.config(), model.weights().clone())?;
            if teacher.classes() != state.parameters.classes() || model.config().vocab < inputs.config.vocab {
                let reason = "the teacher has other classes or a smaller vocabulary than the student".into();
                return Err(TrainError::Data { set: "training", reason });
            }
            Some(Graph::evaluation(model.config(), &teacher, &teacher.values(), Arc::new(Forms::exact()))?)
        }
    };
    let log_path = directory.join("log.jsonl");
    let log = OpenOptions::new().create(true).append(true).open(&log_path);
    let log = log.map_err(|source| TrainError::Io { path: log_path, source })?;
    let (now, before) = (Instant::now(), state.position.seconds);
    Run { recipe, inputs, directory, state, teacher, log, started: now, before, saved: now }.all(see)
}

impl Run<'_> {
    fn all(mut self, see: &mut dyn FnMut(&Event) -> Control) -> Result<Outcome> {
        let mut finished = true;
        while let Some(stage) = self.recipe.stages.get(self.state.position.stage) {
            if self.stage(stage, see)? == Control::Stop {
                finished = false;
                break;
            }
            if self.state.position.stage + 1 == self.recipe.stages.len() {
                break;
            }
            let position = &mut self.state.position;
            (position.stage, position.step, position.best) = (position.stage + 1, 0, None);
            self.state.average = None;
            self.save()?;
        }
        let directory = stage_directory(self.directory, self.state.position.stage);
        Ok(Outcome {
            finished,
            checkpoint: directory.exists().then_some(directory),
            best_loss: self.state.position.best,
            seconds: self.seconds(),
        })
    }

    fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    fn save(&mut self) -> Result<()> {
        self.state.position.seconds = self.seconds();
        self.state.position.optimiser_steps = self.state.moments.steps;
        self.saved = Instant::now();
        self.state.write(&self.directory.join("state.safetensors"))
    }

    fn tell(&mut self, event: &Event, see: &mut dyn FnMut(&Event) -> Control) -> Result<Control> {
        let path = || self.directory.join("log.jsonl");
        let mut line = serde_json::to_vec(event).unwrap_or_default();
        line.push(b'\n');
        self.log.write_all(&line).map_err(|source| TrainError::Io { path: path(), source })?;
        Ok(see(event))
    }

    /// The forms of a stage; calibrates once, before its first step.
    fn forms(&mut self, stage: &Stage) -> Result<Arc<Forms>> {
        if stage.forms.needs_calibration() && self.state.position.ranges.is_none() {
            let others = Arc::new(Forms::new(FormSet { newton: None, ..stage.forms }, None)?);
            let (config, weights) = (&self.inputs.config, self.state.parameters.weights()?);
            let ranges = calibrate(config, &weights, others, self.inputs.training, stage.length, self.inputs.workers)?;
            let path = self.directory.join("calibration.json");
            let text = serde_json::to_vec_pretty(&ranges).unwrap_or_default();
            fs::write(&path, text).map_err(|source| TrainError::Io { path, source })?;
            self.state.position.ranges = Some(ranges);
        }
        Ok(Arc::new(Forms::new(stage.forms, self.state.position.ranges.as_deref())?))
    }

    fn begin(&mut self, stage: &Stage) -> Result<()> {
        let number = self.state.position.stage;
        if stage.start == Start::Best && number > 0 {
            let best = stage_directory(self.directory, number - 1);
            if best.exists() {
                let model = Checkpoint::open(&best)?.load()?;
                self.state.parameters = Parameters::new(&self.inputs.config, model.weights().clone())?;
                self.state.moments = Moments::new(&self.state.parameters);
            }
        }
        if stage.ema > 0.0 {
            self.state.average = Some(self.state.parameters.values());
        }
        Ok(())
    }

    fn stage(&mut self, stage: &Stage, see: &mut dyn FnMut(&Event) -> Control) -> Result<Control> {
        let number = self.state.position.stage;
        let (pass, steps) = steps_of(stage, self.inputs.training.len());
        if self.state.position.step == 0 {
            self.begin(stage)?;
        }
        let forms = self.forms(stage)?;
        let event = Event::Stage { stage: number, steps, done: self.state.position.step };
        if self.tell(&event, see)? == Control::Stop {
            self.save()?;
            return Ok(Control::Stop);
        }
        let later: f64 = self.recipe.stages.iter().skip(number + 1).map(|s| tokens_of(s, self.inputs.training)).sum();
        let here = tokens_of(stage, self.inputs.training);
        let every = ((self.recipe.evaluation.every_epochs * pass as f64).round() as usize).max(1);
        let mut documents: (usize, Vec<usize>) = (usize::MAX, Vec::new());
        let (mut losses, mut tokens, mut clock) = (Vec::new(), 0usize, Instant::now());
        while self.state.position.step < steps {
            let step = self.state.position.step;
            if documents.0 != step / pass {
                documents = (step / pass, order(self.recipe.seed, number, step / pass, self.inputs.training.len()));
            }
            let from = step % pass * stage.batch;
            let batch = &documents.1[from..(from + stage.batch).min(documents.1.len())];
            let (loss, norm, lr, count) = self.step(stage, &forms, batch, steps)?;
            losses.push(loss);
            tokens += count;
            let done = self.state.position.step;
            let mut control = Control::Continue;
            if done.is_multiple_of(self.inputs.log_every.max(1)) || done == steps {
                let speed = tokens as f64 / clock.elapsed().as_secs_f64().max(1e-9);
                let left = later + here * (steps - done) as f64 / steps as f64;
                let loss = losses.iter().sum::<f64>() / losses.len() as f64;
                let (tokens_per_second, seconds_left) = (speed, left / speed.max(1e-9));
                let event =
                    Event::Step { stage: number, step: done, steps, loss, lr, norm, tokens_per_second, seconds_left };
                control = self.tell(&event, see)?;
                (losses, tokens, clock) = (Vec::new(), 0, Instant::now());
            }
            if done.is_multiple_of(every) || done == steps {
                let asked = self.validate(&forms, done as f64 / pass as f64, see)?;
                control = if asked == Control::Stop { asked } else { control };
                self.save()?;
                clock = Instant::now();
                tokens = 0;
            } else if control == Control::Stop || self.saved.elapsed() >= self.inputs.save_every {
                self.save()?;
            }
            if control == Control::Stop {
                return Ok(Control::Stop);
            }
        }
        Ok(Control::Continue)
    }

    /// One step: loss, norm of the gradient, learning rate, tokens.
    fn step(
        &mut self,
        stage: &Stage,
        forms: &Arc<Forms>,
        batch: &[usize],
        steps: usize,
    ) -> Result<(f64, f64, f64, usize)> {
        let Position { stage: number, step, .. } = self.state.position;
        let mut prg = generator(self.recipe.seed, Purpose::Batch, number, step);
        let make = |&i: &usize| example(&self.inputs.training[i], stage, self.recipe.mask_token, &mut prg);
        let batch: Vec<_> = batch.iter().map(make).collect();
        let mut dropout = Vec::new();
        if stage.pool_dropout > 0.0 {
            let kept = (1.0 / (1.0 - stage.pool_dropout)) as f32;
            let factor = |_| if unit(&mut prg) < stage.pool_dropout { 0.0 } else { kept };
            dropout = (0..batch.len() * self.inputs.config.d_model).map(factor).collect();
        }
        let task = Task {
            objective: stage.objective,
            smoothing: stage.label_smoothing,
            teacher: self.teacher.as_ref(),
            dropout: &dropout,
        };
        let graph = Graph::training(&self.inputs.config, &self.state.parameters, forms.clone())?;
        let graph = graph.with_layers(stage.layers);
        let result = worker::step(&graph, &batch, task, self.inputs.workers)?;
        if !result.loss.is_finite() {
            return Err(TrainError::Diverged { step, what: "loss" });
        }
        let lr = learning_rate(stage.lr, stage.warmup, stage.final_lr, step, steps);
        let State { parameters, moments, average, position } = &mut self.state;
        let rate = |kind| match kind {
            ParameterKind::Embedding => lr * stage.embedding_lr,
            ParameterKind::Matrix | ParameterKind::Vector => lr * stage.layer_lr,
            ParameterKind::Head | ParameterKind::HeadBias => lr * stage.head_lr,
        };
        let norm = self.recipe.optimiser.step(parameters, &result.gradients, moments, rate);
        if !norm.is_finite() {
            return Err(TrainError::Diverged { step, what: "gradient" });
        }
        if let Some(average) = average {
            let new = 1.0 - stage.ema as f32;
            for (average, p) in average.iter_mut().zip(&parameters.list) {
                average.iter_mut().zip(&p.values).for_each(|(a, v)| *a += new * (v - *a));
            }
        }
        position.step += 1;
        Ok((result.loss, norm, lr, batch.iter().map(|e| e.ids.len()).sum()))
    }

    fn validate(&mut self, forms: &Arc<Forms>, epoch: f64, see: &mut dyn FnMut(&Event) -> Control) -> Result<Control> {
        let rule = &self.recipe.evaluation;
        let count = rule.documents.unwrap_or(usize::MAX).min(self.inputs.validation.len());
        let (config, parameters) = (&self.inputs.config, &self.state.parameters);
        let values = self.state.average.clone().unwrap_or_else(|| parameters.values());
        let documents = &self.inputs.validation[..count];
        let layers = self.recipe.stages.get(self.state.position.stage).and_then(|stage| stage.layers);
        let graph = Graph::evaluation(config, parameters, &values, forms.clone())?.with_layers(layers);
        let at = |length: &usize| score(&graph, documents, *length, self.inputs.workers);
        let scores = rule.lengths.iter().map(at).collect::<Result<Vec<_>>>()?;
        // As a state keeps it.
        let loss = f64::from((scores.iter().map(|s| s.loss).sum::<f64>() / scores.len().max(1) as f64) as f32);
        let Position { stage, step, best, .. } = self.state.position;
        // What is no number is never the best: nothing would be smaller than it afterwards.
        let is_best = loss.is_finite() && best.is_none_or(|b| loss < b);
        if is_best {
            let weights = parameters.weights_of(&values)?;
            Checkpoint::write(&stage_directory(self.directory, stage), config, &weights, Precision::F32)?;
            self.state.position.best = Some(loss);
        }
        self.tell(&Event::Evaluated { stage, step, epoch, loss, scores, best: is_best }, see)
    }
}
