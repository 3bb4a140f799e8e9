//! Parameter sets of silent OT.
//!
//! Bits by [`security::estimate`], without and with the regularity of the noise; *enumeration on few columns*
//! decides:
//!
//! | set | `k` | `t` | block | samples | bits without regularity | with it | next attack |
//! |---|---|---|---|---|---|---|---|
//! | first | 30200 | 380 | 2^8 | 97280 | 132.8 | 147.9 | algebra on few columns 169 |
//! | main | 73800 | 2000 | 2^9 | 1024000 | 132.8 | 135.1 | algebra on few columns 151 |
//!
//! The main set's table (1.2 MB) fits a 2 MB L2 cache; 91 percent of an iteration's output is handed out. Why
//! not a published set: see [`security`]. The bits are per iteration; a proof over `i` iterations loses
//! `log2 i` of them. Every iteration has a matrix of its own, so that work spent on one matrix does not serve
//! against the others.

use std::sync::OnceLock;

use crate::OtError;
use crate::security::{self, Lpn};

/// The least security that a set may have, in bits, by [`security::estimate`].
pub const MIN_SECURITY_BITS: f64 = 128.0;

/// The standard sets, once they have been validated in this process.
static STANDARD: OnceLock<SilentParams> = OnceLock::new();

/// A validated LPN set: secret length `k`, `t` noise blocks of `2^log_block` samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LpnParams {
    k: usize,
    t: usize,
    log_block: u32,
}

impl LpnParams {
    /// Checks the shape and the estimated security; refuses a set below [`MIN_SECURITY_BITS`].
    pub fn new(k: usize, t: usize, log_block: u32) -> Result<Self, OtError> {
        let params = Self::shape(k, t, log_block)?;
        let estimate = security::estimate(Lpn { k, t, log_block });
        if estimate.bits < MIN_SECURITY_BITS {
            let (bits, attack) = (estimate.bits, estimate.attack);
            return Err(OtError::WeakParameters { k, t, log_block, bits, attack, needed: MIN_SECURITY_BITS });
        }
        Ok(params)
    }

    fn shape(k: usize, t: usize, log_block: u32) -> Result<Self, OtError> {
        let bad = |why| OtError::BadParameters { k, t, log_block, why };
        if !(1..=20).contains(&log_block) {
            return Err(bad("a block has 2^1 to 2^20 samples"));
        }
        if k == 0 || t == 0 || k > 1 << 28 || t > 1 << 24 {
            return Err(bad("k must be in 1..=2^28 and t in 1..=2^24"));
        }
        let params = Self { k, t, log_block };
        if params.reserve() >= params.n() {
            return Err(bad("an iteration must make more than the k + t log2(block) correlations that it consumes"));
        }
        Ok(params)
    }

    /// Length of the LPN secret.
    pub const fn k(&self) -> usize {
        self.k
    }

    /// Number of noise blocks (trees).
    pub const fn t(&self) -> usize {
        self.t
    }

    /// Base-two logarithm of the block length: levels of a tree.
    pub const fn log_block(&self) -> u32 {
        self.log_block
    }

    /// Samples of a block.
    pub const fn block(&self) -> usize {
        1 << self.log_block
    }

    /// Samples: outputs of one iteration.
    pub const fn n(&self) -> usize {
        self.t << self.log_block
    }

    /// Correlations that one iteration consumes.
    pub const fn reserve(&self) -> usize {
        self.k + self.t * self.log_block as usize
    }
}

/// The two sets of a bootstrapped source: a small first iteration, then the repeating one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilentParams {
    first: LpnParams,
    main: LpnParams,
}

impl SilentParams {
    /// Pairs two validated sets; the first must make at least what the main one consumes.
    pub fn new(first: LpnParams, main: LpnParams) -> Result<Self, OtError> {
        if first.n() < main.reserve() {
            let LpnParams { k, t, log_block } = first;
            let why = "the first iteration makes fewer correlations than the main one consumes";
            return Err(OtError::BadParameters { k, t, log_block, why });
        }
        Ok(Self { first, main })
    }

    /// The set that the program uses, not yet validated.
    pub(crate) const STANDARD: SilentParams = SilentParams {
        first: LpnParams { k: 30_200, t: 380, log_block: 8 },
        main: LpnParams { k: 73_800, t: 2000, log_block: 9 },
    };

    /// What two builds must have in common for their silent OT to fit: secret, blocks and block length of
    /// both iterations.
    pub const fn words() -> [u64; 6] {
        let Self { first, main } = Self::STANDARD;
        [first.k as u64, first.t as u64, first.log_block as u64, main.k as u64, main.t as u64, main.log_block as u64]
    }

    /// The set that the program uses, validated like any other, once per process.
    pub fn standard() -> Result<Self, OtError> {
        if let Some(valid) = STANDARD.get() {
            return Ok(*valid);
        }
        let Self { first, main } = Self::STANDARD;
        let [first, main] = [first, main].map(|p| LpnParams::new(p.k, p.t, p.log_block));
        let valid = Self::new(first?, main?)?;
        Ok(*STANDARD.get_or_init(|| valid))
    }

    /// The first, small iteration.
    pub const fn first(&self) -> &LpnParams {
        &self.first
    }

    /// The repeating iteration.
    pub const fn main(&self) -> &LpnParams {
        &self.main
    }

    /// A set without any security, so that tests cross many iterations quickly.
    #[cfg(test)]
    pub(crate) fn insecure_for_tests() -> Self {
        let first = LpnParams { k: 60, t: 20, log_block: 4 };
        let main = LpnParams { k: 100, t: 70, log_block: 3 };
        assert!(first.n() >= main.reserve() && main.n() > main.reserve());
        Self { first, main }
    }

    /// The sets before they were raised.
    #[cfg(test)]
    pub(crate) fn former_for_tests() -> Self {
        Self {
            first: LpnParams { k: 30_000, t: 430, log_block: 8 },
            main: LpnParams { k: 70_000, t: 2000, log_block: 9 },
        }
    }
}
