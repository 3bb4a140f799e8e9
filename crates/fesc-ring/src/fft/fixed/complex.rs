//! Complex numbers of three words, and their product.

use super::lanes::Lanes;
use super::{PLANES, RAISED, ROW, WORDS};
use crate::wide::WORD_BITS;

/// Complex numbers, as many as a vector has lanes, by word; raised or not.
#[derive(Clone, Copy)]
pub(super) struct Complex<V> {
    re: [V; WORDS],
    im: [V; WORDS],
}

/// # Safety
/// All methods: as for [`Lanes`].
impl<V: Lanes> Complex<V> {
    /// From place `at` on of planes of `len` words.
    #[inline(always)]
    pub(super) unsafe fn load(from: &[u64], len: usize, at: usize) -> Self {
        // SAFETY: the caller has the processor.
        unsafe {
            let zero = V::splat(0);
            let mut out = Self { re: [zero; WORDS], im: [zero; WORDS] };
            for i in 0..WORDS {
                out.re[i] = V::load(&from[i * len + at..]);
                out.im[i] = V::load(&from[(WORDS + i) * len + at..]);
            }
            out
        }
    }

    #[inline(always)]
    pub(super) unsafe fn store(self, to: &mut [u64], len: usize, at: usize) {
        for i in 0..WORDS {
            // SAFETY: the caller has the processor.
            unsafe {
                self.re[i].store(&mut to[i * len + at..]);
                self.im[i].store(&mut to[(WORDS + i) * len + at..]);
            }
        }
    }

    #[inline(always)]
    pub(super) unsafe fn add(mut self, o: Self) -> Self {
        for i in 0..WORDS {
            // SAFETY: the caller has the processor.
            unsafe { (self.re[i], self.im[i]) = (self.re[i].add(o.re[i]), self.im[i].add(o.im[i])) };
        }
        self
    }

    #[inline(always)]
    pub(super) unsafe fn sub(mut self, o: Self) -> Self {
        for i in 0..WORDS {
            // SAFETY: the caller has the processor.
            unsafe { (self.re[i], self.im[i]) = (self.re[i].sub(o.re[i]), self.im[i].sub(o.im[i])) };
        }
        self
    }

    /// `2^155` in both parts.
    #[inline(always)]
    unsafe fn raise() -> Self {
        // SAFETY: the caller has the processor.
        let number = unsafe { [V::splat(RAISED[0]), V::splat(RAISED[1]), V::splat(RAISED[2])] };
        Self { re: number, im: number }
    }

    #[inline(always)]
    pub(super) unsafe fn raised(self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { self.add(Self::raise()) }
    }

    #[inline(always)]
    pub(super) unsafe fn lowered(self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { self.sub(Self::raise()) }
    }

    pub(super) fn exchanged(self) -> Self {
        Self { re: self.im, im: self.re }
    }

    /// With words of 52 bits.
    #[inline(always)]
    pub(super) unsafe fn carried(self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { Self { re: carried(self.re), im: carried(self.im) } }
    }

    /// Two vectors in another order.
    #[inline(always)]
    pub(super) unsafe fn pick_two(self, o: Self, order: &[u64; 2 * ROW]) -> (Self, Self) {
        let (mut first, mut second) = (self, o);
        for i in 0..WORDS {
            // SAFETY: the caller has the processor.
            unsafe {
                first.re[i] = self.re[i].pick(o.re[i], &order[..ROW]);
                first.im[i] = self.im[i].pick(o.im[i], &order[..ROW]);
                second.re[i] = self.re[i].pick(o.re[i], &order[ROW..]);
                second.im[i] = self.im[i].pick(o.im[i], &order[ROW..]);
            }
        }
        (first, second)
    }

    /// Raised numbers times raised roots; not raised and not carried.
    #[inline(always)]
    pub(super) unsafe fn mul(self, w: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe {
            let zero = [V::splat(0); PLANES];
            let (mut re, minus) = (add_product(zero, self.re, w.re), add_product(zero, self.im, w.im));
            for i in 0..PLANES {
                re[i] = re[i].sub(minus[i]);
            }
            let im = add_product(add_product(zero, self.re, w.im), self.im, w.re);
            let mut out = Self { re: upper(re), im: upper(im) };
            for i in 0..WORDS {
                let (re, im) = (self.re[i].add(w.re[i]), self.im[i].add(w.im[i]));
                out.re[i] = out.re[i].sub(re).add(im);
                out.im[i] = out.im[i].sub(re).sub(im);
            }
            // The sum of two raised numbers is 2^156 too much.
            out.im[WORDS - 1] = out.im[WORDS - 1].add(V::splat(2 * RAISED[WORDS - 1]));
            out
        }
    }
}

/// `sums + a b`, by words.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
unsafe fn add_product<V: Lanes>(mut sums: [V; PLANES], a: [V; WORDS], b: [V; WORDS]) -> [V; PLANES] {
    for i in 0..WORDS {
        for j in 0..WORDS {
            // SAFETY: the caller has the processor.
            unsafe {
                sums[i + j] = sums[i + j].add_low(a[i], b[j]);
                sums[i + j + 1] = sums[i + j + 1].add_high(a[i], b[j]);
            }
        }
    }
    sums
}

/// Twice `sums / 2^156`, rounded to an integer; not carried.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
unsafe fn upper<V: Lanes>(sums: [V; PLANES]) -> [V; WORDS] {
    // SAFETY: the caller has the processor.
    unsafe {
        let half = V::splat(1 << (WORD_BITS - 1));
        let carry = sums[0].carry().add(sums[1]).carry().add(sums[2]).add(half).carry();
        let lowest = sums[3].add(carry);
        [lowest.add(lowest), sums[4].add(sums[4]), sums[5].add(sums[5])]
    }
}

/// # Safety
/// As for [`Lanes`].
#[inline(always)]
unsafe fn carried<V: Lanes>(x: [V; WORDS]) -> [V; WORDS] {
    // SAFETY: the caller has the processor.
    unsafe {
        let middle = x[1].add(x[0].carry());
        [x[0].word(), middle.word(), x[2].add(middle.carry()).word()]
    }
}
