//! Holds a fused operation to an elementary version of it and to finite differences.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use candle_core::{Device, Result, Tensor, Var};
use fesc_ring::Prg;

/// Values in [-1, 1).
pub(crate) fn random(seed: u8, shape: &[usize]) -> Tensor {
    let mut prg = Prg::from_seed([seed; 16]);
    let count = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..count).map(|_| (prg.next_u64() >> 40) as f32 / (1u32 << 23) as f32 - 1.0).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

fn flat(t: &Tensor) -> Vec<f32> {
    t.flatten_all().unwrap().to_vec1().unwrap()
}

pub(crate) struct Check<'a> {
    pub(crate) x: &'a Tensor,
    pub(crate) w: &'a Tensor,
    /// Step of the central difference.
    pub(crate) step: f32,
    /// Allowed error of outputs and gradients relative to the largest entry; of differences ten times that.
    pub(crate) tolerance: f32,
}

fn close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let size = expected.iter().fold(1e-3f32, |m, v| m.max(v.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance * size, "{what}[{i}]: {f} is not {e} (size {size})");
    }
}

impl Check<'_> {
    /// The loss is a fixed random linear function of the output, so that every entry of it matters
    /// differently.
    pub(crate) fn run(
        &self,
        fused: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
        elementary: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) {
        let (dx, dw) = self.run_without_differences(&fused, elementary);
        let loss = |x: &Tensor, w: &Tensor| total(&fused(x, w).unwrap());
        close(
            "dx by differences",
            &flat(&dx),
            &differences(self.x, self.step, |x| loss(x, self.w)),
            10.0 * self.tolerance,
        );
        close(
            "dw by differences",
            &flat(&dw),
            &differences(self.w, self.step, |w| loss(self.x, w)),
            10.0 * self.tolerance,
        );
    }
}

fn gradients(x: &Tensor, w: &Tensor, f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> (Tensor, Tensor, Tensor) {
    let (x, w) = (Var::from_tensor(x).unwrap(), Var::from_tensor(w).unwrap());
    let y = f(&x, &w).unwrap();
    let grads = (&y * &random(99, y.dims())).unwrap().sum_all().unwrap().backward().unwrap();
    (y.clone(), grads.get(&x).unwrap().clone(), grads.get(&w).unwrap().clone())
}

/// The same linear function, summed in f64: the differences lose less.
fn total(y: &Tensor) -> f64 {
    let weights = flat(&random(99, y.dims()));
    flat(y).iter().zip(weights).map(|(y, w)| f64::from(*y) * f64::from(w)).sum()
}

fn differences(x: &Tensor, step: f32, f: impl Fn(&Tensor) -> f64) -> Vec<f32> {
    let values = flat(x);
    let at = |i: usize, by: f32| {
        let mut moved = values.clone();
        moved[i] += by;
        f(&Tensor::from_vec(moved, x.dims(), &Device::Cpu).unwrap())
    };
    (0..values.len()).map(|i| ((at(i, step) - at(i, -step)) / (2.0 * f64::from(step))) as f32).collect()
}

impl Check<'_> {
    /// For shapes with too many values to move each; returns the gradients.
    pub(crate) fn run_without_differences(
        &self,
        fused: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
        elementary: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> (Tensor, Tensor) {
        let (y, dx, dw) = gradients(self.x, self.w, &fused);
        let (y2, dx2, dw2) = gradients(self.x, self.w, &elementary);
        close("output", &flat(&y), &flat(&y2), self.tolerance);
        close("dx", &flat(&dx), &flat(&dx2), self.tolerance);
        close("dw", &flat(&dw), &flat(&dw2), self.tolerance);
        (dx, dw)
    }

    /// The share of entries whose gradient agrees with the differences: for functions with jumps.
    pub(crate) fn share_of_differences(&self, fused: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> f64 {
        let (_, dx, dw) = gradients(self.x, self.w, &fused);
        let loss = |x: &Tensor, w: &Tensor| total(&fused(x, w).unwrap());
        let found: Vec<f32> = flat(&dx).into_iter().chain(flat(&dw)).collect();
        let mut expected = differences(self.x, self.step, |x| loss(x, self.w));
        expected.extend(differences(self.w, self.step, |w| loss(self.x, w)));
        let size = found.iter().fold(1e-3f32, |m, v| m.max(v.abs()));
        let good = found.iter().zip(&expected).filter(|(f, e)| (*f - *e).abs() <= 10.0 * self.tolerance * size).count();
        good as f64 / found.len() as f64
    }
}
