//! `fesc train` on a task that a tiny model learns in seconds: each class has words of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use fesc_model::{Checkpoint, Config, Pooling};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};
use support::{fesc, fesc_reads};

const WORDS: [[&str; 3]; 3] =
    [["strike", "wage", "picket"], ["income", "refund", "deduct"], ["speech", "pamphlet", "press"]];

fn text(i: usize) -> String {
    let own = WORDS[i % 3];
    (0..12 + i % 9).map(|k| if k % 2 == 0 { own[(i + k * k) % 3] } else { "the Court" }).collect::<Vec<_>>().join(" ")
}

fn lines(range: std::ops::Range<usize>) -> String {
    range.map(|i| json!({"label": i % 3, "text": text(i)}).to_string() + "\n").collect()
}

fn recipe() -> Value {
    json!({
        "name": "tiny", "seed": 7, "classes": 3, "tokenizer": { "vocab": 300 },
        "shape": { "d_model": 16, "layers": 1, "heads": 2, "head_dim": 16, "state": 8 },
        "evaluation": { "lengths": [16, 64] },
        "stages": [
            { "length": 32, "epochs": 4.0, "batch": 6, "lr": 0.02 },
            { "length": 64, "epochs": 1.0, "batch": 6, "lr": 0.002, "start": "best" },
        ],
    })
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("data")).unwrap();
        fs::write(place.path("data/train.jsonl"), lines(0..60)).unwrap();
        let validation = compress_to_vec(lines(60..90).as_bytes(), CompressionLevel::Fastest);
        fs::write(place.path("data/validation.jsonl.zst"), validation).unwrap();
        fs::write(place.path("test.jsonl"), lines(90..150)).unwrap();
        place.recipe(&recipe());
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn recipe(&self, recipe: &Value) {
        fs::write(self.path("recipe.json"), recipe.to_string()).unwrap();
    }

    fn train(&self, out: &str, more: &[&str]) -> support::Run {
        let (recipe, data, out) = (self.text("recipe.json"), self.text("data"), self.text(out));
        let args = ["train", "--recipe", &recipe, "--data", &data, "--out", &out, "--threads", "2"];
        fesc(&[&args[..], more].concat())
    }

    fn accuracy(&self, model: &str, more: &[&str]) -> f64 {
        let (model, data) = (self.text(model), self.text("test.jsonl"));
        let args = ["eval", "--model", &model, "--data", &data, "--length", "64", "--json"];
        let row: Value = serde_json::from_str(&fesc(&[&args[..], more].concat()).ok()).unwrap();
        row["accuracy"].as_f64().unwrap()
    }
}

#[test]
fn a_model_is_trained_and_classifies_text() {
    let place = Place::new();
    let mut named = recipe();
    named["labels"] = json!(["Unions", "Federal Taxation", "First Amendment"]);
    place.recipe(&named);
    let said = place.train("model", &["--json", "--precision", "f16"]).ok();
    let events: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |name: &str| events.iter().filter(|e| e["event"] == name).count();
    assert!(count("stage") == 2 && count("step") >= 2 && count("evaluated") == 5, "{said}");
    let last = events.last().unwrap();
    assert_eq!((last["documents"].as_u64(), last["calibrated_on"].as_u64()), (Some(60), Some(60)));
    assert_eq!(last["model"], place.text("model"));

    let checkpoint = Checkpoint::open(&place.path("model")).unwrap();
    assert_eq!(checkpoint.config().labels(), ["Unions", "Federal Taxation", "First Amendment"]);
    assert_eq!(checkpoint.config().pooling, Pooling::Mean);
    assert_eq!(checkpoint.summary().dtypes.keys().collect::<Vec<_>>(), ["F16"]);
    // A third is chance.
    let float = place.accuracy("model", &[]);
    let twin = place.accuracy("model", &["--twin"]);
    assert!(float >= 0.9 && (float - twin).abs() <= 0.05, "float {float}, twin {twin}");
    let words = "a pamphlet of the press, a speech, a pamphlet";
    let said = fesc_reads(&["classify", "--plain", "--model", &place.text("model"), "--json"], words.as_bytes()).ok();
    assert!(said.contains("\"class\":\"First Amendment\""), "{said}");
}

#[test]
fn a_run_is_not_lost_and_ends_the_same_when_resumed() {
    let place = Place::new();
    let table = place.train("whole", &[]).ok();
    assert!(table.contains("accuracy") && table.contains("validation_loss"), "{table}");
    let weights = |out: &str| fs::read(place.path(out).join("model.safetensors")).unwrap();
    let first = weights("whole");
    assert!(place.train("whole", &[]).fails(2).contains("--resume"));
    assert!(place.train("nothing", &["--resume"]).fails(2).contains("no run"));
    fs::remove_file(place.path("whole/model.safetensors")).unwrap();
    assert!(place.train("whole", &[]).fails(2).contains("--resume"), "the run alone is worth keeping");
    place.train("whole", &["--resume"]).ok();
    assert!(weights("whole") == first, "a finished run ends the same");
    // Another tokenizer, or other documents, are not taken for those of the run.
    let tokenizer = fs::read(place.path("whole/tokenizer.json")).unwrap();
    fs::write(place.path("other.json"), "{}").unwrap();
    place.train("whole", &["--resume", "--tokenizer", &place.text("other.json")]).ok();
    assert_eq!(fs::read(place.path("whole/tokenizer.json")).unwrap(), tokenizer);
    fs::write(place.path("data/train.jsonl"), lines(1..61)).unwrap();
    assert!(place.train("whole", &["--resume"]).fails(1).contains("other documents"));
    fs::write(place.path("data/train.jsonl"), lines(0..60)).unwrap();
    // The same seed, tokenizer and threads elsewhere.
    place.train("again", &["--tokenizer", &place.text("whole/tokenizer.json")]).ok();
    assert!(weights("again") == first);
}

#[test]
fn weights_may_come_from_a_model() {
    let place = Place::new();
    let mut next = recipe();
    next["tokenizer"]["lowercase"] = true.into();
    place.recipe(&next);
    place.train("first", &[]).ok();
    next["stages"] = json!([{ "forms": "fast", "length": 32, "epochs": 0.2, "batch": 6, "lr": 1e-9 }]);
    place.recipe(&next);
    place.train("second", &["--start", &place.text("first")]).ok();
    let same = |name: &str| {
        fs::read(place.path("first").join(name)).unwrap() == fs::read(place.path("second").join(name)).unwrap()
    };
    assert!(same("tokenizer.json"), "the model's tokenizer goes with its weights");
    assert!(place.accuracy("second", &["--twin"]) >= 0.9, "two steps of no size change nothing");
    next["classes"] = 4.into();
    place.recipe(&next);
    assert!(place.train("third", &["--start", &place.text("first")]).fails(2).contains("3 classes"));
    next["classes"] = 3.into();
    next["shape"]["state"] = 16.into();
    place.recipe(&next);
    assert!(place.train("third", &["--start", &place.text("first")]).fails(2).contains("another shape"));
}

#[test]
fn a_student_takes_half_of_its_teacher() {
    let place = Place::new();
    let mut deep = recipe();
    deep["shape"]["layers"] = 2.into();
    place.recipe(&deep);
    place.train("teacher", &[]).ok();
    let mut distil = recipe();
    let objective = json!({ "distill": { "temperature": 2.0, "lambda": 0.5 } });
    distil["stages"] = json!([{ "objective": objective, "length": 32, "epochs": 3.0, "batch": 6, "lr": 0.01 }]);
    place.recipe(&distil);
    assert!(place.train("student", &[]).fails(2).contains("--teacher"));
    assert!(!place.path("student").exists(), "a refused command leaves nothing behind");
    place.train("student", &["--teacher", &place.text("teacher"), "--halve"]).ok();
    assert!(place.accuracy("student", &[]) >= 0.9);
}

/// The committed recipes are read, and have the shapes that they are named after.
#[test]
fn the_committed_recipes_are_sound() {
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let read = |name: &str| fesc_train::Recipe::read(&recipes.join(name)).unwrap();
    for (name, shape) in [("mamba2-130m-teacher.json", "130m"), ("mamba-base-student.json", "base")] {
        let (found, named) = (read(name).config(50_288).unwrap(), Config::named(shape).unwrap());
        let sizes = |c: &Config| (c.d_model, c.layers, c.heads, c.head_dim, c.state, c.groups, c.conv_width, c.vocab);
        assert_eq!(sizes(&found), sizes(&named), "{name}");
    }
    let shipped = Checkpoint::open(&recipes.join("../crates/fesc-model/models/scotus")).unwrap();
    let recipe = read("scotus.json");
    assert_eq!(shipped.config(), &recipe.config(recipe.tokenizer.vocab).unwrap(), "the model is of its recipe");
    assert_eq!(fs::read_dir(&recipes).unwrap().count(), 4, "a recipe that no test reads");
}

#[test]
fn forms_are_compared() {
    let place = Place::new();
    place.train("model", &[]).ok();
    fs::copy(place.path("test.jsonl"), place.path("data/test.jsonl")).unwrap();
    let (model, data) = (place.text("model"), place.text("data"));
    let args = ["bench", "forms", "--model", &model, "--data", &data, "--length", "64", "--forms", "fast,n1,paper"];
    let said = fesc(&[&args[..], &["--epochs", "0.2", "--json"]].concat()).ok();
    let rows: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = rows.iter().map(|row| row["forms"].as_str().unwrap()).collect();
    assert_eq!(names, ["exact", "fast", "n1", "paper"]);
    for row in &rows {
        assert!(row["post_swap"].as_f64().is_some() && row["aware"].as_f64().is_some(), "{row}");
    }
    assert!(rows[0]["post_swap"].as_f64().unwrap() >= 0.9);
    let args = ["bench", "forms", "--model", &model, "--data", &data, "--forms", "d5"];
    assert!(fesc(&args).fails(2).contains("d5"));
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let place = Place::new();
    let mut unknown = recipe();
    unknown["epoch"] = 3.into();
    place.recipe(&unknown);
    assert!(place.train("model", &[]).fails(1).contains("epoch"));
    let mut short = recipe();
    short["labels"] = json!(["one", "two"]);
    place.recipe(&short);
    assert!(place.train("model", &[]).fails(1).contains("2 names"));
    place.recipe(&recipe());
    fs::write(place.path("data/train.jsonl.zst"), "").unwrap();
    assert!(place.train("other", &[]).fails(2).contains("both"));
    fs::remove_file(place.path("data/train.jsonl.zst")).unwrap();
    fs::write(place.path("data/train.jsonl"), "{\"label\": 3, \"text\": \"tax\"}\n").unwrap();
    assert!(place.train("another", &[]).fails(1).contains("line 1: class 3"));
    fs::remove_file(place.path("data/train.jsonl")).unwrap();
    assert!(place.train("last", &[]).fails(2).contains("neither"));
}
