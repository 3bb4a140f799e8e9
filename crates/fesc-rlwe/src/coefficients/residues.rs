//! Polynomials modulo `Q = p0 p1` and `Q P`, in residues: where answers are packed.
//!
//! A power of two has no transform, and exact products modulo `2^104` would take big numbers. A sum is
//! rounded anyway, so it is rounded to an odd modulus: `p0, p1` of 30 bits and the special prime `P` of 36,
//! all of them 1 modulo `2N`. Ciphertexts being packed have residues modulo `p0, p1`; `P` is there only
//! inside a key switch ([`super::switch`]). Phases are fractions of the modulus, and rounding a ciphertext
//! from one modulus to another moves them by about `sqrt((1 + 2N/3) / 12) = 15` units of the new one.
//!
//! Both conversions are products by constants. Into residues, exactly and for both primes alike: with
//! `c p1 = u 2^64 + v`,
//!
//! ```text
//! floor(c Q / 2^64) mod p0 = floor(v p0 / 2^64)
//! ```
//!
//! Back, `x / Q = y0 / p0 + y1 / p1 mod 1` with `y_i = x (Q / p_i)^-1 mod p_i`, and each fraction of `2^64`
//! is a product by `floor(2^93 / p_i)`.

use fesc_ring::Prg;
use fesc_ring::affine::Affine;
use fesc_ring::modulus::{Modulus, Shoup};
use fesc_ring::ntt::Ntt;
use fesc_ring::primes::ntt_primes;

use super::DEGREE;
use crate::Result;

/// Bits of `p0` and `p1`.
pub(super) const PRIME_BITS: u32 = 30;
/// Bits of `P`.
pub(super) const SPECIAL_BITS: u32 = 36;
/// `p0, p1, P`.
pub(super) const PRIMES: usize = 3;
/// `p0, p1`.
pub(super) const KEPT: usize = 2;
/// Bits of `Q`.
pub(super) const LOG_KEPT: u32 = KEPT as u32 * PRIME_BITS;
/// Bits of `Q P`.
pub(super) const LOG_SPECIAL: u32 = LOG_KEPT + SPECIAL_BITS;

/// Half a unit of `Q` in units of `2^64`: `2^63 / Q` is a little above 8.
const HALF: u64 = 1 << (63 - 2 * PRIME_BITS);
/// `floor(2^93 / p)` has 64 bits.
const FRACTION: u32 = 63 + PRIME_BITS;

/// Sums and differences of residue vectors, vectorised.
pub(super) struct Maps {
    /// `x + y`.
    pub(super) add: Affine,
    /// `x - y`.
    pub(super) sub: Affine,
    /// `-x`.
    pub(super) neg: Affine,
    /// `x`, reduced.
    pub(super) same: Affine,
}

impl Maps {
    fn new(modulus: Modulus) -> Self {
        let minus = modulus.value() - 1;
        let map = |a: u64, b: u64| Affine::new(modulus, a, b, 0);
        Self { add: map(1, 1), sub: map(1, minus), neg: map(minus, 0), same: map(1, 0) }
    }
}

/// The primes, their transforms and the constants between them.
pub(super) struct Basis {
    pub(super) ntt: [Ntt; PRIMES],
    /// `P` modulo `p_i`.
    pub(super) special: [u64; KEPT],
    /// `x + P/2` modulo `P`, and from there `(x - y + P/2) / P` modulo `p_i`.
    add_half: Affine,
    divide: [Affine; KEPT],
    /// By prime.
    pub(super) maps: [Maps; KEPT],
    /// `(Q / p_i)^-1` modulo `p_i`.
    cofactor_inv: [Shoup; KEPT],
    fraction: [u64; KEPT],
}

impl Basis {
    pub(super) fn new() -> Result<Self> {
        let kept = ntt_primes(PRIME_BITS, DEGREE, KEPT)?;
        let special = ntt_primes(SPECIAL_BITS, DEGREE, 1)?[0];
        let plan = |p: u64| -> Result<Ntt> { Ok(Ntt::new(Modulus::new(p)?, DEGREE)?) };
        let ntt = [plan(kept[0])?, plan(kept[1])?, plan(special)?];
        let inverse = |i: usize, x: u64| -> Result<Shoup> {
            let modulus = ntt[i].modulus();
            Ok(modulus.shoup(modulus.inv(x)?))
        };
        let half = special / 2;
        let divide = |i: usize| -> Result<Affine> {
            let modulus = ntt[i].modulus();
            let inv = modulus.inv(special)?;
            Ok(Affine::new(modulus, inv, modulus.neg(inv), modulus.mul(inv, modulus.reduce(half))))
        };
        Ok(Self {
            special: [special % kept[0], special % kept[1]],
            add_half: Affine::new(ntt[KEPT].modulus(), 1, 0, half),
            divide: [divide(0)?, divide(1)?],
            maps: [Maps::new(ntt[0].modulus()), Maps::new(ntt[1].modulus())],
            cofactor_inv: [inverse(0, kept[1])?, inverse(1, kept[0])?],
            fraction: [kept[0], kept[1]].map(|p| ((1u128 << FRACTION) / u128::from(p)) as u64),
            ntt,
        })
    }

    pub(super) fn modulus(&self, i: usize) -> Modulus {
        self.ntt[i].modulus()
    }

    /// `c Q / 2^64`, rounded.
    pub(super) fn residues(&self, c: &[u64]) -> [Vec<u64>; KEPT] {
        let [p0, p1] = [self.modulus(0).value(), self.modulus(1).value()];
        let scale = |other: u64, own: u64| {
            let residue = |&c: &u64| {
                let v = c.wrapping_add(HALF).wrapping_mul(other);
                ((u128::from(v) * u128::from(own)) >> 64) as u64
            };
            c.iter().map(residue).collect()
        };
        [scale(p1, p0), scale(p0, p1)]
    }

    /// `x 2^64 / Q`, short of it by less than 6.
    pub(super) fn whole(&self, x: &[Vec<u64>; KEPT]) -> Vec<u64> {
        let part = |i: usize, x: u64| {
            let y = self.modulus(i).mul_shoup(x, self.cofactor_inv[i]);
            ((u128::from(y) * u128::from(self.fraction[i])) >> (FRACTION - 64)) as u64
        };
        x[0].iter().zip(&x[1]).map(|(&x, &y)| part(0, x).wrapping_add(part(1, y))).collect()
    }

    /// `x / P` for `x` modulo `Q P`, rounded; added to `out`. Leaves nothing of use in `x`.
    pub(super) fn divide_add(&self, x: &mut [Vec<u64>; PRIMES], out: &mut [Vec<u64>; KEPT]) {
        // (x + P/2 - [x + P/2 mod P]) / P.
        let (kept, rest) = x.split_at_mut(KEPT);
        let Some(rest) = rest.first_mut() else { return };
        self.add_half.apply_one(rest);
        for (i, (x, out)) in kept.iter_mut().zip(out).enumerate() {
            self.divide[i].apply(x, rest);
            self.maps[i].add.apply(out, x);
        }
    }

    /// A uniform polynomial modulo prime `i`.
    pub(super) fn uniform(&self, i: usize, prg: &mut Prg) -> Vec<u64> {
        let modulus = self.modulus(i);
        let mask = u64::MAX >> (64 - modulus.bits());
        // Words that are not reduced are left out: nearly none, and they are public.
        std::iter::repeat_with(|| prg.next_u64() & mask).filter(|&x| x < modulus.value()).take(DEGREE).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// `x` modulo `Q` from its residues.
    fn joined(basis: &Basis, x: [u64; 2]) -> u128 {
        let [p0, p1] = [basis.modulus(0), basis.modulus(1)];
        let step = p1.mul(p1.sub(p1.reduce(x[1]), p1.reduce(x[0])), p1.inv(p1.reduce(p0.value())).unwrap());
        u128::from(x[0]) + u128::from(step) * u128::from(p0.value())
    }

    #[test]
    fn conversions_are_roundings() {
        let basis = Basis::new().unwrap();
        let q = u128::from(basis.modulus(0).value()) * u128::from(basis.modulus(1).value());
        let mut c = vec![0, 1, u64::MAX, 1 << 63, u64::MAX - 8, u64::MAX - 7, 15, 16];
        c.extend(Prg::from_seed([1; 16]).ring_vec(fesc_ring::Ring::new(64).unwrap(), 2000));
        let residues = basis.residues(&c);
        let back = basis.whole(&residues);
        for (i, &c) in c.iter().enumerate() {
            let want = ((u128::from(c.wrapping_add(HALF)) * q) >> 64) % q;
            let got = joined(&basis, [residues[0][i], residues[1][i]]);
            assert_eq!(got, want, "{c}");
            let exact = ((got << 64) / q) as u64;
            assert!(exact.wrapping_sub(back[i]) < 6, "{c}: {} back", back[i]);
        }
    }

    #[test]
    fn division_by_the_special_prime_rounds() {
        let basis = Basis::new().unwrap();
        let mut prg = Prg::from_seed([2; 16]);
        let x: [Vec<u64>; PRIMES] = std::array::from_fn(|i| basis.uniform(i, &mut prg));
        let start: [Vec<u64>; KEPT] = std::array::from_fn(|i| basis.uniform(i, &mut prg));
        let mut got = start.clone();
        basis.divide_add(&mut x.clone(), &mut got);
        for i in 0..KEPT {
            let modulus = basis.modulus(i);
            for c in 0..DEGREE {
                // P times the quotient and the centred rest are x again.
                let quotient = modulus.sub(got[i][c], start[i][c]);
                let rest = basis.modulus(KEPT).to_signed(x[KEPT][c]).rem_euclid(modulus.value() as i64) as u64;
                assert_eq!(modulus.mul_add(quotient, basis.special[i], rest), x[i][c]);
            }
        }
    }
}
