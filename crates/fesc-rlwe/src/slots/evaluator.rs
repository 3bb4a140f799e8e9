//! The side that multiplies: receives encrypted operands, sums products with its own, answers.

use std::sync::Mutex;

use fesc_ring::Prg;
use fesc_ring::pool::{Pool, Pooled};
use fesc_ring::sample::{gaussian, ternary};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::basis::{Basis, KEPT, LIMBS};
use super::key::{SHARE_MASK, check_values, transform_small};
use super::params::SlotParams;
use super::weights::residues;
use super::wire::{self, Seed, SeedDomain};
use crate::{Result, RlweError};

/// Most buffers that are kept: a tile of 128 ciphertexts and a block of 64 sums.
const KEEP: usize = 192;

/// The evaluator: knows a public key, and no secret one. The only bytes it makes are responses.
pub struct Evaluator {
    params: SlotParams,
    key: Cipher,
    /// Buffers of ciphertext size: a fresh one costs 512 page faults, about as long as reading an upload.
    pool: Pool,
    /// Memory for the weights of a combination: as large as a block of sums, and as dear to allocate.
    pub(super) scratch: Mutex<Zeroizing<Vec<u64>>>,
}

/// A received encryption: `b` and `a`, eight rows each, transformed.
pub struct Cipher {
    pub(super) rows: Pooled,
}

/// A sum of products under encryption. It tells the key holder the evaluator's operands, so it is wiped, and
/// only [`Evaluator::respond`] lets it out.
pub struct Sum {
    pub(super) rows: Pooled,
}

/// The evaluator's operand, modulo each prime: one value per run of slots.
pub struct Multiplier {
    pub(super) rows: Zeroizing<Vec<u64>>,
    run: usize,
}

/// The fresh encryption of zero of one response.
pub(super) struct Blind {
    pub(super) secret: Zeroizing<Vec<i64>>,
    pub(super) noise: Zeroizing<Vec<i64>>,
}

impl Blind {
    pub(super) fn fresh(n: usize, prg: &mut Prg) -> Self {
        let (mut secret, mut noise) = (Zeroizing::new(vec![0; n]), Zeroizing::new(vec![0; n]));
        ternary(prg, &mut secret);
        gaussian(prg, &mut noise);
        Self { secret, noise }
    }
}

fn receive(basis: &Basis, pool: &Pool, domain: SeedDomain, bytes: &[u8]) -> Result<Cipher> {
    let n = basis.degree();
    let mut rows = pool.take(2 * LIMBS * n);
    let (b, a) = rows.split_at_mut(LIMBS * n);
    let seed = wire::read(basis, domain, bytes, b)?;
    a.par_chunks_exact_mut(n).zip(&basis.limbs).for_each(|(row, limb)| wire::expand(limb, domain, &seed, row));
    Ok(Cipher { rows })
}

impl Evaluator {
    /// An evaluator for the key holder whose public key this is.
    ///
    /// # Errors
    /// If the length is wrong or a residue is not reduced.
    pub fn new(params: SlotParams, public_key: &[u8]) -> Result<Self> {
        let pool = Pool::with_limit(KEEP * 2 * LIMBS * params.slots());
        let key = receive(params.basis(), &pool, SeedDomain::PublicKey, public_key)?;
        Ok(Self { params, key, pool, scratch: Mutex::new(Zeroizing::new(Vec::new())) })
    }

    /// The parameters.
    pub fn params(&self) -> &SlotParams {
        &self.params
    }

    /// Reads an upload.
    ///
    /// # Errors
    /// If the length is wrong or a residue is not reduced.
    pub fn receive(&self, bytes: &[u8]) -> Result<Cipher> {
        receive(self.params.basis(), &self.pool, SeedDomain::Upload, bytes)
    }

    /// A buffer of a sum, with any content: wiped when it goes back.
    pub(super) fn buffer(&self) -> Pooled {
        self.pool.take_secret(2 * LIMBS * self.params.slots())
    }

    /// An empty sum.
    pub fn sum(&self) -> Sum {
        let mut rows = self.buffer();
        rows.fill(0);
        Sum { rows }
    }

    /// Refuses runs that are not a power of two of slots.
    pub(super) fn check_run(&self, run: usize) -> Result<usize> {
        let degree = self.params.slots();
        if run.is_power_of_two() && run <= degree { Ok(degree / run) } else { Err(RlweError::Run { run, degree }) }
    }

    /// An operand of one value per run of `run` slots; the runs after the last value are zero.
    ///
    /// # Errors
    /// If `run` is not a power of two up to the slots, there are more values than runs, or one is above
    /// `2^47` in magnitude.
    pub fn multiplier(&self, values: &[i64], run: usize) -> Result<Multiplier> {
        let expected = self.check_run(run)?;
        if values.len() > expected {
            return Err(RlweError::Length { what: "values for the runs", expected, got: values.len() });
        }
        check_values("values of a multiplier", values)?;
        let basis = self.params.basis();
        let mut rows = Zeroizing::new(vec![0; LIMBS * expected]);
        let mut wide = Zeroizing::new(vec![0; expected]);
        wide[..values.len()].copy_from_slice(values);
        residues(basis, &wide, &mut rows, &mut Zeroizing::new(Vec::new()));
        Ok(Multiplier { rows, run })
    }

    /// `sum += m o c`, slot by slot.
    pub fn mul_add(&self, sum: &mut Sum, c: &Cipher, m: &Multiplier) {
        let n = self.params.slots();
        let (sum_b, sum_a) = sum.rows.split_at_mut(LIMBS * n);
        let (b, a) = c.rows.split_at(LIMBS * n);
        let sums = sum_b.par_chunks_exact_mut(n).zip(sum_a.par_chunks_exact_mut(n));
        let ciphers = b.par_chunks_exact(n).zip(a.par_chunks_exact(n));
        let work = sums.zip(ciphers).zip(m.rows.par_chunks_exact(n / m.run)).zip(&self.params.basis().limbs);
        work.for_each(|((((sum_b, sum_a), (b, a)), row), limb)| {
            let mut wide = Zeroizing::new(Vec::new());
            let factor = if m.run == 1 {
                row
            } else {
                wide.resize(n, 0);
                wide.chunks_exact_mut(m.run).zip(row).for_each(|(slots, &v)| slots.fill(v));
                &wide
            };
            limb.ntt().mul_acc(sum_b, factor, b);
            limb.ntt().mul_acc(sum_a, factor, a);
        });
    }

    /// `sum += other`.
    pub fn add(&self, sum: &mut Sum, other: &Sum) {
        let n = self.params.slots();
        let limbs = self.params.basis().limbs.iter();
        let rows = sum.rows.chunks_exact_mut(n).zip(other.rows.chunks_exact(n)).zip(limbs.clone().chain(limbs));
        for ((row, other), limb) in rows {
            limb.add(row, other);
        }
    }

    /// Turns a sum into a response of [`SlotParams::response_bytes`] bytes and the evaluator's own share
    /// modulo `2^48` of each slot. Draws a fresh encryption of zero and a fresh mask.
    pub fn respond(&self, sum: Sum, prg: &mut Prg) -> (Vec<u8>, Vec<u64>) {
        let blind = Blind::fresh(self.params.slots(), prg);
        let seed = wire::fresh_seed(prg);
        let (d0, d1) = self.switch(sum, &blind);
        (wire::write(self.params.basis(), &seed, &d1), self.share(d0, &seed))
    }

    /// Adds the encryption of zero modulo `q` and switches to `q'`: coefficients of `d0` and `d1`.
    pub(super) fn switch(&self, mut sum: Sum, blind: &Blind) -> (Zeroizing<Vec<u64>>, Vec<u64>) {
        let (basis, n) = (self.params.basis(), self.params.slots());
        let (c0, c1) = sum.rows.split_at_mut(LIMBS * n);
        let (key0, key1) = self.key.rows.split_at(LIMBS * n);
        let sums = c0.par_chunks_exact_mut(n).zip(c1.par_chunks_exact_mut(n));
        let keys = key0.par_chunks_exact(n).zip(key1.par_chunks_exact(n));
        sums.zip(keys).zip(&basis.limbs).for_each(|(((c0, c1), (key0, key1)), limb)| {
            let mut r = Zeroizing::new(vec![0; n]);
            transform_small(limb, &blind.secret, &mut r);
            limb.ntt().mul_acc(c0, &r, key0);
            limb.ntt().mul_acc(c1, &r, key1);
            limb.inverse(c0);
            limb.inverse(c1);
            limb.residues(&blind.noise, &mut r);
            limb.add(c1, &r);
        });
        rayon::join(|| basis.rescale(c0), || basis.rescale(c1));
        (Zeroizing::new(c0[..KEPT * n].to_vec()), c1[..KEPT * n].to_vec())
    }

    /// The evaluator's share when the key holder gets the polynomial of `seed` in the place of `d0`: that of
    /// `-floor(R / P')`, `R` the difference of the two.
    pub(super) fn share(&self, mut d0: Zeroizing<Vec<u64>>, seed: &Seed) -> Vec<u64> {
        let (basis, n) = (self.params.basis(), self.params.slots());
        d0.par_chunks_exact_mut(n).zip(&basis.limbs[..KEPT]).for_each(|(row, limb)| {
            let mut sent = vec![0; n];
            wire::expand(limb, SeedDomain::Response, seed, &mut sent);
            limb.sub_from(row, &sent);
        });
        let mut share = basis.slots_of_floor(&mut d0, true);
        share.iter_mut().for_each(|s| *s &= SHARE_MASK);
        share
    }
}
