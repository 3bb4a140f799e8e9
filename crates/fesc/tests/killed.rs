//! Either side is killed, in every phase by its name: the other says so soon, correlations are used once,
//! nothing secret stays.
//!
//! A process is killed when its own log (`-vv`) says that it enters the phase, on a network on which phases
//! take a while.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use std::time::{Duration, Instant};

use support::disk::{Disk, unused};
use support::place::Place;
use support::server::Listening;
use support::{STAGES, Watched, signal, tiny};

/// A network with a round trip of 10 ms.
const NET: [&str; 4] = ["--net", "1gbps,10ms", "--timeout", "20"];

/// The same with 100 ms, for the last stage: nothing comes after it, and a kill must still find it.
const FAR: [&str; 4] = ["--net", "1gbps,100ms", "--timeout", "20"];

fn net(stage: &str) -> [&'static str; 4] {
    if stage == "reveal" { FAR } else { NET }
}

/// Far below the time limit for a silent peer: an end is seen, not waited for.
const SOON: Duration = Duration::from_secs(10);

/// Phases before the first stage, and the making of stores: what the log says, the command, its options.
/// `cold` is a cache that nobody has used before: a download that was killed late may have been whole.
fn early(cold: &str) -> [(&'static str, &'static str, Vec<&str>); 5] {
    [
        ("public part", "classify", vec!["--cache", cold]),
        ("setting up correlations", "classify", vec!["--when", "inline"]),
        // Correlations are being made, on the same connection and on a second one.
        ("segment 0: silu", "classify", vec!["--when", "inline"]),
        ("segment 0: norm", "classify", vec![]),
        (
            "correlations of session 2 of 3",
            "prepare",
            vec!["--prepared", "../half", "--length", "64", "--sessions", "3"],
        ),
    ]
}

fn serve(place: &Place) -> Listening {
    place.serve(&[&["--store", &place.text("store"), "-v"], &NET[..]].concat())
}

fn start(place: &Place, server: &Listening, command: &str, more: &[&str]) -> Watched {
    place.watch(server, command, &tiny::text(3), &[more, &NET[..]].concat())
}

/// A run on prepared correlations, for a kill in this stage.
fn prepared(place: &Place, server: &Listening, stage: &str) -> Watched {
    let more = ["--prepared", &place.text("prepared")];
    place.watch(server, "classify", &tiny::text(3), &[&more[..], &net(stage)].concat())
}

/// The server says that its peer is gone, soon.
fn server_tells(server: &Listening, phase: &str) {
    let start = Instant::now();
    let line = server.wait_for("WARN");
    assert!(line.contains("code=Some(3)") && (line.contains("peer") || line.contains("cut off")), "{phase}: {line}");
    assert!(start.elapsed() < SOON, "{phase}: {:?}", start.elapsed());
}

/// The client says that its peer is gone, soon, with its code.
fn client_tells(client: &mut Watched, phase: &str) {
    let (code, said) = client.end(SOON);
    assert!(code == Some(3) && (said.contains("peer") || said.contains("cut off")), "{phase}: {code:?} {said}");
}

#[test]
fn a_client_killed_in_any_stage_ends_its_session_and_burns_its_store() {
    let place = Place::new(1);
    let server = serve(&place);
    let sessions = (STAGES.len() + 1).to_string();
    place.prepare(&server, &["--sessions", &sessions]).ok();
    let disk = Disk::before(&place);
    for (killed, stage) in STAGES.iter().enumerate() {
        let mut client = prepared(&place, &server, stage);
        client.wait_for(&format!("segment 0: {stage}"));
        client.kill();
        server_tells(&server, stage);
        let left = STAGES.len() - killed;
        assert_eq!((unused(&place.path("store")), unused(&place.path("prepared"))), (left, left), "{stage}");
        disk.check(&place, &["prepared"]);
    }
    // The server has served on; the next client deletes what the dead one left, and has its own store.
    let text = tiny::text(3);
    let row = place.classify(&server, &text, &["--prepared", &place.text("prepared")]).remove(0);
    assert_eq!(row["label"].as_u64(), Some(place.twin(&text)));
    disk.all_used(&place, &text);
}

#[test]
fn a_server_killed_in_any_stage_ends_its_client_and_burns_its_store() {
    let place = Place::new(1);
    let mut server = serve(&place);
    let sessions = (STAGES.len() + 1).to_string();
    place.prepare(&server, &["--sessions", &sessions]).ok();
    let disk = Disk::before(&place);
    for (killed, stage) in STAGES.iter().enumerate() {
        let mut client = prepared(&place, &server, stage);
        server.wait_for(&format!("segment 0: {stage}"));
        server.kill();
        client_tells(&mut client, stage);
        let left = STAGES.len() - killed;
        assert_eq!((unused(&place.path("store")), unused(&place.path("prepared"))), (left, left), "{stage}");
        disk.check(&place, &["store"]);
        // Its successor has the same name and model, and deletes what was left.
        server = serve(&place);
        disk.check(&place, &[]);
    }
    let text = tiny::text(3);
    let row = place.classify(&server, &text, &["--prepared", &place.text("prepared")]).remove(0);
    assert_eq!(row["label"].as_u64(), Some(place.twin(&text)));
    disk.all_used(&place, &text);
}

#[test]
fn a_side_killed_before_the_first_stage_or_while_preparing_ends_the_other() {
    let place = Place::new(1);
    let text = tiny::text(3);
    let mut server = serve(&place);
    place.classify(&server, &text, &[]);
    // In the handshake: a server that sleeps has the connection, and has answered nothing.
    let mut client = {
        signal("STOP", server.child.id());
        let mut client = start(&place, &server, "classify", &[]);
        client.wait_for("agreeing on the terms");
        client
    };
    server.kill();
    // It says so before it connects: it may find nobody.
    let (code, said) = client.end(SOON);
    let words = ["peer", "cut off", "cannot connect", "refused"];
    assert!(code == Some(3) && words.iter().any(|w| said.contains(w)), "handshake: {code:?} {said}");
    server = serve(&place);
    let mut client = start(&place, &server, "classify", &[]);
    client.wait_for("agreeing on the terms");
    client.kill();

    // Whether and when a server says something of a client that died in its handshake depends on how far that
    // had come: the next one knows nothing of it, and each warning is that of its own client.
    server.kill();
    server = serve(&place);
    for (phase, command, more) in early("../cold-client") {
        let mut client = start(&place, &server, command, &more);
        client.wait_for(phase);
        client.kill();
        server_tells(&server, phase);
    }
    for (phase, command, more) in early("../cold-server") {
        let mut client = start(&place, &server, command, &more);
        server.wait_for(phase);
        server.kill();
        client_tells(&mut client, phase);
        server = serve(&place);
    }
    // Of three sessions the first was whole on both sides, each time; of the second nothing stays when both
    // store directories are opened again.
    assert_eq!(unused(&place.path("store")), 2);
    let half = place.text("half");
    for _ in 0..2 {
        assert_eq!(
            place.classify(&server, &text, &["--prepared", &half])[0]["label"].as_u64(),
            Some(place.twin(&text))
        );
    }
    for name in ["store", "half"] {
        assert!(std::fs::read_dir(place.path(name)).unwrap().next().is_none(), "{name}");
    }
}
