//! The tree of twiddle factors that all kernels share.
//!
//! Node 1 is the whole polynomial; node `i` splits into nodes `2i` and `2i + 1`. Splitting node `i`
//! multiplies the upper half by `psi^brv(i)`, where `brv` reverses the bits of `i` below its leading one.
//! This numbering makes a depth-first transform as simple as a breadth-first one: a kernel at node `i` needs
//! only `i`.

use crate::modulus::Modulus;

/// `out[i] = root^brv(i)` with `brv` over `log2(degree)` bits; `out[i]` for `i >= 1` is the twiddle of node
/// `i`.
pub(super) fn bit_reversed_powers(modulus: Modulus, root: u64, degree: usize) -> Vec<u64> {
    let unused = usize::BITS - degree.trailing_zeros();
    let step = modulus.shoup(root);
    let (mut out, mut power) = (vec![0; degree], 1);
    for i in 0..degree {
        out[i.reverse_bits() >> unused] = power;
        power = modulus.mul_shoup(power, step);
    }
    out
}
