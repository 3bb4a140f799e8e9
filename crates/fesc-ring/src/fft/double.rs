//! The transform of [`super`] in double-double arithmetic ([`crate::double`]): for integer shares, whose
//! values are far wider than a double.
//!
//! Same slots, same order, same roots. One layer per pass, in Stockham's order: with `nodes` nodes and
//! `w_j = exp(2 pi i 5^j / (8 nodes))`,
//!
//! ```text
//! y[2 nodes g + j]         = a + w_j b,     a = x[nodes g + j]
//! y[2 nodes g + nodes + j] = a - w_j b,     b = x[n / 2 + nodes g + j]
//! ```
//!
//! # Error
//! With `u = 2^-53`, a product errs by at most `5 u^2` of itself, a sum by `3 u^2 (|a| + |b|)`, a root by
//! `u^2 / 2`: a layer by at most `17 u^2` of the vector's length. So for coefficients of magnitude at most
//! `M`, whatever they are,
//!
//! ```text
//! root mean square of the slots' errors <= 4.25 * 2^-104 log2(N) sqrt(N) M.
//! ```
//!
//! That adds worst cases. Roundings of different signs add like their squares, and most are far below the
//! worst: with uniform coefficients the deviation of a slot's real or imaginary part was measured at about
//! `2^-108.4 sqrt(log2(N) N) M`, degrees up to 65536. [`DoubleFft::error`] plans with ten times that. It is
//! no worst case: a polynomial whose coefficients all add up in one slot errs there by up to `sqrt(N / 2)`
//! times as much. A masked share is not of that kind.
//!
//! # Speed
//! N = 32768, one thread of a busy Sapphire Rapids: 1.4 ms with AVX-512, 1.7 with AVX2, 3.2 to 7 portable.
//! The plan takes as long as the roots, some milliseconds, once.

#[cfg(test)]
mod tests;

use super::roots::Roots;
use super::vector::Vector;
use crate::aligned::Aligned;
use crate::cpu::{self, Path};

/// A plan for one number of slots, made by [`Fft::double`](super::Fft::double). Immutable.
pub struct DoubleFft {
    slots: usize,
    /// By layer, first the one of a single node: high parts of cosines and sines of all nodes, then low
    /// parts.
    layers: Vec<Aligned<f64>>,
    best: Path,
}

impl DoubleFft {
    /// `slots` is a power of two that [`super::Fft`] accepted.
    pub(super) fn new(slots: usize) -> Self {
        let order = 4 * slots;
        let roots = Roots::new(order.max(8));
        let layers = (0..slots.trailing_zeros()).map(|layer| {
            let nodes = 1 << layer;
            let mut twiddles = Aligned::zeroed(4 * nodes);
            let mut power = 1;
            for j in 0..nodes {
                let [re, im] = roots.get_double(power * (order / 8 / nodes));
                for (part, x) in [re.hi, im.hi, re.lo, im.lo].into_iter().enumerate() {
                    twiddles[part * nodes + j] = x;
                }
                power = power * 5 % order;
            }
            twiddles
        });
        Self { slots, layers: layers.collect(), best: Path::available().last().unwrap_or(Path::Portable) }
    }

    /// Numbers that a transform works on, and as many for its scratch space: a high and a low part for each
    /// coefficient.
    pub fn numbers(&self) -> usize {
        4 * self.slots
    }

    /// What to expect of the largest error in a slot's real or imaginary part, relative to the largest
    /// coefficient: `2^-105 sqrt(log2(N) N)`.
    pub fn error(&self) -> f64 {
        ((2 * self.slots) as f64).sqrt() * self.inverse_error()
    }

    /// The same of a coefficient, relative to the largest slot: `2^-105 sqrt(log2 N)`.
    pub fn inverse_error(&self) -> f64 {
        f64::from((2 * self.slots).trailing_zeros()).sqrt() * 2f64.powi(-105)
    }

    /// Coefficients to slots, in place, on the best path. First the high parts of all `N` coefficients, then
    /// their low parts; of slots first the real, then the imaginary ones. What the scratch space holds does
    /// not matter.
    ///
    /// # Panics
    /// If a slice does not have [`DoubleFft::numbers`] elements.
    pub fn forward(&self, numbers: &mut [f64], scratch: &mut [f64]) {
        self.forward_with(cpu::path(), numbers, scratch);
    }

    /// [`DoubleFft::forward`] on a given path.
    ///
    /// # Panics
    /// As there.
    pub fn forward_with(&self, path: Path, numbers: &mut [f64], scratch: &mut [f64]) {
        self.run::<true>(path, numbers, scratch);
    }

    /// Slots to coefficients, in place, on the best path.
    ///
    /// # Panics
    /// As for [`DoubleFft::forward`].
    pub fn inverse(&self, numbers: &mut [f64], scratch: &mut [f64]) {
        self.inverse_with(cpu::path(), numbers, scratch);
    }

    /// [`DoubleFft::inverse`] on a given path.
    ///
    /// # Panics
    /// As for [`DoubleFft::forward`].
    pub fn inverse_with(&self, path: Path, numbers: &mut [f64], scratch: &mut [f64]) {
        self.run::<false>(path, numbers, scratch);
    }

    fn run<const FORWARD: bool>(&self, path: Path, numbers: &mut [f64], scratch: &mut [f64]) {
        assert!(numbers.len() == self.numbers() && scratch.len() == self.numbers(), "four numbers per slot");
        match path.min(self.best) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has the path.
            Path::Avx512 => unsafe { passes_avx512::<FORWARD>(&self.layers, numbers, scratch) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Path::Avx2 => unsafe { passes_avx2::<FORWARD>(&self.layers, numbers, scratch) },
            // SAFETY: every processor has plain numbers.
            _ => unsafe { passes::<f64, FORWARD>(&self.layers, numbers, scratch) },
        }
    }
}

/// All passes, to and fro between the data and the scratch space; at the end the result is in the data, and
/// scaled if backward.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn passes<V: Vector, const FORWARD: bool>(layers: &[Aligned<f64>], numbers: &mut [f64], scratch: &mut [f64]) {
    let (mut this, mut other) = (numbers, scratch);
    for k in 0..layers.len() {
        let layer: &[f64] = if FORWARD { &layers[k] } else { &layers[layers.len() - 1 - k] };
        // SAFETY: the caller's promise.
        unsafe {
            if layer.len() / 4 < V::LANES {
                pass::<f64, FORWARD>(layer, this, other);
            } else {
                pass::<V, FORWARD>(layer, this, other);
            }
        }
        std::mem::swap(&mut this, &mut other);
    }
    if layers.len() % 2 == 1 {
        // The data slice is the other now.
        other.copy_from_slice(this);
        this = other;
    }
    if !FORWARD {
        // Exact: a power of two.
        let scale = 4.0 / this.len() as f64;
        this.iter_mut().for_each(|x| *x *= scale);
    }
}

/// # Safety
/// The processor must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn passes_avx2<const FORWARD: bool>(layers: &[Aligned<f64>], numbers: &mut [f64], scratch: &mut [f64]) {
    // SAFETY: the processor has the registers.
    unsafe { passes::<std::arch::x86_64::__m256d, FORWARD>(layers, numbers, scratch) };
}

/// # Safety
/// The processor must have AVX-512 F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn passes_avx512<const FORWARD: bool>(layers: &[Aligned<f64>], numbers: &mut [f64], scratch: &mut [f64]) {
    // SAFETY: the processor has the registers.
    unsafe { passes::<std::arch::x86_64::__m512d, FORWARD>(layers, numbers, scratch) };
}

/// One layer from `x` to `y`; its nodes fill whole vectors.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn pass<V: Vector, const FORWARD: bool>(twiddles: &[f64], x: &[f64], y: &mut [f64]) {
    let (nodes, slots) = (twiddles.len() / 4, x.len() / 4);
    let part = slots / 2;
    for group in 0..part / nodes {
        for j in (0..nodes).step_by(V::LANES) {
            let (apart, together) = (group * nodes + j, 2 * group * nodes + j);
            // SAFETY: the caller has the processor.
            unsafe {
                let w = Complex::<V>::load(twiddles, nodes, j);
                if FORWARD {
                    let a = Complex::<V>::load(x, slots, apart);
                    let b = Complex::<V>::load(x, slots, apart + part).mul(w);
                    a.add(b).store(y, slots, together);
                    a.sub(b).store(y, slots, together + nodes);
                } else {
                    let a = Complex::<V>::load(x, slots, together);
                    let b = Complex::<V>::load(x, slots, together + nodes);
                    a.add(b).store(y, slots, apart);
                    a.sub(b).mul(w.conjugate()).store(y, slots, apart + part);
                }
            }
        }
    }
}

/// Double-doubles, as many as a vector has lanes.
#[derive(Clone, Copy)]
struct DoubleDouble<V> {
    hi: V,
    lo: V,
}

/// # Safety
/// All methods: as for [`Vector`].
impl<V: Vector> DoubleDouble<V> {
    /// From a rounded number and a far smaller one.
    #[inline(always)]
    unsafe fn join(large: V, small: V) -> Self {
        // SAFETY: the caller has the processor.
        unsafe {
            let hi = large.add(small);
            Self { hi, lo: small.sub(hi.sub(large)) }
        }
    }

    #[inline(always)]
    unsafe fn add(self, o: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe {
            let s = self.hi.add(o.hi);
            let t = s.sub(self.hi);
            let error = self.hi.sub(s.sub(t)).add(o.hi.sub(t));
            Self::join(s, error.add(self.lo.add(o.lo)))
        }
    }

    #[inline(always)]
    unsafe fn sub(self, o: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe {
            let s = self.hi.sub(o.hi);
            let t = s.sub(self.hi);
            let error = self.hi.sub(s.sub(t)).sub(o.hi.add(t));
            Self::join(s, error.add(self.lo.sub(o.lo)))
        }
    }

    #[inline(always)]
    unsafe fn mul(self, o: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe {
            let p = self.hi.mul(o.hi);
            let error = self.hi.product_error(o.hi, p);
            Self::join(p, error.add(self.hi.mul(o.lo).add(self.lo.mul(o.hi))))
        }
    }
}

/// Complex numbers of them.
#[derive(Clone, Copy)]
struct Complex<V> {
    re: DoubleDouble<V>,
    im: DoubleDouble<V>,
}

/// # Safety
/// All methods: as for [`Vector`].
impl<V: Vector> Complex<V> {
    /// From place `at` on of arrays of `len` numbers.
    #[inline(always)]
    unsafe fn load(from: &[f64], len: usize, at: usize) -> Self {
        // SAFETY: the caller has the processor.
        unsafe {
            Self {
                re: DoubleDouble { hi: V::load(&from[at..]), lo: V::load(&from[2 * len + at..]) },
                im: DoubleDouble { hi: V::load(&from[len + at..]), lo: V::load(&from[3 * len + at..]) },
            }
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: &mut [f64], len: usize, at: usize) {
        // SAFETY: the caller has the processor.
        unsafe {
            self.re.hi.store(&mut to[at..]);
            self.im.hi.store(&mut to[len + at..]);
            self.re.lo.store(&mut to[2 * len + at..]);
            self.im.lo.store(&mut to[3 * len + at..]);
        }
    }

    #[inline(always)]
    unsafe fn add(self, o: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { Self { re: self.re.add(o.re), im: self.im.add(o.im) } }
    }

    #[inline(always)]
    unsafe fn sub(self, o: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { Self { re: self.re.sub(o.re), im: self.im.sub(o.im) } }
    }

    #[inline(always)]
    unsafe fn mul(self, w: Self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe { Self { re: self.re.mul(w.re).sub(self.im.mul(w.im)), im: self.re.mul(w.im).add(self.im.mul(w.re)) } }
    }

    #[inline(always)]
    unsafe fn conjugate(self) -> Self {
        // SAFETY: the caller has the processor.
        unsafe {
            let zero = self.im.hi.sub(self.im.hi);
            Self { re: self.re, im: DoubleDouble { hi: zero.sub(self.im.hi), lo: zero.sub(self.im.lo) } }
        }
    }
}
