//! The paper's plan by processes: either side is killed in every stage, what does not fit is refused, and a
//! file of documents goes through whole sessions.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use std::time::{Duration, Instant};

use support::disk::states;
use support::kept::Kept;
use support::{STAGES, fesc, tiny};

/// What the log says where a side is killed, by plan: in the handshake, in the upload of keys, in every
/// stage; and in the scan under encryption and behind it, whose keys take longest.
fn phases() -> [(&'static str, Vec<String>); 2] {
    let early = ["agreeing on the terms", "keys, "].map(String::from);
    let stage = |stage: &&str| format!("segment 0: {stage}");
    let all = early.into_iter().chain(STAGES.iter().map(stage)).collect();
    [("paper,scan=dual", all), ("paper", ["scan", "gate"].iter().map(stage).collect())]
}

/// Files of kept keys at both sides, as soon as the server has none.
fn counts(kept: &Kept) -> [usize; 2] {
    let until = Instant::now() + Duration::from_secs(10);
    while kept.counts()[0] > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    kept.counts()
}

#[test]
fn a_client_killed_in_any_stage_of_the_papers_plan_leaves_nothing() {
    for (plan, phases) in phases() {
        a_client_is_killed(&Kept::new(plan), phases);
    }
}

fn a_client_is_killed(kept: &Kept, phases: Vec<String>) {
    let server = kept.serve(&[]);
    for phase in phases {
        let mut client = kept.watch(&server);
        client.wait_for(&phase);
        client.kill();
        if !phase.starts_with("agreeing") {
            // It says that before it connects: the server may not have seen it.
            let line = server.wait_for("WARN");
            assert!(line.contains("code=Some(3)"), "{phase}: {line}");
            assert!(line.contains("peer") || line.contains("cut off"), "{phase}: {line}");
        }
        assert_eq!(counts(kept), [0, 0], "{phase}");
        states(&kept.place);
    }
    // The server has served on.
    assert_eq!(kept.classify(&server, &[])["keys_kept"], true);
    server.stop();
}

#[test]
fn a_server_killed_in_any_stage_of_the_papers_plan_ends_its_client_and_leaves_nothing() {
    for (plan, phases) in phases() {
        a_server_is_killed(&Kept::new(plan), phases);
    }
}

fn a_server_is_killed(kept: &Kept, phases: Vec<String>) {
    let mut server = kept.serve(&[]);
    // It says nothing of the handshake.
    for phase in phases.into_iter().filter(|phase| !phase.starts_with("agreeing")) {
        let mut client = kept.watch(&server);
        server.wait_for(&phase);
        server.kill();
        let (code, said) = client.end(Duration::from_secs(20));
        assert!(code == Some(3) && (said.contains("peer") || said.contains("cut off")), "{phase}: {code:?} {said}");
        assert_eq!(kept.counts()[1], 0, "{phase}");
        // Its successor deletes what was left.
        server = kept.serve(&[]);
        assert_eq!(kept.counts(), [0, 0], "{phase}");
        states(&kept.place);
    }
    assert_eq!(kept.classify(&server, &[])["keys_kept"], true);
    server.stop();
}

#[test]
fn a_server_without_memory_for_keys_and_ciphertexts_does_not_start() {
    let kept = Kept::new("paper");
    let (model, state) = (kept.place.text("model"), kept.place.text("other"));
    let serve = ["serve", "--model", &model, "--state", &state, "--plan", "paper"];
    let said = fesc(&[&serve[..], &["--encrypted-memory", "1"]].concat()).fails(4);
    for part in ["128 tokens", "plan paper", "may take 1048576", "--encrypted-memory", "--plan"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = fesc(&[&serve[..], &["--encrypted-memory", "16777216"]].concat()).fails(4);
    assert!(said.contains("--encrypted-memory") && said.contains("free"), "{said}");
}

/// Names of `eval --private`.
const EVALUATED: [&str; 17] = [
    "accuracy",
    "macro_f1",
    "documents",
    "length",
    "model",
    "mode",
    "preset",
    "seconds",
    "twin_agreement",
    "seconds_per_document",
    "online_s_per_document",
    "confusion",
    "truth",
    "predicted",
    "online_bytes",
    "key_bytes",
    "provider",
];

/// Two documents by two plans, one of them with keys that go up once.
#[test]
fn labelled_documents_go_through_private_runs() {
    let kept = Kept::new("paper");
    let line = |i: usize| serde_json::json!({ "label": i, "text": tiny::text(i) }).to_string();
    std::fs::write(kept.place.path("data.jsonl"), (0..3).map(|i| line(i) + "\n").collect::<String>()).unwrap();
    let (data, model) = (kept.place.text("data.jsonl"), kept.place.text("model"));
    let plans = ["fast", "fast,projection=ckks"];
    let args = ["eval", "--data", &data, "--model", &model, "--length", "64", "--limit", "2", "--provider", "dealer"];
    let rows =
        support::json(&[&args[..], &["--private", plans[0], "--private", plans[1], "--json"]].concat(), &EVALUATED);
    assert_eq!(rows.len(), 2);
    for (row, plan) in rows.iter().zip(plans) {
        let predicted = [0, 1].map(|i| kept.place.twin_by(plan, &tiny::text(i)));
        assert_eq!((&row["predicted"], &row["truth"]), (&serde_json::json!(predicted), &serde_json::json!([0, 1])));
        let right = predicted.iter().zip([0, 1]).filter(|(a, b)| **a == *b).count();
        assert_eq!(row["accuracy"].as_f64(), Some(right as f64 / 2.0));
        assert!(row["twin_agreement"] == 1.0 && row["preset"] == plan && row["mode"] == "private", "{row}");
        assert!(row["online_s_per_document"].as_f64() < row["seconds_per_document"].as_f64(), "{row}");
    }
    let keys = rows[1]["key_bytes"].as_u64().unwrap();
    assert!(rows[0]["key_bytes"] == 0 && keys > 1_000_000, "{keys}");
}
