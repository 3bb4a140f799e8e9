//! Integer parts of lanes to integer parts of coefficients, and back: what both parties do alike, each with
//! its own part.

use fesc_ckks::{CkksError, Encoder, Params, Plaintext};
use fesc_ring::Ring;
use zeroize::Zeroizing;

use crate::Result;

/// Refuses widths that cannot be decoded well enough, before there is data.
pub(super) fn check_width(encoder: &Encoder, width: u32, scale: f64, fraction: u32) -> Result<()> {
    let (bits, max) = (f64::from(width) + 1.0, (encoder.share_limit(scale, fraction)? as f64).log2());
    if bits > max {
        return Err(CkksError::ShareTooLarge { bits, max, scale, fraction }.into());
    }
    Ok(())
}

/// One party's coefficients, decoded to fixed point and reduced: real and imaginary lanes of all slots.
/// Coefficients that are out of range are reduced, silently: [`check_width`] has taken the width, and nothing
/// here may depend on the data.
pub(super) fn decode(
    encoder: &Encoder,
    coefficients: &mut [i128],
    width: u32,
    scale: f64,
    fraction: u32,
    ring: Ring,
) -> Result<Zeroizing<Vec<[u64; 2]>>> {
    let shift = 126 - width;
    coefficients.iter_mut().for_each(|x| *x = (*x << shift) >> shift);
    Ok(Zeroizing::new(encoder.decode_share(coefficients, scale, fraction, ring)?))
}

/// One party's lanes, encoded.
pub(super) fn encode(
    encoder: &Encoder,
    lanes: &[[i128; 2]],
    _bits: u32,
    fraction: u32,
    level: usize,
    scale: f64,
) -> Result<Plaintext> {
    // In two halves, until the encoder takes wide integers.
    let low = lanes.iter().map(|z| z.map(|x| (x & ((1 << 40) - 1)) as i64)).collect::<Vec<_>>();
    let high = lanes.iter().map(|z| z.map(|x| (x >> 40) as i64)).collect::<Vec<_>>();
    let mut coefficients = Zeroizing::new(encoder.encode_share(&low, fraction, scale)?);
    let high = Zeroizing::new(encoder.encode_share(&high, 0, scale * f64::from(40 - fraction as i32).exp2())?);
    coefficients.iter_mut().zip(high.iter()).for_each(|(c, h)| *c += h);
    Ok(encoder.encode_coefficients(&coefficients, level, scale)?)
}

/// What to expect of the largest error of a double-double transform in a coefficient, relative to the
/// largest slot: `2^-105 sqrt(log2 N)` ([`fesc_ring::fft::double`]).
pub(super) fn inverse_error(params: &Params) -> f64 {
    (params.degree() as f64).log2().sqrt() * 2f64.powi(-105)
}
