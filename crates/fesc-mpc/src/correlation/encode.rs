//! The byte form of a [`Request`]: for the dealer's wire and for the headers of stored correlations.
//!
//! One kind byte, then little-endian `u64` numbers; at most [`MAX_BYTES`]. Decoding validates: what comes out
//! of [`Request::decode`] has a possible shape and a bounded size.

use fesc_ring::{LongRing, Ring};

use super::bundle::{MAX_AXES, MAX_MASKS, MAX_PRODUCTS, MAX_RANK};
use super::{
    BitProducts, BitTriples, Bundle, DaBits, Leaves, LongBitProducts, Product, Request, Select, Tensor, Transfers,
};
use crate::Role;
use crate::error::MpcError;

/// The longest encoding that is accepted.
pub(crate) const MAX_BYTES: usize = 8192;

/// The bit of a tensor's first byte that says that it is lower.
const LOWER: u8 = 0x80;
/// The bit of a result's first byte that says that its product need not be exact.
const ROUNDED: u8 = 0x40;

impl Request {
    /// The byte form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |kind: u8, numbers: &[usize]| {
            out.push(kind);
            numbers.iter().for_each(|&n| out.extend_from_slice(&(n as u64).to_le_bytes()));
        };
        match self {
            Request::Bundle(b) => {
                let mut numbers = vec![b.ring.bits() as usize, b.sizes.len(), b.masks.len(), b.products.len()];
                numbers.extend(&b.sizes);
                numbers.extend(b.masks.iter().map(tensor_number));
                b.products.iter().for_each(|p| numbers.extend([p.left, p.right, result_number(p)]));
                put(1, &numbers);
            }
            Request::Select(s) => put(2, &[s.ring.bits() as usize, s.count, s.thresholds, s.degree]),
            Request::BitTriples(b) => put(3, &[b.words, b.width]),
            Request::BitProducts(b) => put(4, &[b.ring.bits() as usize, b.words]),
            Request::DaBits(b) => put(5, &[b.ring.bits() as usize, b.words]),
            Request::Leaves(l) => put(6, &[l.sender.index(), l.count, l.planes]),
            Request::LongBitProducts(b) => put(7, &[b.ring.bits() as usize, b.words]),
            Request::Transfers(t) => put(8, &[t.ring.bits() as usize, t.words]),
        }
        out
    }

    /// Reads and validates a byte form. Hostile input gives an error, never a panic or a large allocation.
    pub fn decode(bytes: &[u8]) -> Result<Request, MpcError> {
        if bytes.len() > MAX_BYTES {
            return Err(MpcError::Request("longer than 8192 bytes"));
        }
        let (&kind, rest) = bytes.split_first().ok_or(MpcError::Request("empty"))?;
        let mut numbers = Numbers(rest);
        let request = match kind {
            1 => Request::Bundle(numbers.bundle()?),
            2 => Request::Select(Select {
                ring: numbers.ring()?,
                count: numbers.next()?,
                thresholds: numbers.next()?,
                degree: numbers.next()?,
            }),
            3 => Request::BitTriples(BitTriples { words: numbers.next()?, width: numbers.next()? }),
            4 => Request::BitProducts(BitProducts { ring: numbers.ring()?, words: numbers.next()? }),
            5 => Request::DaBits(DaBits { ring: numbers.ring()?, words: numbers.next()? }),
            6 => Request::Leaves(Leaves { sender: numbers.role()?, count: numbers.next()?, planes: numbers.next()? }),
            7 => Request::LongBitProducts(LongBitProducts {
                ring: LongRing::new(numbers.width()?)?,
                words: numbers.next()?,
            }),
            8 => Request::Transfers(Transfers { ring: numbers.ring()?, words: numbers.next()? }),
            _ => return Err(MpcError::Request("unknown kind")),
        };
        if !numbers.0.is_empty() {
            return Err(MpcError::Request("trailing bytes"));
        }
        request.validate()?;
        Ok(request)
    }
}

/// A cursor over little-endian numbers.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn bytes(&mut self) -> Result<[u8; 8], MpcError> {
        let (head, tail) = self.0.split_first_chunk::<8>().ok_or(MpcError::Request("truncated"))?;
        self.0 = tail;
        Ok(*head)
    }

    fn next(&mut self) -> Result<usize, MpcError> {
        usize::try_from(u64::from_le_bytes(self.bytes()?)).map_err(|_| MpcError::Request("number too large"))
    }

    fn width(&mut self) -> Result<u32, MpcError> {
        u32::try_from(self.next()?).map_err(|_| MpcError::Request("ring width"))
    }

    fn ring(&mut self) -> Result<Ring, MpcError> {
        Ok(Ring::new(self.width()?)?)
    }

    fn role(&mut self) -> Result<Role, MpcError> {
        match self.next()? {
            0 => Ok(Role::P0),
            1 => Ok(Role::P1),
            _ => Err(MpcError::Request("role")),
        }
    }

    fn bundle(&mut self) -> Result<Bundle, MpcError> {
        let (ring, sizes) = (self.ring()?, self.next()?);
        let (masks, products) = (self.next()?, self.next()?);
        if sizes > MAX_AXES || masks > MAX_MASKS || products > MAX_PRODUCTS {
            return Err(MpcError::Request("more than 32 axes, 64 masks or 256 products"));
        }
        let sizes = (0..sizes).map(|_| self.next()).collect::<Result<_, MpcError>>()?;
        let masks = (0..masks).map(|_| tensor(self.bytes()?)).collect::<Result<_, MpcError>>()?;
        let products = (0..products).map(|_| self.product()).collect::<Result<_, MpcError>>()?;
        Ok(Bundle { ring, sizes, masks, products })
    }

    fn product(&mut self) -> Result<Product, MpcError> {
        let (left, right, mut result) = (self.next()?, self.next()?, self.bytes()?);
        let [flags, ..] = &mut result;
        let exact = *flags & ROUNDED == 0;
        *flags &= !ROUNDED;
        Ok(Product { left, right, out: tensor(result)?, exact })
    }
}

fn tensor([flags, axes @ ..]: [u8; 8]) -> Result<Tensor, MpcError> {
    let (used, unused) =
        axes.split_at_checked(usize::from(flags & !LOWER)).ok_or(MpcError::Request("a tensor of more than 7 axes"))?;
    if unused.iter().any(|&a| a != 0) {
        return Err(MpcError::Request("a tensor with unused axes set"));
    }
    Ok(Tensor { axes: used.to_vec(), lower: flags & LOWER != 0 })
}

/// A tensor as one number: the count of its axes with [`LOWER`], then the axes, one byte each. A tensor of
/// more axes than fit is cut; no validated bundle has one.
fn tensor_number(tensor: &Tensor) -> usize {
    number(tensor, 0)
}

/// The result of a product as one number: as any tensor, with [`ROUNDED`] beside [`LOWER`].
fn result_number(product: &Product) -> usize {
    number(&product.out, if product.exact { 0 } else { ROUNDED })
}

fn number(tensor: &Tensor, flag: u8) -> usize {
    let mut bytes = [0u8; 8];
    let [flags, axes @ ..] = &mut bytes;
    *flags = tensor.axes.len().min(MAX_RANK) as u8 | flag | if tensor.lower { LOWER } else { 0 };
    axes.iter_mut().zip(&tensor.axes).for_each(|(to, &from)| *to = from);
    u64::from_le_bytes(bytes) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::testing::sample_requests;

    #[test]
    fn every_kind_survives_the_round_trip_and_every_truncation_is_refused() {
        for request in sample_requests() {
            let bytes = request.encode();
            assert_eq!(Request::decode(&bytes).unwrap(), request);
            for cut in 0..bytes.len() {
                assert!(Request::decode(&bytes[..cut]).is_err(), "{request}: cut at {cut}");
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert!(Request::decode(&longer).is_err());
        }
    }

    /// Who asks for an exact product and who does not ask for two things: dealer and store tell them apart.
    #[test]
    fn exactness_is_part_of_a_request() {
        let exact = Bundle::matmul(Ring::new(48).unwrap(), 2, 3, 4, 5);
        let products = exact.products.iter().cloned().map(Product::rounded).collect();
        let rounded = Bundle { products, ..exact.clone() };
        let [a, b] = [exact, rounded].map(|bundle| Request::Bundle(bundle).encode());
        assert!(a.len() == b.len() && a != b);
        for (bytes, exact) in [(&a, true), (&b, false)] {
            let Ok(Request::Bundle(read)) = Request::decode(bytes) else { panic!("a valid bundle") };
            assert!(read.products.iter().all(|p| p.exact == exact));
            assert_eq!(&Request::Bundle(read).encode(), bytes);
        }
        // A mask has no such bit: of the first mask's number, after kind, four numbers and four sizes.
        let mut bad = a.clone();
        bad[1 + 8 * 8] |= ROUNDED;
        assert!(Request::decode(&bad).is_err());
    }

    #[test]
    fn oversized_shapes_are_refused_before_allocation() {
        let huge = Request::DaBits(DaBits { ring: Ring::new(48).unwrap(), words: usize::MAX / 2 });
        assert!(Request::decode(&huge.encode()).is_err());
        let ring = Ring::new(48).unwrap();
        let [full, other, out] = [&[0, 1, 2], &[0, 2, 3], &[0, 1, 3]].map(|axes| Tensor::new(axes));
        let square = |side: usize, batch: usize, products: usize| Bundle {
            ring,
            sizes: vec![batch, side, side, side],
            masks: (0..64).map(|i| if i % 2 == 0 { full.clone() } else { other.clone() }).collect(),
            products: vec![Product::new(0, 1, out.clone()); products],
        };
        for bundle in [
            Bundle::matmul(ring, 1 << 40, 1 << 20, 2, 2),
            // Each field within its limit, the half far beyond; a zero beside impossible factors; too much
            // work.
            square(1 << 15, 1, 256),
            square(usize::MAX, 0, 1),
            Bundle::matmul(ring, 1, 1 << 13, 1 << 13, 1 << 13),
        ] {
            assert!(Request::decode(&Request::Bundle(bundle).encode()).is_err());
        }
    }
}
