//! Degree and modulus, checked once.
//!
//! The limits are those of [`fesc_ring::security`] (ternary secret, errors of deviation 3.2). The sets in
//! use: `N = 2048` and `q = 2^48` has 143 bits for one secret, `N = 4096` and `2^104` has 131, `N = 16384`
//! and `2^349` has 160.

use fesc_ring::{Ring, security};

use crate::{Result, RlweError};

/// Refuses a modulus of `log_q` bits that is too large for the degree.
pub(crate) fn check(degree: usize, log_q: u32) -> Result<()> {
    let known = degree.is_power_of_two().then(|| security::limit(degree.trailing_zeros())).flatten();
    let limit = known.ok_or(RlweError::Degree { degree })?;
    if log_q > limit { Err(RlweError::Weak { degree, log_q, limit }) } else { Ok(()) }
}

/// A degree and a power-of-two modulus with at least 128 bits of security.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    degree: usize,
    ring: Ring,
}

impl Params {
    /// Checks a degree and a modulus `2^log_q`.
    ///
    /// # Errors
    /// [`RlweError::Weak`] below 128 bits, [`RlweError::Degree`] where we have no limit.
    pub fn new(degree: usize, log_q: u32) -> Result<Self> {
        check(degree, log_q)?;
        Ok(Self { degree, ring: Ring::new(log_q)? })
    }

    /// The set of the linear layer: `N = 2048`, `q = 2^48`.
    ///
    /// # Errors
    /// None with these constants.
    pub fn linear() -> Result<Self> {
        Self::new(2048, 48)
    }

    /// `N`.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// `Z_q`, which is also the ring of the shares.
    pub fn ring(&self) -> Ring {
        self.ring
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn weak_parameters_are_refused() {
        let limits = [(2048, 52), (4096, 105), (8192, 212), (16384, 426), (32768, 859), (65536, 1730)];
        for (degree, limit) in limits {
            assert_eq!(Params::new(degree, limit + 1), Err(RlweError::Weak { degree, log_q: limit + 1, limit }));
        }
        assert!(Params::new(2048, 52).is_ok() && Params::new(4096, 64).is_ok());
        for degree in [0, 1024, 3000, 131_072] {
            assert_eq!(Params::new(degree, 20), Err(RlweError::Degree { degree }));
        }
        assert!(matches!(Params::new(4096, 100), Err(RlweError::Ring(_))), "shares have at most 64 bits");
        assert_eq!(Params::linear().unwrap(), Params::new(2048, 48).unwrap());
    }
}
