//! Two steps that kernels are made of, each beside its declaration: a change of scale, and exp of sums.

use fesc_model::outline::{Exponential, scale};
use fesc_mpc::activation::{Activation, ExpSquare, MinimaxExp, Piecewise};
use fesc_mpc::protocol::Rescale;
use fesc_mpc::{Ledger, Party, Shared};
use fesc_ring::Ring;

use crate::Result;

/// `x` at `from` fractional bits brought to `to`.
pub(crate) fn rescale(party: &mut Party, x: Shared, from: u32, to: u32) -> Result<Shared> {
    Ok(Rescale::new(x.ring(), from, to, x.len()).run(party, x)?)
}

/// A form of exp on shares.
fn activation(form: &Exponential) -> Box<dyn Activation + '_> {
    match form {
        Exponential::Linear(table) => Box::new(Piecewise::new(table)),
        Exponential::Power(power) => Box::new(ExpSquare::new(power.clone())),
        Exponential::Minimax(form, _) => Box::new(MinimaxExp::new(form.clone())),
    }
}

/// exp of sums at DECAY bits: rounded to the form's input, then the form. A result that has fewer bits than
/// are asked for is moved up, which is local.
pub(crate) fn exponential(party: &mut Party, form: &Exponential, sums: Shared) -> Result<Shared> {
    if sums.is_empty() {
        return Ok(sums);
    }
    let z = rescale(party, sums, scale::DECAY, form.in_frac())?;
    let y = activation(form).run(party, &z)?;
    rescale(party, y, form.own_frac(), form.out_frac())
}

/// The cost of [`exponential`].
pub(crate) fn declare_exponential(ring: Ring, form: &Exponential, count: usize, ledger: &mut Ledger) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    Rescale::new(ring, scale::DECAY, form.in_frac(), count).declare(ledger)?;
    activation(form).declare(count, ledger)?;
    Ok(Rescale::new(ring, form.own_frac(), form.out_frac(), count).declare(ledger)?)
}
