//! The side that holds the key: encrypts operands, opens responses.

use fesc_ring::Prg;
use fesc_ring::sample::{gaussian, ternary};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::basis::{KEPT, LIMBS, Limb, VALUE_BITS};
use super::params::SlotParams;
use super::wire::{self, SeedDomain};
use crate::{Result, RlweError};

/// The ring of the shares that come out: the low 48 bits.
pub(super) const SHARE_MASK: u64 = u64::MAX >> 16;

/// A secret key. No `Debug`, no `Clone`, no way out; wiped on drop.
pub struct KeyHolder {
    params: SlotParams,
    /// The secret's transform modulo each prime.
    pub(super) secret: Zeroizing<Vec<u64>>,
}

/// Residues of small coefficients, transformed.
pub(super) fn transform_small(limb: &Limb, small: &[i64], out: &mut [u64]) {
    limb.residues(small, out);
    limb.forward(out);
}

/// Refuses values above `2^47` in magnitude. One verdict for all, so that time does not say where one is.
pub(super) fn check_values(what: &'static str, values: &[i64]) -> Result<()> {
    let bound = 1i64 << VALUE_BITS;
    // Negative as soon as one of the differences is.
    let sign = values.iter().fold(0, |sign, &v| sign | v.wrapping_add(bound) | bound.wrapping_sub(v));
    if sign < 0 { Err(RlweError::Range { what, bits: VALUE_BITS }) } else { Ok(()) }
}

impl KeyHolder {
    /// A fresh key, and the public key that the evaluator needs for its encryptions of zero.
    pub fn new(params: SlotParams, prg: &mut Prg) -> (Self, Vec<u8>) {
        let n = params.slots();
        let mut small = Zeroizing::new(vec![0; n]);
        ternary(prg, &mut small);
        let mut secret = Zeroizing::new(vec![0; LIMBS * n]);
        for (row, limb) in secret.chunks_exact_mut(n).zip(&params.basis().limbs) {
            transform_small(limb, &small, row);
        }
        let holder = Self { params, secret };
        let public = holder.seal(SeedDomain::PublicKey, &[], prg);
        (holder, public)
    }

    /// The parameters.
    pub fn params(&self) -> &SlotParams {
        &self.params
    }

    /// Encrypts up to [`SlotParams::slots`] values of magnitude up to `2^47`; the slots after them are zero.
    /// Every call draws a fresh seed and fresh noise. The result has [`SlotParams::upload_bytes`] bytes.
    ///
    /// # Errors
    /// If there are too many values or one is too large.
    pub fn encrypt(&self, values: &[i64], prg: &mut Prg) -> Result<Vec<u8>> {
        let expected = self.params.slots();
        if values.len() > expected {
            return Err(RlweError::Length { what: "values for the slots", expected, got: values.len() });
        }
        check_values("values to encrypt", values)?;
        Ok(self.seal(SeedDomain::Upload, values, prg))
    }

    /// `b = e - a s + P m` under a fresh seed of `a`.
    fn seal(&self, domain: SeedDomain, values: &[i64], prg: &mut Prg) -> Vec<u8> {
        let (basis, n) = (self.params.basis(), self.params.slots());
        let seed = wire::fresh_seed(prg);
        let mut noise = Zeroizing::new(vec![0; n]);
        gaussian(prg, &mut noise);
        let mut rows = vec![0; LIMBS * n];
        let work = rows.par_chunks_exact_mut(n).zip(self.secret.par_chunks_exact(n)).zip(&basis.limbs).enumerate();
        work.for_each(|(i, ((row, secret), limb))| {
            let mut other = Zeroizing::new(vec![0; n]);
            wire::expand(limb, domain, &seed, row);
            limb.ntt().mul_assign(row, secret);
            transform_small(limb, &noise, &mut other);
            limb.sub_from(row, &other);
            if let Some(scale) = basis.scale.get(i) {
                let message = &mut other[..values.len()];
                limb.residues(values, message);
                scale.apply(&mut row[..values.len()], message);
            }
        });
        wire::write(basis, &seed, &rows)
    }

    /// Opens a response: the key holder's share modulo `2^48` of each slot.
    ///
    /// # Errors
    /// If the length is wrong or a residue is not reduced.
    pub fn open(&self, response: &[u8]) -> Result<Vec<u64>> {
        let mut rows = self.phase(response)?;
        let basis = self.params.basis();
        let mut share = basis.slots_of_floor(&mut rows, false);
        // Both lifts are in [0, t); all but a fraction |m| / t of them add up to m + t.
        share.iter_mut().for_each(|s| *s = s.wrapping_sub(basis.t()) & SHARE_MASK);
        Ok(share)
    }

    /// `d0 + d1 s`: coefficients modulo the kept primes.
    pub(super) fn phase(&self, response: &[u8]) -> Result<Zeroizing<Vec<u64>>> {
        let (basis, n) = (self.params.basis(), self.params.slots());
        let mut rows = Zeroizing::new(vec![0; KEPT * n]);
        let seed = wire::read(basis, SeedDomain::Response, response, &mut rows)?;
        let work = rows.par_chunks_exact_mut(n).zip(self.secret.par_chunks_exact(n)).zip(&basis.limbs);
        work.for_each(|((row, secret), limb)| {
            limb.forward(row);
            limb.ntt().mul_assign(row, secret);
            limb.inverse(row);
            let mut first = vec![0; n];
            wire::expand(limb, SeedDomain::Response, &seed, &mut first);
            limb.add(row, &first);
        });
        Ok(rows)
    }
}
