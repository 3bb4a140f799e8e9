#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use fesc_ring::Prg;

use crate::float::{Matrix, Scan, ScanInput};
use crate::{Config, Shape};

fn unit(prg: &mut Prg) -> f32 {
    (prg.next_u64() >> 40) as f32 / (1 << 24) as f32
}

fn random(prg: &mut Prg, rows: usize, cols: usize) -> Matrix {
    Matrix::from_rows(rows, cols, (0..rows * cols).map(|_| 2.0 * unit(prg) - 1.0).collect()).unwrap()
}

fn shape(heads: usize, head_dim: usize, state: usize, groups: usize) -> Shape {
    Shape { heads, head_dim, state, groups, ..*Config::named("tiny").unwrap().shape() }
}

/// Decay rates as in a real mamba2-130m: |A| from 0.0004 to 36,315, log-spaced over the heads.
fn rates(heads: usize) -> Vec<f32> {
    let step = (36_315.0f32 / 0.0004).ln() / (heads - 1) as f32;
    (0..heads).map(|h| -0.0004 * (h as f32 * step).exp()).collect()
}

/// The largest difference of one head relative to the head's own root mean square: slow heads must not hide
/// others.
fn worst_head(shape: &Shape, found: &Matrix, expected: &Matrix) -> f64 {
    let part = |m: &Matrix, h: usize| -> Vec<f64> {
        let at = h * shape.head_dim..(h + 1) * shape.head_dim;
        (0..m.rows()).flat_map(|t| m.row(t)[at.clone()].to_vec()).map(f64::from).collect()
    };
    let error = |h: usize| {
        let (found, expected) = (part(found, h), part(expected, h));
        let rms = (expected.iter().map(|v| v * v).sum::<f64>() / expected.len() as f64).sqrt();
        found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / rms
    };
    (0..shape.heads).map(error).fold(0.0, f64::max)
}

#[test]
fn block_dual_form_equals_the_recurrence() {
    let mut prg = Prg::from_seed([1; 16]);
    for (heads, head_dim, state, groups) in [(4, 3, 5, 1), (6, 5, 7, 2), (8, 8, 16, 4)] {
        let shape = shape(heads, head_dim, state, groups);
        let a = rates(heads);
        let d: Vec<f32> = (0..heads).map(|_| unit(&mut prg)).collect();
        for length in [1, 2, 7, 33, 130] {
            let xbc = random(&mut prg, length, shape.conv_dim());
            // Delta from 1e-5 to 0.3 token by token: violent heads both reset and keep within one block.
            let mut delta = random(&mut prg, length, heads);
            delta.data_mut().iter_mut().for_each(|v| *v = 1e-5 * (3e4f32.ln() * (*v + 1.0) / 2.0).exp());
            let input = ScanInput { shape: &shape, xbc: &xbc, delta: &delta, a: &a, d: &d };
            let expected = input.run(Scan::Sequential).unwrap();
            for block in [1, 3, 16, 64, 1000] {
                let found = input.run(Scan::Blocks(block)).unwrap();
                let error = worst_head(&shape, &found, &expected);
                assert!(error < 5e-6, "G {groups}, length {length}, block {block}: {error:e}");
            }
        }
    }
}

#[test]
fn long_memory_is_kept_by_both_forms() {
    // One impulse at token 0, read at the last token: y = state * Delta * exp(A (T - 1) Delta).
    let shape = Shape { head_dim: 1, ..shape(5, 1, 4, 1) };
    let (length, step, a) = (2048, 0.01f32, [-0.0004f32, -0.02, -0.21, -0.85, -36_315.0]);
    let mut xbc = Matrix::zeros(length, shape.conv_dim());
    for t in 0..length {
        let width = shape.conv_dim();
        xbc.data_mut()[t * width + shape.inner()..(t + 1) * width].fill(1.0);
    }
    xbc.data_mut()[..shape.inner()].fill(1.0);
    let delta = Matrix::from_rows(length, 5, vec![step; length * 5]).unwrap();
    let input = ScanInput { shape: &shape, xbc: &xbc, delta: &delta, a: &a, d: &[0.0; 5] };
    for scan in [Scan::Sequential, Scan::Blocks(128), Scan::Blocks(100)] {
        let y = input.run(scan).unwrap();
        for (found, a) in y.row(length - 1).iter().zip(a) {
            let exact = 4.0 * f64::from(step) * (f64::from(a) * f64::from(step) * (length - 1) as f64).exp();
            let error = (f64::from(*found) - exact).abs();
            assert!(error <= 3e-6 * exact, "{scan:?}, A {a}: {found:e} for {exact:e}");
        }
    }
}

#[test]
fn a_block_of_nothing_is_refused() {
    let shape = shape(2, 2, 2, 1);
    let (xbc, delta) = (Matrix::zeros(3, shape.conv_dim()), Matrix::zeros(3, 2));
    let input = ScanInput { shape: &shape, xbc: &xbc, delta: &delta, a: &[-1.0; 2], d: &[0.0; 2] };
    assert!(input.run(Scan::Blocks(0)).is_err());
}
