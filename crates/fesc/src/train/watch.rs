//! What a training run shows: a line with the time left, events as JSON, a table of validations.

use fesc_train::{Control, Event, Recipe};

use crate::progress::Progress;
use crate::report::{self, Format, Report, Row};

/// Follows a run.
pub struct Watch {
    format: Format,
    progress: Progress,
    stages: usize,
    lengths: Vec<usize>,
    validations: Report,
    /// The first error of printing; the run stops and it is reported.
    failed: Option<anyhow::Error>,
}

impl Watch {
    pub fn new(recipe: &Recipe, format: Format) -> Self {
        Self {
            format,
            progress: Progress::start("training"),
            stages: recipe.stages.len(),
            lengths: recipe.evaluation.lengths.clone(),
            validations: Report::new(format),
            failed: None,
        }
    }

    /// Shows one event. A reader that went away stops the run, which can be resumed.
    pub fn see(&mut self, event: &Event) -> Control {
        match self.show(event) {
            Ok(()) => Control::Continue,
            Err(error) => {
                self.failed = Some(error);
                Control::Stop
            }
        }
    }

    fn show(&mut self, event: &Event) -> anyhow::Result<()> {
        if let Event::Step { stage, step, steps, loss, tokens_per_second, seconds_left, .. } = event {
            let left = seconds_left.max(0.0) as u64;
            self.progress.say(format!(
                "stage {} of {}, step {step} of {steps}, loss {loss:.3}, {tokens_per_second:.0} tokens/s, {}:{:02}:{:02} left",
                stage + 1,
                self.stages,
                left / 3600,
                left / 60 % 60,
                left % 60
            ));
        }
        if self.format == Format::Json {
            return report::line(&serde_json::to_string(event)?);
        }
        if let Event::Evaluated { stage, epoch, loss, scores, best, .. } = event {
            for (length, score) in self.lengths.iter().zip(scores) {
                let row = Row::new()
                    .with("stage", stage + 1)
                    .with("epoch", *epoch)
                    .with("length", *length)
                    .with("loss", score.loss)
                    .with("accuracy", score.accuracy)
                    .with("mean_loss", *loss)
                    .with("kept", if *best { "yes" } else { "no" });
                self.validations.add(row)?;
            }
        }
        Ok(())
    }

    /// Prints what was collected.
    pub fn finish(self) -> anyhow::Result<()> {
        drop(self.progress);
        self.failed.map_or(Ok(()), Err)?;
        self.validations.finish()
    }
}
