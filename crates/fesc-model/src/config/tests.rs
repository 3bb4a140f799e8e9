#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;

const HF: &str = r#"{"architectures": ["Mamba2ForCausalLM"], "bos_token_id": 0, "chunk_size": 256, "conv_kernel": 4,
 "expand": 2, "head_dim": 64, "hidden_act": "silu", "hidden_size": 768, "layer_norm_epsilon": 1e-05,
 "model_type": "mamba2", "n_groups": 1, "norm_before_gate": false, "num_heads": 24, "num_hidden_layers": 24,
 "residual_in_fp32": true, "rms_norm": true, "state_size": 128, "tie_word_embeddings": true,
 "time_step_limit": LIMIT, "use_bias": false, "use_conv_bias": true,
 "vocab_size": 50288}"#;

const ORIGINAL: &str = r#"{"d_model": 768, "d_intermediate": 0, "n_layer": 24, "vocab_size": 50277,
 "ssm_cfg": {"layer": "Mamba2"}, "attn_layer_idx": [], "attn_cfg": {}, "rms_norm": true,
 "residual_in_fp32": true, "fused_add_norm": true,
 "pad_vocab_size_multiple": 16, "tie_embeddings": true}"#;

fn differences(text: &str) -> Vec<String> {
    match Config::from_json(text) {
        Err(ModelError::Config { differences }) => differences,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_dialects_of_the_published_model_give_one_shape() {
    let named = Config::named("130m").unwrap();
    assert_eq!(Config::from_json(ORIGINAL).unwrap(), named);
    for limit in [r#"[0.0, {"__float__": "Infinity"}]"#, "[0.0, Infinity]", "[0, Infinity ]", "null"] {
        assert_eq!(Config::from_json(&HF.replace("LIMIT", limit)).unwrap(), named, "{limit}");
    }
    let limited = Config::from_json(&HF.replace("LIMIT", "[0.001, 0.1]")).unwrap();
    assert_eq!(limited.delta_limit, (0.001, 0.1));
}

#[test]
fn bare_floats_inside_strings_stay_text() {
    let text = HF.replace("LIMIT", "[0.0, Infinity]").replace("Mamba2ForCausalLM", r#"a \" NaN, -Infinity \\"#);
    let config = Config::from_json(&text).unwrap();
    assert_eq!(config.delta_limit, (0.0, f32::INFINITY));
    let named = text.replace("\"expand\"", "\"id2label\": {\"0\": \"Infinity\", \"1\": \"b\"}, \"expand\"");
    assert_eq!(Config::from_json(&named).unwrap().labels(), ["Infinity", "b"]);
}

#[test]
fn all_differences_are_listed_at_once() {
    let text = HF
        .replace("LIMIT", "[0.0, NaN]")
        .replace("\"silu\"", "\"gelu\"")
        .replace("\"norm_before_gate\": false", "\"norm_before_gate\": true")
        .replace("\"use_bias\": false", "\"use_bias\": true, \"quantization_config\": {\"bits\": 4}, \"sliding\": 7")
        .replace("\"mamba2\"", "\"mamba\"")
        .replace("\"num_heads\": 24", "\"num_heads\": 23")
        .replace("\"state_size\": 128,", "");
    let found = differences(&text);
    for needle in [
        "model_type",
        "hidden_act",
        "norm_before_gate",
        "use_bias",
        "quantization_config",
        "sliding",
        "state_size is missing",
        "num_heads 23",
    ] {
        assert!(found.iter().any(|d| d.contains(needle)), "{needle} is not in {found:#?}");
    }
    assert_eq!(found.len(), 8, "{found:#?}");
    assert!(differences(&HF.replace("LIMIT", "[0.0, NaN]"))[0].contains("time step limit"));
}

#[test]
fn original_variants_that_we_do_not_compute_are_refused() {
    let text = ORIGINAL
        .replace("\"layer\": \"Mamba2\"", "\"D_has_hdim\": true, \"d_ssm\": 512, \"ngroups\": 5, \"extra\": 1")
        .replace("\"attn_layer_idx\": []", "\"attn_layer_idx\": [9]")
        .replace("\"d_intermediate\": 0", "\"d_intermediate\": 64");
    let found = differences(&text);
    for needle in ["ssm_cfg.layer", "D_has_hdim", "d_ssm", "ssm_cfg.extra", "attn_layer_idx", "d_intermediate"] {
        assert!(found.iter().any(|d| d.contains(needle)), "{needle} is not in {found:#?}");
    }
    let groups = differences(&ORIGINAL.replace("\"Mamba2\"", "\"Mamba2\", \"ngroups\": 5"));
    assert!(groups[0].contains("24 heads do not divide into 5 groups"), "{groups:?}");
    let two =
        Config::from_json(&ORIGINAL.replace("\"Mamba2\"", "\"Mamba2\", \"ngroups\": 2, \"d_state\": 64")).unwrap();
    assert_eq!((two.groups, two.norm_groups, two.state, two.vocab), (2, 2, 64, 50288));
}

#[test]
fn named_shapes_are_those_of_the_paper() {
    for name in Config::NAMES {
        let config = Config::named(name).unwrap();
        assert_eq!(config.inner(), 2 * config.d_model, "{name}");
    }
    assert!(Config::named("huge").is_none());
    let base = Config::named("base").unwrap();
    assert_eq!((base.proj_dim(), base.conv_dim(), base.layers), (3352, 1792, 12));
}

#[test]
fn hostile_numbers_are_refused_without_overflow() {
    for (from, to) in [
        ("\"hidden_size\": 768", "\"hidden_size\": 18446744073709551615"),
        ("\"num_heads\": 24", "\"num_heads\": 18446744073709551615"),
        ("\"vocab_size\": 50288", "\"vocab_size\": -1"),
        ("\"vocab_size\": 50288", "\"vocab_size\": 1e300"),
        ("\"n_groups\": 1", "\"n_groups\": 0"),
        ("1e-05", "-1e-05"),
        ("\"conv_kernel\": 4", "\"conv_kernel\": 0"),
    ] {
        let text = HF.replace("LIMIT", "[0.0, Infinity]").replace(from, to);
        assert!(!differences(&text).is_empty(), "{to}");
    }
    assert!(!differences(&ORIGINAL.replace("768", "18446744073709551615")).is_empty());
    assert!(matches!(Config::from_json("[1]"), Err(ModelError::Config { .. })));
    assert!(matches!(Config::from_json("{\"a"), Err(ModelError::Json { .. })));
    assert!(matches!(Config::from_json("\"\\"), Err(ModelError::Json { .. })));
}
