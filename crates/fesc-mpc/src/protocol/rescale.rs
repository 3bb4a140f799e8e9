//! From one number of fractional bits to another, and from one ring to another: the one rounding of shares.
//!
//! Down: one unit is subtracted, then the bits are cut ([`Convert`]). That is `fesc_approx::trunc::round`:
//! floor or ceiling of the exact quotient, one round, right for `|x| < 2^(l-2) - 2^shift` with `l` the width
//! of the ring it comes from; local and right for every `x` where the ring it goes to has at most
//! `l - shift` bits. Up: a product with a public power of two, local. Equal: nothing but the change of ring.

use fesc_ring::Ring;

use super::Convert;
use crate::error::{MpcError, check_len};
use crate::{Ledger, Party, Shared};

/// Brings `count` elements from `from` to `to` fractional bits. No elements cost nothing.
#[derive(Debug, Clone, Copy)]
pub struct Rescale {
    ring: Ring,
    into: Ring,
    from: u32,
    to: u32,
    count: usize,
}

impl Rescale {
    /// The step inside one ring.
    pub fn new(ring: Ring, from: u32, to: u32, count: usize) -> Self {
        Self { ring, into: ring, from, to, count }
    }

    /// Gives the result in another ring, which must hold it.
    pub fn into_ring(self, into: Ring) -> Self {
        Self { into, ..self }
    }

    fn shift(&self) -> u32 {
        self.from.saturating_sub(self.to)
    }

    fn conversion(&self) -> Result<Option<Convert>, MpcError> {
        Ok(match self.shift() {
            _ if self.count == 0 => None,
            0 if self.into == self.ring => None,
            shift => Some(Convert::new(self.ring, self.into, shift, self.count)?),
        })
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// If the scales differ by more than the ring.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<(), MpcError> {
        if let Some(step) = self.conversion()? {
            step.declare(ledger);
        }
        Ok(())
    }

    /// The rescaled share.
    ///
    /// # Errors
    /// If the shape is not the declared one, or the protocol fails.
    pub fn run(&self, party: &mut Party, x: Shared) -> Result<Shared, MpcError> {
        check_len("elements to rescale", self.count, x.len())?;
        let x = match self.conversion()? {
            Some(step) if self.shift() > 0 => {
                let lowered = x.add_public(party.role(), u64::MAX);
                drop(x);
                step.run(party, &lowered)?
            }
            Some(step) => step.run(party, &x)?,
            None if self.into != self.ring => Shared::new(self.into, x.values().to_vec()),
            None => x,
        };
        Ok(if self.to > self.from { x.scale(1u64.checked_shl(self.to - self.from).unwrap_or(0)) } else { x })
    }
}
