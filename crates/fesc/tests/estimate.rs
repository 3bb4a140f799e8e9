//! `fesc estimate` against `fesc bench infer`: what is declared before a run is what the run counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use serde_json::Value;
use support::{fesc, json};

const NAMES: [&str; 26] = [
    "model",
    "layers",
    "length",
    "bucket",
    "plan",
    "provider",
    "net",
    "online_s",
    "offline_s",
    "setup_s",
    "keys_s",
    "online_bytes",
    "offline_bytes",
    "setup_bytes",
    "key_bytes",
    "key_switches",
    "rounds",
    "memory_bytes_client",
    "memory_bytes_server",
    "public_bytes",
    "key_memory_bytes",
    "log2_distance",
    "offline_rounds",
    "sample_tokens",
    "threads",
    "stages",
];

const MEASURED: [&str; 31] = [
    "shape",
    "layers",
    "length",
    "provider",
    "net",
    "online_s",
    "offline_s",
    "setup_s",
    "online_bytes",
    "offline_bytes",
    "setup_bytes",
    "keys_s",
    "key_bytes",
    "key_switches",
    "rounds",
    "peak_rss_bytes_client",
    "peak_rss_bytes_server",
    "rel_error",
    "max_error",
    "logit_bound",
    "logit_error",
    "logit_bits",
    "plan",
    "offline_rounds",
    "declared_online_bytes",
    "threads",
    "cpu_s_client",
    "cpu_s_server",
    "within",
    "checks",
    "stages",
];

fn estimate(args: &[&str]) -> Value {
    let mut all = vec!["estimate", "--json"];
    all.extend(args);
    let mut rows = json(&all, &NAMES);
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// Each `length` in its bucket, against a run of the bucket's length. A run fails by itself where counted
/// bytes or rounds are not the declared ones, so the lengths of `exact` are only run.
fn compare(provider: &str, lengths: &[&str], exact: &[&str]) {
    let run = |length: &str, layers: &str| {
        let args = ["bench", "infer", "--shape", "tiny", "--layers", layers, "--length", length, "--json"];
        json(&[&args[..], &["--provider", provider]].concat(), &MEASURED).remove(0)
    };
    for length in lengths {
        let guess =
            estimate(&["--shape", "tiny", "--layers", "2", "--length", length, "--provider", provider, "--no-time"]);
        let bucket = guess["bucket"].to_string();
        let ran = run(&bucket, "2");
        for name in ["rounds", "online_bytes", "offline_bytes", "setup_bytes"] {
            assert_eq!(guess[name], ran[name], "{name} of {length} tokens, {provider}");
        }
        let stages = |row: &Value| -> Vec<(String, u64, u64)> {
            let of = |s: &Value| {
                (s["stage"].to_string(), s["online_bytes"].as_u64().unwrap(), s["rounds"].as_u64().unwrap())
            };
            row["stages"].as_array().unwrap().iter().map(of).collect()
        };
        assert_eq!(stages(&guess), stages(&ran), "{length} tokens, {provider}");
        assert!(guess["online_s"].is_null() && guess["offline_s"].is_null() && guess["sample_tokens"].is_null());
    }
    for length in exact {
        assert!(run(length, "1")["rounds"].as_u64().unwrap() > 0);
    }
}

#[test]
fn bytes_and_rounds_with_a_dealer() {
    compare("dealer", &["1", "129", "600"], &["1", "127", "129", "2049"]);
}

#[test]
fn bytes_and_rounds_between_two_parties() {
    compare("two-party", &["127", "200"], &["1", "129"]);
}

/// A tiny sample, so that there are times; more layers take more of it, and a network adds its part.
#[test]
fn times_are_of_the_run_and_of_the_network() {
    let args = ["--shape", "tiny", "--length", "128", "--provider", "dealer"];
    let few = estimate(&[&args[..], &["--layers", "1"]].concat());
    assert_eq!(few["sample_tokens"], 128);
    let seconds = |row: &Value, name: &str| row[name].as_f64().unwrap();
    for name in ["online_s", "offline_s", "setup_s"] {
        assert!(seconds(&few, name) > 0.0, "{name}");
    }
    // 40 ms of latency for each round are more than this machine computes in it, however busy it is.
    let far = estimate(&[&args[..], &["--layers", "1", "--net", "wan3"]].concat());
    assert!(seconds(&far, "online_s") > 0.04 * few["rounds"].as_f64().unwrap());
}

/// Plans side by side: one is the cheapest, what cannot run says why, and a plan alone costs the same.
#[test]
fn plans_side_by_side() {
    let args = ["--shape", "tiny", "--layers", "1", "--length", "128", "--provider", "dealer", "--no-time"];
    let text = fesc(&[&["estimate", "--json", "--plan", "all", "--net", "wan3"], &args[..]].concat()).ok();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let bytes = |row: &Value| row["online_bytes"].as_u64().unwrap() + row["offline_bytes"].as_u64().unwrap();
    let runs: Vec<&Value> = rows.iter().filter(|row| row["runs"] == true).collect();
    let cheapest: Vec<&&Value> = runs.iter().filter(|row| row["cheapest"] == true).collect();
    assert_eq!(cheapest.len(), 1, "{rows:?}");
    let fitting = runs.iter().filter(|row| row["fits_memory"] == true);
    assert_eq!(fitting.map(|row| bytes(row)).min(), Some(bytes(cheapest[0])));
    for row in rows.iter().filter(|row| row["runs"] == false) {
        assert!(row["reason"].as_str().unwrap().contains("take ") && row["online_bytes"].is_null(), "{row}");
    }
    for plan in ["fast", "fast,activations=polynomial"] {
        let named: Vec<_> =
            rows.iter().filter(|row| row["plan"] == plan && row["net"].as_str().unwrap().contains("80ms")).collect();
        let alone = estimate(&[&args[..], &["--plan", plan]].concat());
        assert_eq!(named.len(), 1, "{rows:?}");
        for name in ["online_bytes", "offline_bytes", "rounds", "memory_bytes_server"] {
            assert_eq!(named[0][name], alone[name], "{name} of {plan}");
        }
    }
    fesc(&["estimate", "--shape", "tiny", "--plan", "every"]).fails(2);
}

#[test]
fn what_can_not_be_estimated_is_a_usage_error() {
    let message = fesc(&["estimate", "--shape", "huge"]).fails(2);
    assert!(message.contains("huge") && message.contains("tiny"), "{message}");
    fesc(&["estimate", "--shape", "tiny", "--length", "0"]).fails(2);
    fesc(&["estimate", "--shape", "tiny", "--length", "1048577"]).fails(2);
    fesc(&["estimate", "--shape", "tiny", "--layers", "0"]).fails(2);
    fesc(&["estimate", "--layers", "3"]).fails(2);
    fesc(&["estimate", "--shape", "tiny", "--provider", "nobody"]).fails(2);
    fesc(&["estimate", "--shape", "tiny", "--net", "wan9"]).fails(2);
    fesc(&["estimate", "--shape", "tiny", "--model", "built-in"]).fails(2);
}
