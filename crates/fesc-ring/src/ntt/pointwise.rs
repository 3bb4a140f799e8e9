//! Products of transformed polynomials, slot by slot: `out = a b` or `out = acc + a b` with reduced operands
//! and results.
//!
//! The AVX-512 form is the Barrett step of [`Modulus`] on 52-bit words, the AVX2 form the exact
//! floating-point product of [`super::avx2`]; both need a prime below `2^50`.

use crate::modulus::Modulus;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// `acc = acc * b`, or `acc += a * b` when `a` is given; plain Rust.
pub(super) fn portable(modulus: Modulus, acc: &mut [u64], a: Option<&[u64]>, b: &[u64]) {
    match a {
        None => acc.iter_mut().zip(b).for_each(|(o, &y)| *o = modulus.mul(*o, y)),
        Some(a) => acc.iter_mut().zip(a.iter().zip(b)).for_each(|(o, (&x, &y))| *o = modulus.mul_add(x, y, *o)),
    }
}

/// [`portable`] with AVX2 and FMA.
///
/// # Safety
/// The processor must have both, the prime be below `2^50`, and all lengths be equal and a multiple of 4.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn avx2(modulus: Modulus, acc: &mut [u64], a: Option<&[u64]>, b: &[u64]) {
    let c = super::avx2::Consts::new(modulus.value());
    for i in (0..acc.len()).step_by(4) {
        // SAFETY: `i + 4` is at most the common length.
        unsafe {
            let get = |s: &[u64]| c.double(_mm256_loadu_si256(s.as_ptr().add(i).cast()));
            let out = get(acc);
            let r = match a {
                None => c.mul_full(out, get(b)),
                Some(a) => _mm256_add_pd(c.mul_full(get(a), get(b)), out),
            };
            _mm256_storeu_si256(acc.as_mut_ptr().add(i).cast(), c.word(r));
        }
    }
}

/// [`portable`] with AVX-512 IFMA.
///
/// # Safety
/// The processor must have it, the prime be below `2^50`, and all lengths be equal and a multiple of 8.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) unsafe fn avx512(modulus: Modulus, acc: &mut [u64], a: Option<&[u64]>, b: &[u64]) {
    let (p, bits) = (modulus.value(), modulus.bits());
    let set = |x: u64| _mm512_set1_epi64(x as i64);
    let (zero, vp, two_p, neg_p, low52) = (set(0), set(p), set(2 * p), set((1 << 52) - p), set((1 << 52) - 1));
    // x < p^2 < 2^(2 bits) is hi 2^52 + lo; t = x >> (bits - 2) < 2^(bits + 2) <= 2^52.
    let barrett = set(((1u128 << (bits + 50)) / u128::from(p)) as u64);
    let (left, right) = (_mm_cvtsi32_si128(54 - bits as i32), _mm_cvtsi32_si128(bits as i32 - 2));
    for i in (0..acc.len()).step_by(8) {
        // SAFETY: `i + 8` is at most the common length.
        unsafe {
            let get = |s: &[u64]| _mm512_loadu_si512(s.as_ptr().add(i).cast());
            let out = get(acc);
            let (x, add) = a.map_or((out, zero), |a| (get(a), out));
            let y = get(b);
            let hi = _mm512_madd52hi_epu64(zero, x, y);
            let lo = _mm512_madd52lo_epu64(zero, x, y);
            let t = _mm512_or_si512(_mm512_sll_epi64(hi, left), _mm512_srl_epi64(lo, right));
            let q = _mm512_madd52hi_epu64(zero, t, barrett);
            // The quotient is at most two short: below 3p, and below 4p <= 2^52 with the addend.
            let r = _mm512_add_epi64(_mm512_madd52lo_epu64(lo, q, neg_p), add);
            let r = _mm512_and_si512(r, low52);
            let r = _mm512_min_epu64(r, _mm512_sub_epi64(r, two_p));
            let r = _mm512_min_epu64(r, _mm512_sub_epi64(r, vp));
            _mm512_storeu_si512(acc.as_mut_ptr().add(i).cast(), r);
        }
    }
}
