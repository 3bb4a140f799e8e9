//! Model directories that we write: what is read back, what is refused, what a failure leaves behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use fesc_model::float::Head;
use fesc_model::{Checkpoint, Config, ModelError, Pooling, Precision, Shape, Weights};
use fesc_ring::Prg;

fn config(tied: bool) -> Config {
    let tiny = *Config::named("tiny").unwrap().shape();
    let shape = Shape { vocab: 61, d_model: 20, heads: 6, head_dim: 5, groups: 2, conv_width: 3, tied, ..tiny };
    let labels = ["Unions", "Federal Taxation", "Privacy"].map(String::from).to_vec();
    Config::new(Shape { pooling: Pooling::Last, ..shape }).unwrap().with_labels(labels)
}

fn weights(config: &Config) -> Weights {
    Weights::random(config, Some(3), &mut Prg::from_seed([3; 16]))
}

/// All tensors in one fixed order.
fn flat(w: &Weights) -> Vec<&[f32]> {
    let mut all: Vec<&[f32]> = vec![&w.embedding, &w.norm];
    for l in &w.layers {
        all.extend([&l.norm[..], &l.in_proj, &l.conv, &l.conv_bias, &l.dt_bias, &l.a_log, &l.d]);
        all.extend([&l.gated_norm[..], &l.out_proj]);
    }
    all.extend(w.lm_head.iter().map(Vec::as_slice));
    all.extend(w.head.iter().flat_map(|h| [&h.weight[..], &h.bias]));
    all
}

fn bits(w: &Weights, precision: Precision) -> Vec<Vec<u32>> {
    flat(w).into_iter().map(|t| t.iter().map(|v| precision.round(*v).to_bits()).collect()).collect()
}

#[test]
fn what_is_written_is_read_back_in_every_precision() {
    for tied in [true, false] {
        let config = config(tied);
        let mut weights = weights(&config);
        // Values that rounding must carry: a tie, a subnormal half, the largest half, a negative zero.
        weights.layers[1].d[..4].copy_from_slice(&[1.0 + 1.0 / 2048.0, 3e-7, 65504.0, -0.0]);
        for precision in [Precision::F32, Precision::F16, Precision::Bf16] {
            let dir = tempfile::tempdir().unwrap();
            Checkpoint::write(dir.path(), &config, &weights, precision).unwrap();
            let checkpoint = Checkpoint::open(dir.path()).unwrap();
            assert_eq!(checkpoint.config(), &config);
            assert_eq!(checkpoint.classes(), Some(3));
            assert_eq!(checkpoint.summary().dtypes.len(), 1);
            let model = checkpoint.load().unwrap();
            assert!(bits(model.weights(), Precision::F32) == bits(&weights, precision), "{precision:?}, tied {tied}");
        }
    }
}

#[test]
fn tensors_have_the_names_of_transformers() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(false);
    Checkpoint::write(dir.path(), &config, &weights(&config), Precision::F16).unwrap();
    let bytes = fs::read(dir.path().join("model.safetensors")).unwrap();
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
    let mut names = metadata.offset_keys();
    names.sort();
    assert_eq!(names.len(), 1 + 2 * 9 + 1 + 1 + 2);
    for name in [
        "backbone.embeddings.weight",
        "backbone.layers.0.norm.weight",
        "backbone.layers.1.mixer.A_log",
        "backbone.layers.1.mixer.conv1d.bias",
        "backbone.norm_f.weight",
        "lm_head.weight",
        "score.weight",
        "score.bias",
    ] {
        assert!(names.iter().any(|n| n == name), "{name} is not in {names:?}");
    }
    let conv = metadata.info("backbone.layers.0.mixer.conv1d.weight").unwrap();
    assert_eq!(conv.shape, [config.conv_dim(), 1, 3]);
}

/// The error of a write, and that it left nothing but what was there.
fn refused(config: &Config, weights: &Weights, precision: Precision) -> ModelError {
    let dir = tempfile::tempdir().unwrap();
    let error = Checkpoint::write(&dir.path().join("model"), config, weights, precision).unwrap_err();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{error}");
    error
}

#[test]
fn weights_that_cannot_be_stored_are_refused_by_name() {
    let config = config(true);
    let good = weights(&config);
    let mut bad = good.clone();
    bad.layers[1].in_proj[7] = f32::NAN;
    match refused(&config, &bad, Precision::F32) {
        ModelError::NotFinite { tensor, index: 7, .. } => {
            assert_eq!(tensor, "backbone.layers.1.mixer.in_proj.weight");
        }
        other => panic!("{other:?}"),
    }
    let mut large = good.clone();
    large.norm[3] = -65_520.0;
    match refused(&config, &large, Precision::F16) {
        ModelError::Overflow { tensor, index: 3, precision: "float16", .. } => {
            assert_eq!(tensor, "backbone.norm_f.weight");
        }
        other => panic!("{other:?}"),
    }
    let mut huge = good.clone();
    huge.embedding[0] = f32::MAX;
    assert!(matches!(refused(&config, &huge, Precision::Bf16), ModelError::Overflow { index: 0, .. }));
    let mut short = good.clone();
    short.layers[0].d.pop();
    assert!(matches!(refused(&config, &short, Precision::F32), ModelError::WeightSize { .. }));
    let mut shallow = good.clone();
    shallow.layers.pop();
    assert!(matches!(refused(&config, &shallow, Precision::F32), ModelError::WeightSize { .. }));
    let mut two = good.clone();
    two.head = Some(Head { weight: vec![0.0; 40], bias: vec![0.0; 2] });
    assert!(matches!(refused(&config, &two, Precision::F32), ModelError::Config { .. }));
    let mut untied = good.clone();
    untied.lm_head = Some(vec![0.0; good.embedding.len()]);
    assert!(matches!(refused(&config, &untied, Precision::F32), ModelError::TiedHeadDiffers { .. }));
    let mut violent = good;
    violent.layers[0].a_log[2] = 89.0;
    assert!(matches!(refused(&config, &violent, Precision::F32), ModelError::Decay { layer: 0, head: 2, .. }));
}

#[test]
fn a_second_write_replaces_the_first_and_keeps_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(true);
    let first = weights(&config);
    Checkpoint::write(dir.path(), &config, &first, Precision::F32).unwrap();
    fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
    let second = Weights::random(&config, Some(3), &mut Prg::from_seed([4; 16]));
    Checkpoint::write(dir.path(), &config, &second, Precision::F32).unwrap();
    let mut bad = first;
    bad.norm[0] = f32::INFINITY;
    Checkpoint::write(dir.path(), &config, &bad, Precision::F32).unwrap_err();
    let model = Checkpoint::open(dir.path()).unwrap().load().unwrap();
    assert!(bits(model.weights(), Precision::F32) == bits(&second, Precision::F32));
    let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["config.json", "model.safetensors", "tokenizer.json"]);
    let rights = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions();
    assert_eq!(rights("model.safetensors"), rights("tokenizer.json"), "a model is as readable as any new file");
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let config = config(true);
    let error = Checkpoint::write(&file.join("model"), &config, &weights(&config), Precision::F32).unwrap_err();
    assert!(matches!(&error, ModelError::Io { path, .. } if path.starts_with(&file)), "{error}");
    // A directory stands where the weights should go: the rename fails and the new file is taken away again.
    let target = dir.path().join("model");
    fs::create_dir_all(target.join("model.safetensors/inside")).unwrap();
    Checkpoint::write(&target, &config, &weights(&config), Precision::F32).unwrap_err();
    let left: Vec<_> = fs::read_dir(Path::new(&target)).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["model.safetensors"]);
}

#[test]
fn a_checkpoint_in_the_program_is_the_one_in_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(true);
    Checkpoint::write(dir.path(), &config, &weights(&config), Precision::F16).unwrap();
    let text = fs::read_to_string(dir.path().join("config.json")).unwrap();
    let bytes: &'static [u8] = fs::read(dir.path().join("model.safetensors")).unwrap().leak();
    let embedded = Checkpoint::embedded("inside", &text, bytes).unwrap();
    let file = Checkpoint::open(dir.path()).unwrap();
    assert_eq!(embedded.summary().parts, file.summary().parts);
    assert!(embedded.tokenizer_path().is_none());
    let (a, b) = (embedded.load().unwrap(), file.load().unwrap());
    assert!(bits(a.weights(), Precision::F32) == bits(b.weights(), Precision::F32));
    let cut = Checkpoint::embedded("inside", &text, &bytes[..bytes.len() - 1]);
    assert!(matches!(cut, Err(ModelError::Header { .. })));
}
