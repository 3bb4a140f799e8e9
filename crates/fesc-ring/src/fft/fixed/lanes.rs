//! Words of 52 bits in lanes of 64, one at a time or eight in a register.
//!
//! Sums of words may leave 52 bits, as numbers with a sign, before they are carried. All operations are exact
//! modulo `2^64`, so code that is generic over [`Lanes`] gives the same bits with either. As in
//! [`crate::fft::vector`], the methods become instructions only inside a function compiled for their path.

use crate::wide::{WORD, WORD_BITS};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// `LANES` words at once.
///
/// # Safety
/// The methods run the instructions of the type: a type may be used only on a processor that has them.
pub(super) unsafe trait Lanes: Copy {
    const LANES: usize;
    /// The first `LANES` words of a slice, which has at least as many.
    unsafe fn load(from: &[u64]) -> Self;
    unsafe fn store(self, to: &mut [u64]);
    unsafe fn splat(x: u64) -> Self;
    unsafe fn add(self, o: Self) -> Self;
    unsafe fn sub(self, o: Self) -> Self;
    /// `self` and the low word of `a b`.
    unsafe fn add_low(self, a: Self, b: Self) -> Self;
    /// `self` and the high word of `a b`.
    unsafe fn add_high(self, a: Self, b: Self) -> Self;
    /// What is above 52 bits, with its sign.
    unsafe fn carry(self) -> Self;
    /// The low 52 bits.
    unsafe fn word(self) -> Self;
    /// Lane `l` is lane `from[l]` of `self` and `o` in a row.
    unsafe fn pick(self, o: Self, from: &[u64]) -> Self;
}

// SAFETY: every processor has these.
unsafe impl Lanes for u64 {
    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: &[u64]) -> Self {
        from[0]
    }

    #[inline(always)]
    unsafe fn store(self, to: &mut [u64]) {
        to[0] = self;
    }

    #[inline(always)]
    unsafe fn splat(x: u64) -> Self {
        x
    }

    #[inline(always)]
    unsafe fn add(self, o: Self) -> Self {
        self.wrapping_add(o)
    }

    #[inline(always)]
    unsafe fn sub(self, o: Self) -> Self {
        self.wrapping_sub(o)
    }

    #[inline(always)]
    unsafe fn add_low(self, a: Self, b: Self) -> Self {
        self.wrapping_add(a.wrapping_mul(b) & WORD)
    }

    #[inline(always)]
    unsafe fn add_high(self, a: Self, b: Self) -> Self {
        self.wrapping_add(((u128::from(a) * u128::from(b)) >> WORD_BITS) as u64)
    }

    #[inline(always)]
    unsafe fn carry(self) -> Self {
        ((self as i64) >> WORD_BITS) as u64
    }

    #[inline(always)]
    unsafe fn word(self) -> Self {
        self & WORD
    }

    #[inline(always)]
    unsafe fn pick(self, o: Self, from: &[u64]) -> Self {
        // Which lane is public.
        if from[0] == 0 { self } else { o }
    }
}

// SAFETY: the methods are AVX-512 F and IFMA.
#[cfg(target_arch = "x86_64")]
unsafe impl Lanes for __m512i {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn load(from: &[u64]) -> Self {
        let from: &[u64] = &from[..8];
        // SAFETY: the slice has eight words; the load needs no alignment; the caller has the processor.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: &mut [u64]) {
        let to: &mut [u64] = &mut to[..8];
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), self) }
    }

    #[inline(always)]
    unsafe fn splat(x: u64) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { _mm512_set1_epi64(x as i64) }
    }

    #[inline(always)]
    unsafe fn add(self, o: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { _mm512_add_epi64(self, o) }
    }

    #[inline(always)]
    unsafe fn sub(self, o: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { _mm512_sub_epi64(self, o) }
    }

    #[inline(always)]
    unsafe fn add_low(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { _mm512_madd52lo_epu64(self, a, b) }
    }

    #[inline(always)]
    unsafe fn add_high(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { _mm512_madd52hi_epu64(self, a, b) }
    }

    #[inline(always)]
    unsafe fn carry(self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { _mm512_srai_epi64::<WORD_BITS>(self) }
    }

    #[inline(always)]
    unsafe fn word(self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { _mm512_and_si512(self, Self::splat(WORD)) }
    }

    #[inline(always)]
    unsafe fn pick(self, o: Self, from: &[u64]) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { _mm512_permutex2var_epi64(self, Self::load(from), o) }
    }
}
