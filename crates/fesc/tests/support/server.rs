//! A server and its clients as processes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::Value;

use super::{PROGRAM, Run, lines, wait};

/// A process that prints where it listens: `serve` or `dealer`.
pub struct Listening {
    pub child: Child,
    stdin: Option<ChildStdin>,
    pub said: Value,
    pub log: Receiver<String>,
}

impl Listening {
    pub fn start(args: &[&str]) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(args)
            .args(["--listen", "127.0.0.1:0", "--stop-with-stdin", "--json", "-v"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env_remove("RUST_LOG")
            .spawn()
            .unwrap();
        let log = lines(child.stderr.take().unwrap());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("{args:?}: {:?}", log.iter().collect::<Vec<_>>()));
        Self { stdin: child.stdin.take(), child, said, log }
    }

    /// A server of a model, with a state of its own.
    pub fn serve(model: &Path, state: &Path, more: &[&str]) -> Self {
        let (model, state) = (model.display().to_string(), state.display().to_string());
        Self::start(&[&["serve", "--model", &model, "--state", &state], more].concat())
    }

    pub fn text(&self, name: &str) -> String {
        self.said[name].as_str().unwrap().to_string()
    }

    /// Waits for a line of the log with this in it.
    pub fn wait_for(&self, part: &str) -> String {
        loop {
            let line =
                self.log.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("no {part:?} in the log"));
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Resident memory in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Ends it by the end of its input; it must end well.
    pub fn stop(mut self) {
        drop(self.stdin.take());
        assert_eq!(wait(&mut self.child, Duration::from_secs(30)), Some(0));
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that is under way.
pub struct Calling {
    pub child: Child,
    name: String,
}

/// Calls a server with a text on standard input.
pub fn call(server: &Listening, command: &str, text: &str, cache: &Path, more: &[&str]) -> Calling {
    let (address, pin, cache) = (server.text("listening"), server.text("fingerprint"), cache.display().to_string());
    let args = [&[command, "--server", &address, "--pin", &pin, "--cache", &cache, "--json"], more].concat();
    let mut command = Command::new(PROGRAM);
    command.args(&args).env_remove("RUST_LOG").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A client that refuses its command line does not read.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    Calling { child, name: args.join(" ") }
}

impl Calling {
    pub fn end(self) -> Run {
        Run(self.child.wait_with_output().unwrap(), self.name)
    }
}
