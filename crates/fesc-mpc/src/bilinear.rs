//! The bilinear products of a bundle on plain ring vectors: one implementation for the ideal functionality, the
//! online step and the plaintext twin.

use fesc_ring::gemm::{Update, gemm_par};
use fesc_ring::{Ring, View};

use crate::correlation::{Bundle, Product};
use crate::error::MpcError;

/// Applies `product` to all copies of two operands of the bundle's shapes.
///
/// The lengths must be those of the bundle's masks; callers check them.
pub(crate) fn apply(bundle: &Bundle, product: Product, left: &[u64], right: &[u64]) -> Result<Vec<u64>, MpcError> {
    let ring = bundle.ring;
    let (a, b) = product.operands();
    let (rows, cols) = bundle.masks[a];
    Ok(match product {
        Product::Hadamard(..) => left.iter().zip(right).map(|(&x, &y)| ring.mul(x, y)).collect(),
        Product::RowInner(..) => {
            if cols == 0 {
                return Ok(vec![0; bundle.batch * rows]);
            }
            left.chunks_exact(cols).zip(right.chunks_exact(cols)).map(|(x, y)| inner(ring, x, y)).collect()
        }
        Product::ScaleRows(..) => {
            let width = bundle.masks[b].1;
            if width == 0 {
                return Ok(Vec::new());
            }
            let scaled = right.chunks_exact(width).zip(left).flat_map(|(row, &s)| row.iter().map(move |&v| (v, s)));
            scaled.map(|(v, s)| ring.mul(v, s)).collect()
        }
        Product::MatMul(..) => {
            let n = bundle.masks[b].1;
            let mut out = vec![0; bundle.batch * rows * n];
            if rows * cols * n > 0 {
                let lefts = left.chunks_exact(rows * cols);
                for ((x, y), z) in lefts.zip(right.chunks_exact(cols * n)).zip(out.chunks_exact_mut(rows * n)) {
                    gemm_par(ring, View::new(x, rows, cols)?, View::new(y, cols, n)?, z, Update::Set)?;
                }
            }
            out
        }
    })
}

fn inner(ring: Ring, x: &[u64], y: &[u64]) -> u64 {
    ring.reduce(x.iter().zip(y).fold(0u64, |acc, (&a, &b)| acc.wrapping_add(a.wrapping_mul(b))))
}
