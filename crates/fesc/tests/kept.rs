//! CKKS keys that both sides keep, by processes: sent once, listed, deleted, and retired when either side is
//! killed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::kept::Kept;
use support::{fesc, rows, tiny};

/// Names of `keys list`.
const LISTED: [&str; 11] =
    ["name", "sets", "bucket", "bytes", "age_s", "left_s", "usable", "in_use", "plan", "degrees", "keys"];

#[test]
fn keys_are_sent_once_listed_and_deleted() {
    let kept = Kept::new("fast,projection=ckks");
    let server = kept.serve(&[]);
    let once = kept.classify(&server, &["--keys", "once"]);
    let first = kept.classify(&server, &[]);
    let second = kept.classify(&server, &[]);
    let seen = |row: &Value| (row["key_bytes"].as_u64(), row["kept_keys_used"] == true, row["keys_kept"] == true);
    let bytes = first["key_bytes"].as_u64().unwrap();
    assert!(bytes > 1 << 20, "{bytes}");
    assert_eq!(seen(&once), (Some(bytes), false, false));
    assert_eq!(seen(&first), (Some(bytes), false, true));
    assert_eq!(seen(&second), (Some(0), true, true));
    let setup = |row: &Value| row["setup_bytes"].as_u64().unwrap();
    assert!(setup(&first) - setup(&second) > bytes - 1000, "{first} {second}");
    assert_eq!(kept.counts(), [1, 1]);

    let listed = rows(kept.keys(&server, &["list"]).ok(), &LISTED);
    assert!(listed.len() == 1 && listed[0]["bucket"] == 128 && listed[0]["sets"] == "project", "{listed:?}");
    assert!(listed[0]["usable"] == true && listed[0]["in_use"] == false);
    let name = listed[0]["name"].as_str().unwrap();
    // On the screen of a person, too.
    let text = kept.watch_said(&server);
    assert!(text.contains("keys that both sides have kept"), "{text}");
    let missing = "0".repeat(64);
    let gone = rows(kept.keys(&server, &["delete", name, &missing]).ok(), &["name", "result"]);
    let results: Vec<&str> = gone.iter().map(|row| row["result"].as_str().unwrap()).collect();
    assert_eq!((results, kept.counts()), (vec!["deleted", "not there"], [0, 0]));
    assert_eq!(kept.keys(&server, &["list"]).ok(), "");
    assert!(kept.watch_said(&server).contains("MB go to the server"), "the size is said before");
    assert_eq!(rows(kept.keys(&server, &["delete", "--all"]).ok(), &["name", "result"]).len(), 1);
    // Who is not on the list has nothing to ask for.
    let (address, pin) = (server.text("listening"), server.text("fingerprint"));
    let said = fesc(&["keys", "list", "--server", &address, "--pin", &pin, "--state", &kept.place.text("x")]).fails(5);
    assert!(said.contains("listed clients only"), "{said}");
    fesc(&["keys", "delete", "--server", &address, "--pin", &pin]).fails(2);
    server.stop();
}

#[test]
fn keys_over_the_quota_are_refused_with_numbers_and_remedies() {
    let kept = Kept::new("fast,projection=ckks");
    let server = kept.serve(&["--keys-per-client", "1000000"]);
    let said = kept.place.refused(&server, &tiny::text(3), 4, &kept.options(&[]));
    for part in ["0 keys of 0 bytes", "1000000 bytes", "fesc keys delete", "--keys once"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(kept.counts(), [0, 0]);
    kept.classify(&server, &["--keys", "once"]);
    server.stop();
}

/// What the log says where a side is killed: during the upload, and behind the first conversion to shares.
const UPLOAD: &str = "keys, ";
const COMPUTES: &str = "segment 0: silu";

#[test]
fn a_client_that_is_killed_leaves_no_keys_that_serve() {
    let kept = Kept::new("fast,projection=ckks");
    let mut server = kept.serve(&[]);
    for (phase, before) in [(UPLOAD, false), (COMPUTES, false), (COMPUTES, true)] {
        if before {
            assert_eq!(kept.classify(&server, &[])["keys_kept"], true);
        }
        let mut client = kept.watch(&server);
        client.wait_for(phase);
        client.kill();
        server.wait_for("WARN");
        // Of its second connection, or of its session, which ends a moment later.
        let until = Instant::now() + Duration::from_secs(10);
        while kept.counts()[0] > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(kept.counts(), [0, usize::from(before)], "{phase}: the server retires, the client is dead");
        // The next one finds the mark.
        let next = kept.classify(&server, &[]);
        assert_eq!((&next["kept_keys_used"], kept.counts()), (&Value::from(false), [1, 1]), "{phase}");
        kept.keys(&server, &["delete", "--all"]).ok();
        // The log of the next one begins anew.
        server.stop();
        server = kept.serve(&[]);
    }
    server.stop();
}

#[test]
fn a_server_that_is_killed_leaves_no_keys_that_serve() {
    let kept = Kept::new("fast,projection=ckks");
    let mut server = kept.serve(&[]);
    for (phase, before) in [(UPLOAD, false), (COMPUTES, false), (COMPUTES, true)] {
        if before {
            assert_eq!(kept.classify(&server, &[])["keys_kept"], true);
            server.wait_for("segment 0: reveal");
        }
        let mut client = kept.watch(&server);
        server.wait_for(phase);
        server.kill();
        let (code, said) = client.end(Duration::from_secs(20));
        assert_eq!(code, Some(3), "{phase}: {said}");
        assert_eq!(kept.counts()[1], 0, "{phase}: the client retires; {:?} {said}", kept.files());
        // Its successor finds the mark, or the half of an upload.
        server = kept.serve(&[]);
        assert_eq!(kept.counts(), [0, 0], "{phase}");
        assert_eq!(kept.classify(&server, &[])["kept_keys_used"], false);
        kept.keys(&server, &["delete", "--all"]).ok();
        server.stop();
        server = kept.serve(&[]);
    }
    server.stop();
}
