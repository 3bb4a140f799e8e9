//! The negacyclic number-theoretic transform: products in `Z_p[X] / (X^N + 1)`, `N` a power of two from 2 to
//! 65536.
//!
//! `forward` maps the coefficients `a_0 .. a_(N-1)` to the values `a(psi^(2 brv(i) + 1))`, `i = 0 .. N-1`,
//! with `psi` the primitive `2N`-th root of [`primitive_root`] and `brv` the reversal of `log2 N` bits
//! ([`Ntt::exponent`]); `inverse` undoes it, the factor `1/N` included. Inputs and outputs are reduced, in
//! place, in this order on every path.
//!
//! Cooley-Tukey forward and Gentleman-Sande backward with lazy reduction (Harvey, "Faster arithmetic for
//! number-theoretic transforms", 2014): `N/2 log2 N` butterflies of one product by a precomputed factor. No
//! branch and no address depends on the data. Not guaranteed: a result for inputs that are not reduced (the
//! memory accesses are the same, the values are not).
//!
//! # Which implementation
//! Our own. The alternative was the crate `tfhe-ntt` 0.7.1, which stays as a test oracle. Microseconds,
//! forward / inverse, on one core of a Xeon (family 6, model 207, AVX-512 IFMA) that was busy with other
//! work; the largest prime of 50 bits; buffers on a cache line; minimum of 1500 calls, all contestants in
//! turn (`cargo run --release -p fesc-ring --example ntt_speed`). Our inverse includes the factor `1/N`,
//! theirs leaves it to the caller:
//!
//! | N | avx512 | avx2 | portable | tfhe-ntt (IFMA) |
//! |---|---|---|---|---|
//! | 2048 | 2.58 / 2.63 | 7.2 / 6.2 | 20 / 15 | 2.92 / 2.77 |
//! | 4096 | 5.42 / 5.52 | 14.6 / 13.1 | 42 / 32 | 6.22 / 6.00 |
//! | 8192 | 11.1 / 11.3 | 29.7 / 26.0 | 91 / 67 | 12.9 / 12.4 |
//! | 32768 | 54 / 62 | 132 / 115 | 385 / 307 | 64 / 64 |
//! | 65536 | 114 / 132 | 289 / 256 | 855 / 684 | 141 / 142 |
//!
//! The gain comes from seven instructions per butterfly instead of nine and from three layers per pass; a
//! buffer off its cache line costs us 0 to 5 percent, and them 6 to 10. Multiply-accumulate is equal (1.5 for
//! `N = 4096`), but for `N = 32768`, where theirs is 12 to 17 percent faster. Primes from `2^50` on take the
//! portable path. Two faults of `tfhe-ntt` also speak for our own: wrong products for some primes between
//! `2^50.4` and `2^51`, and a wrong accumulating product for some full accumulators
//! (`pointwise_products_agree_at_the_edges` tests ours there).

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod pointwise;
mod portable;
mod roots;

use crate::cpu::{self, Path};
use crate::modulus::Modulus;
use crate::primes::{PrimeError, primitive_root};
use std::sync::OnceLock;

/// The SIMD kernels take primes below this; larger ones run on the portable path.
pub const SIMD_LIMIT: u64 = 1 << 50;

/// Largest degree.
pub const MAX_DEGREE: usize = 1 << 16;

/// A plan: one prime, one degree, and the twiddle tables, built once per path on first use. Immutable; share
/// it freely.
pub struct Ntt {
    modulus: Modulus,
    degree: usize,
    root: u64,
    root_inv: u64,
    scale: u64,
    /// The best path of the processor: the SIMD kernels run only at or below it.
    best: Path,
    portable: OnceLock<portable::Tables>,
    #[cfg(target_arch = "x86_64")]
    avx2: OnceLock<avx2::Tables>,
    #[cfg(target_arch = "x86_64")]
    avx512: OnceLock<avx512::Tables>,
}

impl Ntt {
    /// A plan for `Z_p[X] / (X^degree + 1)`; needs `p = 1 mod 2 degree` and a power of two from 2 to
    /// [`MAX_DEGREE`].
    pub fn new(modulus: Modulus, degree: usize) -> Result<Self, PrimeError> {
        if degree > MAX_DEGREE {
            return Err(PrimeError::Degree { degree });
        }
        Self::with_root(modulus, degree, primitive_root(modulus, degree)?)
    }

    /// [`Ntt::new`] with a given primitive `2 degree`-th root of unity: the transform of a subring takes a
    /// power of the root of the whole ring.
    pub fn with_root(modulus: Modulus, degree: usize, root: u64) -> Result<Self, PrimeError> {
        if degree < 2 || !degree.is_power_of_two() || degree > MAX_DEGREE {
            return Err(PrimeError::Degree { degree });
        }
        // A number whose power is -1 has exactly this order, because the degree is a power of two.
        if modulus.pow(modulus.reduce(root), degree as u64) != modulus.value() - 1 {
            return Err(PrimeError::NoRoot { modulus: modulus.value(), order: 2 * degree as u64 });
        }
        let root = modulus.reduce(root);
        let plan = Self {
            modulus,
            degree,
            root,
            root_inv: modulus.inv(root)?,
            scale: modulus.inv(degree as u64)?,
            best: Path::available().last().unwrap_or(Path::Portable),
            portable: OnceLock::new(),
            #[cfg(target_arch = "x86_64")]
            avx2: OnceLock::new(),
            #[cfg(target_arch = "x86_64")]
            avx512: OnceLock::new(),
        };
        plan.prepare(cpu::path());
        Ok(plan)
    }

    /// The prime.
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// The degree `N`.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// The primitive `2N`-th root of unity `psi`.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// Slot `i` of a transform is the polynomial's value at `psi^exponent(i)`, where
    /// `exponent(i) = 2 brv(i) + 1`.
    pub fn exponent(&self, i: usize) -> usize {
        let unused = usize::BITS - self.degree.trailing_zeros();
        2 * (i.reverse_bits() >> unused) + 1
    }

    /// Builds the tables of the kernel that `path` would use, so that the first transform is not the slow
    /// one.
    pub fn prepare(&self, path: Path) {
        match self.kernel(path) {
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => {
                self.avx512_tables();
            }
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => {
                self.avx2_tables();
            }
            _ => {
                self.portable_tables();
            }
        }
    }

    /// The kernel that runs when `path` is asked for: never above the processor, the prime or the degree.
    fn kernel(&self, path: Path) -> Path {
        #[cfg(target_arch = "x86_64")]
        if self.modulus.value() < SIMD_LIMIT {
            return match path.min(self.best) {
                Path::Avx512 if self.degree >= avx512::MIN_DEGREE => Path::Avx512,
                Path::Avx512 | Path::Avx2 if self.degree >= avx2::MIN_DEGREE => Path::Avx2,
                _ => Path::Portable,
            };
        }
        let _ = path;
        Path::Portable
    }

    fn portable_tables(&self) -> &portable::Tables {
        let build = || portable::Tables::new(self.modulus, self.root, self.root_inv, self.scale, self.degree);
        self.portable.get_or_init(build)
    }

    #[cfg(target_arch = "x86_64")]
    fn avx2_tables(&self) -> &avx2::Tables {
        let build = || avx2::Tables::new(self.modulus, self.root, self.root_inv, self.scale, self.degree);
        self.avx2.get_or_init(build)
    }

    #[cfg(target_arch = "x86_64")]
    fn avx512_tables(&self) -> &avx512::Tables {
        let build = || avx512::Tables::new(self.modulus, self.root, self.root_inv, self.scale, self.degree);
        self.avx512.get_or_init(build)
    }

    fn check(&self, a: &[u64]) {
        assert_eq!(a.len(), self.degree, "a polynomial must have as many coefficients as the degree of its ring");
        debug_assert!(a.iter().all(|&x| x < self.modulus.value()), "coefficients must be reduced");
    }

    /// Coefficients to values, in place, on the best path.
    ///
    /// # Panics
    /// If `a` does not have `degree` elements.
    pub fn forward(&self, a: &mut [u64]) {
        self.forward_with(cpu::path(), a);
    }

    /// [`Ntt::forward`] on a given path (or the best one below it that takes this prime and degree).
    ///
    /// # Panics
    /// If `a` does not have `degree` elements.
    pub fn forward_with(&self, path: Path, a: &mut [u64]) {
        self.check(a);
        match self.kernel(path) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `kernel` checked processor, prime and degree; the tables are of this degree, and so is
            // `a`.
            Path::Avx512 => unsafe { avx512::forward(self.modulus, self.avx512_tables(), a) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Path::Avx2 => unsafe { avx2::forward(self.modulus, self.avx2_tables(), a) },
            _ => portable::forward(self.modulus, self.portable_tables(), a),
        }
    }

    /// Values to coefficients, in place, on the best path.
    ///
    /// # Panics
    /// If `a` does not have `degree` elements.
    pub fn inverse(&self, a: &mut [u64]) {
        self.inverse_with(cpu::path(), a);
    }

    /// [`Ntt::inverse`] on a given path.
    ///
    /// # Panics
    /// If `a` does not have `degree` elements.
    pub fn inverse_with(&self, path: Path, a: &mut [u64]) {
        self.check(a);
        match self.kernel(path) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `kernel` checked processor, prime and degree; the tables are of this degree, and so is
            // `a`.
            Path::Avx512 => unsafe { avx512::inverse(self.modulus, self.avx512_tables(), a) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Path::Avx2 => unsafe { avx2::inverse(self.modulus, self.avx2_tables(), a) },
            _ => portable::inverse(self.modulus, self.portable_tables(), a),
        }
    }

    /// `a *= b`, slot by slot.
    ///
    /// # Panics
    /// If an operand does not have `degree` elements.
    pub fn mul_assign(&self, a: &mut [u64], b: &[u64]) {
        self.mul_assign_with(cpu::path(), a, b);
    }

    /// [`Ntt::mul_assign`] on a given path.
    ///
    /// # Panics
    /// If an operand does not have `degree` elements.
    pub fn mul_assign_with(&self, path: Path, a: &mut [u64], b: &[u64]) {
        self.check(a);
        self.check(b);
        self.pointwise(path, a, None, b);
    }

    /// `acc += a * b`, slot by slot.
    ///
    /// # Panics
    /// If an operand does not have `degree` elements.
    pub fn mul_acc(&self, acc: &mut [u64], a: &[u64], b: &[u64]) {
        self.mul_acc_with(cpu::path(), acc, a, b);
    }

    /// [`Ntt::mul_acc`] on a given path.
    ///
    /// # Panics
    /// If an operand does not have `degree` elements.
    pub fn mul_acc_with(&self, path: Path, acc: &mut [u64], a: &[u64], b: &[u64]) {
        self.check(acc);
        self.check(a);
        self.check(b);
        self.pointwise(path, acc, Some(a), b);
    }

    fn pointwise(&self, path: Path, acc: &mut [u64], a: Option<&[u64]>, b: &[u64]) {
        match self.kernel(path) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `kernel` checked processor and prime, the callers the lengths; the degree is 64 or
            // more.
            Path::Avx512 => unsafe { pointwise::avx512(self.modulus, acc, a, b) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above; the degree is at least 8.
            Path::Avx2 => unsafe { pointwise::avx2(self.modulus, acc, a, b) },
            _ => pointwise::portable(self.modulus, acc, a, b),
        }
    }
}
