//! The server's half: drop, re-randomise, mask, send, decode its own part.

use fesc_ckks::server::{Evaluator, PublicKey};
use fesc_ckks::{Ciphertext, RingMask, Share};
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
        check_role(party, Role::P1)?;
        check_len("ciphertexts to convert", self.ciphertexts, results.len())?;
        // One generator for each: threads do not change a bit.
        let generators: Vec<Prg> = results.iter().map(|_| prg.fork()).collect();
        let work = generators.into_par_iter().zip(results);
        let masked = work.map(|(mut prg, c)| self.mask(evaluator, public, c, &mut prg));
        let masked = masked.collect::<Result<Vec<Masked>>>()?;
        let (bytes, parts): (Vec<_>, Vec<_>) = masked.into_iter().unzip();
        party.channel().send(tag::MASKED, bytes.concat())?;
        Ok(self.lanes(&parts))
    }

    fn mask(&self, evaluator: &Evaluator, public: &PublicKey, c: &Ciphertext, prg: &mut Prg) -> Result<Masked> {
        self.check_scale(c.scale())?;
        // Before the zero: what is dropped afterwards would not be covered.
        let dropped = evaluator.drop_to_level(c, self.level)?;
        let zero = public.zero(self.level, prg)?;
        let mask = RingMask::bounded(&self.params, self.level, self.bound.phase_bits, self.bound.masked, prg)?;
        let (masked, share) = dropped.mask(zero, mask)?;
        let mut bytes = Vec::with_capacity(fesc_ckks::wire::masked_bytes(&self.params, self.level));
        masked.write(&mut bytes).map_err(HybridError::Write)?;
        let part = match &share {
            Share::Integers { values, scale } => self.decode(values, *scale)?,
            // A bounded mask has integers.
            Share::Residues(_) => Zeroizing::new(Vec::new()),
        };
        Ok((bytes, part))
    }
}
