//! Every message that this program can send, in one table ([`messages()`]): who sends it to whom, when, how
//! long it is, what hides its content. It is the lists of all crates, one after the other: each has its own
//! beside the constants of its tags ([`fesc_net::message`]).
//!
//! The rule that the table states: **no message is a function of decrypted or shared data without a fresh
//! mask**, but for the answer, which goes to the client alone. What has no mask is public: it depends on
//! shapes, parameters, the schedule, ids and nonces.
//!
//! The table is held to the sources (each tag is there once, each named test exists) and to the wire:
//! `tests/transcript` records whole sessions frame by frame and checks kind, way, phase, size and cover of
//! each. `fesc inspect --messages` prints it.
//!
//! Not guaranteed: that uniform bytes prove a protocol. A statistic sees a missing mask, not a mask that is
//! used twice; and of ciphertexts, which are uniform to whoever has no key, neither a missing encryption of
//! zero nor a narrow mask. For these each message names tests of its own.

mod messages;

pub use fesc_net::message::{Cover, End, Message, MessagePhase, Sessions, Size};
pub use messages::messages;

/// The message of a tag, if there is one.
pub fn message(tag: u16) -> Option<&'static Message> {
    messages().find(|m| m.tag == tag)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    fn rust_files(directory: &Path, out: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rust_files(&path, out);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }

    /// Crate, path inside it, and text of every file.
    fn files() -> Vec<(String, PathBuf, String)> {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut all = Vec::new();
        for entry in std::fs::read_dir(crates).unwrap() {
            let root = entry.unwrap().path();
            let owner = root.file_name().unwrap().to_str().unwrap().to_string();
            let mut files = Vec::new();
            rust_files(&root, &mut files);
            let read = |f: &PathBuf| std::fs::read_to_string(f).unwrap();
            let inside = |f: &PathBuf| f.strip_prefix(&root).unwrap().to_path_buf();
            all.extend(files.iter().map(|f| (owner.clone(), inside(f), read(f))));
        }
        all
    }

    /// Crate and lines of what is built into a program: no tests, no comments.
    fn product() -> Vec<(String, Vec<String>)> {
        let tests = |path: &Path| {
            let names = ["tests", "tests.rs", "examples", "benches", "fuzz"];
            path.iter().any(|part| names.iter().any(|n| part == *n))
        };
        let lines = |text: &str| {
            let before = text.split("mod tests {").next().unwrap_or_default();
            before.lines().filter(|l| !l.trim_start().starts_with("//")).map(String::from).collect()
        };
        let kept = files().into_iter().filter(|(_, path, _)| !tests(path));
        kept.map(|(owner, _, text)| (owner, lines(&text))).collect()
    }

    /// The tag that a line defines: `const NAME: Tag = Tag(0x....)`.
    fn defined(line: &str) -> Option<u16> {
        u16::from_str_radix(line.split(": Tag = Tag(0x").nth(1)?.get(..4)?, 16).ok()
    }

    #[test]
    fn every_tag_of_the_sources_is_in_the_table_once() {
        let mut found: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for (owner, lines) in product() {
            let tags = lines.iter().filter_map(|l| defined(l));
            tags.for_each(|tag| found.entry(tag).or_default().push(owner.clone()));
        }
        let listed: BTreeMap<u16, Vec<String>> = messages().map(|m| (m.tag, vec![m.owner.to_string()])).collect();
        assert_eq!(found, listed, "defined in the sources, and listed");
        assert!(messages().is_sorted_by(|a, b| a.tag < b.tag));
    }

    /// Every message is sent under a named tag: a number in a call would escape the table.
    #[test]
    fn no_message_is_sent_under_a_number() {
        for (owner, lines) in product() {
            for line in lines {
                let call = [".send(", ".recv(", ".exchange("].iter().any(|c| line.contains(c));
                assert!(!call || !line.contains("Tag("), "{owner}: {line}");
            }
        }
    }

    #[test]
    fn every_message_has_its_reason_and_its_tests_exist() {
        let all: String = files().into_iter().map(|(_, _, text)| text).collect();
        for message in messages() {
            let complete = [message.name, message.formula, message.mask].iter().all(|text| !text.is_empty());
            assert!(complete && !message.ways.is_empty(), "{:#06x}", message.tag);
            for test in message.tests {
                assert!(all.contains(&format!("fn {test}(")), "{:#06x} names {test}", message.tag);
            }
            let hidden =
                matches!(message.cover, Cover::Uniform | Cover::Points | Cover::Ciphertexts | Cover::CardThenUniform);
            assert!(
                !hidden || !message.tests.is_empty() || message.phases.is_empty(),
                "{:#06x} has no test",
                message.tag
            );
        }
    }

    #[test]
    fn ways_in_words() {
        assert_eq!(message(0x0602).unwrap().way(), "client -> server");
        assert_eq!(message(0x0302).unwrap().way(), "client <-> server");
        assert_eq!(message(0x0681).unwrap().way(), "client <-> server, client -> dealer, server -> dealer");
        assert_eq!(message(0x0100).unwrap().way(), "client <-> server, client <-> dealer, server <-> dealer");
        assert_eq!(
            (message(0x0203).unwrap().phase(), message(0x0204).unwrap().phase()),
            ("setup, offline".into(), "never".into())
        );
    }

    #[test]
    fn sizes_are_those_of_the_engines() {
        use fesc_rlwe::coefficients::{KEY_BYTES, RANDOM_BYTES, RESPONSE_BYTES};
        let slots = fesc_rlwe::slots::SlotParams::standard().unwrap();
        for (tag, bytes) in [
            (0x0420, slots.upload_bytes()),
            (0x0421, slots.upload_bytes()),
            (0x0422, slots.response_bytes()),
            (0x0423, KEY_BYTES),
            (0x0424, RANDOM_BYTES),
            (0x0425, RESPONSE_BYTES),
        ] {
            let size = message(tag).unwrap().size;
            assert!(size.allows(bytes) && !size.allows(bytes + 1), "{tag:#06x}: {bytes}");
        }
        assert_eq!(message(0x0100).unwrap().size, Size::Exact(fesc_net::hello::HELLO_BYTES - fesc_net::HEADER_BYTES));
        let pieces = Size::Multiple { of: 512, plus: 16, most: 26_640 };
        assert!(pieces.allows(528) && !pieces.allows(512) && !pieces.allows(15) && !pieces.allows(27_152));
    }
}
