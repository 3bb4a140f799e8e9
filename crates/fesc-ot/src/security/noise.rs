//! Two models of the noise in a set of samples.
//!
//! A set of `u` samples is good for an attacker if it has exactly `p` noisy ones, `p` small.
//!
//! - *Independent*: each sample is noisy with chance `1/B`. The chance of `p` is
//!   `C(u, p) B^-p (1 - 1/B)^(u - p)`.
//! - *Regular*, exact: a block with `m` samples in the set has its noisy one there with chance `m/B`, so a
//!   set without noise has chance `prod(1 - m_i/B)`. `log(1 - m/B)` is concave: for a fixed `u` the even set,
//!   `m = u/t`, is the attacker's best, and that one is charged: `C(t, p) m^p (B - m)^(t - p) / B^t`.

use super::{Lpn, log_binomial};

/// How the noise is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    /// Each sample for itself, without the structure of the blocks: in the attacker's favour.
    Independent,
    /// One noisy sample in each block, exactly.
    Regular,
}

/// A set of samples, spread evenly over the blocks.
pub(super) struct Samples {
    noise: Noise,
    count: f64,
    blocks: f64,
    block: f64,
}

impl Samples {
    pub(super) fn new(lpn: Lpn, noise: Noise, count: f64) -> Self {
        Self { noise, count, blocks: (lpn.t as f64).min(count), block: lpn.block() }
    }

    fn per_block(&self) -> f64 {
        self.count / self.blocks
    }

    /// `log2` of the number of ways to have `p` noisy samples.
    pub(super) fn patterns(&self, p: u32) -> f64 {
        match self.noise {
            Noise::Independent => log_binomial(self.count, p),
            Noise::Regular => log_binomial(self.blocks, p) + f64::from(p) * self.per_block().log2(),
        }
    }

    /// `-log2` of the chance of exactly `p` noisy samples.
    pub(super) fn rarity(&self, p: u32) -> f64 {
        let p_real = f64::from(p);
        let clean = match self.noise {
            Noise::Independent => {
                let free = (1.0 - 1.0 / self.block).log2();
                (self.count - p_real) * free - p_real * self.block.log2()
            }
            Noise::Regular => {
                let free = (1.0 - self.per_block() / self.block).log2();
                (self.blocks - p_real) * free - p_real * self.block.log2()
            }
        };
        -clean - self.patterns(p)
    }
}
