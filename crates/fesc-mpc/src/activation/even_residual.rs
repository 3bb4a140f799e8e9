//! The paper's MoSiLU and MoSoft (section "Even-Residual SiLU and Softplus"), with the truncations it leaves
//! out.
//!
//! Both comparisons share one decomposition, `u = x^2` is opened once for all products of Horner's rule, and
//! the two muxes run together.

use fesc_approx::paper::even::EvenFixed;
use fesc_ring::Ring;

use super::Activation;
use super::horner::Horner;
use crate::correlation::Bundle;
use crate::error::check_len;
use crate::protocol::{Bilinear, Compare, Convert, Mux, Rescale, Sender, Thresholds};
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

    /// The fixed-point form.
    pub(super) fn form(&self) -> &EvenFixed {
        &self.form
    }

    /// The comparison with both thresholds, and `more`.
    pub(super) fn comparison(&self, count: usize, more: usize, sender: Sender) -> Result<Compare, MpcError> {
        Compare::new(Ring::new(self.form.plan().cmp_bits)?, count, 2 + more, sender)
    }

    fn horner(&self) -> Horner<'_> {
        let (form, plan) = (&self.form, self.form.plan());
        Horner { ring: plan.ring, lead: form.lead(), rest: form.rest(), shift: plan.frac }
    }

    /// The cost when the form's bits come from `compare`.
    pub(super) fn declare_comparing(
        &self,
        compare: &Compare,
        count: usize,
        ledger: &mut Ledger,
    ) -> Result<(), MpcError> {
        let (ring, frac) = (self.ring(), self.form.plan().frac);
        compare.declare(ledger);
        Bilinear { bundle: Bundle::squares(ring, count) }.declare(ledger);
        Rescale::new(ring, self.form.square_trunc(), 0, count).declare(ledger)?;
        self.horner().declare(count, ledger)?;
        Rescale::new(ring, frac, 0, count).declare(ledger)?;
        Mux { ring, count: 2 * count }.declare(ledger);
        Ok(())
    }

    /// The form with the first two bits of `compare`; what it gave beyond them comes back.
    pub(super) fn run_comparing(
        &self,
        party: &mut Party,
        x: &Shared,
        compare: &Compare,
        tau: Thresholds<'_>,
    ) -> Result<(Shared, Vec<SharedBits>), MpcError> {
        let (ring, plan, role, n) = (self.ring(), self.form.plan(), party.role(), x.len());
        check_len("ring width of an activation's input", ring.bits() as usize, x.ring().bits() as usize)?;
        let reduced = Convert::reduce(ring, plan.cmp_bits, plan.cmp_shift, n)?.run(party, x)?;
        let mut bits = compare.run(party, &reduced, tau)?;
        let more = bits.split_off(bits.len().min(2));
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
        Ok((chosen.slice(0..n)?.add(&chosen.slice(n..2 * n)?)?, more))
    }
}

impl Activation for EvenResidual {
    fn ring(&self) -> Ring {
        self.form.plan().ring
    }

    fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        self.declare_comparing(&self.comparison(count, 0, Sender::Split)?, count, ledger)
    }

    fn run(&self, party: &mut Party, x: &Shared) -> Result<Shared, MpcError> {
        let compare = self.comparison(x.len(), 0, Sender::Split)?;
        Ok(self.run_comparing(party, x, &compare, Thresholds::Same(self.form.thresholds()))?.0)
    }
}
