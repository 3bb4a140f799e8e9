//! A packet in the clear, its recurrence, and a kernel held to it.
#![allow(clippy::unwrap_used)]

mod encrypted;

pub(crate) use encrypted::run_encrypted;

use fesc_hybrid::backend::{Backend, Chain, Count, Operations, Plain};
use fesc_ring::Prg;
use num_complex::Complex64;

use super::{HeScan, ScanShape, Value, decay_product};

/// A packet in the clear.
pub(crate) struct Clear {
    pub shape: ScanShape,
    x: Vec<f64>,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl Clear {
    /// Values in -1 .. 1, decays in 0 .. 1, half of the heads above 0.9.
    pub fn random(shape: ScanShape, seed: u8) -> Self {
        let mut prg = Prg::from_seed([seed; 16]);
        let mut unit = || (prg.next_u64() >> 11) as f64 / 2f64.powi(53);
        let ScanShape { tokens, heads, groups, state, .. } = shape;
        let mut signed = |n: usize| (0..n).map(|_| 2.0 * unit() - 1.0).collect::<Vec<f64>>();
        let x = signed(tokens * shape.channels());
        let (b, c) = (signed(tokens * groups * state), signed(tokens * groups * state));
        let a = (0..tokens * heads).map(|i| if i % heads % 2 == 0 { unit() } else { 0.9 + 0.1 * unit() }).collect();
        Self { shape, x, a, b, c }
    }

    pub fn value(&self, v: Value) -> f64 {
        match v {
            Value::X(i) => self.x[i as usize],
            Value::A(i) => self.a[i as usize],
            Value::B(i) => self.b[i as usize],
            Value::C(i) => self.c[i as usize],
            Value::Decays { head, from, to } => {
                decay_product(&self.a, self.shape.heads, head as usize, from as usize..to as usize)
            }
        }
    }

    /// The slots of an input of a kernel.
    pub fn slots(&self, kernel: &impl HeScan, i: usize) -> Vec<Complex64> {
        let part = |v: Option<Value>| v.map_or(0.0, |v| self.value(v));
        kernel.lanes(i).into_iter().map(|[re, im]| Complex64::new(part(re), part(im))).collect()
    }

    /// `m_t[e]` at `t E + e`, token by token.
    pub fn recurrence(&self) -> Vec<f64> {
        let ScanShape { tokens, heads, head_dim, groups, state } = self.shape;
        let channels = self.shape.channels();
        let mut h = vec![0.0; channels * state];
        let mut m = vec![0.0; tokens * channels];
        for t in 0..tokens {
            for e in 0..channels {
                let head = e / head_dim;
                let at = (t * groups + self.shape.group(head)) * state;
                for i in 0..state {
                    let s = &mut h[e * state + i];
                    *s = self.a[t * heads + head] * *s + self.x[t * channels + e] * self.b[at + i];
                    m[t * channels + e] += self.c[at + i] * *s;
                }
            }
        }
        m
    }

    /// The outputs that results hold.
    pub fn read(&self, kernel: &impl HeScan, results: &[Vec<Complex64>]) -> Vec<f64> {
        assert_eq!(kernel.results(), results.len());
        let mut m = vec![0.0; self.shape.tokens * self.shape.channels()];
        let mut seen = vec![false; m.len()];
        for (i, slots) in results.iter().enumerate() {
            for (lane, z) in kernel.outputs(i).into_iter().zip(slots) {
                for (place, part) in lane.into_iter().zip([z.re, z.im]) {
                    if let Some(at) = place {
                        m[at as usize] += part;
                        seen[at as usize] = true;
                    }
                }
            }
        }
        assert!(seen.iter().all(|s| *s), "an output that no slot holds");
        m
    }
}

/// Runs a kernel in the clear at `slots` slots with `levels` levels; the largest error, relative to the
/// largest output, must be small, and what it does must be what is counted.
pub(crate) fn equals_the_recurrence(kernel: &impl HeScan, slots: usize, levels: usize, seed: u8) {
    let clear = Clear::random(*kernel.shape(), seed);
    let plain = Plain::new(Chain::ideal(slots, 40, levels, 3));
    let results = kernel.run(&plain, &|i| plain.fresh(&clear.slots(kernel, i), kernel.level(i))).unwrap();
    let slots: Vec<Vec<Complex64>> = results.iter().map(|c| c.slots().to_vec()).collect();
    let (got, want) = (clear.read(kernel, &slots), clear.recurrence());
    let largest = want.iter().fold(1e-9f64, |m, x| m.max(x.abs()));
    let error = got.iter().zip(&want).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
    assert!(error <= 1e-9 * largest, "{:?}: error {error:e} of {largest}", kernel.shape());
    let counted = count(kernel, Chain::ideal(plain.slots(), 40, levels, 3));
    assert_eq!(counted.operations().tally(), Operations::tally(plain.operations()));
}

/// A kernel, counted.
pub(crate) fn count(kernel: &impl HeScan, chain: Chain) -> Count {
    let count = Count::new(chain);
    kernel.run(&count, &|i| Ok(count.fresh(kernel.level(i)))).unwrap();
    count
}

/// Shapes of the tests of every packing: tokens, heads, channels of a head, groups, states.
pub(crate) const SHAPES: [[usize; 5]; 6] =
    [[1, 1, 1, 1, 1], [5, 1, 2, 1, 3], [16, 2, 4, 1, 4], [13, 4, 3, 2, 5], [32, 3, 2, 3, 2], [33, 2, 4, 1, 8]];

pub(crate) fn shape([tokens, heads, head_dim, groups, state]: [usize; 5]) -> ScanShape {
    ScanShape { tokens, heads, head_dim, groups, state }
}
