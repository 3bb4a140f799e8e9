//! The ring `Z_2^k` for `k` up to 127: integers of the share boundary, which need more than a word.
//!
//! Elements live in `u128`. The wire form of a vector is its low words, 64 bits each, and then its high parts
//! of `k - 64` bits; up to 64 bits it is the form of [`Ring`].
//!
//! Operations are those of plain integers: constant time wherever they are.

use zeroize::Zeroizing;

use crate::{Prg, Ring, RingError};

/// The widest: the centred representative and its negative fit an `i128`.
const MAX_BITS: u32 = 127;

/// The ring of integers modulo `2^bits`, wider than a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LongRing {
    bits: u32,
    /// How low words are packed.
    low: Ring,
    /// How what is above them is packed.
    high: Option<Ring>,
}

impl LongRing {
    /// The ring `Z_2^bits`.
    ///
    /// # Errors
    /// [`RingError::LongWidth`] outside 1..=127.
    pub fn new(bits: u32) -> Result<Self, RingError> {
        if bits == 0 || bits > MAX_BITS {
            return Err(RingError::LongWidth { bits });
        }
        Ok(Self { bits, low: Ring::new(bits.min(64))?, high: Ring::new(bits.saturating_sub(64)).ok() })
    }

    /// The width `k` in bits.
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// The ring of the low words.
    pub const fn low(self) -> Ring {
        self.low
    }

    /// The ring of what is above the low words, if the width is above 64.
    pub const fn high(self) -> Option<Ring> {
        self.high
    }

    /// The representative of `x` in `0..2^k`.
    pub const fn reduce(self, x: u128) -> u128 {
        x & (u128::MAX >> (128 - self.bits))
    }

    /// `a + b`.
    pub const fn add(self, a: u128, b: u128) -> u128 {
        self.reduce(a.wrapping_add(b))
    }

    /// `a - b`.
    pub const fn sub(self, a: u128, b: u128) -> u128 {
        self.reduce(a.wrapping_sub(b))
    }

    /// The centred representative in `-2^(k-1) .. 2^(k-1)`.
    pub const fn to_signed(self, a: u128) -> i128 {
        let shift = 128 - self.bits;
        ((a << shift) as i128) >> shift
    }

    /// The class of a signed integer.
    pub const fn from_signed(self, a: i128) -> u128 {
        self.reduce(a as u128)
    }

    /// `count` uniform elements.
    pub fn sample(self, prg: &mut Prg, count: usize) -> Zeroizing<Vec<u128>> {
        let mut out = Zeroizing::new(vec![0; count]);
        prg.fill_u128(&mut out);
        out.iter_mut().for_each(|x| *x = self.reduce(*x));
        out
    }

    /// Bytes of the packed form of `count` elements; `usize::MAX` if that number does not fit.
    pub fn packed_len(self, count: usize) -> usize {
        self.low.packed_len(count).saturating_add(self.high.map_or(0, |r| r.packed_len(count)))
    }

    /// Packs elements into the wire form. Elements are reduced on the way.
    pub fn pack(self, values: &[u128]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.packed_len(values.len()));
        let words = |shift: u32| Zeroizing::new(values.iter().map(|&x| (x >> shift) as u64).collect::<Vec<u64>>());
        self.low.pack_into(&mut out, &words(0));
        if let Some(high) = self.high {
            high.pack_into(&mut out, &words(64));
        }
        out
    }

    /// Reads `count` elements from the wire form.
    ///
    /// # Errors
    /// [`RingError::PackedLength`] or [`RingError::Padding`].
    pub fn unpack(self, bytes: &[u8], count: usize) -> Result<Zeroizing<Vec<u128>>, RingError> {
        let (expected, got) = (self.packed_len(count), bytes.len());
        let (low, high) = bytes
            .split_at_checked(self.low.packed_len(count))
            .filter(|_| expected == got)
            .ok_or(RingError::PackedLength { count, bits: self.bits, expected, got })?;
        let low = Zeroizing::new(self.low.unpack(low, count)?);
        let high = self.high.map(|ring| ring.unpack(high, count)).transpose()?.map(Zeroizing::new);
        Ok(Zeroizing::new(self.join(&low, high.as_ref().map_or(&[][..], |h| h))))
    }

    /// Elements from their low words and what is above; missing high parts are zero.
    pub fn join(self, low: &[u64], high: &[u64]) -> Vec<u128> {
        let above = high.iter().copied().chain(std::iter::repeat(0));
        low.iter().zip(above).map(|(&l, h)| self.reduce(u128::from(l) | u128::from(h) << 64)).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn widths_outside_1_to_127_are_refused() {
        for bits in [0, 128, u32::MAX] {
            assert_eq!(LongRing::new(bits), Err(RingError::LongWidth { bits }));
        }
    }

    #[test]
    fn every_width_packs_and_adds_as_integers_do() {
        let mut prg = Prg::from_seed([5; 16]);
        for bits in 1..=127 {
            let ring = LongRing::new(bits).unwrap();
            for count in [0, 1, 7, 65] {
                let (a, b) = (ring.sample(&mut prg, count), ring.sample(&mut prg, count));
                let packed = ring.pack(&a);
                assert_eq!(packed.len(), ring.packed_len(count));
                assert_eq!(*ring.unpack(&packed, count).unwrap(), *a, "{bits} bits");
                assert!(ring.unpack(&packed, count + 8).is_err());
                for (&x, &y) in a.iter().zip(b.iter()) {
                    assert!(x >> bits == 0 && ring.sub(ring.add(x, y), y) == x);
                    let signed = ring.to_signed(x);
                    assert!((-(1i128 << (bits - 1))..=!(-(1i128 << (bits - 1)))).contains(&signed));
                    assert_eq!(ring.from_signed(signed), x);
                }
            }
        }
        let ring = LongRing::new(90).unwrap();
        assert_eq!((ring.packed_len(3), ring.to_signed(1 << 89), ring.to_signed((1 << 90) - 1)), (34, -(1 << 89), -1));
        let mut bytes = ring.pack(&[1, 2, 3]);
        bytes[33] |= 0x80;
        assert_eq!(ring.unpack(&bytes, 3), Err(RingError::Padding));
    }
}
