//! The evaluator: sums of its scalars times ciphertexts, and the answers.

use std::ops::Range;

use fesc_ring::poly::{PolyRing, PreparedFull};
use fesc_ring::wide::{self, Shape, WORD, WORD_BITS};
use fesc_ring::{Prg, Ring};
use rayon::prelude::*;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::holder::{answer_mask, answers, key_mask, split};
use super::pack::Packer;
use super::residues::{Basis, LOG_SPECIAL};
use super::sample::{errors, fresh_seed, small, uniform};
use super::switch::{KEYS_BYTES, SwitchKey};
use super::{
    ANSWER_DELTA, DEGREE, GIVEN_BYTES, KEY_BYTES, LOG_ANSWER, LOG_Q, MAX_SUMMANDS, Piece, RESPONSE_BYTES,
    RESPONSE_DROP, UPLOAD_DROP, messages,
};
use crate::error::length;
use crate::{Result, RlweError, params};

/// Outputs that are multiplied at once: enough for the kernel, few enough to follow a triangle.
const ROWS: usize = 32;

/// The evaluator's scalars, `outputs x vectors`, row-major and modulo `2^48`.
#[derive(Clone, Copy)]
pub struct Scalars<'a> {
    /// All of them.
    pub values: &'a [u64],
    /// For every output, how many vectors it is a sum of at most; from there on its scalars are zero.
    /// Everybody may know that: time depends on it. Outputs that are not in here are sums of all vectors.
    pub reach: &'a [usize],
}

impl<'a> From<&'a [u64]> for Scalars<'a> {
    fn from(values: &'a [u64]) -> Self {
        Self { values, reach: &[] }
    }
}

/// Rows of centred scalars without the zeros at their ends.
struct Rows {
    terms: usize,
    scalars: Zeroizing<Vec<i64>>,
}

impl Scalars<'_> {
    fn rows(&self, outputs: Range<usize>, vectors: usize) -> Result<Rows> {
        let ring = messages()?;
        let reach = outputs.clone().map(|o| self.reach.get(o).map_or(vectors, |&r| r.min(vectors)));
        let terms = reach.max().unwrap_or(0);
        let rows = self.values[outputs.start * vectors..outputs.end * vectors].chunks_exact(vectors.max(1));
        let scalars = rows.flat_map(|row| row[..terms].iter().map(|&x| ring.to_signed(x))).collect();
        Ok(Rows { terms, scalars: Zeroizing::new(scalars) })
    }
}

/// Works on ciphertexts of a key holder, whose public key it has.
pub struct Evaluator {
    pub(super) polys: PolyRing,
    mask: PreparedFull,
    pub(super) key: PreparedFull,
    packer: Packer,
}

/// A ciphertext as received. Public.
pub struct Cipher {
    /// `b / 2^4`: the low words, and the high ones if the messages were given.
    b: Vec<u64>,
    b_high: Option<Vec<u64>>,
    a: [Vec<u64>; 2],
}

/// A sum of products modulo `q'`, not yet masked: as secret as the scalars. It leaves only through
/// [`Evaluator::respond`].
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Sum {
    /// Zero where there is no result.
    pub(super) c0: Vec<u64>,
    pub(super) c1: Vec<u64>,
}

impl Evaluator {
    /// From a key holder's public key.
    ///
    /// # Errors
    /// If it has another length than [`KEY_BYTES`], or a residue in it is not reduced.
    pub fn new(public_key: &[u8]) -> Result<Self> {
        params::check(DEGREE, LOG_Q.max(LOG_SPECIAL))?;
        let (seed, rest) = split("a public key of the coefficients engine, in bytes", public_key, KEY_BYTES)?;
        let polys = answers()?;
        let mask = polys.prepare_full(&key_mask(&seed))?;
        let (key, switch) = rest.split_at(rest.len().saturating_sub(KEYS_BYTES));
        let key = polys.prepare_full(&polys.ring().unpack(key, DEGREE)?)?;
        let basis = Basis::new()?;
        let keys = SwitchKey::read_all(&basis, &seed, switch)?;
        Ok(Self { polys, mask, key, packer: Packer::new(basis, keys) })
    }

    /// A ciphertext of random messages.
    ///
    /// # Errors
    /// If it has another length than [`Piece::upload_bytes`].
    pub fn receive_random(&self, piece: &Piece, bytes: &[u8]) -> Result<Cipher> {
        let (seed, rest) = split("an encryption of random messages, in bytes", bytes, piece.upload_bytes())?;
        let b = Ring::new(piece.sent_bits())?.unpack(rest, DEGREE)?;
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

    /// `sum_j scalars[o][j] v_j` for every output `o`, packed: one sum for every [`Piece::pack`] outputs.
    /// Vector `j` lies in cipher `j / g`, value `p` in its coefficient `g p + j mod g`, with `g` of
    /// [`Piece::per_cipher`].
    ///
    /// # Errors
    /// If there are more than [`super::MAX_SUMMANDS`] vectors, not the ciphertexts that they take, or not
    /// `outputs` times `vectors` scalars.
    pub fn combine(
        &self,
        ciphers: &[Cipher],
        piece: &Piece,
        vectors: usize,
        scalars: Scalars<'_>,
        outputs: usize,
    ) -> Result<Vec<Sum>> {
        if vectors > MAX_SUMMANDS {
            return Err(RlweError::Summands { summands: vectors, most: MAX_SUMMANDS });
        }
        length("ciphertexts of the vectors", vectors.div_ceil(piece.per_cipher()), ciphers.len())?;
        length("scalars", outputs.saturating_mul(vectors), scalars.values.len())?;
        let mut sums = Vec::with_capacity(outputs.div_ceil(piece.pack));
        let rows = piece.pack.max(ROWS);
        for first in (0..outputs).step_by(rows) {
            let count = rows.min(outputs - first);
            // Both are wiped: before the zero encryption a sum is as good as its scalars.
            let mut c0 = Zeroizing::new(vec![0; count * piece.width]);
            let mut c1 = Zeroizing::new(vec![0; count * DEGREE]);
            let blocks = c0.chunks_mut(ROWS * piece.width).zip(c1.chunks_mut(ROWS * DEGREE));
            for (i, (c0, c1)) in blocks.enumerate() {
                let first = first + i * ROWS;
                let outputs = first..first + c1.len() / DEGREE;
                multiply(ciphers, piece, scalars.rows(outputs, vectors)?, c0, c1)?;
            }
            let packs = c1.par_chunks(piece.pack * DEGREE).zip(c0.par_chunks(piece.pack * piece.width));
            sums.par_extend(packs.map(|(c1, values)| self.pack(piece, c1, values)));
        }
        Ok(sums)
    }

    /// Up to [`Piece::pack`] results in one sum: their `c1`, and the values in their `c0`.
    fn pack(&self, piece: &Piece, c1: &[u64], values: &[u64]) -> Sum {
        let (mut c0, c1) = if piece.pack > 1 { self.packer.pack(piece, c1) } else { (vec![0; DEGREE], c1.to_vec()) };
        for (i, values) in values.chunks_exact(piece.width).enumerate() {
            for (at, &value) in piece.places(i).zip(values) {
                c0[at] = c0[at].wrapping_add(value.wrapping_mul(piece.pack as u64));
            }
        }
        Sum { c0, c1 }
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
        let mut share = answer_mask(&seed);
        let ring = messages()?;
        for ((x, &c), &z) in share.iter_mut().zip(&sum.c0).zip(zero.iter()) {
            let mask = x.wrapping_sub(c).wrapping_sub(z);
            *x = ring.neg(mask >> ANSWER_DELTA);
        }
        Ok((bytes, share))
    }
}

/// Sums of a few rows of scalars times vectors, before packing: the values in `c0`, and `c1`.
fn multiply(ciphers: &[Cipher], piece: &Piece, rows: Rows, c0: &mut [u64], c1: &mut [u64]) -> Result<()> {
    let (width, per) = (piece.width, piece.per_cipher());
    let wide = ciphers.iter().any(|c| c.b_high.is_some());
    let shape = Shape { terms: rows.terms, cols: width, wide, shift: LOG_Q - LOG_ANSWER - UPLOAD_DROP };
    let read = |j: usize, from: usize, lo: &mut [u64], hi: &mut [u64]| {
        let (cipher, at) = (&ciphers[j / per], j % per + per * from);
        let gather = |out: &mut [u64], b: &[u64]| {
            out.iter_mut().zip(b[at..].iter().step_by(per)).for_each(|(o, &b)| *o = b);
        };
        gather(lo, &cipher.b);
        match &cipher.b_high {
            Some(high) => gather(hi, high),
            None => hi.fill(0),
        }
    };
    wide::combine(shape, &rows.scalars, read, c0)?;
    let shape = Shape { terms: rows.terms, cols: DEGREE, wide: true, shift: LOG_Q - LOG_ANSWER };
    let read = |j: usize, from: usize, lo: &mut [u64], hi: &mut [u64]| {
        rotated(&ciphers[j / per].a, j % per + from, lo, hi);
    };
    Ok(wide::combine(shape, &rows.scalars, read, c1)?)
}

/// Coefficients `at ..` of a polynomial whose coefficients `N ..` are its first ones negated: `X^-at` times
/// it.
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
