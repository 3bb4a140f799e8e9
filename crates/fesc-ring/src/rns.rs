//! Kernels on residues modulo primes below `2^50`: what CKKS does between its transforms.
//!
//! [`Prime`] has the operations inside one prime (sums of products, tensor product, scaled differences,
//! sums); [`Base`] and [`Target`] convert from several primes to another one. All take whole vectors of
//! reduced residues, in coefficient or transformed order, and give reduced ones.
//!
//! **One reduction per sum.** With AVX-512 IFMA a product adds its low and high 52 bits to two words, two
//! instructions for eight products. `V = lo + 2^52 hi` is then reduced by Montgomery's step with `R = 2^52`:
//!
//! ```text
//! m = V p^-1 mod 2^52,    r = (V - m p) / 2^52 + p = hi' - floor(m p / 2^52) + p
//!                         hi' = hi + floor(lo / 2^52)
//! ```
//!
//! The low words of `V` and `m p` are equal, so `r = V / 2^52 mod p` needs no borrow, and
//! `0 < r <= V / 2^52 + p` whatever the size of `p`. Where one factor is a constant it carries `2^52`
//! already; elsewhere Shoup's product by `2^52 mod p` follows. With AVX2 and FMA a product is split by
//! rounding it in floating point (`rns/avx2.rs`), five instructions for four products, for the sums of key
//! switches, of ciphertexts and of conversions; the other kernels run the plain code there. On other
//! processors sums are 128-bit integers, reduced by two of Shoup's products. All give the reduced residue, so
//! all paths agree.
//!
//! No branch and no address depends on the data.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod base;
mod dot;
mod linear;
mod second;
mod sum;
mod tensor;
#[cfg(test)]
mod tests;

pub use base::{Base, MAX_SOURCES, Target};
pub use dot::Mode;
pub use second::Packed;
pub use sum::Terms;

use crate::cpu::Path;
use crate::modulus::{Modulus, ModulusError, Shoup};
use crate::ntt::SIMD_LIMIT;

/// Why there is no kernel for some primes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RnsError {
    /// The prime is too large for the 52-bit words.
    #[error("prime {value} is too large: the kernels take primes below 2^50")]
    TooLarge {
        /// The prime.
        value: u64,
    },
    /// A base without primes, or with too many.
    #[error("a conversion from {count} primes: it takes 1 to {MAX_SOURCES}")]
    Count {
        /// Primes given.
        count: usize,
    },
    /// A packed vector is too short.
    #[error("{count} residues of {bits} bits do not fit {got} bytes")]
    Packed {
        /// Residues expected.
        count: usize,
        /// Bits of each.
        bits: usize,
        /// Bytes given.
        got: usize,
    },
    /// A prime occurs twice.
    #[error("prime {value} occurs twice in a base; all must be distinct")]
    Twice {
        /// The prime.
        value: u64,
    },
    /// Refused by the arithmetic of one prime.
    #[error(transparent)]
    Modulus(#[from] ModulusError),
}

/// A prime below `2^50` with the constants of its reductions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prime {
    modulus: Modulus,
    /// `1`: Shoup's product by it reduces any word.
    one: Shoup,
    /// `2^52 mod p`.
    middle: Shoup,
    /// `2^64 mod p`.
    word: Shoup,
    /// `p^-1 mod 2^52`.
    inverse: u64,
    /// Products that a sum may have before it is reduced.
    depth: usize,
    /// The best path of this processor.
    best: Path,
    /// Whether it has AVX-512 VBMI too, which no processor with IFMA is known to lack.
    shuffles_bytes: bool,
}

#[cfg(target_arch = "x86_64")]
fn shuffles_bytes() -> bool {
    is_x86_feature_detected!("avx512vbmi")
}

#[cfg(not(target_arch = "x86_64"))]
fn shuffles_bytes() -> bool {
    false
}

impl Prime {
    /// The kernels of a prime.
    pub fn new(modulus: Modulus) -> Result<Self, RnsError> {
        let p = modulus.value();
        if p >= SIMD_LIMIT {
            return Err(RnsError::TooLarge { value: p });
        }
        // Newton's iteration: p is its own inverse modulo 8, and each step doubles the bits.
        let mut inverse = p;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(p.wrapping_mul(inverse)));
        }
        // r <= depth p^2 / 2^52 + p must stay a 52-bit word, and the low words must not overflow: at least
        // 12, at most 2048.
        let depth = ((u128::from((1 << 52) - p) << 52) / (u128::from(p) * u128::from(p))).min(2048) as usize;
        Ok(Self {
            modulus,
            one: modulus.shoup(1),
            middle: modulus.shoup(modulus.reduce(1 << 52)),
            word: modulus.shoup(modulus.reduce_u128(1 << 64)),
            inverse: inverse & ((1 << 52) - 1),
            depth,
            best: Path::available().last().unwrap_or(Path::Portable),
            shuffles_bytes: shuffles_bytes(),
        })
    }

    /// The prime as a modulus.
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// The residue of any 128-bit sum.
    #[inline(always)]
    fn reduce_wide(&self, x: u128) -> u64 {
        let m = self.modulus;
        m.add(m.mul_shoup((x >> 64) as u64, self.word), m.mul_shoup(x as u64, self.one))
    }

    /// How many of `len` elements the AVX-512 kernel takes on `path`; the plain code does the others.
    fn vector_part(&self, path: Path, len: usize) -> usize {
        if path.min(self.best) == Path::Avx512 { len / 8 * 8 } else { 0 }
    }

    /// The same where there is a kernel for AVX2 too.
    fn any_vector_part(&self, path: Path, len: usize) -> usize {
        if path.min(self.best) == Path::Portable { 0 } else { len / 8 * 8 }
    }

    /// Products of a sum on `path`: with AVX2 half as many fit as with AVX-512 or in 128 bits.
    fn depth_on(&self, path: Path) -> usize {
        if path.min(self.best) == Path::Avx2 { self.depth / 2 } else { self.depth }
    }
}
