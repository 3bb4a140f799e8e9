//! Sizes.

use crate::Params;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 72;

/// Bytes of `limbs` limbs, from prime `first` on.
pub(crate) fn limbs_bytes(params: &Params, limbs: usize) -> usize {
    (0..limbs).map(|i| (params.modulus(i).bits() as usize * params.degree()).div_ceil(8)).sum()
}

/// Bytes of a key-switching key.
pub fn switching_key_bytes(params: &Params) -> usize {
    HEADER_BYTES + params.digits(params.levels()) * limbs_bytes(params, params.primes())
}
