//! z, x, B and C from the projection's scale to their own, through SiLU.
//!
//! x, B and C have the convolution and its bias in them already. The forms of all four are the same integers
//! up to the last truncation, so that one comparison and one opening serve them together, and only the
//! truncation to F or to s.bc bits is done apart.
//!
//! By pieces, SiLU has a ring of its own, 34 bits ([`fesc_approx::silu`]). The roundings before it lead there
//! from the ring of the stages: that of z, by at most 14 bits, is local; that of the convolution needs its
//! wrap only modulo the few bits by which the ring it goes to exceeds what is kept. The truncations after it
//! lead back. Eight rounds. Folded SiLU ([`fesc_approx::folded`]) has a ring of 24 bits and takes 10
//! fractional bits: 15 rounds. MoSiLU stays in the ring of the stages: its square needs it.

use fesc_approx::{FixedPiecewise, Folded as FoldedForm, Plan};
use fesc_model::ModelError;
use fesc_model::outline::{LayerForms, Silu};
use fesc_model::twin::TwinError;
use fesc_mpc::activation::{Activation, EvenResidual, Folded, Piecewise};
use fesc_mpc::{Ledger, Party, Shared};
use fesc_ring::Ring;

use super::Steps;
use crate::stage::{Activations, Active, Rescale, Side, StepSecrets, Widths};
use crate::{InferError, Result};

/// Two roundings into SiLU's ring, SiLU of everything, two truncations back.
pub struct Activate {
    gate: Rescale,
    conv: Rescale,
    /// At the scale that all four have in common.
    silu: Box<dyn Activation + Sync>,
    leave: Rescale,
    leave_bc: Rescale,
    elements: [usize; 4],
}

/// The form without its last truncation.
fn untruncated(form: &FixedPiecewise) -> Result<FixedPiecewise> {
    let plan = Plan {
        ring: form.ring(),
        in_frac: form.in_frac(),
        out_frac: form.sum_frac(),
        sum_frac: form.sum_frac(),
        cmp_shift: form.cmp_shift(),
        cmp_bits: form.cmp_bits(),
    };
    let build = FixedPiecewise::from_integers(&plan, &form.thresholds_int(), form.pieces_int().to_vec(), None);
    Ok(build.map_err(|source| ModelError::from(TwinError::Form { layer: 0, what: "SiLU", source }))?)
}

/// SiLU as all four have it, and the bits of its result.
fn common(forms: &LayerForms) -> Result<(Box<dyn Activation + Sync>, u32)> {
    match (&forms.gate, &forms.bc) {
        _ if forms.gate != forms.x => {}
        (Silu::Piecewise(gate), Silu::Piecewise(bc)) => {
            let (silu, other) = (untruncated(gate)?, untruncated(bc)?);
            if silu == other {
                let sum = silu.sum_frac();
                return Ok((Box::new(Piecewise::owned(silu)), sum));
            }
        }
        (Silu::Polynomial(gate, _), Silu::Polynomial(bc, _)) if gate == bc => {
            return Ok((Box::new(EvenResidual::new(gate.clone())), gate.plan().frac));
        }
        (Silu::Folded(_), Silu::Folded(_)) => {
            let form = FoldedForm::untruncated();
            return Ok((Box::new(Folded::new(form)), form.out_frac()));
        }
        _ => {}
    }
    Err(InferError::Misuse { what: "SiLU", why: "z, x, B and C must have one form" })
}

impl Activate {
    /// For `tokens` tokens.
    ///
    /// # Errors
    /// If the forms of z, x, B and C differ in more than their last truncation.
    pub fn new(ring: Ring, forms: &LayerForms, frac: u32, widths: &Widths, tokens: usize) -> Result<Self> {
        let s = &forms.scales;
        let elements = [widths.inner, widths.inner, widths.mixed, widths.mixed].map(|w| w * tokens);
        let (silu, sum) = common(forms)?;
        let [n_z, n_x, n_b, n_c] = elements;
        let (own, input) = (silu.ring(), forms.gate.in_frac());
        Ok(Self {
            gate: Rescale::new(ring, frac + s.gate_weight, input, n_z).into_ring(own),
            conv: Rescale::new(ring, frac + s.conv_weight + s.conv_tap, input, n_x + n_b + n_c).into_ring(own),
            silu,
            leave: Rescale::new(own, sum, forms.gate.out_frac(), n_z + n_x).into_ring(ring),
            leave_bc: Rescale::new(own, sum, forms.bc.out_frac(), n_b + n_c).into_ring(ring),
            elements,
        })
    }

    /// Writes the cost.
    ///
    /// # Errors
    /// If a scale does not fit the ring.
    pub fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.gate.declare(ledger)?;
        self.conv.declare(ledger)?;
        self.silu.declare(self.elements.iter().sum(), ledger)?;
        self.leave.declare(ledger)?;
        Ok(self.leave_bc.declare(ledger)?)
    }

    /// z, x, B, C as the projection gives them, token by token.
    ///
    /// # Errors
    /// If the protocol fails.
    pub fn run(&self, party: &mut Party, [z, x, b, c]: [Shared; 4]) -> Result<Active> {
        let [n_z, n_x, n_b, n_c] = self.elements;
        let z = self.gate.run(party, z)?;
        let conv = Shared::concat(&[&x, &b, &c])?;
        drop((x, b, c));
        let conv = self.conv.run(party, conv)?;
        let all = Shared::concat(&[&z, &conv])?;
        drop((z, conv));
        let all = self.silu.run(party, &all)?;
        let zx = self.leave.run(party, all.slice(0..n_z + n_x)?)?;
        let bc = self.leave_bc.run(party, all.slice(n_z + n_x..all.len())?)?;
        Ok(Active {
            gate: zx.slice(0..n_z)?,
            x: zx.slice(n_z..n_z + n_x)?,
            b: bc.slice(0..n_b)?,
            c: bc.slice(n_b..n_b + n_c)?,
        })
    }
}

/// Both stages of activations.
pub struct Elementwise {
    /// SiLU.
    pub activate: Activate,
    /// Delta and A Delta.
    pub steps: Steps,
}

impl Activations for Elementwise {
    fn declare_silu(&self, ledger: &mut Ledger) -> Result<()> {
        self.activate.declare(ledger)
    }

    fn silu(&self, party: &mut Party, parts: [Shared; 4]) -> Result<Active> {
        self.activate.run(party, parts)
    }

    fn declare_steps(&self, ledger: &mut Ledger) -> Result<()> {
        self.steps.declare(ledger)
    }

    fn steps(&self, party: &mut Party, secrets: Side<(), StepSecrets<'_>>, dt: Shared) -> Result<(Shared, Shared)> {
        self.steps.run(party, secrets, dt)
    }
}
