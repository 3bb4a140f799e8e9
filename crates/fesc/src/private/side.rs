//! Processes of this program, as the sides of a run on this machine.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::exit::Refusal;
use crate::interrupt;

/// The processes of a command; a signal kills them, and with their outputs the command ends.
#[derive(Clone, Default)]
pub struct Children(Arc<Mutex<Vec<Child>>>);

impl Children {
    /// None yet; killed at the first signal.
    ///
    /// # Errors
    /// If signals cannot be heard.
    pub fn until_interrupted() -> Result<Self> {
        let children = Self::default();
        let killed = children.clone();
        // A kill that fails is that of a process which has ended.
        interrupt::on_first(move || killed.each(|c| drop(c.kill())))?;
        Ok(children)
    }

    fn each(&self, act: impl FnMut(&mut Child)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(act);
    }
}

/// A process of this program. A server ends with its standard input, so also when this process dies; killed
/// when dropped.
pub struct Side {
    children: Children,
    id: u32,
    out: BufReader<ChildStdout>,
}

impl Side {
    /// Starts one with these arguments.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(children: &Children, args: &[&str]) -> Result<Self> {
        let me = std::env::current_exe().context("finding this program's own file")?;
        let mut child = Command::new(me)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a side")?;
        let out = child.stdout.take().context("a side without an output")?;
        let id = child.id();
        children.0.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        Ok(Self { children: children.clone(), id, out: BufReader::new(out) })
    }

    /// Its end, after its output has ended.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn wait(&self) -> Result<ExitStatus> {
        let mut ended = None;
        self.children.each(|c| {
            if c.id() == self.id {
                ended = Some(c.wait());
            }
        });
        Ok(ended.context("a side that was never started")??)
    }

    /// The next object that it prints; its own error and code if it ends instead.
    ///
    /// # Errors
    /// If it prints none.
    pub fn object(&mut self, who: &str) -> Result<Value> {
        let mut text = String::new();
        self.out.read_line(&mut text).context("reading from a side")?;
        if text.is_empty() {
            let status = self.wait()?;
            let code = status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(crate::exit::OTHER);
            let message = format!("ended without a result ({status})");
            return Err(Refusal::Party { who: who.into(), message, code }.into());
        }
        Ok(serde_json::from_str(&text)?)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.children.each(|c| {
            if c.id() == self.id {
                // Both fail only if it has already ended and been waited for.
                let _ = c.kill();
                let _ = c.wait();
            }
        });
    }
}
