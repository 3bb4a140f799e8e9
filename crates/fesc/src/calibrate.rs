//! `fesc calibrate`: the ranges that the fixed-point twin of a model needs.

use std::path::Path;

use anyhow::Result;
use fesc_model::Model;
use fesc_model::twin::Calibration;
use rayon::prelude::*;

use crate::classifier;
use crate::cli::CalibrateArgs;
use crate::corpus::{self, Tokens};
use crate::progress::Progress;
use crate::report::{Format, Report, Row};

/// Writes `calibration.json` into the model's directory.
pub fn run(args: &CalibrateArgs, format: Format) -> Result<()> {
    let classifier = classifier::load(Some(&args.model))?;
    let length = args.length as usize;
    let documents = corpus::read(&args.data, args.limit as usize, None, |text| {
        Ok(classifier.tokenizer().encode(text, length)?.ids)
    })?;
    let calibration = collect(classifier.model(), &documents, &args.data)?;
    calibration.save(&args.model)?;
    let mut report = Report::new(format);
    report.add(
        Row::new()
            .with("model", classifier.name())
            .with("documents", calibration.documents)
            .with("tokens", calibration.tokens)
            .with("file", args.model.join(fesc_model::twin::calibrate::FILE).display().to_string()),
    )?;
    report.finish()
}

/// The ranges over all documents, taken on all cores; `path` is for messages.
pub fn collect(model: &Model, documents: &[Tokens], path: &Path) -> Result<Calibration> {
    let progress = Progress::counted("calibrating", documents.len() as u64);
    let one = |document: &Tokens| {
        let calibration = Calibration::collect(model, [&document.ids]).map_err(|e| corpus::at(path, document.line, e));
        progress.step();
        calibration
    };
    let mut each = documents.par_iter().map(one).collect::<Result<Vec<_>, _>>()?.into_iter();
    // No document at all: the library's own error says so.
    let mut all = each.next().map_or_else(|| Calibration::collect(model, [[0u32; 0]; 0]), Ok)?;
    each.try_for_each(|calibration| all.merge(&calibration))?;
    Ok(all)
}
