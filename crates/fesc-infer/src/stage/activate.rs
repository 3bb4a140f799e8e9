//! z, x, B and C from the projection's scale to their own, through SiLU.
//!
//! x, B and C have the convolution and its bias in them already. z and x have the same form and go through it together.

use fesc_approx::FixedPiecewise;
use fesc_model::outline::LayerForms;
use fesc_mpc::activation::{Activation, Piecewise};
use fesc_mpc::{Ledger, Party, Shared};
use fesc_ring::Ring;

use super::{Rescale, Widths};
use crate::Result;

/// Two roundings, then SiLU of everything.
pub struct Activate {
    gate: Rescale,
    conv: Rescale,
    /// z and x, if their forms are one.
    joint: bool,
    forms: [FixedPiecewise; 3],
    elements: [usize; 4],
}

/// What [`Activate`] gives: SiLU of each.
pub struct Active {
    /// z at F bits.
    pub gate: Shared,
    /// x at s.x.
    pub x: Shared,
    /// B at s.bc.
    pub b: Shared,
    /// C at s.bc.
    pub c: Shared,
}

impl Activate {
    /// For `tokens` tokens.
    pub fn new(ring: Ring, forms: &LayerForms, frac: u32, widths: &Widths, tokens: usize) -> Self {
        let s = &forms.scales;
        let elements = [widths.inner, widths.inner, widths.mixed, widths.mixed].map(|w| w * tokens);
        Self {
            gate: Rescale::new(ring, frac + s.gate_weight, frac, elements[0]),
            conv: Rescale::new(ring, frac + s.conv_weight + s.conv_tap, frac, elements[1..].iter().sum()),
            joint: forms.gate == forms.x,
            forms: [forms.gate.clone(), forms.x.clone(), forms.bc.clone()],
            elements,
        }
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// If a scale does not fit the ring.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.gate.declare(ledger)?;
        self.conv.declare(ledger)?;
        let [gate, x, bc] = self.forms.each_ref().map(Piecewise::new);
        let [n_gate, n_x, n_b, n_c] = self.elements;
        if self.joint {
            gate.declare(n_gate + n_x, ledger)?;
        } else {
            gate.declare(n_gate, ledger)?;
            x.declare(n_x, ledger)?;
        }
        Ok(bc.declare(n_b + n_c, ledger)?)
    }

    /// z, x, B, C as the projection gives them, token by token.
    ///
    /// # Errors
    /// If the protocol fails.
    pub fn run(&self, party: &mut Party, [z, x, b, c]: [Shared; 4]) -> Result<Active> {
        let [n_z, n_x, n_b, n_c] = self.elements;
        let z = self.gate.run(party, z)?;
        let all = Shared::concat(&[&x, &b, &c])?;
        drop((x, b, c));
        let all = self.conv.run(party, all)?;
        let x = all.slice(0..n_x)?;
        let [of_gate, of_x, of_bc] = self.forms.each_ref().map(Piecewise::new);
        let (gate, x) = if self.joint {
            let both = of_gate.run(party, &Shared::concat(&[&z, &x])?)?;
            (both.slice(0..n_z)?, both.slice(n_z..n_z + n_x)?)
        } else {
            (of_gate.run(party, &z)?, of_x.run(party, &x)?)
        };
        let bc = of_bc.run(party, &all.slice(n_x..n_x + n_b + n_c)?)?;
        Ok(Active { gate, x, b: bc.slice(0..n_b)?, c: bc.slice(n_b..n_b + n_c)? })
    }
}
