//! Matrix products modulo a prime with one reduction at the end: tiles of 4 by 16.
//!
//! `out[o][s] = sum_j weights[j][o] * panel[j][s] mod p`. With AVX-512 IFMA each product adds its low and
//! high 52 bits to two 64-bit words, two instructions for eight products; `2^12` products fit before the
//! words must be reduced:
//!
//! ```text
//! sum = lo + 2^52 hi,   lo < 2^64,   hi < 2^12 2^48        (p < 2^50: products are below 2^100)
//!     = l + 2^52 h0 + 2^104 h1  mod p,   l, h0 < 2^52,  h1 < 2^12
//! ```
//!
//! Elsewhere the sum is a 128-bit integer. Both give the reduced residue, so all paths agree. No branch and
//! no address depends on the data.

#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::cpu::{self, Path};
use crate::modulus::{Modulus, Shoup};
use crate::ntt::SIMD_LIMIT;

/// Rows of a tile: outputs that share one read of the panel.
pub const ROWS: usize = 4;
/// Columns of a tile.
pub const COLUMNS: usize = 16;
/// Products between two reductions. One less than `2^12` products fit beside a reduced start.
const DEPTH: usize = 2048;

/// One tile of results.
pub type Tile = [[u64; COLUMNS]; ROWS];

/// The kernel for one prime below `2^50`, on one path.
#[derive(Debug, Clone, Copy)]
pub struct Lazy {
    modulus: Modulus,
    /// `2^52 mod p`.
    middle: Shoup,
    /// `2^104 mod p`.
    high: Shoup,
    path: Path,
}

impl Lazy {
    /// The kernel of the best path.
    ///
    /// # Panics
    /// If the prime is not below [`SIMD_LIMIT`].
    pub fn new(modulus: Modulus) -> Self {
        Self::with_path(modulus, cpu::path())
    }

    /// The kernel of a path, or of the best one below it that this processor has.
    ///
    /// # Panics
    /// If the prime is not below [`SIMD_LIMIT`].
    pub fn with_path(modulus: Modulus, path: Path) -> Self {
        assert!(modulus.value() < SIMD_LIMIT, "the sums have room for primes below 2^50, not for {}", modulus.value());
        let best = Path::available().last().unwrap_or(Path::Portable);
        let middle = modulus.reduce(1 << 52);
        let high = modulus.mul(middle, middle);
        Self { modulus, middle: modulus.shoup(middle), high: modulus.shoup(high), path: path.min(best) }
    }

    /// The product of the common number of rows of `weights` and `panel`. Operands must be reduced.
    pub fn tile(&self, weights: &[[u64; ROWS]], panel: &[[u64; COLUMNS]]) -> Tile {
        let mut out = [[0; COLUMNS]; ROWS];
        for (weights, panel) in weights.chunks(DEPTH).zip(panel.chunks(DEPTH)) {
            match self.path {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `with_path` checked the processor and the prime; the chunks have at most `DEPTH`
                // rows.
                Path::Avx512 => unsafe { avx512::tile(self, weights, panel, &mut out) },
                _ => portable(self.modulus, weights, panel, &mut out),
            }
        }
        out
    }
}

fn portable(modulus: Modulus, weights: &[[u64; ROWS]], panel: &[[u64; COLUMNS]], out: &mut Tile) {
    for (row, out) in out.iter_mut().enumerate() {
        // Below 2^50 + 2^11 2^100.
        let mut sums = out.map(u128::from);
        for (w, values) in weights.iter().zip(panel) {
            for (sum, &v) in sums.iter_mut().zip(values) {
                *sum += u128::from(w[row]) * u128::from(v);
            }
        }
        *out = sums.map(|s| modulus.reduce_u128(s));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Prg;
    use crate::primes::ntt_primes;

    /// Term by term, reduced at every step.
    fn naive(m: Modulus, weights: &[[u64; ROWS]], panel: &[[u64; COLUMNS]]) -> Tile {
        let mut out = [[0; COLUMNS]; ROWS];
        for (w, v) in weights.iter().zip(panel) {
            for (row, &w) in out.iter_mut().zip(w) {
                row.iter_mut().zip(v).for_each(|(o, &v)| *o = m.mul_add(w, v, *o));
            }
        }
        out
    }

    #[test]
    fn every_path_is_the_sum_of_products() {
        let mut prg = Prg::from_seed([5; 16]);
        for bits in [20, 46, 49, 50] {
            let p = ntt_primes(bits, 1024, 1).unwrap()[0];
            let m = Modulus::new(p).unwrap();
            for depth in [0, 1, 2, 7, 128, DEPTH - 1, DEPTH, DEPTH + 1, 2 * DEPTH + 3] {
                for largest in [false, true] {
                    let mut pick = || if largest { p - 1 } else { prg.next_u64() % p };
                    let weights: Vec<[u64; ROWS]> = (0..depth).map(|_| std::array::from_fn(|_| pick())).collect();
                    let panel: Vec<[u64; COLUMNS]> = (0..depth).map(|_| std::array::from_fn(|_| pick())).collect();
                    let want = naive(m, &weights, &panel);
                    for path in Path::available() {
                        assert_eq!(Lazy::with_path(m, path).tile(&weights, &panel), want, "{bits} {depth} {path:?}");
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "below 2^50")]
    fn large_primes_are_refused() {
        Lazy::new(Modulus::new(ntt_primes(51, 1024, 1).unwrap()[0]).unwrap());
    }
}
