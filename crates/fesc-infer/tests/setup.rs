//! What is made once per model: deterministic in master seed and weights, fresh for every change, safe to read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use fesc_infer::session::SessionError;
use fesc_infer::session::public::{Hosted, Known};
use fesc_infer::{ClientSetup, Embedding, ServerSetup};
use fesc_model::Shape;

fn small() -> Shape {
    Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, groups: 1, norm_groups: 1, ..shape() }
}

fn written(setup: &ClientSetup) -> Vec<u8> {
    let mut bytes = Vec::new();
    setup.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn the_same_master_and_weights_give_the_same_setup() {
    let make = |seed, master| ServerSetup::new(twin(small(), 40, seed), [master; 32]).unwrap();
    let (first, again) = (make(1, 7), make(1, 7));
    assert_eq!(first.client_setup().digest().unwrap(), again.client_setup().digest().unwrap());
    let first = written(first.client_setup());
    assert_eq!(first, written(again.client_setup()));
    // Another master, or other weights: seeds and hints have nothing in common. Equal elements would be chance: 2^-48 each.
    for other in [make(1, 8), make(2, 7)] {
        let other = written(other.client_setup());
        assert_eq!(first.len(), other.len());
        let (a, b) = (&first[73..], &other[73..]);
        let equal = a.chunks_exact(6).zip(b.chunks_exact(6)).filter(|(a, b)| a == b).count();
        assert_eq!(equal, 0);
    }
}

#[test]
fn what_is_written_is_read() {
    for embedding in [Embedding::Encrypted, Embedding::Public] {
        let server = ServerSetup::with_embedding(twin(small(), 40, 1), [7; 32], embedding).unwrap();
        let (setup, outline) = (server.client_setup(), server.outline().unwrap());
        let bytes = written(setup);
        assert_eq!(bytes.len() as u64, ClientSetup::bytes(outline, embedding).unwrap());
        let read = ClientSetup::read(&mut bytes.as_slice(), outline).unwrap();
        assert_eq!(read.digest().unwrap(), setup.digest().unwrap());
        assert_eq!(read.embedding(), embedding);
        assert_eq!(read.outline_digest(), outline.digest().unwrap());
        assert_eq!(written(&read), bytes);
    }
}

/// Hints in a file: the same setup, also behind other bytes, and hints come out as they went in.
#[test]
fn hints_may_stay_in_their_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("public");
    let make = || twin(Shape { layers: 2, ..small() }, 40, 1);
    for embedding in [Embedding::Encrypted, Embedding::Public] {
        let memory = ServerSetup::with_embedding(make(), [7; 32], embedding).unwrap();
        let filed = ServerSetup::in_file(make(), [7; 32], embedding, &path).unwrap();
        let bytes = written(memory.client_setup());
        assert_eq!(filed.client_setup().digest().unwrap(), memory.client_setup().digest().unwrap());
        assert_eq!(written(filed.client_setup()), bytes);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left aside");
        // A client's: behind a header of its own.
        let inside = tempfile::tempdir().unwrap();
        let path = inside.path().join("known");
        std::fs::write(&path, [&[1; 77][..], &bytes, b"end"].concat()).unwrap();
        let outline = memory.outline().unwrap();
        let read = ClientSetup::open(std::fs::File::open(&path).unwrap(), 77, outline).unwrap();
        assert_eq!(read.digest().unwrap(), memory.client_setup().digest().unwrap());
        assert_eq!(written(&read), bytes);
        for end in [0, 77, 100, 77 + 73 + 5000, 77 + bytes.len() - 1] {
            std::fs::write(&path, &[&[1; 77][..], &bytes].concat()[..end]).unwrap();
            assert!(ClientSetup::open(std::fs::File::open(&path).unwrap(), 77, outline).is_err(), "{end}");
        }
    }
}

#[test]
fn cut_foreign_and_damaged_setups_are_refused_or_have_another_digest() {
    let server = ServerSetup::new(twin(small(), 40, 1), [7; 32]).unwrap();
    let other = ServerSetup::new(twin(Shape { vocab: 41, ..small() }, 40, 1), [7; 32]).unwrap();
    let outline = server.outline().unwrap();
    let bytes = written(server.client_setup());
    for end in [0, 7, 8, 40, 72, 73, 1000, bytes.len() - 1] {
        assert!(ClientSetup::read(&mut &bytes[..end], outline).is_err(), "{end}");
    }
    assert!(ClientSetup::read(&mut bytes.as_slice(), other.outline().unwrap()).is_err(), "another model");
    for at in [0, 8, 9] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        assert!(ClientSetup::read(&mut bytes.as_slice(), outline).is_err(), "{at}");
    }
    for at in [41, 73, bytes.len() - 1] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        let read = ClientSetup::read(&mut bytes.as_slice(), outline).unwrap();
        assert_ne!(read.digest().unwrap(), server.client_setup().digest().unwrap(), "{at}");
    }
}

/// The whole public part in a file: as in memory, and cut, longer or changed files are refused.
#[test]
fn a_public_part_may_stay_in_its_file() {
    let hosted = Hosted::new(ServerSetup::new(twin(small(), 40, 1), [7; 32]).unwrap(), Some("words".into())).unwrap();
    let mut bytes = Vec::new();
    hosted.write(&mut bytes).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("public");
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Known::open(std::fs::File::open(&path).unwrap(), hosted.id, "no")
    };
    let memory = Known::read(&mut bytes.as_slice(), hosted.id, "no").unwrap();
    let file = open(&bytes).unwrap();
    assert_eq!((file.id, file.outline_digest, &file.tokenizer), (memory.id, memory.outline_digest, &memory.tokenizer));
    assert!(written(&file.setup) == written(&memory.setup));
    assert!(matches!(open(&[&bytes[..], b"x"].concat()), Err(SessionError::Malformed { .. })));
    for end in [0, 15, 16, 100, bytes.len() / 2, bytes.len() - 1] {
        assert!(matches!(open(&bytes[..end]), Err(SessionError::Malformed { .. })), "{end}");
    }
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert!(matches!(open(&bytes), Err(SessionError::WrongModel { .. })));
}
