//! The transform with AVX-512 IFMA, for primes below `2^50` and degrees from 64.
//!
//! Passes do three layers (two or one where the count asks for it) in registers, depth first, so that a block
//! that fits a cache is finished while it is there. The six layers inside each 64 elements are one pass:
//! three between registers, three inside them with expanded twiddle tables. The arithmetic is in
//! [`butterfly`].

mod butterfly;
mod lanes;
mod tables;

use crate::modulus::Modulus;
use butterfly::{Consts, Twiddle};
use lanes::{four_to_two, join, load, split, store, two_to_four, two_to_one, unjoin};
use std::arch::x86_64::*;
pub(super) use tables::Tables;
use tables::{FactorQuotient, Line, Twiddles, local_twiddles, twiddle, vector_twiddle};

/// Smallest degree of this kernel: one block of the innermost pass.
pub(super) const MIN_DEGREE: usize = 64;

/// What the last layer of a backward pass gives: values, negated values, or the scaled and reduced end
/// result.
const PLAIN: u8 = 0;
const NEGATED: u8 = 1;
const ROOT: u8 = 2;

/// `log2 R` forward layers of a block at `node`, read and written as `R` streams.
///
/// # Safety
/// `a` must be valid for `len` words, `len` a multiple of `8 R`, and the nodes of `log2 R` levels from `node`
/// inside the table.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn forward_pass<const R: usize>(c: &Consts, nodes: *const FactorQuotient, a: *mut u64, len: usize, node: usize) {
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

/// Backward counterpart of [`forward_registers`]. Odd local registers hold negated values; `MODE` rules the
/// last layer.
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

/// The last six forward layers of 64 elements.
///
/// # Safety
/// `a` must be valid for 64 words, `node` a node of 64 elements of `side`, `unit` its first 16-element unit.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn forward_block(c: &Consts, side: &Twiddles, a: *mut u64, node: usize, unit: usize) {
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

/// Streams of the next pass over a block: 8, or less where the layers above the innermost block do not divide
/// by three.
fn radix(len: usize) -> usize {
    match (len / MIN_DEGREE).trailing_zeros() {
        1 => 2,
        2 | 4 => 4,
        _ => 8,
    }
}

/// # Safety
/// `a` must be valid for `len` words; `node` must be a node of `len` elements of the tables; `unit` its first
/// 16-element unit.
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn forward_rec(c: &Consts, side: &Twiddles, a: *mut u64, len: usize, node: usize, unit: usize) {
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
/// The processor must have AVX-512 F and IFMA; the tables must have been built for `modulus < 2^50` and
/// `a.len() >= 64`.
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
