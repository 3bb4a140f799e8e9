//! `fesc classify`: one document; with `--plain` in the clear, on this machine.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use fesc_model::metrics::softmax;
use serde_json::Value;

use crate::classifier::Plain;
use crate::cli::ClassifyArgs;
use crate::exit::Refusal;
use crate::private;
use crate::report::{Format, Report, Row, line};

/// The longest document taken, in bytes.
const LIMIT: u64 = fesc_model::data::LINE_LIMIT;

/// Tokens that are looked at in the clear, unless told.
const PLAIN_LENGTH: u32 = 2048;

/// Classifies a file or standard input.
pub fn run(args: &ClassifyArgs, format: Format, verbose: bool) -> Result<()> {
    if let Some(explained) = private::explain(args) {
        return explained;
    }
    if args.plain {
        plain(args, &read(&args.file)?, format, verbose)
    } else {
        private::classify(args, || read(&args.file), format, verbose)
    }
}

/// In the clear; prints the class, a line of figures and, where details are asked for, all probabilities.
fn plain(args: &ClassifyArgs, text: &str, format: Format, verbose: bool) -> Result<()> {
    let plain = Plain::load(&args.model)?;
    let classifier = &plain.classifier;
    let encoded = classifier.tokenizer().encode(text, args.length.unwrap_or(PLAIN_LENGTH) as usize)?;
    let start = Instant::now();
    let verdict = plain.classify(&encoded.ids)?;
    let seconds = start.elapsed().as_secs_f64();
    let name = |class: usize| classifier.label(class).map_or(Value::Null, Value::from);
    let probabilities = softmax(&verdict.logits);
    let mut report = Report::new(format);
    if format == Format::Table {
        let percent = 100.0 * probabilities.get(verdict.class).copied().unwrap_or(f64::NAN);
        line(&classifier.label(verdict.class).map_or_else(|| verdict.class.to_string(), String::from))?;
        line(&format!(
            "{percent:.1} % by {} in the clear ({}); {} tokens{}, {seconds:.2} s",
            classifier.name(),
            plain.mode(),
            encoded.ids.len(),
            if encoded.truncated() { format!(" of {}", encoded.total) } else { String::new() },
        ))?;
        if !verbose {
            return Ok(());
        }
    }
    let row = Row::new()
        .with("label", verdict.class)
        .with("class", name(verdict.class))
        .with("probability", probabilities.get(verdict.class).copied())
        .with("tokens", encoded.ids.len())
        .with("cut", encoded.truncated())
        .with("seconds", seconds)
        .with("model", classifier.name())
        .with("mode", plain.mode())
        .with("preset", plain.preset())
        .detail("document_tokens", encoded.total)
        .detail("probabilities", probabilities.clone());
    report.add(row)?;
    if format == Format::Table {
        let mut order: Vec<(usize, f64)> = probabilities.into_iter().enumerate().collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (class, probability) in order {
            let row = Row::new().with("class", name(class)).with("label", class);
            report.add(row.with("percent", (1000.0 * probability).round() / 10.0))?;
        }
    }
    report.finish()
}

/// A whole text, bounded.
fn read(file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let (source, name): (Box<dyn Read>, String) = if file.as_os_str() == "-" {
        (Box::new(std::io::stdin().lock()), "standard input".into())
    } else {
        let name = file.display().to_string();
        (Box::new(File::open(file).context(name.clone())?), name)
    };
    source.take(LIMIT + 1).read_to_end(&mut bytes).context(name.clone())?;
    if bytes.len() as u64 > LIMIT {
        let remedy = "classify a part of the document";
        return Err(Refusal::Limit { what: "bytes of text", value: bytes.len() as u64, max: LIMIT, remedy }.into());
    }
    String::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8 text"))
}
