//! What the arithmetic of encoding and decoding parts may be off by. Each party does both alike, with its own
//! part; the encoder has the formulas.

use fesc_ckks::{CkksError, Encoder, Params};

use crate::Result;

/// Refuses a mask that cannot be decoded well enough, before there is data. The error of one part otherwise,
/// in units of the last place.
pub(super) fn decoding_error(encoder: &Encoder, width: u32, scale: f64, fraction: u32) -> Result<f64> {
    let most = encoder.share_width(scale, fraction)?;
    if width > most {
        return Err(CkksError::ShareTooLarge { bits: width, max: most, scale, fraction }.into());
    }
    // At the widest two units, and for each bit less a half of that.
    Ok(2.0 * (f64::from(width) - f64::from(most)).exp2())
}

/// What to expect of the largest error of a double-double transform in a coefficient, relative to the
/// largest slot: `2^-105 sqrt(log2 N)` ([`fesc_ring::fft::double`]).
pub(super) fn inverse_error(params: &Params) -> f64 {
    (params.degree() as f64).log2().sqrt() * 2f64.powi(-105)
}
