//! Matrix products over `Z_2^l`: `out (=, +=, -=) a * b`, exact and bit-identical on every path.
//!
//! # Method
//! Blocked and packed like BLIS (Van Zee and van de Geijn, TOMS 2015): `b` is packed into panels of `nr`
//! columns and `kc` steps, `a` into panels of `mr` rows, and a kernel keeps an `mr x nr` tile of the result
//! in registers. Packing reads a [`View`], so `a * b`, `a * b.t()` and `a.t() * b` cost the same.
//!
//! | path | product of two lanes | tile | micro-operations per MAC |
//! |---|---|---|---|
//! | AVX-512, `l <= 52` | `vpmadd52luq` | 8 x 24 | 1 per 8 |
//! | AVX-512, `l > 52` | `vpmullq`, `vpaddq` | 8 x 24 | 4 per 8 |
//! | AVX2 | `vpmuludq` for lo*lo, `vpmulld` for both cross terms | 4 x 4 | 5 per 4 |
//! | portable | 64-bit multiply | 4 x 4 | 2 |
//!
//! No overflow bound on the inner dimension is needed. Lanes wrap modulo `2^64`; IFMA adds the low 52 bits of
//! a product, which is the product modulo `2^52`. Both moduli are multiples of `2^l`, so any number of steps
//! is exact. For the same reason operands need not be reduced; results are.
//!
//! # Speed
//! GMAC/s of one core of a Sapphire Rapids at about 3 GHz, measured by `examples/gemm_speed.rs` (the fastest
//! run, on a machine that others used at the same time), for 512 x 768 x 3352 and, in brackets, 128 x 128 x
//! 64:
//!
//! | path | 48 bits | 64 bits | limit |
//! |---|---|---|---|
//! | AVX-512 | 32 (29) | 9 (11) | 48 = two IFMA units of 8 lanes; 12 for `vpmullq` |
//! | AVX2 | 5.2 (5.7) | 4.9 (5.7) | 7.2 = five operations per 4 lanes on three ports |
//! | portable | 2.7 (3.0) | 2.6 (3.0) | 3 = one multiplication per cycle |
//!
//! So 48 bits on AVX-512 reach two thirds of the limit; 2048 x 1536 x 768 reaches 37, more than three
//! quarters. The rest goes to the merge of a tile every `kc` steps, to packing, and to panels that wait for
//! the L2 cache. A product with a single row is bound by reading `b`: about 1.1 GMAC/s.
//!
//! # What is not guaranteed
//! Time depends on shapes only, not on values, on processors whose multipliers do not (x86-64 with DOITM,
//! most ARM). Packed copies of the operands are wiped; registers and the stack are not.

mod block;
mod panel;
mod portable;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(test)]
mod tests;

use crate::cpu::{self, Path};
use crate::{MatrixError, Ring, View};

/// What happens to the old content of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Update {
    /// `out = a * b`.
    Set,
    /// `out += a * b`.
    Add,
    /// `out -= a * b`.
    Sub,
}

/// `out (=, +=, -=) a * b` on the calling thread; `out` is row-major, `a.rows() * b.cols()` elements.
pub fn gemm(ring: Ring, a: View<'_>, b: View<'_>, out: &mut [u64], update: Update) -> Result<(), MatrixError> {
    run(cpu::path(), ring, a, b, out, update, false)
}

/// [`gemm`] on all threads of the current rayon pool.
pub fn gemm_par(ring: Ring, a: View<'_>, b: View<'_>, out: &mut [u64], update: Update) -> Result<(), MatrixError> {
    run(cpu::path(), ring, a, b, out, update, true)
}

/// [`gemm`] on a given path, for tests and benchmarks; refuses a path that this processor does not have.
pub fn gemm_with(
    path: Path,
    ring: Ring,
    a: View<'_>,
    b: View<'_>,
    out: &mut [u64],
    update: Update,
) -> Result<(), MatrixError> {
    run(path, ring, a, b, out, update, false)
}

fn run(
    path: Path,
    ring: Ring,
    a: View<'_>,
    b: View<'_>,
    out: &mut [u64],
    update: Update,
    parallel: bool,
) -> Result<(), MatrixError> {
    if a.cols() != b.rows() {
        return Err(MatrixError::Shapes { op: "multiply", left: a.shape(), right: b.shape() });
    }
    // Checks the length of `out`, and that `rows * cols` does not overflow.
    View::new(out, a.rows(), b.cols())?;
    let kernel = kernel(path, ring)?;
    if a.cols() == 0 {
        match update {
            Update::Set => out.fill(0),
            Update::Add | Update::Sub => ring.reduce_assign(out),
        }
    } else if out.is_empty() {
        // Nothing to compute; the block loops want at least one row and column.
    } else if parallel {
        block::product_par(&kernel, ring, a, b, out, update)?;
    } else {
        block::product(&kernel, ring, a, b, out, update, None);
    }
    Ok(())
}

/// The kernel of a path, if this processor has it. The only place that hands out SIMD kernels.
fn kernel(path: Path, ring: Ring) -> Result<block::Kernel, MatrixError> {
    if !Path::available().any(|p| p == path) {
        return Err(MatrixError::Path { path: path.name() });
    }
    Ok(match path {
        #[cfg(target_arch = "x86_64")]
        Path::Avx512 if ring.bits() <= 52 => avx512::IFMA,
        #[cfg(target_arch = "x86_64")]
        Path::Avx512 => avx512::FULL,
        #[cfg(target_arch = "x86_64")]
        Path::Avx2 => avx2::KERNEL,
        _ => portable::KERNEL,
    })
}
