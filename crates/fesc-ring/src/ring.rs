//! The ring `Z_2^l`, `1 <= l <= 64`: elements live in `u64`, reduced to their low `l` bits.
//!
//! Wire form: `n` elements of `l` bits each, packed without gaps, least significant bit first, into
//! `ceil(n * l / 8)` bytes; the unused high bits of the last byte are zero and are checked on arrival.

/// What can be wrong with a ring or a packed vector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The width is outside 1..=64.
    #[error("ring of {bits} bits: the width must be between 1 and 64")]
    Width {
        /// The width asked for.
        bits: u32,
    },
    /// A packed vector has the wrong number of bytes.
    #[error("packed vector of {count} elements of {bits} bits must have {expected} bytes, got {got}")]
    PackedLength {
        /// Number of elements expected.
        count: usize,
        /// Width of an element.
        bits: u32,
        /// Bytes expected.
        expected: usize,
        /// Bytes received.
        got: usize,
    },
    /// The padding bits of the last byte are not zero.
    #[error("packed vector has non-zero padding bits in its last byte")]
    Padding,
}

/// The ring of integers modulo `2^bits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ring {
    bits: u32,
}

impl Ring {
    /// The ring `Z_2^bits`; refuses widths outside 1..=64.
    pub const fn new(bits: u32) -> Result<Self, RingError> {
        if bits == 0 || bits > 64 {
            return Err(RingError::Width { bits });
        }
        Ok(Self { bits })
    }

    /// The width `l` in bits.
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// `2^l - 1`.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The representative of `x` in `0..2^l`.
    pub const fn reduce(self, x: u64) -> u64 {
        x & self.mask()
    }

    /// `a + b`.
    pub const fn add(self, a: u64, b: u64) -> u64 {
        self.reduce(a.wrapping_add(b))
    }

    /// `a - b`.
    pub const fn sub(self, a: u64, b: u64) -> u64 {
        self.reduce(a.wrapping_sub(b))
    }

    /// `a * b`.
    pub const fn mul(self, a: u64, b: u64) -> u64 {
        self.reduce(a.wrapping_mul(b))
    }

    /// `-a`.
    pub const fn neg(self, a: u64) -> u64 {
        self.reduce(a.wrapping_neg())
    }

    /// The centred representative in `-2^(l-1) .. 2^(l-1)`.
    pub const fn to_signed(self, a: u64) -> i64 {
        let shift = 64 - self.bits;
        ((a << shift) as i64) >> shift
    }

    /// The class of a signed integer.
    pub const fn from_signed(self, a: i64) -> u64 {
        self.reduce(a as u64)
    }

    /// Bytes of the packed form of `count` elements.
    pub const fn packed_len(self, count: usize) -> usize {
        (count * self.bits as usize).div_ceil(8)
    }

    /// Packs reduced elements into the wire form.
    pub fn pack(self, values: &[u64]) -> Vec<u8> {
        let bits = self.bits;
        let mut out = Vec::with_capacity(self.packed_len(values.len()) + 16);
        let (mut acc, mut filled) = (0u128, 0u32);
        for &v in values {
            acc |= u128::from(self.reduce(v)) << filled;
            filled += bits;
            if filled >= 64 {
                out.extend_from_slice(&(acc as u64).to_le_bytes());
                acc >>= 64;
                filled -= 64;
            }
        }
        let tail = (acc as u64).to_le_bytes();
        out.extend_from_slice(&tail[..filled.div_ceil(8) as usize]);
        out
    }

    /// Reads `count` elements from the wire form; refuses a wrong length or non-zero padding.
    pub fn unpack(self, bytes: &[u8], count: usize) -> Result<Vec<u64>, RingError> {
        let expected = self.packed_len(count);
        if bytes.len() != expected {
            return Err(RingError::PackedLength { count, bits: self.bits, expected, got: bytes.len() });
        }
        let used = (count * self.bits as usize) % 8;
        if let Some(&last) = bytes.last()
            && used != 0
            && last >> used != 0
        {
            return Err(RingError::Padding);
        }
        let mut out = Vec::with_capacity(count);
        let mut words = bytes.chunks(8).map(|c| {
            let mut w = [0u8; 8];
            w[..c.len()].copy_from_slice(c);
            u64::from_le_bytes(w)
        });
        let (mut acc, mut filled) = (0u128, 0u32);
        for _ in 0..count {
            if filled < self.bits {
                acc |= u128::from(words.next().unwrap_or(0)) << filled;
                filled += 64;
            }
            out.push(self.reduce(acc as u64));
            acc >>= self.bits;
            filled -= self.bits;
        }
        Ok(out)
    }
}
