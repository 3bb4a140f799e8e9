//! The commands that classify text, with a tiny model that is made here: `eval`, `classify`, `calibrate`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use fesc_model::metrics::{Confusion, largest};
use fesc_model::twin::{Calibration, Plan, Rounding, Twin};
use fesc_model::{Case, Checkpoint, Config, Precision, Tokenizer, Weights};
use fesc_ring::Prg;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};
use support::tiny::{self, CLASSES, text};
use support::{fesc, fesc_reads, rows};

const EVAL: &[&str] =
    &["accuracy", "macro_f1", "documents", "length", "model", "mode", "preset", "seconds", "confusion"];
const CLASSIFY: &[&str] = &[
    "label",
    "class",
    "probability",
    "tokens",
    "cut",
    "seconds",
    "model",
    "mode",
    "preset",
    "document_tokens",
    "probabilities",
];
/// A directory with a model, its tokenizer and forty labelled documents, plain and compressed.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Self { dir };
        tiny::write_uncalibrated(&place.path("model"), 2, 5);
        let line = |i: usize| json!({"id": format!("case {i}"), "label": i % 3, "text": text(i)}).to_string() + "\n";
        let lines: String = (0..40).map(line).collect();
        fs::write(place.path("plain"), &lines).unwrap();
        fs::write(place.path("compressed"), compress_to_vec(lines.as_bytes(), CompressionLevel::Fastest)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn eval(&self, data: &str, more: &[&str]) -> Vec<Value> {
        let (model, data) = (self.text("model"), self.text(data));
        let args = [&["eval", "--model", &model, "--data", &data, "--json"], more].concat();
        rows(fesc(&args).ok(), EVAL)
    }
}

/// Labels that a rule gives to the forty documents, counted by hand.
fn by_hand(place: &Place, length: usize, documents: usize, rule: impl Fn(&[u32]) -> usize) -> Confusion {
    let tokenizer = Tokenizer::load(&place.path("model/tokenizer.json")).unwrap();
    let mut confusion = Confusion::new(3);
    for i in 0..documents {
        confusion.add(i % 3, rule(&tokenizer.encode(&text(i), length).unwrap().ids)).unwrap();
    }
    confusion
}

fn same(row: &Value, expected: &Confusion) {
    assert_eq!(row["confusion"], serde_json::to_value(expected).unwrap());
    assert_eq!(row["accuracy"].as_f64(), expected.accuracy());
    assert_eq!(row["macro_f1"].as_f64(), expected.macro_f1());
    assert_eq!(row["documents"].as_u64(), Some(expected.total()));
}

#[test]
fn eval_gives_what_a_loop_over_the_library_gives() {
    let place = Place::new();
    let model = Checkpoint::open(&place.path("model")).unwrap().load().unwrap();
    let rule = |ids: &[u32]| largest(&model.classify(ids).unwrap()).unwrap();
    let rows = place.eval("plain", &["--length", "8,64"]);
    assert_eq!(rows.len(), 2);
    for (row, length) in rows.iter().zip([8, 64]) {
        let expected = by_hand(&place, length, 40, rule);
        let used = (0..3).filter(|&c| expected.rows().iter().any(|row| row[c] > 0)).count();
        assert!(used > 1, "this model gives one class to all: a poor test");
        same(row, &expected);
        assert_eq!(
            (row["length"].as_u64(), &row["mode"], &row["preset"]),
            (Some(length as u64), &json!("float"), &Value::Null)
        );
        assert_eq!(row["model"], place.text("model"));
        assert!(row["seconds"].as_f64().unwrap() > 0.0);
    }
    let compressed = place.eval("compressed", &["--length", "64", "--limit", "17"]);
    same(&compressed[0], &by_hand(&place, 64, 17, rule));
}

#[test]
fn the_table_names_classes() {
    let place = Place::new();
    let args = ["eval", "--model", &place.text("model"), "--data", &place.text("plain"), "--length", "9"];
    let table = fesc(&args).ok();
    assert!(CLASSES.iter().all(|class| table.contains(class)) && table.contains("macro_f1"), "{table}");
    let args = ["classify", "--plain", "-v", "--model", &place.text("model")];
    let table = fesc_reads(&args, b"a strike").ok();
    assert!(CLASSES.iter().all(|class| table.contains(class)) && table.contains("percent"), "{table}");
}

#[test]
fn the_twin_is_calibrated_and_evaluated() {
    let place = Place::new();
    let args = ["eval", "--twin", "--model", &place.text("model"), "--data", &place.text("plain"), "--length", "64"];
    assert!(fesc(&args).fails(1).contains("calibration.json"));
    let calibrate = ["calibrate", "--model", &place.text("model"), "--data", &place.text("compressed"), "--json"];
    let made = rows(fesc(&calibrate).ok(), &["model", "documents", "tokens", "file"]);
    assert_eq!(made[0]["documents"], 40);
    let model = Checkpoint::open(&place.path("model")).unwrap().load().unwrap();
    let calibration = Calibration::load(&place.path("model")).unwrap();
    assert_eq!(made[0]["tokens"].as_u64(), Some(calibration.tokens));
    for (name, preset) in [("fast", Plan::FAST), ("paper-44", Plan::PAPER_44)] {
        let twin = Twin::new(&model, &calibration, preset).unwrap();
        let rule = |ids: &[u32]| twin.classify(ids, &mut Rounding::nearest()).unwrap().class;
        let row = &place.eval("plain", &["--twin", "--preset", name, "--length", "64"])[0];
        same(row, &by_hand(&place, 64, 40, rule));
        assert_eq!((row["mode"].as_str(), row["preset"].as_str()), (Some("twin"), Some(name)));
    }
}

#[test]
fn classify_reads_a_file_or_standard_input() {
    let place = Place::new();
    let model = Checkpoint::open(&place.path("model")).unwrap().load().unwrap();
    let tokenizer = Tokenizer::load(&place.path("model/tokenizer.json")).unwrap();
    let directory = place.text("model");
    for i in [3, 29] {
        let encoded = tokenizer.encode(&text(i), 12).unwrap();
        let logits = model.classify(&encoded.ids).unwrap();
        let label = largest(&logits).unwrap();
        let args = ["classify", "--plain", "--model", &directory, "--length", "12", "--json"];
        let from_input = rows(fesc_reads(&args, text(i).as_bytes()).ok(), CLASSIFY).remove(0);
        let file = place.text("document");
        fs::write(&file, text(i)).unwrap();
        let from_file = rows(fesc(&[&args[..], &[&file]].concat()).ok(), CLASSIFY).remove(0);
        for row in [from_input, from_file] {
            assert_eq!((row["label"].as_u64(), row["class"].as_str()), (Some(label as u64), Some(CLASSES[label])));
            assert_eq!(row["tokens"].as_u64(), Some(encoded.ids.len() as u64));
            assert_eq!(row["document_tokens"].as_u64(), Some(encoded.total as u64));
            assert_eq!(row["cut"].as_bool(), Some(encoded.total > 12));
            let given: Vec<f64> =
                row["probabilities"].as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).collect();
            let sum: f64 = logits.iter().map(|v| f64::from(*v).exp()).sum();
            let right = |(p, v): (&f64, &f32)| (p - f64::from(*v).exp() / sum).abs() < 1e-9;
            assert!(given.len() == 3 && given.iter().zip(&logits).all(right), "{row}");
            assert_eq!(row["probability"], row["probabilities"][label]);
        }
    }
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let place = Place::new();
    let (model, data) = (place.text("model"), place.text("plain"));
    assert!(fesc(&["classify", "--model", &model]).fails(2).contains("--plain"));
    assert!(fesc(&["classify", "--plain", "--model", &model, "--preset", "fast"]).fails(2).contains("--twin"));
    for length in ["0", "x", "-1", "1048577", "8,0", ""] {
        fesc(&["eval", "--model", &model, "--data", &data, "--length", length]).fails(2);
    }
    fesc(&["eval", "--model", &model, "--data", &data]).fails(2);
    fs::remove_file(place.path("model/tokenizer.json")).unwrap();
    assert!(fesc(&["eval", "--model", &model, "--data", &data, "--length", "8"]).fails(2).contains("tokenizer.json"));
}

#[test]
fn bad_documents_end_with_1_and_are_named() {
    let place = Place::new();
    let model = place.text("model");
    let good = "{\"label\": 2, \"text\": \"tax\"}\n";
    for (line, needle) in [
        ("{\"label\": 3, \"text\": \"tax\"}", "line 2: class 3"),
        ("{\"label\": 0, \"text\": \"\"}", "line 2: the document has no token"),
        ("{\"label\": 0}", "line 2: missing field"),
    ] {
        fs::write(place.path("bad"), format!("{good}{line}\n")).unwrap();
        let said = fesc(&["eval", "--model", &model, "--data", &place.text("bad"), "--length", "8"]).fails(1);
        assert!(said.contains(needle), "{said}");
    }
    fs::write(place.path("bad"), "\n").unwrap();
    let said = fesc(&["eval", "--model", &model, "--data", &place.text("bad"), "--length", "8"]).fails(1);
    assert!(said.contains("no document"), "{said}");
    fesc(&["eval", "--model", &model, "--data", &place.text("none"), "--length", "8"]).fails(1);
    let classify = ["classify", "--plain", "--model", &model];
    assert!(fesc_reads(&classify, b"").fails(1).contains("no token"));
    assert!(fesc_reads(&classify, b"\xff\xfe").fails(1).contains("UTF-8"));
    assert!(fesc_reads(&classify, &vec![b'x'; (16 << 20) + 1]).fails(4).contains("16777216"));
}

#[test]
fn a_model_without_a_classifier_or_with_another_tokenizer_is_refused() {
    let place = Place::new();
    let config = Config::named("tiny").unwrap();
    let weights = Weights::random(&config, None, &mut Prg::from_seed([1; 16]));
    Checkpoint::write(&place.path("headless"), &config, &weights, Precision::F32).unwrap();
    fs::copy(place.path("model/tokenizer.json"), place.path("headless/tokenizer.json")).unwrap();
    let said = fesc_reads(&["classify", "--plain", "--model", &place.text("headless")], b"tax").fails(1);
    assert!(said.contains("no classifier"), "{said}");
    let larger = Tokenizer::train((0..4000).map(|i| format!("word{i} word{i}")), 900, Case::Kept).unwrap();
    larger.save(&place.path("model/tokenizer.json")).unwrap();
    let said = fesc_reads(&["classify", "--plain", "--model", &place.text("model")], b"tax").fails(1);
    assert!(said.contains("do not belong together"), "{said}");
}

#[test]
fn a_place_without_a_model_is_named_with_what_belongs_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display().to_string();
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for args in [&["serve", "--model", &path][..], &["classify", "--plain", "--model", &path, manifest]] {
        let said = fesc(args).fails(2);
        assert!(said.contains("no model in") && said.contains("config.json") && said.contains("shipped"), "{said}");
    }
}

/// The shipped model on our own sample documents, in float and as its twin, and its size.
#[test]
fn the_shipped_model_knows_the_samples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let samples = [("search-of-a-car", 0), ("leaflets", 2), ("bargaining", 6), ("depreciation", 11)];
    for mode in [&["--length", "2048"][..], &["--length", "512"], &["--length", "2048", "--twin"]] {
        let mut right = 0;
        for (name, label) in samples {
            let file = root.join("samples").join(name).with_extension("txt").display().to_string();
            let row = rows(fesc(&[&["classify", "--plain", "--json", &file], mode].concat()).ok(), CLASSIFY).remove(0);
            right += usize::from(row["label"] == label);
            assert_eq!(row["model"], "scotus (shipped)");
        }
        assert!(right >= 3, "{right} of 4 samples are classified right with {mode:?}");
    }
    let files = fs::read_dir(root.join("../fesc-model/models/scotus")).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 8_000_000, "models/scotus has {bytes} bytes, it may have 8 MB");
}
