//! The program from outside: help, names, exit codes, and what happens when a party dies or stalls.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Party, fesc, job, json, signal};

const MPC_NAMES: &[&str] = &[
    "op",
    "form",
    "provider",
    "elements",
    "online_us_per_el",
    "online_bytes_per_el",
    "offline_us_per_el",
    "offline_bytes_per_el",
    "rounds",
    "max_error",
    "declared_online_bytes",
    "declared_rounds",
    "setup_s",
    "setup_bytes",
    "security_bits",
];

/// Each op, our form: the largest error allowed.
const OURS: &[(&str, f64)] = &[
    ("open", 0.0),
    ("multiply", 2.0 / 65536.0),
    ("square", 2.0 / 65536.0),
    ("matmul", 2.0 / 65536.0),
    ("truncate", 1.0 / 65536.0),
    ("extend", 0.0),
    ("compare", 0.0),
    ("thresholds", 0.0),
    ("mux", 0.0),
    ("b2a", 0.0),
    ("argmax", 0.0),
    ("silu", 0.03),
    ("softplus", 0.05),
    ("exp", 0.0051),
    ("exp-square", 0.0051),
    ("rsqrt", 5e-4),
    ("silu-folded", 0.0262),
    ("mux-transfers", 0.0),
];

/// Each op with a paper form: bounds around the paper's errors.
const PAPER: &[(&str, f64)] = &[("silu", 0.0725), ("softplus", 0.0185), ("exp", 0.021), ("rsqrt", 0.05)];

#[test]
fn inspect_reads_a_checkpoint() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../fesc-model/tests/golden/tied-bf16");
    let summary: Value = serde_json::from_str(&fesc(&["inspect", golden, "--json"]).ok()).unwrap();
    assert!(
        summary["parameters"].as_u64().unwrap() > 0 && summary["dtypes"]["BF16"].as_u64().unwrap() > 0,
        "{summary}"
    );
    assert!(fesc(&["inspect", golden]).ok().contains("language model head: tied"));
    fesc(&["inspect", env!("CARGO_MANIFEST_DIR")]).fails(1);
}

#[test]
fn inspect_lists_every_message() {
    let names = ["tag", "message", "way", "phase", "bytes", "hidden", "by", "crate", "tests"];
    let listed = json(&["inspect", "--messages", "--json"], &names);
    let query = listed.iter().find(|k| k["tag"] == "0x0602").unwrap();
    assert_eq!((&query["way"], &query["phase"]), (&"client -> server".into(), &"online".into()));
    assert_eq!(listed.len(), fesc_infer::audit::messages().count());
    assert!(fesc(&["inspect", "--messages"]).ok().contains("the answer"));
    fesc(&["inspect"]).fails(2);
    fesc(&["inspect", "somewhere", "--messages"]).fails(2);
    fesc(&["inspect", "--sets", "--messages"]).fails(2);
}

#[test]
fn parameter_sets_are_listed_with_the_sizes_of_their_keys() {
    let names = [
        "set",
        "n",
        "levels",
        "depth",
        "digits",
        "special_primes",
        "log_qp",
        "security_bits",
        "precision_bits",
        "key_bytes",
        "key_memory_bytes",
        "mask_distance_log2",
        "mask_queries",
        "mask_distance_log2_over_queries",
    ];
    let listed = json(&["inspect", "--sets", "--json"], &names);
    assert!(listed.len() > 10 && listed.iter().all(|row| row["security_bits"].as_f64().unwrap() >= 129.0));
    // Distances of queries add up.
    assert!(listed.iter().all(|row| row["mask_distance_log2"] == -41.0 && row["mask_queries"] == 1 << 20));
    assert!(listed.iter().all(|row| row["mask_distance_log2_over_queries"] == -21.0));
    let scan = listed.iter().find(|row| row["set"] == "scan-2048").unwrap();
    assert!(scan["n"] == 65536 && scan["key_bytes"].as_u64().unwrap() < scan["key_memory_bytes"].as_u64().unwrap());
}

#[test]
fn keygen_makes_an_identity_once() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("server").display().to_string();
    let made = json(&["keygen", "--out", &out, "--json"], &["key", "certificate", "fingerprint"]);
    let (key, certificate) = (made[0]["key"].as_str().unwrap(), made[0]["certificate"].as_str().unwrap());
    let identity = fesc_net::Identity::load(key.as_ref(), certificate.as_ref()).unwrap();
    assert_eq!(made[0]["fingerprint"], identity.fingerprint().to_string());
    let before = std::fs::read(key).unwrap();
    assert!(fesc(&["keygen", "--out", &out]).fails(2).contains("not touched"));
    assert_eq!(std::fs::read(key).unwrap(), before);
}

#[test]
fn keygen_adds_its_endings() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["www.example.org", "www.example.com"] {
        fesc(&["keygen", "--out", &dir.path().join(name).display().to_string()]).ok();
        assert!(dir.path().join(format!("{name}.key")).exists() && dir.path().join(format!("{name}.crt")).exists());
    }
}

#[test]
fn help_teaches() {
    let text = fesc(&["--help"]).ok();
    for part in ["two-party computation", "doctor", "bench", "Exit codes: 0 done", "FESC_SIMD", "--json", "--quiet"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("party  "), "the inner command is hidden");
    for (command, parts) in [
        ("classify", &["--plain", "nothing is hidden", "probabilities", "fesc classify --plain document.txt"][..]),
        ("eval", &["accuracy, macro_f1", "confusion", "--twin", "--limit", "32 MiB", "fesc eval --data"]),
        ("train", &["--recipe", "--resume", "validation_loss", "--tokenizer", "fesc train --recipe"]),
        ("calibrate", &["calibration.json", "twofold", "fesc calibrate --model"]),
    ] {
        let text = fesc(&[command, "--help"]).ok();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            assert!(words.contains(part), "{part:?} is not in the help of {command}:\n{text}");
        }
    }
    for (command, parts) in [
        ("gemm", &["gmac_per_s", "fesc bench gemm --m 512", "--path", "avx512"][..]),
        ("ot", &["cot_per_cpu_second_sender", "fesc bench ot --n", "--protocol", "silent"]),
        ("net", &["rtt_us", "fesc bench net --transport", "wan3"]),
        ("scan", &["predicted_s", "fesc bench scan --shape base", "--packing", "hybrid", "--count"]),
        ("residency", &["paper_key_switches", "fesc bench residency --length", "--block"]),
        ("boundary", &["ciphertexts_up", "fesc bench boundary --shape base", "--sample"]),
        ("project", &["plain_products", "fesc bench project --shape base", "--threads"]),
        ("mpc", &["online_bytes_per_el", "fesc bench mpc --op silu", "--provider", "exp-square", "two-party"]),
    ] {
        let text = fesc(&["bench", command, "--help"]).ok();
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in the help of {command}:\n{text}");
        }
    }
}

#[test]
fn the_version_names_the_simd_path_and_the_protocol() {
    let text = fesc(&["--version"]).ok();
    assert!(text.starts_with(&format!("fesc {} (SIMD path ", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.contains("portable") && text.contains("wire protocol 1"), "{text}");
}

#[test]
fn wrong_command_lines_end_with_2_and_limits_with_4() {
    for args in [
        &[][..],
        &["bank"],
        &["bench", "mpc"],
        &["bench", "mpc", "--op", "sigmoid"],
        &["bench", "mpc", "--op", "open", "--form", "paper"],
        &["bench", "mpc", "--op", "compare", "--bits", "65"],
        &["bench", "mpc", "--op", "compare", "--bits", "3", "--elements", "9"],
        &["bench", "mpc", "--op", "silu", "--bits", "20"],
        &["bench", "net", "--net", "wan9"],
        &["bench", "gemm", "--bits", "0"],
        &["bench", "gemm", "--path", "neon"],
        &["bench", "ot", "--timeout", "-1"],
        &["doctor", "-v", "-q"],
    ] {
        fesc(args).fails(2);
    }
    fesc(&["bench", "mpc", "--op", "open", "--elements", "0"]).fails(4);
    fesc(&["bench", "mpc", "--op", "open", "--elements", "67108865"]).fails(4);
    fesc(&["bench", "ot", "--n", "0"]).fails(4);
    fesc(&["bench", "gemm", "--m", "65536", "--k", "65536", "--n", "1"]).fails(4);
}

#[test]
fn the_inner_command_wants_a_job() {
    fesc(&["party"]).fails(1);
}

#[test]
fn doctor_reports_every_check() {
    let rows = json(&["doctor", "--json"], &["check", "status", "detail", "remedy"]);
    let names: Vec<&str> = rows.iter().map(|r| r["check"].as_str().unwrap()).collect();
    assert_eq!(names, ["simd", "aes", "ifma", "cores", "memory", "randomness", "tls", "clock", "open-files"]);
    for row in &rows {
        let status = row["status"].as_str().unwrap();
        assert!(["ok", "warn"].contains(&status), "{row}");
        assert_eq!(status == "ok", row["remedy"] == "", "a remedy where one is needed: {row}");
    }
    let table = fesc(&["doctor"]).ok();
    assert!(table.starts_with("check ") && table.contains("randomness  ok"), "{table}");
}

#[test]
fn gemm_has_its_names_on_every_path() {
    let names = ["m", "k", "n", "bits", "path", "threads", "gmac_per_s"];
    let shape = ["bench", "gemm", "--m", "5", "--k", "7", "--n", "9", "--json"];
    let rows = json(&shape, &names);
    assert!(!rows.is_empty());
    assert_eq!(rows[0]["path"], "portable");
    assert!(rows.iter().all(|r| r["gmac_per_s"].as_f64().unwrap() > 0.0 && r["n"] == 9));
    let parallel = json(&[&shape[..], &["--threads", "2"]].concat(), &names);
    assert_eq!((parallel.len(), &parallel[0]["threads"]), (1, &Value::from(2)));
}

#[test]
fn ot_has_its_names_for_every_protocol() {
    let names = [
        "protocol",
        "n",
        "cot_per_cpu_second_sender",
        "cot_per_cpu_second_receiver",
        "bytes_per_cot",
        "wall_s",
        "peak_rss_bytes",
        "setup_s",
        "setup_bytes",
        "security_bits",
    ];
    let rows = json(&["bench", "ot", "--n", "100000", "--json"], &names);
    let protocols: Vec<&str> = rows.iter().map(|r| r["protocol"].as_str().unwrap()).collect();
    assert_eq!(protocols, ["silent", "iknp", "base"]);
    assert!(rows[0]["bytes_per_cot"].as_f64().unwrap() < 2.0, "{}", rows[0]);
    assert!(rows[0]["security_bits"].as_f64().unwrap() >= 128.0, "{}", rows[0]);
    assert!((15.0..18.0).contains(&rows[1]["bytes_per_cot"].as_f64().unwrap()), "{}", rows[1]);
    assert_eq!(rows[2]["n"], 1024);
}

#[test]
fn net_has_its_names_on_every_transport() {
    let names = ["transport", "net", "rtt_us", "one_way_mb_per_s", "both_ways_mb_per_s", "rounds", "bytes"];
    for transport in ["memory", "tcp", "tls"] {
        let args = ["bench", "net", "--transport", transport, "--megabytes", "8", "--pings", "20", "--json", "--quiet"];
        let rows = json(&args, &names);
        assert_eq!((rows.len(), rows[0]["transport"].as_str().unwrap()), (1, transport));
        assert!(rows[0]["rtt_us"].as_f64().unwrap() > 0.0);
    }
    let shaped = ["bench", "net", "--transport", "memory", "--net", "80mbps,20ms", "--megabytes", "1", "--json"];
    let row = &json(&shaped, &names)[0];
    assert!(row["rtt_us"].as_f64().unwrap() >= 20_000.0, "{row}");
    assert!(row["one_way_mb_per_s"].as_f64().unwrap() <= 10.0, "{row}");
}

#[test]
fn every_op_is_right_with_both_providers() {
    for provider in ["two-party", "dealer"] {
        check_all("ours", provider, OURS);
        check_all("paper", provider, PAPER);
    }
}

fn check_all(form: &str, provider: &str, expected: &[(&str, f64)]) {
    let args = ["bench", "mpc", "--op", "all", "--form", form, "--provider", provider, "--elements", "200", "--json"];
    let rows = json(&args, MPC_NAMES);
    assert_eq!(rows.len(), expected.len(), "every op, once");
    for (row, (op, bound)) in rows.iter().zip(expected) {
        assert_eq!((row["op"].as_str(), row["form"].as_str()), (Some(*op), Some(form)));
        assert_eq!(row["provider"], provider);
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"));
        assert!(number("max_error") <= *bound, "{row}");
        assert_eq!(number("rounds"), number("declared_rounds"), "{row}");
        let bytes = number("online_bytes_per_el") * number("elements");
        assert!((bytes - number("declared_online_bytes")).abs() < 0.5, "{row}");
        assert!(number("elements") >= 200.0 && number("online_us_per_el") > 0.0, "{row}");
        assert_eq!(row["security_bits"].is_null(), provider == "dealer", "{row}");
    }
}

#[test]
fn options_of_a_comparison_and_tls_work() {
    let args = ["bench", "mpc", "--op", "compare", "--bits", "20", "--thresholds", "3", "--elements", "100", "--json"];
    let plain = &json(&args, MPC_NAMES)[0];
    let tls = &json(&[&args[..], &["--tls", "--provider", "dealer", "--threads", "2"]].concat(), MPC_NAMES)[0];
    assert_eq!(plain["max_error"], 0.0);
    assert_eq!(plain["declared_online_bytes"], tls["declared_online_bytes"]);
}

/// Starts both parties of a long run and waits until both are in the middle of it.
fn two_in_the_middle(timeout_s: u64) -> (Party, Party) {
    let mut p1 = Party::start(&job("P1", None, timeout_s, 1 << 18));
    let address = p1.listening();
    let mut p0 = Party::start(&job("P0", Some(address), timeout_s, 1 << 18));
    p0.wait_for_phase("offline");
    p1.wait_for_phase("offline");
    (p0, p1)
}

#[test]
fn a_killed_party_ends_the_other_with_3() {
    for kill_p0 in [true, false] {
        let (p0, p1) = two_in_the_middle(60);
        let (mut victim, mut survivor) = if kill_p0 { (p0, p1) } else { (p1, p0) };
        victim.child.kill().unwrap();
        let start = Instant::now();
        let (code, message) = survivor.end(Duration::from_secs(20));
        assert_eq!(code, Some(3), "{message}");
        assert!(start.elapsed() < Duration::from_secs(20) && message.contains("peer"), "{message}");
        victim.child.wait().unwrap();
    }
}

#[test]
fn a_stalled_party_ends_the_other_with_3_within_the_timeout() {
    let (mut p0, mut p1) = two_in_the_middle(3);
    signal("STOP", p0.child.id());
    let (code, message) = p1.end(Duration::from_secs(30));
    p0.child.kill().unwrap();
    p0.child.wait().unwrap();
    assert_eq!(code, Some(3), "{message}");
    assert!(message.contains("3s") && message.contains("stalled"), "{message}");
}

#[test]
fn a_wrong_pin_ends_with_5() {
    let tls = |seat: &str, peer: Option<Value>| {
        let mut job = job(seat, peer, 20, 64);
        job["tls"] = true.into();
        job
    };
    let mut p1 = Party::start(&tls("P1", None));
    let mut address = p1.listening();
    address["pin"] = "00".repeat(32).into();
    let mut p0 = Party::start(&tls("P0", Some(address)));
    let (code, message) = p0.end(Duration::from_secs(20));
    assert_eq!(code, Some(5), "{message}");
    let (code, message) = p1.end(Duration::from_secs(20));
    assert!(matches!(code, Some(3 | 5)), "{message}");
}

#[test]
fn the_command_ends_with_3_when_one_of_its_parties_dies() {
    let args = ["-v", "bench", "mpc", "--op", "silu", "--elements", "262144", "--net", "wan3"];
    let mut parent = support::Watched::start(&args);
    let pids = parent.wait_for_pids(2);
    std::thread::sleep(Duration::from_millis(500));
    signal("KILL", pids[0]);
    let (code, text) = parent.end(Duration::from_secs(20));
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("fesc: P"), "the party is named: {text}");
}

#[cfg(target_os = "linux")]
#[test]
fn no_party_outlives_the_command() {
    let args = ["-v", "bench", "mpc", "--op", "silu", "--elements", "262144", "--net", "wan3"];
    let mut parent = support::Watched::start(&args);
    let pids = parent.wait_for_pids(2);
    parent.kill();
    // A zombie that nobody waits for (as in a container without an init) has ended too.
    let runs = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains("State:") && !status.contains("State:\tZ")
    };
    let until = Instant::now() + Duration::from_secs(10);
    while pids.iter().any(runs) {
        assert!(Instant::now() < until, "a party still runs after its parent was killed");
        std::thread::sleep(Duration::from_millis(20));
    }
}
