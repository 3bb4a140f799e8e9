//! Sessions that last: signals, several clients on one directory, limits of what a server keeps.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{program, tiny};

/// A network on which a tiny run takes seconds.
const SLOW: &[&str] = &["--net", "40mbps,20ms", "--timeout", "20"];

fn signal(child: &Child, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status().unwrap();
    assert!(sent.success());
}

/// Waits for something that happens soon.
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(60), "no {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        tiny::write(&dir.path().join("model"), 1, 5);
        // Once: clients that are under way at the same time read it.
        fs::write(dir.path().join("document"), tiny::text(3)).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn entries(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(name)).into_iter().flatten();
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    /// A server whose whole output is read.
    fn serve(&self, more: &[&str]) -> Serving {
        let (model, state, store) = (self.text("model"), self.text("state"), self.text("store"));
        let args =
            ["serve", "--model", &model, "--state", &state, "--store", &store, "--listen", "127.0.0.1:0", "--json"];
        let mut child = program()
            .args(args)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        Serving { child, out, said: serde_json::from_str(&line).unwrap() }
    }

    /// A client that is under way.
    fn call(&self, server: &Serving, command: &[&str], more: &[&str]) -> Child {
        let (address, pin) = (server.said["listening"].as_str().unwrap(), server.said["fingerprint"].as_str().unwrap());
        let (file, cache) = (self.text("document"), self.text("cache"));
        let mut program = program();
        program.args(command);
        if command == ["classify"] {
            program.arg(&file);
        }
        program.args(["--server", address, "--pin", pin, "--cache", &cache, "--json"]).args(more);
        program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn prepare(&self, server: &Serving, sessions: &str) -> Output {
        let command = ["prepare", "--prepared", &self.text("prepared"), "--length", "64", "--sessions", sessions];
        self.call(server, &command, &[]).wait_with_output().unwrap()
    }
}

struct Serving {
    child: Child,
    out: BufReader<ChildStdout>,
    said: Value,
}

impl Serving {
    /// Its exit code and last line.
    fn ended(&mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_that_is_told_to_stop_lets_its_sessions_end_and_says_what_it_served() {
    let home = Home::new();
    let mut server = home.serve(&["--grace", "60"]);
    assert!(home.call(&server, &["classify"], &[]).wait_with_output().unwrap().status.success());
    assert!(home.prepare(&server, "1").status.success());
    let prepared = home.text("prepared");
    let client = home.call(&server, &["classify"], &[&["--prepared", &prepared], SLOW].concat());
    until("session", || home.entries("store").iter().any(|name| name.ends_with(".used")));
    signal(&server.child, "TERM");
    assert!(client.wait_with_output().unwrap().status.success(), "the session that ran goes on to its end");
    let (code, said) = server.ended();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, said["served"].as_u64(), said["failed"].as_u64()), (Some(0), Some(3), Some(0)), "{said}");
    assert!(home.entries("store").is_empty());
}

#[test]
fn sessions_over_the_grace_are_cut_and_a_second_signal_ends_at_once() {
    let home = Home::new();
    let mut server = home.serve(&["--grace", "0.2"]);
    assert!(home.prepare(&server, "2").status.success());
    let prepared = home.text("prepared");
    let slow = [&["--prepared", &prepared], SLOW].concat();
    let running = |count| home.entries("store").iter().filter(|name| name.ends_with(".used")).count() == count;
    let client = home.call(&server, &["classify"], &slow);
    until("session", || running(1));
    signal(&server.child, "INT");
    assert_eq!(client.wait_with_output().unwrap().status.code(), Some(3));
    let (code, said) = server.ended();
    assert!(code == Some(0) && said.contains("\"failed\":1"), "{code:?} {said}");
    assert_eq!(home.entries("store").len(), 1, "the used one is gone, the other waits");

    let mut server = home.serve(&["--grace", "600"]);
    let mut client = home.call(&server, &["classify"], &["--prepared", &prepared, "--net", "2mbps,20ms"]);
    until("session", || running(1));
    let start = Instant::now();
    signal(&server.child, "TERM");
    std::thread::sleep(Duration::from_millis(300));
    signal(&server.child, "TERM");
    assert_eq!(server.ended().0, Some(130));
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!(client.wait().unwrap().code(), Some(3));
    // What it could not delete, the next one does.
    drop(home.serve(&[]));
    assert!(home.entries("store").is_empty(), "{:?}", home.entries("store"));
}

#[test]
fn a_client_that_is_interrupted_burns_what_it_took_and_leaves_nothing() {
    let home = Home::new();
    // In the download: what has come so far goes.
    let server = home.serve(&["--net", "2mbps,5ms"]);
    let client = home.call(&server, &["classify"], &[]);
    until("download", || home.entries("cache").iter().any(|name| name.ends_with(".part")));
    signal(&client, "INT");
    let ended = client.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(home.entries("cache").is_empty());
    drop(server);
    // In a run with prepared correlations.
    let server = home.serve(&[]);
    assert!(home.prepare(&server, "1").status.success());
    let prepared = home.text("prepared");
    let client = home.call(&server, &["classify"], &[&["--prepared", &prepared], SLOW].concat());
    // On both sides: a client that ends before the server has heard of its choice leaves the server a half
    // that nobody asks for again.
    let used = |place: &str| home.entries(place).iter().any(|name| name.ends_with(".used"));
    until("run", || used("prepared") && used("store"));
    signal(&client, "TERM");
    let ended = client.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    assert!(ended.stdout.is_empty() && String::from_utf8_lossy(&ended.stderr).contains("signal"));
    assert!(home.entries("prepared").is_empty());
    until("end of the session", || home.entries("store").is_empty());
}

#[test]
fn two_clients_on_one_directory_take_a_store_each() {
    let home = Home::new();
    let server = home.serve(&[]);
    assert!(home.prepare(&server, "3").status.success());
    let prepared = home.text("prepared");
    let clients: Vec<Child> = (0..3).map(|_| home.call(&server, &["classify"], &["--prepared", &prepared])).collect();
    for client in clients {
        let ended = client.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert!(home.entries("prepared").is_empty());
    until("end of the sessions", || home.entries("store").is_empty());
    let more = home.call(&server, &["classify"], &["--prepared", &prepared]).wait_with_output().unwrap();
    assert_eq!(more.status.code(), Some(1), "there is no fourth");
}

#[test]
fn a_full_shelf_is_a_limit_with_numbers() {
    let home = Home::new();
    let server = home.serve(&["--prepared-bytes", "1000000"]);
    let refused = home.prepare(&server, "1");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("1000000 bytes are kept") && said.contains("fewer"), "{said}");
    assert!(home.entries("store").is_empty() && home.entries("prepared").is_empty());
}

#[test]
fn a_server_that_could_run_out_of_open_files_does_not_start() {
    let home = Home::new();
    let (model, state) = (home.text("model"), home.text("state"));
    let run = "ulimit -n 256; exec \"$0\" \"$@\"";
    let program = program();
    let args = ["serve", "--model", &model, "--state", &state, "--listen", "127.0.0.1:0", "--max-sessions", "64"];
    let ended = Command::new("sh").arg("-c").arg(run).arg(program.get_program()).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(4), "{said}");
    assert!(said.contains("1136") && said.contains("256") && said.contains("ulimit -n"), "{said}");
    assert!(!home.path("state").exists(), "nothing was made");
}
