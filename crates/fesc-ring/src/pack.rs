//! The wire form of ring vectors: `n` elements of `l` bits each, without gaps, least significant bit first.
//!
//! The form has `ceil(n * l / 8)` bytes; the unused high bits of the last byte are zero and are checked on
//! arrival.
//!
//! Widths 8, 16, 32, 48 and 64 have loops of their own. All others go through groups of 64 elements, which
//! fill exactly `l` words, so that every group starts on a byte boundary. Plain integer code: it runs at
//! memory speed without SIMD.

use crate::{Ring, RingError};

/// Elements in a group. 64 elements of `l` bits are `l` words, whatever `l` is.
const GROUP: usize = 64;

impl Ring {
    /// Bytes of the packed form of `count` elements; `usize::MAX` if that number does not fit.
    pub const fn packed_len(self, count: usize) -> usize {
        let bytes = (count as u128 * self.bits() as u128).div_ceil(8);
        if bytes > usize::MAX as u128 { usize::MAX } else { bytes as usize }
    }

    /// Packs elements into the wire form. Elements are reduced on the way.
    pub fn pack(self, values: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        self.pack_into(&mut out, values);
        out
    }

    /// Appends the wire form of `values` to `out`. It starts on a byte boundary.
    pub fn pack_into(self, out: &mut Vec<u8>, values: &[u64]) {
        let start = out.len();
        out.resize(start + self.packed_len(values.len()), 0);
        self.pack_to(&mut out[start..], values);
    }

    /// Writes the wire form of `values` over `dst`.
    ///
    /// # Panics
    /// If `dst` does not have [`Ring::packed_len`] bytes.
    pub fn pack_to(self, dst: &mut [u8], values: &[u64]) {
        assert_eq!(dst.len(), self.packed_len(values.len()), "a packed form needs its own number of bytes");
        match self.bits() {
            8 => store::<1>(dst, values),
            16 => store::<2>(dst, values),
            32 => store::<4>(dst, values),
            48 => store48(dst, values),
            64 => store::<8>(dst, values),
            bits => {
                for (group, bytes) in values.chunks(GROUP).zip(dst.chunks_mut(bits as usize * 8)) {
                    let words = pack_group(self, group);
                    write_words(bytes, &words);
                }
            }
        }
    }

    /// Reads `count` elements from the wire form; refuses a wrong length or non-zero padding.
    pub fn unpack(self, bytes: &[u8], count: usize) -> Result<Vec<u64>, RingError> {
        // Before the allocation: `count` must not cost memory that the sender did not pay for in bytes.
        self.check_packed(bytes, count)?;
        let mut out = vec![0; count];
        self.unpack_into(bytes, &mut out)?;
        Ok(out)
    }

    /// Reads as many elements as `out` has; refuses a wrong length or non-zero padding and then leaves `out`
    /// as it was.
    pub fn unpack_into(self, bytes: &[u8], out: &mut [u64]) -> Result<(), RingError> {
        self.check_packed(bytes, out.len())?;
        match self.bits() {
            8 => load::<1>(out, bytes),
            16 => load::<2>(out, bytes),
            32 => load::<4>(out, bytes),
            48 => load48(out, bytes),
            64 => load::<8>(out, bytes),
            bits => {
                for (group, chunk) in out.chunks_mut(GROUP).zip(bytes.chunks(bits as usize * 8)) {
                    unpack_group(self, &read_words(chunk), group);
                }
            }
        }
        Ok(())
    }

    /// [`Ring::unpack_into`] of residues: whether all of them are below `modulus`. The whole vector is read
    /// before the answer.
    pub fn unpack_residues(self, bytes: &[u8], modulus: u64, out: &mut [u64]) -> Result<bool, RingError> {
        self.unpack_into(bytes, out)?;
        Ok(out.iter().fold(0, |most, &x| most.max(x)) < modulus)
    }

    fn check_packed(self, bytes: &[u8], count: usize) -> Result<(), RingError> {
        let expected = self.packed_len(count);
        if bytes.len() != expected {
            return Err(RingError::PackedLength { count, bits: self.bits(), expected, got: bytes.len() });
        }
        // Only the low three bits of the product matter, so it may wrap.
        let used = count.wrapping_mul(self.bits() as usize) % 8;
        match bytes.last() {
            Some(&last) if used != 0 && last >> used != 0 => Err(RingError::Padding),
            _ => Ok(()),
        }
    }
}

/// Elements of `W` whole bytes.
fn store<const W: usize>(dst: &mut [u8], values: &[u64]) {
    for (d, v) in dst.as_chunks_mut::<W>().0.iter_mut().zip(values) {
        d.copy_from_slice(&v.to_le_bytes()[..W]);
    }
}

fn load<const W: usize>(out: &mut [u64], bytes: &[u8]) {
    for (o, b) in out.iter_mut().zip(bytes.as_chunks::<W>().0) {
        let mut word = [0; 8];
        word[..W].copy_from_slice(b);
        *o = u64::from_le_bytes(word);
    }
}

/// 48 bits: four elements are three words.
fn store48(dst: &mut [u8], values: &[u64]) {
    const MASK: u64 = u64::MAX >> 16;
    let (quads, rest) = values.as_chunks::<4>();
    let (dst_quads, dst_rest) = dst.split_at_mut(quads.len() * 24);
    for (d, q) in dst_quads.as_chunks_mut::<24>().0.iter_mut().zip(quads) {
        let [a, b, c, e] = q.map(|v| v & MASK);
        d[..8].copy_from_slice(&(a | b << 48).to_le_bytes());
        d[8..16].copy_from_slice(&(b >> 16 | c << 32).to_le_bytes());
        d[16..].copy_from_slice(&(c >> 32 | e << 16).to_le_bytes());
    }
    store::<6>(dst_rest, rest);
}

fn load48(out: &mut [u64], bytes: &[u8]) {
    const MASK: u64 = u64::MAX >> 16;
    let (quads, rest) = out.as_chunks_mut::<4>();
    let (src_quads, src_rest) = bytes.split_at(quads.len() * 24);
    for (q, s) in quads.iter_mut().zip(src_quads.as_chunks::<8>().0.as_chunks::<3>().0) {
        let [x, y, z] = s.map(u64::from_le_bytes);
        *q = [x & MASK, (x >> 48 | y << 16) & MASK, (y >> 32 | z << 32) & MASK, z >> 16];
    }
    load::<6>(rest, src_rest);
}

/// One group of at most 64 elements. Without branches: every element stores the word it ends up in, finished
/// or not.
fn pack_group(ring: Ring, values: &[u64]) -> [u64; GROUP] {
    let mut words = [0; GROUP];
    let (mut acc, mut filled, mut at) = (0, 0, 0);
    for &v in values {
        let v = ring.reduce(v);
        acc |= v << filled;
        // `at` is below 64 by construction; the mask spares the bounds check.
        words[at % GROUP] = acc;
        let total = filled + ring.bits();
        let full = total >= 64;
        // The part of `v` that did not fit; two shifts, because `filled` may be 0.
        acc = if full { v >> 1 >> (63 - filled) } else { acc };
        at += usize::from(full);
        filled = total % 64;
    }
    // The last element may have begun a word.
    words[at % GROUP] = acc;
    words
}

/// The inverse of [`pack_group`]; `words` has one spare word for the read past the end.
fn unpack_group(ring: Ring, words: &[u64; GROUP + 1], out: &mut [u64]) {
    let mut position = 0;
    for o in out {
        let (at, shift) = (position / 64 % GROUP, position % 64);
        *o = ring.reduce(words[at] >> shift | words[at + 1] << 1 << (63 - shift));
        position += ring.bits() as usize;
    }
}

/// The low bytes of `words`, as many as `bytes` takes.
fn write_words(bytes: &mut [u8], words: &[u64; GROUP]) {
    let (full, tail) = bytes.as_chunks_mut::<8>();
    for (b, w) in full.iter_mut().zip(words) {
        *b = w.to_le_bytes();
    }
    if let Some(w) = words.get(full.len()) {
        tail.copy_from_slice(&w.to_le_bytes()[..tail.len()]);
    }
}

fn read_words(bytes: &[u8]) -> [u64; GROUP + 1] {
    let mut words = [0; GROUP + 1];
    let (full, tail) = bytes.as_chunks::<8>();
    for (w, b) in words.iter_mut().zip(full) {
        *w = u64::from_le_bytes(*b);
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    words[full.len()] = u64::from_le_bytes(last);
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Prg;

    /// The definition, bit by bit.
    fn naive(ring: Ring, values: &[u64]) -> Vec<u8> {
        let bits = ring.bits() as usize;
        let mut out = vec![0u8; (values.len() * bits).div_ceil(8)];
        for (i, v) in values.iter().enumerate() {
            for j in 0..bits {
                let at = i * bits + j;
                out[at / 8] |= ((v >> j & 1) as u8) << (at % 8);
            }
        }
        out
    }

    const LENGTHS: [usize; 16] = [0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 63, 64, 65, 127, 128, 197];

    #[test]
    fn every_width_agrees_with_the_definition() {
        let mut prg = Prg::from_seed([1; 16]);
        for bits in 1..=64 {
            let ring = Ring::new(bits).unwrap();
            for count in LENGTHS {
                let mut values = vec![0; count];
                prg.fill_u64(&mut values);
                let packed = ring.pack(&values);
                assert_eq!(packed, naive(ring, &values), "bits {bits} count {count}");
                ring.reduce_assign(&mut values);
                assert_eq!(ring.unpack(&packed, count).unwrap(), values, "bits {bits} count {count}");
            }
        }
    }

    #[test]
    fn pack_into_appends() {
        for bits in [3, 13, 48, 64] {
            let ring = Ring::new(bits).unwrap();
            let mut out = vec![7, 9];
            ring.pack_into(&mut out, &[1, 2, 5]);
            assert_eq!(out[..2], [7, 9]);
            assert_eq!(out[2..], ring.pack(&[1, 2, 5]));
        }
    }

    #[test]
    fn every_set_padding_bit_is_refused() {
        for bits in 1..=64 {
            let ring = Ring::new(bits).unwrap();
            for count in LENGTHS {
                let used = count * bits as usize % 8;
                let packed = ring.pack(&vec![u64::MAX; count]);
                for bit in used..8 {
                    let mut bad = packed.clone();
                    if used != 0 {
                        *bad.last_mut().unwrap() |= 1 << bit;
                        assert_eq!(ring.unpack(&bad, count), Err(RingError::Padding));
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_lengths_are_refused_without_allocating() {
        for bits in 1..=64 {
            let ring = Ring::new(bits).unwrap();
            for count in LENGTHS {
                let mut packed = ring.pack(&vec![0; count]);
                packed.push(0);
                assert!(matches!(ring.unpack(&packed, count), Err(RingError::PackedLength { .. })));
                packed.pop();
                if packed.pop().is_some() {
                    assert!(matches!(ring.unpack(&packed, count), Err(RingError::PackedLength { .. })));
                }
            }
            assert!(matches!(ring.unpack(&[], usize::MAX), Err(RingError::PackedLength { .. })));
            assert!(matches!(ring.unpack(&[0; 8], usize::MAX / 8), Err(RingError::PackedLength { .. })));
        }
    }

    #[test]
    fn residues_are_below_their_modulus() {
        let ring = Ring::new(5).unwrap();
        let mut out = [0; 8];
        for (value, below) in [(0, true), (22, true), (23, false), (31, false)] {
            for at in 0..8 {
                let mut values = [3; 8];
                values[at] = value;
                assert_eq!(ring.unpack_residues(&ring.pack(&values), 23, &mut out), Ok(below), "{value} at {at}");
                assert_eq!(out, values);
            }
        }
        assert!(ring.unpack_residues(&[0; 4], 23, &mut out).is_err());
    }

    #[test]
    fn a_refused_vector_leaves_the_output_alone() {
        let ring = Ring::new(3).unwrap();
        let mut out = [5; 3];
        assert_eq!(ring.unpack_into(&[0, 0xff], &mut out), Err(RingError::Padding));
        assert_eq!(out, [5; 3]);
    }
}
