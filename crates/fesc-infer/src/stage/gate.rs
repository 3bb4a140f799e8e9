//! y SiLU(z) at the scale of the gated norm: one element-wise product, one rounding.

use fesc_model::outline::LayerForms;
use fesc_mpc::correlation::Bundle;
use fesc_mpc::protocol::Bilinear;
use fesc_mpc::{Ledger, Party, Shared};
use fesc_ring::Ring;

use super::Rescale;
use crate::Result;

/// The gate of `count` values.
pub struct Gate {
    product: Bilinear,
    leave: Rescale,
}

impl Gate {
    /// y comes at s.scanned bits, SiLU(z) at `frac`.
    pub fn new(ring: Ring, forms: &LayerForms, frac: u32, count: usize) -> Self {
        let s = &forms.scales;
        Self {
            product: Bilinear { bundle: Bundle::triples(ring, count) },
            leave: Rescale::new(ring, s.scanned + frac, s.gated, count),
        }
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// If a scale does not fit the ring.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.product.declare(ledger);
        Ok(self.leave.declare(ledger)?)
    }

    /// The gated values.
    ///
    /// # Errors
    /// If the protocol fails.
    pub fn run(&self, party: &mut Party, y: &Shared, gate: &Shared) -> Result<Shared> {
        let product = self.product.run(party, &[y, gate])?.swap_remove(0);
        Ok(self.leave.run(party, product)?)
    }
}
