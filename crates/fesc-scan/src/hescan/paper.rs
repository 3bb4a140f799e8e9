//! The paper's counts of HEScan: formulas, and the values that its tables print.
//!
//! Formulas: app:hescan-cost, app:complex-reduction-accounting, app:scan-comparison, app:longseq. Tables are
//! rounded to hundreds or thousands; [`Compared`] holds a formula beside a table, and some tables do not
//! follow from their formulas.
//!
//! Not counted by the paper: broadcasts of x, a, B and C, and the updates that pass two builds again.

use super::prefix::Topology;
use super::{Factor, Factors, Given, Per, ScanShape};

/// The scan of Mamba-base, 24 heads of 64 channels, `d_s = 128`, for so many tokens.
pub fn base(tokens: usize) -> ScanShape {
    ScanShape { tokens, heads: 24, head_dim: 64, groups: 1, state: 128 }
}

/// s_state of the paper's measurements.
pub const STATE_SLOTS: usize = 16_384;

/// `C_BK(n)`: compositions of Brent-Kung over `n` positions, padded to a power of two.
pub fn brent_kung(n: usize) -> u64 {
    Topology::BrentKung.compositions(n)
}

/// `K_s`: chunks of the state.
pub fn chunks(shape: &ScanShape, state_slots: usize) -> u64 {
    (shape.channels() * shape.state).div_ceil(state_slots) as u64
}

/// `C_res`: compositions of the two-pass schedule for one chunk, `2 sum C(B_j) + C(K) + sum over j > 0 of
/// B_j`, with blocks and their number padded to powers of two. One block has one pass: `C(L)`.
pub fn resident(tokens: usize, block: usize) -> u64 {
    let blocks = tokens.div_ceil(block);
    if blocks == 1 {
        return brent_kung(tokens);
    }
    let size = |j: usize| block.min(tokens - j * block);
    let local: u64 = (0..blocks).map(|j| brent_kung(size(j))).sum();
    2 * local + brent_kung(blocks) + (tokens - block) as u64
}

/// `N_ctmul = 2 K_s C_res + 2 L K_s`.
pub fn products(shape: &ScanShape, state_slots: usize, block: usize) -> u64 {
    let chunks = chunks(shape, state_slots);
    2 * chunks * resident(shape.tokens, block) + 2 * shape.tokens as u64 * chunks
}

/// Rotations of the reduction, `L ceil(K_s / 2) ceil(log2 d_s)`, and conjugations, `L floor(K_s / 2)`.
pub fn reduction(shape: &ScanShape, state_slots: usize) -> (u64, u64) {
    let (chunks, tokens) = (chunks(shape, state_slots), shape.tokens as u64);
    let log = u64::from(shape.state.next_power_of_two().ilog2());
    (tokens * chunks.div_ceil(2) * log, tokens * (chunks / 2))
}

/// `N_ks` without broadcasts: products and the reduction.
pub fn key_switches(shape: &ScanShape, state_slots: usize, block: usize) -> u64 {
    let (rotations, conjugations) = reduction(shape, state_slots);
    products(shape, state_slots, block) + rotations + conjugations
}

/// `N_in = L (H P + H + 2 G d_s)` and `N_out = L H P`: values that cross the boundary.
pub fn boundary(shape: &ScanShape) -> (u64, u64) {
    let ScanShape { tokens, heads, groups, state, .. } = *shape;
    let out = tokens * shape.channels();
    ((out + tokens * (heads + 2 * groups * state)) as u64, out as u64)
}

/// `D_scan <= D_BK(B) + D_BK(K) + 1` for carries in parallel.
pub fn depth_parallel(tokens: usize, block: usize) -> usize {
    let network = |n: usize| Topology::BrentKung.depth(n);
    network(block) + network(tokens.div_ceil(block)) + 1
}

/// `D_scan = 2 ceil(log2 B) + K` for carries in sequence, `+ R` in place of `K` if every `R`-th is refreshed.
pub fn depth_serial(tokens: usize, block: usize, refresh: Option<usize>) -> usize {
    2 * block.next_power_of_two().ilog2() as usize + refresh.unwrap_or(tokens.div_ceil(block))
}

/// A value that the paper prints beside what its own formula gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// Tokens.
    pub tokens: usize,
    /// Tokens of a block.
    pub block: usize,
    /// By formula.
    pub formula: u64,
    /// In the table.
    pub table: u64,
}

impl Compared {
    /// Table minus formula.
    pub fn difference(&self) -> i64 {
        self.table as i64 - self.formula as i64
    }
}

/// tab:real-phantom-scan: key switches of the compositions of one scan block, for each topology in the order
/// of [`Topology::ALL`] and 128 .. 2,048 tokens, beside `2 K_s C`.
pub fn topologies() -> [(Topology, [Compared; 5]); 4] {
    const TABLE: [[u64; 5]; 4] = [
        [3_000, 6_100, 12_300, 24_600, 49_100],
        [18_500, 43_000, 98_300, 221_200, 491_500],
        [10_800, 24_600, 55_300, 122_900, 270_300],
        [5_900, 12_000, 24_300, 48_900, 98_000],
    ];
    let row = |at: usize| {
        let topology = Topology::ALL[at];
        let cell = |i: usize| {
            let tokens = 128 << i;
            let formula = 2 * chunks(&base(tokens), STATE_SLOTS) * topology.compositions(tokens);
            Compared { tokens, block: tokens, formula, table: TABLE[at][i] }
        };
        (topology, std::array::from_fn(cell))
    };
    std::array::from_fn(row)
}

/// tab:real-phantom-scan: seconds of Brent-Kung on one A100 for 128 .. 2,048 tokens.
pub const BRENT_KUNG_SECONDS: [f64; 5] = [15.6, 32.2, 63.5, 139.4, 284.2];

/// A row of tab:scan_residency, Mamba-base at 2,048 tokens on one A100.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residency {
    /// Key switches.
    pub switches: Compared,
    /// Peak of device memory in GB, if it was measured.
    pub peak: Option<f64>,
    /// Seconds of a layer's scan, if it was measured.
    pub seconds: Option<f64>,
}

/// tab:scan_residency.
pub fn residency() -> [Residency; 6] {
    const TABLE: [(usize, u64, Option<f64>, Option<f64>); 6] = [
        (64, 370_000, None, None),
        (128, 372_000, None, None),
        (256, 372_000, Some(12.8), Some(302.1)),
        (512, 370_000, Some(19.5), Some(296.3)),
        (1024, 372_000, Some(32.7), Some(284.2)),
        (2048, 283_000, None, None),
    ];
    TABLE.map(|(block, table, peak, seconds)| {
        let formula = key_switches(&base(2048), STATE_SLOTS, block);
        Residency { switches: Compared { tokens: 2048, block, formula, table }, peak, seconds }
    })
}

/// A row of tab:longseq.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Long {
    /// The depth.
    pub depth: Compared,
    /// Every how many blocks the carry is refreshed.
    pub refresh: Option<usize>,
    /// Seconds of a layer, if it ran.
    pub seconds: Option<f64>,
    /// Peak of device memory in GB, if it was measured.
    pub peak: Option<f64>,
}

/// tab:longseq.
pub fn long() -> [Long; 5] {
    type Row = (usize, usize, Option<usize>, u64, Option<f64>, Option<f64>);
    const TABLE: [Row; 5] = [
        (2048, 1024, None, 22, Some(386.3), Some(32.7)),
        (4096, 512, None, 26, Some(748.9), Some(37.8)),
        (8192, 512, None, 34, None, Some(40.4)),
        (8192, 256, None, 48, None, None),
        (8192, 256, Some(8), 24, Some(1748.9), Some(28.6)),
    ];
    TABLE.map(|(tokens, block, refresh, table, seconds, peak)| {
        let formula = depth_serial(tokens, block, refresh) as u64;
        Long { depth: Compared { tokens, block, formula, table }, refresh, seconds, peak }
    })
}

/// A row of tab:ckks-level-audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    /// Tokens.
    pub tokens: usize,
    /// N.
    pub degree: usize,
    /// Data levels.
    pub levels: usize,
    /// Bits of the chain, two primes of 60 bits included.
    pub bits: u32,
    /// Bits that the table says are left of 881 (N = 32,768) or 1,782 (N = 65,536).
    pub margin: u32,
}

/// tab:ckks-level-audit.
pub const AUDIT: [Audit; 5] = [
    Audit { tokens: 128, degree: 32_768, levels: 17, bits: 800, margin: 81 },
    Audit { tokens: 256, degree: 32_768, levels: 19, bits: 880, margin: 1 },
    Audit { tokens: 512, degree: 65_536, levels: 21, bits: 960, margin: 812 },
    Audit { tokens: 1024, degree: 65_536, levels: 23, bits: 1040, margin: 732 },
    Audit { tokens: 2048, degree: 65_536, levels: 22, bits: 1000, margin: 772 },
];

/// A row of tab:cross_ssm_family: Mamba-base's channels and 128 tokens, with the family's own `d_s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// d_s.
    pub state: usize,
    /// K_s.
    pub chunks: u64,
    /// Relinearisations of the compositions.
    pub relinearisations: u64,
    /// Whether a, B and C are the server's and the same for all tokens; they are complex then.
    pub fixed: bool,
    /// The index of the decay.
    pub per: Per,
}

/// tab:cross_ssm_family, without Mamba-3.
pub const FAMILIES: [Family; 5] = [
    Family { name: "s4d", state: 64, chunks: 6, relinearisations: 0, fixed: true, per: Per::State },
    Family { name: "s5", state: 128, chunks: 12, relinearisations: 0, fixed: true, per: Per::State },
    Family { name: "lru", state: 128, chunks: 12, relinearisations: 0, fixed: true, per: Per::State },
    Family { name: "s6", state: 16, chunks: 2, relinearisations: 988, fixed: false, per: Per::State },
    Family { name: "mamba2", state: 128, chunks: 12, relinearisations: 5_928, fixed: false, per: Per::Head },
];

impl Family {
    /// Its factors, those of the server with the values that `known` gives for a, B and C.
    pub fn factors(&self, known: impl FnOnce(&Factors) -> [Given; 3]) -> Factors {
        let secret = Factor { given: Given::Encrypted, complex: self.fixed };
        let mut factors = Factors { a: secret.clone(), per: self.per, b: secret.clone(), c: secret };
        if self.fixed {
            [factors.a.given, factors.b.given, factors.c.given] = known(&factors);
        }
        factors
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn topologies_follow_from_their_formula() {
        for (topology, row) in topologies() {
            for cell in row {
                // Rounded to hundreds.
                assert!(cell.difference().abs() <= 50, "{topology:?} {cell:?}");
            }
        }
    }

    #[test]
    fn residency_does_not_follow_from_its_formula() {
        let formula = [380_760, 383_856, 383_496, 378_912, 367_512, 245_448];
        let differences = [-10_760, -11_856, -11_496, -8_912, 4_488, 37_552];
        for ((row, formula), difference) in residency().iter().zip(formula).zip(differences) {
            assert_eq!((row.switches.formula, row.switches.difference()), (formula, difference));
        }
    }

    #[test]
    fn depths_of_long_sequences_follow_from_their_formula() {
        assert!(long().iter().all(|row| row.depth.difference() == 0));
    }

    #[test]
    fn the_audit_is_a_chain_of_40_bits_and_the_scan_with_four_levels() {
        for row in AUDIT {
            let limit = if row.degree == 32_768 { 881 } else { 1782 };
            assert_eq!(row.bits, 120 + 40 * row.levels as u32);
            // The margins of the longer rows are 10 bits short of 1,782.
            let short = limit - row.bits - row.margin;
            assert_eq!(short, if limit == 881 { 0 } else { 10 });
            // Depth of Brent-Kung and four more: mask, build, contraction, mask. 2,048 is two blocks of
            // 1,024.
            if row.tokens < 2048 {
                assert_eq!(row.levels, Topology::BrentKung.depth(row.tokens) + 4);
            } else {
                assert_eq!(row.levels, depth_serial(2048, 1024, None));
            }
        }
        // A refresh every 8 blocks: 24 levels are 1,080 bits, the text says 1,160.
        assert_eq!(120 + 40 * depth_serial(8192, 256, Some(8)), 1080);
        // The stated bound for carries in parallel, which the table does not use.
        assert_eq!(depth_parallel(2048, 1024), 21);
    }

    #[test]
    fn families_follow_from_the_compositions() {
        for family in FAMILIES {
            let shape = ScanShape { state: family.state, ..base(128) };
            assert_eq!(chunks(&shape, STATE_SLOTS), family.chunks);
            let formula = if family.fixed { 0 } else { 2 * family.chunks * brent_kung(128) };
            assert_eq!(family.relinearisations, formula, "{family:?}");
        }
    }

    #[test]
    fn the_boundary_and_the_reduction_are_those_of_the_text() {
        assert_eq!(boundary(&base(128)), (128 * (1536 + 24 + 256), 128 * 1536));
        let (rotations, conjugations) = reduction(&base(128), STATE_SLOTS);
        assert_eq!((rotations, conjugations), (5376, 768));
        assert_eq!((chunks(&base(128), STATE_SLOTS), resident(128, 128)), (12, 247));
        assert_eq!(key_switches(&base(128), STATE_SLOTS, 128), 15_144);
    }
}
