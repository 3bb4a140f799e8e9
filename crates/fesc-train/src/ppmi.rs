//! Initial token vectors from the training texts: singular vectors of positive pointwise mutual information.
//!
//! With `n(i, j)` the number of times that tokens i and j stand within `window` places of each other,
//! `P(i, j) = max(0, ln(n(i, j) / (n(i) q(j))))`, q the distribution of contexts raised to 3/4 (Levy,
//! Goldberg and Dagan 2015); pairs seen once are left out. Rows of `U sqrt(S)` of the truncated
//! decomposition, centred, each scaled to one root mean square. The decomposition is by subspace iteration
//! from a random start (Halko, Martinsson and Tropp 2011).
//!
//! Cost: `vocab^2` floats (268 MB at 8,192) and about ten products of them with `vocab x 2.5 d`.

use std::thread;

use fesc_ring::Prg;
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, Axis};

use crate::data::Document;
use crate::init::fill;
use crate::{Result, TrainError};

/// A larger vocabulary would take more than 4 GB.
const LARGEST: usize = 32_768;
/// Rounds of subspace iteration; the spectrum decays slowly, but a start needs no digits.
const ROUNDS: usize = 4;

/// `vocab` rows of `width` values, row-major.
pub fn embedding(
    documents: &[Document],
    vocab: usize,
    width: usize,
    window: usize,
    scale: f64,
    workers: usize,
    prg: &mut Prg,
) -> Result<Vec<f32>> {
    if vocab > LARGEST || width > vocab {
        let value = format!("a vocabulary of {vocab} for vectors of {width}");
        let reason = format!("at most {LARGEST}, and no fewer than the width");
        return Err(TrainError::Recipe { key: "init.embedding.ppmi".into(), value, reason });
    }
    let p = information(documents, vocab, window);
    let columns = (width * 5 / 2).min(vocab);
    let mut basis = Array2::<f32>::zeros((vocab, columns));
    if let Some(values) = basis.as_slice_mut() {
        fill(prg, values, 1.0);
    }
    for _ in 0..ROUNDS {
        basis = orthonormal(product(p.view(), basis.view(), workers), workers);
        basis = orthonormal(product(p.t(), basis.view(), workers), workers);
    }
    // P Q = U S W^T: U S sqrt(1/S) are the vectors wanted, and (PQ)^T (PQ) = W S^2 W^T is small.
    let image = product(p.view(), basis.view(), workers);
    let (values, vectors) = eigen(gram(&image));
    let first: Vec<usize> = (0..width).collect();
    let vectors = vectors.select(Axis(1), &first).mapv(|v| v as f32);
    let mut out = product(image.view(), vectors.view(), workers).mapv(f64::from);
    for (mut column, square) in out.axis_iter_mut(Axis(1)).zip(values) {
        // U sqrt(S) = (U S) / sqrt(S), S the root of the eigenvalue.
        let root = square.max(0.0).sqrt().sqrt();
        column.mapv_inplace(|v| if root > 0.0 { v / root } else { 0.0 });
        let mean = column.mean().unwrap_or(0.0);
        column.mapv_inplace(|v| v - mean);
    }
    for mut row in out.axis_iter_mut(Axis(0)) {
        let size = (row.iter().map(|v| v * v).sum::<f64>() / width as f64).sqrt();
        row.mapv_inplace(|v| v * scale / (size + 1e-6));
    }
    Ok(out.iter().map(|v| *v as f32).collect())
}

/// Positive pointwise mutual information, dense.
fn information(documents: &[Document], vocab: usize, window: usize) -> Array2<f32> {
    let mut counts = Array2::<f32>::zeros((vocab, vocab));
    for (ids, _) in documents {
        for (i, &a) in ids.iter().enumerate() {
            for &b in ids.iter().skip(i + 1).take(window) {
                if let Some(n) = counts.get_mut((a as usize, b as usize)) {
                    *n += 1.0;
                }
                if let Some(n) = counts.get_mut((b as usize, a as usize)) {
                    *n += 1.0;
                }
            }
        }
    }
    // The matrix is symmetric: rows and columns have the same sums.
    let sums: Vec<f64> = counts.axis_iter(Axis(0)).map(|r| r.iter().map(|v| f64::from(*v)).sum()).collect();
    let total: f64 = sums.iter().map(|s| s.powf(0.75)).sum();
    let context: Vec<f64> = sums.iter().map(|s| s.powf(0.75) / total).collect();
    for (mut row, sum) in counts.axis_iter_mut(Axis(0)).zip(&sums) {
        for (n, context) in row.iter_mut().zip(&context) {
            *n = if *n < 2.0 { 0.0 } else { (f64::from(*n) / (sum * context)).ln().max(0.0) as f32 };
        }
    }
    counts
}

/// `a b`, rows of the result shared among the workers.
fn product(a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>, workers: usize) -> Array2<f32> {
    let mut out = Array2::zeros((a.nrows(), b.ncols()));
    let rows = a.nrows().div_ceil(workers.max(1)).max(1);
    thread::scope(|scope| {
        for (i, mut part) in out.axis_chunks_iter_mut(Axis(0), rows).enumerate() {
            scope.spawn(move || {
                let (_, a) = a.split_at(Axis(0), i * rows);
                let (a, _) = a.split_at(Axis(0), part.nrows());
                general_mat_mul(1.0, &a, &b, 0.0, &mut part);
            });
        }
    });
    out
}

/// The same space with orthonormal columns, by Cholesky's factor of the Gram matrix, twice: once loses half
/// the digits.
fn orthonormal(mut y: Array2<f32>, workers: usize) -> Array2<f32> {
    for _ in 0..2 {
        let l = cholesky(gram(&y));
        y = product(y.view(), inverse(&l).mapv(|v| v as f32).t(), workers);
    }
    y
}

/// `y^T y` in f64.
fn gram(y: &Array2<f32>) -> Array2<f64> {
    let mut sum = Array2::<f64>::zeros((y.ncols(), y.ncols()));
    // In pieces, so that the copy in f64 stays small.
    for part in y.axis_chunks_iter(Axis(0), 1024) {
        let wide = part.mapv(f64::from);
        general_mat_mul(1.0, &wide.t(), &wide, 1.0, &mut sum);
    }
    sum
}

/// `a = L L^T`; tiny pivots are lifted, so that a space of fewer dimensions gives no division by zero.
fn cholesky(mut a: Array2<f64>) -> Array2<f64> {
    let n = a.nrows();
    let floor = a.diag().iter().fold(0.0f64, |m, v| m.max(*v)) * 1e-13 + f64::MIN_POSITIVE;
    for j in 0..n {
        let (above, mut rest) = a.view_mut().split_at(Axis(0), j + 1);
        let head = above.row(j).to_vec();
        let square: f64 = head[..j].iter().map(|v| v * v).sum();
        let pivot = (head[j] - square).max(floor).sqrt();
        for mut row in rest.axis_iter_mut(Axis(0)) {
            let sum: f64 = row.iter().zip(&head[..j]).map(|(x, y)| x * y).sum();
            row[j] = (row[j] - sum) / pivot;
        }
        a[(j, j)] = pivot;
    }
    a
}

/// `L^-1` of a lower triangle, by rows: row i is `(e_i - sum_k<i L_ik row_k) / L_ii`.
fn inverse(l: &Array2<f64>) -> Array2<f64> {
    let n = l.nrows();
    let mut out = Array2::<f64>::zeros((n, n));
    for i in 0..n {
        let mut row = vec![0.0; n];
        row[i] = 1.0;
        for k in 0..i {
            let factor = l[(i, k)];
            row.iter_mut().zip(out.row(k)).for_each(|(r, v)| *r -= factor * v);
        }
        out.row_mut(i).iter_mut().zip(row).for_each(|(o, r)| *o = r / l[(i, i)]);
    }
    out
}

/// Rows p < q become `c p - s q` and `s p + c q`.
fn rotate(a: &mut Array2<f64>, p: usize, q: usize, c: f64, s: f64) {
    let (mut above, mut below) = a.view_mut().split_at(Axis(0), q);
    for (x, y) in above.row_mut(p).iter_mut().zip(below.row_mut(0)) {
        (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
    }
}

/// Eigenvalues, largest first, and vectors (columns) of a symmetric matrix, by Jacobi's rotations.
fn eigen(mut a: Array2<f64>) -> (Vec<f64>, Array2<f64>) {
    let n = a.nrows();
    let mut v = Array2::<f64>::eye(n);
    for _ in 0..30 {
        let off: f64 = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|at| a[at] * a[at]).sum();
        let diagonal: f64 = a.diag().iter().map(|d| d * d).sum();
        if off <= 1e-18 * diagonal {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                if a[(p, q)].abs() <= 1e-300 {
                    continue;
                }
                let theta = (a[(q, q)] - a[(p, p)]) / (2.0 * a[(p, q)]);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                rotate(&mut a, p, q, c, s);
                // The columns are the rows' mirror; only the crossing entries turn twice.
                let (pp, pq, qp, qq) = (a[(p, p)], a[(p, q)], a[(q, p)], a[(q, q)]);
                (a[(p, p)], a[(p, q)]) = (c * pp - s * pq, 0.0);
                (a[(q, p)], a[(q, q)]) = (0.0, s * qp + c * qq);
                for k in (0..n).filter(|k| *k != p && *k != q) {
                    a[(k, p)] = a[(p, k)];
                    a[(k, q)] = a[(q, k)];
                }
                rotate(&mut v, p, q, c, s);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[(j, j)].total_cmp(&a[(i, i)]));
    let values = order.iter().map(|&i| a[(i, i)]).collect();
    (values, v.select(Axis(0), &order).reversed_axes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn eigenvectors_rebuild_the_matrix() {
        let n = 7;
        let a = Array2::from_shape_fn((n, n), |(i, j)| 1.0 / (1.0 + i as f64 + j as f64) + f64::from(u8::from(i == j)));
        let (values, v) = eigen(a.clone());
        assert!(values.windows(2).all(|w| w[0] >= w[1]));
        let rebuilt = v.dot(&Array2::from_diag(&ndarray::Array1::from(values))).dot(&v.t());
        assert!((&rebuilt - &a).iter().all(|d| d.abs() < 1e-9));
    }

    /// Two sets of tokens that never meet: vectors of one set are alike, those of different sets are not.
    #[test]
    fn tokens_of_the_same_texts_are_near() {
        let mut prg = Prg::from_seed([3; 16]);
        let mut document = |from: u32| {
            let ids: Vec<u32> = (0..400).map(|_| from + crate::data::below(&mut prg, 10) as u32).collect();
            (ids, 0)
        };
        let documents: Vec<Document> = (0..20).map(|i| document(10 * (i % 2))).collect();
        let e = embedding(&documents, 20, 4, 3, 1.0, 2, &mut Prg::from_seed([4; 16])).unwrap();
        let rows: Vec<&[f32]> = e.chunks_exact(4).collect();
        let cosine = |a: &[f32], b: &[f32]| {
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
        };
        let mean = |shift: usize| {
            let pairs =
                (0..10).flat_map(|i| (0..10).filter(move |j| shift > 0 || *j != i).map(move |j| (i, j + shift)));
            let all: Vec<f32> = pairs.map(|(i, j)| cosine(rows[i], rows[j])).collect();
            all.iter().sum::<f32>() / all.len() as f32
        };
        assert!(mean(0) > mean(10) + 0.5, "{} {}", mean(0), mean(10));
        let size = rows[3].iter().map(|v| v * v).sum::<f32>() / 4.0;
        assert!((size - 1.0).abs() < 1e-3);
        assert!(embedding(&documents, LARGEST + 1, 4, 3, 1.0, 1, &mut Prg::from_seed([4; 16])).is_err());
    }
}
