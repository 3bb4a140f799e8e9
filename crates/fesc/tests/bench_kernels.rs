//! `fesc bench scan`, `residency`, `boundary` and `project` from outside, on the smallest shape.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use serde_json::Value;
use support::{fesc, json};

const SCAN_NAMES: &[&str] = &[
    "kernel",
    "packing",
    "topology",
    "length",
    "block",
    "layers",
    "key_switches",
    "rotations",
    "products",
    "depth",
    "seconds",
    "predicted_s",
    "peak_bytes",
    "precision_bits",
    "paper",
    "cpu_s",
    "shape",
    "set",
    "blocks",
    "coordinates",
    "leaf",
    "relinearisations",
    "family",
    "composition_relinearisations",
    "paper_composition_relinearisations",
    "conjugations",
    "plain_products",
    "uploads",
    "key_bytes",
    "key_memory_bytes",
    "inputs",
    "input_seconds",
    "live_bytes",
    "threads",
];

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} is no number in {row}"))
}

/// One row of `fesc bench ... --json`.
fn scan(args: &[&str]) -> Value {
    let rows = json(&[&["bench", "scan", "--json"], args].concat(), SCAN_NAMES);
    assert_eq!(rows.len(), 1);
    rows.into_iter().next().unwrap()
}

#[test]
fn a_scan_runs_under_encryption_and_is_right() {
    let row = scan(&["--shape", "tiny", "--packing", "dual", "--length", "8", "--threads", "2"]);
    assert_eq!((&row["packing"], &row["topology"], &row["set"]), (&"dual".into(), &Value::Null, &"project".into()));
    assert_eq!((&row["depth"], &row["inputs"], &row["threads"]), (&3.into(), &"held".into(), &2.into()));
    for name in ["seconds", "predicted_s", "peak_bytes", "key_switches", "products", "live_bytes", "key_bytes"] {
        assert!(number(&row, name) > 0.0, "{name} in {row}");
    }
    assert!(number(&row, "precision_bits") > 15.0 && row["paper"].is_null(), "{row}");
    let parts = ["relinearisations", "rotations", "conjugations"].map(|n| number(&row, n));
    assert_eq!(parts.iter().sum::<f64>(), number(&row, "key_switches"));
}

#[test]
fn inputs_that_do_not_fit_half_of_the_memory_are_streamed() {
    let asked = ["--shape", "tiny", "--packing", "hybrid", "--length", "4", "--memory", "200"];
    let row = scan(&[&asked[..], &["--blocks", "1", "--coordinates", "1"]].concat());
    assert_eq!((&row["inputs"], &row["set"], &row["leaf"]), (&"streamed".into(), &"scan-d10".into(), &4.into()));
    assert!(number(&row, "precision_bits") > 15.0 && number(&row, "input_seconds") > 0.0, "{row}");
    assert!(number(&row, "live_bytes") <= 200e6, "{row}");
}

#[test]
fn counting_takes_the_cheapest_cut_or_the_one_that_is_told() {
    let count = |args: &[&str]| scan(&[&["--shape", "base", "--count"], args].concat());
    let lanes = count(&["--packing", "lanes"]);
    let hybrid = count(&["--packing", "hybrid"]);
    assert!(number(&hybrid, "leaf") >= 4.0 && lanes["leaf"] == 2, "{lanes} {hybrid}");
    assert!(number(&hybrid, "key_switches") < number(&lanes, "key_switches"));
    assert_eq!((&lanes["depth"], &lanes["paper"], &lanes["seconds"]), (&10.into(), &15.6.into(), &Value::Null));
    let told = ["--packing", "hybrid", "--blocks", "16", "--coordinates", "8", "--leaf", "8"];
    let told = count(&told);
    assert_eq!((&told["blocks"], &told["coordinates"], &told["leaf"]), (&16.into(), &8.into(), &8.into()));
    assert_eq!(told["block"], 8);
    let (one, two) = (count(&["--packing", "dual"]), count(&["--packing", "dual", "--layers", "2"]));
    for name in ["key_switches", "rotations", "products", "paper"] {
        assert_eq!(number(&two, name), 2.0 * number(&one, name), "{name}");
    }
    let chunks = ["--shape", "tiny", "--packing", "chunks", "--topology", "sklansky", "--block", "8", "--count"];
    let chunks = scan(&[&chunks[..], &["--length", "32", "--work", "counted"]].concat());
    assert_eq!((&chunks["topology"], &chunks["block"]), (&"sklansky".into(), &8.into()));
}

#[test]
fn scans_that_cannot_be_are_refused() {
    for args in [
        &["--shape", "huge"][..],
        &["--length", "0"],
        &["--blocks", "3"],
        &["--topology", "ripple"],
        &["--packing", "dual", "--leaf", "2"],
        &["--packing", "lanes", "--topology", "sklansky"],
        &["--packing", "lanes", "--block", "4"],
        &["--packing", "lanes", "--blocks", "32768", "--coordinates", "16"],
        &["--packing", "hybrid", "--length", "2"],
    ] {
        fesc(&[&["bench", "scan", "--count"], args].concat()).fails(2);
    }
    let text = fesc(&["bench", "scan", "--count", "--memory", "1"]).fails(4);
    assert!(text.contains("bytes of ciphertexts at once") && text.contains("--memory"), "{text}");
}

#[test]
fn residency_has_its_names_and_counts_what_the_formula_says() {
    let names = ["length", "block", "blocks", "compositions", "formula", "counted", "key_switches", "depth"];
    let paper = ["depth_serial", "live_bytes", "set", "paper_key_switches", "paper_peak_bytes", "paper_s"];
    let names = [&names[..], &paper, &["shape", "chunks", "broadcast", "build_again"]].concat();
    let rows = json(&["bench", "residency", "--shape", "tiny", "--length", "64", "--block", "16,64", "--json"], &names);
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(row["formula"], row["counted"], "{row}");
        let uncounted = number(row, "broadcast") + number(row, "build_again");
        assert_eq!(number(row, "counted") + uncounted, number(row, "key_switches"), "{row}");
        assert!(number(row, "live_bytes") > 0.0 && row["paper_s"].is_null(), "{row}");
    }
    assert!(number(&rows[0], "build_again") > 0.0 && rows[1]["build_again"] == 0);
    fesc(&["bench", "residency", "--length", "64", "--block", "65"]).fails(2);
}

#[test]
fn projections_run_under_encryption_and_are_right() {
    let names = ["kernel", "length", "key_switches", "plain_products", "depth", "seconds", "peak_bytes"];
    let details = ["cpu_s", "shape", "set", "rows", "columns", "inputs", "results", "hoisted_rotations"];
    let keys = ["key_bytes", "key_memory_bytes", "live_bytes", "threads"];
    let names = [&names[..], &["precision_bits", "paper"], &details, &keys].concat();
    let rows = json(&["bench", "project", "--shape", "tiny", "--length", "16", "--threads", "2", "--json"], &names);
    let kernels: Vec<&str> = rows.iter().map(|r| r["kernel"].as_str().unwrap()).collect();
    assert_eq!(kernels, ["in_proj_conv", "out_proj"]);
    for row in &rows {
        assert!(number(row, "precision_bits") > 15.0 && number(row, "seconds") > 0.0, "{row}");
        assert!(number(row, "key_switches") > 0.0 && number(row, "plain_products") > 0.0, "{row}");
    }
    assert_eq!((&rows[0]["depth"], &rows[1]["depth"]), (&2.into(), &1.into()));
}

#[test]
fn the_boundary_has_its_names_for_every_variant_and_layout() {
    let names = ["variant", "layout", "length", "ciphertexts_up", "ciphertexts_down", "up_bytes", "down_bytes"];
    let details = ["shape", "set", "values_up", "ahead_bytes", "rounds", "sample", "up_ms", "up_cpu_ms"];
    let names = [
        &names[..],
        &["seconds", "unpacking", "predicted_s", "cheapest"],
        &["paper_ciphertexts", "paper_bytes"],
        &details,
    ]
    .concat();
    let names = [&names[..], &["down_ms", "down_cpu_ms", "net", "threads"]].concat();
    let rows = json(&["bench", "boundary", "--length", "128", "--sample", "1", "--json"], &names);
    let of = |row: &Value| format!("{} {}", row["variant"].as_str().unwrap(), row["layout"].as_str().unwrap());
    let kinds: Vec<String> = rows.iter().map(of).collect();
    let bridges = ["dense compact", "contraction compact"];
    let own = ["replicated", "packed", "paired", "compact"].map(|layout| format!("factorised {layout}"));
    assert_eq!((&kinds[..2], &kinds[2..]), (&bridges.map(String::from)[..], &own[..]));
    assert_eq!(rows.iter().filter(|row| row["cheapest"] == true).count(), 1);
    // Compact has 92 times fewer bytes than the dense bridge, paired 16 times.
    let bytes = |i: usize| number(&rows[i], "up_bytes") + number(&rows[i], "down_bytes");
    assert!(bytes(0) > 90.0 * bytes(5) && bytes(0) > 15.0 * bytes(4), "{} {} {}", bytes(0), bytes(4), bytes(5));
    for row in &rows {
        assert!(number(row, "seconds") > 0.0 && number(row, "down_bytes") > 0.0, "{row}");
        assert!(number(row, "ahead_bytes") > 0.0 && row["paper_bytes"].is_null() == (row["layout"] != "compact"));
    }
    // 128 tokens of 1,536 channels and 128 states: 768 full ciphertexts, and as many outputs as 6.
    assert_eq!((&rows[0]["ciphertexts_down"], &rows[1]["ciphertexts_down"]), (&768.into(), &6.into()));
    assert_eq!((&rows[0]["paper_ciphertexts"], &rows[5]["paper_ciphertexts"]), (&3123.into(), &124.into()));
    assert_eq!((number(&rows[0], "paper_bytes"), number(&rows[5], "paper_bytes")), (6.2e9, 0.39e9));
}
