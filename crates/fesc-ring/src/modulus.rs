//! Arithmetic modulo an odd prime below `2^62`.
//!
//! Products are reduced by Barrett's method on one machine word. With `n` the bit length of `p`,
//! `t = x >> (n - 2)` and `c = floor(2^(n + 62) / p)`, the quotient `q = floor(t c / 2^64)` of any `x < p^2`
//! is at most two below the true one, so `x - q p` lies in `[0, 3p)` and two conditional subtractions finish
//! (HAC 14.42). Products by a fixed operand use Shoup's precomputed quotient `floor(w 2^64 / p)` (Harvey,
//! "Faster arithmetic for number-theoretic transforms", section 3): one high product, two low ones, result in
//! `[0, 2p)` for *any* 64-bit other factor.
//!
//! Nothing here branches on an operand. `pow` and `inv` branch on the exponent, which is public.

use crate::primes;

/// Bit length that every modulus stays below: `4p` must fit in a word.
pub const MAX_BITS: u32 = 62;

/// What can be wrong with a prime modulus.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModulusError {
    /// The modulus is not an odd prime.
    #[error("modulus {value} is not an odd prime; take one from `primes::ntt_primes`")]
    NotPrime {
        /// The value given.
        value: u64,
    },
    /// The modulus is too large for the lazy reductions.
    #[error("modulus {value} is too large: it must be below 2^62")]
    TooLarge {
        /// The value given.
        value: u64,
    },
    /// Zero has no inverse.
    #[error("zero has no inverse modulo {modulus}")]
    Zero {
        /// The modulus.
        modulus: u64,
    },
}

/// An odd prime below `2^62` with its Barrett constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Modulus {
    p: u64,
    /// `floor(2^(n + 62) / p)`, below `2^63`.
    barrett: u64,
    /// Bit length minus two.
    shift: u32,
}

/// A fixed factor with its Shoup quotient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shoup {
    /// The factor, in `[0, p)`.
    pub value: u64,
    /// `floor(value * 2^64 / p)`.
    pub quotient: u64,
}

impl Modulus {
    /// Checks that `p` is an odd prime below `2^62`.
    pub fn new(p: u64) -> Result<Self, ModulusError> {
        if p >> MAX_BITS != 0 {
            return Err(ModulusError::TooLarge { value: p });
        }
        if p == 2 || !primes::is_prime(p) {
            return Err(ModulusError::NotPrime { value: p });
        }
        let bits = 64 - p.leading_zeros();
        let barrett = ((1u128 << (bits + 62)) / u128::from(p)) as u64;
        Ok(Self { p, barrett, shift: bits - 2 })
    }

    /// The prime.
    pub const fn value(self) -> u64 {
        self.p
    }

    /// Bit length of the prime.
    pub const fn bits(self) -> u32 {
        self.shift + 2
    }

    /// `x` or `x - bound`, whichever is in `[0, bound)`, for `x < 2 bound`.
    #[inline(always)]
    const fn fold(x: u64, bound: u64) -> u64 {
        let y = x.wrapping_sub(bound);
        // All ones when the subtraction borrowed.
        let mask = ((y as i64) >> 63) as u64;
        y.wrapping_add(bound & mask)
    }

    /// `a + b` of reduced operands.
    #[inline(always)]
    pub const fn add(self, a: u64, b: u64) -> u64 {
        Self::fold(a + b, self.p)
    }

    /// `a - b` of reduced operands.
    #[inline(always)]
    pub const fn sub(self, a: u64, b: u64) -> u64 {
        Self::fold(a + self.p - b, self.p)
    }

    /// `-a` of a reduced operand.
    #[inline(always)]
    pub const fn neg(self, a: u64) -> u64 {
        self.sub(0, a)
    }

    /// `x mod p` of a number below `p^2`.
    #[inline(always)]
    const fn reduce_product(self, x: u128) -> u64 {
        let t = (x >> self.shift) as u64;
        let q = ((t as u128 * self.barrett as u128) >> 64) as u64;
        let r = (x as u64).wrapping_sub(q.wrapping_mul(self.p));
        // r < 3p < 2^64; the first fold needs r - 2p to show its sign in bit 63, which holds since p < 2^62.
        Self::fold(Self::fold_wide(r, 2 * self.p), self.p)
    }

    /// [`Modulus::fold`] for `x < 2^64` and `bound < 2^63`.
    #[inline(always)]
    const fn fold_wide(x: u64, bound: u64) -> u64 {
        let (y, borrow) = x.overflowing_sub(bound);
        y.wrapping_add(bound & (borrow as u64).wrapping_neg())
    }

    /// `a * b` of reduced operands.
    #[inline(always)]
    pub const fn mul(self, a: u64, b: u64) -> u64 {
        self.reduce_product(a as u128 * b as u128)
    }

    /// `acc + a * b` of reduced operands.
    #[inline(always)]
    pub const fn mul_add(self, a: u64, b: u64, acc: u64) -> u64 {
        self.add(self.mul(a, b), acc)
    }

    /// The class of any 64-bit number.
    pub const fn reduce(self, x: u64) -> u64 {
        x % self.p
    }

    /// The class of any 128-bit number.
    pub const fn reduce_u128(self, x: u128) -> u64 {
        (x % self.p as u128) as u64
    }

    /// The class of a signed number of magnitude below `p`, without a branch.
    #[inline(always)]
    pub const fn from_small_signed(self, x: i64) -> u64 {
        (x as u64).wrapping_add(self.p & ((x >> 63) as u64))
    }

    /// The representative in `-(p-1)/2 ..= (p-1)/2` of a reduced number, without a branch.
    #[inline(always)]
    pub const fn to_signed(self, x: u64) -> i64 {
        let above = ((self.p >> 1).wrapping_sub(x) as i64) >> 63;
        x.wrapping_sub(self.p & above as u64) as i64
    }

    /// `base^exponent`; time depends on the exponent.
    pub const fn pow(self, base: u64, exponent: u64) -> u64 {
        let (mut base, mut exponent, mut acc) = (self.reduce(base), exponent, 1);
        while exponent != 0 {
            if exponent & 1 == 1 {
                acc = self.mul(acc, base);
            }
            base = self.mul(base, base);
            exponent >>= 1;
        }
        acc
    }

    /// The inverse of a non-zero number, by Fermat.
    pub const fn inv(self, x: u64) -> Result<u64, ModulusError> {
        let x = self.reduce(x);
        if x == 0 {
            return Err(ModulusError::Zero { modulus: self.p });
        }
        Ok(self.pow(x, self.p - 2))
    }

    /// Precomputes the quotient of a reduced fixed factor.
    pub const fn shoup(self, value: u64) -> Shoup {
        Shoup { value, quotient: (((value as u128) << 64) / self.p as u128) as u64 }
    }

    /// `x * w` in `[0, 2p)` for any 64-bit `x`.
    #[inline(always)]
    pub const fn mul_shoup_lazy(self, x: u64, w: Shoup) -> u64 {
        let q = ((x as u128 * w.quotient as u128) >> 64) as u64;
        x.wrapping_mul(w.value).wrapping_sub(q.wrapping_mul(self.p))
    }

    /// `x * w`, reduced, for any 64-bit `x`.
    #[inline(always)]
    pub const fn mul_shoup(self, x: u64, w: Shoup) -> u64 {
        Self::fold(self.mul_shoup_lazy(x, w), self.p)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PRIMES: [u64; 6] =
        [3, 17, 65_537, 1_125_899_906_842_597, 2_305_843_009_213_693_951, 4_611_686_018_427_387_847];

    fn edges(p: u64) -> [u64; 6] {
        [0, 1, 2 % p, p / 2, p - 2, p - 1]
    }

    #[test]
    fn edge_values_match_wide_arithmetic() {
        for p in PRIMES {
            let m = Modulus::new(p).unwrap();
            assert_eq!(m.value(), p);
            for a in edges(p) {
                for b in edges(p) {
                    let (wa, wb, wp) = (u128::from(a), u128::from(b), u128::from(p));
                    assert_eq!(u128::from(m.mul(a, b)), wa * wb % wp, "{a} * {b} mod {p}");
                    assert_eq!(u128::from(m.add(a, b)), (wa + wb) % wp, "{a} + {b} mod {p}");
                    assert_eq!(u128::from(m.sub(a, b)), (wa + wp - wb) % wp, "{a} - {b} mod {p}");
                    assert_eq!(m.mul_shoup(a, m.shoup(b)), m.mul(a, b));
                    assert!(m.mul_shoup_lazy(u64::MAX - a, m.shoup(b)) < 2 * p);
                }
                assert_eq!(m.from_small_signed(m.to_signed(a)), a);
                assert!(m.to_signed(a).unsigned_abs() <= p / 2);
                match m.inv(a) {
                    Ok(i) => assert_eq!(m.mul(i, a), 1 % p),
                    Err(e) => assert_eq!((a, e), (0, ModulusError::Zero { modulus: p })),
                }
            }
        }
    }

    #[test]
    fn refuses_what_is_not_an_odd_prime_below_2_62() {
        for v in [0, 1, 2, 9, 561, 1 << 50, 3_215_031_751] {
            assert_eq!(Modulus::new(v), Err(ModulusError::NotPrime { value: v }));
        }
        for v in [1 << 62, u64::MAX, 18_446_744_073_709_551_557] {
            assert_eq!(Modulus::new(v), Err(ModulusError::TooLarge { value: v }));
        }
    }

    proptest! {
        #[test]
        fn products_match_wide_arithmetic(which in 0..PRIMES.len(), a: u64, b: u64, acc: u64) {
            let p = PRIMES[which];
            let m = Modulus::new(p).unwrap();
            let (x, y, z) = (m.reduce(a), m.reduce(b), m.reduce(acc));
            let want = u128::from(x) * u128::from(y);
            prop_assert_eq!(u128::from(m.mul(x, y)), want % u128::from(p));
            prop_assert_eq!(u128::from(m.mul_add(x, y, z)), (want + u128::from(z)) % u128::from(p));
            prop_assert_eq!(m.mul_shoup(a, m.shoup(y)), m.mul(x, y));
            prop_assert_eq!(m.reduce_u128(want), m.mul(x, y));
        }
    }
}
