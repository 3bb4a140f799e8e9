//! The eight primes with their transforms, and the conversions between them.
//!
//! Limbs 0, 1, 2 are `t1, t2, t3`; limbs 3, 4 are `P' = p1 p2`; limbs 5, 6, 7 are what a response drops, `D`.
//! So `q' = t P'` is a prefix of `q = t P' D`. All conversions are affine maps of residues ([`Affine`]) and
//! exact:
//!
//! ```text
//! slots -> P_j      z_i = y_i (t/t_i)^-1 + h_i mod t_i,  h_i = floor(t_i / 2)
//!                   sum_i (z_i - h_i) t/t_i mod P_j
//!                   the integer sum is the polynomial modulo t, between -3t/2 and 3t/2
//! drop a prime p    x -> floor((x + h) / p),  h = floor(p / 2)
//! round down        x -> floor(floor(x / p1) / p2) = floor(x / P')
//! modulo 2^64       mixed radix digits v1, v2, v3 of x in [0, t):  x = v1 + v2 t1 + v3 t1 t2
//! ```

use fesc_ring::Ring;
use fesc_ring::affine::{Affine, reduce_signed};
use fesc_ring::lazy::Lazy;
use fesc_ring::modulus::Modulus;
use fesc_ring::ntt::Ntt;
use fesc_ring::primes::ntt_primes;

use crate::{Result, RlweError};

/// Primes of the plaintext.
pub(super) const PLAIN: usize = 3;
/// Primes of a response.
pub(super) const KEPT: usize = 5;
/// All primes.
pub(super) const LIMBS: usize = 8;
/// Values are at most `2^VALUE_BITS` in magnitude.
pub(super) const VALUE_BITS: u32 = 47;

/// One prime.
pub(super) struct Limb {
    pub(super) modulus: Modulus,
    /// The packing: as many bits as the prime has.
    pub(super) wire: Ring,
    pub(super) lazy: Lazy,
    plus: Affine,
    minus: Affine,
    /// Transforms of 2, 4, .. N points. Slot orders agree: the root of `n` points is the `N/n`-th power of
    /// that of `N`.
    plans: Vec<Ntt>,
}

impl Limb {
    fn new(prime: u64, degree: usize) -> Result<Self> {
        let modulus = Modulus::new(prime)?;
        let sizes = (1..=degree.trailing_zeros()).map(|log| 1 << log);
        let plans = sizes.map(|n| Ntt::new(modulus, n)).collect::<std::result::Result<_, _>>()?;
        let (plus, minus) = (Affine::new(modulus, 1, 1, 0), Affine::new(modulus, prime - 1, 1, 0));
        Ok(Self { modulus, wire: Ring::new(modulus.bits())?, lazy: Lazy::new(modulus), plus, minus, plans })
    }

    /// The transform of the full degree.
    pub(super) fn ntt(&self) -> &Ntt {
        &self.plans[self.plans.len() - 1]
    }

    /// Coefficients to slots, for any power of two of points. One point is its own transform.
    pub(super) fn forward(&self, a: &mut [u64]) {
        if let Some(log) = a.len().trailing_zeros().checked_sub(1) {
            self.plans[log as usize].forward(a);
        }
    }

    /// Slots to coefficients.
    pub(super) fn inverse(&self, a: &mut [u64]) {
        if let Some(log) = a.len().trailing_zeros().checked_sub(1) {
            self.plans[log as usize].inverse(a);
        }
    }

    /// Residues of values of magnitude up to `2^47`, which is below `2p`.
    pub(super) fn residues(&self, values: &[i64], out: &mut [u64]) {
        reduce_signed(self.modulus, values, out);
    }

    /// `x = x + y`.
    pub(super) fn add(&self, x: &mut [u64], y: &[u64]) {
        self.plus.apply(x, y);
    }

    /// `x = y - x`.
    pub(super) fn sub_from(&self, x: &mut [u64], y: &[u64]) {
        self.minus.apply(x, y);
    }
}

pub(super) struct Basis {
    degree: usize,
    pub(super) limbs: Vec<Limb>,
    /// `(x, m) -> x + P m` modulo the plaintext primes.
    pub(super) scale: Vec<Affine>,
    /// `y -> y (t/t_i)^-1 + h_i` modulo `t_i`.
    digit: Vec<Affine>,
    /// For each prime of `P`: `(z1, z2) -> z1 c1 + z2 c2 - sum_i h_i c_i` and `(x, z3) -> x + z3 c3`.
    convert: Vec<[Affine; 2]>,
    /// For each dropped prime, last first: the shift by `h`, and the map of each prime before it.
    drop: Vec<(Affine, Vec<Affine>)>,
    /// `(x, x') -> (x - x') / p1` modulo `t_i` and `p2`.
    halve: Vec<Affine>,
    /// `(x, x') -> (x - x') / p2` modulo `t_i`, and its negative.
    floor: Vec<[Affine; 2]>,
    /// Mixed radix: `v2`, first and second step of `v3`.
    radix: [Affine; 3],
    /// `t1`, `t1 t2` and `t` modulo `2^64`.
    weights: [u64; 3],
}

impl Basis {
    pub(super) fn new(degree: usize, plain: u32, kept: u32, dropped: u32) -> Result<Self> {
        // Values up to 2^47 are below 2p from 47 bits on; small values are below 2p everywhere; the kernels
        // take primes below 2^50.
        let fits = (VALUE_BITS..=50).contains(&plain) && (20..=50).contains(&kept) && (45..=50).contains(&dropped);
        if !fits {
            return Err(RlweError::Slots { plain, kept, dropped });
        }
        let groups = [(plain, PLAIN), (kept, KEPT - PLAIN), (dropped, LIMBS - KEPT)];
        let mut primes: Vec<u64> = Vec::new();
        for (bits, count) in groups {
            // Groups of one size share a list: skip what is taken.
            let taken = primes.iter().filter(|p| 64 - p.leading_zeros() == bits).count();
            primes.extend(&ntt_primes(bits, degree, taken + count)?[taken..]);
        }
        let limbs = primes.iter().map(|&p| Limb::new(p, degree)).collect::<Result<Vec<_>>>()?;
        let product = |m: Modulus, of: &[u64]| of.iter().fold(1, |acc, &p| m.mul(acc, m.reduce(p)));
        let others = |i: usize| -> Vec<u64> { (0..PLAIN).filter(|&k| k != i).map(|k| primes[k]).collect() };
        let modulus = |i: usize| limbs[i].modulus;
        let inverse = |i: usize, of: u64| modulus(i).inv(of);
        let quotient = |i: usize, of: u64| -> Result<[Affine; 2]> {
            let (m, inv) = (modulus(i), inverse(i, of)?);
            Ok([Affine::new(m, inv, m.neg(inv), 0), Affine::new(m, m.neg(inv), inv, 0)])
        };

        let (mut scale, mut digit, mut floor) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..PLAIN {
            let m = modulus(i);
            scale.push(Affine::new(m, 1, product(m, &primes[PLAIN..]), 0));
            digit.push(Affine::new(m, inverse(i, product(m, &others(i)))?, 0, primes[i] / 2));
            floor.push(quotient(i, primes[KEPT - 1])?);
        }
        let halve =
            [0, 1, 2, KEPT - 1].into_iter().map(|i| Ok(quotient(i, primes[PLAIN])?[0])).collect::<Result<_>>()?;
        let mut convert = Vec::new();
        for j in PLAIN..LIMBS {
            let m = modulus(j);
            let c: Vec<u64> = (0..PLAIN).map(|i| product(m, &others(i))).collect();
            let shift = c.iter().enumerate().fold(0, |sum, (i, &c)| m.add(sum, m.mul(c, m.reduce(primes[i] / 2))));
            convert.push([Affine::new(m, c[0], c[1], m.neg(shift)), Affine::new(m, 1, c[2], 0)]);
        }
        let mut drop = Vec::new();
        for k in (KEPT..LIMBS).rev() {
            let (p, half) = (primes[k], primes[k] / 2);
            let maps = (0..k).map(|i| {
                let (m, inv) = (modulus(i), inverse(i, p)?);
                Ok(Affine::new(m, inv, m.neg(inv), m.mul(inv, m.reduce(half))))
            });
            drop.push((Affine::new(modulus(k), 1, 0, half), maps.collect::<Result<Vec<_>>>()?));
        }
        let radix = [quotient(1, primes[0])?[0], quotient(2, primes[0])?[0], quotient(2, primes[1])?[0]];
        let two = primes[0].wrapping_mul(primes[1]);
        let weights = [primes[0], two, two.wrapping_mul(primes[2])];
        Ok(Self { degree, limbs, scale, digit, convert, drop, halve, floor, radix, weights })
    }

    pub(super) fn degree(&self) -> usize {
        self.degree
    }

    /// Bits of the first `count` primes together.
    pub(super) fn bits(&self, count: usize) -> u32 {
        self.limbs[..count].iter().map(|l| l.modulus.bits()).sum()
    }

    /// `t` modulo `2^64`.
    pub(super) fn t(&self) -> u64 {
        self.weights[2]
    }

    /// Slots modulo each `t_i` (three rows) to slots modulo all primes (eight rows); `rows` has eight rows of
    /// one power of two. `digits` is scratch, and the caller's to wipe.
    pub(super) fn extend(&self, rows: &mut [u64], digits: &mut Vec<u64>) {
        let n = rows.len() / LIMBS;
        let (plain, rest) = rows.split_at_mut(PLAIN * n);
        digits.clear();
        digits.extend_from_slice(plain);
        for ((row, limb), map) in digits.chunks_exact_mut(n).zip(&self.limbs).zip(&self.digit) {
            limb.inverse(row);
            map.apply_one(row);
        }
        for ((row, limb), [first, second]) in rest.chunks_exact_mut(n).zip(&self.limbs[PLAIN..]).zip(&self.convert) {
            row.copy_from_slice(&digits[..n]);
            first.apply(row, &digits[n..2 * n]);
            second.apply(row, &digits[2 * n..]);
            limb.forward(row);
        }
    }

    /// Coefficients modulo `q` (eight rows) to their rounded quotient by `D` modulo `q'` (the first five
    /// rows).
    pub(super) fn rescale(&self, rows: &mut [u64]) {
        let n = rows.len() / LIMBS;
        for (k, (shift, maps)) in (KEPT..LIMBS).rev().zip(&self.drop) {
            let (before, last) = rows[..(k + 1) * n].split_at_mut(k * n);
            shift.apply_one(last);
            before.chunks_exact_mut(n).zip(maps).for_each(|(row, map)| map.apply(row, last));
        }
    }

    /// Coefficients modulo `q'` (five rows) to the integers modulo `2^64` in the slots of `floor(x / P')`, or
    /// of its negative, each in `[0, t)`.
    pub(super) fn slots_of_floor(&self, rows: &mut [u64], negative: bool) -> Vec<u64> {
        let n = rows.len() / KEPT;
        let (plain, kept) = rows.split_at_mut(PLAIN * n);
        let (first, second) = kept.split_at_mut(n);
        let before = plain.chunks_exact_mut(n).chain([&mut *second]);
        before.zip(&self.halve).for_each(|(row, map)| map.apply(row, first));
        for ((row, limb), maps) in plain.chunks_exact_mut(n).zip(&self.limbs).zip(&self.floor) {
            maps[usize::from(negative)].apply(row, second);
            limb.forward(row);
        }
        self.lift(plain)
    }

    /// Residues modulo `t1, t2, t3` (three rows) to the number in `[0, t)` they name, modulo `2^64`.
    pub(super) fn lift(&self, rows: &mut [u64]) -> Vec<u64> {
        let n = rows.len() / PLAIN;
        let (first, rest) = rows.split_at_mut(n);
        let (second, third) = rest.split_at_mut(n);
        self.radix[0].apply(second, first);
        self.radix[1].apply(third, first);
        self.radix[2].apply(third, second);
        let digits = first.iter().zip(second).zip(third);
        digits
            .map(|((&a, b), c)| {
                a.wrapping_add(b.wrapping_mul(self.weights[0])).wrapping_add(c.wrapping_mul(self.weights[1]))
            })
            .collect()
    }
}
