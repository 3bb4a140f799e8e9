//! `fesc bench ckks` and `fesc bench ntt` from outside, on the smallest chain.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
mod support;

use serde_json::Value;
use support::{fesc, json};

const CKKS_NAMES: &[&str] = &[
    "n",
    "levels",
    "digits",
    "log_qp",
    "op",
    "threads",
    "min_ms",
    "median_ms",
    "precision_bits",
    "ntt_ratio",
    "chain",
    "cpu_ms",
    "transforms",
    "ntt_us",
    "ntt_cpu_us",
    "ntt_units",
    "transforms_share",
    "conversion_share",
    "inner_product_share",
    "memory_share",
    "rest_share",
    "security_bits",
    "mask_distance_log2",
    "mask_queries",
    "mask_distance_log2_over_queries",
];

/// Every operation, its transforms on chain 1 (two data primes, one special), and the precision that its
/// slots must have.
const OPS: &[(&str, u64, f64)] = &[
    ("encode", 2, 30.0),
    ("encode_coefficients", 0, 30.0),
    ("encrypt", 15, 23.5),
    ("encrypt_secret", 2, 27.0),
    ("decrypt", 0, 27.0),
    ("decode", 2, 30.0),
    ("decode_boundary", 2, 30.0),
    ("add", 0, 26.0),
    ("multiply_plain", 0, 26.0),
    ("multiply", 12, 26.0),
    ("multiply_rescale", 12, 23.0),
    ("rescale", 4, 23.0),
    ("rotate", 12, 21.0),
    ("conjugate", 12, 21.0),
    ("hoisted8", 54, 21.0),
];

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} is no number in {row}"))
}

#[test]
fn ckks_has_its_names_for_every_operation_and_true_results() {
    let rows = json(&["bench", "ckks", "--chain", "1", "--seconds", "0", "--threads", "1,2", "--json"], CKKS_NAMES);
    assert_eq!(rows.len(), 2 * OPS.len());
    for (row, (k, (op, transforms, precision))) in rows.iter().zip((0..2).flat_map(|k| OPS.iter().map(move |o| (k, o))))
    {
        assert_eq!((&row["op"], &row["threads"], &row["chain"]), (&(*op).into(), &(k + 1).into(), &1.into()));
        assert_eq!((&row["n"], &row["levels"], &row["digits"]), (&32_768.into(), &1.into(), &2.into()));
        assert!((139.0..141.0).contains(&number(row, "log_qp")), "{row}");
        assert_eq!(row["transforms"], *transforms, "{op}");
        assert!(number(row, "security_bits") >= 128.0 && number(row, "mask_distance_log2") == -41.0, "{row}");
        assert!(row["mask_queries"] == 1 << 20 && number(row, "mask_distance_log2_over_queries") == -21.0, "{row}");
        assert!(number(row, "precision_bits") >= *precision, "{row}");
        assert!(number(row, "min_ms") > 0.0 && number(row, "min_ms") <= number(row, "median_ms"), "{row}");
        assert!(number(row, "ntt_us") > 0.0 && number(row, "ntt_units") > 0.0, "{row}");
        if cfg!(target_os = "linux") {
            // Short runs may end before the kernel has counted anything.
            assert!(number(row, "cpu_ms") >= 0.0 && number(row, "ntt_cpu_us") >= 0.0, "{row}");
        }
        assert_eq!(row["ntt_ratio"].is_null(), *transforms == 0, "{row}");
        // Only a rotation is taken apart.
        for share in CKKS_NAMES.iter().filter(|n| n.ends_with("_share")) {
            assert_eq!(row[share].is_null(), *op != "rotate", "{share} in {row}");
        }
        if *op == "rotate" {
            let shares = CKKS_NAMES.iter().filter(|n| n.ends_with("_share")).map(|n| number(row, n));
            assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9, "{row}");
        }
    }
}

#[test]
fn ckks_measures_what_is_asked_for() {
    let rows =
        json(&["bench", "ckks", "--chain", "1", "--op", "add,decode_boundary", "--seconds", "0", "--json"], CKKS_NAMES);
    let ops: Vec<&str> = rows.iter().map(|r| r["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["add", "decode_boundary"]);
    let table = fesc(&["bench", "ckks", "--chain", "1", "--op", "add", "--seconds", "0"]).ok();
    assert!(table.starts_with("    n  levels  digits  log_qp  op "), "{table}");
    // What holds for a whole chain is a table of its own.
    let security = table.lines().position(|l| l.starts_with("chain  security_bits  mask_distance_log2")).unwrap();
    assert!(table.lines().nth(security + 1).is_some_and(|l| l.contains("256") && l.contains("-41")), "{table}");
}

#[test]
fn key_switches_are_measured_at_every_level_of_a_named_set() {
    let names = ["n", "levels", "level", "digits", "log_qp", "op", "threads", "min_ms", "median_ms", "precision_bits"];
    let names = [&names[..], &["set", "chain", "cpu_ms", "transforms"]].concat();
    let rows = json(&["bench", "ckks", "--set", "project", "--level", "--seconds", "0", "--json"], &names);
    assert_eq!(rows.len(), 3 * 5);
    for (k, row) in rows.iter().enumerate() {
        let op = ["relinearise_rescale", "rotate", "hoisted_rotate"][k % 3];
        assert_eq!((&row["op"], &row["set"], &row["level"]), (&op.into(), &"project".into(), &(5 - k / 3).into()));
        assert!(number(row, "min_ms") > 0.0 && number(row, "precision_bits") > 21.0, "{row}");
    }
    let rows = json(&["bench", "ckks", "--set", "project", "--op", "add", "--seconds", "0", "--json"], CKKS_NAMES);
    assert_eq!((rows.len(), &rows[0]["chain"]), (1, &0.into()));
}

#[test]
fn wrong_chains_operations_and_degrees_end_with_2() {
    for args in [
        &["ckks", "--chain", "5"][..],
        &["ckks", "--chain", "one"],
        &["ckks", "--op", "bootstrap"],
        &["ckks", "--op", "multiply-plain"],
        &["ckks", "--threads", "0"],
        &["ckks", "--seconds", "-1"],
        &["ckks", "--set", "scan-d11"],
        &["ckks", "--set", "project", "--chain", "1"],
        &["ckks", "--level", "--op", "add"],
        &["ntt", "--n", "1000"],
        &["ntt", "--n", "131072"],
        &["ntt", "--bits", "61"],
        &["ntt", "--bits", "51", "--path", "avx512"],
    ] {
        fesc(&[&["bench"], args].concat()).fails(2);
    }
}

#[test]
fn ntt_has_its_names_for_every_degree_prime_and_path() {
    let names = [
        "n",
        "prime",
        "bits",
        "path",
        "forward_us",
        "inverse_us",
        "pointwise_us",
        "forward_median_us",
        "inverse_median_us",
        "pointwise_median_us",
    ];
    let asked = ["bench", "ntt", "--n", "1024,2048", "--bits", "40,50,60", "--seconds", "0", "--json"];
    let rows = json(&asked, &names);
    let paths = fesc_ring::cpu::Path::available().count();
    // Primes of 60 bits have the portable path only.
    assert_eq!(rows.len(), 2 * (2 * paths + 1));
    for row in &rows {
        let (n, prime) = (row["n"].as_u64().unwrap(), row["prime"].as_u64().unwrap());
        assert!(
            prime % (2 * n) == 1 && u64::from(64 - prime.leading_zeros()) == row["bits"].as_u64().unwrap(),
            "{row}"
        );
        assert!(row["bits"] != 60 || row["path"] == "portable", "{row}");
        for name in ["forward", "inverse", "pointwise"] {
            let (least, middle) = (number(row, &format!("{name}_us")), number(row, &format!("{name}_median_us")));
            assert!(least > 0.0 && least <= middle, "{row}");
        }
    }
}
