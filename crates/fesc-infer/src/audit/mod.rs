//! Every kind of message that this program can send, in one table ([`KINDS`]): who sends it to whom, when,
//! how long it is, what hides its content.
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
//! used twice; for that each kind names the tests of its own crate.

mod kinds;

pub use kinds::KINDS;

/// Who sends or receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// P0: has the document.
    Client,
    /// P1: has the model.
    Server,
    /// The third process, where there is one.
    Dealer,
}

impl End {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            End::Client => "client",
            End::Server => "server",
            End::Dealer => "dealer",
        }
    }
}

/// When: the phases of a channel's counts, and what is no part of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Handshake, public part, base transfers and keys.
    Setup,
    /// Making correlations: nothing of the document or the weights goes in.
    Offline,
    /// The protocol on the document.
    Online,
    /// Giving shares away for a check of the program, where both sides ask for it.
    Verify,
    /// `fesc bench` and `fesc doctor`: random data between processes of one machine.
    Measurement,
}

impl Phase {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Setup => "setup",
            Phase::Offline => "offline",
            Phase::Online => "online",
            Phase::Verify => "verify",
            Phase::Measurement => "measurement",
        }
    }
}

/// What lengths a payload may have. The exact one is fixed by the schedule before the message comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// These bytes.
    Exact(usize),
    /// `plus` and a multiple of `of`, at most `most`.
    Multiple {
        /// The unit.
        of: usize,
        /// What comes on top.
        plus: usize,
        /// With it.
        most: usize,
    },
    /// Any up to this.
    AtMost(usize),
}

impl Size {
    /// Whether a payload may be so long.
    pub fn allows(self, bytes: usize) -> bool {
        match self {
            Size::Exact(n) => bytes == n,
            Size::Multiple { of, plus, most } => {
                bytes <= most && bytes.checked_sub(plus).is_some_and(|rest| rest.is_multiple_of(of))
            }
            Size::AtMost(most) => bytes <= most,
        }
    }
}

/// What hides the content, as far as a test can look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cover {
    /// Nothing: it is public, and the same bytes for any document and any weights of the same outline.
    Public,
    /// A mask on every bit: all bytes are uniform. Residues are modulo the largest primes below a power of
    /// two, so their bits are, too.
    Uniform,
    /// A random group element each: compressed Ristretto points, whose encoding has two fixed bits, and a
    /// nonce.
    Points,
    /// The public card of a model first, then hints and table under masks: uniform.
    CardThenUniform,
    /// Made of the dealer's randomness alone; the dealer hears nothing that is not public.
    Dealt,
    /// A share of what the receiver is to learn.
    Answer,
    /// Nothing, on purpose: the operator asked for it with `--insecure-verify`.
    GivenAway,
    /// Random data of a measurement, nobody's.
    Nobodys,
}

impl Cover {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            Cover::Public => "public",
            Cover::Uniform | Cover::Points => "masked",
            Cover::CardThenUniform => "public card, masked rest",
            Cover::Dealt => "random",
            Cover::Answer => "the answer",
            Cover::GivenAway => "given away",
            Cover::Nobodys => "random data",
        }
    }
}

/// One kind of message.
#[derive(Debug)]
pub struct Kind {
    /// Its tag on the wire.
    pub tag: u16,
    /// What it is.
    pub name: &'static str,
    /// The crate that sends it.
    pub owner: &'static str,
    /// From whom to whom.
    pub ways: &'static [(End, End)],
    /// When. Empty: no command sends it.
    pub phases: &'static [Phase],
    /// Lengths.
    pub size: Size,
    /// The length of a payload, as a formula.
    pub formula: &'static str,
    /// How it is hidden.
    pub cover: Cover,
    /// By what, or why it need not be.
    pub mask: &'static str,
    /// Tests of this kind alone: views, and attacks that succeed when a mask is left out.
    pub tests: &'static [&'static str],
}

impl Kind {
    /// From whom to whom, with an arrow; with two heads where it goes both ways.
    pub fn way(&self) -> String {
        let one = |&(from, to): &(End, End)| match self.ways.contains(&(to, from)) {
            true if from > to => None,
            true => Some(format!("{} <-> {}", from.name(), to.name())),
            false => Some(format!("{} -> {}", from.name(), to.name())),
        };
        self.ways.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }

    /// When, in words.
    pub fn phase(&self) -> String {
        let names: Vec<_> = self.phases.iter().map(|p| p.name()).collect();
        if names.is_empty() { "never".into() } else { names.join(", ") }
    }
}

/// The kind of a tag, if there is one.
pub fn kind(tag: u16) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.tag == tag)
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
        let listed: BTreeMap<u16, Vec<String>> = KINDS.iter().map(|k| (k.tag, vec![k.owner.to_string()])).collect();
        assert_eq!(found, listed, "defined in the sources, and listed");
        assert!(KINDS.is_sorted_by(|a, b| a.tag < b.tag));
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
    fn every_kind_has_its_reason_and_its_tests_exist() {
        let all: String = files().into_iter().map(|(_, _, text)| text).collect();
        for kind in KINDS {
            let complete = [kind.name, kind.formula, kind.mask].iter().all(|text| !text.is_empty());
            assert!(complete && !kind.ways.is_empty(), "{:#06x}", kind.tag);
            for test in kind.tests {
                assert!(all.contains(&format!("fn {test}(")), "{:#06x} names {test}", kind.tag);
            }
            let hidden = matches!(kind.cover, Cover::Uniform | Cover::Points | Cover::CardThenUniform);
            assert!(!hidden || !kind.tests.is_empty() || kind.phases.is_empty(), "{:#06x} has no test", kind.tag);
        }
    }

    #[test]
    fn ways_in_words() {
        assert_eq!(kind(0x0602).unwrap().way(), "client -> server");
        assert_eq!(kind(0x0302).unwrap().way(), "client <-> server");
        assert_eq!(kind(0x0681).unwrap().way(), "client <-> server, client -> dealer, server -> dealer");
        assert_eq!(kind(0x0100).unwrap().way(), "client <-> server, client <-> dealer, server <-> dealer");
        assert_eq!(
            (kind(0x0203).unwrap().phase(), kind(0x0204).unwrap().phase()),
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
            let size = kind(tag).unwrap().size;
            assert!(size.allows(bytes) && !size.allows(bytes + 1), "{tag:#06x}: {bytes}");
        }
        assert_eq!(kind(0x0100).unwrap().size, Size::Exact(fesc_net::hello::HELLO_BYTES - fesc_net::HEADER_BYTES));
        let pieces = Size::Multiple { of: 512, plus: 16, most: 26_640 };
        assert!(pieces.allows(528) && !pieces.allows(512) && !pieces.allows(15) && !pieces.allows(27_152));
    }
}
