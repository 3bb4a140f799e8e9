//! Runs the program and its inner processes.

#[cfg(unix)]
pub mod disk;
#[cfg(unix)]
pub mod kept;
pub mod place;
pub mod server;
pub mod tiny;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fesc");

/// Every stage of a run.
pub const STAGES: [&str; 13] = [
    "embedding",
    "norm",
    "in_proj",
    "silu",
    "steps",
    "scan",
    "gate",
    "gated_norm",
    "out_proj",
    "final_norm",
    "pool",
    "head",
    "reveal",
];

/// The program, with the log that its command line asks for.
pub fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_remove("RUST_LOG");
    command
}

/// A finished run.
pub struct Run(Output, String);

/// Runs the program to its end.
pub fn fesc(args: &[&str]) -> Run {
    Run(program().args(args).stdin(Stdio::null()).output().unwrap(), args.join(" "))
}

/// The same with these bytes on its standard input.
pub fn fesc_reads(args: &[&str], input: &[u8]) -> Run {
    let mut command = program();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that has read enough closes its input; that is for the test to judge by the outcome.
    let _ = child.stdin.take().unwrap().write_all(input);
    Run(child.wait_with_output().unwrap(), args.join(" "))
}

impl Run {
    /// Its standard output, if it succeeded.
    pub fn ok(self) -> String {
        let errors = String::from_utf8_lossy(&self.0.stderr).into_owned();
        assert!(self.0.status.success(), "fesc {}: {}\n{errors}", self.1, self.0.status);
        String::from_utf8(self.0.stdout).unwrap()
    }

    /// It must have failed with this code, said why (which is returned), and printed no result.
    pub fn fails(self, code: i32) -> String {
        let errors = String::from_utf8_lossy(&self.0.stderr).into_owned();
        assert_eq!(self.0.status.code(), Some(code), "fesc {}\n{errors}", self.1);
        if !self.1.starts_with("party") {
            assert!(!errors.is_empty() && self.0.stdout.is_empty(), "fesc {}", self.1);
        }
        errors
    }
}

/// The lines of a run with `--json`; each must have exactly these names, in this order.
pub fn json(args: &[&str], names: &[&str]) -> Vec<Value> {
    rows(fesc(args).ok(), names)
}

/// The same for a text that was printed.
pub fn rows(text: String, names: &[&str]) -> Vec<Value> {
    let rows: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    for (row, line) in rows.iter().zip(text.lines()) {
        assert_eq!(row.as_object().unwrap().len(), names.len(), "{line}");
        let mut rest = line;
        for name in names {
            let key = format!("\"{name}\":");
            let at = rest.find(&key).unwrap_or_else(|| panic!("{name} is missing or out of order in {line}"));
            rest = &rest[at + key.len()..];
        }
    }
    rows
}

/// The job of one party: SiLU with two-party correlations over a slow network.
pub fn job(seat: &str, peer: Option<Value>, timeout_s: u64, elements: u64) -> Value {
    serde_json::json!({
        "seat": seat,
        "session": vec![7; 32],
        "peer": peer,
        "dealer": null,
        "tls": false,
        "threads": 1,
        "net": "wan3",
        "timeout": { "secs": timeout_s, "nanos": 0 },
        "work": { "Mpc": {
            "op": "silu", "form": "ours", "provider": "two-party", "elements": elements,
            "bits": null, "thresholds": null, "seed": vec![9; 16],
        } },
    })
}

/// Sends a signal to a process that this test started.
pub fn signal(name: &str, pid: u32) {
    let status = Command::new("sh").arg("-c").arg(format!("kill -{name} {pid}")).status().unwrap();
    assert!(status.success());
}

fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    receive
}

fn wait(child: &mut Child, limit: Duration) -> Option<i32> {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("still running after {limit:?}");
}

/// One inner process.
pub struct Party {
    pub child: Child,
    _stdin: ChildStdin,
    events: Receiver<String>,
}

impl Party {
    pub fn start(job: &Value) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["--quiet", "party"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{job}").unwrap();
        let events = lines(child.stdout.take().unwrap());
        Self { child, _stdin: stdin, events }
    }

    fn event(&self) -> Value {
        let line = self.events.recv_timeout(Duration::from_secs(60)).expect("an event");
        serde_json::from_str(&line).unwrap()
    }

    /// Where it listens.
    pub fn listening(&mut self) -> Value {
        self.event()["Listening"][0].clone()
    }

    pub fn wait_for_phase(&mut self, phase: &str) {
        while self.event()["Phase"] != phase {}
    }

    /// Its exit code and its message, within the limit.
    pub fn end(&mut self, limit: Duration) -> (Option<i32>, String) {
        let code = wait(&mut self.child, limit);
        let failed = self.events.iter().find(|l| l.contains("Failed")).unwrap_or_default();
        (code, failed)
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program itself, watched through its standard error.
pub struct Watched {
    child: Child,
    errors: Receiver<String>,
    seen: Vec<String>,
}

impl Watched {
    pub fn start(args: &[&str]) -> Self {
        Self::spawn(program().args(args), "")
    }

    /// Starts this command with a text on its standard input.
    pub fn spawn(command: &mut Command, text: &str) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // One that has enough, or refuses its command line, does not read.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        let errors = lines(child.stderr.take().unwrap());
        Self { child, errors, seen: Vec::new() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of the log with this in it.
    pub fn wait_for(&mut self, part: &str) -> String {
        loop {
            let line = self.errors.recv_timeout(Duration::from_secs(60));
            let line = line.unwrap_or_else(|_| panic!("no {part:?} in the log: {:#?}", self.seen));
            self.seen.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
    }

    /// The processes that it has started.
    pub fn wait_for_pids(&mut self, count: usize) -> Vec<u32> {
        let mut pids = Vec::new();
        while pids.len() < count {
            let line = self.wait_for("pid=");
            pids.extend(line.split("pid=").nth(1).and_then(|p| p.trim().parse::<u32>().ok()));
        }
        pids
    }

    /// Ends it without a chance to clean up.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its exit code and what it said.
    pub fn end(&mut self, limit: Duration) -> (Option<i32>, String) {
        let code = wait(&mut self.child, limit);
        self.seen.extend(self.errors.iter());
        (code, self.seen.join("\n"))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
