//! Correlations on single bits, packed 64 to a word.

use fesc_ring::{LongRing, Ring};

use super::{FieldSpec, Material, check_elements};
use crate::Role;
use crate::error::{MpcError, check_range};
use crate::party::WORDS;

/// AND triples: one operand `b` shared by `width` products: `a_j`, `c_j = a_j and b`, all XOR-shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitTriples {
    /// Words of 64 gates.
    pub words: usize,
    /// Products per gate with the common operand: 1 or 2.
    pub width: usize,
}

impl BitTriples {
    /// Field of the common operand `b`.
    pub(crate) const COMMON: usize = 0;

    /// Field of the operand `a_j`.
    pub(crate) const fn operand(j: usize) -> usize {
        1 + 2 * j
    }

    /// Field of the product `c_j`.
    pub(crate) const fn product(j: usize) -> usize {
        2 + 2 * j
    }

    pub(super) fn validate(&self) -> Result<(), MpcError> {
        check_range("width of AND triples", self.width as u64, 1, 2)?;
        check_elements(&[self.words])
    }

    pub(super) fn layout(&self, role: Role) -> Vec<FieldSpec> {
        let mut fields = vec![FieldSpec::ring(WORDS, self.words, true)];
        for _ in 0..self.width {
            fields.push(FieldSpec::ring(WORDS, self.words, true));
            fields.push(FieldSpec::ring(WORDS, self.words, role == Role::P0));
        }
        fields
    }

    pub(super) fn complete(&self, m0: &mut Material, m1: &mut Material) {
        for j in 0..self.width {
            let (a, c) = (Self::operand(j), Self::product(j));
            let product = (0..self.words)
                .map(|w| {
                    let b = m0.ring(Self::COMMON)[w] ^ m1.ring(Self::COMMON)[w];
                    (m0.ring(a)[w] ^ m1.ring(a)[w]) & b ^ m0.ring(c)[w]
                })
                .collect();
            *m1.ring_mut(c) = product;
        }
    }
}

/// A random bit `u` of P0, a random bit `v` of P1, and additive shares of `u v` modulo `2^s`.
///
/// It turns the product of two private bits into one bit each way: the heart of known-sign truncation and of
/// ring extension, where the wrap bit is `m0 + m1 - m0 m1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitProducts {
    /// The ring of the shares.
    pub ring: Ring,
    /// Words of 64 products.
    pub words: usize,
}

impl BitProducts {
    /// Field of this party's bits (`u` or `v`).
    pub(crate) const BITS: usize = BITS;
    /// Field of the shares of `u v`.
    pub(crate) const SHARES: usize = SHARES;

    pub(super) fn validate(&self) -> Result<(), MpcError> {
        check_elements(&[self.words, 64])
    }

    pub(super) fn layout(&self, role: Role) -> Vec<FieldSpec> {
        bits_and_shares(self.ring, self.words, role)
    }

    pub(super) fn complete(&self, m0: &mut Material, m1: &mut Material) {
        share_bits(self.ring, m0, m1, |u, v| u & v);
    }
}

/// [`BitProducts`] with shares modulo `2^s` for `s` above 64: ring extension at the share boundary, where
/// integers are wider than a word. A share is its low word and, in a field of its own, what is above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongBitProducts {
    /// The ring of the shares: 65 bits or more.
    pub ring: LongRing,
    /// Words of 64 products.
    pub words: usize,
}

impl LongBitProducts {
    /// Field of this party's bits (`u` or `v`).
    pub(crate) const BITS: usize = BITS;
    /// Field of the shares' low words.
    pub(crate) const LOW: usize = SHARES;
    /// Field of what is above them.
    pub(crate) const HIGH: usize = SHARES + 1;

    pub(super) fn validate(&self) -> Result<(), MpcError> {
        check_range("width of long bit products", self.ring.bits().into(), 65, 127)?;
        check_elements(&[self.words, 64])
    }

    pub(super) fn layout(&self, role: Role) -> Vec<FieldSpec> {
        let mut fields = bits_and_shares(self.ring.low(), self.words, role);
        fields.extend(self.ring.high().map(|ring| FieldSpec::ring(ring, 64 * self.words, role == Role::P0)));
        fields
    }

    pub(super) fn complete(&self, m0: &mut Material, m1: &mut Material) {
        let bits = m0.ring(BITS).iter().zip(m1.ring(BITS)).map(|(&u, &v)| u & v).collect::<Vec<u64>>();
        let shares = self.ring.join(m0.ring(Self::LOW), m0.ring(Self::HIGH));
        let rest = shares.iter().enumerate().map(|(i, &s)| self.ring.sub((bits[i / 64] >> (i % 64) & 1).into(), s));
        let rest: Vec<u128> = rest.collect();
        *m1.ring_mut(Self::LOW) = rest.iter().map(|&s| s as u64).collect();
        *m1.ring_mut(Self::HIGH) = rest.iter().map(|&s| (s >> 64) as u64).collect();
    }
}

/// daBits: a random bit shared by XOR and additively over `Z_2^l`. Never one daBit for two bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaBits {
    /// The ring of the additive shares.
    pub ring: Ring,
    /// Words of 64 bits.
    pub words: usize,
}

impl DaBits {
    /// Field of the XOR shares.
    pub(crate) const BITS: usize = BITS;
    /// Field of the additive shares.
    pub(crate) const SHARES: usize = SHARES;

    pub(super) fn validate(&self) -> Result<(), MpcError> {
        check_elements(&[self.words, 64])
    }

    pub(super) fn layout(&self, role: Role) -> Vec<FieldSpec> {
        bits_and_shares(self.ring, self.words, role)
    }

    pub(super) fn complete(&self, m0: &mut Material, m1: &mut Material) {
        share_bits(self.ring, m0, m1, |a, b| a ^ b);
    }
}

// Bit products and daBits have the same fields: a party's bits, and additive shares of a function of both
// parties' bits.
const BITS: usize = 0;
const SHARES: usize = 1;

fn bits_and_shares(ring: Ring, words: usize, role: Role) -> Vec<FieldSpec> {
    vec![FieldSpec::ring(WORDS, words, true), FieldSpec::ring(ring, 64 * words, role == Role::P0)]
}

/// Sets P1's shares so that both together give `f` of the two parties' bits.
fn share_bits(ring: Ring, m0: &Material, m1: &mut Material, f: impl Fn(u64, u64) -> u64) {
    let words: Vec<u64> = m0.ring(BITS).iter().zip(m1.ring(BITS)).map(|(&a, &b)| f(a, b)).collect();
    let shares = m0.ring(SHARES).iter().enumerate();
    *m1.ring_mut(SHARES) = shares.map(|(i, &s)| ring.sub(words[i / 64] >> (i % 64) & 1, s)).collect();
}
