//! Slots of period `p`, encoded by transforms of `p` slots and degree `2p`: what diagonals of weights are
//! when several inputs lie side by side in one ciphertext.
//!
//! Cost: a transform of `p` complex points and one of degree `2p` per limb, instead of `N / 2` and `N`. The
//! first use of a period prepares its tables.

use num_complex::Complex64;
use zeroize::Zeroizing;

use super::{Encoder, Rounded};
use crate::residue;
use crate::{CkksError, PeriodicPlaintext, Result};

impl Encoder {
    /// Encodes slots that repeat these values, a power of two of them: slot `j` is value `j mod p`. The same
    /// plaintext as [`Encoder::encode`] of all slots, to the rounding of a coefficient.
    ///
    /// # Errors
    /// [`CkksError::Period`]; otherwise as [`Encoder::encode`].
    pub fn encode_periodic(&self, values: &[Complex64], level: usize, scale: f64) -> Result<PeriodicPlaintext> {
        let (params, period, slots) = (&self.params, values.len(), self.params.slots());
        if !period.is_power_of_two() || period > slots {
            return Err(CkksError::Period { period, slots });
        }
        params.check_scale(level, scale)?;
        let mut words = Zeroizing::new(Vec::with_capacity(2 * period * (level + 1)));
        if period == slots {
            // The whole ring: its transforms exist.
            self.encode_poly(values, level, scale, 0)?.limbs().for_each(|limb| words.extend_from_slice(limb));
        } else {
            let ring = params.subring(period)?;
            let rounded = self.round(&self.embed(&ring.fft, values, scale)?, level, scale)?;
            words.resize(2 * period * (level + 1), 0);
            for (i, limb) in words.chunks_exact_mut(2 * period).enumerate() {
                match &rounded {
                    Rounded::Short(integers) => params.prime(i).reduce_signed(integers, limb),
                    Rounded::Wide(integers) => residue::reduce_wide(params.modulus(i), integers, limb),
                }
                ring.ntts[i].forward(limb);
            }
        }
        Ok(PeriodicPlaintext { params: params.clone(), level, scale, period, words })
    }
}

#[cfg(test)]
mod tests;
