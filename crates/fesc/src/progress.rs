//! A progress line on standard error: only on a terminal, and only for work that lasts.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);

const SPINNER: &str = "{spinner} {elapsed} {msg}";
const BAR: &str = "{elapsed} {msg} {wide_bar} {pos}/{len}, {eta} left";

/// A spinner or a bar with a message. Gone when dropped.
pub struct Progress {
    bar: ProgressBar,
    waiting: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts; nothing is drawn yet.
    pub fn start(message: impl Into<String>) -> Self {
        Self::new(message, None, SPINNER)
    }

    /// The same for work of `total` equal steps, with the time that is left.
    pub fn counted(message: impl Into<String>, total: u64) -> Self {
        Self::new(message, Some(total), BAR)
    }

    fn new(message: impl Into<String>, total: Option<u64>, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        draw_as(&bar, template);
        bar.set_message(message.into());
        let waiting = std::io::stderr().is_terminal().then(|| {
            let (done, finished) = channel();
            let shown = bar.clone();
            let thread = std::thread::spawn(move || {
                if finished.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                    shown.enable_steady_tick(Duration::from_millis(120));
                }
            });
            (done, thread)
        });
        Self { bar, waiting }
    }

    /// So many of `total` steps are done. A spinner becomes a bar.
    pub fn at(&self, done: u64, total: u64) {
        if self.bar.length().is_none() {
            draw_as(&self.bar, BAR);
            self.bar.reset_eta();
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Steps are no longer counted: a bar becomes a spinner.
    pub fn spin(&self) {
        if self.bar.length().is_some() {
            draw_as(&self.bar, SPINNER);
            self.bar.unset_length();
        }
    }

    /// One more step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Says what is being done now.
    pub fn say(&self, message: impl Into<String>) {
        self.bar.set_message(message.into());
    }
}

fn draw_as(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.waiting.take() {
            drop(done);
            // The thread only waits and draws; if it panicked there is nothing left to clear.
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
