//! A server with a list of one client, under a plan with CKKS keys that both keep.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::place::Place;
use super::server::Listening;
use super::{Run, Watched, fesc, tiny};

/// A network on which an upload and a run take a moment.
pub const NET: [&str; 4] = ["--net", "1gbps,10ms", "--timeout", "20"];

/// A server with a list of one client, and its options.
pub struct Kept {
    pub place: Place,
    plan: String,
    identity: [String; 4],
}

impl Kept {
    /// With this plan.
    pub fn new(plan: &str) -> Self {
        let place = Place::new(1);
        let made = fesc(&["keygen", "--client", "--out", &place.text("one"), "--json"]).ok();
        let made: Value = serde_json::from_str(&made).unwrap();
        let text = |key: &str| made[key].as_str().unwrap().to_string();
        fs::write(place.path("clients"), format!("{}\n", text("list_line"))).unwrap();
        let identity = ["--key".into(), text("key"), "--cert".into(), text("certificate")];
        Self { place, plan: plan.into(), identity }
    }

    pub fn serve(&self, more: &[&str]) -> Listening {
        let clients = self.place.text("clients");
        let args = ["--plan", &self.plan, "--clients", &clients, "-vv"];
        self.place.serve(&[&args[..], &NET, more].concat())
    }

    pub fn options<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.identity.iter().map(String::as_str).chain(NET).chain(more.iter().copied()).collect()
    }

    pub fn classify(&self, server: &Listening, more: &[&str]) -> Value {
        let row = self.place.classify(server, &tiny::text(3), &self.options(more)).remove(0);
        assert_eq!(row["label"].as_u64(), Some(self.place.twin_by(&self.plan, &tiny::text(3))), "the twin's label");
        row
    }

    pub fn watch(&self, server: &Listening) -> Watched {
        self.place.watch(server, "classify", &tiny::text(3), &self.options(&[]))
    }

    pub fn keys(&self, server: &Listening, what: &[&str]) -> Run {
        let (address, pin, state) =
            (server.text("listening"), server.text("fingerprint"), self.place.text("client-state"));
        let reach = ["--server", &address, "--pin", &pin, "--state", &state, "--json"];
        fesc(&[&["keys"], what, &reach, &self.identity.each_ref().map(String::as_str)].concat())
    }

    /// Files of keys at the server, and at the client. All are private.
    pub fn files(&self) -> [Vec<PathBuf>; 2] {
        [("state", "keys-server"), ("client-state", "keys-client")].map(|(state, name)| {
            let directory = self.place.path(state).join(name);
            let files: Vec<PathBuf> = match fs::read_dir(&directory) {
                Ok(files) => files.map(|e| e.unwrap().path()).collect(),
                Err(_) => return Vec::new(),
            };
            for path in files.iter().chain([&directory]) {
                assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o077, 0, "{path:?}");
            }
            files
        })
    }

    pub fn counts(&self) -> [usize; 2] {
        self.files().map(|files| files.len())
    }

    /// What the log of a run says.
    pub fn watch_said(&self, server: &Listening) -> String {
        let (code, said) = self.watch(server).end(Duration::from_secs(60));
        assert_eq!(code, Some(0), "{said}");
        said
    }
}
