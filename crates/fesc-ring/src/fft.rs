//! The complex transform of the CKKS encoder: coefficients of a real polynomial to its values at half of the
//! roots of `X^N + 1`.
//!
//! Slot `j` is `m(zeta^(5^j))`, `zeta = exp(i pi / N)`, `j < n = N / 2` (Cheon, Kim, Kim, Song, "Homomorphic
//! encryption for arithmetic of approximate numbers", section 3.2). Since `zeta^(5^j n) = i`, the `N` real
//! coefficients are `n` complex ones `c_k = m_k + i m_(k+n)`, and
//!
//! ```text
//! z_j = sum_(k < n) c_k zeta^(5^j k)
//! ```
//!
//! is the reduction of `c` modulo the factors of `X^n - i`. A node of the tree of factors at depth `t` is
//! `j mod 2^t`: its children are `j` and `j + 2^t`. Kept as `[coefficient][node]` (Stockham's order), every
//! layer reads from the parts of the vector and writes neighbours, the slots come out in order, and nothing
//! is ever bit-reversed. Two layers make one pass; with an odd number of layers the first is alone. The
//! inverse runs the passes backwards and divides by `n`, exactly.
//!
//! Real and imaginary parts are separate arrays. Twiddles are rounded from values of 156 bits, no operation
//! is fused and no `libm` is called, so results are the same bits on every path and machine. Errors grow with
//! `log n`: about `2^-52` of the root mean square of the values at `n = 32768`.
//!
//! Cost at `n = 16384`: seven passes, each reads and writes 256 KB, 34 operations per four numbers. The loads
//! and stores of the second-level cache are the limit with AVX-512, the arithmetic elsewhere.

pub mod fixed;
mod kernel;
mod roots;
#[cfg(test)]
mod tests;
mod vector;

use crate::aligned::Aligned;
use crate::cpu::{self, Path};
use fixed::FixedFft;
use kernel::{ROW, Stage, pass};
use roots::Roots;
use std::sync::OnceLock;
use vector::Vector;

/// Most slots: those of degree 65536.
pub const MAX_SLOTS: usize = 1 << 15;

/// Why there is no transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FftError {
    /// The number of slots is not supported.
    #[error("{slots} slots: a transform has a power of two from 1 to {MAX_SLOTS}")]
    Slots {
        /// Slots asked for.
        slots: usize,
    },
}

/// A plan: the twiddles of one number of slots. Immutable; share it freely.
pub struct Fft {
    slots: usize,
    stages: Vec<Stage>,
    best: Path,
    /// Few need it, and it has three times the twiddles.
    fixed: OnceLock<FixedFft>,
}

impl Fft {
    /// A plan for `slots` slots, that is degree `2 slots`.
    pub fn new(slots: usize) -> Result<Self, FftError> {
        if !slots.is_power_of_two() || slots > MAX_SLOTS {
            return Err(FftError::Slots { slots });
        }
        let order = 4 * slots;
        let roots = Roots::new(order.max(8));
        let mut stages = Vec::new();
        let mut nodes = 1;
        while nodes < slots {
            let radix = if nodes == 1 && slots.trailing_zeros() % 2 == 1 { 2 } else { 4 };
            // The child j of node j has X^(n / (2 nodes)) = exp(2 pi i 5^j / (8 nodes)); its own child half
            // the angle.
            let kinds =
                if radix == 2 { vec![order / 8 / nodes] } else { [2, 1, 3].map(|k| k * order / 16 / nodes).to_vec() };
            let row = nodes.max(ROW);
            let mut twiddles = Aligned::zeroed(2 * kinds.len() * row);
            for (step, both) in kinds.into_iter().zip(twiddles.chunks_exact_mut(2 * row)) {
                let (re, im) = both.split_at_mut(row);
                let mut power = 1;
                for (j, (re, im)) in re.iter_mut().zip(im).enumerate() {
                    power = if j % nodes == 0 { 1 } else { power * 5 % order };
                    [*re, *im] = roots.get(power * step);
                }
            }
            stages.push(Stage { nodes, radix, twiddles });
            nodes *= radix;
        }
        let best = Path::available().last().unwrap_or(Path::Portable);
        Ok(Self { slots, stages, best, fixed: OnceLock::new() })
    }

    /// Number of slots `n`.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The same transform on wide integers; planned at the first call.
    pub fn fixed(&self) -> &FixedFft {
        self.fixed.get_or_init(|| FixedFft::new(self.slots))
    }

    /// Numbers of scratch space that a transform needs.
    pub fn scratch(&self) -> usize {
        2 * self.slots
    }

    /// Coefficients `c_k` to slots `z_j`, in place, on the best path. What the scratch space holds does not
    /// matter.
    ///
    /// # Panics
    /// If a slice does not have `slots`, or the scratch space not [`Fft::scratch`] elements.
    pub fn forward(&self, re: &mut [f64], im: &mut [f64], scratch: &mut [f64]) {
        self.forward_with(cpu::path(), re, im, scratch);
    }

    /// [`Fft::forward`] on a given path.
    ///
    /// # Panics
    /// As there.
    pub fn forward_with(&self, path: Path, re: &mut [f64], im: &mut [f64], scratch: &mut [f64]) {
        self.run::<true>(path, re, im, scratch);
    }

    /// Slots to coefficients, in place, on the best path.
    ///
    /// # Panics
    /// As for [`Fft::forward`].
    pub fn inverse(&self, re: &mut [f64], im: &mut [f64], scratch: &mut [f64]) {
        self.inverse_with(cpu::path(), re, im, scratch);
    }

    /// [`Fft::inverse`] on a given path.
    ///
    /// # Panics
    /// As for [`Fft::forward`].
    pub fn inverse_with(&self, path: Path, re: &mut [f64], im: &mut [f64], scratch: &mut [f64]) {
        self.run::<false>(path, re, im, scratch);
    }

    fn run<const FORWARD: bool>(&self, path: Path, re: &mut [f64], im: &mut [f64], scratch: &mut [f64]) {
        assert!(re.len() == self.slots && im.len() == self.slots, "a transform needs as many numbers as slots");
        assert_eq!(scratch.len(), self.scratch(), "a transform needs two numbers of scratch space per slot");
        match path.min(self.best) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has the path.
            Path::Avx512 => unsafe { passes_avx512::<FORWARD>(&self.stages, re, im, scratch) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Path::Avx2 => unsafe { passes_avx2::<FORWARD>(&self.stages, re, im, scratch) },
            // SAFETY: every processor has plain numbers.
            _ => unsafe { passes::<f64, FORWARD>(&self.stages, re, im, scratch) },
        }
    }
}

/// All passes, to and fro between the data and the scratch space; at the end the result is in the data, and
/// scaled if backward.
///
/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn passes<V: Vector, const FORWARD: bool>(
    stages: &[Stage],
    re: &mut [f64],
    im: &mut [f64],
    scratch: &mut [f64],
) {
    let slots = re.len();
    let (mut other_re, mut other_im) = scratch.split_at_mut(slots);
    let (mut this_re, mut this_im) = (re, im);
    for k in 0..stages.len() {
        let stage = if FORWARD { &stages[k] } else { &stages[stages.len() - 1 - k] };
        // SAFETY: the caller's promise.
        unsafe { pass::<V, FORWARD>(stage, (&*this_re, &*this_im), (&mut *other_re, &mut *other_im)) };
        std::mem::swap(&mut this_re, &mut other_re);
        std::mem::swap(&mut this_im, &mut other_im);
    }
    // Exact: a power of two.
    let scale = if FORWARD { 1.0 } else { 1.0 / slots as f64 };
    if stages.len() % 2 == 1 {
        // The data slices are the others now.
        other_re.iter_mut().zip(&*this_re).for_each(|(o, &x)| *o = x * scale);
        other_im.iter_mut().zip(&*this_im).for_each(|(o, &x)| *o = x * scale);
    } else if !FORWARD {
        this_re.iter_mut().for_each(|x| *x *= scale);
        this_im.iter_mut().for_each(|x| *x *= scale);
    }
}

/// # Safety
/// The processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn passes_avx2<const FORWARD: bool>(stages: &[Stage], re: &mut [f64], im: &mut [f64], scratch: &mut [f64]) {
    // SAFETY: the processor has the registers.
    unsafe { passes::<std::arch::x86_64::__m256d, FORWARD>(stages, re, im, scratch) };
}

/// # Safety
/// The processor must have AVX-512 F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn passes_avx512<const FORWARD: bool>(stages: &[Stage], re: &mut [f64], im: &mut [f64], scratch: &mut [f64]) {
    // SAFETY: the processor has the registers.
    unsafe { passes::<std::arch::x86_64::__m512d, FORWARD>(stages, re, im, scratch) };
}

/// `out = round(values * factor)`, halves to even, on the best path; gives the largest `|values * factor|`.
/// What does not fit is saturated, and shows in the result; so does a value that is not a number.
///
/// # Panics
/// If the lengths differ.
pub fn scale_and_round(values: &[f64], factor: f64, out: &mut [i64]) -> f64 {
    scale_and_round_with(cpu::path(), values, factor, out)
}

/// [`scale_and_round`] on a given path.
///
/// # Panics
/// If the lengths differ.
pub fn scale_and_round_with(path: Path, values: &[f64], factor: f64, out: &mut [i64]) -> f64 {
    assert_eq!(values.len(), out.len(), "rounding needs equal lengths");
    match path.min(Path::available().last().unwrap_or(Path::Portable)) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the processor has the path.
        Path::Avx512 => unsafe { kernel::round_avx512(values, factor, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Path::Avx2 => unsafe { round_avx2(values, factor, out) },
        _ => kernel::round(values, factor, out),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn round_avx2(values: &[f64], factor: f64, out: &mut [i64]) -> f64 {
    kernel::round(values, factor, out)
}
