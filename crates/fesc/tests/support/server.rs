//! A server and its clients as processes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::Value;

use super::{Run, lines, program, wait};

/// A process that prints where it listens: `serve` or `dealer`.
pub struct Listening {
    pub child: Child,
    stdin: Option<ChildStdin>,
    pub said: Value,
    pub log: Receiver<String>,
}

impl Listening {
    pub fn start(args: &[&str]) -> Self {
        Self::spawn(program().args(args))
    }

    /// The same of a command with more than arguments.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .args(["--listen", "127.0.0.1:0", "--stop-with-stdin", "--json", "-v"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = lines(child.stderr.take().unwrap());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("{command:?}: {:?}", log.iter().collect::<Vec<_>>()));
        Self { stdin: child.stdin.take(), child, said, log }
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

    /// Open descriptors: files, sockets, pipes.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Ends it without a chance to clean up.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
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

impl Calling {
    /// Starts this command with a text on its standard input.
    pub fn start(command: &mut Command, text: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A client that refuses its command line does not read.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        Self { child, name: format!("{command:?}") }
    }

    pub fn end(self) -> Run {
        Run(self.child.wait_with_output().unwrap(), self.name)
    }
}
