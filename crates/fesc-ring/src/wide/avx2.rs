//! The tile with AVX2 and FMA: products are split by rounding them in floating point, as in `rns/avx2.rs`.
//!
//! A number is `v = lo + 2^53 hi mod 2^104` with `|lo| <= 2^52` and `|hi| <= 2^50`, a scalar is below `2^50`
//! in magnitude, all of them exact doubles. A product is below `2^102`; added to `C = 3 2^102`, whose last
//! place is `2^51`, it gives its high part, and what is left gives the low part:
//!
//! ```text
//! t = fl(u x + C)                 = C + 2^51 H,      H = round(u x / 2^51)
//! l = u x - (t - (C + 3 2^51))    = 3 2^51 + r,      r = u x - 2^51 H,  |r| <= 2^50
//! ```
//!
//! Both are exact, and their words, added as integers, are the sums of `H` and `r` but for the words of the
//! constants, which the accumulators start without. Of `u hi` only `r` counts, because `2^53 2^51 = 2^104`.
//! Nine instructions for four products (five if rows have no `hi`), where 32-bit limbs would take fourteen.

use std::arch::x86_64::*;

use super::{COLS, LANES, Panel, Shape, WORD_BITS, per_term};

/// Numbers of a register.
const QUAD: usize = 4;
/// `C`, and the same plus `3 2^51`.
const HIGH: f64 = 15_211_807_202_738_752_817_960_438_464_512.0;
const BOTH: f64 = HIGH + MIDDLE;
/// `3 2^51`, the middle of the doubles whose last place is one.
const MIDDLE: f64 = 6_755_399_441_055_744.0;
/// `2^52`: its bits with a 52-bit integer in the mantissa are the double `2^52 + integer`.
const TO_DOUBLE: f64 = 4_503_599_627_370_496.0;
/// Where the high part begins.
const CUT: u32 = 51;
/// What keeps a sum of low parts positive: more than `MAX_TERMS 2^50`, and a multiple of `2^51`.
const POSITIVE: u64 = 1 << 62;

/// A word below `2^52` as a double.
#[inline(always)]
fn double(x: u64) -> f64 {
    f64::from_bits(x | TO_DOUBLE.to_bits()) - TO_DOUBLE
}

/// Numbers in two words of 52 bits, as the two doubles of this kernel.
pub(super) fn split(lo: &mut [u64; COLS], hi: &mut [u64; COLS]) {
    let half = 1u64 << (CUT - 1);
    for (lo, hi) in lo.iter_mut().zip(hi) {
        // Bit 52 is the sign of the low part, and is carried into the high one.
        let sign = *hi & 1;
        *lo = (double(*lo) - f64::from_bits(sign.wrapping_neg() & TO_DOUBLE.to_bits())).to_bits();
        let high = ((*hi >> 1) + sign + half) & ((1 << CUT) - 1);
        *hi = (double(high) - half as f64).to_bits();
    }
}

/// A scalar as a double.
pub(super) fn scalar(m: i64) -> u64 {
    (m as f64).to_bits()
}

pub(super) fn tile(panel: &Panel, scalars: &[u64], out: &mut [[u64; COLS]]) {
    for (i, out) in out.chunks_mut(2).enumerate() {
        let scalars = &scalars[2 * i * panel.shape.terms..];
        // SAFETY: `kernel` hands this out only if the processor has AVX2 and FMA.
        unsafe {
            match (out.len(), panel.shape.wide) {
                (1, false) => rows::<1, false>(panel, scalars, out),
                (_, false) => rows::<2, false>(panel, scalars, out),
                (1, true) => rows::<1, true>(panel, scalars, out),
                (_, true) => rows::<2, true>(panel, scalars, out),
            }
        }
    }
}

#[target_feature(enable = "avx2")]
fn load(words: &[u64; QUAD]) -> __m256d {
    // SAFETY: four words, and the load needs no alignment.
    unsafe { _mm256_loadu_pd(words.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn set(word: u64) -> __m256i {
    _mm256_set1_epi64x(word as i64)
}

/// `R` outputs, two registers of columns at a time.
#[target_feature(enable = "avx2,fma")]
fn rows<const R: usize, const WIDE: bool>(panel: &Panel, scalars: &[u64], out: &mut [[u64; COLS]]) {
    let Shape { terms, shift, .. } = panel.shape;
    const V: usize = 2;
    let count = terms as u64;
    let without = |constant: f64| count.wrapping_mul(constant.to_bits()).wrapping_neg();
    let low_start = set(without(MIDDLE).wrapping_add(POSITIVE + (1 << (shift - 1))));
    let high_start = set(without(HIGH).wrapping_sub(POSITIVE >> CUT));
    let rest_start = set(without(MIDDLE));
    let (c, both) = (_mm256_set1_pd(HIGH), _mm256_set1_pd(BOTH));
    let scalars: [&[u64]; R] = std::array::from_fn(|r| &scalars[r * terms..(r + 1) * terms]);
    let ends = Ends::new(shift);
    for group in 0..COLS / (V * QUAD) {
        let mut low = [[low_start; V]; R];
        let mut high = [[high_start; V]; R];
        let mut rest = [[rest_start; V]; R];
        for (j, lines) in panel.lines.chunks_exact(per_term(WIDE)).enumerate() {
            let at = |part: usize, v: usize| {
                let line = &lines[part * (COLS / LANES) + group * V * QUAD / LANES].0;
                load(&line.as_chunks().0[v % (LANES / QUAD)])
            };
            for v in 0..V {
                let lo = at(0, v);
                let hi = if WIDE { at(1, v) } else { lo };
                for r in 0..R {
                    let u = _mm256_set1_pd(f64::from_bits(scalars[r][j]));
                    let t = _mm256_fmadd_pd(u, lo, c);
                    let l = _mm256_fmsub_pd(u, lo, _mm256_sub_pd(t, both));
                    high[r][v] = _mm256_add_epi64(high[r][v], _mm256_castpd_si256(t));
                    low[r][v] = _mm256_add_epi64(low[r][v], _mm256_castpd_si256(l));
                    if WIDE {
                        let t = _mm256_fmadd_pd(u, hi, c);
                        let l = _mm256_fmsub_pd(u, hi, _mm256_sub_pd(t, both));
                        rest[r][v] = _mm256_add_epi64(rest[r][v], _mm256_castpd_si256(l));
                    }
                }
            }
        }
        for (r, out) in out.iter_mut().enumerate().take(R) {
            for v in 0..V {
                let mut top = high[r][v];
                if WIDE {
                    top = _mm256_add_epi64(top, _mm256_slli_epi64::<2>(rest[r][v]));
                }
                let words = &mut out[(group * V + v) * QUAD..][..QUAD];
                // SAFETY: four words, and the store needs no alignment.
                unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), ends.join(low[r][v], top)) };
            }
        }
    }
}

/// What brings the sums together: a shift of 52 reads from inside the high part, all others from the low one.
struct Ends {
    shift: __m128i,
    left: __m128i,
    right: __m128i,
}

impl Ends {
    #[target_feature(enable = "avx2")]
    fn new(shift: u32) -> Self {
        // A shift by 64 gives zero.
        let by = |bits: Option<u32>| _mm_cvtsi32_si128(bits.map_or(64, |b| b as i32));
        let right = shift.checked_sub(CUT).filter(|&b| b > 0);
        Self { shift: by(Some(shift)), left: by(CUT.checked_sub(shift)), right: by(right) }
    }

    /// `floor((low + 2^51 top mod 2^104) / 2^shift) mod 2^64`.
    #[target_feature(enable = "avx2")]
    fn join(&self, low: __m256i, top: __m256i) -> __m256i {
        let top = _mm256_add_epi64(top, _mm256_srli_epi64::<{ CUT as i32 }>(low));
        let top = _mm256_and_si256(top, set((1 << (2 * WORD_BITS - CUT)) - 1));
        let low = _mm256_and_si256(low, set((1 << CUT) - 1));
        let value = _mm256_or_si256(_mm256_sll_epi64(top, self.left), _mm256_srl_epi64(low, self.shift));
        _mm256_or_si256(value, _mm256_srl_epi64(top, self.right))
    }
}
