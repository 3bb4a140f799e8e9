//! A directory with a tiny model, and with all that processes write while one serves it and others ask.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::server::{Calling, Listening};
use super::{Run, Watched, fesc_reads, program, tiny};

/// Where a process may be tempted to leave something: its working directory, its home, its temporary files.
pub const CORNERS: [&str; 3] = ["cwd", "home", "tmp"];

/// The directory.
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// With a model of this many layers.
    pub fn new(layers: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        tiny::write(&dir.path().join("model"), layers, 5);
        for name in CORNERS {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The program, at home here.
    fn program(&self) -> Command {
        let [cwd, home, tmp] = CORNERS.map(|name| self.path(name));
        let mut command = program();
        command
            .current_dir(cwd)
            .env("HOME", home)
            .env("TMPDIR", tmp)
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_STATE_HOME");
        command
    }

    /// Serves the model.
    pub fn serve(&self, more: &[&str]) -> Listening {
        let (model, state) = (self.text("model"), self.text("state"));
        let args = ["serve", "--model", &model, "--state", &state];
        Listening::spawn(self.program().args(args).args(more))
    }

    fn asks(&self, server: &Listening, command: &str, more: &[&str]) -> Command {
        let (address, pin, cache) = (server.text("listening"), server.text("fingerprint"), self.text("cache"));
        let mut program = self.program();
        program.args([command, "--server", &address, "--pin", &pin, "--json"]);
        if !more.contains(&"--cache") {
            program.args(["--cache", &cache]);
        }
        program.args(["--state", &self.text("client-state")]);
        program.args(more);
        program
    }

    /// A client with a text on its standard input.
    pub fn call(&self, server: &Listening, command: &str, text: &str, more: &[&str]) -> Calling {
        Calling::start(&mut self.asks(server, command, more), text)
    }

    /// The same, and its log is watched.
    pub fn watch(&self, server: &Listening, command: &str, text: &str, more: &[&str]) -> Watched {
        Watched::spawn(self.asks(server, command, more).arg("-vv"), text)
    }

    /// What the model says in the clear.
    pub fn twin(&self, text: &str) -> u64 {
        self.twin_by("fast", text)
    }

    /// The same by this plan.
    pub fn twin_by(&self, plan: &str, text: &str) -> u64 {
        let args = ["classify", "--plain", "--twin", "--plan", plan, "--model", &self.text("model"), "--json"];
        let row: Value = serde_json::from_str(&fesc_reads(&args, text.as_bytes()).ok()).unwrap();
        row["label"].as_u64().unwrap()
    }

    /// A run that must succeed: its lines.
    pub fn classify(&self, server: &Listening, text: &str, more: &[&str]) -> Vec<Value> {
        let text = self.call(server, "classify", text, more).end().ok();
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    /// A run that must fail with this code: what it says.
    pub fn refused(&self, server: &Listening, text: &str, code: i32, more: &[&str]) -> String {
        self.call(server, "classify", text, more).end().fails(code)
    }

    /// Correlations for later, at the client in `prepared`: whether it worked.
    pub fn prepare(&self, server: &Listening, more: &[&str]) -> Run {
        let prepared = self.text("prepared");
        let args = [&["--prepared", prepared.as_str(), "--length", "64"], more].concat();
        self.call(server, "prepare", "", &args).end()
    }
}
