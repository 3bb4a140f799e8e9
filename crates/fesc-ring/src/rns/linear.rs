//! Passes over one or two vectors: sums, differences, products by a constant, `(a - b) c`, residues of signed
//! integers.
//!
//! `(a - b) c` is the end of every division by a product of primes (`b` the remainder, `c` the inverse of the
//! divisor), with or without a sum into the output. All these passes move 2 to 4 words per element and
//! compute for at most 6 cycles per eight: the memory is the limit. Sums and differences are one plain loop,
//! compiled for each path; so is what the other paths than AVX-512 run of the rest.

use super::Prime;
#[cfg(target_arch = "x86_64")]
use super::avx512::{Consts, Factor, Sum, load, store};
use crate::cpu::{self, Path};
use crate::modulus::Shoup;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Where `(a - b) c` goes.
enum Destination<'a> {
    /// To a vector, replacing it.
    Replace(&'a [u64], &'a mut [u64]),
    /// To a vector, adding.
    Add(&'a [u64], &'a mut [u64]),
    /// To `a` itself.
    Assign(&'a mut [u64]),
}

#[inline(always)]
fn map_body(out: &mut [u64], a: &[u64], b: &[u64], f: impl Fn(u64, u64) -> u64) {
    out.iter_mut().zip(a.iter().zip(b)).for_each(|(o, (&a, &b))| *o = f(a, b));
}

#[inline(always)]
fn update_body(out: &mut [u64], b: &[u64], f: impl Fn(u64, u64) -> u64) {
    out.iter_mut().zip(b).for_each(|(o, &b)| *o = f(*o, b));
}

/// The loop compiled for AVX2 and for AVX-512.
#[cfg(target_arch = "x86_64")]
mod compiled {
    use super::{map_body, update_body};

    #[target_feature(enable = "avx2")]
    pub(super) fn map_avx2(out: &mut [u64], a: &[u64], b: &[u64], f: impl Fn(u64, u64) -> u64) {
        map_body(out, a, b, f);
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512dq")]
    pub(super) fn map_avx512(out: &mut [u64], a: &[u64], b: &[u64], f: impl Fn(u64, u64) -> u64) {
        map_body(out, a, b, f);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn update_avx2(out: &mut [u64], b: &[u64], f: impl Fn(u64, u64) -> u64) {
        update_body(out, b, f);
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512dq")]
    pub(super) fn update_avx512(out: &mut [u64], b: &[u64], f: impl Fn(u64, u64) -> u64) {
        update_body(out, b, f);
    }
}

/// `a + b` or `a - b` of reduced operands as `fold(a + b')`, without a branch and without checks that would
/// stop the compiler.
#[inline(always)]
fn add_one(p: u64, a: u64, b: u64) -> u64 {
    let y = a.wrapping_add(b).wrapping_sub(p);
    y.wrapping_add(p & ((y as i64) >> 63) as u64)
}

#[inline(always)]
fn sub_one(p: u64, a: u64, b: u64) -> u64 {
    let y = a.wrapping_sub(b);
    y.wrapping_add(p & ((y as i64) >> 63) as u64)
}

impl Prime {
    fn map(&self, path: Path, a: &[u64], b: &[u64], out: &mut [u64], f: impl Fn(u64, u64) -> u64) {
        assert!(a.len() == out.len() && b.len() == out.len(), "a sum of vectors needs equal lengths");
        match path.min(self.best) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has the path.
            Path::Avx512 => unsafe { compiled::map_avx512(out, a, b, f) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Path::Avx2 => unsafe { compiled::map_avx2(out, a, b, f) },
            _ => map_body(out, a, b, f),
        }
    }

    fn update(&self, path: Path, out: &mut [u64], b: &[u64], f: impl Fn(u64, u64) -> u64) {
        assert_eq!(b.len(), out.len(), "a sum of vectors needs equal lengths");
        match path.min(self.best) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has the path.
            Path::Avx512 => unsafe { compiled::update_avx512(out, b, f) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Path::Avx2 => unsafe { compiled::update_avx2(out, b, f) },
            _ => update_body(out, b, f),
        }
    }

    /// `out = a + b` of reduced operands.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add(&self, a: &[u64], b: &[u64], out: &mut [u64]) {
        self.add_with(cpu::path(), a, b, out);
    }

    /// [`Prime::add`] on a given path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add_with(&self, path: Path, a: &[u64], b: &[u64], out: &mut [u64]) {
        let p = self.modulus.value();
        self.map(path, a, b, out, |a, b| add_one(p, a, b));
    }

    /// `out = a - b` of reduced operands.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sub(&self, a: &[u64], b: &[u64], out: &mut [u64]) {
        self.sub_with(cpu::path(), a, b, out);
    }

    /// [`Prime::sub`] on a given path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sub_with(&self, path: Path, a: &[u64], b: &[u64], out: &mut [u64]) {
        let p = self.modulus.value();
        self.map(path, a, b, out, |a, b| sub_one(p, a, b));
    }

    /// `a += b` of reduced operands.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add_assign(&self, a: &mut [u64], b: &[u64]) {
        self.add_assign_with(cpu::path(), a, b);
    }

    /// [`Prime::add_assign`] on a given path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add_assign_with(&self, path: Path, a: &mut [u64], b: &[u64]) {
        let p = self.modulus.value();
        self.update(path, a, b, |a, b| add_one(p, a, b));
    }

    /// `a -= b` of reduced operands.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sub_assign(&self, a: &mut [u64], b: &[u64]) {
        self.sub_assign_with(cpu::path(), a, b);
    }

    /// [`Prime::sub_assign`] on a given path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sub_assign_with(&self, path: Path, a: &mut [u64], b: &[u64]) {
        let p = self.modulus.value();
        self.update(path, a, b, |a, b| sub_one(p, a, b));
    }

    /// `out = -a` of a reduced operand.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn neg(&self, a: &[u64], out: &mut [u64]) {
        let p = self.modulus.value();
        self.map(cpu::path(), a, a, out, |a, _| sub_one(p, 0, a));
    }

    /// `x = x * factor` for any `x` below `2^52` (residues of other primes too); the result is reduced.
    /// The factor is [`crate::modulus::Modulus::shoup`] of this prime.
    pub fn scale_assign(&self, factor: Shoup, x: &mut [u64]) {
        self.scale_assign_with(cpu::path(), factor, x);
    }

    /// [`Prime::scale_assign`] on a given path.
    pub fn scale_assign_with(&self, path: Path, factor: Shoup, x: &mut [u64]) {
        debug_assert!(x.iter().all(|&x| x >> 52 == 0), "operands must be below 2^52");
        let vectors = self.vector_part(path, x.len());
        #[cfg(target_arch = "x86_64")]
        if vectors > 0 {
            // SAFETY: the processor has the path, `vectors` is a multiple of 8 within the slice.
            unsafe { self.scale_avx512(factor, x, vectors) };
        }
        x[vectors..].iter_mut().for_each(|x| *x = self.modulus.mul_shoup(*x, factor));
    }

    /// `out = (a - b) * factor` of reduced operands, on the best path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sub_scale(&self, factor: Shoup, a: &[u64], b: &[u64], out: &mut [u64]) {
        self.sub_scale_with(cpu::path(), factor, a, b, out);
    }

    /// [`Prime::sub_scale`] on a given path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sub_scale_with(&self, path: Path, factor: Shoup, a: &[u64], b: &[u64], out: &mut [u64]) {
        self.difference(path, factor, Destination::Replace(a, out), b);
    }

    /// `out += (a - b) * factor` of reduced operands, on the best path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sub_scale_add(&self, factor: Shoup, a: &[u64], b: &[u64], out: &mut [u64]) {
        self.sub_scale_add_with(cpu::path(), factor, a, b, out);
    }

    /// [`Prime::sub_scale_add`] on a given path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sub_scale_add_with(&self, path: Path, factor: Shoup, a: &[u64], b: &[u64], out: &mut [u64]) {
        self.difference(path, factor, Destination::Add(a, out), b);
    }

    /// `a = (a - b) * factor` of reduced operands, on the best path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sub_scale_assign(&self, factor: Shoup, a: &mut [u64], b: &[u64]) {
        self.sub_scale_assign_with(cpu::path(), factor, a, b);
    }

    /// [`Prime::sub_scale_assign`] on a given path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn sub_scale_assign_with(&self, path: Path, factor: Shoup, a: &mut [u64], b: &[u64]) {
        self.difference(path, factor, Destination::Assign(a), b);
    }

    fn difference(&self, path: Path, factor: Shoup, into: Destination<'_>, b: &[u64]) {
        let (len, equal) = match &into {
            Destination::Replace(a, out) | Destination::Add(a, out) => (out.len(), a.len() == out.len()),
            Destination::Assign(a) => (a.len(), true),
        };
        assert!(equal && b.len() == len, "a scaled difference needs equal lengths");
        let vectors = self.vector_part(path, len);
        let m = self.modulus;
        let one = |a: u64, b: u64| m.mul_shoup(m.sub(a, b), factor);
        let (a, out, add) = match into {
            Destination::Replace(a, out) => (Some(a), out, false),
            Destination::Add(a, out) => (Some(a), out, true),
            Destination::Assign(out) => (None, out, false),
        };
        #[cfg(target_arch = "x86_64")]
        if vectors > 0 {
            // SAFETY: the processor has the path; all lengths are equal, `vectors` is a multiple of 8 within
            // them.
            unsafe { self.difference_avx512(factor, a, b, out, add, vectors) };
        }
        for i in vectors..len {
            let value = one(a.map_or(out[i], |a| a[i]), b[i]);
            out[i] = if add { m.add(out[i], value) } else { value };
        }
    }

    /// Residues of any signed 64-bit integers, on the best path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn reduce_signed(&self, values: &[i64], out: &mut [u64]) {
        self.reduce_signed_with(cpu::path(), values, out);
    }

    /// [`Prime::reduce_signed`] on a given path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn reduce_signed_with(&self, path: Path, values: &[i64], out: &mut [u64]) {
        assert_eq!(values.len(), out.len(), "a reduction needs equal lengths");
        let vectors = self.vector_part(path, out.len());
        #[cfg(target_arch = "x86_64")]
        if vectors > 0 {
            // SAFETY: the processor has the path; both lengths are equal, `vectors` is a multiple of 8 within
            // them.
            unsafe { self.reduce_signed_avx512(values, out, vectors) };
        }
        let m = self.modulus;
        for (o, &v) in out[vectors..].iter_mut().zip(&values[vectors..]) {
            // A negative number read as a word is 2^64 too large.
            let excess = self.word.value & ((v >> 63) as u64);
            *o = m.sub(m.mul_shoup(v as u64, self.one), excess);
        }
    }

    /// # Safety
    /// The processor must have AVX-512 F and IFMA; `len` must be a multiple of 8 within the slice.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512ifma")]
    unsafe fn scale_avx512(&self, factor: Shoup, x: &mut [u64], len: usize) {
        let (c, w) = (Consts::new(self), Factor::new(factor));
        for i in (0..len).step_by(8) {
            // SAFETY: `i + 8` is at most `len`.
            unsafe { store(x, i, c.fold_two(c.times(load(x, i), w))) };
        }
    }

    /// # Safety
    /// The processor must have AVX-512 F and IFMA; `len` must be a multiple of 8 within all slices. Without
    /// `a` the output is read for it.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512ifma")]
    unsafe fn difference_avx512(
        &self,
        factor: Shoup,
        a: Option<&[u64]>,
        b: &[u64],
        out: &mut [u64],
        add: bool,
        len: usize,
    ) {
        let (c, w) = (Consts::new(self), Factor::new(factor));
        for i in (0..len).step_by(8) {
            // SAFETY: `i + 8` is at most `len`.
            unsafe {
                let x = match a {
                    Some(a) => load(a, i),
                    None => load(out, i),
                };
                // In (0, 2p), which Shoup's product takes.
                let d = _mm512_sub_epi64(_mm512_add_epi64(x, c.p), load(b, i));
                let mut r = c.times(d, w);
                if add {
                    r = c.fold_four(_mm512_add_epi64(r, load(out, i)));
                } else {
                    r = c.fold_two(r);
                }
                store(out, i, r);
            }
        }
    }

    /// # Safety
    /// The processor must have AVX-512 F and IFMA; `len` must be a multiple of 8 within both slices.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512ifma")]
    unsafe fn reduce_signed_avx512(&self, values: &[i64], out: &mut [u64], len: usize) {
        let c = Consts::new(self);
        let set = |x: u64| _mm512_set1_epi64(x as i64);
        // The high part is made positive by 2^11, that is 2^63 in all.
        let offset = set(1 << 11);
        let back = set(self.modulus.value() - self.modulus.reduce(1 << 63));
        let low52 = set((1 << 52) - 1);
        for i in (0..len).step_by(8) {
            // SAFETY: `i + 8` is at most `len`.
            unsafe {
                let x = _mm512_loadu_si512(values.as_ptr().add(i).cast());
                let hi = _mm512_add_epi64(_mm512_srai_epi64::<52>(x), offset);
                let r = c.reduce_lazy(Sum::new(_mm512_and_si512(x, low52), hi));
                store(out, i, c.fold_four(_mm512_add_epi64(r, back)));
            }
        }
    }
}
