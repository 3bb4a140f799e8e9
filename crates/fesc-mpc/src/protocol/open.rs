//! Opening: a shared vector becomes known to both parties or to one.
//!
//! What is opened must be an output or be masked; the other protocols see to that for their own messages.

use fesc_ring::Ring;

use super::tag;
use crate::error::{MpcError, check_len};
use crate::{Ledger, Party, Role, Shared};

/// Opens `count` elements. Cost: `l` bits each way (or one way), one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// The ring.
    pub ring: Ring,
    /// Elements.
    pub count: usize,
    /// `None`: both parties learn the vector. `Some(r)`: only `r` does.
    pub to: Option<Role>,
}

impl Open {
    /// Writes the cost.
    pub fn declare(&self, ledger: &mut Ledger) {
        let bytes = self.ring.packed_len(self.count);
        match self.to {
            None => ledger.exchange(bytes, bytes),
            Some(role) => ledger.send(role.other(), bytes),
        }
    }

    /// The vector, at the parties that learn it.
    pub fn run(&self, party: &mut Party, x: &Shared) -> Result<Option<Vec<u64>>, MpcError> {
        check_len("elements to open", self.count, x.len())?;
        let ring = self.ring;
        check_len("ring width of the opened vector", ring.bits() as usize, x.ring().bits() as usize)?;
        let theirs = match self.to {
            None => party.exchange(tag::OPEN, ring, x.values(), self.count)?,
            Some(role) if role == party.role() => {
                let bytes = party.channel().recv(tag::OPEN, ring.packed_len(self.count))?;
                ring.unpack(&bytes, self.count)?
            }
            Some(_) => {
                party.channel().send(tag::OPEN, ring.pack(x.values()))?;
                return Ok(None);
            }
        };
        Ok(Some(x.values().iter().zip(&theirs).map(|(&a, &b)| ring.add(a, b)).collect()))
    }
}
