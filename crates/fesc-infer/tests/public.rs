//! Public parts that a hostile server sends, or a bad disk keeps; and a cache that several processes fill and
//! read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs::{self, File};
use std::path::Path;

use common::*;
use fesc_infer::ServerSetup;
use fesc_infer::session::SessionError;
use fesc_infer::session::cache::Cache;
use fesc_infer::session::download::Upload;
use fesc_infer::session::public::{Hosted, Known};
use fesc_model::Shape;
use fesc_net::Channel;
use fesc_ring::Prg;

fn hosted(shape: Shape, seed: u8) -> Hosted {
    Hosted::new(ServerSetup::new(twin(shape, 40, seed), [7; 32]).unwrap(), Some("words".into())).unwrap()
}

fn small() -> Shape {
    Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, groups: 1, norm_groups: 1, ..shape() }
}

fn written(hosted: &Hosted) -> Vec<u8> {
    let mut bytes = Vec::new();
    hosted.write(&mut bytes).unwrap();
    bytes
}

/// The bytes before the setup.
fn front(bytes: &[u8]) -> usize {
    16 + u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize
}

/// Why it is refused.
fn refused(hosted: &Hosted, bytes: &[u8]) -> SessionError {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("part");
    fs::write(&path, bytes).unwrap();
    Known::open(File::open(&path).unwrap(), hosted.id, "no").err().expect("refused")
}

#[test]
fn a_public_part_that_is_cut_anywhere_is_refused() {
    let hosted = hosted(small(), 1);
    let bytes = written(&hosted);
    assert_eq!(bytes.len() as u64, hosted.bytes);
    for sixteenth in 0..16 {
        let error = refused(&hosted, &bytes[..sixteenth * bytes.len() / 16]);
        assert!(matches!(error, SessionError::Malformed { .. }), "{sixteenth}: {error}");
    }
}

#[test]
fn parts_of_other_models_and_false_sizes_are_refused() {
    let ours = hosted(small(), 1);
    let bytes = written(&ours);
    let malformed = |bytes: &[u8]| assert!(matches!(refused(&ours, bytes), SessionError::Malformed { .. }));
    // The same shape, other weights: everything parses, and it is another model.
    let other = written(&hosted(small(), 2));
    assert!(matches!(refused(&ours, &other), SessionError::WrongModel { .. }));
    // A card of ours with hints and table of another shape, or of more tokens, and the other way round.
    for shape in
        [Shape { d_model: 16, ..small() }, Shape { vocab: VOCAB + 1, ..small() }, Shape { layers: 2, ..small() }]
    {
        let theirs = written(&hosted(shape, 1));
        malformed(&[&bytes[..front(&bytes)], &theirs[front(&theirs)..]].concat());
        malformed(&[&theirs[..front(&theirs)], &bytes[front(&bytes)..]].concat());
    }
    // Lengths that lie: a card of 2^63 bytes, of one byte less or more than there are, or of none.
    let long = |length: u64| [&bytes[..8], &length.to_le_bytes(), &bytes[16..]].concat();
    assert!(matches!(refused(&ours, &long(1 << 63)), SessionError::TooLarge { .. }));
    let card = front(&bytes) as u64 - 16;
    for length in [0, card - 1, card + 1, 1 << 25] {
        malformed(&long(length));
    }
    malformed(&[&bytes[..], b"x"].concat());
    malformed(b"FESCmod2 and nothing of ours behind it");
    // One bit, in every part: the card, the digests, hints, table.
    for at in (0..bytes.len()).step_by(bytes.len() / 64) {
        let mut spoilt = bytes.clone();
        spoilt[at] ^= 4;
        refused(&ours, &spoilt);
    }
}

/// A client that downloads from a server of this model.
fn fill(cache: &Cache, hosted: &Hosted, seed: u8) -> Result<Known, SessionError> {
    let (mut us, mut them) = Channel::memory_pair();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut upload = Upload::new(&mut them, hosted.bytes);
            // A client that has refused it is gone.
            let _ = hosted.write(&mut upload).map(|()| upload.finish());
        });
        cache.fill(hosted.id, hosted.bytes, &mut us, &mut Prg::from_seed([seed; 16]))
    })
}

fn files(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn two_writers_and_readers_of_one_cache_do_not_disturb_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let hosted = hosted(small(), 1);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (hosted, dir) = (&hosted, dir.path());
            scope.spawn(move || {
                // Each as a process of its own.
                let cache = Cache::open(dir).unwrap();
                for round in 0..4 {
                    let filled = fill(&cache, hosted, 10 * seed + round).unwrap();
                    let found = cache.find(hosted.id).unwrap().expect("whoever wrote it last, it is whole");
                    assert_eq!((filled.id, found.id), (hosted.id, hosted.id));
                }
            });
        }
    });
    assert_eq!(files(dir.path()), [format!("{}.public", hosted.id)]);
}

#[test]
fn only_a_file_that_is_not_the_model_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, hosted) = (Cache::open(dir.path()).unwrap(), hosted(small(), 1));
    let path = cache.path(hosted.id);
    let bytes = written(&hosted);
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(cache.find(hosted.id).unwrap().is_none() && !path.exists(), "cut");
    let mut spoilt = bytes.clone();
    *spoilt.last_mut().unwrap() ^= 1;
    fs::write(&path, &spoilt).unwrap();
    assert!(cache.find(hosted.id).unwrap().is_none() && !path.exists(), "changed");
    // A read that fails says nothing about the bytes: here it is a directory.
    fs::create_dir(&path).unwrap();
    assert!(matches!(cache.find(hosted.id), Err(SessionError::Io { .. })) && path.exists());
}
