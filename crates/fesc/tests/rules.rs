//! Rules of the project that the compiler does not keep by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/repository.rs"]
mod repository;

use std::fs;

use repository::{packages, root, sources};

/// Which crates of the workspace a crate may use, in tests too. Lower ones never see upper ones.
const MAY_USE: &[(&str, &[&str])] = &[
    ("fesc-ring", &[]),
    ("fesc-net", &[]),
    ("fesc-ot", &["fesc-ring", "fesc-net"]),
    ("fesc-approx", &["fesc-ring"]),
    ("fesc-mpc", &["fesc-ring", "fesc-net", "fesc-ot", "fesc-approx"]),
    ("fesc-rlwe", &["fesc-ring", "fesc-net", "fesc-ot", "fesc-mpc"]),
    ("fesc-ckks", &["fesc-ring"]),
    ("fesc-hybrid", &["fesc-ring", "fesc-net", "fesc-ot", "fesc-approx", "fesc-mpc", "fesc-ckks"]),
    ("fesc-model", &["fesc-ring", "fesc-approx"]),
    (
        "fesc-scan",
        &["fesc-ring", "fesc-net", "fesc-ot", "fesc-approx", "fesc-mpc", "fesc-ckks", "fesc-hybrid", "fesc-model"],
    ),
    (
        "fesc-infer",
        &[
            "fesc-ring",
            "fesc-net",
            "fesc-ot",
            "fesc-approx",
            "fesc-mpc",
            "fesc-rlwe",
            "fesc-ckks",
            "fesc-hybrid",
            "fesc-model",
            "fesc-scan",
        ],
    ),
    ("fesc-train", &["fesc-ring", "fesc-approx", "fesc-model"]),
    (
        "fesc",
        &[
            "fesc-ring",
            "fesc-net",
            "fesc-ot",
            "fesc-approx",
            "fesc-mpc",
            "fesc-rlwe",
            "fesc-ckks",
            "fesc-hybrid",
            "fesc-model",
            "fesc-scan",
            "fesc-infer",
            "fesc-train",
        ],
    ),
];

#[test]
fn lower_crates_never_see_upper_ones() {
    let packages = packages();
    assert!(packages.len() >= 6, "cargo metadata sees only {} crates", packages.len());
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        let (_, allowed) = MAY_USE.iter().find(|(n, _)| *n == name).expect("a crate without a place in MAY_USE");
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            if used.starts_with("fesc") {
                assert!(allowed.contains(&used), "{name} must not use {used} ({})", dependency["kind"]);
            }
        }
    }
}

#[test]
fn the_order_itself_has_no_circle() {
    for (place, (name, allowed)) in MAY_USE.iter().enumerate() {
        for used in *allowed {
            let below = MAY_USE[..place].iter().any(|(n, _)| n == used);
            assert!(below, "{name} may use {used}, which is not below it");
        }
    }
}

#[test]
fn unsafe_code_is_forbidden_outside_the_simd_crate() {
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        for target in package["targets"].as_array().unwrap() {
            let kind = target["kind"][0].as_str().unwrap();
            if name == "fesc-ring" || !["lib", "bin"].contains(&kind) {
                continue;
            }
            let text = fs::read_to_string(target["src_path"].as_str().unwrap()).unwrap();
            assert!(text.contains("#![forbid(unsafe_code)]"), "{name}: its root does not forbid unsafe code");
        }
    }
}

#[test]
fn randomness_has_one_source() {
    // Put together here so that this file does not find itself.
    let hidden = ["thread_", "rand::", "Os", "from_", "StdRng::", "getrandom::"]
        .into_iter()
        .zip(["rng", "rng()", "Rng", "entropy", "from_os_rng", "fill"])
        .map(|(a, b)| format!("{a}{b}"));
    let hidden: Vec<String> = hidden.collect();
    let mut the_source = 0;
    for (path, text) in sources().iter().filter(|(p, _)| p.extension().is_some_and(|e| e == "rs")) {
        for needle in hidden.iter().filter(|n| text.contains(*n)) {
            assert!(path.ends_with("fesc-ring/src/prg.rs"), "{}: {needle}; take a `&mut Prg`", path.display());
            the_source += 1;
        }
    }
    assert!(the_source > 0, "the one source of randomness is no longer where this test looks for it");
    for package in packages() {
        for dependency in package["dependencies"].as_array().unwrap() {
            let generator = ["rand", "rand_chacha", "fastrand"].contains(&dependency["name"].as_str().unwrap());
            assert!(!generator, "{} has a generator of its own", package["name"]);
        }
    }
}

#[test]
fn insecure_forms_exist_only_in_tests() {
    let guarded = [
        ("crates/fesc-mpc/src/provider/mod.rs", "mod seeded;"),
        ("crates/fesc-mpc/src/provider/mod.rs", "use seeded::Seeded;"),
        ("crates/fesc-ot/src/params.rs", "fn insecure_for_tests"),
        ("crates/fesc-ckks/src/params.rs", "fn insecure_for_tests"),
    ];
    for (file, line) in guarded {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let at: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].contains(line)).collect();
        assert!(!at.is_empty(), "{file}: {line} is not there any more; look where it went");
        for i in at {
            assert!(i > 0 && lines[i - 1] == "#[cfg(test)]", "{file}: {line} is compiled into the product");
        }
    }
}

/// What tests of other crates need is behind a feature, and nothing but tests turns it on.
#[test]
fn features_for_tests_are_asked_for_by_tests_alone() {
    let mut asked = 0;
    for package in packages() {
        for dependency in package["dependencies"].as_array().unwrap() {
            let features = dependency["features"].as_array().unwrap();
            if features.iter().any(|f| f == "testing" || f == "tap") {
                assert_eq!(dependency["kind"], "dev", "{}: {}", package["name"], dependency["name"]);
                asked += 1;
            }
        }
    }
    assert!(asked > 0, "nobody asks for them any more; look what became of the features");
    let mask = fs::read_to_string(root().join("crates/fesc-ckks/src/mask.rs")).unwrap();
    let forgotten = "#[cfg(any(test, feature = \"testing\"))]\nimpl FreshZero {";
    assert!(mask.contains(forgotten), "a zero that is none must not be in the product");
}

/// Every nonce and seed that is sent has a generator of its own (`Prg::public_bytes` says why). These are the
/// places that draw one.
#[test]
fn what_is_published_is_drawn_apart_from_secrets() {
    let drawn = [
        ("crates/fesc-ckks/src/seed.rs", 1),
        ("crates/fesc-hybrid/src/boundary/to_ciphertexts/client.rs", 1),
        ("crates/fesc-infer/src/session/mod.rs", 1),
        ("crates/fesc-mpc/src/provider/dealer.rs", 1),
        ("crates/fesc-ot/src/base.rs", 2),
        ("crates/fesc-rlwe/src/coefficients/sample.rs", 1),
        ("crates/fesc-rlwe/src/public.rs", 1),
        ("crates/fesc-rlwe/src/slots/wire.rs", 1),
    ];
    for (file, times) in drawn {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert_eq!(text.matches("prg.public_bytes()").count(), times, "{file}: something published is drawn otherwise");
    }
}

/// Secret keys of CKKS are made and used by clients: by files that say so, by measurements, and by tests.
#[test]
fn server_code_never_names_the_clients_half_of_ckks() {
    let (inside, outside) = ("crate::client", ["fesc_ckks::", "client"].concat());
    let mut clients = 0;
    for (path, text) in sources().iter().filter(|(p, _)| p.extension().is_some_and(|e| e == "rs")) {
        let place = path.strip_prefix(root()).unwrap().display().to_string();
        let its_own = place.starts_with("crates/fesc-ckks/src/") && text.contains(inside);
        // Also in a group: `use fesc_ckks::{client::..., ...};`
        let grouped = text
            .split("use fesc_ckks::{")
            .skip(1)
            .any(|rest| rest.split(';').next().is_some_and(|names| names.contains("client")));
        if !its_own && !grouped && !text.contains(&outside) {
            continue;
        }
        let allowed =
            ["client", "tests", "bench", "trial.rs", "examples", "fixture.rs", "fuzzing.rs", "fesc-ckks/src/lib.rs"];
        assert!(allowed.iter().any(|a| place.contains(a)), "{place} reaches for a client's secret key");
        clients += 1;
    }
    assert!(clients > 0, "the client's half is no longer where this test looks for it");
}

#[test]
fn nothing_names_one_machine_or_a_private_registry() {
    // Put together here so that this file does not find itself.
    let places = ["/ro", "/ho", "/wo", "/Us", "C:", "replace-", "[sou"]
        .into_iter()
        .zip(["ot/", "me/", "rk/", "ers/", "\\", "with", "rce."])
        .map(|(a, b)| format!("{a}{b}"));
    let places: Vec<String> = places.collect();
    for (path, text) in sources() {
        for place in &places {
            assert!(!text.contains(place.as_str()), "{} has {place}", path.display());
        }
        if path.file_name().is_some_and(|n| n == "Cargo.lock") {
            let mut origins: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("source = ")).collect();
            origins.sort_unstable();
            origins.dedup();
            assert!(origins.len() == 1 && origins[0].starts_with("\"registry+"), "{}: {origins:?}", path.display());
        }
    }
    assert!(!root().join(".cargo").exists(), "a cargo configuration belongs to a machine, not to the repository");
}

#[test]
fn every_test_named_in_security_md_exists() {
    let text = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let tests: Vec<String> = sources()
        .iter()
        .filter(|(p, _)| p.extension().is_some_and(|e| e == "rs"))
        .flat_map(|(_, text)| {
            let lines: Vec<String> = text.lines().map(|l| l.trim().to_string()).collect();
            let named = |i: usize| {
                let name = lines.get(i)?.strip_prefix("fn ")?.split('(').next()?;
                Some(name.to_string())
            };
            // An attribute or a comment may stand between the mark and the function.
            let marked = (0..lines.len()).filter(|&i| lines[i] == "#[test]");
            marked.filter_map(|i| (i + 1..i + 4).find_map(named)).collect::<Vec<_>>()
        })
        .collect();
    // Names of tests are the back-quoted words of the guarantees; everything else there is prose.
    let from = text.find("## Guarantees").expect("a section of guarantees");
    let to = text.find("## What is not guaranteed").expect("a section of what is not guaranteed");
    let named: Vec<&str> = text[from..to].split('`').skip(1).step_by(2).collect();
    assert!(named.len() > 30, "the guarantees name only {} tests", named.len());
    for name in named {
        assert!(tests.iter().any(|t| t == name), "SECURITY.md names the test {name}, which is not there");
    }
}

/// Comments are read in windows that stand side by side, and in reviews: at most 110 columns.
#[test]
fn comments_have_at_most_110_columns() {
    let mut seen = 0;
    for (path, text) in sources().iter().filter(|(p, _)| p.extension().is_some_and(|e| e == "rs")) {
        for (at, line) in text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//")) {
            let columns = line.chars().count();
            assert!(columns <= 110, "{}:{}: a comment of {columns} columns", path.display(), at + 1);
            seen += 1;
        }
    }
    assert!(seen > 5000, "only {seen} lines of comments: the files are no longer where this test looks for them");
}

/// Headings of a document by their number or letter: `6.3` of `### 6.3 The scan`, `E` of `## E. The scan`.
fn sections(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|l| l.starts_with('#')).map(|l| l.trim_start_matches('#').trim_start());
    headings.filter_map(|l| l.split_whitespace().next()).map(|w| w.trim_end_matches('.').to_string()).collect()
}

/// A reader has the repository and nothing else: every document and section that is cited is in it.
#[test]
fn nothing_is_cited_that_is_not_here() {
    let root = root();
    let (mut wrong, mut cited) = (Vec::new(), 0);
    for (path, text) in sources() {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        let comments = name.ends_with(".rs");
        if !comments && !name.ends_with(".md") || name.contains("/models/") || name == "crates/fesc/tests/rules.rs" {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if comments && !line.starts_with("//") {
                continue;
            }
            let mut fault = |what: String| wrong.push(format!("{name}:{}: {what}", number + 1));
            // Notes of people who are not here: "design 6.3", "review E".
            let words: Vec<&str> =
                line.split_whitespace().map(|w| w.trim_matches(['(', ')', ',', ';', ':', '.'])).collect();
            for pair in words.windows(2) {
                let numbered =
                    |w: &str| w.starts_with(|c: char| c.is_ascii_digit()) || w.len() == 1 && ("A"..="Z").contains(&w);
                if matches!(pair, ["design" | "review", section] if numbered(section)) {
                    fault(pair.join(" "));
                }
            }
            let parts: Vec<&str> = line.split("docs/").collect();
            for part in parts.iter().skip(1) {
                let Some((file, rest)) = part.split_once(".md").filter(|(file, _)| !file.contains('`')) else {
                    continue;
                };
                let document = root.join("docs").join(format!("{file}.md"));
                let Ok(document) = fs::read_to_string(&document) else {
                    fault(format!("docs/{file}.md does not exist"));
                    continue;
                };
                cited += 1;
                if let Some(section) = rest.strip_prefix(", ") {
                    let end = section.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(section.len());
                    let section = section[..end].trim_end_matches('.');
                    let known = sections(&document);
                    let looks = section.starts_with(|c: char| c.is_ascii_digit()) || section.len() == 1;
                    if looks && !known.iter().any(|s| s == section) {
                        fault(format!("docs/{file}.md has no section {section}"));
                    }
                }
            }
            if line.contains("../shared") {
                fault("a path outside the repository".into());
            }
        }
    }
    assert!(cited > 20, "{cited} citations: the test reads nothing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The example that a visitor copies is the one that is tested.
#[test]
fn the_readmes_library_example_is_the_doc_test() {
    let between = |text: &str, from: &str, to: &str| -> Vec<String> {
        let text = text.split_once(from).expect("the beginning").1.split_once(to).expect("the end").0;
        let lines = text.lines().map(|l| l.trim_start_matches("//!").trim().to_string());
        lines.filter(|l| !l.is_empty() && !l.starts_with('#') && !l.starts_with("assert")).collect()
    };
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let page = fs::read_to_string(root().join("crates/fesc-infer/src/lib.rs")).unwrap();
    assert_eq!(between(&readme, "```rust", "```"), between(&page, "//! ```\n", "//! ```"));
}
