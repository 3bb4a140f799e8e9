//! A prepared block as bytes, on its way to a disk and back: `l` bits for each element.

use zeroize::Zeroizing;

use super::{Block, Prepared, Shape};
use crate::error::length;
use crate::{Params, Result};

impl Prepared {
    /// Elements of `b'`, of the pads and of the share.
    fn sizes(params: &Params, shape: &Shape, block: &Block) -> [usize; 3] {
        [params.degree(), shape.inputs() * block.coefficients(), shape.outputs() * block.tokens()]
    }

    /// Bytes of a block.
    pub fn packed_len(params: &Params, shape: &Shape, block: &Block) -> usize {
        Self::sizes(params, shape, block).map(|n| params.ring().packed_len(n)).iter().sum()
    }

    /// The block as bytes. Consumes it: what is kept to be used is not used now.
    pub fn pack(self) -> Zeroizing<Vec<u8>> {
        let parts = [&self.common, &self.pads, &self.share];
        let bytes = parts.map(|part| self.ring.packed_len(part.len())).iter().sum();
        // All of it at once: a vector that grows leaves copies behind.
        let mut packed = Zeroizing::new(Vec::with_capacity(bytes));
        for part in parts {
            packed.extend_from_slice(&Zeroizing::new(self.ring.pack(part)));
        }
        packed
    }

    /// The block from its bytes.
    ///
    /// # Errors
    /// If there are more or fewer bytes than this block has.
    pub fn unpack(params: &Params, shape: &Shape, block: Block, bytes: &[u8]) -> Result<Self> {
        length("bytes of a prepared block", Self::packed_len(params, shape, &block), bytes.len())?;
        let (ring, mut rest) = (params.ring(), bytes);
        let mut part = |count: usize| {
            let (own, behind) = rest.split_at_checked(ring.packed_len(count)).unwrap_or((rest, &[]));
            rest = behind;
            ring.unpack(own, count)
        };
        let [common, pads, share] = Self::sizes(params, shape, &block);
        let (common, pads, share) = (part(common)?, part(pads)?, part(share)?);
        Ok(Self { ring, shape: *shape, block, common, pads, share })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use fesc_ring::Prg;

    use super::*;
    use crate::Seed;
    use crate::linear::{Domain, Hint};

    #[test]
    fn a_block_comes_back_as_it_went() {
        let (params, shape) = (Params::linear().unwrap(), Shape::new(3, 5, 4).unwrap());
        let domain = Domain { seed: Seed([9; 32]), layer: 1, matrix: 0 };
        let mut rows = vec![0; shape.outputs() * params.degree()];
        fesc_ring::sample::uniform_ring(&mut Prg::from_seed([2; 16]), params.ring(), &mut rows);
        let hint = Hint::new(params, shape, domain, rows).unwrap();
        for block in Block::cut_after(&params, &shape, 3, 70).unwrap() {
            let make = || Prepared::new(&hint, block, &mut Prg::from_seed([1; 16])).unwrap();
            let bytes = make().pack();
            assert_eq!(bytes.len(), Prepared::packed_len(&params, &shape, &block));
            let back = Prepared::unpack(&params, &shape, block, &bytes).unwrap();
            let x0 = vec![7; 3 * 73];
            let ((ours, share), (message, expected)) = (back.send(&x0).unwrap(), make().send(&x0).unwrap());
            assert!(ours.common == message.common && ours.features == message.features && share == expected);
            for wrong in [&bytes[1..], &bytes[..0], &[&bytes[..], &[0]].concat()] {
                assert!(Prepared::unpack(&params, &shape, block, wrong).is_err());
            }
        }
    }
}
