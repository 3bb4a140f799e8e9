//! A step that several activations share.

use fesc_ring::Ring;

use crate::MpcError;
use crate::protocol::{Compare, Convert, Sender};

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
