//! The paper's MMExp (section "Private Selective-Decay Exponential"): Horner's rule, one comparison, one mux.
//!
//! `z` is opened once for all products. It is here to reproduce the paper: its `p(0)` is below 1, so a product of many
//! such decays forgets everything.

use fesc_approx::paper::mmexp::MinimaxExpFixed;
use fesc_ring::Ring;

use super::{Activation, steps};
use crate::correlation::{Bundle, Product};
use crate::protocol::{Compare, Convert, Mux, Opened, Sender, Thresholds};
use crate::{Ledger, MpcError, Party, Request, Shared};

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

    fn comparison(&self, count: usize) -> Result<(Convert, Compare), MpcError> {
        let plan = self.form.plan();
        let reduce = Convert::reduce(plan.ring, plan.cmp_bits, plan.cmp_shift, count)?;
        Ok((reduce, Compare::new(Ring::new(plan.cmp_bits)?, count, 1, Sender::Split)?))
    }

    /// Secret products: `d - 1`.
    fn products(&self) -> usize {
        self.form.rest().len() - 1
    }

    /// Mask 0 is `z`, the others are the factors of Horner's rule.
    fn horner(&self, count: usize) -> Bundle {
        let n = self.products();
        let products = (1..=n).map(|i| Product::Hadamard(i, 0)).collect();
        Bundle { ring: self.ring(), batch: 1, masks: vec![(count, 1); n + 1], products }
    }
}

impl Activation for MinimaxExp {
    fn ring(&self) -> Ring {
        self.form.plan().ring
    }

    fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        let (ring, shift) = (self.ring(), self.form.product_trunc());
        let horner = self.horner(count);
        if self.products() > 0 {
            ledger.need(Request::Bundle(horner.clone()));
        }
        for i in 1..=self.products() {
            steps::declare_round(ring, shift, count, ledger)?;
            Opened::declare_open(&horner, if i == 1 { &[0, 1] } else { std::slice::from_ref(&i) }, ledger);
        }
        steps::declare_round(ring, shift, count, ledger)?;
        self.comparison(count)?.1.declare(ledger);
        Mux { ring, count }.declare(ledger);
        Ok(())
    }

    fn run(&self, party: &mut Party, z: &Shared) -> Result<Shared, MpcError> {
        let (ring, shift, role, n) = (self.ring(), self.form.product_trunc(), party.role(), z.len());
        let mut opened = if self.products() == 0 { None } else { Some(Opened::start(party, &self.horner(n))?) };
        let mut sum = z.scale(self.form.lead());
        for (i, &c) in self.form.rest().iter().rev().enumerate() {
            let p = steps::round(party, &sum.add_public(role, c), shift)?;
            match &mut opened {
                Some(opened) if i < self.products() => {
                    let factor = (i + 1, &p);
                    if i == 0 {
                        opened.open(party, &[(0, z), factor])?
                    } else {
                        opened.open(party, &[factor])?
                    }
                    sum = opened.product(i)?;
                }
                _ => sum = p,
            }
        }
        let (reduce, compare) = self.comparison(n)?;
        let reduced = reduce.run(party, z)?;
        let bits = compare.run(party, &reduced, Thresholds::Same(&[self.form.threshold()]))?;
        let inside = bits.first().ok_or(MpcError::Shape { what: "comparison bits", expected: 1, got: 0 })?;
        Mux { ring, count: n }.run(party, inside, &sum)
    }
}
