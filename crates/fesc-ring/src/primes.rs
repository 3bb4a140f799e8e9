//! Primality, and primes that have the roots of unity an NTT needs.
//!
//! `is_prime` is Miller-Rabin with the first twelve primes as bases, which is exact for every 64-bit number
//! (Sorenson and Webster, "Strong pseudoprimes to twelve prime bases": the first counterexample exceeds
//! `3.18 * 10^23`).

use crate::modulus::{MAX_BITS, Modulus, ModulusError};

/// Why a list of primes or a root of unity cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrimeError {
    /// The bit length is outside the supported range.
    #[error("primes of {bits} bits asked for: the length must be between 2 and 62")]
    Bits {
        /// Bit length asked for.
        bits: u32,
    },
    /// The degree is not a power of two.
    #[error("degree {degree} is not a power of two of at least 2")]
    Degree {
        /// Degree asked for.
        degree: usize,
    },
    /// There are not enough primes of this size.
    #[error(
        "only {found} of {count} primes = 1 mod {step} exist with exactly {bits} bits; ask for more bits or fewer primes"
    )]
    TooFew {
        /// Primes found.
        found: usize,
        /// Primes asked for.
        count: usize,
        /// Twice the degree.
        step: u64,
        /// Bit length asked for.
        bits: u32,
    },
    /// The prime has no primitive root of unity of this order.
    #[error("prime {modulus} has no primitive root of unity of order {order}: it must be 1 mod {order}")]
    NoRoot {
        /// The prime.
        modulus: u64,
        /// The order asked for.
        order: u64,
    },
    /// The modulus itself is refused.
    #[error(transparent)]
    Modulus(#[from] ModulusError),
}

const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];

fn mul_mod(a: u64, b: u64, n: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(n)) as u64
}

fn pow_mod(mut base: u64, mut exponent: u64, n: u64) -> u64 {
    let mut acc = 1;
    while exponent != 0 {
        if exponent & 1 == 1 {
            acc = mul_mod(acc, base, n);
        }
        base = mul_mod(base, base, n);
        exponent >>= 1;
    }
    acc
}

/// Whether a 64-bit number is prime. Exact, variable time.
pub fn is_prime(n: u64) -> bool {
    if n < 2 {
        return false;
    }
    for b in BASES {
        if n.is_multiple_of(b) {
            return n == b;
        }
    }
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    BASES.iter().all(|&b| {
        let mut x = pow_mod(b, odd, n);
        if x == 1 || x == n - 1 {
            return true;
        }
        for _ in 1..twos {
            x = mul_mod(x, x, n);
            if x == n - 1 {
                return true;
            }
        }
        false
    })
}

/// The `count` largest primes of exactly `bits` bits that are 1 mod `2 * degree`, in descending order.
pub fn ntt_primes(bits: u32, degree: usize, count: usize) -> Result<Vec<u64>, PrimeError> {
    if !(2..=MAX_BITS).contains(&bits) {
        return Err(PrimeError::Bits { bits });
    }
    if degree < 2 || !degree.is_power_of_two() || degree.trailing_zeros() > 61 {
        return Err(PrimeError::Degree { degree });
    }
    let step = 2 * degree as u64;
    let low = 1u64 << (bits - 1);
    let mut found = Vec::new();
    // The largest candidate below 2^bits; none when the step itself is wider than the primes asked for.
    let mut candidate = ((1u64 << bits) - 1) / step * step + 1;
    while found.len() < count && candidate > low && candidate > step {
        if candidate >> bits == 0 && is_prime(candidate) {
            found.push(candidate);
        }
        candidate -= step;
    }
    if found.len() < count {
        return Err(PrimeError::TooFew { found: found.len(), count, step, bits });
    }
    Ok(found)
}

/// A primitive root of unity of order `2 * degree`: `g^((p - 1) / (2 degree))` for the smallest `g >= 2` that
/// gives one.
pub fn primitive_root(modulus: Modulus, degree: usize) -> Result<u64, PrimeError> {
    if degree < 2 || !degree.is_power_of_two() || degree.trailing_zeros() > 61 {
        return Err(PrimeError::Degree { degree });
    }
    let (p, order) = (modulus.value(), 2 * degree as u64);
    if p % order != 1 {
        return Err(PrimeError::NoRoot { modulus: p, order });
    }
    // Half of all g are non-residues, and exactly those give psi^degree = -1.
    (2..p)
        .map(|g| modulus.pow(g, (p - 1) / order))
        .find(|&psi| modulus.pow(psi, degree as u64) == p - 1)
        .ok_or(PrimeError::NoRoot { modulus: p, order })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_trial_division() {
        for n in 0..20_000u64 {
            let trial = n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| n % d != 0);
            assert_eq!(is_prime(n), trial, "{n}");
        }
    }

    #[test]
    fn strong_pseudoprimes_and_large_primes() {
        // Strong pseudoprimes to the first 4, 8 and 9 prime bases (OEIS A014233), and Carmichael numbers.
        for n in [3_215_031_751, 341_550_071_728_321, 3_825_123_056_546_413_051, 561, 41_041, 825_265, u64::MAX] {
            assert!(!is_prime(n), "{n}");
        }
        for n in [4_611_686_018_427_387_847, 2_305_843_009_213_693_951, 18_446_744_073_709_551_557] {
            assert!(is_prime(n), "{n}");
        }
    }

    #[test]
    fn ntt_primes_are_the_largest_in_order() {
        // python3 -c "from sympy import isprime; print([p for p in range((1<<50)//4096*4096+1, 1<<49, -4096)
        // if p < 1<<50 and isprime(p)][:3])"
        let got = ntt_primes(50, 2048, 3).unwrap();
        assert!(got.is_sorted_by(|a, b| a > b));
        for &p in &got {
            assert!(p % 4096 == 1 && is_prime(p) && p >> 49 == 1);
        }
        let by_hand: Vec<u64> =
            ((1u64 << 49)..1 << 50).rev().filter(|n| n % 4096 == 1).filter(|&n| is_prime(n)).take(3).collect();
        assert_eq!(got, by_hand);
        assert_eq!(ntt_primes(5, 8, 1).unwrap(), [17]);
    }

    #[test]
    fn refusals_carry_the_numbers() {
        assert_eq!(ntt_primes(63, 8, 1), Err(PrimeError::Bits { bits: 63 }));
        assert_eq!(ntt_primes(1, 8, 1), Err(PrimeError::Bits { bits: 1 }));
        assert_eq!(ntt_primes(50, 12, 1), Err(PrimeError::Degree { degree: 12 }));
        assert_eq!(ntt_primes(5, 8, 2), Err(PrimeError::TooFew { found: 1, count: 2, step: 16, bits: 5 }));
        assert_eq!(ntt_primes(8, 65_536, 1), Err(PrimeError::TooFew { found: 0, count: 1, step: 131_072, bits: 8 }));
        let m = Modulus::new(17).unwrap();
        assert_eq!(primitive_root(m, 16), Err(PrimeError::NoRoot { modulus: 17, order: 32 }));
    }

    #[test]
    fn roots_have_exactly_the_order() {
        for degree in [2, 8, 1024, 65_536] {
            for p in ntt_primes(50, degree, 2).unwrap() {
                let m = Modulus::new(p).unwrap();
                let psi = primitive_root(m, degree).unwrap();
                assert_eq!(m.pow(psi, degree as u64), p - 1);
                assert_eq!(m.pow(psi, 2 * degree as u64), 1);
            }
        }
    }
}
