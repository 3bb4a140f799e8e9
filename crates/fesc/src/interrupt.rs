//! Signals (SIGINT, SIGTERM, SIGHUP): the first asks a command to end in good order, the second ends the
//! process at once.
//!
//! Files of secrets that a process could not delete at its end are deleted by the next one that opens their
//! directory.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::exit;

static CAUGHT: AtomicBool = AtomicBool::new(false);

/// From now on the first signal does `act`, on a thread of its own. Once in a process.
pub fn on_first(act: impl FnOnce() + Send + 'static) -> Result<()> {
    let mut act = Some(act);
    let handler = move || match act.take() {
        Some(act) => {
            CAUGHT.store(true, Ordering::Relaxed);
            act();
        }
        None => process::exit(exit::SIGNAL.into()),
    };
    ctrlc::set_handler(handler).context("watching for signals")
}

/// Whether a signal has come.
pub fn caught() -> bool {
    CAUGHT.load(Ordering::Relaxed)
}
