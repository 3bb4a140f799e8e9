//! Whole runs on small tasks: long memory is learnt, runs are reproducible, resumed runs are the same runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::time::Duration;

use fesc_model::{Checkpoint, Config, Model, Shape, Weights};
use fesc_ring::Prg;
use fesc_train::{Control, Document, Event, Inputs, Outcome, Recipe, TrainError, initial_weights, run, student};

const LENGTH: usize = 200;
const CLASSES: u64 = 4;

/// The class is the first token; the rest is noise of other tokens.
fn first_token(count: usize, seed: u8) -> Vec<Document> {
    let mut prg = Prg::from_seed([seed; 16]);
    let mut one = || {
        let class = (prg.next_u64() % CLASSES) as u32;
        let rest = (1..LENGTH).map(|_| (CLASSES + prg.next_u64() % 12) as u32);
        let ids = std::iter::once(class).chain(rest).collect();
        (ids, class as usize)
    };
    (0..count).map(|_| one()).collect()
}

fn recipe(stages: &str) -> Recipe {
    let text = format!(
        r#"{{"name": "first token", "seed": 7, "classes": 4, "tokenizer": {{"vocab": 16}}, "mask_token": 15,
        "shape": {{"d_model": 32, "layers": 2, "heads": 4, "head_dim": 16, "state": 8, "pooling": "last"}},
        "init": {{"embedding": {{"normal": {{"deviation": 1.0}}}}}},
        "evaluation": {{"lengths": [{LENGTH}]}}, "stages": {stages}}}"#
    );
    let recipe: Recipe = serde_json::from_str(&text).unwrap();
    recipe.check().unwrap();
    recipe
}

struct Task {
    recipe: Recipe,
    norm_groups: usize,
    training: Vec<Document>,
    validation: Vec<Document>,
    weights: Weights,
    teacher: Option<Model>,
    workers: usize,
}

impl Task {
    fn new(recipe: Recipe, count: usize) -> Self {
        let (training, validation) = (first_token(count, 1), first_token(100, 2));
        let mut weights = initial_weights(&recipe, &recipe.config(16).unwrap(), &training, 1).unwrap();
        // Steps and decays for which 200 tokens are in sight at the start: the usual ones take thousands of
        // steps to get there.
        for layer in &mut weights.layers {
            layer.dt_bias.fill(0.0);
            layer.a_log.fill(-5.0);
        }
        Self { recipe, norm_groups: 1, training, validation, weights, teacher: None, workers: 2 }
    }

    fn run(&self, to: &Path, resume: bool, mut see: impl FnMut(&Event) -> Control) -> Result<Outcome, TrainError> {
        let shape = *self.recipe.config(16).unwrap().shape();
        let inputs = Inputs {
            config: Config::new(Shape { norm_groups: self.norm_groups, ..shape }).unwrap(),
            weights: self.weights.clone(),
            training: &self.training,
            validation: &self.validation,
            teacher: self.teacher.as_ref(),
            workers: self.workers,
            save_every: Duration::from_secs(3600),
            log_every: 1,
        };
        run(&self.recipe, &inputs, to, resume, &mut see)
    }
}

/// The best accuracy of any evaluation.
fn accuracy(task: &Task) -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let mut best: f64 = 0.0;
    let see = |event: &Event| {
        if let Event::Evaluated { scores, .. } = event {
            best = best.max(scores[0].accuracy);
        }
        Control::Continue
    };
    assert!(task.run(directory.path(), false, see).unwrap().finished);
    best
}

fn bytes(directory: &Path, stage: usize) -> Vec<u8> {
    std::fs::read(directory.join(format!("stage-{stage}/model.safetensors"))).unwrap()
}

/// Growing lengths: what is learnt on short documents is kept on long ones.
const MEMORY: &str = r#"[
    {"length": 20, "epochs": 2, "batch": 16, "lr": 1e-2},
    {"length": 200, "epochs": 0.5, "batch": 16, "lr": 1e-2}]"#;

#[test]
fn a_token_is_remembered_over_two_hundred() {
    let mut task = Task::new(recipe(MEMORY), 2000);
    let with = accuracy(&task);
    assert!(with > 0.95, "{with}");
    // The control: the state forgets at once. Convolutions see eight tokens, not 200.
    task.weights.layers.iter_mut().for_each(|layer| layer.a_log.fill(12.0));
    let without = accuracy(&task);
    assert!(without < 0.5, "{without}");
}

const STAGES: &str = r#"[
    {"length": 60, "min_length": 20, "crop": "mixed", "epochs": 1, "batch": 8, "lr": 1e-2, "layers": 0, "head_lr": 3.0,
     "token_removal": 0.1},
    {"length": 100, "crop": "random", "epochs": 2, "batch": 8, "lr": 5e-3, "ema": 0.9, "token_dropout": 0.1,
     "pool_dropout": 0.1, "label_smoothing": 0.1},
    {"length": 200, "epochs": 1, "batch": 8, "lr": 1e-3, "forms": "paper", "start": "best"}]"#;

#[test]
fn a_resumed_run_is_the_same_run() {
    let task = Task::new(recipe(STAGES), 40);
    let whole = tempfile::tempdir().unwrap();
    let outcome = task.run(whole.path(), false, |_| Control::Continue).unwrap();
    assert!(outcome.finished && outcome.best_loss.is_some());
    // Stopped again and again, in the middle of every stage.
    let parts = tempfile::tempdir().unwrap();
    let mut stops = 0;
    loop {
        let mut steps = 0;
        let see = |event: &Event| {
            steps += usize::from(matches!(event, Event::Step { .. }));
            if steps == 4 { Control::Stop } else { Control::Continue }
        };
        let outcome = task.run(parts.path(), stops > 0, see).unwrap();
        if outcome.finished {
            break;
        }
        stops += 1;
        assert!(stops < 20);
    }
    assert!(stops >= 4, "{stops}");
    for stage in 0..3 {
        assert_eq!(bytes(whole.path(), stage), bytes(parts.path(), stage), "stage {stage}");
    }
    let read = |d: &Path| std::fs::read(d.join("calibration.json")).unwrap();
    assert_eq!(read(whole.path()), read(parts.path()));
    let log = std::fs::read_to_string(whole.path().join("log.jsonl")).unwrap();
    assert!(log.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert!(log.contains("seconds_left"));
    // The run's own directory is not overwritten, nor resumed under another recipe or with other workers.
    assert!(matches!(task.run(whole.path(), false, |_| Control::Continue), Err(TrainError::Resume { .. })));
    let mut other = Task::new(recipe(STAGES), 40);
    other.recipe.seed = 8;
    assert!(matches!(other.run(whole.path(), true, |_| Control::Continue), Err(TrainError::Resume { .. })));
    // Nor with other documents, in number or in one token.
    let mut other = Task::new(recipe(STAGES), 40);
    other.training[17].0[3] ^= 1;
    assert!(matches!(other.run(whole.path(), true, |_| Control::Continue), Err(TrainError::Resume { .. })));
    let other = Task::new(recipe(STAGES), 41);
    assert!(matches!(other.run(whole.path(), true, |_| Control::Continue), Err(TrainError::Resume { .. })));
    let other = Task { workers: 1, ..task };
    assert!(matches!(other.run(whole.path(), true, |_| Control::Continue), Err(TrainError::Resume { .. })));
}

#[test]
fn seeds_decide_and_workers_change_rounding_only() {
    let stages = r#"[{"length": 50, "crop": "random", "epochs": 1, "batch": 8, "lr": 1e-3}]"#;
    let weights = |seed: u64, workers: usize| {
        let mut recipe = recipe(stages);
        recipe.seed = seed;
        let mut task = Task::new(recipe, 24);
        task.workers = workers;
        let directory = tempfile::tempdir().unwrap();
        let outcome = task.run(directory.path(), false, |_| Control::Continue).unwrap();
        Checkpoint::open(&outcome.checkpoint.unwrap()).unwrap().load().unwrap().weights().layers[0].in_proj.clone()
    };
    let two = weights(1, 2);
    assert_eq!(two, weights(1, 2));
    assert_ne!(two, weights(2, 2));
    let one = weights(1, 1);
    assert!(one.iter().zip(&two).all(|(a, b)| (a - b).abs() < 1e-3));
}

#[test]
fn a_student_learns_from_its_teacher() {
    let mut task = Task::new(recipe(MEMORY), 2000);
    let directory = tempfile::tempdir().unwrap();
    let outcome = task.run(directory.path(), false, |_| Control::Continue).unwrap();
    let teacher = Checkpoint::open(&outcome.checkpoint.unwrap()).unwrap().load().unwrap();
    let (config, weights) = student(teacher.config(), teacher.weights()).unwrap();
    assert_eq!((config.layers, weights.layers.len()), (1, 1));
    assert_eq!(weights.layers[0].in_proj, teacher.weights().layers[1].in_proj);
    assert_eq!(weights.embedding, teacher.weights().embedding);
    let stages = r#"[{"objective": {"distill": {"temperature": 2.0, "lambda": 0.5}}, "forms": "fast", "length": 200,
        "epochs": 0.5, "batch": 16, "lr": 5e-3}]"#;
    let mut recipe = recipe(stages);
    recipe.shape.layers = 1;
    task = Task { recipe, weights, teacher: Some(teacher), ..task };
    let found = accuracy(&task);
    assert!(found > 0.95, "{found}");
    task.teacher = None;
    assert!(matches!(task.run(directory.path(), false, |_| Control::Continue), Err(TrainError::Data { .. })));
}

#[test]
fn bad_recipes_and_data_are_refused() {
    let unknown = r#"{"length": 50, "epochs": 1, "batch": 8, "lr": 1e-3, "lenght": 3}"#;
    assert!(serde_json::from_str::<fesc_train::recipe::Stage>(unknown).unwrap_err().to_string().contains("lenght"));
    let forms = r#"{"length": 50, "epochs": 1, "batch": 8, "lr": 1e-3, "forms": "d3"}"#;
    assert!(serde_json::from_str::<fesc_train::recipe::Stage>(forms).unwrap_err().to_string().contains("d2, d4"));
    let mut wrong = recipe(MEMORY);
    wrong.stages[0].token_dropout = 1.0;
    assert!(matches!(wrong.check(), Err(TrainError::Recipe { .. })));
    let mut wrong = recipe(MEMORY);
    wrong.evaluation.documents = Some(0);
    assert!(wrong.check().unwrap_err().to_string().contains("evaluation.documents"));
    let directory = tempfile::tempdir().unwrap();
    let mut task = Task::new(recipe(MEMORY), 8);
    task.training[3].0[5] = 16;
    let error = task.run(directory.path(), false, |_| Control::Continue).unwrap_err();
    assert!(error.to_string().contains("document 3 has token 16"), "{error}");
    task.training[3].0.clear();
    assert!(task.run(directory.path(), false, |_| Control::Continue).is_err());
    // A model that could not be written is not trained.
    let task = Task { norm_groups: 2, ..Task::new(recipe(MEMORY), 8) };
    assert!(matches!(task.run(directory.path(), false, |_| Control::Continue), Err(TrainError::Model(_))));
    // A learning rate without sense is noticed, not trained on.
    let mut task = Task::new(recipe(MEMORY), 32);
    task.recipe.stages[0].lr = 1e20;
    assert!(matches!(task.run(directory.path(), false, |_| Control::Continue), Err(TrainError::Diverged { .. })));
}
