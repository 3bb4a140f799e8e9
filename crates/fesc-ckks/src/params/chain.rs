//! The choice of primes: for each wanted size the primes `1 mod 2N` nearest to `2^bits`.
//!
//! Data primes alternate below and above `2^bits`, so that a product of scales divided by the next prime
//! stays close to where it was. Special primes, and all primes of [`MAX_BITS`], come from below alone:
//! nothing may reach `2^50`, where the IFMA kernels end. Special primes are chosen first, so that a special
//! prime is the larger one when both lists ask for the same size.

use fesc_ring::primes::is_prime;

use crate::{CkksError, Result};

/// Largest size of a prime: the SIMD kernels end at `2^50`.
pub const MAX_BITS: u32 = 50;
/// Smallest size of a prime.
pub const MIN_BITS: u32 = 20;

/// Hands out primes of one size, nearest first, never one twice.
struct Near {
    bits: u32,
    step: u64,
    below: u64,
    above: u64,
    found: usize,
}

impl Near {
    fn new(bits: u32, degree: usize) -> Self {
        let step = 2 * degree as u64;
        let centre = (1u64 << bits) / step * step + 1;
        Self { bits, step, below: centre, above: centre, found: 0 }
    }

    /// The next prime below `2^bits`, down to half of it.
    fn down(&mut self) -> Option<u64> {
        while self.below > self.step && self.below - self.step > 1 << (self.bits - 1) {
            self.below -= self.step;
            if is_prime(self.below) {
                self.found += 1;
                return Some(self.below);
            }
        }
        None
    }

    /// The next prime above `2^bits`, up to one and a half of it.
    fn up(&mut self) -> Option<u64> {
        // The centre itself is above 2^bits whenever the step divides 2^bits.
        while self.above < 3 << (self.bits - 1) {
            let candidate = self.above;
            self.above += self.step;
            if candidate >> self.bits != 0 && is_prime(candidate) {
                self.found += 1;
                return Some(candidate);
            }
        }
        None
    }
}

/// The data primes and the special primes for the sizes asked for, all distinct.
pub(super) fn choose(degree: usize, q_bits: &[u32], p_bits: &[u32]) -> Result<(Vec<u64>, Vec<u64>)> {
    let mut pools: Vec<Near> = Vec::new();
    let mut taken: Vec<u64> = Vec::new();
    let mut next = |bits: u32, up: bool| {
        let at = pools.iter().position(|p| p.bits == bits).unwrap_or_else(|| {
            pools.push(Near::new(bits, degree));
            pools.len() - 1
        });
        let pool = &mut pools[at];
        // Neighbouring sizes may meet in the middle: what another size has taken is skipped.
        loop {
            let prime = if up { pool.up() } else { pool.down() };
            let log_order = degree.trailing_zeros() + 1;
            let prime = prime.ok_or(CkksError::TooFewPrimes { bits, log_order, found: pool.found })?;
            if !taken.contains(&prime) {
                taken.push(prime);
                return Ok(prime);
            }
        }
    };
    let special = p_bits.iter().map(|&b| next(b, false)).collect::<Result<Vec<u64>>>()?;
    let mut above = [false; MAX_BITS as usize + 1];
    let data = q_bits.iter().map(|&b| {
        let up = above[b as usize] && b < MAX_BITS;
        above[b as usize] = !above[b as usize];
        next(b, up)
    });
    Ok((data.collect::<Result<Vec<u64>>>()?, special))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_the_nearest_and_alternate() {
        let degree = 1 << 12;
        let (data, special) = choose(degree, &[50, 40, 40, 40, 40, 50], &[50, 40]).unwrap();
        // By walking from the centre, the slow way.
        let below =
            |bits: u32| (1u64 << (bits - 1)..1 << bits).rev().filter(|n| n % 8192 == 1).filter(|&n| is_prime(n));
        let above = |bits: u32| (1u64 << bits..3 << (bits - 1)).filter(|n| n % 8192 == 1).filter(|&n| is_prime(n));
        let down50: Vec<u64> = below(50).take(3).collect();
        let down40: Vec<u64> = below(40).take(3).collect();
        let up40: Vec<u64> = above(40).take(2).collect();
        assert_eq!(special, [down50[0], down40[0]]);
        assert_eq!(data, [down50[1], down40[1], up40[0], down40[2], up40[1], down50[2]]);
    }

    #[test]
    fn too_few_primes_are_an_error_with_the_numbers() {
        let e = choose(1 << 16, &[20; 9], &[21]).unwrap_err();
        assert!(matches!(e, CkksError::TooFewPrimes { bits: 20, log_order: 17, found } if found < 9), "{e}");
    }
}
