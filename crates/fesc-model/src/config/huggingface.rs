//! `config.json` of Hugging Face's `Mamba2Config`.
//!
//! The gated norm of that model is over all channels whatever the number of groups (`MambaRMSNormGated`),
//! unlike the original: `norm_groups` is 1. The key `pooling` ("mean" or "last", default mean) is ours; their
//! model has no classifier.

use serde_json::{Map, Value};

use super::json::Reader;
use super::{Pooling, Shape};

/// Keys that transformers writes and that do not change a forward pass: initialisation, generation,
/// bookkeeping.
const HARMLESS: &[&str] = &[
    "_attn_implementation_autoset",
    "_name_or_path",
    "architectures",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "fuse_cross_entropy",
    "id2label",
    "initializer_range",
    "label2id",
    "layer_types",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "problem_type",
    "rescale_prenorm_residual",
    "return_dict",
    "task_specific_params",
    "time_step_floor",
    "time_step_init_scheme",
    "time_step_max",
    "time_step_min",
    "time_step_rank",
    "time_step_scale",
    "torch_dtype",
    "transformers_version",
    "use_cache",
];

pub(super) fn read(map: &Map<String, Value>) -> (Shape, Vec<String>, Vec<String>) {
    let mut r = Reader::new(map, "");
    match r.get("model_type") {
        Some(Value::String(s)) if s == "mamba2" => {}
        Some(v) => r.differs("model_type", v, "only \"mamba2\" is supported"),
        None => r.differences.push("model_type is missing, and this is no state-spaces config either".into()),
    }
    if let Some(v) = r.get("hidden_act").filter(|v| !matches!(v.as_str(), Some("silu" | "swish"))) {
        r.differs("hidden_act", v, "only \"silu\" is supported");
    }
    r.must_be("norm_before_gate", false);
    r.must_be("rms_norm", true);
    r.must_be("use_bias", false);
    r.must_be("use_conv_bias", true);
    r.must_be_off("quantization_config");
    r.must_be_off("auto_map");
    if let Some(v) = r.get("layer_types") {
        let all = v.as_array().is_some_and(|a| a.iter().all(|t| t.as_str() == Some("linear_attention")));
        if !all {
            r.differs("layer_types", v, "only \"linear_attention\" is supported");
        }
    }
    let pooling = match r.get("pooling") {
        None => Pooling::Mean,
        Some(v) => match v.as_str() {
            Some("mean") => Pooling::Mean,
            Some("last") => Pooling::Last,
            _ => {
                r.differs("pooling", v, "\"mean\" or \"last\" is needed");
                Pooling::Mean
            }
        },
    };
    let shape = Shape {
        vocab: r.size("vocab_size", None),
        d_model: r.size("hidden_size", None),
        layers: r.size("num_hidden_layers", None),
        heads: r.size("num_heads", None),
        head_dim: r.size("head_dim", None),
        state: r.size("state_size", None),
        groups: r.size("n_groups", None),
        conv_width: r.size("conv_kernel", Some(4)),
        chunk: r.size("chunk_size", Some(256)),
        norm_eps: r.number("layer_norm_epsilon", 1e-5),
        norm_groups: 1,
        delta_limit: r.limit("time_step_limit"),
        tied: r.flag("tie_word_embeddings", false),
        residual_in_fp32: r.flag("residual_in_fp32", true),
        pooling,
    };
    let expand = r.number("expand", 2.0);
    let inner = shape.heads.saturating_mul(shape.head_dim);
    if inner != 0 && (f64::from(expand) * shape.d_model as f64).floor() != inner as f64 {
        let text = format!(
            "num_heads {} times head_dim {} is not expand {expand} times hidden_size {}",
            shape.heads, shape.head_dim, shape.d_model
        );
        r.differences.push(text);
    }
    let labels = labels(&mut r);
    r.ignore(HARMLESS);
    (shape, labels, r.finish())
}

/// `id2label`: names for the classes 0..n, without a gap.
fn labels(r: &mut Reader<'_>) -> Vec<String> {
    let Some(value) = r.get("id2label") else { return Vec::new() };
    let named = value.as_object().and_then(|names| {
        (0..names.len()).map(|i| names.get(&i.to_string())?.as_str().map(String::from)).collect::<Option<Vec<_>>>()
    });
    named.unwrap_or_else(|| {
        r.differs("id2label", value, "names for the classes 0, 1, ... are needed");
        Vec::new()
    })
}
