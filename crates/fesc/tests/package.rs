//! Every crate can be packaged: it says what it is, its dependencies have versions, and it has its files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/repository.rs"]
mod repository;

use std::fs;
use std::path::{Component, Path};

use repository::{files, packages};

/// Names of `cargo metadata` that a package may not lack.
const SAID: [&str; 5] = ["description", "license", "readme", "keywords", "categories"];

/// Whether the way from `base` to `path` stays below `root`.
fn stays(root: &Path, base: &Path, path: &str) -> bool {
    let mut depth = base.strip_prefix(root).unwrap().components().count() as isize;
    Path::new(path.trim_start_matches('/')).components().all(|part| {
        depth += if part == Component::ParentDir { -1 } else { 1 };
        depth >= 0
    })
}

#[test]
fn every_package_says_what_it_is() {
    for package in packages() {
        let name = &package["name"];
        for key in SAID {
            let value = &package[key];
            let there =
                value.as_str().map_or_else(|| value.as_array().is_some_and(|v| !v.is_empty()), |v| !v.is_empty());
            assert!(there, "{name} has no {key}");
        }
        assert!(package["publish"].is_null(), "{name} may not be published");
        let root = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(fs::read_to_string(root.join(file)).is_ok_and(|t| t.len() > 100), "{name} has no {file}");
        }
    }
}

#[test]
fn every_path_dependency_has_the_version_of_its_crate() {
    let packages = packages();
    for package in &packages {
        for dependency in package["dependencies"].as_array().unwrap().iter().filter(|d| d["path"].is_string()) {
            let used = packages.iter().find(|p| p["name"] == dependency["name"]).unwrap();
            let version = format!("^{}", used["version"].as_str().unwrap());
            assert_eq!(dependency["req"], version, "{} uses {}", package["name"], dependency["name"]);
        }
    }
}

/// What the compiler reads besides sources is in the package too.
#[test]
fn no_included_file_is_outside_its_package() {
    let mut included = 0;
    for package in packages() {
        let root = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_path_buf();
        let mut sources = Vec::new();
        files(&root.join("src"), &mut sources);
        for file in sources.into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
            let text = fs::read_to_string(&file).unwrap();
            for start in ["include_bytes!(", "include_str!(", "concat!(env!(\"CARGO_MANIFEST_DIR\")"] {
                for (at, _) in text.match_indices(start) {
                    let rest = text[at..].lines().next().unwrap();
                    let words = || rest.split('"').skip(1).step_by(2);
                    let from_root = words().any(|w| w == "CARGO_MANIFEST_DIR") || rest.contains("file!(");
                    let base = if from_root { &root } else { file.parent().unwrap() };
                    let path: String = words().filter(|w| *w != "CARGO_MANIFEST_DIR").collect();
                    assert!(stays(&root, base, &path), "{}: {rest}", file.display());
                    included += 1;
                }
            }
        }
    }
    assert!(included >= 5, "this test finds only {included} included files");
    let (root, deep) = (Path::new("/a/b"), Path::new("/a/b/src/c"));
    assert!(stays(root, deep, "../../x") && stays(root, root, "/models/x"));
    assert!(!stays(root, deep, "../../../x") && !stays(root, root, "/../x/../b"));
}
