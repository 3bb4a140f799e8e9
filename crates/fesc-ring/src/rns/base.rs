//! Conversion of residues from several primes to another prime, exact and centred (Halevi, Polyakov, Shoup,
//! "An improved RNS variant of the BFV homomorphic encryption scheme", section 2.2).
//!
//! With `Q = q_0 ... q_(k-1)`, residues `x_i` of an integer and `x'_i = x_i (Q / q_i)^-1 mod q_i`:
//!
//! ```text
//! v = floor(1/2 + sum_i x'_i / q_i),    y = sum_i x'_i (Q / q_i) - v Q,    y = x mod Q,   |y| <= Q / 2
//! ```
//!
//! and modulo a target prime `p` all of it is a sum of `k + 1` products of words. `v` is computed in double
//! precision, terms in the order of the primes and products rounded before they are added, so that every path
//! gets the same `v`. Its error is below `k^2 2^-52`: closer than that to `Q / 2` the result may be `y - Q`
//! or `y + Q` instead, on every path alike.
//!
//! Three passes, so that they fit a key switch: [`Base::scale`] per source prime, [`Base::overflow`] once,
//! [`Target::apply`] per target prime. Cost of the last for eight elements: `k + 1` loads, one store,
//! `2 (k + 1) + 2` multiply-adds and 8 other operations at two per cycle: 9 cycles at `k = 3`, measured 10.5,
//! that is 0.27 of a transform at `N = 32768`. The inputs stay in the second-level cache when the loop over
//! target primes is outside.

#[cfg(target_arch = "x86_64")]
use super::avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::{Consts, Sum, load, store};
use super::{Prime, RnsError};
use crate::cpu::{self, Path};
use crate::modulus::Shoup;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Most source primes of a conversion.
pub const MAX_SOURCES: usize = 56;
/// Source primes up to which a sum is below `4p` after Montgomery's step: each adds `p / 4`, the step itself
/// `p`.
#[cfg(target_arch = "x86_64")]
const FEW: usize = 11;

/// Source primes up to which the AVX2 kernel takes a sum: each adds less than `2^100` of `2^103`, and the
/// overflow next to nothing.
#[cfg(target_arch = "x86_64")]
const FEW_AVX2: usize = 7;

/// The primes that a conversion starts from.
#[derive(Debug, Clone, PartialEq)]
pub struct Base {
    primes: Vec<Prime>,
    /// `(Q / q_i)^-1 mod q_i`.
    scales: Vec<Shoup>,
    /// `1 / q_i`.
    inverses: Vec<f64>,
    best: Path,
}

/// The constants of one target prime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    prime: Prime,
    /// `Q / q_i mod p`, and last `-Q mod p`.
    factors: Vec<u64>,
    /// The same times `2^52`.
    factors52: Vec<u64>,
}

impl Base {
    /// A base of distinct primes.
    pub fn new(primes: &[Prime]) -> Result<Self, RnsError> {
        if primes.is_empty() || primes.len() > MAX_SOURCES {
            return Err(RnsError::Count { count: primes.len() });
        }
        let mut scales = Vec::with_capacity(primes.len());
        for (i, q) in primes.iter().enumerate() {
            let m = q.modulus;
            let mut product = 1;
            for other in primes.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, o)| o.modulus.value()) {
                if other == m.value() {
                    return Err(RnsError::Twice { value: other });
                }
                product = m.mul(product, m.reduce(other));
            }
            scales.push(m.shoup(m.inv(product)?));
        }
        let inverses = primes.iter().map(|q| 1.0 / q.modulus.value() as f64).collect();
        let best = Path::available().last().unwrap_or(Path::Portable);
        Ok(Self { primes: primes.to_vec(), scales, inverses, best })
    }

    /// The primes, in order.
    pub fn primes(&self) -> &[Prime] {
        &self.primes
    }

    /// The factor `(Q / q_i)^-1 mod q_i` of [`Base::scale`], for callers that merge it with one of their own.
    ///
    /// # Panics
    /// If there is no such prime.
    pub fn factor(&self, i: usize) -> Shoup {
        self.scales[i]
    }

    /// `x_i` to `x'_i` in place, on the best path.
    ///
    /// # Panics
    /// If there is no prime `i`.
    pub fn scale(&self, i: usize, x: &mut [u64]) {
        self.scale_with(cpu::path(), i, x);
    }

    /// [`Base::scale`] on a given path.
    ///
    /// # Panics
    /// If there is no prime `i`.
    pub fn scale_with(&self, path: Path, i: usize, x: &mut [u64]) {
        self.primes[i].scale_assign_with(path, self.scales[i], x);
    }

    /// `v` of the scaled residues, on the best path; at most the number of primes.
    ///
    /// # Panics
    /// If there are not as many vectors as primes, or lengths differ.
    pub fn overflow(&self, xs: &[&[u64]], v: &mut [u64]) {
        self.overflow_with(cpu::path(), xs, v);
    }

    /// [`Base::overflow`] on a given path.
    ///
    /// # Panics
    /// If there are not as many vectors as primes, or lengths differ.
    pub fn overflow_with(&self, path: Path, xs: &[&[u64]], v: &mut [u64]) {
        assert_eq!(xs.len(), self.primes.len(), "a conversion needs one vector per prime of its base");
        assert!(xs.iter().all(|x| x.len() == v.len()), "a conversion needs equal lengths");
        let mut from = 0;
        #[cfg(target_arch = "x86_64")]
        if path.min(self.best) == Path::Avx512 {
            from = v.len() / 8 * 8;
            // SAFETY: the processor has the path; all lengths are equal, `from` is a multiple of 8 within
            // them.
            unsafe { self.overflow_avx512(xs, v, from) };
        }
        let _ = path;
        for (i, v) in v.iter_mut().enumerate().skip(from) {
            let mut sum = 0.5;
            for (x, inverse) in xs.iter().zip(&self.inverses) {
                sum += x[i] as f64 * inverse;
            }
            *v = sum as u64;
        }
    }

    /// # Safety
    /// The processor must have AVX-512 F and DQ; `len` must be a multiple of 8 within all slices.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn overflow_avx512(&self, xs: &[&[u64]], v: &mut [u64], len: usize) {
        for i in (0..len).step_by(8) {
            let mut sum = _mm512_set1_pd(0.5);
            for (x, &inverse) in xs.iter().zip(&self.inverses) {
                // SAFETY: `i + 8` is at most `len`.
                let x = _mm512_cvtepu64_pd(unsafe { load(x, i) });
                sum = _mm512_add_pd(sum, _mm512_mul_pd(x, _mm512_set1_pd(inverse)));
            }
            // SAFETY: as above.
            unsafe { store(v, i, _mm512_cvttpd_epu64(sum)) };
        }
    }

    /// The constants for a target prime, which may be one of the base.
    pub fn target(&self, prime: &Prime) -> Target {
        let m = prime.modulus;
        let product = |skip: usize| {
            let others = self.primes.iter().enumerate().filter(|&(j, _)| j != skip);
            others.fold(1, |product, (_, q)| m.mul(product, m.reduce(q.modulus.value())))
        };
        let mut factors: Vec<u64> = (0..self.primes.len()).map(product).collect();
        factors.push(m.neg(product(usize::MAX)));
        let factors52 = factors.iter().map(|&f| m.mul_shoup(f, prime.middle)).collect();
        Target { prime: *prime, factors, factors52 }
    }
}

impl Target {
    /// The target prime.
    pub fn prime(&self) -> &Prime {
        &self.prime
    }

    /// `out = y mod p` from scaled residues and their overflow, on the best path.
    ///
    /// # Panics
    /// If there are not as many vectors as primes of the base, or lengths differ.
    pub fn apply(&self, xs: &[&[u64]], v: &[u64], out: &mut [u64]) {
        self.apply_with(cpu::path(), xs, v, out);
    }

    /// [`Target::apply`] on a given path.
    ///
    /// # Panics
    /// If there are not as many vectors as primes of the base, or lengths differ.
    pub fn apply_with(&self, path: Path, xs: &[&[u64]], v: &[u64], out: &mut [u64]) {
        assert_eq!(xs.len() + 1, self.factors.len(), "a conversion needs one vector per prime of its base");
        assert!(xs.iter().all(|x| x.len() == out.len()) && v.len() == out.len(), "a conversion needs equal lengths");
        #[cfg(target_arch = "x86_64")]
        let on_avx2 = path.min(self.prime.best) == Path::Avx2 && xs.len() <= FEW_AVX2;
        #[cfg(not(target_arch = "x86_64"))]
        let on_avx2 = false;
        let vectors =
            if on_avx2 { self.prime.any_vector_part(path, out.len()) } else { self.prime.vector_part(path, out.len()) };
        #[cfg(target_arch = "x86_64")]
        if vectors > 0 {
            // SAFETY: the processor has the path; all lengths are equal, `vectors` is a multiple of 8 within
            // them; one factor per vector; few sources.
            unsafe {
                if on_avx2 {
                    self.apply_avx2(xs, v, out, vectors);
                } else if xs.len() <= FEW {
                    self.apply_avx512::<true>(xs, v, out, vectors);
                } else {
                    self.apply_avx512::<false>(xs, v, out, vectors);
                }
            }
        }
        for i in vectors..out.len() {
            // Below 57 2^100.
            let mut sum = u128::from(v[i]) * u128::from(self.factors[xs.len()]);
            for (x, &f) in xs.iter().zip(&self.factors) {
                sum += u128::from(x[i]) * u128::from(f);
            }
            out[i] = self.prime.reduce_wide(sum);
        }
    }

    /// # Safety
    /// The processor must have AVX2 and FMA; `len` must be a multiple of 8 within all slices; at most
    /// [`FEW_AVX2`] sources.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn apply_avx2(&self, xs: &[&[u64]], v: &[u64], out: &mut [u64], len: usize) {
        let c = avx2::Consts::new(&self.prime);
        for i in (0..len).step_by(2 * avx2::QUAD) {
            let mut sums = [avx2::Sum::of(self.factors.len()); 2];
            for (&x, &f) in xs.iter().chain([&v]).zip(&self.factors) {
                let f = _mm256_set1_pd(f as f64);
                for (w, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: `i + 8` is at most `len`.
                    *sum = c.add_product(*sum, c.factor(unsafe { avx2::load(x, i + avx2::QUAD * w) }), f);
                }
            }
            for (w, sum) in sums.into_iter().enumerate() {
                let r = c.reduce(sum, _mm256_setzero_si256());
                // SAFETY: as above.
                unsafe { avx2::store(out, i + avx2::QUAD * w, r) };
            }
        }
    }

    /// # Safety
    /// The processor must have AVX-512 F and IFMA; `len` must be a multiple of 8 within all slices;
    /// `FEW_SOURCES` says at most [`FEW`].
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512ifma")]
    unsafe fn apply_avx512<const FEW_SOURCES: bool>(&self, xs: &[&[u64]], v: &[u64], out: &mut [u64], len: usize) {
        let c = Consts::new(&self.prime);
        let wide = len / 32 * 32;
        // SAFETY: all reads and writes are below `len`.
        unsafe {
            for i in (0..wide).step_by(32) {
                self.step::<FEW_SOURCES, 4>(&c, xs, v, out, i);
            }
            for i in (wide..len).step_by(8) {
                self.step::<FEW_SOURCES, 1>(&c, xs, v, out, i);
            }
        }
    }

    /// `W` registers of results from element `i` on.
    ///
    /// # Safety
    /// As for [`Target::apply_avx512`]; `8 W` elements from `i` on must exist.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    unsafe fn step<const FEW_SOURCES: bool, const W: usize>(
        &self,
        c: &Consts,
        xs: &[&[u64]],
        v: &[u64],
        out: &mut [u64],
        i: usize,
    ) {
        let mut sums = [Sum::zero(); W];
        for (&x, &f) in xs.iter().chain([&v]).zip(&self.factors52) {
            let f = _mm512_set1_epi64(f as i64);
            for (w, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *sum = sum.add_product(unsafe { load(x, i + 8 * w) }, f);
            }
        }
        for (w, sum) in sums.into_iter().enumerate() {
            // At most (k / 4 + 1) p and a little: the overflow is below 2^6, its product below 2^-46 p after
            // the step.
            let mut r = c.montgomery(sum);
            if !FEW_SOURCES {
                let four_p = _mm512_slli_epi64::<2>(c.p);
                r = Consts::fold(r, _mm512_slli_epi64::<1>(four_p));
                r = Consts::fold(r, four_p);
            }
            // SAFETY: the caller's promise.
            unsafe { store(out, i + 8 * w, c.fold_four(r)) };
        }
    }
}
