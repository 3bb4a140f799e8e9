//! What is on disk: every file of a place, who may read it, and what must not be in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::place::{CORNERS, Place};

/// Bytes at the end of a stored half that name it: its checksum.
const NAME: usize = 32;

/// What was there before a session.
pub struct Disk {
    /// The checksums of all halves on both sides and of the client's blocks, and where each lay.
    halves: Vec<(PathBuf, Vec<u8>)>,
}

/// All files and directories below a directory.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(below(&path));
        }
        out.push(path);
    }
    out
}

/// Whole stores that nobody has taken.
pub fn unused(stores: &Path) -> usize {
    fs::read_dir(stores).unwrap().filter(|e| e.as_ref().unwrap().path().extension().is_none()).count()
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|e| e == ending)
}

/// A party's half of a correlation, or a block of the client's for a linear layer: each is used once.
fn is_secret(path: &Path) -> bool {
    has_ending(path, "half") || has_ending(path, "block")
}

/// The state of both sides: only known files, each with its permissions, and no keys.
pub fn states(place: &Place) {
    assert_eq!(mode(&place.path("state")), 0o700);
    let ours = ["spent-client.jsonl", "spent-client.lock", "retired-client.jsonl", "retired-client.lock"];
    let theirs = [
        "master-v3.seed",
        "server.key",
        "server.lock",
        "sessions.jsonl",
        "usage.jsonl",
        "usage.lock",
        "spent-server.jsonl",
        "spent-server.lock",
        "retired-server.jsonl",
        "retired-server.lock",
    ];
    for (state, private) in [("client-state", &ours[..]), ("state", &theirs)] {
        // A client that was killed early has none yet.
        let there = Some(place.path(state)).filter(|path| path.exists());
        for path in there.iter().flat_map(|path| below(path)) {
            // Keys that are kept are another test's: here their directory is empty.
            if path.is_dir() && name(&path).starts_with("keys-") {
                assert!(mode(&path) == 0o700 && below(&path).is_empty(), "{path:?}");
                continue;
            }
            let private = private.contains(&name(&path));
            assert!(if private { mode(&path) == 0o600 } else { name(&path) == "server.crt" }, "{path:?}");
        }
    }
}

impl Disk {
    /// Notes all stored halves and blocks.
    pub fn before(place: &Place) -> Self {
        let shelves = ["store", "prepared"].map(|name| place.path(name));
        let halves = shelves.iter().flat_map(|s| below(s)).filter(|p| is_secret(p));
        let halves: Vec<_> = halves.map(|p| (fs::read(&p).unwrap(), p)).collect();
        assert!(!halves.is_empty());
        let named = |(bytes, path): (Vec<u8>, PathBuf)| (path, bytes[bytes.len() - NAME..].to_vec());
        Self { halves: halves.into_iter().map(named).collect() }
    }

    /// Only known files, each with its permissions. Half-used stores only where a process was killed, and
    /// none that is half-made.
    pub fn check(&self, place: &Place, killed: &[&str]) {
        for corner in CORNERS {
            assert!(fs::read_dir(place.path(corner)).unwrap().next().is_none(), "something in {corner}");
        }
        for stores in ["store", "prepared"] {
            let directory = place.path(stores);
            assert_eq!(mode(&directory), 0o700, "{stores}");
            for path in below(&directory) {
                assert!(!has_ending(&path, "new"), "{path:?}");
                assert!(!has_ending(&path, "used") || killed.contains(&stores), "{path:?}");
                match name(&path) {
                    "session" | "end" => assert_eq!(mode(&path), 0o600, "{path:?}"),
                    "lock" | "note.json" => {}
                    _ if path.is_dir() => {}
                    _ => assert!(is_secret(&path) && mode(&path) == 0o600, "{path:?}"),
                }
            }
        }
        states(place);
        for path in below(&place.path("cache")) {
            assert!(has_ending(&path, "public"), "{path:?}");
        }
    }

    /// After the last session: no half is left anywhere, under no name, and the document is nowhere.
    pub fn all_used(&self, place: &Place, text: &str) {
        self.check(place, &[]);
        for path in below(&place.path("")).iter().filter(|p| p.is_file()) {
            assert!(!self.halves.iter().any(|(half, _)| half == path), "{path:?}");
            let bytes = fs::read(path).unwrap();
            assert!(!bytes.windows(text.len()).any(|w| w == text.as_bytes()), "the document is in {path:?}");
            let ends = |checksum: &[u8]| bytes.ends_with(checksum);
            assert!(!self.halves.iter().any(|(_, checksum)| ends(checksum)), "a used half is in {path:?}");
        }
    }
}
