//! `exp` as plain arithmetic, so that loops over it become vector code (libm's cannot).

/// `e^x` with an error of about 2 ulp; saturates at `e^-87` and `e^88` instead of reaching 0 or infinity.
///
/// `x = n ln 2 + r`, `|r| <= ln 2 / 2`, a polynomial of degree 7 in `r`, and `2^n` put into the exponent
/// bits. NaN gives NaN.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// 1.5 2^23: adding it leaves the nearest integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    for c in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 0.5] {
        p = p * r + c;
    }
    let mantissa = p * r * r + r + 1.0;
    mantissa * f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_within_three_ulp() {
        let mut worst = 0.0f64;
        for i in -870_000..880_000 {
            let x = i as f32 * 1e-4;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 3.0 * f64::from(f32::EPSILON) / 2.0, "{worst:e}");
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(-1e30) > 0.0 && exp(1e30).is_finite());
        assert_eq!(exp(0.0), 1.0);
    }
}
