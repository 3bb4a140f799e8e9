//! The file of clients that may ask.
//!
//! ```text
//! # name      fingerprint of its certificate (fesc keygen --client)    a day
//! clinic-a    5f0c...64 hex digits...a1                                sessions=200 logits=5
//! archive     77e2...                                                  sessions=10
//! ```
//!
//! A line has a name, a fingerprint and budgets. `sessions` counts runs of a day (UTC), or is `unlimited`; it
//! must be there, so that a line which was cut while it was written gives nobody more than it should.
//! `logits` counts those of them that reveal logits, none where it is missing. The file is read anew for
//! every connection, so that a client that is taken off is refused from then on; sessions that run go on.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use fesc_net::Fingerprint;

use crate::session::error::{Result, SessionError, at};

/// No list is longer.
const MOST_BYTES: u64 = 16 << 20;
const MOST_NAME: usize = 64;

/// A client that may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its name in the log and in the counts.
    pub name: String,
    /// Of its certificate.
    pub fingerprint: Fingerprint,
    /// Runs of a day; `None` is without limit.
    pub sessions: Option<u64>,
    /// Runs of a day that reveal logits.
    pub logits: u64,
}

/// Reads the file.
pub(super) fn read(path: &Path) -> Result<Vec<Client>> {
    let mut text = String::new();
    let file = File::open(path).map_err(at(path))?;
    let got = file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(at(path))?;
    let wrong = |problem: String| SessionError::File { path: path.display().to_string(), problem };
    if got as u64 > MOST_BYTES {
        return Err(wrong(format!("a list of clients has at most {MOST_BYTES} bytes")));
    }
    let mut clients: Vec<Client> = Vec::new();
    let (mut names, mut fingerprints) = (HashSet::new(), HashSet::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        if line.trim().is_empty() {
            continue;
        }
        let client = parse(line).map_err(|problem| wrong(format!("line {}: {problem}", number + 1)))?;
        if !names.insert(client.name.clone()) | !fingerprints.insert(client.fingerprint.to_string()) {
            return Err(wrong(format!("line {}: this name or fingerprint is there already", number + 1)));
        }
        clients.push(client);
    }
    Ok(clients)
}

fn parse(line: &str) -> std::result::Result<Client, String> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    if name.len() > MOST_NAME || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) {
        return Err(format!("a name has at most {MOST_NAME} letters, digits, dots, dashes or underlines"));
    }
    let fingerprint = words.next().ok_or("a fingerprint belongs behind the name")?;
    let fingerprint = fingerprint.parse().map_err(|e: fesc_net::NetError| e.to_string())?;
    let (mut sessions, mut logits) = (None, None);
    for word in words {
        match word.split_once('=').map(|(key, value)| (key, value, value.parse::<u64>())) {
            Some(("sessions", "unlimited", _)) if sessions.is_none() => sessions = Some(None),
            Some(("sessions", _, Ok(count))) if sessions.is_none() => sessions = Some(Some(count)),
            Some(("logits", _, Ok(count))) if logits.is_none() => logits = Some(count),
            _ => {
                let known = "sessions=N (or unlimited) and logits=N, each once, both for a day";
                return Err(format!("{word:?} is no budget, or comes twice; there are {known}"));
            }
        }
    }
    let sessions = sessions.ok_or("sessions=N is missing, the runs of a day; or sessions=unlimited")?;
    Ok(Client { name: name.into(), fingerprint, sessions, logits: logits.unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lines_are_read_and_wrong_ones_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("clients");
        let (a, b) = ("ab".repeat(32), "cd".repeat(32));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path).map_err(|e| e.to_string())
        };
        let good =
            read(&format!("# list\n\n clinic-a {a}  sessions=200 logits=5 # why\nold {b} sessions=unlimited")).unwrap();
        let [first, second] = &good[..] else { unreachable!() };
        assert_eq!((first.name.as_str(), first.sessions, first.logits), ("clinic-a", Some(200), 5));
        assert_eq!((second.fingerprint, second.sessions, second.logits), (b.parse().unwrap(), None, 0));
        for (text, expected) in [
            ("one".to_string(), "line 1: a fingerprint belongs"),
            (format!("one {a} sessions=1\ntwo ab12"), "line 2: "),
            (format!("one {a} sessions=1\ntwo {a} sessions=1"), "line 2: this name or fingerprint"),
            (format!("one {a} sessions=1\none {b} sessions=1"), "line 2: this name or fingerprint"),
            (format!("one {a}"), "sessions=N is missing"),
            (format!("one {a} sessions=1 sessions=2"), "comes twice"),
            (format!("one {a} sessions=-1"), "\"sessions=-1\" is no budget"),
            (format!("one {a} session=1"), "is no budget"),
            (format!("o\u{1b}ne {a}"), "line 1: a name has"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        assert!(super::read(&directory.path().join("missing")).is_err());
    }
}
