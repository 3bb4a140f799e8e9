//! From one number of fractional bits to another.
//!
//! Down: "subtract one, known-sign truncation", the twin's `round`: floor or ceiling of the exact quotient, one round, right for
//! `|x| < 2^(l-2) - 2^shift`. Up: a product with a public power of two, local. Equal: nothing.

use fesc_mpc::protocol::Convert;
use fesc_mpc::{Ledger, Party, Shared};
use fesc_ring::Ring;

use crate::Result;

/// Brings `count` elements from `from` to `to` fractional bits.
#[derive(Debug, Clone, Copy)]
pub struct Rescale {
    ring: Ring,
    from: u32,
    to: u32,
    count: usize,
}

impl Rescale {
    /// The step.
    pub fn new(ring: Ring, from: u32, to: u32, count: usize) -> Self {
        Self { ring, from, to, count }
    }

    fn truncation(&self) -> Result<Option<Convert>> {
        let shift = self.from.saturating_sub(self.to);
        Ok(if shift == 0 { None } else { Some(Convert::truncate(self.ring, shift, self.count)?) })
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// If the scales differ by more than the ring.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        if let Some(step) = self.truncation()? {
            step.declare(ledger);
        }
        Ok(())
    }

    /// The rescaled share.
    ///
    /// # Errors
    /// If the protocol fails.
    pub fn run(&self, party: &mut Party, x: Shared) -> Result<Shared> {
        crate::error::check("elements to rescale", self.count, x.len())?;
        Ok(match self.truncation()? {
            Some(step) => step.run(party, &x.add_public(party.role(), u64::MAX))?,
            None if self.to > self.from => x.scale(1u64.checked_shl(self.to - self.from).unwrap_or(0)),
            None => x,
        })
    }
}
