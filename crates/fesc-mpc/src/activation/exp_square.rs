//! `exp(z)` for `z <= 0` as `(1 + y + y^2/2)^(2^k)`, clamped: exact at 0, never above 1.
//!
//! One clamp (a piecewise form with one threshold), then `k + 1` squares, each with its truncation.

use fesc_approx::exp_square::ExpSquare as Form;
use fesc_ring::Ring;

use super::{Activation, Piecewise};
use crate::correlation::Bundle;
use crate::protocol::{Bilinear, Rescale};
use crate::{Ledger, MpcError, Party, Shared};

/// The power form of exp on shares; the twin is `ExpSquare::eval`.
#[derive(Debug, Clone)]
pub struct ExpSquare {
    form: Form,
}

impl ExpSquare {
    /// From a fixed-point form.
    pub fn new(form: Form) -> Self {
        Self { form }
    }

    /// Truncations after the squares, in order.
    fn shifts(&self) -> Vec<u32> {
        let mut shifts = vec![self.form.first_trunc()];
        shifts.resize(1 + self.form.k() as usize, self.form.frac());
        shifts
    }

    fn square(&self, count: usize) -> Bilinear {
        Bilinear { bundle: Bundle::squares(self.ring(), count) }
    }
}

impl Activation for ExpSquare {
    fn ring(&self) -> Ring {
        self.form.clamp().ring()
    }

    fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        Piecewise::new(self.form.clamp()).declare(count, ledger)?;
        for shift in self.shifts() {
            self.square(count).declare(ledger);
            Rescale::new(self.ring(), shift, 0, count).declare(ledger)?;
        }
        Ok(())
    }

    fn run(&self, party: &mut Party, z: &Shared) -> Result<Shared, MpcError> {
        let role = party.role();
        let one = self.form.in_frac() + self.form.k();
        let clamped = Piecewise::new(self.form.clamp()).run(party, z)?;
        let mut q = clamped.add_public(role, 1 << one);
        for (i, shift) in self.shifts().into_iter().enumerate() {
            let mut square = self.square(q.len()).run(party, &[&q])?.swap_remove(0);
            if i == 0 {
                // (1 + y)^2 + 1 = 2 (1 + y + y^2/2)
                square = square.add_public(role, 1 << (2 * one));
            }
            q = Rescale::new(self.ring(), shift, 0, square.len()).run(party, square)?;
        }
        Ok(q)
    }
}
