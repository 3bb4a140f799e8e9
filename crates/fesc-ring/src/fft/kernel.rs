//! The passes of the transform, written once for any [`Vector`].
//!
//! A pass has a *coefficient side*, `R` parts of the vector that are read in step, and a *slot side*, groups
//! of `R nodes` neighbours. When a node's run is shorter than a vector, the slot side of `R` vectors is one
//! run of `R LANES` numbers in another order, which goes through a small array. Every number is the result of
//! the same operations in the same order, whatever the vector.

use super::vector::{Complex, Vector};
use crate::aligned::Aligned;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Twiddles are repeated up to this many: the lanes of the widest vector.
pub(super) const ROW: usize = 8;
/// Numbers of the widest short run: four vectors of eight.
const RUN: usize = 32;

/// One pass: layers from `nodes` nodes to `radix` times as many.
pub(super) struct Stage {
    pub(super) nodes: usize,
    /// 2 (of the first stage alone) or 4.
    pub(super) radix: usize,
    /// Real and imaginary parts by twiddle, each `nodes` numbers, repeated up to [`ROW`].
    pub(super) twiddles: Aligned<f64>,
}

impl Stage {
    /// A vector of twiddles of a kind from node `at` on.
    ///
    /// # Safety
    /// As for [`Vector`].
    #[inline(always)]
    unsafe fn twiddle<V: Vector>(&self, kind: usize, at: usize) -> Complex<V> {
        let row = self.nodes.max(ROW);
        let start = 2 * kind * row + at;
        // SAFETY: the caller has the processor.
        unsafe { Complex::load(&self.twiddles[start..], &self.twiddles[start + row..]) }
    }

    /// The twiddles of the inputs 2, 1 and 3, or that of input 1 three times.
    ///
    /// # Safety
    /// As for [`Vector`].
    #[inline(always)]
    unsafe fn twiddles<V: Vector, const R: usize>(&self, at: usize) -> [Complex<V>; 3] {
        // SAFETY: the caller has the processor.
        unsafe {
            let first = self.twiddle(0, at);
            if R == 4 { [first, self.twiddle(1, at), self.twiddle(2, at)] } else { [first; 3] }
        }
    }
}

/// Two layers; outputs in the order of the nodes. The odd children of the root are the other way round than
/// those of all other nodes, because `5 = 1 + 4` but `5^(2^t) = 1 + 3 2^(t+2) mod 2^(t+4)` for `t > 0`.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn forward_four<V: Vector>(x: [Complex<V>; 4], w: [Complex<V>; 3], root: bool) -> [Complex<V>; 4] {
    // SAFETY: the caller has the processor.
    unsafe {
        let (x1, x2, x3) = (x[1].mul(w[1]), x[2].mul(w[0]), x[3].mul(w[2]));
        let (sum, difference) = (x[0].add(x2), x[0].sub(x2));
        let (odd_sum, odd_difference) = (x1.add(x3), x1.sub(x3));
        let (minus, plus) = (difference.sub_turned(odd_difference), difference.add_turned(odd_difference));
        let (second, fourth) = if root { (plus, minus) } else { (minus, plus) };
        [sum.add(odd_sum), second, sum.sub(odd_sum), fourth]
    }
}

/// The inverse of [`forward_four`], times 4.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn inverse_four<V: Vector>(y: [Complex<V>; 4], w: [Complex<V>; 3], root: bool) -> [Complex<V>; 4] {
    // SAFETY: the caller has the processor.
    unsafe {
        let (minus, plus) = if root { (y[3], y[1]) } else { (y[1], y[3]) };
        let (sum, difference) = (y[0].add(y[2]), minus.add(plus));
        let (odd_sum, odd_difference) = (y[0].sub(y[2]), minus.sub(plus));
        [
            sum.add(difference),
            odd_sum.add_turned(odd_difference).mul_conjugate(w[1]),
            sum.sub(difference).mul_conjugate(w[0]),
            odd_sum.sub_turned(odd_difference).mul_conjugate(w[2]),
        ]
    }
}

/// The butterfly of a pass on `R` vectors.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn butterfly<V: Vector, const FORWARD: bool, const R: usize>(
    v: &mut [Complex<V>; R],
    w: [Complex<V>; 3],
    root: bool,
) {
    // SAFETY: the caller has the processor.
    unsafe {
        if let [a, b] = v.as_mut_slice() {
            let product = b.mul(w[0]);
            [*a, *b] =
                if FORWARD { [a.add(product), a.sub(product)] } else { [a.add(*b), a.sub(*b).mul_conjugate(w[0])] };
        } else if let [a, b, c, d] = v.as_mut_slice() {
            let x = [*a, *b, *c, *d];
            [*a, *b, *c, *d] = if FORWARD { forward_four(x, w, root) } else { inverse_four(x, w, root) };
        }
    }
}

/// Borrowed complex input and output of a pass.
pub(super) type Input<'a> = (&'a [f64], &'a [f64]);
pub(super) type Output<'a> = (&'a mut [f64], &'a mut [f64]);

/// `R` vectors, `step` numbers apart. No closure: one would not be compiled for the path.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn load_all<V: Vector, const R: usize>(from: Input<'_>, at: usize, step: usize) -> [Complex<V>; R] {
    // SAFETY: the caller has the processor.
    unsafe {
        let mut v = [Complex::load(&from.0[at..], &from.1[at..]); R];
        let mut a = 1;
        while a < R {
            v[a] = Complex::load(&from.0[at + a * step..], &from.1[at + a * step..]);
            a += 1;
        }
        v
    }
}

/// The counterpart of [`load_all`].
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn store_all<V: Vector, const R: usize>(v: &[Complex<V>; R], to: Output<'_>, at: usize, step: usize) {
    let mut a = 0;
    while a < R {
        // SAFETY: the caller has the processor.
        unsafe { v[a].store(&mut to.0[at + a * step..], &mut to.1[at + a * step..]) };
        a += 1;
    }
}

/// A pass whose nodes are fewer than lanes: a vector holds whole groups of `NODES`.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn narrow<V: Vector, const FORWARD: bool, const R: usize, const NODES: usize>(
    stage: &Stage,
    x: Input<'_>,
    y: Output<'_>,
) {
    let part = x.0.len() / R;
    let run = R * V::LANES;
    let place = |lane: usize, b: usize| lane / NODES * R * NODES + b * NODES + lane % NODES;
    // By input or output of the butterfly, then by lane.
    let (mut re, mut im) = ([0.0; RUN], [0.0; RUN]);
    // SAFETY: the caller has the processor.
    unsafe {
        let w = stage.twiddles::<V, R>(0);
        for at in (0..part).step_by(V::LANES) {
            let slots = R * at..R * at + run;
            if FORWARD {
                let mut v = load_all::<V, R>(x, at, part);
                butterfly::<V, FORWARD, R>(&mut v, w, NODES == 1);
                store_all::<V, R>(&v, (&mut re, &mut im), 0, V::LANES);
                let (to_re, to_im) = (&mut y.0[slots.clone()], &mut y.1[slots]);
                for b in 0..R {
                    for lane in 0..V::LANES {
                        to_re[place(lane, b)] = re[b * V::LANES + lane];
                        to_im[place(lane, b)] = im[b * V::LANES + lane];
                    }
                }
            } else {
                let (from_re, from_im) = (&x.0[slots.clone()], &x.1[slots]);
                for b in 0..R {
                    for lane in 0..V::LANES {
                        re[b * V::LANES + lane] = from_re[place(lane, b)];
                        im[b * V::LANES + lane] = from_im[place(lane, b)];
                    }
                }
                let mut v = load_all::<V, R>((&re, &im), 0, V::LANES);
                butterfly::<V, FORWARD, R>(&mut v, w, NODES == 1);
                store_all::<V, R>(&v, (&mut *y.0, &mut *y.1), at, part);
            }
        }
    }
}

/// A pass whose nodes fill vectors: runs of whole vectors on both sides.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn wide<V: Vector, const FORWARD: bool, const R: usize>(stage: &Stage, x: Input<'_>, y: Output<'_>) {
    let (nodes, part) = (stage.nodes, x.0.len() / R);
    for group in 0..part / nodes {
        for j in (0..nodes).step_by(V::LANES) {
            let (apart, together) = (group * nodes + j, group * R * nodes + j);
            let (from, from_step, to, to_step) =
                if FORWARD { (apart, part, together, nodes) } else { (together, nodes, apart, part) };
            // SAFETY: the caller has the processor.
            unsafe {
                let mut v = load_all::<V, R>(x, from, from_step);
                let w = stage.twiddles::<V, R>(j);
                butterfly::<V, FORWARD, R>(&mut v, w, nodes == 1);
                store_all::<V, R>(&v, (&mut *y.0, &mut *y.1), to, to_step);
            }
        }
    }
}

/// One pass from `x` to `y`.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
pub(super) unsafe fn pass<V: Vector, const FORWARD: bool>(stage: &Stage, x: Input<'_>, y: Output<'_>) {
    // One number at a time where the parts are shorter than a vector, or the vector is one number.
    let single = x.0.len() / stage.radix < V::LANES || V::LANES == 1;
    // SAFETY: the caller has the processor.
    unsafe {
        match (stage.radix, stage.nodes) {
            (2, _) if single => wide::<f64, FORWARD, 2>(stage, x, y),
            (2, _) => narrow::<V, FORWARD, 2, 1>(stage, x, y),
            (_, _) if single => wide::<f64, FORWARD, 4>(stage, x, y),
            (_, 1) => narrow::<V, FORWARD, 4, 1>(stage, x, y),
            (_, 2) => narrow::<V, FORWARD, 4, 2>(stage, x, y),
            (_, 4) if V::LANES > 4 => narrow::<V, FORWARD, 4, 4>(stage, x, y),
            _ => wide::<V, FORWARD, 4>(stage, x, y),
        }
    }
}

/// `out = round(values * factor)`, halves to even, saturating; gives the largest magnitude before rounding,
/// which is not a number if one of them is not.
#[inline(always)]
pub(super) fn round(values: &[f64], factor: f64, out: &mut [i64]) -> f64 {
    out.iter_mut().zip(values).for_each(|(o, &v)| *o = (v * factor).round_ties_even() as i64);
    // The bits of non-negative doubles are in their order, and those of NaN above all.
    f64::from_bits(values.iter().fold(0, |largest, &v| largest.max((v * factor).abs().to_bits())))
}

/// [`round`] with AVX-512, whose conversion rounds to even by itself. What does not fit becomes the least
/// integer there.
///
/// # Safety
/// The processor must have AVX-512 F and DQ.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn round_avx512(values: &[f64], factor: f64, out: &mut [i64]) -> f64 {
    let (whole, tail) = values.as_chunks::<8>();
    let (out_whole, out_tail) = out.as_chunks_mut::<8>();
    let (scale, limit) = (_mm512_set1_pd(factor), _mm512_set1_pd(9_223_372_036_854_775_808.0));
    let mut largest = _mm512_setzero_si512();
    for (values, out) in whole.iter().zip(out_whole) {
        // SAFETY: both are eight numbers; the load and the store need no alignment.
        unsafe {
            let x = _mm512_mul_pd(_mm512_loadu_pd(values.as_ptr()), scale);
            largest = _mm512_max_epu64(largest, _mm512_castpd_si512(_mm512_abs_pd(x)));
            let above = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(x, limit);
            let number = _mm512_cmp_pd_mask::<_CMP_ORD_Q>(x, x);
            let y = _mm512_mask_mov_epi64(_mm512_cvtpd_epi64(x), above, _mm512_set1_epi64(i64::MAX));
            _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_maskz_mov_epi64(number, y));
        }
    }
    let rest = round(tail, factor, out_tail).to_bits();
    f64::from_bits(rest.max(_mm512_reduce_max_epu64(largest)))
}
