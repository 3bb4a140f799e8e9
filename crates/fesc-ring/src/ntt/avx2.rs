//! The transform with AVX2 and FMA, for primes below `2^50` and degrees from 8.
//!
//! AVX2 has no wide integer product, but a fused multiply-add gives both halves of a floating-point one. With
//! centred `w`, `w' = fl(w / p)`, `q = round(y w')` and `h = fl(y w)`, the number `t = (h - q p) + (y w - h)`
//! is exact: both brackets are single fused operations whose results are integers below `2^53`. For
//! `|y| <= 4p <= 2^52` the quotient is off by at most `1/2 + 2^52 / 2^54`, so `|t| <= 3p/4`. Values stay
//! signed doubles between layers (in the place of the words), and a bound, counted in quarters of `p`, says
//! when a pass must first reduce its inputs. All rounding is exact, so the result is bit for bit that of the
//! portable path.

use super::roots::bit_reversed_powers;
use crate::modulus::Modulus;
use std::arch::x86_64::*;

/// Smallest degree of this kernel.
pub(super) const MIN_DEGREE: usize = 8;

/// Bounds in quarters of `p`: of reduced values, of a product, and of a factor.
const REDUCED: u32 = 3;
const PRODUCT: u32 = 3;
const FACTOR_LIMIT: u32 = 16;

/// `1.5 * 2^52`: adding and subtracting it rounds to the nearest integer.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// `2^52`: its bits with a 52-bit integer in the mantissa are the double `2^52 + integer`.
const TO_DOUBLE: f64 = 4_503_599_627_370_496.0;

pub(crate) type FactorQuotient = [f64; 2];

#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Line([f64; 4]);

struct Twiddles {
    /// By node, for nodes of at least 8 elements.
    nodes: Vec<FactorQuotient>,
    /// Per 8 elements: factor and quotient vectors of the layers of distance 2 and 1.
    inner: Vec<[Line; 4]>,
}

/// Twiddles of both directions.
pub(super) struct Tables {
    forward: Twiddles,
    inverse: Twiddles,
    scale: FactorQuotient,
}

pub(crate) fn pair(modulus: Modulus, w: u64) -> FactorQuotient {
    let centred = modulus.to_signed(w) as f64;
    [centred, centred / modulus.value() as f64]
}

impl Twiddles {
    fn new(modulus: Modulus, powers: &[u64]) -> Self {
        let units = powers.len() / 8;
        let nodes = powers[..2 * units].iter().map(|&w| pair(modulus, w)).collect();
        let inner = (units..2 * units)
            .map(|n| {
                let mut lines = [Line([0.0; 4]); 4];
                for (k, (base, lanes)) in [(2 * n, [0, 0, 1, 1]), (4 * n, [0, 1, 2, 3])].into_iter().enumerate() {
                    for (lane, node) in lanes.into_iter().enumerate() {
                        [lines[2 * k].0[lane], lines[2 * k + 1].0[lane]] = pair(modulus, powers[base + node]);
                    }
                }
                lines
            })
            .collect();
        Self { nodes, inner }
    }
}

impl Tables {
    pub(super) fn new(modulus: Modulus, root: u64, root_inv: u64, scale: u64, degree: usize) -> Self {
        let side = |r| Twiddles::new(modulus, &bit_reversed_powers(modulus, r, degree));
        Self { forward: side(root), inverse: side(root_inv), scale: pair(modulus, scale) }
    }
}

/// Constants of a prime, one per register.
#[derive(Clone, Copy)]
pub(crate) struct Consts {
    p: __m256d,
    p_inv: __m256d,
    round: __m256d,
    to_double: __m256d,
}

pub(crate) type Twiddle = (__m256d, __m256d);

impl Consts {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn new(p: u64) -> Self {
        Self {
            p: _mm256_set1_pd(p as f64),
            p_inv: _mm256_set1_pd(1.0 / p as f64),
            round: _mm256_set1_pd(ROUND),
            to_double: _mm256_set1_pd(TO_DOUBLE),
        }
    }

    /// Words below `2^52` to doubles.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn double(&self, x: __m256i) -> __m256d {
        _mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(x), self.to_double), self.to_double)
    }

    /// Doubles in `(-p, 2p)` to reduced words.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn word(&self, x: __m256d) -> __m256i {
        let x = _mm256_blendv_pd(x, _mm256_add_pd(x, self.p), x);
        let less = _mm256_sub_pd(x, self.p);
        let x = _mm256_blendv_pd(less, x, less);
        _mm256_castpd_si256(_mm256_xor_pd(_mm256_add_pd(x, self.to_double), self.to_double))
    }

    /// Any integer of magnitude up to `2^52` to magnitude `REDUCED`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn reduce(&self, x: __m256d) -> __m256d {
        let q = _mm256_sub_pd(_mm256_fmadd_pd(x, self.p_inv, self.round), self.round);
        _mm256_fnmadd_pd(q, self.p, x)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(crate) fn mul(&self, y: __m256d, w: Twiddle) -> __m256d {
        let q = _mm256_sub_pd(_mm256_fmadd_pd(y, w.1, self.round), self.round);
        self.exact(y, w.0, q)
    }

    /// `a b - q p`, exact when it is below `2^52` in magnitude.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn exact(&self, a: __m256d, b: __m256d, q: __m256d) -> __m256d {
        let h = _mm256_mul_pd(a, b);
        let low = _mm256_fmsub_pd(a, b, h);
        _mm256_add_pd(_mm256_fnmadd_pd(q, self.p, h), low)
    }

    /// `a b` of numbers in `[0, p)`, in `(-p, p)`: the rounded product and quotient are off by less than
    /// `3/8` together.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn mul_full(&self, a: __m256d, b: __m256d) -> __m256d {
        let q = _mm256_mul_pd(_mm256_mul_pd(a, b), self.p_inv);
        let q = _mm256_sub_pd(_mm256_add_pd(q, self.round), self.round);
        self.exact(a, b, q)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn ct(&self, x: __m256d, y: __m256d, w: Twiddle) -> (__m256d, __m256d) {
        let t = self.mul(y, w);
        (_mm256_add_pd(x, t), _mm256_sub_pd(x, t))
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn gs(&self, x: __m256d, y: __m256d, w: Twiddle) -> (__m256d, __m256d) {
        (_mm256_add_pd(x, y), self.mul(_mm256_sub_pd(x, y), w))
    }
}

/// # Safety
/// `node` must be inside the table.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn twiddle(side: &Twiddles, node: usize) -> Twiddle {
    // SAFETY: the caller's promise.
    let [w, quotient] = unsafe { *side.nodes.as_ptr().add(node) };
    (_mm256_set1_pd(w), _mm256_set1_pd(quotient))
}

/// # Safety
/// `a` must be valid for 4 words.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn load(a: *const u64) -> __m256d {
    // SAFETY: the caller's promise; the instruction takes any alignment.
    unsafe { _mm256_loadu_pd(a.cast()) }
}

/// # Safety
/// `a` must be valid for 4 words.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn store(a: *mut u64, v: __m256d) {
    // SAFETY: the caller's promise; the instruction takes any alignment.
    unsafe { _mm256_storeu_pd(a.cast(), v) }
}

/// # Safety
/// `a` must be valid for `len` words, a multiple of 8 and at least 8; `node` a node of that size; `quarters`
/// bounds the values.
#[target_feature(enable = "avx2,fma")]
unsafe fn forward_rec(c: &Consts, side: &Twiddles, a: *mut u64, len: usize, node: usize, unit: usize, quarters: u32) {
    // SAFETY: all offsets are below `len`, and the children are parts of the block and of the tables.
    unsafe {
        if len == 8 {
            let reduce = quarters + 2 * PRODUCT > FACTOR_LIMIT;
            let (mut x, mut y) = (load(a), load(a.add(4)));
            if reduce {
                (x, y) = (c.reduce(x), c.reduce(y));
            }
            let lines: *const f64 = side.inner.as_ptr().add(unit).cast();
            let line = |i: usize| _mm256_loadu_pd(lines.add(4 * i));
            let (x, y) = c.ct(x, y, twiddle(side, node));
            let (x, y) = (_mm256_permute2f128_pd::<0x20>(x, y), _mm256_permute2f128_pd::<0x31>(x, y));
            let (x, y) = c.ct(x, y, (line(0), line(1)));
            let (x, y) = (_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y));
            let (x, y) = c.ct(x, y, (line(2), line(3)));
            let (x, y) = (c.word(c.reduce(x)), c.word(c.reduce(y)));
            let (x, y) = (_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
            _mm256_storeu_si256(a.cast(), _mm256_permute2x128_si256::<0x20>(x, y));
            _mm256_storeu_si256(a.add(4).cast(), _mm256_permute2x128_si256::<0x31>(x, y));
            return;
        }
        let layers = if (len / 8).trailing_zeros() % 2 == 1 { 1 } else { 2 };
        let parts = 1 << layers;
        let part = len / parts;
        let reduce = quarters + (layers - 1) * PRODUCT > FACTOR_LIMIT;
        let maybe = |v| if reduce { c.reduce(v) } else { v };
        let after = if reduce { REDUCED } else { quarters } + layers * PRODUCT;
        let w = twiddle(side, node);
        if layers == 1 {
            for j in (0..part).step_by(4) {
                let (x, y) = c.ct(maybe(load(a.add(j))), maybe(load(a.add(part + j))), w);
                store(a.add(j), x);
                store(a.add(part + j), y);
            }
        } else {
            let (left, right) = (twiddle(side, 2 * node), twiddle(side, 2 * node + 1));
            for j in (0..part).step_by(4) {
                let at = |i: usize| a.add(i * part + j);
                let (x0, x2) = c.ct(maybe(load(at(0))), maybe(load(at(2))), w);
                let (x1, x3) = c.ct(maybe(load(at(1))), maybe(load(at(3))), w);
                let (x0, x1) = c.ct(x0, x1, left);
                let (x2, x3) = c.ct(x2, x3, right);
                store(at(0), x0);
                store(at(1), x1);
                store(at(2), x2);
                store(at(3), x3);
            }
        }
        for i in 0..parts {
            forward_rec(c, side, a.add(i * part), part, parts * node + i, unit + i * part / 8, after);
        }
    }
}

/// Leaves values of at most `PRODUCT` quarters: sums are reduced at the end of each pass, and no factor
/// exceeds `4p`.
///
/// # Safety
/// As for [`forward_rec`].
#[target_feature(enable = "avx2,fma")]
unsafe fn inverse_rec(c: &Consts, side: &Twiddles, a: *mut u64, len: usize, node: usize, unit: usize) {
    // SAFETY: all offsets are below `len`, and the children are parts of the block and of the tables.
    unsafe {
        if len == 8 {
            let (x, y) = (_mm256_loadu_si256(a.cast()), _mm256_loadu_si256(a.add(4).cast()));
            let (x, y) = (_mm256_permute2x128_si256::<0x20>(x, y), _mm256_permute2x128_si256::<0x31>(x, y));
            let (x, y) = (_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
            let lines: *const f64 = side.inner.as_ptr().add(unit).cast();
            let line = |i: usize| _mm256_loadu_pd(lines.add(4 * i));
            // Bounds in p: inputs 1, then sums 2 and 4; the last are reduced before the layer of distance 4.
            let (x, y) = c.gs(c.double(x), c.double(y), (line(2), line(3)));
            let (x, y) = (_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y));
            let (x, y) = c.gs(x, y, (line(0), line(1)));
            let x = c.reduce(x);
            let (x, y) = (_mm256_permute2f128_pd::<0x20>(x, y), _mm256_permute2f128_pd::<0x31>(x, y));
            let (x, y) = c.gs(x, y, twiddle(side, node));
            store(a, c.reduce(x));
            store(a.add(4), y);
            return;
        }
        let layers = if (len / 8).trailing_zeros() % 2 == 1 { 1 } else { 2 };
        let parts = 1 << layers;
        let part = len / parts;
        for i in 0..parts {
            inverse_rec(c, side, a.add(i * part), part, parts * node + i, unit + i * part / 8);
        }
        let w = twiddle(side, node);
        if layers == 1 {
            for j in (0..part).step_by(4) {
                let (x, y) = c.gs(load(a.add(j)), load(a.add(part + j)), w);
                store(a.add(j), c.reduce(x));
                store(a.add(part + j), y);
            }
        } else {
            let (left, right) = (twiddle(side, 2 * node), twiddle(side, 2 * node + 1));
            for j in (0..part).step_by(4) {
                let at = |i: usize| a.add(i * part + j);
                let (x0, x1) = c.gs(load(at(0)), load(at(1)), left);
                let (x2, x3) = c.gs(load(at(2)), load(at(3)), right);
                let (x0, x2) = c.gs(x0, x2, w);
                let (x1, x3) = c.gs(x1, x3, w);
                store(at(0), c.reduce(x0));
                store(at(1), c.reduce(x1));
                store(at(2), x2);
                store(at(3), x3);
            }
        }
    }
}

/// Forward transform.
///
/// # Safety
/// The processor must have AVX2 and FMA; the tables must have been built for `modulus < 2^50` and
/// `a.len() >= 8`.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn forward(modulus: Modulus, tables: &Tables, a: &mut [u64]) {
    let c = Consts::new(modulus.value());
    // SAFETY: each chunk has four words; the root node is the whole slice.
    unsafe {
        for chunk in a.chunks_exact_mut(4) {
            store(chunk.as_mut_ptr(), c.double(_mm256_loadu_si256(chunk.as_ptr().cast())));
        }
        forward_rec(&c, &tables.forward, a.as_mut_ptr(), a.len(), 1, 0, 4);
    }
}

/// Inverse transform, scaled.
///
/// # Safety
/// As for [`forward`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn inverse(modulus: Modulus, tables: &Tables, a: &mut [u64]) {
    let c = Consts::new(modulus.value());
    let scale = (_mm256_set1_pd(tables.scale[0]), _mm256_set1_pd(tables.scale[1]));
    // SAFETY: each chunk has four words; the root node is the whole slice.
    unsafe {
        inverse_rec(&c, &tables.inverse, a.as_mut_ptr(), a.len(), 1, 0);
        for chunk in a.chunks_exact_mut(4) {
            let v = c.word(c.mul(load(chunk.as_ptr()), scale));
            _mm256_storeu_si256(chunk.as_mut_ptr().cast(), v);
        }
    }
}
