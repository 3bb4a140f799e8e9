//! Random 1-of-2 oblivious transfers of ring elements, one each way: what a mux by chosen transfers consumes.
//!
//! Of every transfer the sender has a pad `m` and an offset `o`, the receiver a random bit `c` and `m + c o`;
//! `m` and `o` are uniform and independent. Each party is the sender of as many as it is the receiver of.
//! The offset, not the other pad, is what masks a message ([`crate::protocol::CotMux`]).

use fesc_ring::Ring;

use super::{FieldSpec, Material, check_elements};
use crate::error::MpcError;
use crate::party::WORDS;

/// Shape of a batch of transfers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfers {
    /// The ring of the pads.
    pub ring: Ring,
    /// Words of 64 transfers each way.
    pub words: usize,
}

impl Transfers {
    /// Sender's field: the pads of bit 0.
    pub(crate) const PADS: usize = 0;
    /// Sender's field: by how much the pads of bit 1 exceed them.
    pub(crate) const OFFSETS: usize = 1;
    /// Receiver's field: its bits.
    pub(crate) const CHOICES: usize = 2;
    /// Receiver's field: the chosen pads.
    pub(crate) const CHOSEN: usize = 3;

    pub(super) fn validate(&self) -> Result<(), MpcError> {
        check_elements(&[self.words, 64])
    }

    pub(super) fn layout(&self) -> Vec<FieldSpec> {
        let pads = |free| FieldSpec::ring(self.ring, 64 * self.words, free);
        vec![pads(true), pads(true), FieldSpec::ring(WORDS, self.words, true), pads(false)]
    }

    pub(super) fn complete(&self, m0: &mut Material, m1: &mut Material) {
        let chosen = |sender: &Material, receiver: &Material| -> Vec<u64> {
            let (pads, offsets) = (sender.ring(Self::PADS), sender.ring(Self::OFFSETS));
            let choice = |i: usize| receiver.ring(Self::CHOICES)[i / 64] >> (i % 64) & 1;
            (0..pads.len()).map(|i| self.ring.add(pads[i], choice(i).wrapping_neg() & offsets[i])).collect()
        };
        let (first, second) = (chosen(m1, m0), chosen(m0, m1));
        *m0.ring_mut(Self::CHOSEN) = first;
        *m1.ring_mut(Self::CHOSEN) = second;
    }
}
