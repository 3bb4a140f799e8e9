//! How much bounded masks leave open, and how that adds up.
//!
//! `R` uniform over `2^(width + 1)` neighbouring integers and `R` shifted by `x` are at statistical distance
//! `|x| / 2^(width + 1)`. Over the `n` coefficients of an inference, all phases at most `B`, distances add up
//! to at most `n B / 2^(width + 1)`, and over queries they add up again: whoever asks often enough sees more
//! than one inference shows. With widths by [`mask_width`](super::mask_width) one inference is at `2^-41`, a
//! million are at `2^-21`. The pseudorandomness of the fresh zeros is apart from this, and computational.

use super::mask_width;

/// Queries over which commands print the sum.
pub const QUERIES: u64 = 1 << 20;

/// A bound on a statistical distance, by its logarithm.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Distance(f64);

impl Distance {
    /// Equal distributions: a uniform mask.
    pub const NONE: Self = Self(f64::NEG_INFINITY);
    /// Nothing is promised.
    pub const ALL: Self = Self(0.0);

    /// Of one inference, whose `count` masked coefficients have phases up to `2^phase_bits` under masks by
    /// [`mask_width`](super::mask_width).
    pub fn of_bounded(phase_bits: u32, count: u64) -> Self {
        Self::of_width(phase_bits, mask_width(phase_bits, count), count)
    }

    /// Of `count` coefficients with phases up to `2^phase_bits` under masks of this width.
    pub fn of_width(phase_bits: u32, width: u32, count: u64) -> Self {
        Self(f64::from(phase_bits) - f64::from(width) - 1.0).over(count)
    }

    /// Of so many together: the sum, and never more than 1.
    #[must_use]
    pub fn over(self, times: u64) -> Self {
        if times == 0 { Self::NONE } else { Self((self.0 + (times as f64).log2()).min(0.0)) }
    }

    /// The logarithm to base 2; minus infinity for [`Distance::NONE`].
    pub fn log2(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
#[path = "distance/tests.rs"]
mod tests;
