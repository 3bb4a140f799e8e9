//! The true functions, evaluated without cancellation.

/// `x / (1 + e^-x)`.
pub fn silu(x: f64) -> f64 {
    if x >= 0.0 {
        x / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        x * e / (1.0 + e)
    }
}

/// `ln(1 + e^x)`.
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `1 / sqrt(v)`.
pub fn rsqrt(v: f64) -> f64 {
    v.sqrt().recip()
}
