//! Key switching: from the key `sigma(s)` back to `s`, after an automorphism `sigma: X -> X^k`.
//!
//! `sigma` of a ciphertext under `s` is one under `sigma(s)`. The evaluator turns it back with a key that the
//! key holder sends once (Brakerski, Gentry and Vaikuntanathan 2012; with a special modulus as Gentry, Halevi
//! and Smart 2012, in residues as Han and Ki 2020). For the primes `p_i` of [`super::residues`]:
//!
//! ```text
//! key      (k0_i, k1_i) = (e_i - k1_i s + P delta_i sigma(s), k1_i) mod Q P
//!          delta_i = 1 mod p_i, 0 mod the other
//! switch   (c0, c1) -> (c0, 0) + round(sum_i [c1 mod p_i] (k0_i, k1_i) / P)
//!          c1 sigma(s) = sum_i [c1 mod p_i] delta_i sigma(s) mod Q
//! ```
//!
//! Noise: a digit is below `2^30`, so `sum digit e / P` has deviation `sqrt(2 N / 3) 2^30 sigma / P = 2.6`
//! units of `Q`, below the 15 of the rounding. Cost: 6 transforms there, 6 back, 12 products of `N`; bytes of
//! a key `24 N` (the halves `k1_i` are from a seed).
//!
//! *Circular security.* A key encrypts `sigma(s)` under `s` itself. That it tells nothing is an assumption on
//! top of RLWE, the one that every scheme with rotation keys makes. `s` also serves modulo `2^104` (uploads)
//! and `2^64` (the public key); `Q P` has 96 bits, below both the limit of the degree and the uploads'
//! modulus.

use fesc_ring::affine::Affine;
use fesc_ring::sample::gaussian::SIGMA;
use fesc_ring::{Prg, Ring};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::residues::{Basis, KEPT, LOG_SPECIAL, PRIME_BITS, PRIMES, SPECIAL_BITS};
use super::sample::{SeedPurpose, errors, stream};
use super::{DEGREE, SEED_BYTES};
use crate::error::length;
use crate::{Result, RlweError};

/// Most levels of packing. Level `t` moves coefficients by multiples of `N / 2^t`, which must leave their
/// places modulo `2^(t+1)` alone: `t <= 5`.
pub(super) const LEVELS: usize = 6;

/// Bytes of the residues of one polynomial modulo `Q P`.
const POLY_BYTES: usize = DEGREE * (LOG_SPECIAL as usize) / 8;
/// Bytes of all keys after their seed.
pub(super) const KEYS_BYTES: usize = LEVELS * KEPT * POLY_BYTES;

const WHAT: &str = "automorphism keys of the coefficients engine, in bytes";

/// Variance of what a switch adds beside its rounding, in units of `Q`: digits are uniform below `2^30`.
pub(super) fn noise() -> f64 {
    let digit = 2f64.powi(2 * PRIME_BITS as i32) / 3.0;
    KEPT as f64 * DEGREE as f64 * digit * SIGMA * SIGMA / 2f64.powi(2 * SPECIAL_BITS as i32)
}

/// The automorphism `X -> X^(N / 2^level + 1)`: it fixes `X^i` for `i = 0 mod 2^(level + 1)` and negates it
/// for `i = 2^level`.
pub(super) struct Automorphism {
    /// Where every coefficient comes from: its index, `N` more if it is negated.
    from: Vec<u16>,
}

const _: () = assert!(2 * DEGREE <= 1 << 16);

impl Automorphism {
    pub(super) fn new(level: usize) -> Self {
        let exponent = (DEGREE >> level) + 1;
        let mut from = vec![0; DEGREE];
        for i in 0..DEGREE {
            let to = i * exponent % (2 * DEGREE);
            from[to % DEGREE] = (i + to / DEGREE * DEGREE) as u16;
        }
        Self { from }
    }

    /// `sigma(x)` from the coefficients of `x` followed by their negatives.
    pub(super) fn apply<T: Copy>(&self, both: &[T], out: &mut [T]) {
        for (o, &i) in out.iter_mut().zip(&self.from) {
            *o = both[usize::from(i)];
        }
    }

    /// `out += sigma(x)`, like [`Self::apply`], with room for `sigma(x)`.
    pub(super) fn add(&self, both: &[u64], add: &Affine, moved: &mut [u64], out: &mut [u64]) {
        self.apply(both, moved);
        add.apply(out, moved);
    }

    /// [`Self::apply`] for plain integers.
    pub(super) fn of(&self, x: &[i64]) -> Vec<i64> {
        let both = Zeroizing::new(x.iter().copied().chain(x.iter().map(|&x| -x)).collect::<Vec<i64>>());
        let mut out = vec![0; x.len()];
        self.apply(&both, &mut out);
        out
    }
}

/// A bit width for each prime on the wire.
fn width(prime: usize) -> Result<Ring> {
    Ok(Ring::new(if prime < KEPT { PRIME_BITS } else { SPECIAL_BITS })?)
}

/// The keys of all levels, for the evaluator: [`KEYS_BYTES`] beside the seed of their public halves.
pub(super) fn keys(basis: &Basis, s: &[i64], seed: &[u8; SEED_BYTES], prg: &mut Prg, out: &mut Vec<u8>) -> Result<()> {
    let mut public = stream(SeedPurpose::Switch, seed);
    let small = |prime: usize, x: &[i64]| {
        let modulus = basis.modulus(prime);
        let mut values = Zeroizing::new(x.iter().map(|&x| modulus.from_small_signed(x)).collect::<Vec<_>>());
        basis.ntt[prime].forward(&mut values);
        values
    };
    let secret: [_; PRIMES] = std::array::from_fn(|prime| small(prime, s));
    for level in 0..LEVELS {
        let moved = Zeroizing::new(Automorphism::new(level).of(s));
        for digit in 0..KEPT {
            let e = errors(prg);
            for (prime, s) in secret.iter().enumerate() {
                let (modulus, ntt) = (basis.modulus(prime), &basis.ntt[prime]);
                // The public half is drawn in the transform, where it is as uniform.
                let mut product = Zeroizing::new(basis.uniform(prime, &mut public));
                ntt.mul_assign(&mut product, s);
                ntt.inverse(&mut product);
                let factor = if prime == digit { basis.special[digit] } else { 0 };
                let terms = product.iter().zip(e.iter()).zip(moved.iter());
                let half = terms.map(|((&p, &e), &m)| {
                    let message = modulus.mul(factor, modulus.from_small_signed(m));
                    modulus.add(modulus.sub(modulus.from_small_signed(e), p), message)
                });
                width(prime)?.pack_into(out, &half.collect::<Vec<_>>());
            }
        }
    }
    Ok(())
}

/// Both halves of a key by digit and prime, transformed.
struct Rows([[Vec<u64>; PRIMES]; 2]);

/// One level's automorphism and its key. Public.
pub(super) struct SwitchKey {
    pub(super) automorphism: Automorphism,
    digits: Vec<Rows>,
}

/// Working space of a switch: what a ciphertext under `sigma(s)` is made of, hence as secret as the sums.
/// Wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct Scratch {
    /// A polynomial and its negative.
    pub(super) both: Vec<u64>,
    /// `c1` that is to be switched.
    pub(super) c1: [Vec<u64>; KEPT],
    pub(super) digit: Vec<u64>,
    sums: [[Vec<u64>; PRIMES]; 2],
}

impl Scratch {
    pub(super) fn new() -> Self {
        let polys = || vec![0; DEGREE];
        Self {
            both: vec![0; 2 * DEGREE],
            c1: std::array::from_fn(|_| polys()),
            digit: polys(),
            sums: std::array::from_fn(|_| std::array::from_fn(|_| polys())),
        }
    }
}

impl SwitchKey {
    /// The keys of all levels.
    ///
    /// # Errors
    /// If there are not [`KEYS_BYTES`], or a residue is not reduced.
    pub(super) fn read_all(basis: &Basis, seed: &[u8; SEED_BYTES], bytes: &[u8]) -> Result<Vec<Self>> {
        length(WHAT, KEYS_BYTES, bytes.len())?;
        let mut public = stream(SeedPurpose::Switch, seed);
        let mut rest = bytes;
        let mut read = |prime: usize| -> Result<Vec<u64>> {
            let (ring, modulus) = (width(prime)?, basis.modulus(prime).value());
            let (head, tail) = rest.split_at(ring.packed_len(DEGREE).min(rest.len()));
            rest = tail;
            let values = ring.unpack(head, DEGREE)?;
            if values.iter().any(|&x| x >= modulus) {
                return Err(RlweError::Residue { what: WHAT, modulus });
            }
            Ok(values)
        };
        let mut keys = Vec::with_capacity(LEVELS);
        for level in 0..LEVELS {
            let mut digits = Vec::with_capacity(KEPT);
            for _ in 0..KEPT {
                let mut rows = [const { [const { Vec::new() }; PRIMES] }; 2];
                let [sent, seeded] = &mut rows;
                for (prime, (sent, seeded)) in sent.iter_mut().zip(seeded).enumerate() {
                    *seeded = basis.uniform(prime, &mut public);
                    *sent = read(prime)?;
                    basis.ntt[prime].forward(sent);
                }
                digits.push(Rows(rows));
            }
            keys.push(Self { automorphism: Automorphism::new(level), digits });
        }
        Ok(keys)
    }

    /// Adds to `out` an encryption under `s` of `c1 sigma(s)`, with the `c1` of the working space.
    pub(super) fn switch(&self, basis: &Basis, out: &mut [[Vec<u64>; KEPT]; 2], scratch: &mut Scratch) {
        let Scratch { c1, digit, sums, .. } = scratch;
        for (i, (c1, key)) in c1.iter().zip(&self.digits).enumerate() {
            for (prime, ntt) in basis.ntt.iter().enumerate() {
                digit.copy_from_slice(c1);
                if prime != i && prime < KEPT {
                    basis.maps[prime].same.apply_one(digit);
                }
                ntt.forward(digit);
                for (sum, key) in sums.iter_mut().zip(&key.0) {
                    if i == 0 {
                        sum[prime].copy_from_slice(digit);
                        ntt.mul_assign(&mut sum[prime], &key[prime]);
                    } else {
                        ntt.mul_acc(&mut sum[prime], digit, &key[prime]);
                    }
                }
            }
        }
        for (sum, out) in sums.iter_mut().zip(out) {
            for (values, ntt) in sum.iter_mut().zip(&basis.ntt) {
                ntt.inverse(values);
            }
            basis.divide_add(sum, out);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::coefficients::sample::small;

    /// `c0 + c1 s` in residues.
    fn phase(basis: &Basis, c: &[[Vec<u64>; KEPT]; 2], s: &[i64]) -> [Vec<u64>; KEPT] {
        std::array::from_fn(|i| {
            let (modulus, ntt) = (basis.modulus(i), &basis.ntt[i]);
            let mut s: Vec<u64> = s.iter().map(|&x| modulus.from_small_signed(x)).collect();
            let mut c1 = c[1][i].clone();
            ntt.forward(&mut s);
            ntt.forward(&mut c1);
            ntt.mul_assign(&mut c1, &s);
            ntt.inverse(&mut c1);
            c1.iter().zip(&c[0][i]).map(|(&x, &y)| modulus.add(x, y)).collect()
        })
    }

    #[test]
    fn automorphisms_are_substitutions() {
        for level in 0..LEVELS {
            let (sigma, h) = (Automorphism::new(level), 1 << level);
            let x: Vec<i64> = (0..DEGREE as i64).map(|i| i + 1).collect();
            let got = sigma.of(&x);
            let mut want = vec![0; DEGREE];
            for (i, &x) in x.iter().enumerate() {
                let to = (i * (DEGREE / h + 1)) % (2 * DEGREE);
                want[to % DEGREE] = if to < DEGREE { x } else { -x };
                // What packing relies on.
                assert_eq!(to % (2 * h), i % (2 * h));
            }
            assert_eq!(got, want);
            assert!((0..DEGREE).step_by(2 * h).all(|i| got[i] == x[i]), "fixed");
            assert!((h..DEGREE).step_by(2 * h).all(|i| got[i] == -x[i]), "negated");
        }
    }

    #[test]
    fn every_key_switches_back_with_the_noise_that_is_stated() {
        let basis = Basis::new().unwrap();
        let mut prg = Prg::from_seed([3; 16]);
        let s = small(&mut prg);
        let mut bytes = Vec::new();
        keys(&basis, &s, &[4; 16], &mut prg, &mut bytes).unwrap();
        assert_eq!(bytes.len(), KEYS_BYTES);
        let read = SwitchKey::read_all(&basis, &[4; 16], &bytes).unwrap();
        assert_eq!(read.len(), LEVELS);
        let mut scratch = Scratch::new();
        let mut squares = 0.0;
        for key in &read {
            let c1: [Vec<u64>; KEPT] = std::array::from_fn(|i| basis.uniform(i, &mut prg));
            let mut out = [0, 1].map(|_| std::array::from_fn(|_| vec![0; DEGREE]));
            scratch.c1.clone_from(&c1);
            key.switch(&basis, &mut out, &mut scratch);
            let moved = key.automorphism.of(&s);
            let got = phase(&basis, &out, &s);
            let want = phase(&basis, &[std::array::from_fn(|_| vec![0; DEGREE]), c1], &moved);
            for c in 0..DEGREE {
                let error: [i64; KEPT] = std::array::from_fn(|i| {
                    let modulus = basis.modulus(i);
                    modulus.to_signed(modulus.sub(got[i][c], want[i][c]))
                });
                assert!(error[0] == error[1] && error[0].abs() < 200, "{error:?}");
                squares += (error[0] * error[0]) as f64;
            }
        }
        let stated = (noise() + (1.0 + DEGREE as f64 * 2.0 / 3.0) / 12.0).sqrt();
        let found = (squares / (LEVELS * DEGREE) as f64).sqrt();
        assert!((0.9..1.1).contains(&(found / stated)), "{found} against {stated}");
        assert!((noise().sqrt() - 2.6).abs() < 0.1, "the documentation's figure: {}", noise().sqrt());
    }

    #[test]
    fn damaged_keys_are_refused() {
        let basis = Basis::new().unwrap();
        let read = |bytes: &[u8]| SwitchKey::read_all(&basis, &[0; 16], bytes).err();
        assert!(read(&vec![0; KEYS_BYTES]).is_none());
        for bad in [0, 1, KEYS_BYTES - 1, KEYS_BYTES + 1] {
            assert!(matches!(read(&vec![0; bad]), Some(RlweError::Length { .. })));
        }
        // One residue that is not reduced, of any prime.
        for at in [0, KEYS_BYTES / 2, KEYS_BYTES - 9] {
            let mut bytes = vec![0; KEYS_BYTES];
            bytes[at..at + 9].fill(0xff);
            assert!(matches!(read(&bytes), Some(RlweError::Residue { .. })));
        }
    }

    /// Keys of different levels, digits and calls share nothing, and their sent halves look uniform.
    #[test]
    fn keys_look_uniform() {
        let basis = Basis::new().unwrap();
        let mut prg = Prg::from_seed([5; 16]);
        let s = small(&mut prg);
        let mut made = || {
            let mut bytes = Vec::new();
            keys(&basis, &s, &prg.next_u128().to_le_bytes(), &mut prg, &mut bytes).unwrap();
            bytes
        };
        let (first, second) = (made(), made());
        let mut blocks: Vec<&[u8]> = first.chunks(16).chain(second.chunks(16)).collect();
        blocks.sort_unstable();
        assert!(blocks.windows(2).all(|w| w[0] != w[1]));
        let mut counts = [0f64; 256];
        first.iter().for_each(|&b| counts[usize::from(b)] += 1.0);
        let mean = first.len() as f64 / 256.0;
        let chi: f64 = counts.iter().map(|c| (c - mean).powi(2) / mean).sum();
        // Mean 255, deviation 23; primes a little below a power of two count for nothing here.
        assert!((150.0..380.0).contains(&chi), "{chi}");
    }
}
