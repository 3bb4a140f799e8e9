//! The transform of [`super`] on wide integers: for shares of polynomials, whose values are far wider than a
//! double.
//!
//! Same slots, same order, same roots. Numbers have 156 bits, three words of 52: the operands of AVX-512
//! IFMA, eight numbers at a time, and of a plain multiplication elsewhere. One layer per pass, in Stockham's
//! order: with `nodes` nodes and `w_j = exp(2 pi i 5^j / (8 nodes))`,
//!
//! ```text
//! y[2 nodes g + j]         = a + w_j b,     a = x[nodes g + j]
//! y[2 nodes g + nodes + j] = a - w_j b,     b = x[n / 2 + nodes g + j]
//! ```
//!
//! Products of words have no sign, so everything is *raised* by `2^155`: numbers are kept as `A = a + 2^155`,
//! and a root `w` as `W = (w + 1) 2^155`, below `2^156`. Then a product is exact but for one rounding,
//!
//! ```text
//! a w - b v = 2 (A W - B V) / 2^156 - (A - B) - (W - V),
//! ```
//!
//! the division leaves whole words, and the doubling, like all sums, is done before carries move up.
//!
//! # Error
//! For numbers of at most `2^(bits + 1)`, `bits` public, unit `u = 2^(bits + log2(n) - 153)`: nothing on the
//! way exceeds `2^155` units. A product errs by at most `sqrt(2) u` and by `ROOT_ERROR` of its operand. In
//! layer `t` numbers are at most `2^t sqrt(2) 2^(bits + 1)`, twice that backward, and `n / 2^(t+1)` of them
//! end up in one result. So whatever the numbers are, a slot errs by at most
//!
//! ```text
//! sqrt(2) n u + 2 sqrt(2) n log2(n) ROOT_ERROR 2^bits,
//! ```
//!
//! and a coefficient, divided by `n` exactly, by as much less. A [`Factor`] adds less than `2 u`.
//! [`FixedFft::error`] is above all of it: `2^-123.8` of `2^bits` at `N = 32768`.
//!
//! Integers only: results are the same bits on every path and machine. Time does not depend on the numbers.
//!
//! # Speed
//! N = 32768, one thread of a busy AMD EPYC: 0.3 to 0.6 ms with AVX-512, 4.2 to 5 portable, which AVX2 takes
//! too. The plan takes 1.5 ms, once.

mod complex;
mod lanes;
mod numbers;
#[cfg(test)]
mod tests;

use super::roots::Roots;
use crate::aligned::Aligned;
use crate::cpu::{self, Path};
use crate::wide::WORD_BITS;
use complex::Complex;
use lanes::Lanes;
pub use numbers::{Factor, Numbers};
use zeroize::Zeroizing;

/// Words of a number.
const WORDS: usize = 3;
/// Words of a complex number: those of the real part, those of the imaginary part.
const PLANES: usize = 2 * WORDS;
/// A number, lowest word first.
pub(super) type Words = [u64; WORDS];
/// `2^155`.
const RAISED: Words = [0, 0, 1 << (WORD_BITS - 1)];
/// Roots are repeated up to this many: the lanes of the widest vector.
const ROW: usize = 8;
/// What a root may be off by: each part by `2^-148`.
const ROOT_ERROR: f64 = 1.0 / (1u128 << 73) as f64 / (1u128 << 74) as f64;

/// Widest numbers.
pub const MAX_BITS: u32 = 124;

/// A plan for one number of slots, made by [`Fft::fixed`](super::Fft::fixed). Immutable.
pub struct FixedFft {
    slots: usize,
    /// By layer, first the one of a single node: the raised roots of all nodes by word.
    layers: Vec<Layer>,
    best: Path,
}

struct Layer {
    nodes: usize,
    roots: Aligned<u64>,
}

impl FixedFft {
    /// `slots` is a power of two that [`super::Fft`] accepted.
    pub(super) fn new(slots: usize) -> Self {
        let order = 4 * slots;
        let roots = Roots::new(order.max(8));
        let layers = (0..slots.trailing_zeros()).map(|layer| {
            let nodes = 1usize << layer;
            let row = nodes.max(ROW);
            let mut planes = Aligned::zeroed(PLANES * row);
            let mut power = 1;
            for j in 0..row {
                power = if j % nodes == 0 { 1 } else { power * 5 % order };
                let root = roots.get_raised(power * (order / 8 / nodes));
                for (plane, &word) in root.as_flattened().iter().enumerate() {
                    planes[plane * row + j] = word;
                }
            }
            Layer { nodes, roots: planes }
        });
        Self { slots, layers: layers.collect(), best: Path::available().last().unwrap_or(Path::Portable) }
    }

    /// Bound on the error of a slot's real or imaginary part, relative to `2^bits`, times a [`Factor`] or
    /// not; and of `n` times a coefficient's: `2 n (n 2^-153 + 2 log2(n) 2^-147)`.
    pub fn error(&self) -> f64 {
        self.slots as f64 * self.inverse_error()
    }

    /// The same of a coefficient, relative to `2^bits` of the slots.
    pub fn inverse_error(&self) -> f64 {
        let layers = f64::from(self.slots.trailing_zeros());
        2.0 * (self.slots as f64 * 2f64.powi(-153) + 2.0 * layers * ROOT_ERROR)
    }

    /// `N` zeros, to be set to numbers of at most `2^(bits + 1)`.
    ///
    /// # Panics
    /// If `bits` is above [`MAX_BITS`].
    pub fn numbers(&self, bits: u32) -> Numbers {
        assert!(bits <= MAX_BITS, "numbers of {bits} bits, at most {MAX_BITS} are possible");
        Numbers::zeros(self.slots, bits, 153 - bits - self.slots.trailing_zeros())
    }

    /// Coefficients to slots, in place, on the best path: `N` coefficients, then of slots first the real,
    /// then the imaginary parts.
    ///
    /// # Panics
    /// If the numbers are those of another plan.
    pub fn forward(&self, numbers: &mut Numbers) {
        self.forward_with(cpu::path(), numbers);
    }

    /// [`FixedFft::forward`] on a given path.
    ///
    /// # Panics
    /// As there.
    pub fn forward_with(&self, path: Path, numbers: &mut Numbers) {
        self.run::<true>(path, numbers);
    }

    /// Slots to coefficients, in place, on the best path.
    ///
    /// # Panics
    /// As for [`FixedFft::forward`].
    pub fn inverse(&self, numbers: &mut Numbers) {
        self.inverse_with(cpu::path(), numbers);
    }

    /// [`FixedFft::inverse`] on a given path.
    ///
    /// # Panics
    /// As for [`FixedFft::forward`].
    pub fn inverse_with(&self, path: Path, numbers: &mut Numbers) {
        self.run::<false>(path, numbers);
        // The division by n.
        numbers.shift += self.slots.trailing_zeros();
    }

    fn run<const FORWARD: bool>(&self, path: Path, numbers: &mut Numbers) {
        assert_eq!(numbers.words.len(), PLANES * self.slots, "numbers of another plan");
        let mut other = Zeroizing::new(Aligned::zeroed(numbers.words.len()));
        for k in 0..self.layers.len() {
            let layer = &self.layers[if FORWARD { k } else { self.layers.len() - 1 - k }];
            match path.min(self.best) {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the processor has the path.
                Path::Avx512 if self.slots >= 2 * ROW => unsafe {
                    pass_avx512::<FORWARD>(layer, &numbers.words, &mut other)
                },
                // SAFETY: every processor has plain words.
                _ => unsafe { pass::<u64, FORWARD>(layer, &numbers.words, &mut other) },
            }
            std::mem::swap(&mut numbers.words, &mut other);
        }
    }
}

/// # Safety
/// The processor must have AVX-512 F and IFMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn pass_avx512<const FORWARD: bool>(layer: &Layer, x: &[u64], y: &mut [u64]) {
    // SAFETY: the processor has the registers.
    unsafe { pass::<std::arch::x86_64::__m512i, FORWARD>(layer, x, y) };
}

/// One layer from `x` to `y`, which have at least two vectors of slots.
///
/// When a node's run is shorter than a vector, two vectors on the side of the slots are one run in another
/// order.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
unsafe fn pass<V: Lanes, const FORWARD: bool>(layer: &Layer, x: &[u64], y: &mut [u64]) {
    let (nodes, slots) = (layer.nodes, x.len() / PLANES);
    let (row, part, short) = (nodes.max(ROW), slots / 2, nodes < V::LANES);
    let (mixed, sorted) = orders(nodes);
    for apart in (0..part).step_by(V::LANES) {
        let j = apart % nodes;
        let (together, next) = if short { (2 * apart, V::LANES) } else { (2 * apart - j, nodes) };
        // SAFETY: the caller has the processor.
        unsafe {
            let w = Complex::<V>::load(&layer.roots, row, j);
            if FORWARD {
                let a = Complex::<V>::load(x, slots, apart);
                let b = Complex::<V>::load(x, slots, apart + part).mul(w);
                let (mut sum, mut difference) = (a.add(b).carried(), a.sub(b).carried());
                if short {
                    (sum, difference) = sum.pick_two(difference, &mixed);
                }
                sum.store(y, slots, together);
                difference.store(y, slots, together + next);
            } else {
                let mut a = Complex::<V>::load(x, slots, together);
                let mut b = Complex::<V>::load(x, slots, together + next);
                if short {
                    (a, b) = a.pick_two(b, &sorted);
                }
                a.add(b).lowered().carried().store(y, slots, apart);
                // i conj(z conj(w)) = (i conj(z)) w, and i conj(z) is z with its parts exchanged.
                let turned = a.sub(b).raised().carried().exchanged().mul(w);
                turned.exchanged().raised().carried().store(y, slots, apart + part);
            }
        }
    }
}

/// From sums and differences of eight lanes to runs of `nodes` by turns, and back: where each lane is from.
fn orders(nodes: usize) -> ([u64; 2 * ROW], [u64; 2 * ROW]) {
    let mut sorted = [0; 2 * ROW];
    let mut mixed = [0; 2 * ROW];
    for (i, from) in sorted.iter_mut().enumerate() {
        let (lane, second) = (i % ROW, i / ROW);
        let to = lane / nodes * 2 * nodes + lane % nodes + second * nodes;
        *from = to as u64;
        if let Some(mixed) = mixed.get_mut(to) {
            *mixed = i as u64;
        }
    }
    (mixed, sorted)
}
