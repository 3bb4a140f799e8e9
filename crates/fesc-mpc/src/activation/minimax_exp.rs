//! The paper's MMExp (section "Private Selective-Decay Exponential"): Horner's rule, one comparison, one mux.
//!
//! `z` is opened once for all products. It is here to reproduce the paper: its `p(0)` is below 1, so a
//! product of many such decays forgets everything.

use fesc_approx::paper::mmexp::MinimaxExpFixed;
use fesc_ring::Ring;

use super::horner::Horner;
use super::{Activation, steps};
use crate::protocol::{Mux, Rescale, Thresholds};
use crate::{Ledger, MpcError, Party, Shared};

/// MMExp on shares; the twin is `MinimaxExpFixed::eval`.
#[derive(Debug, Clone)]
pub struct MinimaxExp {
    form: MinimaxExpFixed,
}

impl MinimaxExp {
    /// From a fixed-point form.
    pub fn new(form: MinimaxExpFixed) -> Self {
        Self { form }
    }

    fn horner(&self) -> Horner<'_> {
        let form = &self.form;
        Horner { ring: self.ring(), lead: form.lead(), rest: form.rest(), shift: form.product_trunc() }
    }
}

impl Activation for MinimaxExp {
    fn ring(&self) -> Ring {
        self.form.plan().ring
    }

    fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        let (ring, plan) = (self.ring(), self.form.plan());
        self.horner().declare(count, ledger)?;
        Rescale::new(ring, self.form.product_trunc(), 0, count).declare(ledger)?;
        steps::comparison(ring, plan.cmp_bits, plan.cmp_shift, count, 1)?.1.declare(ledger);
        Mux { ring, count }.declare(ledger);
        Ok(())
    }

    fn run(&self, party: &mut Party, z: &Shared) -> Result<Shared, MpcError> {
        let (ring, plan, role, n) = (self.ring(), self.form.plan(), party.role(), z.len());
        let lowest = self.form.rest().first().copied().unwrap_or(0);
        let sum = self.horner().run(party, z)?.add_public(role, lowest);
        let p = Rescale::new(ring, self.form.product_trunc(), 0, n).run(party, sum)?;
        let (reduce, compare) = steps::comparison(ring, plan.cmp_bits, plan.cmp_shift, n, 1)?;
        let reduced = reduce.run(party, z)?;
        let bits = compare.run(party, &reduced, Thresholds::Same(&[self.form.threshold()]))?;
        let inside = bits.first().ok_or(MpcError::Shape { what: "comparison bits", expected: 1, got: 0 })?;
        Mux { ring, count: n }.run(party, inside, &p)
    }
}
