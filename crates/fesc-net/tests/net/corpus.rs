//! The fuzz corpora, and random changes of them, on the stable toolchain.

use std::path::Path;

use fesc_net::fuzzing;

fn replay(target: &str, body: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let runs = fuzzing::replay(&corpus, 20_000, body).unwrap();
    assert!(runs > 40_000, "{target}: the corpus in {} has gone", corpus.display());
}

#[test]
fn frame_header() {
    replay("net_frame_header", fuzzing::frame_header);
}

#[test]
fn hello() {
    replay("net_hello", fuzzing::hello);
}

#[test]
fn frames() {
    replay("net_frames", fuzzing::frames);
}

#[test]
fn the_corpus_has_accepted_inputs() {
    // A target that refuses everything would test nothing.
    let read =
        |path: &str| std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(path)).unwrap();
    let header = read("net_frame_header/accepted");
    let header: &[u8; 16] = header.first_chunk().unwrap();
    let h = fesc_net::frame::Header::parse(header);
    let expected = fesc_net::frame::Expected {
        tag: h.tag,
        len: h.len,
        sequence: h.sequence,
        min_depth: h.depth,
        max_depth: h.depth,
    };
    fesc_net::frame::decode_header(header, &expected).unwrap();
    let hello = read("net_hello/accepted");
    let expected =
        fesc_net::hello::Hello { role: fesc_net::hello::Role::Client, session: [0x11; 32], binding: [0x22; 32] };
    fesc_net::hello::decode_hello(hello.first_chunk().unwrap(), &expected).unwrap();
}
