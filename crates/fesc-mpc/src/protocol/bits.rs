//! Bits from XOR shares to additive shares, by daBits: `[b] = c + (1 - 2c)[rho]` with `c = b xor rho` open.

use fesc_ring::Ring;

use super::tag;
use crate::correlation::DaBits;
use crate::error::{MpcError, check_len};
use crate::share::words_for;
use crate::{Ledger, Party, Request, Shared, SharedBits};

/// Converts `count` bits to a ring. Cost: 2 bits each, one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitToArithmetic {
    /// The ring of the result.
    pub ring: Ring,
    /// Bits.
    pub count: usize,
}

impl BitToArithmetic {
    fn request(&self) -> DaBits {
        DaBits { ring: self.ring, words: words_for(self.count) }
    }

    /// Writes the cost.
    pub fn declare(&self, ledger: &mut Ledger) {
        ledger.need(Request::DaBits(self.request()));
        let bytes = 8 * words_for(self.count);
        ledger.exchange(bytes, bytes);
    }

    /// Shares of 0 or 1.
    pub fn run(&self, party: &mut Party, bits: &SharedBits) -> Result<Shared, MpcError> {
        check_len("bits to convert", self.count, bits.len())?;
        let material = party.take(Request::DaBits(self.request()))?;
        let masked: Vec<u64> = bits.words().iter().zip(material.ring(DaBits::BITS)).map(|(&b, &r)| b ^ r).collect();
        let theirs = party.exchange_words(tag::DABIT, &masked)?;
        let role = party.role();
        let rho = material.ring(DaBits::SHARES);
        let values = (0..self.count).map(|i| {
            let c = (masked[i / 64] ^ theirs[i / 64]) >> (i % 64) & 1;
            role.at_p0(c).wrapping_add((rho[i] ^ c.wrapping_neg()).wrapping_add(c))
        });
        Ok(Shared::new(self.ring, values.collect()))
    }
}
