//! Random 1-of-8 oblivious transfers, the leaves of a comparison.
//!
//! The sender holds eight pads of `planes` bits per transfer, stored by *planes*: byte `p` of a transfer has
//! bit `p` of pad `v` at its bit `v`. The receiver holds a random digit `v` and the bits of that pad, packed
//! to bytes.

use super::{FieldSpec, Material, check_elements};
use crate::Role;
use crate::error::{MpcError, check_range};

/// Shape of a batch of leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaves {
    /// Who holds all eight pads.
    pub sender: Role,
    /// Number of transfers.
    pub count: usize,
    /// Bits per pad.
    pub planes: usize,
}

impl Leaves {
    /// Sender's field: the planes, `planes` bytes per transfer.
    pub(crate) const PLANES: usize = 0;
    /// Receiver's field: the digits, the low three bits of one byte each.
    pub(crate) const DIGITS: usize = 0;
    /// Receiver's field: the chosen pads, [`Self::pad_bytes`] bytes per transfer.
    pub(crate) const PADS: usize = 1;

    /// Bytes of one packed pad.
    pub(crate) const fn pad_bytes(&self) -> usize {
        self.planes.div_ceil(8)
    }

    pub(super) fn validate(&self) -> Result<(), MpcError> {
        check_range("bits per leaf", self.planes as u64, 1, 128)?;
        check_elements(&[self.count, self.planes])
    }

    pub(super) fn layout(&self, role: Role) -> Vec<FieldSpec> {
        if role == self.sender {
            vec![FieldSpec::bytes(self.count * self.planes, true)]
        } else {
            vec![FieldSpec::bytes(self.count, true), FieldSpec::bytes(self.count * self.pad_bytes(), false)]
        }
    }

    pub(super) fn complete(&self, m0: &mut Material, m1: &mut Material) {
        let (sender, receiver) = if self.sender == Role::P0 { (m0, m1) } else { (m1, m0) };
        // A free byte field is uniform over bytes; a digit is its low three bits.
        receiver.bytes_mut(Self::DIGITS).iter_mut().for_each(|d| *d &= 7);
        let mut pads = vec![0u8; self.count * self.pad_bytes()];
        let (planes, digits) = (sender.bytes(Self::PLANES), receiver.bytes(Self::DIGITS));
        for i in 0..self.count {
            for p in 0..self.planes {
                let bit = planes[i * self.planes + p] >> digits[i] & 1;
                pads[i * self.pad_bytes() + p / 8] |= bit << (p % 8);
            }
        }
        *receiver.bytes_mut(Self::PADS) = pads;
    }
}
