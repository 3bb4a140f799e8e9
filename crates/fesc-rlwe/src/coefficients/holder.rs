//! The key holder: encrypts its vectors, opens the answers.

use fesc_ring::poly::{PolyRing, PreparedSmall};
use fesc_ring::wide::{WORD, WORD_BITS};
use fesc_ring::{Prg, Ring};
use zeroize::Zeroizing;

use super::residues::{Basis, LOG_SPECIAL};
use super::sample::{Q_MASK, Secret, SeedPurpose, errors, fresh_seed, small, stream, uniform};
use super::switch;
use super::{
    ANSWER_DELTA, DEGREE, DELTA, GIVEN_BYTES, KEY_BYTES, LOG_ANSWER, LOG_Q, MESSAGE_BITS, Piece, RESPONSE_BYTES,
    RESPONSE_DROP, SEED_BYTES, UPLOAD_DROP, messages,
};
use crate::error::length;
use crate::{Result, params};

/// The secret key. No `Debug`, no `Clone`; wiped on drop.
pub struct KeyHolder {
    pub(super) secret: Secret,
    polys: PolyRing,
    small: PreparedSmall,
}

/// Modulo `q'`.
pub(super) fn answers() -> Result<PolyRing> {
    Ok(PolyRing::new(Ring::new(LOG_ANSWER)?, DEGREE, 1)?)
}

/// `p1` of a public key.
pub(super) fn key_mask(seed: &[u8; SEED_BYTES]) -> Vec<u64> {
    let mut out = vec![0; DEGREE];
    stream(SeedPurpose::Key, seed).fill_u64(&mut out);
    out
}

/// `d0'`.
pub(super) fn answer_mask(seed: &[u8; SEED_BYTES]) -> Vec<u64> {
    let mut out = vec![0; DEGREE];
    stream(SeedPurpose::Mask, seed).fill_u64(&mut out);
    out
}

/// The seed in front of a message of a known length.
pub(super) fn split<'a>(what: &'static str, bytes: &'a [u8], expected: usize) -> Result<([u8; SEED_BYTES], &'a [u8])> {
    length(what, expected, bytes.len())?;
    let mut seed = [0; SEED_BYTES];
    let (head, rest) = bytes.split_at(SEED_BYTES.min(bytes.len()));
    seed[..head.len()].copy_from_slice(head);
    Ok((seed, rest))
}

impl KeyHolder {
    /// A fresh key pair; the bytes are the public key and the automorphism keys, for the evaluator.
    ///
    /// # Errors
    /// None with these constants.
    pub fn new(prg: &mut Prg) -> Result<(Self, Vec<u8>)> {
        params::check(DEGREE, LOG_Q.max(LOG_SPECIAL))?;
        let s = small(prg);
        let polys = answers()?;
        let small = polys.prepare_small(&s)?;
        let seed = fresh_seed(prg);
        // p0 = e - p1 s.
        let product = Zeroizing::new(polys.mul(&polys.prepare_full(&key_mask(&seed))?, &small)?);
        let key: Vec<u64> = errors(prg).iter().zip(product.iter()).map(|(&e, &p)| (e as u64).wrapping_sub(p)).collect();
        let mut bytes = Vec::with_capacity(KEY_BYTES);
        bytes.extend_from_slice(&seed);
        polys.ring().pack_into(&mut bytes, &key);
        switch::keys(&Basis::new()?, &s, &seed, prg, &mut bytes)?;
        Ok((Self { secret: Secret::new(&s)?, polys, small }, bytes))
    }

    /// `e - a s + 2^3` modulo `2^104`, with the seed of `a`; 2^3 is half of what is dropped.
    fn sample(&self, prg: &mut Prg) -> ([u8; SEED_BYTES], Zeroizing<Vec<u128>>) {
        let seed = fresh_seed(prg);
        let half = 1i128 << (UPLOAD_DROP - 1);
        let mut y = Zeroizing::new(errors(prg).iter().map(|&e| (i128::from(e) + half) as u128).collect::<Vec<_>>());
        self.secret.mul_sub(&mut y, &uniform(&seed));
        (seed, y)
    }

    /// An encryption of random messages ([`Piece::upload_bytes`]), and the messages: `N` elements of
    /// `Z_2^48`, pseudorandom for the evaluator.
    ///
    /// # Errors
    /// None with these constants.
    pub fn random(&self, piece: &Piece, prg: &mut Prg) -> Result<(Vec<u8>, Vec<u64>)> {
        let sent = Ring::new(piece.sent_bits())?;
        let (seed, y) = self.sample(prg);
        let ring = messages()?;
        // The message begins where what is sent ends.
        let values = y.iter().map(|&y| ring.neg((y >> (UPLOAD_DROP + sent.bits())) as u64)).collect();
        let low: Vec<u64> = y.iter().map(|&y| sent.reduce((y >> UPLOAD_DROP) as u64)).collect();
        let mut bytes = Vec::with_capacity(piece.upload_bytes());
        bytes.extend_from_slice(&seed);
        sent.pack_into(&mut bytes, &low);
        Ok((bytes, values))
    }

    /// An encryption of given messages ([`GIVEN_BYTES`]): up to `N`, read modulo `2^48`; missing ones are
    /// zero.
    ///
    /// # Errors
    /// If there are more than `N`.
    pub fn encrypt(&self, values: &[u64], prg: &mut Prg) -> Result<Vec<u8>> {
        length("messages of one ciphertext", DEGREE.min(values.len()), values.len())?;
        let (seed, mut y) = self.sample(prg);
        for (y, &v) in y.iter_mut().zip(values) {
            *y = y.wrapping_add(u128::from(v) << DELTA) & Q_MASK;
        }
        let low: Vec<u64> = y.iter().map(|&y| (y >> UPLOAD_DROP) as u64 & WORD).collect();
        let high: Vec<u64> = y.iter().map(|&y| (y >> (UPLOAD_DROP + WORD_BITS)) as u64).collect();
        let mut bytes = Vec::with_capacity(GIVEN_BYTES);
        bytes.extend_from_slice(&seed);
        Ring::new(WORD_BITS)?.pack_into(&mut bytes, &low);
        Ring::new(LOG_Q - UPLOAD_DROP - WORD_BITS)?.pack_into(&mut bytes, &high);
        Ok(bytes)
    }

    /// This party's shares of all `N` coefficients of an answer; the piece says which are results.
    ///
    /// # Errors
    /// If the answer has another length than [`RESPONSE_BYTES`].
    pub fn open(&self, response: &[u8]) -> Result<Vec<u64>> {
        let mut shares = self.phase(response)?;
        shares.iter_mut().for_each(|x| *x >>= ANSWER_DELTA);
        debug_assert!(shares.iter().all(|x| x >> MESSAGE_BITS == 0));
        Ok(shares)
    }

    /// `d0' + d1 s`.
    pub(super) fn phase(&self, response: &[u8]) -> Result<Vec<u64>> {
        let (seed, rest) = split("an answer of the coefficients engine, in bytes", response, RESPONSE_BYTES)?;
        let mut d1 = Ring::new(LOG_ANSWER - RESPONSE_DROP)?.unpack(rest, DEGREE)?;
        d1.iter_mut().for_each(|x| *x <<= RESPONSE_DROP);
        let product = Zeroizing::new(self.polys.mul(&self.polys.prepare_full(&d1)?, &self.small)?);
        let mut phase = answer_mask(&seed);
        for (o, &p) in phase.iter_mut().zip(product.iter()) {
            *o = o.wrapping_add(p);
        }
        Ok(phase)
    }
}
