//! Every path, sequential and parallel, against a triple loop.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::{Matrix, Prg};

/// The definition.
fn naive(ring: Ring, a: View<'_>, b: View<'_>, out: &mut [u64], update: Update) {
    for i in 0..a.rows() {
        for j in 0..b.cols() {
            let products = (0..a.cols()).map(|k| a.get(i, k).unwrap().wrapping_mul(b.get(k, j).unwrap()));
            let sum = products.fold(0, u64::wrapping_add);
            let o = &mut out[i * b.cols() + j];
            *o = ring.reduce(match update {
                Update::Set => sum,
                Update::Add => o.wrapping_add(sum),
                Update::Sub => o.wrapping_sub(sum),
            });
        }
    }
}

/// How the operands of a case lie in memory.
#[derive(Debug, Clone, Copy)]
struct Layout {
    a_turned: bool,
    b_turned: bool,
}

fn view(data: &[u64], rows: usize, cols: usize, turned: bool) -> View<'_> {
    if turned { View::new(data, cols, rows).unwrap().t() } else { View::new(data, rows, cols).unwrap() }
}

/// Compares all paths with the definition, for words of the full range (never reduced) and one update.
fn check((m, k, n): (usize, usize, usize), bits: u32, update: Update, layout: Layout, words: impl Fn(u64) -> u64) {
    let ring = Ring::new(bits).unwrap();
    let mut prg = Prg::from_seed([bits as u8; 16]);
    let mut draw = |count| (0..count).map(|_| words(prg.next_u64())).collect::<Vec<_>>();
    let (a, b, start) = (draw(m * k), draw(k * n), draw(m * n));
    let (a, b) = (view(&a, m, k, layout.a_turned), view(&b, k, n, layout.b_turned));
    let mut want = start.clone();
    naive(ring, a, b, &mut want, update);
    for path in Path::available() {
        let case = format!("{m}x{k}x{n} {bits} bits {path:?} {update:?} {layout:?}");
        let compare = |how, f: &dyn Fn(&mut [u64])| {
            let mut got = start.clone();
            f(&mut got);
            assert!(got == want, "{case} {how}");
        };
        compare("sequential", &|out| run(path, ring, a, b, out, update, false).unwrap());
        compare("parallel", &|out| run(path, ring, a, b, out, update, true).unwrap());
        if m * k * n > 0 {
            // The two ways to split, also for shapes that `product_par` would not split.
            let kernel = kernel(path, ring).unwrap();
            compare("by rows", &|out| block::product(&kernel, ring, a, b, out, update, Some(kernel.mr)));
            compare("by columns", &|out| block::by_columns(&kernel, ring, a, b, out, update, kernel.nr).unwrap());
        }
    }
}

const PLAIN: Layout = Layout { a_turned: false, b_turned: false };
const LAYOUTS: [Layout; 4] = [
    PLAIN,
    Layout { a_turned: false, b_turned: true },
    Layout { a_turned: true, b_turned: false },
    Layout { a_turned: true, b_turned: true },
];
const UPDATES: [Update; 3] = [Update::Set, Update::Add, Update::Sub];

#[test]
fn small_shapes_in_every_layout_and_update() {
    for m in [0, 1, 2, 3, 5, 8, 9, 17] {
        for k in [0, 1, 2, 7, 8, 33] {
            for n in [0, 1, 4, 7, 8, 9, 16, 23, 24, 25, 49] {
                for layout in LAYOUTS {
                    for update in UPDATES {
                        check((m, k, n), 48, update, layout, |v| v);
                    }
                }
            }
        }
    }
}

#[test]
fn every_width() {
    for bits in 1..=64 {
        check((9, 35, 29), bits, Update::Add, PLAIN, |v| v);
    }
}

#[test]
fn shapes_beyond_every_block() {
    // More rows than MC, more columns than NC, more steps than kc: alone, with all layouts, and all at once.
    for layout in LAYOUTS {
        check((block::MC + 5, 3, 11), 48, Update::Sub, layout, |v| v);
        check((3, 2, block::NC + 29), 48, Update::Set, layout, |v| v);
        check((2, 1100, 3), 52, Update::Add, layout, |v| v);
        check((2, 1100, 3), 53, Update::Add, layout, |v| v);
    }
    // Large enough for `gemm_par` to split, by rows and by columns.
    check((block::MC + 1, 129, block::NC + 1), 48, Update::Set, PLAIN, |v| v);
    check((5, 300, 2000), 48, Update::Sub, PLAIN, |v| v);
}

#[test]
fn largest_values_and_long_sums() {
    // 4096 is where a sum of 52-bit halves could first leave a 64-bit lane if that mattered.
    for k in [4095, 4096, 4097, 9000] {
        for bits in [1, 32, 48, 51, 52, 53, 63, 64] {
            check((9, k, 2), bits, Update::Set, PLAIN, |_| u64::MAX);
            check((1, k, 9), bits, Update::Sub, PLAIN, |_| u64::MAX);
        }
    }
    // Values that sit at the splits of the kernels: 32 bits (AVX2) and 52 bits (IFMA).
    for value in [1 << 31, (1 << 32) - 1, 1 << 32, (1 << 52) - 1, 1 << 52, 1 << 63] {
        for bits in [33, 52, 53, 64] {
            check((4, 70, 9), bits, Update::Set, PLAIN, |v| if v & 1 == 0 { value } else { v });
        }
    }
}

#[test]
fn windows_multiply_like_copies() {
    let ring = Ring::new(48).unwrap();
    let mut prg = Prg::from_seed([5; 16]);
    let big = Matrix::random(ring, 40, 50, &mut prg).unwrap();
    let a = big.view().window(3..14, 7..30).unwrap();
    let b = big.view().t().window(20..43, 5..39).unwrap();
    let mut want = vec![0; 11 * 34];
    naive(ring, a, b, &mut want, Update::Set);
    for path in Path::available() {
        let mut got = vec![0; 11 * 34];
        gemm_with(path, ring, a, b, &mut got, Update::Set).unwrap();
        assert_eq!(got, want, "{path:?}");
    }
}

#[test]
fn misfits_are_errors_and_leave_the_output_alone() {
    let ring = Ring::new(48).unwrap();
    let data = [1; 6];
    let (a, b) = (View::new(&data, 2, 3).unwrap(), View::new(&data, 3, 2).unwrap());
    let mut out = [9; 4];
    let shapes = MatrixError::Shapes { op: "multiply", left: (2, 3), right: (2, 3) };
    assert_eq!(gemm(ring, a, a, &mut out, Update::Set), Err(shapes.clone()));
    assert_eq!(gemm_par(ring, a, b.t(), &mut out, Update::Set), Err(shapes));
    let short = MatrixError::Data { rows: 2, cols: 2, got: 3 };
    assert_eq!(gemm(ring, a, b, &mut out[..3], Update::Set), Err(short));
    assert_eq!(out, [9; 4]);
    gemm(ring, a, b, &mut out, Update::Add).unwrap();
    assert_eq!(out, [12; 4]);
}

#[test]
fn a_path_above_the_processor_is_refused() {
    let ring = Ring::new(48).unwrap();
    let one = [1];
    let v = View::new(&one, 1, 1).unwrap();
    for path in Path::ALL {
        let mut out = [0];
        let result = gemm_with(path, ring, v, v, &mut out, Update::Set);
        if Path::available().any(|p| p == path) {
            assert_eq!((result, out), (Ok(()), [1]));
        } else {
            assert_eq!((result, out), (Err(MatrixError::Path { path: path.name() }), [0]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_shape_agrees_with_the_definition(
        m in 0usize..70, k in 0usize..200, n in 0usize..80, bits in 1u32..=64,
        update in prop::sample::select(&UPDATES[..]), layout in prop::sample::select(&LAYOUTS[..]),
    ) {
        check((m, k, n), bits, update, layout, |v| v);
    }

    #[test]
    fn products_are_associative(m in 1usize..20, k in 1usize..40, n in 1usize..40, p in 1usize..20, seed: [u8; 16]) {
        let ring = Ring::new(48).unwrap();
        let mut prg = Prg::from_seed(seed);
        let a = Matrix::random(ring, m, k, &mut prg).unwrap();
        let b = Matrix::random(ring, k, n, &mut prg).unwrap();
        let c = Matrix::random(ring, n, p, &mut prg).unwrap();
        prop_assert_eq!(a.mul(&b).unwrap().mul(&c).unwrap(), a.mul(&b.mul(&c).unwrap()).unwrap());
    }

    #[test]
    fn the_transpose_of_a_product_is_the_product_of_the_transposes(
        m in 1usize..30, k in 1usize..60, n in 1usize..30, seed: [u8; 16],
    ) {
        let ring = Ring::new(60).unwrap();
        let mut prg = Prg::from_seed(seed);
        let a = Matrix::random(ring, m, k, &mut prg).unwrap();
        let b = Matrix::random(ring, k, n, &mut prg).unwrap();
        let mut turned = vec![0; m * n];
        gemm(ring, b.view().t(), a.view().t(), &mut turned, Update::Set).unwrap();
        let product = a.mul(&b).unwrap();
        prop_assert_eq!(product.transpose().into_vec(), turned);
    }
}
