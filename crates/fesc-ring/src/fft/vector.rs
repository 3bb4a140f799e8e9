//! Vectors of doubles of each path, and complex numbers of them.
//!
//! All have the same operations, each rounded on its own or exact, so code that is generic over [`Vector`]
//! gives the same bits with any of them. The methods of the SIMD types become instructions only inside a
//! function compiled for their path; the passes of [`super`] see to that.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// `LANES` doubles at once.
///
/// # Safety
/// The methods run the instructions of the type: a type may be used only on a processor that has them.
pub(super) unsafe trait Vector: Copy {
    const LANES: usize;
    /// The first `LANES` numbers of a slice, which has at least as many.
    unsafe fn load(from: &[f64]) -> Self;
    unsafe fn store(self, to: &mut [f64]);
    unsafe fn add(self, o: Self) -> Self;
    unsafe fn sub(self, o: Self) -> Self;
    unsafe fn mul(self, o: Self) -> Self;
}

// SAFETY: every processor has these.
unsafe impl Vector for f64 {
    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: &[f64]) -> Self {
        from[0]
    }

    #[inline(always)]
    unsafe fn store(self, to: &mut [f64]) {
        to[0] = self;
    }

    #[inline(always)]
    unsafe fn add(self, o: Self) -> Self {
        self + o
    }

    #[inline(always)]
    unsafe fn sub(self, o: Self) -> Self {
        self - o
    }

    #[inline(always)]
    unsafe fn mul(self, o: Self) -> Self {
        self * o
    }
}

/// A vector of one processor register.
macro_rules! register {
    ($type:ty, $lanes:literal, $load:ident, $store:ident, $add:ident, $sub:ident, $mul:ident) => {
        // SAFETY: the methods are one instruction each, of the path that this register belongs to.
        #[cfg(target_arch = "x86_64")]
        unsafe impl Vector for $type {
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn load(from: &[f64]) -> Self {
                let from: &[f64] = &from[..$lanes];
                // SAFETY: the slice has as many numbers; the load needs no alignment; the caller has the
                // processor.
                unsafe { $load(from.as_ptr()) }
            }

            #[inline(always)]
            unsafe fn store(self, to: &mut [f64]) {
                let to: &mut [f64] = &mut to[..$lanes];
                // SAFETY: as above.
                unsafe { $store(to.as_mut_ptr(), self) }
            }

            #[inline(always)]
            unsafe fn add(self, o: Self) -> Self {
                // SAFETY: the caller has the processor.
                unsafe { $add(self, o) }
            }

            #[inline(always)]
            unsafe fn sub(self, o: Self) -> Self {
                // SAFETY: the caller has the processor.
                unsafe { $sub(self, o) }
            }

            #[inline(always)]
            unsafe fn mul(self, o: Self) -> Self {
                // SAFETY: the caller has the processor.
                unsafe { $mul(self, o) }
            }
        }
    };
}

register!(__m256d, 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd, _mm256_sub_pd, _mm256_mul_pd);
register!(__m512d, 8, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd, _mm512_sub_pd, _mm512_mul_pd);

/// Complex numbers, as many as a vector has lanes.
#[derive(Clone, Copy)]
pub(super) struct Complex<V> {
    pub(super) re: V,
    pub(super) im: V,
}

/// # Safety
/// All methods: as for [`Vector`].
impl<V: Vector> Complex<V> {
    #[inline(always)]
    pub(super) unsafe fn load(re: &[f64], im: &[f64]) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { Self { re: V::load(re), im: V::load(im) } }
    }

    #[inline(always)]
    pub(super) unsafe fn store(self, re: &mut [f64], im: &mut [f64]) {
        // SAFETY: the caller has the processor.
        unsafe {
            self.re.store(re);
            self.im.store(im);
        }
    }

    #[inline(always)]
    pub(super) unsafe fn add(self, o: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { Self { re: self.re.add(o.re), im: self.im.add(o.im) } }
    }

    #[inline(always)]
    pub(super) unsafe fn sub(self, o: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { Self { re: self.re.sub(o.re), im: self.im.sub(o.im) } }
    }

    #[inline(always)]
    pub(super) unsafe fn mul(self, w: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { Self { re: self.re.mul(w.re).sub(self.im.mul(w.im)), im: self.re.mul(w.im).add(self.im.mul(w.re)) } }
    }

    #[inline(always)]
    pub(super) unsafe fn mul_conjugate(self, w: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { Self { re: self.re.mul(w.re).add(self.im.mul(w.im)), im: self.im.mul(w.re).sub(self.re.mul(w.im)) } }
    }

    /// `self + i o`.
    #[inline(always)]
    pub(super) unsafe fn add_turned(self, o: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { Self { re: self.re.sub(o.im), im: self.im.add(o.re) } }
    }

    /// `self - i o`.
    #[inline(always)]
    pub(super) unsafe fn sub_turned(self, o: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { Self { re: self.re.add(o.im), im: self.im.sub(o.re) } }
    }
}
