//! JSON as Python writes it, and a reader of objects that remembers everything that differs.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Parses JSON with Python's bare `Infinity`, `-Infinity` and `NaN`, which become `{"__float__": "..."}`, the
/// form that newer writers use.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(&quote_bare_floats(text)).map_err(|e| e.to_string())
}

fn quote_bare_floats(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    while let Some(c) = rest.chars().next() {
        if in_string {
            // A backslash takes the next character with it, whatever it is.
            let take = c.len_utf8() + if c == '\\' { rest[1..].chars().next().map_or(0, char::len_utf8) } else { 0 };
            out.push_str(&rest[..take]);
            rest = &rest[take..];
            in_string = c != '"';
            continue;
        }
        let bare = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| rest.starts_with(word));
        if let Some(word) = bare {
            out.push_str(&format!("{{\"__float__\": \"{word}\"}}"));
            rest = &rest[word.len()..];
        } else {
            out.push(c);
            in_string = c == '"';
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// A number, or the object that stands for one that JSON does not have.
fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::Object(map) => match map.get("__float__")?.as_str()? {
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            "NaN" => Some(f64::NAN),
            _ => None,
        },
        _ => None,
    }
}

/// Writes a range whose upper end may be infinite in the form that [`parse`] gives.
pub(super) fn limit<S: Serializer>(limit: &(f32, f32), s: S) -> Result<S::Ok, S::Error> {
    let end = |v: f32| if v.is_finite() { Value::from(v) } else { serde_json::json!({ "__float__": "Infinity" }) };
    [end(limit.0), end(limit.1)].serialize(s)
}

/// Reads keys of one object and notes all that is not as it must be.
pub(super) struct Reader<'a> {
    map: &'a Map<String, Value>,
    prefix: &'static str,
    known: BTreeSet<&'a str>,
    pub(super) differences: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(map: &'a Map<String, Value>, prefix: &'static str) -> Self {
        Self { map, prefix, known: BTreeSet::new(), differences: Vec::new() }
    }

    /// The value of a key; `null` counts as absent, as it does for the writers.
    pub(super) fn get(&mut self, key: &'a str) -> Option<&'a Value> {
        self.known.insert(key);
        self.map.get(key).filter(|v| !v.is_null())
    }

    pub(super) fn differs(&mut self, key: &str, found: &Value, needed: &str) {
        let mut shown = found.to_string();
        if let Some((cut, _)) = shown.char_indices().nth(80) {
            shown.truncate(cut);
            shown.push_str(" ...");
        }
        self.differences.push(format!("{}{key} is {shown}, {needed}", self.prefix));
    }

    /// A size; 0 where it is absent without a default or is not a size, which is then reported.
    pub(super) fn size(&mut self, key: &'a str, default: Option<usize>) -> usize {
        match (self.get(key), default) {
            (Some(v), _) => v.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or_else(|| {
                self.differs(key, v, "a whole number is needed");
                0
            }),
            (None, Some(default)) => default,
            (None, None) => {
                self.differences.push(format!("{}{key} is missing", self.prefix));
                0
            }
        }
    }

    pub(super) fn number(&mut self, key: &'a str, default: f32) -> f32 {
        let Some(v) = self.get(key) else { return default };
        float(v).map(|n| n as f32).unwrap_or_else(|| {
            self.differs(key, v, "a number is needed");
            default
        })
    }

    pub(super) fn flag(&mut self, key: &'a str, default: bool) -> bool {
        let Some(v) = self.get(key) else { return default };
        v.as_bool().unwrap_or_else(|| {
            self.differs(key, v, "true or false is needed");
            default
        })
    }

    /// A switch that must stand on the side that we compute.
    pub(super) fn must_be(&mut self, key: &'a str, needed: bool) {
        if let Some(v) = self.get(key).filter(|v| v.as_bool() != Some(needed)) {
            self.differs(key, v, &format!("only {needed} is supported"));
        }
    }

    /// A feature that we do not compute: absent, `null`, zero, false or empty.
    pub(super) fn must_be_off(&mut self, key: &'a str) {
        let off = |v: &Value| match v {
            Value::Null => true,
            Value::Bool(b) => !b,
            Value::Number(n) => n.as_f64() == Some(0.0),
            Value::String(s) => s.is_empty(),
            Value::Array(a) => a.is_empty(),
            Value::Object(o) => o.is_empty(),
        };
        if let Some(v) = self.get(key).filter(|v| !off(v)) {
            self.differs(key, v, "this is not supported");
        }
    }

    pub(super) fn limit(&mut self, key: &'a str) -> (f32, f32) {
        let default = (0.0, f32::INFINITY);
        let Some(v) = self.get(key) else { return default };
        let ends: Option<Vec<f64>> = v.as_array().and_then(|ends| ends.iter().map(float).collect());
        match ends.as_deref() {
            Some([low, high]) => (*low as f32, *high as f32),
            _ => {
                self.differs(key, v, "two numbers are needed");
                default
            }
        }
    }

    /// Keys that change nothing of what is computed.
    pub(super) fn ignore(&mut self, keys: &[&'a str]) {
        self.known.extend(keys);
    }

    /// Reports keys that nobody asked for, and ends.
    pub(super) fn finish(mut self) -> Vec<String> {
        for (key, value) in self.map {
            if !self.known.contains(key.as_str()) && !value.is_null() {
                self.differs(key, value, "this key is not known");
            }
        }
        self.differences
    }
}
