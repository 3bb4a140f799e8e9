//! Writes a [`Config`] as Hugging Face's `config.json`: the inverse of the reader of that dialect.
//!
//! Everything that the reader takes is written, defaults too, so that no later default changes a stored
//! model. The keys of transformers' own bookkeeping that it cannot do without (`architectures`, `dtype`,
//! `label2id`) are written as well. Not writable: a gated norm in groups, which that dialect cannot say; it
//! is refused, not dropped.

use serde_json::{Map, Value, json};

use super::{Config, Pooling};
use crate::{ModelError, Result};

impl Config {
    /// The text of a `config.json` that [`Config::from_json`] reads back to the same config. `dtype` is what
    /// the weights beside it are stored in, for example `float32`.
    pub fn to_json(&self, dtype: &str) -> Result<String> {
        if self.norm_groups != 1 {
            let what = format!(
                "the gated norm has {} groups, but Hugging Face's config.json can say 1 only; keep the original layout",
                self.norm_groups
            );
            return Err(ModelError::Config { differences: vec![what] });
        }
        let architecture = if self.tied { "Mamba2ForCausalLM" } else { "Mamba2Model" };
        let pooling = match self.pooling {
            Pooling::Mean => "mean",
            Pooling::Last => "last",
        };
        let (low, high) = self.delta_limit;
        let mut value = json!({
            "architectures": [architecture],
            "chunk_size": self.chunk,
            "conv_kernel": self.conv_width,
            "dtype": dtype,
            "expand": self.expand(),
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.d_model,
            "layer_norm_epsilon": number(self.norm_eps),
            "model_type": "mamba2",
            "n_groups": self.groups,
            "norm_before_gate": false,
            "num_heads": self.heads,
            "num_hidden_layers": self.layers,
            "pooling": pooling,
            "residual_in_fp32": self.residual_in_fp32,
            "rms_norm": true,
            "state_size": self.state,
            "tie_word_embeddings": self.tied,
            "time_step_limit": [number(low), number(high)],
            "use_bias": false,
            "use_conv_bias": true,
            "vocab_size": self.vocab,
        });
        if let (Value::Object(map), false) = (&mut value, self.labels.is_empty()) {
            let by_id: Map<String, Value> =
                self.labels.iter().enumerate().map(|(i, name)| (i.to_string(), json!(name))).collect();
            let by_name: Map<String, Value> =
                self.labels.iter().enumerate().map(|(i, name)| (name.clone(), json!(i))).collect();
            map.insert("id2label".into(), by_id.into());
            map.insert("label2id".into(), by_name.into());
        }
        Ok(format!("{value:#}\n"))
    }

    /// A factor from which the reader (and transformers) finds the inner width again by multiplying and
    /// cutting.
    fn expand(&self) -> Value {
        let (inner, width) = (self.inner(), self.d_model);
        if inner.is_multiple_of(width) {
            return (inner / width).into();
        }
        let exact = inner as f32 / width as f32;
        let back = (f64::from(exact) * width as f64).floor();
        // Half a channel more survives any rounding of the factor; the cut takes it away again.
        number(if back == inner as f64 { exact } else { (inner as f32 + 0.5) / width as f32 })
    }
}

/// A number in as few digits as give it back, infinity as the object that stands for it.
fn number(v: f32) -> Value {
    if !v.is_finite() {
        return json!({ "__float__": "Infinity" });
    }
    match v.to_string().parse::<f64>() {
        Ok(short) if short as f32 == v => short.into(),
        _ => f64::from(v).into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::super::Shape;
    use super::*;

    fn same(config: &Config) {
        let text = config.to_json("float32").unwrap();
        assert_eq!(&Config::from_json(&text).unwrap(), config, "{text}");
    }

    #[test]
    fn every_named_shape_is_read_back_with_every_limit() {
        for name in Config::NAMES {
            let base = *Config::named(name).unwrap().shape();
            for delta_limit in [(0.0, f32::INFINITY), (0.001, 0.1), (1.0 / 3.0, f32::MAX), (0.1, f32::INFINITY)] {
                for (pooling, tied) in [(Pooling::Mean, true), (Pooling::Last, false)] {
                    let shape = Shape { delta_limit, pooling, tied, norm_eps: 1.0 / 3.0, ..base };
                    same(&Config::new(shape).unwrap());
                }
            }
        }
    }

    #[test]
    fn labels_and_odd_widths_are_read_back() {
        let base = *Config::named("tiny").unwrap().shape();
        let labels = ["Judicial Power", "a \"quoted\" name", "Infinity"].map(String::from).to_vec();
        same(&Config::new(base).unwrap().with_labels(labels));
        same(&Config::new(base).unwrap().with_labels((0..13).map(|i| format!("class {i}")).collect()));
        for d_model in 1..200 {
            for (heads, head_dim) in [(1, 1), (3, 7), (8, 5), (11, 13), (64, 64)] {
                same(&Config::new(Shape { d_model, heads, head_dim, ..base }).unwrap());
            }
        }
    }

    #[test]
    fn epsilon_is_written_short() {
        let text = Config::named("base").unwrap().to_json("float16").unwrap();
        assert!(text.contains("\"layer_norm_epsilon\": 1e-5") || text.contains("0.00001"), "{text}");
        assert!(text.contains("\"dtype\": \"float16\"") && text.contains("\"expand\": 2,"), "{text}");
    }

    #[test]
    fn a_gated_norm_in_groups_is_refused() {
        let base = *Config::named("tiny").unwrap().shape();
        let config = Config::new(Shape { norm_groups: 2, ..base }).unwrap();
        assert!(matches!(config.to_json("float32"), Err(ModelError::Config { .. })));
    }
}
