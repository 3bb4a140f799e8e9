//! How large the noise is: the variance of a coefficient of the phase, after each operation.
//!
//! All formulas take errors as independent, with variance `3.2^2`, and the secret as uniform ternary,
//! `|s|^2 = 2N/3` (Costache, Curtis, Hales, Murphy, Ogilvie, Player, "On the precision loss in approximate
//! homomorphic encryption", 2023, do the same). Measured variances are within ten percent (tests).
//!
//! | operation | variance of a coefficient |
//! |---|---|
//! | encryption by the secret key, by a public key | `sigma^2`, `sigma^2 (1 + 4N/3) / P^2 + R` |
//! | sum | `V_a + V_b` |
//! | product by a plaintext `m` | `V \|m\|^2` |
//! | product, not relinearised | `V_a \|m_b\|^2 + V_b \|m_a\|^2 + N V_a V_b` |
//! | key switch | `V + W + R`, `W = N sigma^2 / 12 sum_d (Q_d / P)^2`, `R = (1 + 2N/3) / 12` |
//! | rescaling by `q` | `V / q^2 + R` |
//! | product, relinearised and rescaled at once | `(V + W) / q^2 + R` |
//!
//! `|m|^2` is the sum of the squares of the coefficients ([`energy`]). A slot holds `N` coefficients' worth
//! of noise ([`slot_deviation`]). A rotation is a key switch. Rounding of an encoding adds `1/12`, once.
//!
//! These are averages, not bounds: for a bound on the largest of `n` slots take some deviations more, about
//! `sqrt(2 ln n)`.

use crate::{Params, Result};

/// Deviation of fresh errors.
pub const SIGMA: f64 = 3.2;

/// Variance after encryption by the secret key.
pub fn fresh_secret() -> f64 {
    SIGMA * SIGMA
}

/// Variance after encryption by a public key, and what a fresh zero adds.
pub fn fresh_public(params: &Params) -> f64 {
    SIGMA * SIGMA * (1.0 + 4.0 * params.degree() as f64 / 3.0) * (-2.0 * params.log_p()).exp2() + rounding(params)
}

/// Variance `R` of rounding both parts of a ciphertext.
pub fn rounding(params: &Params) -> f64 {
    (1.0 + 2.0 * params.degree() as f64 / 3.0) / 12.0
}

/// Variance `W` of the sum of digits times errors of a key, divided by `P`: a key switch without its
/// rounding.
///
/// # Errors
/// [`CkksError::Level`](crate::CkksError::Level) if there is no such level.
pub fn digit_errors(params: &Params, level: usize) -> Result<f64> {
    params.check_level(level)?;
    let share = |d: usize| {
        let log_digit: f64 = params.digit(d, level).map(|i| (params.modulus(i).value() as f64).log2()).sum();
        (2.0 * (log_digit - params.log_p())).exp2()
    };
    let shares: f64 = (0..params.digits(level)).map(share).sum();
    Ok(params.degree() as f64 * SIGMA * SIGMA / 12.0 * shares)
}

/// Variance that a relinearisation, rotation or conjugation at `level` adds.
///
/// # Errors
/// [`CkksError::Level`](crate::CkksError::Level) if there is no such level.
pub fn key_switch(params: &Params, level: usize) -> Result<f64> {
    Ok(digit_errors(params, level)? + rounding(params))
}

/// Variance after a division of a ciphertext at `level` by its last prime.
///
/// # Errors
/// [`CkksError::Level`](crate::CkksError::Level) if there is no such level.
pub fn rescale(params: &Params, level: usize, variance: f64) -> Result<f64> {
    params.check_level(level)?;
    let q = params.modulus(level).value() as f64;
    Ok(variance / (q * q) + rounding(params))
}

/// Variance after a relinearisation and rescaling in one division, of a product with this variance at
/// `level`.
///
/// # Errors
/// [`CkksError::Level`](crate::CkksError::Level) if there is no such level.
pub fn relinearise_rescale(params: &Params, level: usize, variance: f64) -> Result<f64> {
    rescale(params, level, variance + digit_errors(params, level)?)
}

/// Sum of the squares of the coefficients of an encoding at `scale`, if the slots have this mean square.
pub fn energy(mean_square: f64, scale: f64) -> f64 {
    mean_square * scale * scale
}

/// Variance after a product by a plaintext with this [`energy`].
pub fn multiply_plain(variance: f64, energy: f64) -> f64 {
    variance * energy
}

/// Variance of a product before relinearisation; each factor has an [`energy`] and a variance.
pub fn tensor(params: &Params, a: (f64, f64), b: (f64, f64)) -> f64 {
    a.1 * b.0 + b.1 * a.0 + params.degree() as f64 * a.1 * b.1
}

/// Root of the mean square of a slot's error.
pub fn slot_deviation(params: &Params, variance: f64, scale: f64) -> f64 {
    (params.degree() as f64 * variance).sqrt() / scale
}

/// Bits of precision: `-log2` of [`slot_deviation`].
pub fn precision_bits(params: &Params, variance: f64, scale: f64) -> f64 {
    -slot_deviation(params, variance, scale).log2()
}

#[cfg(test)]
#[path = "noise/tests.rs"]
mod tests;
