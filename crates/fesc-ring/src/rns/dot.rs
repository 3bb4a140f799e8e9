//! Sums of products `out[i] = sum_d a_d[i] b_d[i] mod p` with one reduction, one or two of them from one read
//! of the `a_d`.
//!
//! Two at once are the inner product of a key switch (digits with both halves of a key) and the sum of
//! ciphertexts times plaintexts (plaintexts with both halves). Digits may be read through a [`Table`]: a
//! hoisted rotation has no pass of its own.
//!
//! Cost of two sums over `D` digits, for eight elements: `4 D` multiply-adds and two reductions of 12
//! operations at two per cycle, so `2 D + 12` cycles, and `3 D` loads, which take about twice that from the
//! second-level cache. Keys are never there: `128 D` bytes of key for eight elements come from memory, and
//! that is the limit (about `10 D` ns at the 12.7 GB/s that one core reads). Packed keys ([`Packed`]) have
//! fewer bytes: 0.75 of the time at 40 bits.
//!
//! Bounds: [`Prime::depth`](Prime) products fit one sum (12 at `2^50`); longer ones are taken in parts that
//! add to the output.

use super::Prime;
#[cfg(target_arch = "x86_64")]
use super::avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::{Consts, Sum, load, store};
use super::second::{Packed, Second};
use crate::automorphism::Table;
use crate::cpu::{self, Path};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Bytes by which second factors are asked for ahead of their use. The streams of a key are more than the
/// processor's own prefetching keeps up with: 12.7 instead of 10.6 GB/s, where a plain read has 13.2.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 768;

/// How a sum reads its factors and writes its result.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mode<'a> {
    /// Add to what the output holds (which must be reduced) instead of replacing it.
    pub add: bool,
    /// Read the first factors through this permutation.
    pub order: Option<&'a Table>,
    /// The output is a part of the result: its first element belongs to this one of the factors, a multiple
    /// of 8.
    pub from: usize,
}

/// Sums of at most `depth` products, from one read of the first factors.
struct Job<'a, S, const O: usize> {
    mode: Mode<'a>,
    a: &'a [&'a [u64]],
    b: [&'a [S]; O],
}

impl Prime {
    /// `out = sum_d a[d] * b[d]` on the best path. Operands must be reduced.
    ///
    /// # Panics
    /// If the numbers of factors or the lengths differ.
    pub fn dot(&self, a: &[&[u64]], b: &[&[u64]], out: &mut [u64]) {
        self.dot_with(cpu::path(), Mode::default(), a, b, out);
    }

    /// [`Prime::dot`] on a given path and in a given mode.
    ///
    /// # Panics
    /// If the numbers of factors or the lengths differ, the part is not inside them, or the order is of
    /// another degree.
    pub fn dot_with(&self, path: Path, mode: Mode<'_>, a: &[&[u64]], b: &[&[u64]], out: &mut [u64]) {
        self.dots(path, mode, a, [b], [out]);
    }

    /// `out[0] = sum_d digits[d] * keys[0][d]` and `out[1] = sum_d digits[d] * keys[1][d]` on the best path.
    /// Operands must be reduced.
    ///
    /// # Panics
    /// If the numbers of factors or the lengths differ.
    pub fn dot2(&self, digits: &[&[u64]], keys: [&[&[u64]]; 2], out: [&mut [u64]; 2]) {
        self.dots(cpu::path(), Mode::default(), digits, keys, out);
    }

    /// [`Prime::dot2`] on a given path and in a given mode.
    ///
    /// # Panics
    /// If the numbers of factors or the lengths differ, the part is not inside them, or the order is of
    /// another degree.
    pub fn dot2_with(&self, path: Path, mode: Mode<'_>, digits: &[&[u64]], keys: [&[&[u64]]; 2], out: [&mut [u64]; 2]) {
        self.dots(path, mode, digits, keys, out);
    }

    /// [`Prime::dot2_with`] with packed second factors: at 40 bits a key is read from memory in three
    /// quarters of the time.
    ///
    /// # Panics
    /// If the numbers of factors or the lengths differ, the part is not inside them, the order is of another
    /// degree, or factors are packed for another bit length.
    pub fn dot2_packed_with(
        &self,
        path: Path,
        mode: Mode<'_>,
        digits: &[&[u64]],
        keys: [&[Packed<'_>]; 2],
        out: [&mut [u64]; 2],
    ) {
        let bits = self.modulus.bits() as usize;
        assert!(keys.iter().copied().flatten().all(|k| k.bits() == bits), "packed factors of another bit length");
        self.dots(path, mode, digits, keys, out);
    }

    /// `out = a * b`, slot by slot, on the best path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn mul(&self, a: &[u64], b: &[u64], out: &mut [u64]) {
        self.dot(&[a], &[b], out);
    }

    fn dots<S: Second, const O: usize>(
        &self,
        path: Path,
        mode: Mode<'_>,
        a: &[&[u64]],
        b: [&[S]; O],
        mut out: [&mut [u64]; O],
    ) {
        let (len, from) = (out.first().map_or(0, |o| o.len()), mode.from);
        let whole = a.first().map_or(from + len, |a| a.len());
        assert!(b.iter().all(|b| b.len() == a.len()), "a sum of products needs as many second factors as first ones");
        let equal = a.iter().all(|a| a.len() == whole) && b.iter().copied().flatten().all(|b| b.len() == whole);
        assert!(equal && out.iter().all(|o| o.len() == len), "a sum of products needs equal lengths");
        let inside = from.is_multiple_of(8) && from <= whole && len <= whole - from;
        assert!(inside, "a part of a sum starts on a multiple of 8 and ends inside it");
        assert!(mode.order.is_none_or(|t| t.degree() == whole), "a permuted sum needs the degree of its table");
        let reduced = |x: u64| x < self.modulus.value();
        debug_assert!(a.iter().all(|a| a.iter().all(|&x| reduced(x))), "factors must be reduced");
        debug_assert!(
            b.iter().copied().flatten().all(|b| (from..from + len).all(|i| reduced(b.get(i)))),
            "factors must be reduced"
        );
        if a.is_empty() && !mode.add {
            out.iter_mut().for_each(|o| o.fill(0));
        }
        let on_avx2 = path.min(self.best) == Path::Avx2;
        let registers = if on_avx2 || self.shuffles_bytes { self.any_vector_part(path, len) } else { 0 };
        let readable = b.iter().copied().flatten().fold(from + registers, |least, b| b.vector_part(least));
        let vectors = readable.saturating_sub(from);
        let depth = self.depth_on(path);
        for (k, start) in (0..a.len()).step_by(depth).enumerate() {
            let end = a.len().min(start + depth);
            let mode = Mode { add: mode.add || k > 0, ..mode };
            let job = Job { mode, a: &a[start..end], b: b.map(|b| &b[start..end]) };
            #[cfg(target_arch = "x86_64")]
            if vectors > 0 {
                // SAFETY: the processor has the path, `from + vectors` is inside the factors, which have one
                // length, and `vectors` inside the outputs; both are multiples of 8; the order is of the
                // factors' degree; at most `depth_on` products are summed.
                unsafe {
                    match (on_avx2, mode.order) {
                        (false, None) => self.dots_avx512::<S, O, false>(&job, &mut out, vectors),
                        (false, Some(_)) => self.dots_avx512::<S, O, true>(&job, &mut out, vectors),
                        (true, None) => self.dots_avx2::<S, O, false>(&job, &mut out, vectors),
                        (true, Some(_)) => self.dots_avx2::<S, O, true>(&job, &mut out, vectors),
                    }
                }
            }
            self.dots_portable(&job, &mut out, vectors);
        }
    }

    /// The elements from `from` on, in plain Rust.
    fn dots_portable<S: Second, const O: usize>(&self, job: &Job<'_, S, O>, out: &mut [&mut [u64]; O], from: usize) {
        let &Job { mode, a, b } = job;
        let len = out.first().map_or(0, |o| o.len());
        for i in from..len {
            let at = mode.order.map_or(mode.from + i, |t| t.source(mode.from + i));
            for (out, b) in out.iter_mut().zip(b) {
                // Below 2^50 + 2^11 2^100.
                let mut sum = if mode.add { u128::from(out[i]) } else { 0 };
                for (a, b) in a.iter().zip(b) {
                    sum += u128::from(a[at]) * u128::from(b.get(mode.from + i));
                }
                out[i] = self.reduce_wide(sum);
            }
        }
    }

    /// The first `len` elements with AVX2 and FMA.
    ///
    /// # Safety
    /// The processor must have AVX2 and FMA; the rest as for [`Prime::dots_avx512`], with half of `depth`.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn dots_avx2<S: Second, const O: usize, const ORDERED: bool>(
        &self,
        job: &Job<'_, S, O>,
        out: &mut [&mut [u64]; O],
        len: usize,
    ) {
        let &Job { mode, a, b } = job;
        let c = avx2::Consts::new(self);
        let Some(first) = b.first().and_then(|b| b.first()) else { return };
        // SAFETY: all reads and writes are below `len`; every `b[o]` has as many rows as `a`.
        unsafe {
            let lanes = first.quad_lanes();
            for i in (0..len).step_by(2 * avx2::QUAD) {
                let at = mode.from + i;
                let mut sums = [[avx2::Sum::of(a.len()); 2]; O];
                let sources = mode.order.filter(|_| ORDERED).map(|table| table.block_sources(at)).unwrap_or_default();
                for (d, a) in a.iter().enumerate() {
                    let x = [0, 1].map(|q| {
                        let first = avx2::QUAD * q;
                        let lane = |k: usize| *a.get_unchecked(sources[first + k]) as i64;
                        let ordered = || _mm256_set_epi64x(lane(3), lane(2), lane(1), lane(0));
                        c.factor(if ORDERED { ordered() } else { avx2::load(a, at + first) })
                    });
                    for (sums, b) in sums.iter_mut().zip(b) {
                        let y = b.get_unchecked(d).quads(at, &lanes, AHEAD);
                        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
                            *sum = c.add_product(*sum, x, c.factor(y));
                        }
                    }
                }
                for (out, sums) in out.iter_mut().zip(sums) {
                    for (q, sum) in sums.into_iter().enumerate() {
                        let place = i + avx2::QUAD * q;
                        let more = if mode.add { avx2::load(out, place) } else { _mm256_setzero_si256() };
                        avx2::store(out, place, c.reduce(sum, more));
                    }
                }
            }
        }
    }

    /// The first `len` elements with AVX-512 IFMA.
    ///
    /// # Safety
    /// The processor must have AVX-512 F, IFMA and VBMI; `len` and `mode.from` must be multiples of 8, `len`
    /// within all outputs, and their sum within all first factors and the vector part of all second ones,
    /// which must be packed alike; `ORDERED` says that there is an order, which must be of the first factors'
    /// length; at most `depth` products.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512ifma,avx512vbmi")]
    unsafe fn dots_avx512<S: Second, const O: usize, const ORDERED: bool>(
        &self,
        job: &Job<'_, S, O>,
        out: &mut [&mut [u64]; O],
        len: usize,
    ) {
        let c = Consts::new(self);
        let Some(first) = job.b.first().and_then(|b| b.first()) else { return };
        let wide = len / 32 * 32;
        // SAFETY: all reads and writes are below `len`.
        unsafe {
            let lanes = first.lanes();
            for i in (0..wide).step_by(32) {
                step::<S, O, ORDERED, 4>(&c, lanes, job, out, i);
            }
            for i in (wide..len).step_by(8) {
                step::<S, O, ORDERED, 1>(&c, lanes, job, out, i);
            }
        }
    }
}

/// `W` registers of results from element `i` on.
///
/// # Safety
/// As for [`Prime::dots_avx512`]; `8 W` outputs from `i` on must exist.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512vbmi")]
unsafe fn step<S: Second, const O: usize, const ORDERED: bool, const W: usize>(
    c: &Consts,
    lanes: S::Lanes,
    job: &Job<'_, S, O>,
    out: &mut [&mut [u64]; O],
    i: usize,
) {
    let &Job { mode, a, b } = job;
    let mut sums = [[Sum::zero(); W]; O];
    let mut places = [(0, c.zero); W];
    // SAFETY: the caller's promise; every `b[o]` has as many rows as `a`.
    unsafe {
        for (w, place) in places.iter_mut().enumerate() {
            *place = match mode.order {
                Some(table) if ORDERED => table.block_source(mode.from + i + 8 * w),
                _ => (mode.from + i + 8 * w, c.zero),
            };
        }
        for (d, a) in a.iter().enumerate() {
            for (w, &(at, order)) in places.iter().enumerate() {
                let x = load(a, at);
                let x = if ORDERED { _mm512_permutexvar_epi64(order, x) } else { x };
                for (sums, b) in sums.iter_mut().zip(b) {
                    let y = b.get_unchecked(d).register(mode.from + i + 8 * w, lanes, AHEAD);
                    sums[w] = sums[w].add_product(x, y);
                }
            }
        }
        for (out, sums) in out.iter_mut().zip(sums) {
            for (w, sum) in sums.into_iter().enumerate() {
                let mut r = c.reduce_lazy(sum);
                if mode.add {
                    r = c.fold_four(_mm512_add_epi64(r, load(out, i + 8 * w)));
                } else {
                    r = c.fold_two(r);
                }
                store(out, i + 8 * w, r);
            }
        }
    }
}
