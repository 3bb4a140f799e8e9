//! Additive shares over `Z_2^l` and XOR shares of bits.
//!
//! A secret `x` is `x0 + x1 mod 2^l`; each party holds one summand. Everything in this module is local: it
//! moves no byte and costs no round.

use fesc_ring::{Prg, Ring};
use zeroize::Zeroize;

use crate::Role;
use crate::error::{MpcError, check_len};

/// One party's share of a vector over `Z_2^l`. No `Debug`: a share is a secret.
#[derive(Clone)]
pub struct Shared {
    ring: Ring,
    values: Vec<u64>,
}

impl Shared {
    /// A share from its values (reduced here).
    pub fn new(ring: Ring, mut values: Vec<u64>) -> Self {
        values.iter_mut().for_each(|v| *v = ring.reduce(*v));
        Self { ring, values }
    }

    /// The share of a public vector: the vector itself at P0, zeros at P1.
    pub fn public(ring: Ring, role: Role, values: &[u64]) -> Self {
        Self::new(ring, values.iter().map(|&v| role.at_p0(v)).collect())
    }

    /// Splits a secret vector into two uniform shares.
    pub fn split(ring: Ring, secret: &[u64], prg: &mut Prg) -> (Self, Self) {
        let first = prg.ring_vec(ring, secret.len());
        let second = secret.iter().zip(&first).map(|(&s, &f)| ring.sub(s, f)).collect();
        (Self { ring, values: first }, Self { ring, values: second })
    }

    /// The secret vector from both shares.
    pub fn join(&self, other: &Self) -> Result<Vec<u64>, MpcError> {
        Ok(self.add(other)?.values.clone())
    }

    /// The ring.
    pub fn ring(&self) -> Ring {
        self.ring
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// This party's summands.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// `[x + y]`.
    pub fn add(&self, other: &Self) -> Result<Self, MpcError> {
        self.zip(other, |a, b| a.wrapping_add(b))
    }

    /// `[x - y]`.
    pub fn sub(&self, other: &Self) -> Result<Self, MpcError> {
        self.zip(other, |a, b| a.wrapping_sub(b))
    }

    /// `[x + c]` for a public constant.
    pub fn add_public(&self, role: Role, c: u64) -> Self {
        self.map(|v| v.wrapping_add(role.at_p0(c)))
    }

    /// `[c x]` for a public integer. In fixed point this moves the scale by that of `c`.
    pub fn scale(&self, c: u64) -> Self {
        self.map(|v| v.wrapping_mul(c))
    }

    /// The elements `range`, as a share of their own.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Result<Self, MpcError> {
        let values = self.values.get(range.clone()).ok_or(MpcError::Shape {
            what: "slice of a shared vector",
            expected: self.len(),
            got: range.end,
        })?;
        Ok(Self { ring: self.ring, values: values.to_vec() })
    }

    /// One vector after the other.
    pub fn concat(parts: &[&Self]) -> Result<Self, MpcError> {
        let ring = parts.first().map(|p| p.ring).ok_or(MpcError::Shape { what: "concat", expected: 1, got: 0 })?;
        let mut values = Vec::with_capacity(parts.iter().map(|p| p.len()).sum());
        for p in parts {
            check_len("ring width of concatenated shares", ring.bits() as usize, p.ring.bits() as usize)?;
            values.extend_from_slice(&p.values);
        }
        Ok(Self { ring, values })
    }

    fn map(&self, f: impl Fn(u64) -> u64) -> Self {
        Self { ring: self.ring, values: self.values.iter().map(|&v| self.ring.reduce(f(v))).collect() }
    }

    fn zip(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Result<Self, MpcError> {
        check_len("length of the second operand", self.len(), other.len())?;
        check_len("ring width of the second operand", self.ring.bits() as usize, other.ring.bits() as usize)?;
        let values = self.values.iter().zip(&other.values).map(|(&a, &b)| self.ring.reduce(f(a, b))).collect();
        Ok(Self { ring: self.ring, values })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.values.zeroize();
    }
}

/// One party's XOR share of a vector of bits, packed 64 to a word, least significant first.
///
/// The unused bits of the last word are shares of unspecified bits: protocols work on whole words.
#[derive(Clone)]
pub struct SharedBits {
    len: usize,
    words: Vec<u64>,
}

impl SharedBits {
    /// A share from packed words; there must be exactly enough of them.
    pub fn new(len: usize, words: Vec<u64>) -> Result<Self, MpcError> {
        check_len("words of packed bits", words_for(len), words.len())?;
        Ok(Self { len, words })
    }

    /// Splits secret bits into two uniform shares.
    pub fn split(bits: &[bool], prg: &mut Prg) -> (Self, Self) {
        let mut first = vec![0u64; words_for(bits.len())];
        prg.fill_u64(&mut first);
        let mut second = first.clone();
        for (i, &b) in bits.iter().enumerate() {
            second[i / 64] ^= u64::from(b) << (i % 64);
        }
        (Self { len: bits.len(), words: first }, Self { len: bits.len(), words: second })
    }

    /// The secret bits from both shares.
    pub fn join(&self, other: &Self) -> Result<Vec<bool>, MpcError> {
        check_len("length of the second bit vector", self.len, other.len)?;
        Ok((0..self.len).map(|i| (self.words[i / 64] ^ other.words[i / 64]) >> (i % 64) & 1 == 1).collect())
    }

    /// Number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no bit.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The packed words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// `[b xor b']`.
    pub fn xor(&self, other: &Self) -> Result<Self, MpcError> {
        check_len("length of the second bit vector", self.len, other.len)?;
        Ok(Self { len: self.len, words: self.words.iter().zip(&other.words).map(|(a, b)| a ^ b).collect() })
    }

    /// One vector of bits after the other.
    pub fn concat(parts: &[&Self]) -> Self {
        let len = parts.iter().map(|p| p.len).sum();
        let mut words = vec![0u64; words_for(len)];
        let mut at = 0;
        for part in parts {
            for i in 0..part.len {
                words[(at + i) / 64] |= (part.words[i / 64] >> (i % 64) & 1) << ((at + i) % 64);
            }
            at += part.len;
        }
        Self { len, words }
    }

    /// The share of the negated bits.
    pub fn not(&self, role: Role) -> Self {
        let flip = role.at_p0(u64::MAX);
        Self { len: self.len, words: self.words.iter().map(|w| w ^ flip).collect() }
    }
}

impl Drop for SharedBits {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

/// Words that hold `len` bits.
pub(crate) const fn words_for(len: usize) -> usize {
    len.div_ceil(64)
}
