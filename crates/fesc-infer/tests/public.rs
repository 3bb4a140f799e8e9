//! Public parts that a hostile server sends, or a bad disk keeps; and a cache that several processes fill and
//! read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs::{self, File};
use std::path::Path;

use common::*;
use fesc_infer::ServerSetup;
use fesc_infer::session::cache::Cache;
use fesc_infer::session::download::Upload;
use fesc_infer::session::public::{Hosted, Known};
use fesc_infer::session::{Hex32, SessionError};
use fesc_model::Shape;
use fesc_net::Channel;
use fesc_ring::Prg;
use sha2::{Digest, Sha256};

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

/// Bytes of the list of two sections.
const LIST: usize = 16 + 2 * 56;

/// Card and setup.
fn sections(bytes: &[u8]) -> [&[u8]; 2] {
    let card = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
    [&bytes[LIST..LIST + card], &bytes[LIST + card..]]
}

/// A list as the format has it, with lengths of the caller's, and the id that names it: what a hostile server
/// can make of any two sections.
fn forged(names: [&str; 2], lengths: [u64; 2], sections: [&[u8]; 2]) -> (Hex32, Vec<u8>) {
    let mut list = [&b"FESCpub2"[..], &2u64.to_le_bytes()].concat();
    for ((name, length), section) in names.iter().zip(lengths).zip(sections) {
        let mut padded = [0; 16];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        list.extend([&padded[..], &length.to_le_bytes(), &Sha256::digest(section)].concat());
    }
    let id = Hex32(Sha256::new_with_prefix(b"fesc model 2\0").chain_update(&list).finalize().into());
    (id, [&list[..], sections[0], sections[1]].concat())
}

/// The same with true names and lengths.
fn joined(sections: [&[u8]; 2]) -> (Hex32, Vec<u8>) {
    forged(["card", "rlwe"], sections.map(|s| s.len() as u64), sections)
}

/// Why it is refused as the part of this id.
fn refused_as(id: Hex32, bytes: &[u8]) -> SessionError {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("part");
    fs::write(&path, bytes).unwrap();
    Known::open(File::open(&path).unwrap(), id, "no").err().expect("refused")
}

fn refused(hosted: &Hosted, bytes: &[u8]) -> SessionError {
    refused_as(hosted.id, bytes)
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
    let [card, setup] = sections(&bytes);
    // The format as this test has it is the one that is written.
    assert_eq!(joined([card, setup]), (ours.id, bytes.clone()));
    let malformed = |(id, bytes): (Hex32, Vec<u8>)| {
        let error = refused_as(id, &bytes);
        assert!(matches!(error, SessionError::Malformed { .. }), "{error}");
    };
    // The same shape, other weights: everything parses, and it is another model.
    let other = written(&hosted(small(), 2));
    assert!(matches!(refused(&ours, &other), SessionError::WrongModel { .. }));
    // A server that names its own id: our card with hints and table of another shape, or of more tokens, and
    // the other way round.
    for shape in
        [Shape { d_model: 16, ..small() }, Shape { vocab: VOCAB + 1, ..small() }, Shape { layers: 2, ..small() }]
    {
        let theirs = written(&hosted(shape, 1));
        let [their_card, their_setup] = sections(&theirs);
        malformed(joined([card, their_setup]));
        malformed(joined([their_card, setup]));
    }
    // Lengths that lie: a card of 2^63 bytes, of one byte less or more than there are, or of none.
    let names = ["card", "rlwe"];
    let all = (card.len() + setup.len()) as u64;
    let (id, long) = forged(names, [1 << 63, setup.len() as u64], [card, setup]);
    assert!(matches!(refused_as(id, &long), SessionError::Malformed { .. } | SessionError::TooLarge { .. }));
    for length in [0, card.len() as u64 - 1, card.len() as u64 + 1] {
        let (id, lying) = forged(names, [length, all - length], [card, setup]);
        assert!(matches!(refused_as(id, &lying), SessionError::Malformed { .. } | SessionError::WrongModel { .. }));
    }
    malformed(forged(["rlwe", "card"], [card.len() as u64, setup.len() as u64], [card, setup]));
    malformed(forged(["card", "ckks"], [card.len() as u64, setup.len() as u64], [card, setup]));
    malformed((ours.id, [&bytes[..], b"x"].concat()));
    malformed((ours.id, b"FESCmod1 and nothing of ours behind it".to_vec()));
    malformed(joined([b"{}", setup]));
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
