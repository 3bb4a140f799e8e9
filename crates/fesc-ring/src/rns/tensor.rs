//! Products of ciphertexts: `(a0 b0, a0 b1 + a1 b0, a1 b1)` in one pass, and the square.
//!
//! Cost for eight elements: 4 loads, 3 stores, 8 multiply-adds and three reductions of 5, 44 vector
//! operations at two per cycle: 22 cycles, which is what is measured while the operands are in the
//! second-level cache. Whole ciphertexts are not, and then the 448 bytes that move are the limit. A square
//! reads half.

use super::Prime;
#[cfg(target_arch = "x86_64")]
use super::avx512::{Consts, Sum, load, store};
use crate::cpu::{self, Path};

impl Prime {
    /// `out = (a0 b0, a0 b1 + a1 b0, a1 b1)`, slot by slot, on the best path. Operands must be reduced.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn tensor(&self, a: [&[u64]; 2], b: [&[u64]; 2], out: [&mut [u64]; 3]) {
        self.tensor_with(cpu::path(), a, b, out);
    }

    /// [`Prime::tensor`] on a given path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn tensor_with(&self, path: Path, a: [&[u64]; 2], b: [&[u64]; 2], out: [&mut [u64]; 3]) {
        self.products::<false>(path, a, b, out);
    }

    /// `out = (a0^2, 2 a0 a1, a1^2)`, slot by slot, on the best path. Operands must be reduced.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn square(&self, a: [&[u64]; 2], out: [&mut [u64]; 3]) {
        self.square_with(cpu::path(), a, out);
    }

    /// [`Prime::square`] on a given path.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn square_with(&self, path: Path, a: [&[u64]; 2], out: [&mut [u64]; 3]) {
        self.products::<true>(path, a, a, out);
    }

    fn products<const SQUARE: bool>(&self, path: Path, a: [&[u64]; 2], b: [&[u64]; 2], mut out: [&mut [u64]; 3]) {
        let len = a[0].len();
        assert!(a.iter().chain(&b).all(|x| x.len() == len), "a product of ciphertexts needs equal lengths");
        assert!(out.iter().all(|o| o.len() == len), "a product of ciphertexts needs equal lengths");
        let p = self.modulus.value();
        debug_assert!(a.iter().chain(&b).all(|x| x.iter().all(|&x| x < p)), "factors must be reduced");
        let vectors = self.vector_part(path, len);
        #[cfg(target_arch = "x86_64")]
        if vectors > 0 {
            // SAFETY: the processor has the path, all lengths are equal and at least `vectors`, that a
            // multiple of 8.
            unsafe { self.products_avx512::<SQUARE>(a, b, &mut out, vectors) };
        }
        let wide = |x: u64, y: u64| u128::from(x) * u128::from(y);
        for i in vectors..len {
            let ([a0, a1], [b0, b1]) = (a.map(|x| x[i]), b.map(|x| x[i]));
            out[0][i] = self.reduce_wide(wide(a0, b0));
            out[1][i] = self.reduce_wide(wide(a0, b1) + wide(a1, b0));
            out[2][i] = self.reduce_wide(wide(a1, b1));
        }
    }

    /// # Safety
    /// The processor must have AVX-512 F and IFMA; `len` must be a multiple of 8 and within all slices. A
    /// square does not read `b`.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512ifma")]
    unsafe fn products_avx512<const SQUARE: bool>(
        &self,
        a: [&[u64]; 2],
        b: [&[u64]; 2],
        out: &mut [&mut [u64]; 3],
        len: usize,
    ) {
        let c = Consts::new(self);
        for i in (0..len).step_by(8) {
            // SAFETY: `i + 8` is at most `len`.
            unsafe {
                let (a0, a1) = (load(a[0], i), load(a[1], i));
                let (b0, b1) = if SQUARE { (a0, a1) } else { (load(b[0], i), load(b[1], i)) };
                let zero = Sum::zero();
                store(out[0], i, c.reduce(zero.add_product(a0, b0)));
                store(out[1], i, c.reduce(zero.add_product(a0, b1).add_product(a1, b0)));
                store(out[2], i, c.reduce(zero.add_product(a1, b1)));
            }
        }
    }
}
