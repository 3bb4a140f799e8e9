//! The server's half: drop, re-randomise, mask, send, decode its own part.

use fesc_ckks::server::{Evaluator, PublicKey};
use fesc_ckks::{Ciphertext, FreshZero, RingMask, Share, wire};
use fesc_mpc::{Party, Role};
use fesc_ring::Prg;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{Lanes, ToShares};
use crate::boundary::{check_role, messages::tag};
use crate::error::check_len;
use crate::{HybridError, Result};

/// What is sent of a ciphertext, and the part that stays.
type Masked = (Vec<u8>, Zeroizing<Vec<[u64; 2]>>);

/// A fresh encryption of zero at a level.
type Zeros<'a> = &'a (dyn Fn(usize, &mut Prg) -> fesc_ckks::Result<FreshZero> + Sync);

impl ToShares {
    /// The server's shares. `public` is the client's key, under which the results are; `prg` must be seeded
    /// by the operating system.
    ///
    /// # Errors
    /// A role, number, level, scale or key that is not the plan's, and those of the channel.
    pub fn run_server(
        &self,
        party: &mut Party,
        evaluator: &Evaluator,
        public: &PublicKey,
        results: &[Ciphertext],
        prg: &mut Prg,
    ) -> Result<Lanes> {
        self.run_server_with(&|level, prg| public.zero(level, prg), party, evaluator, results, prg)
    }

    /// The same with zeros from elsewhere: tests leave them out.
    pub(in crate::boundary) fn run_server_with(
        &self,
        zeros: Zeros<'_>,
        party: &mut Party,
        evaluator: &Evaluator,
        results: &[Ciphertext],
        prg: &mut Prg,
    ) -> Result<Lanes> {
        check_role(party, Role::P1)?;
        check_len("ciphertexts to convert", self.ciphertexts, results.len())?;
        // All of them before the first is sent: what is refused is refused without a byte.
        results.iter().try_for_each(|c| evaluator.check_drop(c, self.level, self.scale))?;
        let mut parts = Vec::with_capacity(results.len());
        for batch in self.batches() {
            // One generator for each: threads do not change a bit.
            let work: Vec<(&Ciphertext, Prg)> = results[batch].iter().map(|c| (c, prg.fork())).collect();
            let mask = |(c, mut prg): (&Ciphertext, Prg)| {
                // Before the zero: what is dropped afterwards would not be covered.
                self.mask(zeros, evaluator.drop_to(c, self.level, self.scale)?, &mut prg)
            };
            let masked = work.into_par_iter().map(mask).collect::<Result<Vec<Masked>>>()?;
            let (bytes, own): (Vec<_>, Vec<_>) = masked.into_iter().unzip();
            party.channel().send(tag::MASKED, bytes.concat())?;
            parts.extend(own);
        }
        Ok(self.lanes(&parts))
    }

    fn mask(&self, zeros: Zeros<'_>, dropped: Ciphertext, prg: &mut Prg) -> Result<Masked> {
        let zero = zeros(self.level, prg)?;
        let mask = RingMask::bounded(&self.params, self.level, self.bound.phase_bits, self.bound.masked, prg)?;
        let (masked, share) = dropped.mask(zero, mask)?;
        let mut bytes = Vec::with_capacity(wire::masked_bytes(&self.params, self.level));
        masked.write(&mut bytes).map_err(HybridError::Write)?;
        let part = match &share {
            Share::Integers { values, .. } => self.decode(values)?,
            // A bounded mask has integers.
            Share::Residues(_) => Zeroizing::new(Vec::new()),
        };
        Ok((bytes, part))
    }
}
