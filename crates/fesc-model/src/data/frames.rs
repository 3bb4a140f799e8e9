//! A zstd stream of any number of frames as a reader (RFC 8878), decoded by `ruzstd`.
//!
//! That library decodes one frame; what lies between frames is done here: the next frame, skippable frames,
//! the checksum of a frame that has one, and the end. Frames that need a dictionary or too large a window are
//! refused.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::WINDOW_LIMIT;

/// Whether a file that begins with these bytes is zstd: a frame, or a skippable frame.
pub(super) fn begins(first: &[u8]) -> bool {
    match first.first_chunk() {
        Some([0x28, 0xb5, 0x2f, 0xfd]) => true,
        Some([low, 0x2a, 0x4d, 0x18]) => (0x50..=0x5f).contains(low),
        _ => false,
    }
}

pub(super) struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_LIMIT);
        Self { source, decoder, inside: false }
    }

    /// Goes to the beginning of the next frame; false at the end of the file.
    fn enter(&mut self) -> io::Result<bool> {
        if self.source.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.reset(&mut self.source) {
            Ok(()) => self.inside = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let skipped = io::copy(&mut Read::by_ref(&mut self.source).take(length.into()), &mut io::sink())?;
                if skipped != u64::from(length) {
                    return Err(bad("the file ends inside a skippable frame".into()));
                }
            }
            Err(e) => return Err(bad(e.to_string())),
        }
        Ok(true)
    }

    /// Holds a finished frame to its checksum.
    fn leave(&mut self) -> io::Result<()> {
        self.inside = false;
        let (stored, found) = (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
        if stored.is_some() && stored != found {
            return Err(bad("the checksum of a frame is wrong".into()));
        }
        Ok(())
    }
}

fn bad(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("damaged zstd data: {reason}"))
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.inside {
                if !self.enter()? {
                    return Ok(0);
                }
            } else if self.decoder.can_collect() > 0 {
                return self.decoder.read(out);
            } else if self.decoder.is_finished() {
                self.leave()?;
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(|e| bad(e.to_string()))?;
            }
        }
    }
}
