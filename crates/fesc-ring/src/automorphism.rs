//! The maps `X -> X^g` of `Z_p[X] / (X^N + 1)`, `g` odd, on transformed polynomials: a permutation of the
//! slots.
//!
//! Slot `i` of [`crate::ntt::Ntt`] is the value at `psi^(2 brv(i) + 1)`. The image of `a` has at `psi^e` the
//! value of `a` at `psi^(g e)`, so `out[i] = in[j]` with `2 brv(j) + 1 = g (2 brv(i) + 1) mod 2N`. The same
//! table serves all primes of one degree.
//!
//! **Whole registers move.** Eight neighbours `8b + r` have the exponents `e_b + brv(r) N/4`; times `g` these
//! are `g e_b + g brv(r) N/4`, which are again the eight neighbours of one block, in an order that depends on
//! `g mod 8` and on where the first one lands. So a permuted read is one aligned load and one shuffle from a
//! table of eight orders. No gather is needed, and a kernel that reads through a table
//! ([`crate::rns::Prime::dot2_with`]) costs next to nothing more than one that reads in order. The table has
//! `N / 8` words of 32 bits.
//!
//! Cost of [`Table::apply`]: one load and one store of each line; the memory is the limit.

use crate::cpu::{self, Path};
use crate::ntt::MAX_DEGREE;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Slots that move together.
const BLOCK: usize = 8;

/// Why a map has no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AutomorphismError {
    /// The degree is not one of the transform.
    #[error("degree {degree} is not a power of two from 2 to {MAX_DEGREE}")]
    Degree {
        /// Degree asked for.
        degree: usize,
    },
    /// An even exponent is no automorphism.
    #[error("X -> X^{element} is not invertible modulo X^{degree} + 1: the exponent must be odd")]
    Even {
        /// Exponent asked for.
        element: u64,
        /// The degree.
        degree: usize,
    },
}

/// Reverses the low `bits` bits of `x`.
fn reverse(x: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { x.reverse_bits() >> (usize::BITS - bits) }
}

/// The exponent that turns slot `j` of the CKKS encoding into slot `j + step`: `5^step mod 2N`, for any sign
/// of `step`.
pub fn rotation(degree: usize, step: i64) -> u64 {
    let mask = (2 * degree as u64).wrapping_sub(1);
    // 5 has order N/2 modulo 2N.
    let mut left = step.rem_euclid((degree as i64 / 2).max(1)) as u64;
    let (mut power, mut square) = (1u64, 5u64);
    while left != 0 {
        if left & 1 == 1 {
            power = power.wrapping_mul(square) & mask;
        }
        square = square.wrapping_mul(square) & mask;
        left >>= 1;
    }
    power & mask
}

/// The exponent `2N - 1`: complex conjugation of all slots.
pub fn conjugation(degree: usize) -> u64 {
    2 * degree as u64 - 1
}

/// The permutation of one map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    element: u64,
    /// Where the first slot of each block comes from.
    first: Vec<u32>,
    /// `orders[t][r]`: where in its block slot `r` comes from when slot 0 comes from place `t`.
    orders: [[u64; BLOCK]; BLOCK],
    /// Log2 of the slots of a block: of [`BLOCK`], or of a smaller degree.
    shift: u32,
    best: Path,
}

impl Table {
    /// The table of `X -> X^element` for a degree; `element` is taken modulo `2 degree`.
    pub fn new(degree: usize, element: u64) -> Result<Self, AutomorphismError> {
        if !degree.is_power_of_two() || !(2..=MAX_DEGREE).contains(&degree) {
            return Err(AutomorphismError::Degree { degree });
        }
        let g = (element % (2 * degree as u64)) as usize;
        if g.is_multiple_of(2) {
            return Err(AutomorphismError::Even { element, degree });
        }
        let (bits, block) = (degree.trailing_zeros(), BLOCK.min(degree));
        let source = |i: usize| {
            let exponent = (2 * reverse(i, bits) + 1) * g % (2 * degree);
            reverse((exponent - 1) / 2, bits)
        };
        let first = (0..degree / block).map(|b| source(block * b) as u32).collect();
        let inner = block.trailing_zeros();
        let mut orders = [[0; BLOCK]; BLOCK];
        for (t, order) in orders.iter_mut().take(block).enumerate() {
            for (r, place) in order.iter_mut().take(block).enumerate() {
                *place = reverse((reverse(t, inner) + g * reverse(r, inner)) % block, inner) as u64;
            }
        }
        let best = Path::available().last().unwrap_or(Path::Portable);
        Ok(Self { element: g as u64, first, orders, shift: inner, best })
    }

    /// The exponent `g`, below `2N`.
    pub fn element(&self) -> u64 {
        self.element
    }

    /// The degree `N`.
    pub fn degree(&self) -> usize {
        self.first.len() << self.shift
    }

    /// Where slot `i` comes from.
    ///
    /// # Panics
    /// If `i` is not below the degree.
    #[inline(always)]
    pub fn source(&self, i: usize) -> usize {
        let (first, mask) = (self.first[i >> self.shift] as usize, (1 << self.shift) - 1);
        (first & !mask) + self.orders[first & mask & 7][i & mask & 7] as usize
    }

    /// `out = input` under the map, on the best path.
    ///
    /// # Panics
    /// If a length is not the degree.
    pub fn apply(&self, input: &[u64], out: &mut [u64]) {
        self.apply_with(cpu::path(), input, out);
    }

    /// [`Table::apply`] on a given path.
    ///
    /// # Panics
    /// If a length is not the degree.
    pub fn apply_with(&self, path: Path, input: &[u64], out: &mut [u64]) {
        assert_eq!(out.len(), self.degree(), "a permuted polynomial must have as many slots as its table");
        self.part_with(path, 0, input, out);
    }

    /// The slots of the image from `from` on, as many as `out` has, on the best path.
    ///
    /// # Panics
    /// If the input's length is not the degree, `from` is not a multiple of 8, or the part is not inside the
    /// image.
    pub fn part(&self, from: usize, input: &[u64], out: &mut [u64]) {
        self.part_with(cpu::path(), from, input, out);
    }

    /// [`Table::part`] on a given path.
    ///
    /// # Panics
    /// As [`Table::part`].
    pub fn part_with(&self, path: Path, from: usize, input: &[u64], out: &mut [u64]) {
        assert_eq!(input.len(), self.degree(), "a permuted polynomial must have as many slots as its table");
        let inside = from.is_multiple_of(BLOCK) && from <= input.len() && out.len() <= input.len() - from;
        assert!(inside, "a part of a permuted polynomial starts on a multiple of 8 and ends inside it");
        let mut done = 0;
        #[cfg(target_arch = "x86_64")]
        if path.min(self.best) == Path::Avx512 && 1 << self.shift == BLOCK {
            done = out.len() / BLOCK * BLOCK;
            // SAFETY: the processor has the path, the input's length is the degree, blocks are of eight, and
            // those from `from` on are inside.
            unsafe { self.avx512(from, input, &mut out[..done]) };
        }
        let _ = path;
        out.iter_mut().enumerate().skip(done).for_each(|(i, o)| *o = input[self.source(from + i)]);
    }

    /// # Safety
    /// The processor must have AVX-512 F; the input's length must be the degree, and that at least 8; `from`
    /// and the output's length must be multiples of 8, and their sum at most the degree.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn avx512(&self, from: usize, input: &[u64], out: &mut [u64]) {
        for i in (0..out.len()).step_by(BLOCK) {
            // SAFETY: `from + i` is a block of the table, and `source` one of the input.
            unsafe {
                let (source, order) = self.block_source(from + i);
                let x = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(input.as_ptr().add(source).cast()));
                _mm512_storeu_si512(out.as_mut_ptr().add(i).cast(), x);
            }
        }
    }

    /// Where each of the slots `i .. i + 8` comes from; all are below the degree. `i` must be a multiple of 8
    /// below the degree, and the degree at least 8.
    ///
    /// # Panics
    /// If there is no such block.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(crate) fn block_sources(&self, i: usize) -> [usize; BLOCK] {
        debug_assert!(1 << self.shift == BLOCK);
        let first = self.first[i / BLOCK] as usize;
        self.orders[first % BLOCK].map(|place| first / BLOCK * BLOCK + place as usize)
    }

    /// Where the block of the slots `i .. i + 8` comes from, and the order of its lanes.
    ///
    /// # Safety
    /// The processor must have AVX-512 F; `i` must be a multiple of 8 below the degree, and the degree at
    /// least 8.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) unsafe fn block_source(&self, i: usize) -> (usize, __m512i) {
        debug_assert!(1 << self.shift == BLOCK && i < self.degree());
        // SAFETY: `first` has one entry per block, `orders` eight rows of eight words.
        unsafe {
            let first = *self.first.get_unchecked(i / BLOCK) as usize;
            let order = self.orders.get_unchecked(first % BLOCK);
            (first / BLOCK * BLOCK, _mm512_loadu_si512(order.as_ptr().cast()))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Prg;
    use crate::modulus::Modulus;
    use crate::ntt::Ntt;
    use crate::primes::ntt_primes;
    use crate::sample;

    /// `a(X^g)` on coefficients.
    fn substitute(m: Modulus, a: &[u64], g: u64) -> Vec<u64> {
        let n = a.len();
        let mut out = vec![0; n];
        for (i, &x) in a.iter().enumerate() {
            let e = (i as u64 * g % (2 * n as u64)) as usize;
            out[e % n] = if e < n { x } else { m.neg(x) };
        }
        out
    }

    #[test]
    fn permutes_as_the_substitution_does_on_coefficients() {
        let mut prg = Prg::from_seed([6; 16]);
        for log in 1..=9 {
            let n = 1usize << log;
            let m = Modulus::new(ntt_primes(40, 1024, 1).unwrap()[0]).unwrap();
            let plan = Ntt::new(m, n).unwrap();
            let mut a = vec![0; n];
            sample::uniform_mod(&mut prg, m, &mut a);
            let mut values = a.clone();
            plan.forward(&mut values);
            for g in (1..2 * n as u64).step_by(2).take(70).chain([conjugation(n), rotation(n, 1), rotation(n, -3)]) {
                let table = Table::new(n, g).unwrap();
                let mut want = substitute(m, &a, g);
                plan.forward(&mut want);
                for path in Path::available() {
                    let mut got = vec![0; n];
                    table.apply_with(path, &values, &mut got);
                    assert_eq!(got, want, "{n} {g} {path:?}");
                    for (from, end) in [(0, n / 2), (8, n - 1), (16, 24), (n, n)] {
                        if end <= n && from <= end && from % 8 == 0 {
                            let mut part = vec![0; end - from];
                            table.part_with(path, from, &values, &mut part);
                            assert_eq!(part, want[from..end], "{from}..{end} of {n} {g} {path:?}");
                        }
                    }
                }
                assert!((0..n).all(|i| want[i] == values[table.source(i)]));
                assert_eq!((table.element(), table.degree()), (g, n));
            }
        }
    }

    #[test]
    fn rotations_are_powers_of_five() {
        for n in [2, 8, 4096, 65536] {
            let order = 2 * n as u64;
            assert_eq!(rotation(n, 0), 1);
            assert_eq!(rotation(n, 1), if n == 2 { 1 } else { 5 % order });
            for step in [1, 2, 3, 17] {
                assert_eq!(rotation(n, step) * rotation(n, -step) % order, 1, "{n} {step}");
                assert_eq!(rotation(n, step) * rotation(n, 5) % order, rotation(n, step + 5));
            }
            assert_eq!(rotation(n, n as i64 / 2), 1);
        }
    }

    #[test]
    fn refuses_even_exponents_and_other_degrees() {
        assert_eq!(Table::new(8, 6), Err(AutomorphismError::Even { element: 6, degree: 8 }));
        for degree in [0, 1, 12, 2 * MAX_DEGREE] {
            assert_eq!(Table::new(degree, 5), Err(AutomorphismError::Degree { degree }));
        }
    }
}
