//! Placeholder text replaced below.

/// An LPN instance with regular noise over GF(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lpn {
    /// Length of the secret.
    pub k: usize,
    /// Noise blocks.
    pub t: usize,
    /// Base-two logarithm of the block length.
    pub log_block: u32,
}

/// The cheapest attack found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Base-two logarithm of its cost.
    pub bits: f64,
    /// Its name.
    pub attack: &'static str,
}

/// Cheapest attack.
pub fn estimate(lpn: Lpn) -> Estimate {
    let block = f64::from(1 << lpn.log_block);
    let k = (lpn.k - lpn.t) as f64;
    Estimate { bits: -k * (1.0 - 1.0 / block).log2() + 2.8 * k.log2(), attack: "pooled Gauss" }
}
