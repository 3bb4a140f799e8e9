//! Named parameter sets: every stage and length of the paper's tables ckks_config, ckks-level-audit and
//! longseq, and the four chains of the peers' measurements.
//!
//! Sets are append-only. The paper's chains are `[60, 40 x depth, 60]`; ours differ in three ways. Primes
//! stay below `2^50`. Several special primes keep keys small. And a masked result needs room: at the end of
//! the depth [`BOUNDARY`] more primes are left, which with the base hold a bounded mask (phase,
//! 40 bits, `log2` of the number of coefficients). The paper's `L = 256` set has 880 bits, over our limit of
//! 859 at `N = 32768` ([`fesc_ring::security`]); with the boundary so has its `L = 128` set.
//! Both take primes of 36 bits instead of 40, which costs 4 bits of precision.
//!
//! The sets by depth (`scan-d10` and on) and `project` are for kernels whose depth does not follow from the
//! paper's: their special primes are as many as the limit and the time of a key switch want.
//!
//! Three sets were changed when the limits became one percent lower (868 to 859, 1747 to 1730); levels,
//! digits, scales and precision stayed: `chain-3` had a base of 50 bits and special primes of 45 (865 bits in
//! all), `scan-128` special primes of 45 (865; 17 bits more than a digit needs), `scan-8192-unrefreshed` a
//! base of 50 and special primes of 42 (1742). What a smaller base costs is room: at level 0 `chain-3` holds
//! slots below 2^5, no longer 2^9; `scan-8192-unrefreshed` is never below level 2, where it holds the mask
//! with 8 bits to spare.
//!
//! | set | N | levels | depth | log QP | security | digits | precision | switching key, sent | in memory |
//! |---|---|---|---|---|---|---|---|---|---|
//! | chain-1 | 32768 | 1 | 1 | 140 | 256 bits | 2 | 27.1 bits | 1.1 MB | 2.3 MB |
//! | chain-2 | 32768 | 8 | 8 | 502 | 232 bits | 3 | 25.6 bits | 6.2 MB | 12.4 MB |
//! | chain-3 | 32768 | 17 | 17 | 858 | 129 bits | 6 | 25.0 bits | 21.3 MB | 42.6 MB |
//! | chain-4 | 65536 | 22 | 22 | 1266 | 180 bits | 3 | 23.9 bits | 31.4 MB | 62.8 MB |
//! | in-proj | 32768 | 4 | 2 | 342 | 256 bits | 2 | 26.3 bits | 2.8 MB | 5.6 MB |
//! | out-proj | 32768 | 5 | 3 | 382 | 256 bits | 2 | 26.1 bits | 3.1 MB | 6.3 MB |
//! | scan-128 | 32768 | 19 | 17 | 856 | 129 bits | 7 | 21.0 bits | 24.8 MB | 49.6 MB |
//! | scan-256 | 32768 | 21 | 19 | 852 | 130 bits | 22 | 20.9 bits | 77.7 MB | 155.4 MB |
//! | scan-512 | 65536 | 23 | 21 | 1306 | 174 bits | 3 | 23.9 bits | 32.4 MB | 64.7 MB |
//! | scan-1024 | 65536 | 25 | 23 | 1428 | 158 bits | 3 | 23.8 bits | 35.4 MB | 70.8 MB |
//! | scan-2048 | 65536 | 24 | 22 | 1388 | 163 bits | 3 | 23.8 bits | 34.4 MB | 68.8 MB |
//! | scan-4096 | 65536 | 28 | 26 | 1590 | 141 bits | 3 | 23.7 bits | 39.4 MB | 78.8 MB |
//! | scan-8192 | 65536 | 26 | 24 | 1468 | 153 bits | 3 | 23.8 bits | 36.4 MB | 72.8 MB |
//! | scan-8192-unrefreshed | 65536 | 36 | 34 | 1727 | 129 bits | 7 | 23.5 bits | 100.1 MB | 200.1 MB |
//! | scan-d10 | 32768 | 12 | 10 | 745 | 150 bits | 3 | 25.4 bits | 9.2 MB | 18.5 MB |
//! | scan-d12 | 32768 | 14 | 12 | 825 | 135 bits | 3 | 25.2 bits | 10.2 MB | 20.4 MB |
//! | scan-d14 | 32768 | 16 | 14 | 854 | 130 bits | 5 | 25.1 bits | 17.7 MB | 35.3 MB |
//! | scan-d16 | 32768 | 18 | 16 | 854 | 130 bits | 10 | 25.0 bits | 35.3 MB | 70.7 MB |
//! | project | 32768 | 5 | 3 | 375 | 256 bits | 2 | 26.1 bits | 3.1 MB | 6.2 MB |
//!
//! Security is [`Params::security`], rounded down (ternary secret, errors of deviation 3.2; 256 means 256 or
//! more). Precision is [`Set::precision`].
//! The test `every_set_is_valid_and_its_line_is_true` recomputes the table.

use crate::mask::Distance;
use crate::{Params, ParamsLiteral, Result, memory, wire};

/// Rescaling primes that are left for the mask when a set's depth is used up.
pub const BOUNDARY: usize = 2;
/// Masked coefficients of an inference, at most, that the boundary is for.
pub const MASKED: u64 = 1 << 28;
/// Bits of the largest masked value, 16, that the boundary is for.
pub const VALUE_BITS: u32 = 4;

/// A named set: sizes of primes, and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set {
    /// The name, as commands and tables print it.
    pub name: &'static str,
    /// `log2 N`.
    pub log_n: u32,
    /// Bits of `q_0`.
    pub base_bits: u32,
    /// Bits of the other data primes, and logarithm of the scale.
    pub scale_bits: u32,
    /// Number of data primes after `q_0`.
    pub levels: usize,
    /// Bits of a special prime.
    pub special_bits: u32,
    /// Number of special primes.
    pub specials: usize,
    /// Levels that a computation may use.
    pub depth: usize,
}

impl Set {
    const fn chain(
        name: &'static str,
        log_n: u32,
        (base_bits, scale_bits): (u32, u32),
        levels: usize,
        (special_bits, specials): (u32, usize),
    ) -> Self {
        Self { name, log_n, base_bits, scale_bits, levels, special_bits, specials, depth: levels }
    }

    /// A stage whose result is masked: [`BOUNDARY`] levels more than its depth.
    const fn stage(name: &'static str, log_n: u32, bits: (u32, u32), depth: usize, special: (u32, usize)) -> Self {
        let set = Self::chain(name, log_n, bits, depth + BOUNDARY, special);
        Self { depth, ..set }
    }

    /// The open form.
    pub fn literal(&self) -> ParamsLiteral {
        let mut q_bits = vec![self.scale_bits; self.levels + 1];
        q_bits[0] = self.base_bits;
        ParamsLiteral {
            log_n: self.log_n,
            q_bits,
            p_bits: vec![self.special_bits; self.specials],
            log_scale: self.scale_bits,
        }
    }

    /// The checked form.
    ///
    /// # Errors
    /// None for the sets of this module, which a test builds one by one.
    pub fn params(&self) -> Result<Params> {
        Params::with_pool(&self.literal(), memory::pool())
    }

    /// Bits of precision: `-log2` of the error's standard deviation in a slot after `depth` rescaled products
    /// by known numbers of magnitude 1, from an encryption by the secret key, and for a stage the fresh zero
    /// of its mask: `N (3.2^2 + r (1 + 2N/3) / 12) / scale^2` with `r = depth` or `depth + 1` roundings.
    /// Switching to the relinearised form happens before the division and vanishes in it. Each rotation adds
    /// as much as a rescaling, where `P` is a few bits above every digit (all sets but `chain-1`). A product
    /// of two ciphertexts of magnitude 1 adds both noises: what a kernel's tree of them leaves is its own
    /// formula ([`crate::noise`]), not this one.
    pub fn precision(&self) -> f64 {
        let n = f64::from(1u32 << self.log_n);
        let roundings = self.depth + usize::from(self.depth < self.levels);
        let variance = n * (3.2 * 3.2 + roundings as f64 * (1.0 + 2.0 * n / 3.0) / 12.0);
        f64::from(self.scale_bits) - variance.log2() / 2.0
    }

    /// How far the client's view of one inference is from one that does not depend on what is masked:
    /// [`MASKED`] coefficients with values below `2^`[`VALUE_BITS`] under bounded masks. Queries add up
    /// ([`Distance::over`]).
    pub fn mask_distance(&self) -> Distance {
        Distance::of_bounded(self.scale_bits + VALUE_BITS, MASKED)
    }

    /// What the documentation of the set's constant says: a test holds it to this. `params` is the checked
    /// form.
    pub fn doc(&self, params: &Params) -> String {
        format!(
            "N = {}, log QP = {:.0}, {} bits, depth {} of {} levels, {} digits of {} primes, precision {:.1} bits, key {:.1} MB sent.",
            params.degree(),
            params.log_qp(),
            params.security().floor(),
            self.depth,
            self.levels,
            params.digits(params.levels()),
            params.specials(),
            self.precision(),
            wire::switching_key_bytes(params) as f64 / 1e6,
        )
    }

    /// This set's line of the module documentation. `params` is the checked form.
    pub fn line(&self, params: &Params) -> String {
        format!(
            "| {} | {} | {} | {} | {:.0} | {} bits | {} | {:.1} bits | {:.1} MB | {:.1} MB |",
            self.name,
            params.degree(),
            self.levels,
            self.depth,
            params.log_qp(),
            params.security().floor(),
            params.digits(params.levels()),
            self.precision(),
            wire::switching_key_bytes(params) as f64 / 1e6,
            params.key_memory() as f64 / 1e6,
        )
    }
}

/// Chain 1 of the peers' measurements.
///
/// N = 32768, log QP = 140, 256 bits, depth 1 of 1 levels, 2 digits of 1 primes, precision 27.1 bits, key 1.1
/// MB sent.
pub const CHAIN_1: Set = Set::chain("chain-1", 15, (50, 40), 1, (50, 1));
/// Chain 2 of the peers' measurements.
///
/// N = 32768, log QP = 502, 232 bits, depth 8 of 8 levels, 3 digits of 3 primes, precision 25.6 bits, key 6.2
/// MB sent.
pub const CHAIN_2: Set = Set::chain("chain-2", 15, (50, 40), 8, (44, 3));
/// Chain 3 of the peers' measurements.
///
/// N = 32768, log QP = 858, 129 bits, depth 17 of 17 levels, 6 digits of 3 primes, precision 25.0 bits, key
/// 21.3 MB sent.
pub const CHAIN_3: Set = Set::chain("chain-3", 15, (46, 40), 17, (44, 3));
/// Chain 4 of the peers' measurements.
///
/// N = 65536, log QP = 1266, 180 bits, depth 22 of 22 levels, 3 digits of 8 primes, precision 23.9 bits, key
/// 31.4 MB sent.
pub const CHAIN_4: Set = Set::chain("chain-4", 16, (50, 40), 22, (42, 8));
/// HEInProj (the paper's scale is `2^30`).
///
/// N = 32768, log QP = 342, 256 bits, depth 2 of 4 levels, 2 digits of 3 primes, precision 26.3 bits, key 2.8
/// MB sent.
pub const IN_PROJ: Set = Set::stage("in-proj", 15, (50, 40), 2, (44, 3));
/// NeRMS and HEOutProj (the paper's scale is `2^30`).
///
/// N = 32768, log QP = 382, 256 bits, depth 3 of 5 levels, 2 digits of 3 primes, precision 26.1 bits, key 3.1
/// MB sent.
pub const OUT_PROJ: Set = Set::stage("out-proj", 15, (50, 40), 3, (44, 3));
/// HEScan at `L = 128`; primes of 36 bits, since 40 with the boundary are over the limit.
///
/// N = 32768, log QP = 856, 129 bits, depth 17 of 19 levels, 7 digits of 3 primes, precision 21.0 bits, key
/// 24.8 MB sent.
pub const SCAN_128: Set = Set::stage("scan-128", 15, (46, 36), 17, (42, 3));
/// HEScan at `L = 256`; the paper's 880 bits are over the limit of 859: primes of 36 bits, one special prime.
///
/// N = 32768, log QP = 852, 130 bits, depth 19 of 21 levels, 22 digits of 1 primes, precision 20.9 bits, key
/// 77.7 MB sent.
pub const SCAN_256: Set = Set::stage("scan-256", 15, (46, 36), 19, (50, 1));
/// HEScan at `L = 512`.
///
/// N = 65536, log QP = 1306, 174 bits, depth 21 of 23 levels, 3 digits of 8 primes, precision 23.9 bits, key
/// 32.4 MB sent.
pub const SCAN_512: Set = Set::stage("scan-512", 16, (50, 40), 21, (42, 8));
/// HEScan at `L = 1024`.
///
/// N = 65536, log QP = 1428, 158 bits, depth 23 of 25 levels, 3 digits of 9 primes, precision 23.8 bits, key
/// 35.4 MB sent.
pub const SCAN_1024: Set = Set::stage("scan-1024", 16, (50, 40), 23, (42, 9));
/// HEScan at `L = 2048`, blocks of 1024.
///
/// N = 65536, log QP = 1388, 163 bits, depth 22 of 24 levels, 3 digits of 9 primes, precision 23.8 bits, key
/// 34.4 MB sent.
pub const SCAN_2048: Set = Set::stage("scan-2048", 16, (50, 40), 22, (42, 9));
/// HEScan at `L = 4096`, blocks of 512, serial carries.
///
/// N = 65536, log QP = 1590, 141 bits, depth 26 of 28 levels, 3 digits of 10 primes, precision 23.7 bits, key
/// 39.4 MB sent.
pub const SCAN_4096: Set = Set::stage("scan-4096", 16, (50, 40), 26, (42, 10));
/// HEScan at `L = 8192`, blocks of 256, a refresh every 8 blocks.
///
/// N = 65536, log QP = 1468, 153 bits, depth 24 of 26 levels, 3 digits of 9 primes, precision 23.8 bits, key
/// 36.4 MB sent.
pub const SCAN_8192: Set = Set::stage("scan-8192", 16, (50, 40), 24, (42, 9));
/// HEScan at `L = 8192`, blocks of 512, no refresh.
///
/// N = 65536, log QP = 1727, 129 bits, depth 34 of 36 levels, 7 digits of 6 primes, precision 23.5 bits, key
/// 100.1 MB sent.
pub const SCAN_8192_UNREFRESHED: Set = Set::stage("scan-8192-unrefreshed", 16, (41, 40), 34, (41, 6));

/// A scan of depth 10.
///
/// N = 32768, log QP = 745, 150 bits, depth 10 of 12 levels, 3 digits of 5 primes, precision 25.4 bits, key
/// 9.2 MB sent.
pub const SCAN_D10: Set = Set::stage("scan-d10", 15, (50, 40), 10, (43, 5));
/// A scan of depth 12.
///
/// N = 32768, log QP = 825, 135 bits, depth 12 of 14 levels, 3 digits of 5 primes, precision 25.2 bits, key
/// 10.2 MB sent.
pub const SCAN_D12: Set = Set::stage("scan-d12", 15, (50, 40), 12, (43, 5));
/// A scan of depth 14; the limit leaves four special primes and a smaller base.
///
/// N = 32768, log QP = 854, 130 bits, depth 14 of 16 levels, 5 digits of 4 primes, precision 25.1 bits, key
/// 17.7 MB sent.
pub const SCAN_D14: Set = Set::stage("scan-d14", 15, (46, 40), 14, (42, 4));
/// A scan of depth 16; with primes of 40 bits the limit leaves two special primes.
///
/// N = 32768, log QP = 854, 130 bits, depth 16 of 18 levels, 10 digits of 2 primes, precision 25.0 bits, key
/// 35.3 MB sent.
pub const SCAN_D16: Set = Set::stage("scan-d16", 15, (46, 40), 16, (44, 2));
/// Both projections, and products of two ciphertexts between them (the dual form).
///
/// N = 32768, log QP = 375, 256 bits, depth 3 of 5 levels, 2 digits of 3 primes, precision 26.1 bits, key 3.1
/// MB sent.
pub const PROJECT: Set = Set::stage("project", 15, (46, 40), 3, (43, 3));

/// All sets.
pub const ALL: &[Set] = &[
    CHAIN_1,
    CHAIN_2,
    CHAIN_3,
    CHAIN_4,
    IN_PROJ,
    OUT_PROJ,
    SCAN_128,
    SCAN_256,
    SCAN_512,
    SCAN_1024,
    SCAN_2048,
    SCAN_4096,
    SCAN_8192,
    SCAN_8192_UNREFRESHED,
    SCAN_D10,
    SCAN_D12,
    SCAN_D14,
    SCAN_D16,
    PROJECT,
];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::mask::{STATISTICAL_BITS, mask_width};

    /// The text of this file holds each set's line twice: in the table and, as a sentence, at the constant.
    const TEXT: &str = include_str!("sets.rs");

    #[test]
    fn every_set_is_valid_and_its_line_is_true() {
        let mut missing = Vec::new();
        for set in ALL {
            let params = set.params().unwrap();
            missing.extend([format!("//! {}", set.line(&params)), format!("/// {}", set.doc(&params))]);
        }
        // A sentence may be folded.
        let text = TEXT.replace("\n/// ", " ");
        missing.retain(|line| !text.contains(line));
        assert!(missing.is_empty(), "write into this file:\n{}", missing.join("\n"));
        let lines = TEXT.lines().filter(|l| l.starts_with("//! | ") && !l.contains("set |")).count();
        assert_eq!(lines, ALL.len(), "the table has exactly the sets");
    }

    #[test]
    fn names_and_digests_are_distinct() {
        let mut names: Vec<&str> = ALL.iter().map(|s| s.name).collect();
        let mut literals: Vec<ParamsLiteral> = ALL.iter().map(Set::literal).collect();
        names.sort_unstable();
        names.dedup();
        literals.sort_by_key(|l| format!("{l:?}"));
        literals.dedup();
        assert_eq!((names.len(), literals.len()), (ALL.len(), ALL.len()));
    }

    #[test]
    fn a_result_at_the_end_of_a_stage_has_room_for_its_mask() {
        for set in ALL.iter().filter(|s| s.depth < s.levels) {
            let width = mask_width(set.scale_bits + VALUE_BITS, MASKED);
            assert_eq!(width, set.scale_bits + 4 + STATISTICAL_BITS + 28);
            assert_eq!(set.mask_distance().log2(), -41.0);
            let left = set.base_bits + BOUNDARY as u32 * set.scale_bits;
            assert!(left > width + 1, "{}: {left} bits for {width}", set.name);
        }
    }

    #[test]
    fn depths_are_the_papers() {
        let scans = [(128, 17), (256, 19), (512, 21), (1024, 23), (2048, 22), (4096, 26), (8192, 24)];
        for (length, depth) in scans {
            let set = ALL.iter().find(|s| s.name == format!("scan-{length}")).unwrap();
            assert_eq!(set.depth, depth);
            assert_eq!(set.log_n, if length <= 256 { 15 } else { 16 });
        }
        assert_eq!((IN_PROJ.depth, OUT_PROJ.depth), (2, 3));
    }

    #[test]
    fn what_the_paper_calls_too_deep_is_refused() {
        // Table longseq: 8192 tokens in blocks of 256 without refresh need 48 levels.
        let set = Set { depth: 48, levels: 48, ..SCAN_8192_UNREFRESHED };
        assert!(matches!(set.params(), Err(crate::CkksError::Weak { log_n: 16, .. })));
        // Table ckks-level-audit: 880 bits at 256 tokens.
        let paper = Set { scale_bits: 40, levels: 19, base_bits: 50, special_bits: 50, specials: 2, ..SCAN_256 };
        assert!(matches!(paper.params(), Err(crate::CkksError::Weak { log_n: 15, limit: 859, .. })));
    }
}
