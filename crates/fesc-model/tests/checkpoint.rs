//! Model directories: layouts, dtypes, what a summary says, and files that are wrong or hostile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use fesc_model::{Checkpoint, ModelError};
use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A tensor that tests may change.
#[derive(Clone)]
struct Owned {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
}

fn tensors(case: &str) -> Vec<Owned> {
    let bytes = fs::read(golden(case).join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let own = |(name, t): (&str, TensorView<'_>)| Owned {
        name: name.into(),
        dtype: t.dtype(),
        shape: t.shape().to_vec(),
        data: t.data().to_vec(),
    };
    file.iter().map(own).collect()
}

fn bytes_of(tensors: &[Owned]) -> Vec<u8> {
    let views = tensors.iter().map(|t| (&t.name, TensorView::new(t.dtype, t.shape.clone(), &t.data).unwrap()));
    serialize(views, None).unwrap()
}

/// A directory with the config of a golden case and these bytes as weights.
struct Dir(tempfile::TempDir);

impl Dir {
    fn new(case: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::copy(golden(case).join("config.json"), dir.path().join("config.json")).unwrap();
        Self(dir)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.path().join(name), bytes).unwrap();
    }

    fn open(&self, weights: &[u8]) -> Result<Checkpoint, ModelError> {
        self.put("model.safetensors", weights);
        Checkpoint::open(self.0.path())
    }
}

fn differences(result: Result<Checkpoint, ModelError>) -> Vec<String> {
    match result {
        Err(ModelError::Tensors { differences, .. }) => differences,
        other => panic!("{other:?}"),
    }
}

const CASE: &str = "one-group-f32";

#[test]
fn prefixes_and_the_original_layout_give_the_same_model() {
    let ids = [3, 1, 4, 1, 5, 9, 2, 6];
    let expected = Checkpoint::open(&golden(CASE)).unwrap().load().unwrap().forward(&ids).unwrap();
    let mut stored = tensors(CASE);
    stored.iter_mut().for_each(|t| t.name = t.name.trim_start_matches("backbone.").into());
    let dir = Dir::new(CASE);
    assert_eq!(dir.open(&bytes_of(&stored)).unwrap().load().unwrap().forward(&ids).unwrap(), expected);

    for t in &mut stored {
        if t.name != "lm_head.weight" {
            t.name = format!("backbone.{}", t.name.replace("embeddings", "embedding"));
        }
    }
    let original = r#"{"d_model": 16, "n_layer": 2, "vocab_size": 29, "pad_vocab_size_multiple": 1,
        "tie_embeddings": false, "ssm_cfg": {"layer": "Mamba2", "d_state": 8, "headdim": 8, "chunk_size": 8}}"#;
    dir.put("config.json", original.as_bytes());
    assert_eq!(dir.open(&bytes_of(&stored)).unwrap().load().unwrap().forward(&ids).unwrap(), expected);
}

#[test]
fn half_precision_is_widened_exactly() {
    let mut stored = tensors(CASE);
    let mut expected = Vec::new();
    for t in &mut stored {
        let wide: Vec<f32> = t.data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        if t.name.ends_with("out_proj.weight") {
            t.dtype = Dtype::F16;
            t.data = wide.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
        } else if t.name.ends_with("in_proj.weight") {
            t.dtype = Dtype::BF16;
            t.data = wide.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect();
            expected.push(wide.iter().map(|v| bf16::from_f32(*v).to_f32()).collect::<Vec<_>>());
        }
    }
    let checkpoint = Dir::new(CASE).open(&bytes_of(&stored)).unwrap().summary();
    assert_eq!(checkpoint.dtypes.keys().collect::<Vec<_>>(), ["BF16", "F16", "F32"]);
    let dir = Dir::new(CASE);
    let model = dir.open(&bytes_of(&stored)).unwrap().load().unwrap();
    let layers = &model.weights().layers;
    assert!(layers.iter().any(|layer| layer.in_proj == expected[0]));
    let exact = layers[0].out_proj.iter().all(|v| f16::from_f32(*v).to_f32() == *v);
    assert!(exact, "a weight is not the f16 that was stored");
}

#[test]
fn a_tied_head_may_be_stored_but_must_be_the_embedding() {
    let case = "tied-bf16";
    let mut stored = tensors(case);
    let mut head = stored.iter().find(|t| t.name.contains("embeddings")).unwrap().clone();
    head.name = "lm_head.weight".into();
    stored.push(head);
    let dir = Dir::new(case);
    dir.open(&bytes_of(&stored)).unwrap().load().unwrap();
    let last = stored.len() - 1;
    stored[last].data[0] ^= 1;
    let result = dir.open(&bytes_of(&stored)).unwrap().load();
    assert!(matches!(result, Err(ModelError::TiedHeadDiffers { .. })), "{result:?}");
}

#[test]
fn a_summary_counts_without_reading_tensors() {
    let case = "real-decays-f16";
    let dir = Dir::new(case);
    let mut bytes = fs::read(golden(case).join("model.safetensors")).unwrap();
    // All tensor data is NaN now: only loading may notice.
    let header = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    bytes[header..].fill(0xff);
    dir.put("tokenizer.json", b"{}");
    let checkpoint = dir.open(&bytes).unwrap();
    let summary = checkpoint.summary();
    let part = |name: &str| summary.parts.iter().find(|p| p.name == name).map(|p| p.parameters);
    assert_eq!(part("embedding"), Some(23 * 20));
    assert_eq!(part("input projections"), Some(2 * 136 * 20));
    assert_eq!(part("convolutions"), Some(2 * 88 * 3));
    assert_eq!(part("decays, skips and steps"), Some(2 * 3 * 8));
    assert_eq!(part("gated norms"), Some(2 * 40));
    assert_eq!(part("output projections"), Some(2 * 800));
    assert_eq!(part("norms"), Some(3 * 20));
    assert_eq!(part("classifier"), Some(63));
    assert_eq!(part("language model head"), None);
    assert_eq!(summary.parameters, summary.parts.iter().map(|p| p.parameters).sum::<u64>());
    assert_eq!(summary.file_bytes, header as u64 + 2 * summary.parameters);
    assert_eq!((summary.classes, summary.lm_head, summary.tokenizer), (Some(3), false, true));
    assert!(summary.to_string().contains("LABEL_2") && summary.to_string().contains("F16"), "{summary}");
    assert!(serde_json::to_string(&summary).unwrap().contains("\"delta_limit\":[0.0,{\"__float__\":\"Infinity\"}]"));
    match checkpoint.load() {
        Err(ModelError::NotFinite { tensor, index: 0, .. }) => assert_eq!(tensor, "embeddings.weight"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_value_that_is_not_finite_is_found_and_named() {
    let mut stored = tensors(CASE);
    let spoiled = stored.iter_mut().find(|t| t.name.ends_with("1.mixer.out_proj.weight")).unwrap();
    spoiled.data[4 * 37..4 * 38].copy_from_slice(&f32::NEG_INFINITY.to_le_bytes());
    let result = Dir::new(CASE);
    match result.open(&bytes_of(&stored)).unwrap().load() {
        Err(ModelError::NotFinite { tensor, index: 37, value }) => {
            assert_eq!((tensor.as_str(), value), ("backbone.layers.1.mixer.out_proj.weight", f32::NEG_INFINITY));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_wrong_tensors_are_listed() {
    let mut stored = tensors(CASE);
    for t in &mut stored {
        match t.name.as_str() {
            "backbone.layers.0.mixer.A_log" => t.name = "backbone.layers.7.mixer.A_log".into(),
            "backbone.layers.1.mixer.in_proj.weight" => t.shape.reverse(),
            "backbone.layers.0.mixer.D" => t.dtype = Dtype::I32,
            _ => {}
        }
    }
    let mut twice = stored.iter().find(|t| t.name == "backbone.norm_f.weight").unwrap().clone();
    twice.name = "norm_f.weight".into();
    stored.push(twice);
    let found = differences(Dir::new(CASE).open(&bytes_of(&stored)));
    for needle in [
        "layers.0.mixer.A_log is missing",
        "layers.7.mixer.A_log is not a tensor of this model",
        "layers.1.mixer.in_proj.weight has the shape [16, 84], the config needs [84, 16]",
        "layers.0.mixer.D is of type I32",
        "are the same tensor",
    ] {
        assert!(found.iter().any(|d| d.contains(needle)), "{needle} is not in {found:#?}");
    }
    assert_eq!(found.len(), 5, "{found:#?}");
}

#[test]
fn the_config_may_not_name_other_classes_than_the_file_has() {
    let case = "real-decays-f16";
    let dir = Dir::new(case);
    let text = fs::read_to_string(golden(case).join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["id2label"].as_object_mut().unwrap().remove("2");
    dir.put("config.json", config.to_string().as_bytes());
    let found = differences(dir.open(&bytes_of(&tensors(case))));
    assert_eq!(found, ["the classifier has 3 classes, config.json names 2"]);
}

#[test]
fn missing_files_say_what_to_do() {
    let dir = Dir::new(CASE);
    let open = || Checkpoint::open(dir.0.path()).unwrap_err().to_string();
    assert!(open().contains("is this a model directory"));
    dir.put("pytorch_model.bin", b"");
    assert!(open().contains("convert pytorch_model.bin"));
    dir.put("model.safetensors.index.json", b"{}");
    assert!(open().contains("several files"));
    dir.put("config.json", &vec![b' '; 5 << 20]);
    assert!(matches!(Checkpoint::open(dir.0.path()), Err(ModelError::FileTooLarge { .. })));
    fs::remove_file(dir.0.path().join("config.json")).unwrap();
    assert!(matches!(Checkpoint::open(dir.0.path()), Err(ModelError::Io { .. })));
}

#[test]
fn a_header_that_claims_too_much_is_refused_before_it_is_read() {
    let good = fs::read(golden(CASE).join("model.safetensors")).unwrap();
    let dir = Dir::new(CASE);
    let length = u64::from_le_bytes(*good.first_chunk().unwrap());
    let claims = [
        u64::MAX,
        u64::MAX - 7,
        1 << 40,
        (8 << 20) + 1,
        8 << 20,
        good.len() as u64,
        good.len() as u64 - 7,
        length + 1,
        length - 1,
        0,
    ];
    for claim in claims {
        let mut bytes = good.clone();
        bytes[..8].copy_from_slice(&claim.to_le_bytes());
        assert!(matches!(dir.open(&bytes), Err(ModelError::Header { .. })), "{claim}");
    }
    for cut in (0..good.len()).step_by(97).chain([7, 8, 9, good.len() - 1]) {
        assert!(matches!(dir.open(&good[..cut]), Err(ModelError::Header { .. })), "cut at {cut}");
    }
    let mut longer = good.clone();
    longer.push(0);
    assert!(matches!(dir.open(&longer), Err(ModelError::Header { .. })));
    // Shapes whose product overflows, offsets that run backwards, a header that is no object.
    for text in [
        r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#,
        r#"{"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,18446744073709551612]}}"#,
        "[]",
        "\"",
    ] {
        let bytes = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        assert!(matches!(dir.open(&bytes), Err(ModelError::Header { .. })), "{text}");
    }
}

#[test]
fn a_file_that_shrinks_after_it_was_opened_is_an_error() {
    let dir = Dir::new(CASE);
    let good = fs::read(golden(CASE).join("model.safetensors")).unwrap();
    let checkpoint = dir.open(&good).unwrap();
    dir.put("model.safetensors", &good[..good.len() - 100]);
    assert!(matches!(checkpoint.load(), Err(ModelError::Io { .. })));
}

/// Every byte of length and header and every 31st byte of the data, changed in two ways: an error or a sound
/// model.
#[test]
fn no_changed_byte_makes_a_panic() {
    let case = "real-decays-f16";
    let good = fs::read(golden(case).join("model.safetensors")).unwrap();
    let header = 8 + u64::from_le_bytes(*good.first_chunk().unwrap()) as usize;
    let dir = Dir::new(case);
    let (mut tried, mut refused) = (0, 0);
    for at in (0..header).chain((header..good.len()).step_by(31)) {
        for change in [0x01, 0x90] {
            let mut bytes = good.clone();
            bytes[at] ^= change;
            let model = dir.open(&bytes).and_then(|checkpoint| checkpoint.load());
            if at < header {
                tried += 1;
                refused += usize::from(model.is_err());
            }
            if let Ok(model) = model {
                assert_eq!(model.weights().layers.len(), 2);
            }
        }
    }
    // What survives in the header is its free metadata and the white space at its end.
    assert!(refused * 100 >= tried * 95, "{refused} of {tried} changes of the header were refused");
}
