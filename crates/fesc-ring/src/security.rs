//! How large a modulus a degree of RLWE may have: one table for all schemes here (`fesc-rlwe`, `fesc-ckks`).
//!
//! **Source.** Bossuat and others, "Security Guidelines for Implementing Homomorphic Encryption", eprint
//! 2024/463, Table 5.2: the largest `log2 q` for uniform ternary secrets, errors of deviation 3.19 and any
//! number of samples, at 128, 192 and 256 bits against classical attacks. The numbers are those of the
//! authors' repository (`gong-cr/FHE-Security-Guidelines`, `parameters/tables.go`). Two counts of our own
//! agree. The lattice estimator (27a581b, MATZOV, primal attacks) gives the same limits at 128 bits. And the
//! test `the_table_is_what_the_primal_attack_costs` counts the primal attack anew, from its formulas: 128.3
//! to 129.7, 192.3 to 194.8 and 256.6 to 262.5 bits at the table's entries.
//!
//! **Between the entries** bits are linear in `log2(q)^-1.25`. That line is below what the primal attack
//! costs, but for at most 0.02 bits in the middle of an interval at `N = 32768`
//! (`bits_between_the_entries_are_not_too_many`). Where less than the table's least modulus is used, the
//! answer is 256, which then means "256 or more".
//!
//! **Limits.** The table's 128 bits are an edge: a rougher count of the same attack came out between 126.8
//! and 128.1 there. So sets are refused from one percent less on: `log2 q` over 52, 105, 212, 426, 859 or
//! 1730 for `N = 2^11 .. 2^16`. From `2^12` on that is 129.2 to 129.5 bits by the table, and 128 even if the
//! table counts 1.2 bits too many.

/// What every set must have.
pub const LEAST_BITS: u32 = 128;
/// Bits of the table's columns.
const BITS: [f64; 3] = [128.0, 192.0, 256.0];
/// `log2` of the smallest degree that has a limit.
const FIRST: u32 = 11;
/// Largest `log2 q` at 128 bits, from `N = 2^11` on.
const AT_128: [u32; 6] = [53, 106, 214, 430, 868, 1747];
/// The same at 192 and 256 bits, from `N = 2^12` on: no bits are counted for the smallest degree.
const ABOVE: [[u32; 2]; 5] = [[73, 56], [147, 114], [297, 230], [597, 462], [1199, 929]];
/// The power of the modulus that bits are nearly linear in.
const POWER: f64 = -1.25;

fn row(log_n: u32) -> Option<[u32; 3]> {
    let at = log_n.checked_sub(FIRST)? as usize;
    let [b, c] = *ABOVE.get(at.checked_sub(1)?)?;
    Some([*AT_128.get(at)?, b, c])
}

/// Most bits of the modulus (of CKKS: of `Q P`): one percent below the table's entry for 128 bits, to the
/// nearest bit. Nothing for a degree that the table has not.
pub fn limit(log_n: u32) -> Option<u32> {
    Some((AT_128.get(log_n.checked_sub(FIRST)? as usize)? * 99 + 50) / 100)
}

/// Bits of security of a degree, `2^12` to `2^16`, and a modulus; 256 means 256 or more. Nothing for other
/// degrees.
pub fn bits(log_n: u32, log_q: f64) -> Option<f64> {
    let [a, b, c] = row(log_n)?.map(|q| f64::from(q).powf(POWER));
    let x = log_q.max(1.0).powf(POWER);
    let ((left, from), (right, to)) = if x < b { ((a, BITS[0]), (b, BITS[1])) } else { ((b, BITS[1]), (c, BITS[2])) };
    Some((from + (to - from) * (x - left) / (right - left)).clamp(0.0, BITS[2]))
}

#[cfg(test)]
#[path = "security/tests.rs"]
mod tests;
