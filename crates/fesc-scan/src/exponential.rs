//! Two steps that kernels are made of, each beside its declaration: a change of scale, and exp of sums.

use fesc_model::outline::{Exponential, scale};
use fesc_mpc::activation::{Activation, ExpSquare, Piecewise};
use fesc_mpc::protocol::Rescale;
use fesc_mpc::{Ledger, Party, Shared};
use fesc_ring::Ring;

use crate::Result;

/// `x` at `from` fractional bits brought to `to`.
pub(crate) fn rescale(party: &mut Party, x: Shared, from: u32, to: u32) -> Result<Shared> {
    Ok(Rescale::new(x.ring(), from, to, x.len()).run(party, x)?)
}

/// exp of sums at DECAY bits: rounded to the form's input, then the form.
pub(crate) fn exponential(party: &mut Party, form: &Exponential, sums: Shared) -> Result<Shared> {
    if sums.is_empty() {
        return Ok(sums);
    }
    let z = rescale(party, sums, scale::DECAY, form.in_frac())?;
    Ok(match form {
        Exponential::Linear(table) => Piecewise::new(table).run(party, &z)?,
        Exponential::Power(power) => ExpSquare::new(power.clone()).run(party, &z)?,
    })
}

/// The cost of [`exponential`].
pub(crate) fn declare_exponential(ring: Ring, form: &Exponential, count: usize, ledger: &mut Ledger) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    Rescale::new(ring, scale::DECAY, form.in_frac(), count).declare(ledger)?;
    match form {
        Exponential::Linear(table) => Piecewise::new(table).declare(count, ledger)?,
        Exponential::Power(power) => ExpSquare::new(power.clone()).declare(count, ledger)?,
    }
    Ok(())
}
