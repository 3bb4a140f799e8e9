#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// All documents of a file with these bytes, or the first error.
fn read(bytes: &[u8]) -> Result<Vec<Document>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    Documents::open(file.path())?.collect()
}

/// The line and the reason of the error that these bytes give.
fn fault(bytes: &[u8]) -> (usize, String) {
    match read(bytes) {
        Err(ModelError::Data { line, reason, .. }) => (line, reason),
        other => panic!("{other:?}"),
    }
}

fn lines(count: usize) -> Vec<u8> {
    let one = |i: usize| {
        format!(
            "{{\"id\": \"case-{i}\", \"date\": \"1946-11-18\", \"label\": {}, \"text\": \"the text of {i}, \\u00a7 {i}\\n\"}}\n",
            i % 13
        )
    };
    (0..count).map(one).collect::<String>().into_bytes()
}

#[test]
fn plain_and_compressed_files_give_the_same_documents() {
    let plain = lines(5000);
    let documents = read(&plain).unwrap();
    assert_eq!(documents.len(), 5000);
    let expected =
        Document { line: 18, id: Some("case-17".into()), label: 4, text: "the text of 17, \u{a7} 17\n".into() };
    assert_eq!(documents[17], expected);
    assert!(!format!("{expected:?}").contains("text of"), "{expected:?}");
    assert_eq!(read(&zstd(&plain)).unwrap(), documents);
    // Two frames with a skippable one before, between and after, cut in the middle of a line.
    let skip = [&[0x53, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"extra"].concat();
    let (a, b) = plain.split_at(70_001);
    let parts = [&skip[..], &zstd(a), &skip, &zstd(b""), &zstd(b), &skip].concat();
    assert_eq!(read(&parts).unwrap(), documents);
}

#[test]
fn blank_lines_windows_ends_and_a_missing_last_newline_are_fine() {
    let documents = read(b"\n  \r\n{\"text\": \"a\", \"label\": 0}\r\n\n{\"label\": 1, \"text\": \"\"}").unwrap();
    let seen: Vec<_> = documents.iter().map(|d| (d.line, d.label, d.text.as_str(), d.id.is_none())).collect();
    assert_eq!(seen, [(3, 0, "a", true), (5, 1, "", true)]);
    assert!(read(b"").unwrap().is_empty());
    assert!(read(b"\n\n").unwrap().is_empty());
    assert!(read(&zstd(b"")).unwrap().is_empty());
}

#[test]
fn a_wrong_line_is_named() {
    let good = "{\"label\": 1, \"text\": \"x\"}\n";
    for (line, needle) in [
        ("{\"label\": 1}", "missing field `text`"),
        ("{\"text\": \"x\"}", "missing field `label`"),
        ("{\"label\": -1, \"text\": \"x\"}", "-1"),
        ("{\"label\": 1.5, \"text\": \"x\"}", "1.5"),
        ("{\"label\": \"1\", \"text\": \"x\"}", "string"),
        ("{\"label\": 65536, \"text\": \"x\"}", "65536"),
        ("{\"label\": 1, \"text\": \"x\", \"text\": \"y\"}", "duplicate"),
        ("{\"label\": 1, \"text\": \"x\"", "EOF"),
        ("{\"label\": 1, \"text\": \"x\"} {}", "trailing"),
        ("[1, \"x\"]", "object"),
        ("plain words", "expected"),
    ] {
        let (at, reason) = fault(format!("{good}\n{line}\n{good}").as_bytes());
        assert_eq!(at, 3, "{line}");
        assert!(reason.contains(needle) && !reason.contains("line 1"), "{line}: {reason}");
    }
    let (at, reason) = fault(b"{\"label\": 1, \"text\": \"\xff\xfe\"}");
    assert!(at == 1 && reason.contains("unicode"), "{reason}");
    let deep = format!("{{\"label\": 1, \"text\": \"x\", \"more\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(read(deep.as_bytes()).unwrap().len(), 1, "what is passed over may be as deep as it likes");
    let (_, reason) = fault(format!("{{\"label\": \"{}\", \"text\": \"x\"}}", "secret ".repeat(1000)).as_bytes());
    assert!(reason.len() <= 200, "{} bytes", reason.len());
}

#[test]
fn nothing_follows_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [&b"{}\n"[..], &lines(3)].concat()).unwrap();
    let mut documents = Documents::open(file.path()).unwrap();
    assert!(documents.next().unwrap().is_err());
    assert!(documents.next().is_none());
}

#[test]
fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
    let line = |bytes: usize| {
        let frame = "{\"label\": 0, \"text\": \"\"}\n".len();
        format!("{{\"label\": 0, \"text\": \"{}\"}}\n", "x".repeat(bytes - frame)).into_bytes()
    };
    assert_eq!(read(&line(LINE_LIMIT as usize)).unwrap().len(), 1);
    let (at, reason) = fault(&line(LINE_LIMIT as usize + 1));
    assert!(at == 1 && reason.contains("16777216"), "{reason}");
    // A bomb: kilobytes that become one line of a gigabyte. Only the limit of it is ever decoded.
    let block = zstd(&vec![b'x'; 1 << 20]);
    let (_, reason) = fault(&block.repeat(1000));
    assert!(reason.contains("16777216"), "{reason}");
}

#[test]
fn damaged_zstd_is_an_error_and_never_a_panic() {
    let plain = lines(300);
    let good = zstd(&plain);
    let documents = read(&good).unwrap();
    for cut in (4..good.len()).step_by(41).chain([good.len() - 1]) {
        assert!(fault(&good[..cut]).1.contains("zstd"), "cut at {cut}");
    }
    let (mut tried, mut other) = (0, 0);
    for at in (0..good.len()).step_by(7) {
        for change in [0x01, 0x80] {
            let mut bytes = good.clone();
            bytes[at] ^= change;
            tried += 1;
            other += usize::from(read(&bytes).is_ok_and(|found| found != documents));
        }
    }
    assert!(tried > 500 && other == 0, "{other} of {tried} changed files gave other documents");
    let mut garbage = good.clone();
    garbage.extend(b"garbage");
    assert!(fault(&garbage).1.contains("zstd"));
    let skip = [0x53, 0x2a, 0x4d, 0x18, 9, 0, 0, 0, 1];
    assert!(fault(&skip).1.contains("skippable"));
}

#[test]
fn a_window_beyond_the_limit_is_refused() {
    // Magic, descriptor without content size, window descriptor (exponent e: 2^(10+e)), one empty last raw
    // block.
    let frame = |exponent: u8| [0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3, 1, 0, 0];
    assert!(read(&frame(15)).unwrap().is_empty(), "32 MiB is taken");
    assert!(fault(&frame(16)).1.contains("zstd"));
    assert!(fault(&frame(31)).1.contains("zstd"));
}

#[test]
fn a_file_that_is_not_there_is_an_error_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Documents::open(&dir.path().join("none")), Err(ModelError::Io { .. })));
    let of_directory = Documents::open(dir.path()).and_then(|d| d.collect::<Result<Vec<_>>>());
    assert!(matches!(of_directory, Err(ModelError::Io { .. } | ModelError::Data { .. })));
}
