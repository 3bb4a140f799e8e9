//! Two steps that the kernel is made of, each beside its declaration: a change of scale, and exp of sums.

use fesc_model::outline::{Exponential, scale};
use fesc_mpc::activation::{Activation, ExpSquare, Piecewise};
use fesc_mpc::protocol::Convert;
use fesc_mpc::{Ledger, Party, Shared};
use fesc_ring::Ring;

use crate::Result;

/// `x` at `from` fractional bits brought to `to`: floor or ceiling of the quotient
/// (`fesc_approx::trunc::round`: one unit is subtracted first), or a shift to the left, which is local. One
/// round, or none.
pub(super) fn rescale(party: &mut Party, x: Shared, from: u32, to: u32) -> Result<Shared> {
    if x.is_empty() || from == to {
        return Ok(x);
    }
    if from < to {
        return Ok(x.scale(1u64.checked_shl(to - from).unwrap_or(0)));
    }
    let lowered = x.add_public(party.role(), u64::MAX);
    drop(x);
    Ok(Convert::truncate(lowered.ring(), from - to, lowered.len())?.run(party, &lowered)?)
}

/// The cost of [`rescale`].
pub(super) fn declare_rescale(ring: Ring, from: u32, to: u32, count: usize, ledger: &mut Ledger) -> Result<()> {
    if count > 0 && from > to {
        Convert::truncate(ring, from - to, count)?.declare(ledger);
    }
    Ok(())
}

/// exp of sums at DECAY bits: rounded to the form's input, then the form.
pub(super) fn exponential(party: &mut Party, form: &Exponential, sums: Shared) -> Result<Shared> {
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
pub(super) fn declare_exponential(ring: Ring, form: &Exponential, count: usize, ledger: &mut Ledger) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    declare_rescale(ring, scale::DECAY, form.in_frac(), count, ledger)?;
    match form {
        Exponential::Linear(table) => Piecewise::new(table).declare(count, ledger)?,
        Exponential::Power(power) => ExpSquare::new(power.clone()).declare(count, ledger)?,
    }
    Ok(())
}
