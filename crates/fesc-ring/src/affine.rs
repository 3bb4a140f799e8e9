//! Maps `x -> a x + b y + c` of residue vectors with fixed `a, b, c`: what conversions between bases of
//! primes consist of.
//!
//! Rescaling by a prime, rounding down by a prime, mixed radix digits and fast base conversion are all this
//! map. `y` (and `x`) may be residues of *another* prime: any number below `2^52` is taken, and the result is
//! reduced.
//!
//! The AVX-512 path takes primes below `2^50`: with `w' = floor(w 2^52 / p)` and `q = hi(y w')`, `y w - q p`
//! is in `[0, 2p)` (Harvey), two of them are below `4p <= 2^52`. With AVX2 and FMA
//! the products are those of the transform (`ntt/avx2.rs`), exact in floating point: for `y < 2^52` and a
//! centred factor the quotient is off by at most `1/2 + 1/8`. Other primes and processors run plain Rust.
//! No branch and no address depends on the data.

use crate::cpu::{self, Path};
use crate::modulus::{Modulus, Shoup};
use crate::ntt::SIMD_LIMIT;
#[cfg(target_arch = "x86_64")]
use crate::ntt::avx2::{Consts as Doubles, Twiddle, pair};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// The map for one prime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affine {
    modulus: Modulus,
    a: Shoup,
    b: Shoup,
    c: u64,
    /// The best path that this processor has and that takes the prime.
    best: Path,
}

/// Inputs must be below this.
pub const INPUT_LIMIT: u64 = 1 << 52;

fn best(modulus: Modulus) -> Path {
    let have = Path::available().last().unwrap_or(Path::Portable);
    if modulus.value() < SIMD_LIMIT { have } else { Path::Portable }
}

/// `out = values mod p` for values of magnitude below `2p`, on the best path.
///
/// # Panics
/// If the lengths differ.
pub fn reduce_signed(modulus: Modulus, values: &[i64], out: &mut [u64]) {
    reduce_signed_with(cpu::path(), modulus, values, out);
}

/// [`reduce_signed`] on a given path.
///
/// # Panics
/// If the lengths differ.
pub fn reduce_signed_with(path: Path, modulus: Modulus, values: &[i64], out: &mut [u64]) {
    assert_eq!(values.len(), out.len(), "a reduction needs equal lengths");
    debug_assert!(values.iter().all(|v| v.unsigned_abs() < 2 * modulus.value()), "values must be below 2p");
    let one = |v: i64| {
        let p = modulus.value();
        let x = (v as u64).wrapping_add(2 * p);
        // Wrapping below zero makes the difference large: the smaller one is the reduced one.
        let x = x.min(x.wrapping_sub(2 * p));
        x.min(x.wrapping_sub(p))
    };
    #[cfg(target_arch = "x86_64")]
    if path.min(best(modulus)) == Path::Avx512 {
        let whole = out.len() / 8 * 8;
        // SAFETY: the processor has the path, both lengths are `whole`.
        unsafe { reduce_signed_avx512(modulus.value(), &values[..whole], &mut out[..whole]) };
        return out[whole..].iter_mut().zip(&values[whole..]).for_each(|(o, &v)| *o = one(v));
    }
    #[cfg(target_arch = "x86_64")]
    if path.min(best(modulus)) == Path::Avx2 {
        let whole = out.len() / 4 * 4;
        // SAFETY: the processor has the path, both lengths are `whole`.
        unsafe { reduce_signed_avx2(modulus.value(), &values[..whole], &mut out[..whole]) };
        return out[whole..].iter_mut().zip(&values[whole..]).for_each(|(o, &v)| *o = one(v));
    }
    let _ = path;
    out.iter_mut().zip(values).for_each(|(o, &v)| *o = one(v));
}

/// # Safety
/// The processor must have AVX-512 F; lengths equal and a multiple of 8.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn reduce_signed_avx512(p: u64, values: &[i64], out: &mut [u64]) {
    let (vp, two_p) = (_mm512_set1_epi64(p as i64), _mm512_set1_epi64(2 * p as i64));
    for i in (0..out.len()).step_by(8) {
        // SAFETY: `i + 8` is at most the common length.
        unsafe {
            let x = _mm512_add_epi64(_mm512_loadu_si512(values.as_ptr().add(i).cast()), two_p);
            let x = _mm512_min_epu64(x, _mm512_sub_epi64(x, two_p));
            let x = _mm512_min_epu64(x, _mm512_sub_epi64(x, vp));
            _mm512_storeu_si512(out.as_mut_ptr().add(i).cast(), x);
        }
    }
}

/// # Safety
/// The processor must have AVX2; lengths equal and a multiple of 4.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn reduce_signed_avx2(p: u64, values: &[i64], out: &mut [u64]) {
    let (vp, two_p) = (_mm256_set1_epi64x(p as i64), _mm256_set1_epi64x(2 * p as i64));
    // `x` if it is below `y`, else `x - y`: the sign of the difference selects.
    let cut = |x: __m256i, y: __m256i| {
        let less = _mm256_castsi256_pd(_mm256_sub_epi64(x, y));
        _mm256_castpd_si256(_mm256_blendv_pd(less, _mm256_castsi256_pd(x), less))
    };
    for i in (0..out.len()).step_by(4) {
        // SAFETY: `i + 4` is at most the common length.
        unsafe {
            let x = _mm256_add_epi64(_mm256_loadu_si256(values.as_ptr().add(i).cast()), two_p);
            _mm256_storeu_si256(out.as_mut_ptr().add(i).cast(), cut(cut(x, two_p), vp));
        }
    }
}

impl Affine {
    /// The map with these factors; they are reduced.
    pub fn new(modulus: Modulus, a: u64, b: u64, c: u64) -> Self {
        let shoup = |x| modulus.shoup(modulus.reduce(x));
        Self { modulus, a: shoup(a), b: shoup(b), c: modulus.reduce(c), best: best(modulus) }
    }

    /// `x = a x + b y + c` on the best path. Elements must be below [`INPUT_LIMIT`].
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn apply(&self, x: &mut [u64], y: &[u64]) {
        self.apply_with(cpu::path(), x, y);
    }

    /// [`Affine::apply`] on a given path (or the best one below it that takes this prime).
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn apply_with(&self, path: Path, x: &mut [u64], y: &[u64]) {
        assert_eq!(x.len(), y.len(), "an affine map of two vectors needs equal lengths");
        debug_assert!(x.iter().chain(y).all(|&v| v < INPUT_LIMIT), "inputs must be below 2^52");
        self.run(path, x, Some(y));
    }

    /// `x = a x + c`. Elements must be below [`INPUT_LIMIT`].
    pub fn apply_one(&self, x: &mut [u64]) {
        self.apply_one_with(cpu::path(), x);
    }

    /// [`Affine::apply_one`] on a given path.
    pub fn apply_one_with(&self, path: Path, x: &mut [u64]) {
        debug_assert!(x.iter().all(|&v| v < INPUT_LIMIT), "inputs must be below 2^52");
        self.run(path, x, None);
    }

    fn run(&self, path: Path, x: &mut [u64], y: Option<&[u64]>) {
        #[cfg(target_arch = "x86_64")]
        if path.min(self.best) == Path::Avx512 {
            let whole = x.len() / 8 * 8;
            let (body, tail) = x.split_at_mut(whole);
            // SAFETY: the processor has the path, the prime is below 2^50, both lengths are `whole`.
            unsafe {
                match y {
                    Some(y) => self.avx512::<true>(body, &y[..whole]),
                    None => self.avx512::<false>(body, &[]),
                }
            };
            return self.portable(tail, y.map(|y| &y[whole..]));
        }
        #[cfg(target_arch = "x86_64")]
        if path.min(self.best) == Path::Avx2 {
            let whole = x.len() / 4 * 4;
            let (body, tail) = x.split_at_mut(whole);
            // SAFETY: the processor has the path, the prime is below 2^50, both lengths are `whole`.
            unsafe {
                match y {
                    Some(y) => self.avx2::<true>(body, &y[..whole]),
                    None => self.avx2::<false>(body, &[]),
                }
            };
            return self.portable(tail, y.map(|y| &y[whole..]));
        }
        let _ = path;
        self.portable(x, y);
    }

    fn portable(&self, x: &mut [u64], y: Option<&[u64]>) {
        let m = self.modulus;
        match y {
            None => x.iter_mut().for_each(|x| *x = m.add(m.mul_shoup(*x, self.a), self.c)),
            Some(y) => x.iter_mut().zip(y).for_each(|(x, &y)| {
                *x = m.add(m.add(m.mul_shoup(*x, self.a), m.mul_shoup(y, self.b)), self.c);
            }),
        }
    }

    /// # Safety
    /// The processor must have AVX2 and FMA; the prime must be below `2^50`; the length of `x` a multiple of
    /// 4, and that of `y` the same if `TWO`. Else `y` is not read.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2<const TWO: bool>(&self, x: &mut [u64], y: &[u64]) {
        let d = Doubles::new(self.modulus.value());
        let twiddle = |w: Shoup| pair(self.modulus, w.value).map(|x| _mm256_set1_pd(x)).into();
        let (a, b): (Twiddle, Twiddle) = (twiddle(self.a), twiddle(self.b));
        let c = _mm256_set1_pd(self.c as f64);
        for i in (0..x.len()).step_by(4) {
            // SAFETY: `i + 4` is at most the common length.
            unsafe {
                let at = x.as_mut_ptr().add(i).cast();
                let mut s = _mm256_add_pd(d.mul(d.double(_mm256_loadu_si256(at)), a), c);
                if TWO {
                    let v = d.double(_mm256_loadu_si256(y.as_ptr().add(i).cast()));
                    // From -5/4 p to 9/4 p; one product less needs no reduction.
                    s = d.reduce(_mm256_add_pd(s, d.mul(v, b)));
                }
                _mm256_storeu_si256(at, d.word(s));
            }
        }
    }

    /// # Safety
    /// The processor must have AVX-512 F and IFMA; the prime must be below `2^50`; the length of `x` a
    /// multiple of 8, and that of `y` the same if `TWO`. Else `y` is not read.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512ifma")]
    unsafe fn avx512<const TWO: bool>(&self, x: &mut [u64], y: &[u64]) {
        let p = self.modulus.value();
        let set = |x: u64| _mm512_set1_epi64(x as i64);
        // floor(w 2^64 / p) >> 12 is floor(w 2^52 / p).
        let (a, a_quotient) = (set(self.a.value), set(self.a.quotient >> 12));
        let (b, b_quotient) = (set(self.b.value), set(self.b.quotient >> 12));
        let (zero, vp, two_p, neg_p) = (set(0), set(p), set(2 * p), set((1 << 52) - p));
        let (low52, c) = (set((1 << 52) - 1), set(self.c));
        for i in (0..x.len()).step_by(8) {
            // SAFETY: `i + 8` is at most the common length.
            unsafe {
                let at = x.as_mut_ptr().add(i);
                let u = _mm512_loadu_si512(at.cast());
                let mut s = _mm512_madd52lo_epu64(zero, u, a);
                s = _mm512_madd52lo_epu64(s, _mm512_madd52hi_epu64(zero, u, a_quotient), neg_p);
                if TWO {
                    let v = _mm512_loadu_si512(y.as_ptr().add(i).cast());
                    s = _mm512_madd52lo_epu64(s, v, b);
                    s = _mm512_madd52lo_epu64(s, _mm512_madd52hi_epu64(zero, v, b_quotient), neg_p);
                }
                // Modulo 2^52 the sum of two values in [0, 2p).
                let s = _mm512_and_si512(s, low52);
                let s = _mm512_min_epu64(s, _mm512_sub_epi64(s, two_p));
                let s = _mm512_add_epi64(_mm512_min_epu64(s, _mm512_sub_epi64(s, vp)), c);
                let s = _mm512_min_epu64(s, _mm512_sub_epi64(s, vp));
                _mm512_storeu_si512(at.cast(), s);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Prg;
    use crate::primes::ntt_primes;

    #[test]
    fn signed_values_are_reduced_on_every_path() {
        let mut prg = Prg::from_seed([4; 16]);
        for bits in [20, 47, 50, 61] {
            let m = Modulus::new(ntt_primes(bits, 1024, 1).unwrap()[0]).unwrap();
            let p = m.value() as i64;
            let mut values = vec![0, 1, -1, p, -p, p - 1, 1 - p, 2 * p - 1, 1 - 2 * p, p + 1, -p - 1];
            values.extend((0..90).map(|_| (prg.next_u64() as i64) % (2 * p)));
            for path in Path::available() {
                let mut out = vec![0; values.len()];
                reduce_signed_with(path, m, &values, &mut out);
                assert!(out.iter().zip(&values).all(|(&o, &v)| o == v.rem_euclid(p) as u64), "{bits} {path:?}");
            }
        }
    }

    #[test]
    fn every_path_is_the_formula() {
        let mut prg = Prg::from_seed([3; 16]);
        let mut primes: Vec<u64> = [20, 46, 47, 49, 50, 51].map(|b| ntt_primes(b, 1024, 1).unwrap()[0]).to_vec();
        primes.push(ntt_primes(50, 16384, 1).unwrap()[0]);
        for p in primes {
            let m = Modulus::new(p).unwrap();
            let edges = [0, 1, p - 1, p / 2, p, 2 * p - 1, INPUT_LIMIT - 1, INPUT_LIMIT - p];
            for round in 0..40 {
                let factor = |prg: &mut Prg| match round % 4 {
                    0 => p - 1,
                    1 => 1,
                    _ => prg.next_u64() % p,
                };
                let (a, b, c) = (factor(&mut prg), factor(&mut prg), factor(&mut prg));
                let mut pick = |i: usize| if i < 64 { edges[i % 8].min(INPUT_LIMIT - 1) } else { prg.next_u64() >> 12 };
                let x: Vec<u64> = (0..203).map(&mut pick).collect();
                let y: Vec<u64> =
                    (0..203).map(|i| if i < 64 { edges[i / 8].min(INPUT_LIMIT - 1) } else { pick(i) }).collect();
                let wide = |x: u64, y: u64| {
                    let sum = u128::from(a) * u128::from(x) + u128::from(b) * u128::from(y) + u128::from(c);
                    (sum % u128::from(p)) as u64
                };
                let map = Affine::new(m, a, b, c);
                for path in Path::available() {
                    let mut got = x.clone();
                    map.apply_with(path, &mut got, &y);
                    assert!(got.iter().zip(x.iter().zip(&y)).all(|(&g, (&x, &y))| g == wide(x, y)), "{p} {path:?}");
                    let mut got = x.clone();
                    map.apply_one_with(path, &mut got);
                    assert!(got.iter().zip(&x).all(|(&g, &x)| g == wide(x, 0)), "{p} {path:?}");
                }
            }
        }
    }
}
