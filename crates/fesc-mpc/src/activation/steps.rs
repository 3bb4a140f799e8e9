//! Steps that several activations share.

use fesc_ring::Ring;

use crate::protocol::{Compare, Convert, Sender};
use crate::{Ledger, MpcError, Party, Shared};

/// Truncation by `shift` bits to the floor or the ceiling: one unit is subtracted first
/// (`fesc_approx::trunc::round`).
pub(super) fn round(party: &mut Party, x: &Shared, shift: u32) -> Result<Shared, MpcError> {
    if shift == 0 {
        return Ok(x.clone());
    }
    let lowered = x.add_public(party.role(), u64::MAX);
    Convert::truncate(x.ring(), shift, x.len())?.run(party, &lowered)
}

/// The cost of [`round`].
pub(super) fn declare_round(ring: Ring, shift: u32, count: usize, ledger: &mut Ledger) -> Result<(), MpcError> {
    if shift > 0 {
        Convert::truncate(ring, shift, count)?.declare(ledger);
    }
    Ok(())
}

/// The two steps of a comparison inside an activation: truncate-reduce to the comparison ring (local), then
/// `thresholds` public thresholds at once.
pub(super) fn comparison(
    ring: Ring,
    bits: u32,
    shift: u32,
    count: usize,
    thresholds: usize,
) -> Result<(Convert, Compare), MpcError> {
    let reduce = Convert::reduce(ring, bits, shift, count)?;
    Ok((reduce, Compare::new(Ring::new(bits)?, count, thresholds, Sender::Split)?))
}
