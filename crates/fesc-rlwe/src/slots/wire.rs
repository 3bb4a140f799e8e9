//! Bytes: a seed for one polynomial, packed residues for the other.
//!
//! | message | bytes |
//! |---|---|
//! | upload, public key | seed of `a` (16), then `b` modulo each of the eight primes |
//! | response | seed of `d0` (16), then `d1` modulo each of the first five primes |
//!
//! Each residue takes as many bits as its prime. Lengths are exact, and a residue at or above its prime is
//! refused.

use fesc_ring::Prg;
use fesc_ring::derive::Derive;
use fesc_ring::sample::uniform_mod;
use rayon::prelude::*;

use super::basis::{Basis, Limb};
use super::params::SEED;
use crate::error::length;
use crate::{Result, RlweError};

/// What a seed is for. One seed never serves two.
#[derive(Clone, Copy)]
pub(super) enum SeedDomain {
    PublicKey,
    Upload,
    Response,
}

impl SeedDomain {
    fn name(self) -> &'static [u8; 16] {
        match self {
            SeedDomain::PublicKey => b"slots public key",
            SeedDomain::Upload => b"slots upload a  ",
            SeedDomain::Response => b"slots answer d0 ",
        }
    }

    fn what(self) -> &'static str {
        match self {
            SeedDomain::PublicKey => "a public key of the slots engine",
            SeedDomain::Upload => "an encrypted operand",
            SeedDomain::Response => "a response of the slots engine",
        }
    }
}

pub(super) type Seed = [u8; SEED];

pub(super) fn fresh_seed(prg: &mut Prg) -> Seed {
    prg.public_bytes()
}

/// The uniform row of a seed modulo one prime: a stream keyed by a hash of purpose, seed, degree and prime.
pub(super) fn expand(limb: &Limb, domain: SeedDomain, seed: &Seed, out: &mut [u64]) {
    let derive = Derive::new(b"fesc slots v1").bytes(domain.name()).bytes(seed);
    let mut stream = derive.numbers([out.len() as u64, limb.modulus.value()]).stream();
    uniform_mod(&mut stream, limb.modulus, out);
}

/// A seed and rows modulo the first primes, as bytes.
pub(super) fn write(basis: &Basis, seed: &Seed, rows: &[u64]) -> Vec<u8> {
    let n = basis.degree();
    let bits = basis.bits(rows.len() / n) as usize;
    let mut out = Vec::with_capacity(SEED + bits * n / 8);
    out.extend_from_slice(seed);
    for (row, limb) in rows.chunks_exact(n).zip(&basis.limbs) {
        limb.wire.pack_into(&mut out, row);
    }
    out
}

/// The seed and the rows modulo the first primes of a received message; `rows` has a row for each.
pub(super) fn read(basis: &Basis, domain: SeedDomain, bytes: &[u8], rows: &mut [u64]) -> Result<Seed> {
    let (n, what) = (basis.degree(), domain.what());
    let bits = basis.bits(rows.len() / n) as usize;
    length(what, SEED + bits * n / 8, bytes.len())?;
    let (seed, mut rest) =
        bytes.split_first_chunk::<SEED>().ok_or(RlweError::Length { what, expected: SEED, got: bytes.len() })?;
    let mut parts = Vec::with_capacity(rows.len() / n);
    for (row, limb) in rows.chunks_exact_mut(n).zip(&basis.limbs) {
        let (part, after) = rest.split_at(limb.wire.packed_len(n));
        parts.push((part, row, limb));
        rest = after;
    }
    parts.into_par_iter().try_for_each(|(part, row, limb)| {
        let modulus = limb.modulus.value();
        if limb.wire.unpack_residues(part, modulus, row)? { Ok(()) } else { Err(RlweError::Residue { what, modulus }) }
    })?;
    Ok(*seed)
}
