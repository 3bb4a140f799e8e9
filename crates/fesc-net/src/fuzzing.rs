//! Bodies of the fuzz targets, and the replay of their corpora on the stable toolchain.
//!
//! A target is a function of bytes that must not panic; what it asserts beyond that is its own business. The
//! pattern, for any crate: the body lives here (or in a module like this one), `fuzz/fuzz_targets/NAME.rs` is
//! three lines that call it, `fuzz/corpus/NAME/` holds a few small inputs, and an ordinary test calls
//! [`replay`] with the same body.

use std::io;
use std::path::Path;

use crate::frame::{Expected, FRAME_VERSION, Tag, decode_header};
use crate::hello::{HELLO_BYTES, Hello, Role, decode_hello};
use crate::reader::FrameReader;

/// The frame header: what is accepted is exactly what was expected, and encodes to the same bytes.
///
/// # Panics
/// When the decoder accepts something else.
pub fn frame_header(data: &[u8]) {
    let Some((bytes, rest)) = data.split_first_chunk::<16>() else { return };
    let Some((wish, _)) = rest.split_first_chunk::<16>() else { return };
    // The second half plays the receiver's expectation, so that the fuzzer can make the two meet.
    let wish = crate::frame::Header::parse(wish);
    let expected = Expected {
        tag: wish.tag,
        len: wish.len,
        sequence: wish.sequence,
        min_depth: wish.depth.min(u32::from(wish.version)),
        max_depth: wish.depth,
    };
    if let Ok(header) = decode_header(bytes, &expected) {
        assert_eq!(header.encode(), *bytes);
        assert_eq!((header.tag, header.sequence, header.len), (expected.tag, expected.sequence, expected.len));
        assert_eq!(header.version, FRAME_VERSION);
        assert!((expected.min_depth..=expected.max_depth).contains(&header.depth));
    }
}

/// The hello: the only bytes accepted are the expected ones.
///
/// # Panics
/// When the decoder accepts something else.
pub fn hello(data: &[u8]) {
    let Some((bytes, rest)) = data.split_first_chunk::<HELLO_BYTES>() else { return };
    let role = if rest.first().is_some_and(|b| b & 1 == 1) { Role::Server } else { Role::Client };
    let expected = Hello { role, session: [0x11; 32], binding: [0x22; 32] };
    assert_eq!(decode_hello(bytes, &expected).is_ok(), *bytes == expected.encode());
}

/// A whole stream of frames of one kind: never more payload than arrived, never a frame out of step.
///
/// # Panics
/// When the reader returns a frame that is not in the bytes.
pub fn frames(data: &[u8]) {
    let Some((&len, mut stream)) = data.split_first() else { return };
    let mut left = stream;
    let mut reader = FrameReader::new(&mut stream, std::time::Duration::ZERO);
    for sequence in 0.. {
        let expected =
            Expected { tag: Tag(0x0300), len: u32::from(len), sequence, min_depth: 1, max_depth: sequence + 1 };
        let Ok((header, payload)) = reader.frame(&expected) else { return };
        for part in [&header.encode()[..], &payload] {
            assert_eq!(left.split_off(..part.len()), Some(part));
        }
    }
}

/// Runs `body` on every file of `corpus` and on `mutations` changed copies of each; returns how many inputs
/// were run. The changes depend only on the file's content, so a failure comes back on every run.
pub fn replay(corpus: &Path, mutations: usize, body: fn(&[u8])) -> io::Result<usize> {
    let mut runs = 0;
    for entry in std::fs::read_dir(corpus)? {
        let data = std::fs::read(entry?.path())?;
        body(&data);
        let mut random = Xorshift::new(&data);
        for _ in 0..mutations {
            body(&random.mutate(&data));
        }
        runs += 1 + mutations;
    }
    Ok(runs)
}

/// Not for secrets: it only chooses test inputs, and must be the same on every run.
struct Xorshift(u64);

impl Xorshift {
    fn new(data: &[u8]) -> Xorshift {
        // FNV-1a.
        let hash =
            data.iter().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
        Xorshift(hash | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn mutate(&mut self, data: &[u8]) -> Vec<u8> {
        let mut out = data.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(out.len());
            match self.below(6) {
                0 => out.truncate(at),
                1 => out.insert(at, self.next() as u8),
                2 => out.extend_from_within(at..),
                3 => {
                    if let Some(b) = out.get_mut(at) {
                        *b ^= 1 << self.below(8);
                    }
                }
                4 => {
                    if let Some(b) = out.get_mut(at) {
                        *b = *[0, 1, 0x7f, 0x80, 0xff].get(self.below(5)).unwrap_or(&0);
                    }
                }
                _ => {
                    let other = self.below(out.len());
                    if at < out.len() {
                        out.swap(at, other);
                    }
                }
            }
            out.truncate(1 << 16);
        }
        out
    }
}
