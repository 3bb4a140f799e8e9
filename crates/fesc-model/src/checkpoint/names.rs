//! Which tensors a model must have, under which names, and where the file has them.

use std::collections::BTreeMap;

use safetensors::Dtype;

use super::header::{Header, Stored};
use crate::Config;
use crate::Shape;

/// At most this many differences are listed; a wrong config makes thousands.
const LISTED: usize = 40;

/// Canonical names (ours: Hugging Face's without `backbone.`) to positions in the header.
#[derive(Debug)]
pub(super) struct Index {
    at: BTreeMap<String, usize>,
    pub(super) classes: Option<usize>,
}

/// The tensors of one layer and their shapes.
pub(super) fn layer_tensors(s: &Shape) -> [(&'static str, Vec<usize>); 9] {
    [
        ("norm.weight", vec![s.d_model]),
        ("mixer.in_proj.weight", vec![s.proj_dim(), s.d_model]),
        ("mixer.conv1d.weight", vec![s.conv_dim(), 1, s.conv_width]),
        ("mixer.conv1d.bias", vec![s.conv_dim()]),
        ("mixer.dt_bias", vec![s.heads]),
        ("mixer.A_log", vec![s.heads]),
        ("mixer.D", vec![s.heads]),
        ("mixer.norm.weight", vec![s.inner()]),
        ("mixer.out_proj.weight", vec![s.d_model, s.inner()]),
    ]
}

fn canonical(name: &str) -> String {
    let name = name.strip_prefix("backbone.").unwrap_or(name);
    if name == "embedding.weight" {
        return "embeddings.weight".into();
    }
    name.strip_prefix("classifier.").map_or_else(|| name.to_string(), |part| format!("score.{part}"))
}

impl Index {
    /// Compares the file's tensors with those of the config; the error lists what differs.
    pub(super) fn new(config: &Config, header: &Header) -> Result<Self, Vec<String>> {
        let mut differences = Vec::new();
        let mut at = BTreeMap::new();
        for (place, stored) in header.tensors.iter().enumerate() {
            if let Some(other) = at.insert(canonical(&stored.name), place) {
                let other = header.tensors.get(other).map_or("", |t| t.name.as_str());
                differences.push(format!("{} and {other} are the same tensor", stored.name));
            }
            if !matches!(stored.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
                differences
                    .push(format!("{} is of type {}; f32, f16 and bf16 are supported", stored.name, stored.dtype));
            }
        }
        let mut index = Self { at, classes: None };
        let mut left: BTreeMap<&str, usize> = index.at.iter().map(|(name, place)| (name.as_str(), *place)).collect();
        let mut expect = |name: &str, shape: &[usize], needed: bool| match left.remove(name) {
            None if needed => differences.push(format!("{name} is missing")),
            None => {}
            Some(place) => {
                let found = header.tensors.get(place).map_or(&[][..], |t| &t.shape);
                if found != shape {
                    differences.push(format!("{name} has the shape {found:?}, the config needs {shape:?}"));
                }
            }
        };
        expect("embeddings.weight", &[config.vocab, config.d_model], true);
        for layer in 0..config.layers {
            for (name, shape) in layer_tensors(config) {
                expect(&format!("layers.{layer}.{name}"), &shape, true);
            }
        }
        expect("norm_f.weight", &[config.d_model], true);
        expect("lm_head.weight", &[config.vocab, config.d_model], false);
        // The number of classes is the file's to say; the config's names must agree with it.
        let score = index.find(header, "score.weight");
        let classes = score.and_then(|t| t.shape.first().copied());
        if let Some(classes) = classes {
            expect("score.weight", &[classes, config.d_model], true);
            expect("score.bias", &[classes], false);
            let named = config.labels().len();
            if classes == 0 || (named != 0 && named != classes) {
                differences.push(format!("the classifier has {classes} classes, config.json names {named}"));
            }
        }
        differences.extend(left.keys().map(|name| format!("{name} is not a tensor of this model")));
        if differences.is_empty() {
            index.classes = classes;
            return Ok(index);
        }
        if differences.len() > LISTED {
            let more = differences.len() - LISTED;
            differences.truncate(LISTED);
            differences.push(format!("and {more} more"));
        }
        Err(differences)
    }

    pub(super) fn has(&self, canonical: &str) -> bool {
        self.at.contains_key(canonical)
    }

    pub(super) fn find<'h>(&self, header: &'h Header, canonical: &str) -> Option<&'h Stored> {
        header.tensors.get(*self.at.get(canonical)?)
    }

    /// Canonical name and tensor, in the order of the names.
    pub(super) fn iter<'h>(&self, header: &'h Header) -> impl Iterator<Item = (&str, &'h Stored)> {
        self.at.iter().filter_map(|(name, place)| Some((name.as_str(), header.tensors.get(*place)?)))
    }
}
