//! The fuzz corpora of this crate, and random changes of them, on the stable toolchain.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use fesc_infer::fuzzing;
use fesc_net::fuzzing::replay;

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Runs a corpus and changed copies of it; how many of its inputs are accepted: a target that refuses
/// everything would test nothing.
fn accepted(target: &str, run: fn(&[u8]), body: fn(&[u8]) -> bool) -> usize {
    assert!(replay(&corpus(target), 20_000, run).unwrap() > 100_000, "{target}: the corpus has gone");
    let files = std::fs::read_dir(corpus(target)).unwrap();
    files.filter(|file| body(&std::fs::read(file.as_ref().unwrap().path()).unwrap())).count()
}

#[test]
fn files_and_messages_of_kept_keys_survive_garbage() {
    assert_eq!(accepted("infer_key_file", |data| _ = fuzzing::key_file(data), fuzzing::key_file), 3);
    assert_eq!(accepted("infer_key_message", |data| _ = fuzzing::key_message(data), fuzzing::key_message), 9);
}
