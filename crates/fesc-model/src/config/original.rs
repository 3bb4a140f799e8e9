//! `config.json` of state-spaces/mamba (`MambaConfig`), whose mixer is described by `ssm_cfg`.
//!
//! Absent keys of `ssm_cfg` have the defaults of `Mamba2.__init__`. The gated norm is per group there
//! (`group_size = d_ssm / ngroups`), and the vocabulary is padded to a multiple before the embedding is made.

use serde_json::{Map, Value};

use super::json::Reader;
use super::{Pooling, Shape};

pub(super) fn read(map: &Map<String, Value>) -> (Shape, Vec<String>, Vec<String>) {
    let mut r = Reader::new(map, "");
    let d_model = r.size("d_model", None);
    let layers = r.size("n_layer", None);
    let multiple = r.size("pad_vocab_size_multiple", Some(8)).max(1);
    let vocab = r.size("vocab_size", Some(50277)).checked_next_multiple_of(multiple).unwrap_or(usize::MAX);
    let tied = r.flag("tie_embeddings", true);
    let residual_in_fp32 = r.flag("residual_in_fp32", true);
    r.must_be("rms_norm", true);
    r.must_be_off("d_intermediate");
    r.must_be_off("attn_layer_idx");
    r.ignore(&["attn_cfg", "fused_add_norm", "ssm_cfg"]);
    let none = Map::new();
    let ssm = match map.get("ssm_cfg") {
        Some(Value::Object(ssm)) => ssm,
        _ => &none,
    };

    let mut s = Reader::new(ssm, "ssm_cfg.");
    match s.get("layer") {
        Some(Value::String(layer)) if layer == "Mamba2" => {}
        Some(v) => s.differs("layer", v, "only \"Mamba2\" is supported"),
        None => {
            s.differences.push("ssm_cfg.layer is missing, which means Mamba-1; only \"Mamba2\" is supported".into())
        }
    }
    s.must_be("rmsnorm", true);
    s.must_be("norm_before_gate", false);
    s.must_be("D_has_hdim", false);
    s.must_be("bias", false);
    s.must_be("conv_bias", true);
    // Initialisation, kernels and parallel training change nothing of what is computed.
    s.ignore(&[
        "A_init_range",
        "dt_min",
        "dt_max",
        "dt_init_floor",
        "conv_init",
        "use_mem_eff_path",
        "sequence_parallel",
    ]);
    let expand = s.size("expand", Some(2));
    let head_dim = s.size("headdim", Some(64));
    let groups = s.size("ngroups", Some(1));
    let inner = expand.saturating_mul(d_model);
    let ssm_width = s.size("d_ssm", Some(inner));
    if ssm_width != inner {
        s.differences.push(format!("ssm_cfg.d_ssm is {ssm_width}, only expand times d_model = {inner} is supported"));
    }
    if head_dim != 0 && !inner.is_multiple_of(head_dim) {
        s.differences.push(format!("{inner} channels do not divide into heads of {head_dim}"));
    }
    let shape = Shape {
        vocab,
        d_model,
        layers,
        heads: inner.checked_div(head_dim).unwrap_or(0),
        head_dim,
        state: s.size("d_state", Some(128)),
        groups,
        conv_width: s.size("d_conv", Some(4)),
        chunk: s.size("chunk_size", Some(256)),
        norm_eps: 1e-5,
        norm_groups: groups,
        delta_limit: s.limit("dt_limit"),
        tied,
        residual_in_fp32,
        pooling: Pooling::Mean,
    };
    let mut differences = r.finish();
    differences.extend(s.finish());
    (shape, Vec::new(), differences)
}
