//! `fesc eval`: how good a model is on labelled documents.

use std::time::Instant;

use anyhow::Result;
use fesc_model::Classifier;
use fesc_model::metrics::Confusion;
use rayon::prelude::*;
use serde_json::Value;

use crate::classifier::Plain;
use crate::cli::EvalArgs;
use crate::corpus::{self, Tokens};
use crate::private;
use crate::progress::Progress;
use crate::report::{Format, Report, Row};

/// Classifies every document at every length and prints one result for each length.
pub fn run(args: &EvalArgs, format: Format) -> Result<()> {
    if !args.private.is_empty() {
        return private::eval(args, format);
    }
    let plain = Plain::load(&args.model)?;
    let classifier = &plain.classifier;
    let longest = args.length.iter().copied().max().unwrap_or(1) as usize;
    let limit = args.limit.map_or(usize::MAX, |n| n as usize);
    let documents = corpus::read(&args.data, limit, Some(classifier.classes()), |text| {
        Ok(classifier.tokenizer().encode(text, longest)?.ids)
    })?;
    let mut report = Report::new(format);
    for &length in &args.length {
        let start = Instant::now();
        let confusion = evaluate(&plain, args, &documents, length as usize)?;
        let row = Row::new()
            .with("accuracy", confusion.accuracy())
            .with("macro_f1", confusion.macro_f1())
            .with("documents", confusion.total())
            .with("length", length)
            .with("model", classifier.name())
            .with("mode", plain.mode())
            .with("preset", plain.preset())
            .with("seconds", start.elapsed().as_secs_f64())
            .detail("confusion", serde_json::to_value(&confusion)?);
        report.add(row)?;
        if format == Format::Table {
            by_class(classifier, &confusion).into_iter().try_for_each(|row| report.add(row))?;
        }
    }
    report.finish()
}

/// All documents on all cores. Where some cannot be computed the error says how many, and shows the first.
fn evaluate(plain: &Plain, args: &EvalArgs, documents: &[Tokens], length: usize) -> Result<Confusion> {
    let progress = Progress::counted(format!("{} at {length} tokens", plain.mode()), documents.len() as u64);
    let one = |document: &Tokens| {
        let ids = document.ids.get(..length).unwrap_or(&document.ids);
        let verdict = plain.classify(ids).map_err(|e| corpus::at(&args.data, document.line, e));
        progress.step();
        Ok::<_, fesc_model::ModelError>((document.label, verdict?.class))
    };
    let (done, failed): (Vec<_>, Vec<_>) = documents.par_iter().map(one).partition_map(|result| match result {
        Ok(pair) => rayon::iter::Either::Left(pair),
        Err(error) => rayon::iter::Either::Right(error),
    });
    let failures = failed.len();
    if let Some(first) = failed.into_iter().next() {
        let all = documents.len();
        return Err(
            anyhow::Error::from(first).context(format!("{failures} of {all} documents were not computed; the first"))
        );
    }
    let mut confusion = Confusion::new(plain.classifier.classes());
    for (truth, predicted) in done {
        confusion.add(truth, predicted)?;
    }
    Ok(confusion)
}

/// A row per class for readers: how many there are, and what they were taken for.
fn by_class(classifier: &Classifier, confusion: &Confusion) -> Vec<Row> {
    let rows = confusion.rows();
    let width = rows.iter().flatten().max().map_or(1, |most| most.to_string().len());
    let row = |(class, counts): (usize, &Vec<u64>)| {
        let line: Vec<String> = counts.iter().map(|n| format!("{n:>width$}")).collect();
        Row::new()
            .with("label", class)
            .with("class", classifier.label(class).map_or(Value::Null, Value::from))
            .with("f1", confusion.f1(class))
            .with("documents", counts.iter().sum::<u64>())
            .with("predicted as 0, 1, ...", line.join(" "))
    };
    rows.iter().enumerate().map(row).collect()
}
