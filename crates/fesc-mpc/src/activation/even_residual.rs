//! The paper's MoSiLU and MoSoft (section "Even-Residual SiLU and Softplus"), with the truncations it leaves
//! out.
//!
//! Both comparisons share one decomposition, `u = x^2` is opened once for all products of Horner's rule, and
//! the two muxes run together.

use fesc_approx::paper::even::EvenFixed;
use fesc_ring::Ring;

use super::horner::Horner;
use super::{Activation, steps};
use crate::correlation::Bundle;
use crate::protocol::{Bilinear, Mux, Rescale, Thresholds};
use crate::{Ledger, MpcError, Party, Shared, SharedBits};

/// MoSiLU or MoSoft on shares; the twin is `EvenFixed::eval`.
#[derive(Debug, Clone)]
pub struct EvenResidual {
    form: EvenFixed,
}

impl EvenResidual {
    /// From a fixed-point form.
    pub fn new(form: EvenFixed) -> Self {
        Self { form }
    }

    fn horner(&self) -> Horner<'_> {
        let (form, plan) = (&self.form, self.form.plan());
        Horner { ring: plan.ring, lead: form.lead(), rest: form.rest(), shift: plan.frac }
    }
}

impl Activation for EvenResidual {
    fn ring(&self) -> Ring {
        self.form.plan().ring
    }

    fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        let (ring, plan) = (self.ring(), self.form.plan());
        steps::comparison(ring, plan.cmp_bits, plan.cmp_shift, count, 2)?.1.declare(ledger);
        Bilinear { bundle: Bundle::squares(ring, count) }.declare(ledger);
        Rescale::new(ring, self.form.square_trunc(), 0, count).declare(ledger)?;
        self.horner().declare(count, ledger)?;
        Rescale::new(ring, plan.frac, 0, count).declare(ledger)?;
        Mux { ring, count: 2 * count }.declare(ledger);
        Ok(())
    }

    fn run(&self, party: &mut Party, x: &Shared) -> Result<Shared, MpcError> {
        let (ring, plan, role, n) = (self.ring(), self.form.plan(), party.role(), x.len());
        let (reduce, compare) = steps::comparison(ring, plan.cmp_bits, plan.cmp_shift, n, 2)?;
        let reduced = reduce.run(party, x)?;
        let bits = compare.run(party, &reduced, Thresholds::Same(&self.form.thresholds()))?;
        let [above_low, above_high] = bits.as_slice() else {
            return Err(MpcError::Shape { what: "comparison bits", expected: 2, got: bits.len() });
        };

        let (shift, centre) = (self.form.square_trunc(), self.form.square_centre());
        let square = Bilinear { bundle: Bundle::squares(ring, n) }.run(party, &[x])?.swap_remove(0);
        let u = Rescale::new(ring, shift, 0, n).run(party, square.add_public(role, ring.neg(centre)))?;
        let u = u.add_public(role, centre >> shift);
        let lowest = self.form.rest().first().copied().unwrap_or(0);
        let sum = self.horner().run(party, &u)?.add(&x.scale(1 << (plan.frac - 1)))?.add_public(role, lowest);
        let p = Rescale::new(ring, plan.frac, 0, n).run(party, sum)?;

        // b_in = b_lo - b_hi: as bits, their XOR, because b_hi implies b_lo.
        let inside = above_low.xor(above_high)?;
        let (bits, values) = (SharedBits::concat(&[&inside, above_high]), Shared::concat(&[&p, x])?);
        let chosen = Mux { ring, count: 2 * n }.run(party, &bits, &values)?;
        chosen.slice(0..n)?.add(&chosen.slice(n..2 * n)?)
    }
}
