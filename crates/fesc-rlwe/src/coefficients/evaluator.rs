//! The evaluator: sums of its scalars times ciphertexts, and the answers.

use fesc_ring::poly::{PolyRing, PreparedFull};
use fesc_ring::wide::{self, Shape, WORD, WORD_BITS};
use fesc_ring::{Prg, Ring};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::holder::{answer_mask, answers, key_mask, split};
use super::sample::{errors, fresh_seed, small, uniform};
use super::{
    ANSWER_DELTA, DEGREE, GIVEN_BYTES, KEY_BYTES, LOG_ANSWER, LOG_Q, MAX_SUMMANDS, Piece, RANDOM_BYTES, RESPONSE_BYTES,
    RESPONSE_DROP, UPLOAD_DROP, messages,
};
use crate::error::length;
use crate::{Result, RlweError, params};

/// Works on ciphertexts of a key holder, whose public key it has.
pub struct Evaluator {
    pub(super) polys: PolyRing,
    mask: PreparedFull,
    pub(super) key: PreparedFull,
}

/// A ciphertext as received. Public.
pub struct Cipher {
    /// `b / 2^4`: the low words, and the high ones if the messages were given.
    b: Vec<u64>,
    b_high: Option<Vec<u64>>,
    a: [Vec<u64>; 2],
}

/// A sum of products modulo `q'`, not yet masked: as secret as the scalars. It leaves only through [`Evaluator::respond`].
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Sum {
    /// As many coefficients as there are results.
    pub(super) c0: Vec<u64>,
    /// All `N`.
    pub(super) c1: Vec<u64>,
}

impl Evaluator {
    /// From a key holder's public key.
    ///
    /// # Errors
    /// If it has another length than [`KEY_BYTES`].
    pub fn new(public_key: &[u8]) -> Result<Self> {
        params::check(DEGREE, LOG_Q)?;
        let (seed, rest) = split("a public key of the coefficients engine, in bytes", public_key, KEY_BYTES)?;
        let polys = answers()?;
        let mask = polys.prepare_full(&key_mask(&seed))?;
        let key = polys.prepare_full(&polys.ring().unpack(rest, DEGREE)?)?;
        Ok(Self { polys, mask, key })
    }

    /// A ciphertext of random messages.
    ///
    /// # Errors
    /// If it has another length than [`RANDOM_BYTES`].
    pub fn receive_random(&self, bytes: &[u8]) -> Result<Cipher> {
        let (seed, rest) = split("an encryption of random messages, in bytes", bytes, RANDOM_BYTES)?;
        let b = Ring::new(WORD_BITS)?.unpack(rest, DEGREE)?;
        Ok(Cipher { b, b_high: None, a: uniform(&seed) })
    }

    /// A ciphertext of given messages.
    ///
    /// # Errors
    /// If it has another length than [`GIVEN_BYTES`].
    pub fn receive(&self, bytes: &[u8]) -> Result<Cipher> {
        let (seed, rest) = split("an encryption of given messages, in bytes", bytes, GIVEN_BYTES)?;
        let low = Ring::new(WORD_BITS)?;
        let (b, high) = rest.split_at(low.packed_len(DEGREE).min(rest.len()));
        let b_high = Ring::new(LOG_Q - UPLOAD_DROP - WORD_BITS)?.unpack(high, DEGREE)?;
        Ok(Cipher { b: low.unpack(b, DEGREE)?, b_high: Some(b_high), a: uniform(&seed) })
    }

    /// `sum_j scalars[o][j] v_j` for every output `o`, `scalars` row-major and modulo `2^48`. Vector `j` is block `j mod g` of cipher `j / g`, `g = N / B` with the
    /// block size `B` of the piece; of every block the piece's width is results.
    ///
    /// # Errors
    /// If there are more than [`super::MAX_SUMMANDS`] vectors, not the ciphertexts that they take, or not `outputs` times `vectors` scalars.
    pub fn combine(
        &self,
        ciphers: &[Cipher],
        piece: &Piece,
        vectors: usize,
        scalars: &[u64],
        outputs: usize,
    ) -> Result<Vec<Sum>> {
        let (block, width, per) = (piece.block, piece.width, piece.per_cipher());
        if vectors > MAX_SUMMANDS {
            return Err(RlweError::Summands { summands: vectors, most: MAX_SUMMANDS });
        }
        length("ciphertexts of the vectors", vectors.div_ceil(per), ciphers.len())?;
        length("scalars", outputs.saturating_mul(vectors), scalars.len())?;
        let ring = messages()?;
        let scalars = Zeroizing::new(scalars.iter().map(|&x| ring.to_signed(x)).collect::<Vec<i64>>());

        let mut c0 = Zeroizing::new(vec![0; outputs * width]);
        let wide = ciphers.iter().any(|c| c.b_high.is_some());
        let shape = Shape { terms: vectors, cols: width, wide, shift: LOG_Q - LOG_ANSWER - UPLOAD_DROP };
        let read = |j: usize, from: usize, lo: &mut [u64], hi: &mut [u64]| {
            let (cipher, at) = (&ciphers[j / per], j % per * block + from);
            lo.copy_from_slice(&cipher.b[at..at + lo.len()]);
            match &cipher.b_high {
                Some(high) => hi.copy_from_slice(&high[at..at + hi.len()]),
                None => hi.fill(0),
            }
        };
        wide::combine(shape, &scalars, read, &mut c0)?;

        let mut c1 = Zeroizing::new(vec![0; outputs * DEGREE]);
        let shape = Shape { terms: vectors, cols: DEGREE, wide: true, shift: LOG_Q - LOG_ANSWER };
        let read = |j: usize, from: usize, lo: &mut [u64], hi: &mut [u64]| {
            rotated(&ciphers[j / per].a, j % per * block + from, lo, hi);
        };
        wide::combine(shape, &scalars, read, &mut c1)?;

        let c0 = (0..outputs).map(|o| c0[o * width..(o + 1) * width].to_vec());
        let c1 = (0..outputs).map(|o| c1[o * DEGREE..(o + 1) * DEGREE].to_vec());
        Ok(c0.zip(c1).map(|(c0, c1)| Sum { c0, c1 }).collect())
    }

    /// The answer ([`RESPONSE_BYTES`]) and this party's shares of the results.
    ///
    /// # Errors
    /// None for a sum of this engine.
    pub fn respond(&self, sum: &Sum, prg: &mut Prg) -> Result<(Vec<u8>, Vec<u64>)> {
        let r = small(prg);
        self.respond_with(sum, &r, &errors(prg), prg)
    }

    /// [`Self::respond`] with given `r` and `f`; tests give bad ones.
    pub(super) fn respond_with(&self, sum: &Sum, r: &[i64], f: &[i64], prg: &mut Prg) -> Result<(Vec<u8>, Vec<u64>)> {
        let r = self.polys.prepare_small(r)?;
        let mut d1 = sum.c1.clone();
        self.polys.mul_add(&mut d1, &self.mask, &r)?;
        let half = 1u64 << (RESPONSE_DROP - 1);
        for (d, &f) in d1.iter_mut().zip(f) {
            *d = d.wrapping_add(f as u64).wrapping_add(half) >> RESPONSE_DROP;
        }
        let seed = fresh_seed(prg);
        let mut bytes = Vec::with_capacity(RESPONSE_BYTES);
        bytes.extend_from_slice(&seed);
        Ring::new(LOG_ANSWER - RESPONSE_DROP)?.pack_into(&mut bytes, &d1);

        // R = d0' - d0.
        let zero = Zeroizing::new(self.polys.mul(&self.key, &r)?);
        let mut share = answer_mask(&seed, sum.c0.len());
        let ring = messages()?;
        for ((x, &c), &z) in share.iter_mut().zip(&sum.c0).zip(zero.iter()) {
            let mask = x.wrapping_sub(c).wrapping_sub(z);
            *x = ring.neg(mask >> ANSWER_DELTA);
        }
        Ok((bytes, share))
    }
}

/// Coefficients `at ..` of a polynomial whose coefficients `N ..` are its first ones negated: `X^-at` times it.
fn rotated(a: &[Vec<u64>; 2], at: usize, lo: &mut [u64], hi: &mut [u64]) {
    let before = DEGREE.saturating_sub(at).min(lo.len());
    lo[..before].copy_from_slice(&a[0][at.min(DEGREE)..][..before]);
    hi[..before].copy_from_slice(&a[1][at.min(DEGREE)..][..before]);
    let from = (at + before) % DEGREE;
    let wrapped = a[0][from..].iter().zip(&a[1][from..]);
    for ((l, h), (&x, &y)) in lo[before..].iter_mut().zip(&mut hi[before..]).zip(wrapped) {
        *l = x.wrapping_neg() & WORD;
        *h = (!y).wrapping_add(u64::from(x == 0)) & WORD;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_is_multiplication_by_a_power_of_x() {
        let a = uniform(&[3; 16]);
        let number = |i: usize| i128::from(a[0][i]) | i128::from(a[1][i]) << WORD_BITS;
        for (at, len) in [(0, 24), (4090, 24), (4096, 24), (5000, 24), (8191, 1), (2048, 2048), (1, 4096)] {
            let (mut lo, mut hi) = (vec![9; len], vec![9; len]);
            rotated(&a, at, &mut lo, &mut hi);
            for i in 0..len {
                let k = at + i;
                let want = if k < DEGREE { number(k) } else { -number(k - DEGREE) };
                let got = i128::from(lo[i]) | i128::from(hi[i]) << WORD_BITS;
                assert_eq!(got, want & ((1 << LOG_Q) - 1), "{at} {i}");
            }
        }
        let zeros = [vec![0; DEGREE], vec![7; DEGREE]];
        let (mut lo, mut hi) = ([9], [9]);
        rotated(&zeros, DEGREE, &mut lo, &mut hi);
        assert_eq!((lo, hi), ([0], [WORD - 6]));
    }
}
