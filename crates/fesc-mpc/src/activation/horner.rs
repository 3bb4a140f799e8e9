//! Horner's rule with public coefficients on one shared variable, which is opened once for all products.
//!
//! `s = lead t`, then for every coefficient `c` but the lowest, from the top: `s = trunc(s + c) t`. The first
//! product has a public factor and is local; the others are secret, and each factor is truncated before it is
//! multiplied.

use fesc_ring::Ring;

use crate::correlation::Bundle;
use crate::protocol::{Opened, Rescale};
use crate::{Ledger, MpcError, Party, Request, Shared};

/// `m` coefficients after the leading one give `m - 1` secret products.
pub(super) struct Horner<'a> {
    pub ring: Ring,
    /// The leading coefficient.
    pub lead: u64,
    /// The others, lowest power first, at the scale of a product.
    pub rest: &'a [u64],
    /// Bits dropped from a sum before it is a factor.
    pub shift: u32,
}

impl Horner<'_> {
    fn products(&self) -> usize {
        self.rest.len().saturating_sub(1)
    }

    /// Mask 0 is the variable, the others are the factors.
    fn bundle(&self, count: usize) -> Bundle {
        let n = self.products();
        let pairs: Vec<_> = (1..=n).map(|i| (i, 0)).collect();
        Bundle::elementwise(self.ring, count, n + 1, &pairs)
    }

    /// Writes the cost.
    pub(super) fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        if self.products() == 0 {
            return Ok(());
        }
        let bundle = self.bundle(count);
        ledger.need(Request::Bundle(bundle.clone()));
        for i in 1..=self.products() {
            Rescale::new(self.ring, self.shift, 0, count).declare(ledger)?;
            Opened::declare_open(&bundle, if i == 1 { &[0, 1] } else { std::slice::from_ref(&i) }, ledger);
        }
        Ok(())
    }

    /// The last sum, before its truncation and without the lowest coefficient, which the caller adds with
    /// what else belongs to that sum.
    pub(super) fn run(&self, party: &mut Party, t: &Shared) -> Result<Shared, MpcError> {
        let mut sum = t.scale(self.lead);
        if self.products() == 0 {
            return Ok(sum);
        }
        let role = party.role();
        let round = Rescale::new(self.ring, self.shift, 0, t.len());
        let mut opened = Opened::start(party, &self.bundle(t.len()))?;
        for (i, &c) in self.rest.iter().skip(1).rev().enumerate() {
            let factor = round.run(party, sum.add_public(role, c))?;
            let tensors = [(0, t), (i + 1, &factor)];
            opened.open(party, if i == 0 { &tensors } else { &tensors[1..] })?;
            sum = opened.product(i)?;
        }
        Ok(sum)
    }
}
