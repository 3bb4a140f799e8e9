//! What a recorded message holds: for audits of transcripts. Not in the product (feature `testing`).
//!
//! Bytes of an object are not uniform, however uniform its residues are: a prime above `2^40` has 41 bits,
//! the highest of them hardly ever set. So an audit takes headers and residues apart, and bytes of the
//! residues that are uniform if the residues are.

use super::{HEADER_BYTES, Header, ObjectKind, body_bytes, read_limb};
use crate::{CkksError, Params, Result, WireError};

/// Where the seed is in a header.
const SEED: usize = 56;

/// One object of a message.
pub struct Object {
    /// Everything public about it: the header without its seed.
    pub header: [u8; SEED],
    /// The seed; zeros if there is none.
    pub seed: [u8; HEADER_BYTES - SEED],
    /// Two bytes of each residue: its place among 256 equal parts of the prime, and its low byte.
    pub residues: Vec<u8>,
}

/// The objects of a message, of any of these sets.
///
/// # Errors
/// [`CkksError::Wire`] with the field that is wrong.
pub fn objects(sets: &[Params], mut message: &[u8]) -> Result<Vec<Object>> {
    let mut objects = Vec::new();
    while !message.is_empty() {
        let object = object(sets, &mut message);
        objects.push(object.map_err(|cause| CkksError::Wire { what: "object of a message", cause })?);
    }
    Ok(objects)
}

fn object(sets: &[Params], message: &mut &[u8]) -> std::result::Result<Object, WireError> {
    let short = |got: usize| WireError::Length { expected: HEADER_BYTES, got };
    let head = message.split_off(..HEADER_BYTES).ok_or_else(|| short(message.len()))?;
    let of = |p: &&Params| head[8..40] == *p.digest();
    let params = sets.iter().find(of).ok_or(WireError::Magic)?;
    let kinds = [ObjectKind::PublicKey, ObjectKind::SwitchingKey, ObjectKind::Upload, ObjectKind::Masked];
    let kind = kinds.into_iter().find(|&k| k as u8 == head[6]).ok_or(WireError::Kind { expected: 0, got: head[6] })?;
    let (header, _) = Header::decode(params, kind, head)?;
    let (polys, limbs) = match kind {
        ObjectKind::PublicKey => (1, params.primes()),
        ObjectKind::SwitchingKey => (params.digits(header.level), params.primes()),
        ObjectKind::Upload => (1, header.level + 1),
        ObjectKind::Masked => (2, header.level + 1),
    };
    let expected = body_bytes(params, polys, limbs);
    let wrong = WireError::Length { expected, got: message.len() };
    let mut body = message.split_off(..expected).ok_or(wrong)?;
    let mut residues = Vec::with_capacity(2 * polys * limbs * params.degree());
    let mut limb = vec![0; params.degree()];
    for at in 0..polys * limbs {
        let (i, prime) = (at % limbs, params.modulus(at % limbs).value());
        let bytes = body.split_off(..params.limb_bytes(i)).unwrap_or_default();
        read_limb(params, i, bytes, &mut limb).map_err(|prime| WireError::Residue { limb: at, prime })?;
        let place = |x: u64| ((u128::from(x) << 8) / u128::from(prime)) as u8;
        residues.extend(limb.iter().flat_map(|&x| [place(x), x as u8]));
    }
    Ok(Object { header: std::array::from_fn(|i| head[i]), seed: std::array::from_fn(|i| head[SEED + i]), residues })
}
