//! The transform with AVX-512 IFMA, for primes below `2^50` and degrees from 64.
//!
//! `vpmadd52luq` and `vpmadd52huq` multiply the low 52 bits of their factors and add half of the product to a 64-bit
//! accumulator. Two habits follow.
//!
//! *Values live modulo `2^52`.* A factor's high bits are ignored, so nothing is masked between layers: a lane may carry
//! rubbish above bit 52, and only the last step of a transform cleans it. What must hold is that the true value, an
//! integer in `[0, 2^52)`, is what the low 52 bits say.
//!
//! *Additions ride on products.* With `w' = floor(w 2^52 / p)` and `q = hi(y w')`, `t = y w - q p` is in `[0, 2p)` for
//! every `y < 2^52` (Harvey). Forward butterfly, from `x, y` in `[0, 2^52)`:
//!
//! ```text
//! f = hi(x floor(2^52/p))      u = x + lo(f (2^52 - p))                  u = x mod p or that plus p, in [0, 2p)
//! q = hi(y w')                 a = u + lo(y w) + lo(q (2^52 - p))        a = u + t
//!                              b = (2p + lo(2 u)) - a                    b = u - t + 2p
//! ```
//!
//! Seven instructions, two of them the reduction of `x`; both results are below `4p < 2^52`. The first formula is Barrett's:
//! the quotient is at most one short for `x < 2^52`.
//!
//! Backward, the upper half `y` of a pair is stored *negated*, as a number `n = -y` in `[0, 2p)`. Then `x - y = x + n` needs no
//! offset to stay positive, and `s = x + y = x - n` is in `(-2p, 2p)`, where bit 51 is the sign because `2p < 2^51`: adding
//! `2p hi(2 s)` folds it to `[0, 2p)`. Seven instructions again. A block's result is the lower or upper half of its
//! parent's pair as its node number is even or odd: odd nodes produce negated results by swapping one subtraction and using `-w`.
//!
//! Passes do three layers (two where the count asks for it) in registers, depth first; the last six forward layers of
//! each 64 elements are one pass, whose last three work inside the vectors with expanded twiddle tables.

use super::roots::bit_reversed_powers;
use crate::modulus::Modulus;
use std::arch::x86_64::*;

/// Smallest degree of this kernel: one block of the innermost pass.
pub(super) const MIN_DEGREE: usize = 64;

/// One vector in memory, on its own cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// A broadcast twiddle: factor and quotient.
type Pair = [u64; 2];

/// One direction's twiddles.
struct Side {
    /// By node, for the nodes of at least 16 elements.
    nodes: Vec<Pair>,
    /// Per 16 elements: factor and quotient vectors of the layers of distance 4, 2 and 1.
    inner: Vec<[Line; 6]>,
}

/// Twiddles of both directions.
pub(super) struct Tables {
    forward: Side,
    inverse: Side,
    scale: Pair,
    scaled_root: Pair,
}

/// The nodes of a 16-element block `n`, relative to `4n / 2`, `4n` and `8n`, in the lane order of [`split`] and its followers.
const LANES_4: [usize; 8] = [0, 0, 0, 0, 1, 1, 1, 1];
const LANES_2: [usize; 8] = [0, 0, 2, 2, 1, 1, 3, 3];
const LANES_1: [usize; 8] = [0, 1, 4, 5, 2, 3, 6, 7];

/// A twiddle `w` with its quotient; the factor is stored with the offset that its butterfly wants.
fn pair(p: u64, w: u64, offset: i64) -> Pair {
    [w.wrapping_add_signed(offset), ((u128::from(w) << 52) / u128::from(p)) as u64]
}

impl Side {
    fn new(p: u64, powers: &[u64], offset: i64, negate_odd_nodes: bool) -> Self {
        let units = powers.len() / 16;
        let broadcast =
            |(i, &w): (usize, &u64)| pair(p, if negate_odd_nodes && i % 2 == 1 { p - w } else { w }, offset);
        let nodes = powers[..2 * units].iter().enumerate().map(broadcast).collect();
        let inner = (units..2 * units)
            .map(|n| {
                let mut lines = [Line([0; 8]); 6];
                for (k, (base, lanes)) in [(2 * n, LANES_4), (4 * n, LANES_2), (8 * n, LANES_1)].into_iter().enumerate()
                {
                    for (lane, node) in lanes.into_iter().enumerate() {
                        let [w, quotient] = pair(p, powers[base + node], offset);
                        lines[2 * k].0[lane] = w;
                        lines[2 * k + 1].0[lane] = quotient;
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
        let p = modulus.value();
        let back = bit_reversed_powers(modulus, root_inv, degree);
        Self {
            forward: Side::new(p, &bit_reversed_powers(modulus, root, degree), p as i64, false),
            inverse: Side::new(p, &back, -1, true),
            scale: pair(p, scale, -1),
            // The root is the one odd node whose result is wanted with its own sign.
            scaled_root: pair(p, modulus.mul(back[1], scale), -1),
        }
    }
}

/// Constants of a prime, one per register.
#[derive(Clone, Copy)]
struct Consts {
    p: __m512i,
    two_p: __m512i,
    /// `2^52 - p`: adding its multiples subtracts multiples of `p` modulo `2^52`.
    neg_p: __m512i,
    /// `floor(2^52 / p)`.
    barrett: __m512i,
    two: __m512i,
    /// The sign of a value in `[-2^51, 2^51)`, or whether one in `[0, 2^52)` is at least `2^51`.
    bit51: __m512i,
    zero: __m512i,
    low52: __m512i,
}

/// What the last layer of a backward pass gives: values, negated values, or the scaled and reduced end result.
const PLAIN: u8 = 0;
const NEGATED: u8 = 1;
const ROOT: u8 = 2;

/// A twiddle in registers: factor and quotient.
type Twiddle = (__m512i, __m512i);

impl Consts {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new(p: u64) -> Self {
        let set = |x: u64| _mm512_set1_epi64(x as i64);
        Self {
            p: set(p),
            two_p: set(2 * p),
            neg_p: set((1 << 52) - p),
            barrett: set((1 << 52) / p),
            two: set(2),
            bit51: set(1 << 51),
            zero: set(0),
            low52: set((1 << 52) - 1),
        }
    }

    /// `[0, 2^52)` to `[0, 2p)`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn fold(&self, x: __m512i) -> __m512i {
        let f = _mm512_madd52hi_epu64(self.zero, x, self.barrett);
        _mm512_madd52lo_epu64(x, f, self.neg_p)
    }

    /// `[0, 2p)`, rubbish above bit 52 allowed, to the clean `[0, p)`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn finish(&self, x: __m512i) -> __m512i {
        let x = _mm512_and_si512(x, self.low52);
        _mm512_min_epu64(x, _mm512_sub_epi64(x, self.p))
    }

    /// `x` with `2p` taken off (or put on, if `BELOW`) where bit 51 is set.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn settle<const BELOW: bool>(&self, x: __m512i) -> __m512i {
        let k = _mm512_test_epi64_mask(x, self.bit51);
        if BELOW { _mm512_mask_add_epi64(x, k, x, self.two_p) } else { _mm512_mask_sub_epi64(x, k, x, self.two_p) }
    }

    /// Forward butterfly, `[0, 2^52)` to the same; the factor in `w` is stored with `p` added.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn ct(&self, x: __m512i, y: __m512i, w: Twiddle) -> (__m512i, __m512i) {
        let u = self.settle::<false>(x);
        let a = _mm512_madd52lo_epu64(u, y, w.0);
        let q_plus_y = _mm512_madd52hi_epu64(y, y, w.1);
        let a = _mm512_madd52lo_epu64(a, q_plus_y, self.neg_p);
        (a, _mm512_sub_epi64(_mm512_madd52lo_epu64(self.two_p, u, self.two), a))
    }

    /// `d w mod p` in `[0, 2p)`; the factor in `w` is stored less one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn mul(&self, d: __m512i, w: Twiddle) -> __m512i {
        let q = _mm512_madd52hi_epu64(self.zero, d, w.1);
        _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(d, d, w.0), q, self.neg_p)
    }

    /// Backward butterfly with `n = -y`; both results negated if `NEG` (the caller's `w` is then `-w`).
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn gs<const NEG: bool>(&self, x: __m512i, n: __m512i, w: Twiddle) -> (__m512i, __m512i) {
        let s = if NEG { _mm512_sub_epi64(n, x) } else { _mm512_sub_epi64(x, n) };
        (self.settle::<true>(s), self.mul(_mm512_add_epi64(x, n), w))
    }

    /// The last backward butterfly: both results scaled and fully reduced.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn gs_root(&self, x: __m512i, n: __m512i, scale: Twiddle, scaled_root: Twiddle) -> (__m512i, __m512i) {
        let s = _mm512_sub_epi64(_mm512_add_epi64(x, self.two_p), n);
        let d = _mm512_add_epi64(x, n);
        (self.finish(self.mul(s, scale)), self.finish(self.mul(d, scaled_root)))
    }

    /// Backward butterfly with `y` as it is, both results negated if `NEG`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn gs_plain<const NEG: bool>(&self, x: __m512i, y: __m512i, w: Twiddle) -> (__m512i, __m512i) {
        let s = _mm512_add_epi64(x, y);
        let d = _mm512_sub_epi64(_mm512_add_epi64(x, self.two_p), y);
        let s = if NEG { self.settle::<true>(_mm512_sub_epi64(self.two_p, s)) } else { self.fold(s) };
        (s, self.mul(d, w))
    }
}

/// Broadcasts the twiddle of a node.
///
/// # Safety
/// `node` must be inside the table.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn twiddle(nodes: *const Pair, node: usize) -> Twiddle {
    // SAFETY: the caller's promise.
    let [w, quotient] = unsafe { *nodes.add(node) };
    (_mm512_set1_epi64(w as i64), _mm512_set1_epi64(quotient as i64))
}

/// The twiddles of `node` and its descendants, `log2 R` levels, numbered like a tree of their own (slot 0 is unused).
///
/// # Safety
/// These nodes must be inside the table.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn local_twiddles<const R: usize>(nodes: *const Pair, node: usize) -> [Twiddle; R] {
    let mut w = [(_mm512_setzero_si512(), _mm512_setzero_si512()); R];
    let mut row = 1;
    while row < R {
        for i in 0..row {
            // SAFETY: the caller's promise.
            w[row + i] = unsafe { twiddle(nodes, row * node + i) };
        }
        row *= 2;
    }
    w
}

/// # Safety
/// `src` must be valid for 8 words.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(src: *const u64) -> __m512i {
    // SAFETY: the caller's promise; the instruction takes any alignment.
    unsafe { _mm512_loadu_si512(src.cast()) }
}

/// # Safety
/// `dst` must be valid for 8 words.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(dst: *mut u64, v: __m512i) {
    // SAFETY: the caller's promise; the instruction takes any alignment.
    unsafe { _mm512_storeu_si512(dst.cast(), v) }
}

/// # Safety
/// `lines` and the one after it must be valid.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn vector_twiddle(lines: *const Line) -> Twiddle {
    // SAFETY: the caller's promise.
    unsafe { (load(lines.cast()), load(lines.add(1).cast())) }
}

/// `R = 2^LAYERS` streams of a block at `node`: `LAYERS` forward layers in registers.
///
/// # Safety
/// `a` must be valid for `len` words, `len` a multiple of `8 R`, and `node 2^(LAYERS-1)` and its row inside the table.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn forward_pass<const R: usize>(c: &Consts, nodes: *const Pair, a: *mut u64, len: usize, node: usize) {
    let stride = len / R;
    // SAFETY: every index below is under `len` or in the table by the caller's promise.
    unsafe {
        let w = local_twiddles::<R>(nodes, node);
        let mut j = 0;
        while j < stride {
            let mut v = [c.zero; R];
            for (i, v) in v.iter_mut().enumerate() {
                *v = load(a.add(i * stride + j));
            }
            forward_registers(c, &mut v, &w);
            for (i, &v) in v.iter().enumerate() {
                store(a.add(i * stride + j), v);
            }
            j += 8;
        }
    }
}

/// `log2 R` forward layers between registers; `w[k]` is the twiddle of the `k`-th node of the local tree.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn forward_registers<const R: usize>(c: &Consts, v: &mut [__m512i; R], w: &[Twiddle; R]) {
    let (mut half, mut row) = (R / 2, 1);
    while row < R {
        for i in 0..row {
            for j in 0..half {
                let x = 2 * half * i + j;
                (v[x], v[x + half]) = c.ct(v[x], v[x + half], w[row + i]);
            }
        }
        half /= 2;
        row *= 2;
    }
}

/// Backward counterpart of [`forward_registers`]. Odd local registers hold negated values; `MODE` rules the last layer.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn inverse_registers<const R: usize, const MODE: u8>(c: &Consts, v: &mut [__m512i; R], w: &[Twiddle; R]) {
    let (mut half, mut row) = (1, R / 2);
    while row > 1 {
        for i in 0..row {
            for j in 0..half {
                let x = 2 * half * i + j;
                (v[x], v[x + half]) = if i % 2 == 1 {
                    c.gs::<true>(v[x], v[x + half], w[row + i])
                } else {
                    c.gs::<false>(v[x], v[x + half], w[row + i])
                };
            }
        }
        half *= 2;
        row /= 2;
    }
    for j in 0..half {
        (v[j], v[j + half]) = match MODE {
            ROOT => c.gs_root(v[j], v[j + half], w[0], w[1]),
            NEGATED => c.gs::<true>(v[j], v[j + half], w[1]),
            _ => c.gs::<false>(v[j], v[j + half], w[1]),
        };
    }
}

/// The twiddles of the local tree under `node`; at the root, slots 0 and 1 hold the scaled ones.
///
/// # Safety
/// The rows of `log2 R` levels from `node` must be inside the table.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn inverse_twiddles<const R: usize, const MODE: u8>(t: &Tables, node: usize) -> [Twiddle; R] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut w = local_twiddles(t.inverse.nodes.as_ptr(), node);
        if MODE == ROOT {
            (w[0], w[1]) = (twiddle(&t.scale, 0), twiddle(&t.scaled_root, 0));
        }
        w
    }
}

/// Backward counterpart of [`forward_pass`].
///
/// # Safety
/// As there.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn inverse_pass<const R: usize, const MODE: u8>(c: &Consts, t: &Tables, a: *mut u64, len: usize, node: usize) {
    let stride = len / R;
    // SAFETY: every index below is under `len` or in the table by the caller's promise.
    unsafe {
        let w = inverse_twiddles::<R, MODE>(t, node);
        let mut j = 0;
        while j < stride {
            let mut v = [c.zero; R];
            for (i, v) in v.iter_mut().enumerate() {
                *v = load(a.add(i * stride + j));
            }
            inverse_registers::<R, MODE>(c, &mut v, &w);
            for (i, &v) in v.iter().enumerate() {
                store(a.add(i * stride + j), v);
            }
            j += 8;
        }
    }
}

/// Two neighbouring vectors to the pairs of distance 4: lower and upper halves.
#[inline]
#[target_feature(enable = "avx512f")]
fn split(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xEE>(a, b))
}

/// Distance 4 to distance 2: 128-bit lanes 0, 2 and 1, 3 of each.
#[inline]
#[target_feature(enable = "avx512f")]
fn four_to_two(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xDD>(a, b))
}

/// The inverse of [`four_to_two`].
#[inline]
#[target_feature(enable = "avx512f")]
fn two_to_four(x: __m512i, y: __m512i) -> (__m512i, __m512i) {
    let lower = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    let upper = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    (_mm512_permutex2var_epi64(x, lower, y), _mm512_permutex2var_epi64(x, upper, y))
}

/// Distance 2 to distance 1, and back: the map is its own inverse.
#[inline]
#[target_feature(enable = "avx512f")]
fn two_to_one(x: __m512i, y: __m512i) -> (__m512i, __m512i) {
    (_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y))
}

/// From the lanes of distance 1 to memory order.
#[inline]
#[target_feature(enable = "avx512f")]
fn join(x: __m512i, y: __m512i) -> (__m512i, __m512i) {
    let first = _mm512_setr_epi64(0, 8, 1, 9, 4, 12, 5, 13);
    let second = _mm512_setr_epi64(2, 10, 3, 11, 6, 14, 7, 15);
    (_mm512_permutex2var_epi64(x, first, y), _mm512_permutex2var_epi64(x, second, y))
}

/// From memory order to the lanes of distance 1: the inverse of [`join`].
#[inline]
#[target_feature(enable = "avx512f")]
fn unjoin(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    let even = _mm512_setr_epi64(0, 2, 8, 10, 4, 6, 12, 14);
    let odd = _mm512_setr_epi64(1, 3, 9, 11, 5, 7, 13, 15);
    (_mm512_permutex2var_epi64(a, even, b), _mm512_permutex2var_epi64(a, odd, b))
}

/// The last six forward layers of 64 elements.
///
/// # Safety
/// `a` must be valid for 64 words, `node` a node of 64 elements of `side`, `first` its 16-element unit.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn forward_block(c: &Consts, side: &Side, a: *mut u64, node: usize, unit: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let nodes = side.nodes.as_ptr();
        let w = local_twiddles::<8>(nodes, node);
        let mut v = [c.zero; 8];
        for (i, v) in v.iter_mut().enumerate() {
            *v = load(a.add(8 * i));
        }
        forward_registers(c, &mut v, &w);
        for i in 0..4 {
            let lines: *const Line = side.inner.as_ptr().add(unit + i).cast();
            let (x, y) = split(v[2 * i], v[2 * i + 1]);
            let (x, y) = c.ct(x, y, vector_twiddle(lines));
            let (x, y) = four_to_two(x, y);
            let (x, y) = c.ct(x, y, vector_twiddle(lines.add(2)));
            let (x, y) = two_to_one(x, y);
            let (x, y) = c.ct(x, y, vector_twiddle(lines.add(4)));
            let (x, y) = (c.finish(c.fold(x)), c.finish(c.fold(y)));
            let (first, second) = join(x, y);
            store(a.add(16 * i), first);
            store(a.add(16 * i + 8), second);
        }
    }
}

/// The first six backward layers of 64 elements.
///
/// # Safety
/// As for [`forward_block`].
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn inverse_block<const MODE: u8>(c: &Consts, t: &Tables, a: *mut u64, node: usize, unit: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let side = &t.inverse;
        let w = inverse_twiddles::<8, MODE>(t, node);
        let mut v = [c.zero; 8];
        for i in 0..4 {
            let lines: *const Line = side.inner.as_ptr().add(unit + i).cast();
            let (x, y) = unjoin(load(a.add(16 * i)), load(a.add(16 * i + 8)));
            // The inputs are in [0, p): their sum needs no reduction.
            let d = _mm512_sub_epi64(_mm512_add_epi64(x, c.p), y);
            let (x, y) = (_mm512_add_epi64(x, y), c.mul(d, vector_twiddle(lines.add(4))));
            let (x, y) = two_to_one(x, y);
            let (x, y) = c.gs_plain::<false>(x, y, vector_twiddle(lines.add(2)));
            let (x, y) = two_to_four(x, y);
            let (x, y) = c.gs_plain::<false>(x, y, vector_twiddle(lines));
            let (x, y) = split(x, y);
            (v[2 * i], v[2 * i + 1]) =
                if i % 2 == 0 { c.gs_plain::<false>(x, y, w[4 + i]) } else { c.gs_plain::<true>(x, y, w[4 + i]) };
        }
        // The two layers left pair registers two and four apart.
        for j in 0..2 {
            let mut part = [v[j], v[j + 2], v[j + 4], v[j + 6]];
            inverse_registers::<4, MODE>(c, &mut part, &[w[0], w[1], w[2], w[3]]);
            [v[j], v[j + 2], v[j + 4], v[j + 6]] = part;
        }
        for (i, &v) in v.iter().enumerate() {
            store(a.add(8 * i), v);
        }
    }
}

/// Streams of the next pass over a block: 8, or less where the layers above the innermost block do not divide by three.
fn radix(len: usize) -> usize {
    match (len / MIN_DEGREE).trailing_zeros() {
        1 => 2,
        2 | 4 => 4,
        _ => 8,
    }
}

/// # Safety
/// `a` must be valid for `len` words; `node` must be a node of `len` elements of the tables; `unit` its first 16-element unit.
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn forward_rec(c: &Consts, side: &Side, a: *mut u64, len: usize, node: usize, unit: usize) {
    // SAFETY: children are parts of the block, and their nodes parts of the tables.
    unsafe {
        if len == MIN_DEGREE {
            return forward_block(c, side, a, node, unit);
        }
        let r = radix(len);
        match r {
            2 => forward_pass::<2>(c, side.nodes.as_ptr(), a, len, node),
            4 => forward_pass::<4>(c, side.nodes.as_ptr(), a, len, node),
            _ => forward_pass::<8>(c, side.nodes.as_ptr(), a, len, node),
        }
        let part = len / r;
        for i in 0..r {
            forward_rec(c, side, a.add(i * part), part, r * node + i, unit + i * part / 16);
        }
    }
}

/// # Safety
/// As for [`forward_rec`].
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn inverse_rec(c: &Consts, t: &Tables, a: *mut u64, len: usize, node: usize, unit: usize) {
    // SAFETY: children are parts of the block, and their nodes parts of the tables.
    unsafe {
        if len > MIN_DEGREE {
            let r = radix(len);
            let part = len / r;
            for i in 0..r {
                inverse_rec(c, t, a.add(i * part), part, r * node + i, unit + i * part / 16);
            }
        }
        match (node, node % 2) {
            (1, _) => inverse_node::<ROOT>(c, t, a, len, node, unit),
            (_, 1) => inverse_node::<NEGATED>(c, t, a, len, node, unit),
            _ => inverse_node::<PLAIN>(c, t, a, len, node, unit),
        }
    }
}

/// The layers of one node, its children being done.
///
/// # Safety
/// As for [`forward_rec`].
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn inverse_node<const MODE: u8>(c: &Consts, t: &Tables, a: *mut u64, len: usize, node: usize, unit: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (len, radix(len)) {
            (MIN_DEGREE, _) => inverse_block::<MODE>(c, t, a, node, unit),
            (_, 2) => inverse_pass::<2, MODE>(c, t, a, len, node),
            (_, 4) => inverse_pass::<4, MODE>(c, t, a, len, node),
            _ => inverse_pass::<8, MODE>(c, t, a, len, node),
        }
    }
}

/// Forward transform.
///
/// # Safety
/// The processor must have AVX-512 F and IFMA; the tables must have been built for `modulus < 2^50` and `a.len() >= 64`.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) unsafe fn forward(modulus: Modulus, tables: &Tables, a: &mut [u64]) {
    // SAFETY: the root node is the whole slice.
    unsafe { forward_rec(&Consts::new(modulus.value()), &tables.forward, a.as_mut_ptr(), a.len(), 1, 0) }
}

/// Inverse transform, scaled.
///
/// # Safety
/// As for [`forward`].
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) unsafe fn inverse(modulus: Modulus, tables: &Tables, a: &mut [u64]) {
    // SAFETY: the root node is the whole slice.
    unsafe { inverse_rec(&Consts::new(modulus.value()), tables, a.as_mut_ptr(), a.len(), 1, 0) }
}
