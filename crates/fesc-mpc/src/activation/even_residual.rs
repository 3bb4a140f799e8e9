//! The paper's MoSiLU and MoSoft (section "Even-Residual SiLU and Softplus"), with the truncations it leaves out.
//!
//! Both comparisons share one decomposition, `u = x^2` is opened once for all products of Horner's rule, and the two
//! muxes run together.

use fesc_approx::paper::even::EvenFixed;
use fesc_ring::Ring;

use super::{Activation, steps};
use crate::correlation::{Bundle, Product};
use crate::protocol::{Bilinear, Compare, Convert, Mux, Opened, Sender, Thresholds};
use crate::{Ledger, MpcError, Party, Request, Shared, SharedBits};

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

    fn comparison(&self, count: usize) -> Result<(Convert, Compare), MpcError> {
        let plan = self.form.plan();
        let reduce = Convert::reduce(plan.ring, plan.cmp_bits, plan.cmp_shift, count)?;
        Ok((reduce, Compare::new(Ring::new(plan.cmp_bits)?, count, 2, Sender::Split)?))
    }

    /// Secret products with `u`: `r - 1`.
    fn products(&self) -> usize {
        self.form.rest().len() - 1
    }

    /// Mask 0 is `u`, the others are the factors of Horner's rule.
    fn horner(&self, count: usize) -> Bundle {
        let n = self.products();
        let products = (1..=n).map(|i| Product::Hadamard(i, 0)).collect();
        Bundle { ring: self.ring(), batch: 1, masks: vec![(count, 1); n + 1], products }
    }
}

impl Activation for EvenResidual {
    fn ring(&self) -> Ring {
        self.form.plan().ring
    }

    fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        let (ring, frac) = (self.ring(), self.form.plan().frac);
        self.comparison(count)?.1.declare(ledger);
        Bilinear { bundle: Bundle::squares(ring, count) }.declare(ledger);
        steps::declare_round(ring, self.form.square_trunc(), count, ledger)?;
        let horner = self.horner(count);
        if self.products() > 0 {
            ledger.need(Request::Bundle(horner.clone()));
        }
        for i in 1..=self.products() {
            steps::declare_round(ring, frac, count, ledger)?;
            Opened::declare_open(&horner, if i == 1 { &[0, 1] } else { std::slice::from_ref(&i) }, ledger);
        }
        steps::declare_round(ring, frac, count, ledger)?;
        Mux { ring, count: 2 * count }.declare(ledger);
        Ok(())
    }

    fn run(&self, party: &mut Party, x: &Shared) -> Result<Shared, MpcError> {
        let (ring, frac, role, n) = (self.ring(), self.form.plan().frac, party.role(), x.len());
        let (reduce, compare) = self.comparison(n)?;
        let reduced = reduce.run(party, x)?;
        let bits = compare.run(party, &reduced, Thresholds::Same(&self.form.thresholds()))?;
        let [above_low, above_high] = bits.as_slice() else {
            return Err(MpcError::Shape { what: "comparison bits", expected: 2, got: bits.len() });
        };

        let (shift, centre) = (self.form.square_trunc(), self.form.square_centre());
        let square = Bilinear { bundle: Bundle::squares(ring, n) }.run(party, &[x])?.swap_remove(0);
        let u = steps::round(party, &square.add_public(role, ring.neg(centre)), shift)?;
        let u = u.add_public(role, centre >> shift);

        let (first, rest) =
            self.form.rest().split_first().ok_or(MpcError::Shape { what: "coefficients", expected: 1, got: 0 })?;
        // The leading coefficient is public: the first product is local.
        let mut sum = u.scale(self.form.lead());
        let mut opened = if rest.is_empty() { None } else { Some(Opened::start(party, &self.horner(n))?) };
        for (i, &a) in rest.iter().rev().enumerate() {
            let q = steps::round(party, &sum.add_public(role, a), frac)?;
            if let Some(opened) = &mut opened {
                let factor = (i + 1, &q);
                if i == 0 {
                    opened.open(party, &[(0, &u), factor])?
                } else {
                    opened.open(party, &[factor])?
                }
                sum = opened.product(i)?;
            }
        }
        let sum = sum.add(&x.scale(1 << (frac - 1)))?.add_public(role, *first);
        let p = steps::round(party, &sum, frac)?;

        // b_in = b_lo - b_hi: as bits, their XOR, because b_hi implies b_lo.
        let inside = above_low.xor(above_high)?;
        let chosen = Mux { ring, count: 2 * n }.run(
            party,
            &SharedBits::concat(&[&inside, above_high]),
            &Shared::concat(&[&p, x])?,
        )?;
        chosen.slice(0..n)?.add(&chosen.slice(n..2 * n)?)
    }
}
