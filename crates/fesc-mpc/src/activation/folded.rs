//! SiLU from sign and magnitude, in two comparisons ([`fesc_approx::folded`]).
//!
//! 1. Sign: one threshold on `X - 16`, reduced to 13 bits.
//! 2. `M = [x < 0] X` by a mux on chosen transfers ([`CotMux`]); `U = X - 2 M`, so `M` is needed modulo
//!    `2^(l-1)` only.
//! 3. Two thresholds on `U`, reduced to 13 bits.
//! 4. `Y = 16 X + base(U) + sum_k b_k step_k(U)` by one mux of two terms on chosen transfers.
//! 5. [`Rescale`] to the output's bits and ring.
//!
//! Rounds: `2 + ceil(log2 D)` for each comparison, two for each mux, one for the last step: 13. Bits an
//! element, both ways: 75 and 138 for the comparisons, `2 l` and `4 (l + 1)` for the muxes at l = 24, 2 for
//! the last step. The sign's bit is used once, the others once each.
//!
//! Right for `|x| <= 124`; beyond, silently wrong.

use fesc_approx::Folded as Form;
use fesc_ring::Ring;

use super::Activation;
use crate::protocol::{Compare, Convert, CotMux, Rescale, Sender, Thresholds};
use crate::{Ledger, MpcError, Party, Shared};

/// Folded SiLU on shares; the twin is [`Form::eval`].
#[derive(Debug, Clone, Copy)]
pub struct Folded {
    form: Form,
    result: Ring,
}

/// The steps for so many elements.
struct Steps {
    reduce: Convert,
    sign: Compare,
    fold: CotMux,
    pieces: Compare,
    select: CotMux,
    leave: Rescale,
}

impl Folded {
    /// With the result in the ring of the form.
    pub fn new(form: Form) -> Self {
        Self { form, result: form.ring() }
    }

    /// Gives the result in another ring, which must hold it.
    pub fn into_ring(self, ring: Ring) -> Self {
        Self { result: ring, ..self }
    }

    /// The ring of `M`.
    fn half_ring(&self) -> Result<Ring, MpcError> {
        Ok(Ring::new(self.form.ring().bits() - 1)?)
    }

    fn steps(&self, count: usize) -> Result<Steps, MpcError> {
        let (form, ring) = (&self.form, self.form.ring());
        let compare = |thresholds: usize| Compare::new(Ring::new(form.cmp_bits())?, count, thresholds, Sender::Split);
        Ok(Steps {
            reduce: Convert::reduce(ring, form.cmp_bits(), form.cmp_shift(), count)?,
            sign: compare(1)?,
            fold: CotMux::new(self.half_ring()?, count, 1)?,
            pieces: compare(form.thresholds().len())?,
            select: CotMux::new(ring, count, form.steps().len())?,
            leave: Rescale::new(ring, form.sum_frac(), form.out_frac(), count).into_ring(self.result),
        })
    }
}

impl Activation for Folded {
    fn ring(&self) -> Ring {
        self.form.ring()
    }

    fn result(&self) -> Ring {
        self.result
    }

    fn declare(&self, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
        let steps = self.steps(count)?;
        steps.sign.declare(ledger);
        steps.fold.declare(ledger);
        steps.pieces.declare(ledger);
        steps.select.declare(ledger);
        steps.leave.declare(ledger)
    }

    fn run(&self, party: &mut Party, x: &Shared) -> Result<Shared, MpcError> {
        let (form, role) = (&self.form, party.role());
        let steps = self.steps(x.len())?;
        let lowered = x.add_public(role, form.sign_offset() as u64);
        let reduced = steps.reduce.run(party, &lowered)?;
        drop(lowered);
        let positive = steps.sign.run(party, &reduced, Thresholds::Same(&[0]))?;
        let negative: Vec<_> = positive.iter().map(|b| b.not(role)).collect();
        let low = Shared::new(self.half_ring()?, x.values().to_vec());
        let folded = steps.fold.run(party, &negative.iter().collect::<Vec<_>>(), &[&low])?;
        drop(low);
        // Twice a number modulo 2^(l-1) is right modulo 2^l.
        let twice = Shared::new(x.ring(), folded.values().iter().map(|&m| m << 1).collect());
        let u = x.sub(&twice)?;
        drop((folded, twice));

        let reduced = steps.reduce.run(party, &u)?;
        let reached = steps.pieces.run(party, &reduced, Thresholds::Same(&form.thresholds()))?;
        let line = |[constant, slope]: [u64; 2]| u.scale(slope).add_public(role, constant);
        let values = form.steps().map(line);
        let rest = x.scale(form.half()).add(&line(form.base()))?;
        drop(u);
        let chosen =
            steps.select.run(party, &reached.iter().collect::<Vec<_>>(), &values.iter().collect::<Vec<_>>())?;
        drop(values);
        steps.leave.run(party, rest.add(&chosen)?)
    }
}
