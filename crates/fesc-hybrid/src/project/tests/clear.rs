//! In the clear, for many shapes.

use fesc_ring::Prg;
use num_complex::Complex64;

use crate::HybridError;
use crate::backend::{Chain, Plain};
use crate::project::{Convolution, InProjection, Lane, Layout, Pairing, Projection, SquareSums};

pub(super) const PAIRINGS: [Pairing; 2] = [Pairing::Tokens, Pairing::Features];

/// Numbers in -1 .. 1.
pub(super) fn numbers(n: usize, seed: u8) -> Vec<f64> {
    let mut prg = Prg::from_seed([seed; 16]);
    (0..n).map(|_| (prg.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0).collect()
}

/// What slots hold.
pub(super) fn slots(lanes: &[Lane], values: &[f64]) -> Vec<Complex64> {
    let part = |at: Option<u32>| at.map_or(0.0, |at| values[at as usize]);
    lanes.iter().map(|&[re, im]| Complex64::new(part(re), part(im))).collect()
}

/// What results hold: sums over the places that name an output, each of which must be named.
pub(super) fn read(outputs: &[Vec<Lane>], results: &[Vec<Complex64>], count: usize) -> Vec<f64> {
    assert_eq!(outputs.len(), results.len());
    let (mut values, mut named) = (vec![0.0; count], vec![false; count]);
    for (lane, z) in outputs.iter().flatten().zip(results.iter().flatten()) {
        for (at, part) in lane.iter().zip([z.re, z.im]) {
            if let Some(at) = at {
                values[*at as usize] += part;
                named[*at as usize] = true;
            }
        }
    }
    assert!(named.iter().all(|n| *n), "an output that no slot holds");
    values
}

pub(super) fn product(x: &[f64], w: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let dot = |t: usize, c: usize| (0..rows).map(|r| x[t * rows + r] * w[r * columns + c]).sum();
    (0..x.len() / rows).flat_map(|t| (0..columns).map(move |c| (t, c))).map(|(t, c)| dot(t, c)).collect()
}

/// `eta` at `token channels + channel`; `taps` at `channel count + r`.
pub(super) fn convolved(q: &[f64], taps: &[f64], bias: &[f64]) -> Vec<f64> {
    let (channels, count) = (bias.len(), taps.len() / bias.len());
    let before = |k: usize, c: usize, r: usize| k.checked_sub(r).map_or(0.0, |t| q[t * channels + c]);
    let eta = |k: usize, c: usize| bias[c] + (0..count).map(|r| taps[c * count + r] * before(k, c, r)).sum::<f64>();
    (0..q.len() / channels).flat_map(|k| (0..channels).map(move |c| (k, c))).map(|(k, c)| eta(k, c)).collect()
}

pub(super) fn error(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max)
}

fn layouts() -> impl Iterator<Item = Layout> {
    let sizes = [(32, 4), (32, 8), (64, 4), (128, 8), (1024, 4), (1024, 8)];
    let tokens = [1, 3, 16, 40];
    let all = sizes.into_iter().flat_map(move |size| tokens.into_iter().map(move |t| (size, t)));
    all.flat_map(|((slots, segment), tokens)| {
        PAIRINGS.map(|pairing| Layout { slots, segment, tokens, pairing, floor: 1 })
    })
}

fn plain(layout: &Layout) -> Plain {
    Plain::new(Chain::ideal(layout.slots, 40, 3, 2))
}

#[test]
fn a_projection_is_the_matrix_product_for_all_shapes() {
    for layout in layouts() {
        for (rows, columns) in [(1, 1), (1, 50), (5, 3), (8, 8), (17, 31), (40, 50)] {
            let projection = Projection::new(layout, rows, columns).unwrap();
            let (x, w) = (numbers(layout.tokens * rows, 1), numbers(rows * columns, 2));
            let plain = plain(&layout);
            let input = |i| plain.fresh(&slots(&projection.lanes(i), &x), projection.level());
            let results = projection.run(&plain, &|r, c| w[r * columns + c], &input).unwrap();
            let results: Vec<_> = results.iter().map(|c| c.slots().to_vec()).collect();
            let outputs: Vec<_> = (0..projection.results()).map(|i| projection.outputs(i)).collect();
            let got = read(&outputs, &results, layout.tokens * columns);
            let e = error(&got, &product(&x, &w, rows, columns));
            assert!(e < 1e-10, "{layout:?}, {rows} to {columns}: {e:e}");
        }
    }
}

#[test]
fn shapes_choose_their_number_of_small_steps() {
    let steps = |rows, columns| {
        let layout = Layout { slots: 64, segment: 8, tokens: 9, pairing: Pairing::Tokens, floor: 1 };
        Projection::new(layout, rows, columns).unwrap().steps()
    };
    // Many results make giant steps dear, many inputs make small steps dear.
    assert_eq!((steps(8, 200), steps(200, 8)), (8, 1));
    assert!((2..=4).contains(&steps(16, 24)));
}

#[test]
fn a_convolution_is_the_direct_sum_for_all_shapes() {
    for layout in layouts() {
        for (channels, count) in [(1, 4), (9, 4), (16, 1), (30, 3), (5, layout.rows().min(9) + 1)] {
            let convolution = Convolution::new(layout, channels, count).unwrap();
            let (q, taps, bias) =
                (numbers(layout.tokens * channels, 3), numbers(channels * count, 4), numbers(channels, 5));
            let plain = plain(&layout);
            let input = |i| plain.fresh(&slots(&convolution.lanes(i), &q), convolution.level());
            let results = convolution.run(&plain, &|c, r| taps[c * count + r], &|c| bias[c], &input).unwrap();
            let results: Vec<_> = results.iter().map(|c| c.slots().to_vec()).collect();
            let outputs: Vec<_> = (0..convolution.results()).map(|i| convolution.outputs(i)).collect();
            let got = read(&outputs, &results, layout.tokens * channels);
            let e = error(&got, &convolved(&q, &taps, &bias));
            assert!(e < 1e-12, "{layout:?}, {channels} channels, {count} taps: {e:e}");
        }
    }
}

/// A layer's input: weights, taps, biases and inputs, and what must come out.
pub(super) struct Layer {
    pub rows: usize,
    pub columns: usize,
    pub range: std::ops::Range<usize>,
    pub count: usize,
    pub x: Vec<f64>,
    pub w: Vec<f64>,
    pub taps: Vec<f64>,
    pub bias: Vec<f64>,
}

impl Layer {
    pub fn random(tokens: usize, [rows, columns]: [usize; 2], range: std::ops::Range<usize>, count: usize) -> Self {
        let channels = range.len();
        let (x, w) = (numbers(tokens * rows, 6), numbers(rows * columns, 7));
        let (taps, bias) = (numbers(channels * count, 8), numbers(channels, 9));
        Self { rows, columns, range, count, x, w, taps, bias }
    }

    pub fn want(&self) -> Vec<f64> {
        let mut y = product(&self.x, &self.w, self.rows, self.columns);
        let of = |t: usize| t * self.columns + self.range.start..t * self.columns + self.range.end;
        let tokens = self.x.len() / self.rows;
        let q: Vec<f64> = (0..tokens).flat_map(|t| y[of(t)].to_vec()).collect();
        let eta = convolved(&q, &self.taps, &self.bias);
        for (t, eta) in eta.chunks(self.range.len()).enumerate() {
            y[of(t)].copy_from_slice(eta);
        }
        y
    }
}

#[test]
fn a_fused_projection_convolves_the_columns_that_it_should() {
    for layout in layouts() {
        for (shape, range) in [([5, 30], 10..27), ([40, 50], 0..50), ([3, 7], 6..7), ([12, 33], 0..8), ([9, 9], 1..4)] {
            let layer = Layer::random(layout.tokens, shape, range, 4);
            let kernel = InProjection::new(layout, layer.rows, layer.columns, layer.range.clone(), 4).unwrap();
            let plain = plain(&layout);
            let input = |i| plain.fresh(&slots(&kernel.lanes(i), &layer.x), kernel.level());
            let (weights, taps, bias) = (
                |r: usize, c: usize| layer.w[r * layer.columns + c],
                |c: usize, r: usize| layer.taps[c * layer.count + r],
                |c: usize| layer.bias[c],
            );
            let results = kernel.run(&plain, &weights, &taps, &bias, &input).unwrap();
            let results: Vec<_> = results.iter().map(|c| c.slots().to_vec()).collect();
            let outputs: Vec<_> = (0..kernel.results()).map(|i| kernel.outputs(i)).collect();
            let e = error(&read(&outputs, &results, layout.tokens * layer.columns), &layer.want());
            assert!(e < 1e-10, "{layout:?}, {shape:?}, {:?}: {e:e}", layer.range);
        }
    }
}

#[test]
fn sums_of_squares_are_those_of_each_token() {
    for layout in layouts() {
        for rows in [1, 8, 29] {
            let kernel = SquareSums::new(layout, rows).unwrap();
            let x = numbers(layout.tokens * rows, 10);
            let plain = plain(&layout);
            let input = |i| plain.fresh(&slots(&kernel.lanes(i), &x), kernel.level());
            let results: Vec<_> = kernel.run(&plain, &input).unwrap().iter().map(|c| c.slots().to_vec()).collect();
            let outputs: Vec<_> = (0..kernel.results()).map(|i| kernel.outputs(i)).collect();
            let want: Vec<f64> = x.chunks(rows).map(|x| x.iter().map(|x| x * x).sum()).collect();
            let e = error(&read(&outputs, &results, layout.tokens), &want);
            assert!(e < 1e-12, "{layout:?}, {rows} features: {e:e}");
        }
    }
}

#[test]
fn no_slot_is_above_the_bound_for_the_largest_inputs() {
    let part = 2f64.powi(7);
    for layout in layouts() {
        let layer = Layer::random(layout.tokens, [13, 20], 4..15, 4);
        let kernel = InProjection::new(layout, layer.rows, layer.columns, layer.range.clone(), 4).unwrap();
        let (weights, taps, bias) = (
            |r: usize, c: usize| layer.w[r * layer.columns + c],
            |c: usize, r: usize| layer.taps[c * layer.count + r],
            |c: usize| layer.bias[c],
        );
        let bound = kernel.output_bound(&weights, &taps, &bias, part);
        let plain = plain(&layout);
        let mut largest = 0f64;
        for column in 0..layer.columns {
            // The signs of a column's weights in every part of every slot, also of those that name no value:
            // the worst case of this column where taps are all positive or absent.
            let sign =
                |lane: &Lane| lane.map(|at| part * weights(at.unwrap_or(0) as usize % layer.rows, column).signum());
            let input = |i| {
                let slots: Vec<_> = kernel.lanes(i).iter().map(sign).map(|[re, im]| Complex64::new(re, im)).collect();
                plain.fresh(&slots, kernel.level())
            };
            let results = kernel.run(&plain, &weights, &taps, &bias, &input).unwrap();
            largest = results.iter().flat_map(|c| c.slots().to_vec()).map(|z| z.norm()).fold(largest, f64::max);
        }
        assert!(largest <= bound * (1.0 + 1e-9), "{layout:?}: {largest} above {bound}");
        assert!(largest > 0.3 * bound, "{layout:?}: {largest} far below {bound}");
    }
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let good = Layout { slots: 32, segment: 8, tokens: 3, pairing: Pairing::Tokens, floor: 1 };
    let refused = |r: crate::Result<Projection>| matches!(r, Err(HybridError::Shape { .. }));
    assert!(refused(Projection::new(Layout { segment: 6, ..good }, 1, 1)));
    assert!(refused(Projection::new(Layout { segment: 64, ..good }, 1, 1)));
    assert!(refused(Projection::new(Layout { slots: 33, ..good }, 1, 1)));
    assert!(refused(Projection::new(Layout { tokens: 0, ..good }, 1, 1)));
    assert!(refused(Projection::new(Layout { tokens: 1 << 30, ..good }, 8, 1)));
    assert!(refused(Projection::new(good, 0, 1)) && refused(Projection::new(good, 1, 0)));
    assert!(Convolution::new(good, 3, 6).is_err() && Convolution::new(good, 3, 0).is_err());
    assert!(InProjection::new(good, 3, 4, 2..5, 2).is_err());
    assert!(InProjection::new(good, 3, 4, 2..2, 2).is_err());
}

#[test]
fn a_fitting_layout_has_one_group_where_it_can() {
    for pairing in PAIRINGS {
        for tokens in [1, 2, 63, 64, 65, 128, 500, 5000] {
            let layout = Layout::fitting(1 << 14, tokens, pairing, 64, 2);
            layout.check(1, 1).unwrap();
            let per_group = layout.rows() * if pairing == Pairing::Tokens { 2 } else { 1 };
            assert_eq!(layout.groups(), tokens.div_ceil(per_group));
            assert!(layout.groups() == 1 || layout.segment == 64, "{layout:?}");
        }
    }
    assert_eq!(Layout::fitting(1 << 14, 128, Pairing::Tokens, 64, 2).segment, 256);
}
