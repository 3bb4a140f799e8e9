//! The ring `Z_2^l`, `1 <= l <= 64`: elements live in `u64`, reduced to their low `l` bits.
//!
//! Operations take any `u64` as the name of its class and give the reduced representative. The wire form is
//! in `pack`.

use crate::modulus::Modulus;

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
    /// The width of a long ring is outside 1..=127.
    #[error("long ring of {bits} bits: the width must be between 1 and 127")]
    LongWidth {
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
    /// Two vectors of one element-wise operation differ in length.
    #[error("element-wise operation on vectors of {left} and {right} elements: the lengths must be equal")]
    Lengths {
        /// Elements on the left.
        left: usize,
        /// Elements on the right.
        right: usize,
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

    /// The smallest ring that holds the residues of a modulus as integers: its packed form is theirs.
    pub const fn of_residues(modulus: Modulus) -> Self {
        Self { bits: modulus.bits() }
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

    /// Brings every element into `0..2^l`.
    pub fn reduce_assign(self, a: &mut [u64]) {
        for x in a {
            *x = self.reduce(*x);
        }
    }

    /// `a += b`, element by element.
    pub fn add_assign(self, a: &mut [u64], b: &[u64]) -> Result<(), RingError> {
        self.zip_assign(a, b, Self::add)
    }

    /// `a -= b`, element by element.
    pub fn sub_assign(self, a: &mut [u64], b: &[u64]) -> Result<(), RingError> {
        self.zip_assign(a, b, Self::sub)
    }

    /// `a *= b`, element by element.
    pub fn mul_assign(self, a: &mut [u64], b: &[u64]) -> Result<(), RingError> {
        self.zip_assign(a, b, Self::mul)
    }

    /// `a = -a`.
    pub fn neg_assign(self, a: &mut [u64]) {
        for x in a {
            *x = self.neg(*x);
        }
    }

    /// `a = c * a`.
    pub fn scale_assign(self, a: &mut [u64], c: u64) {
        for x in a {
            *x = self.mul(*x, c);
        }
    }

    /// Inlined so that each operation gets its own vectorised loop.
    #[inline(always)]
    fn zip_assign(self, a: &mut [u64], b: &[u64], op: impl Fn(Self, u64, u64) -> u64) -> Result<(), RingError> {
        if a.len() != b.len() {
            return Err(RingError::Lengths { left: a.len(), right: b.len() });
        }
        for (x, &y) in a.iter_mut().zip(b) {
            *x = op(self, *x, y);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Prg;

    #[test]
    fn widths_outside_1_to_64_are_refused() {
        assert_eq!(Ring::new(0), Err(RingError::Width { bits: 0 }));
        assert_eq!(Ring::new(65), Err(RingError::Width { bits: 65 }));
    }

    #[test]
    fn vectors_agree_with_integers() {
        let mut prg = Prg::from_seed([2; 16]);
        for bits in 1..=64 {
            let ring = Ring::new(bits).unwrap();
            let modulus = 1u128 << bits;
            // Not reduced: the operations must not rely on it.
            let (mut a, mut b) = (vec![0; 9], vec![0; 9]);
            prg.fill_u64(&mut a);
            prg.fill_u64(&mut b);
            let c = prg.next_u64();
            let check = |op: &dyn Fn(&mut [u64]), want: &dyn Fn(u128, u128) -> u128| {
                let mut got = a.clone();
                op(&mut got);
                for ((g, &x), &y) in got.iter().zip(&a).zip(&b) {
                    assert_eq!(u128::from(*g), want(x.into(), y.into()) % modulus, "bits {bits}");
                }
            };
            check(&|v| ring.reduce_assign(v), &|x, _| x);
            check(&|v| ring.add_assign(v, &b).unwrap(), &|x, y| x + y);
            check(&|v| ring.sub_assign(v, &b).unwrap(), &|x, y| x + (1 << 64) - y);
            check(&|v| ring.mul_assign(v, &b).unwrap(), &|x, y| x * y);
            check(&|v| ring.neg_assign(v), &|x, _| (1 << 64) - x);
            check(&|v| ring.scale_assign(v, c), &|x, _| x * u128::from(c));
        }
    }

    #[test]
    fn signed_round_trip() {
        for bits in 1..=64 {
            let ring = Ring::new(bits).unwrap();
            let low = i64::MIN >> (64 - bits);
            for v in [low, -1, 0, !low] {
                assert_eq!(ring.to_signed(ring.from_signed(v)), v, "bits {bits}");
            }
        }
    }

    #[test]
    fn unequal_lengths_are_refused() {
        let ring = Ring::new(48).unwrap();
        let err = RingError::Lengths { left: 2, right: 3 };
        assert_eq!(ring.add_assign(&mut [0; 2], &[0; 3]), Err(err.clone()));
        assert_eq!(ring.sub_assign(&mut [0; 2], &[0; 3]), Err(err.clone()));
        assert_eq!(ring.mul_assign(&mut [0; 2], &[0; 3]), Err(err));
    }
}
