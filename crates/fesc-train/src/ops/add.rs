//! The residual sum on the calling thread: candle's own addition of large tensors goes through one spinning
//! pool of threads, in which data-parallel workers wait for each other.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::{sized, values};

struct Add;

impl CustomOp2 for Add {
    fn name(&self) -> &'static str {
        "residual"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        let (a, b) = (values(s1, l1)?, values(s2, l2)?);
        sized("the second part of a sum", b.len(), a.len())?;
        Ok((CpuStorage::F32(a.iter().zip(b).map(|(a, b)| a + b).collect()), l1.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, _: &Tensor, grad: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((Some(grad.clone()), Some(grad.clone())))
    }
}

/// `a + b` of one shape.
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a.apply_op2(b, Add)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::ops::testing::{Check, random};

    #[test]
    fn agrees_with_candle_and_with_differences() {
        let (x, w) = (random(1, &[3, 5]), random(2, &[3, 5]));
        Check { x: &x, w: &w, step: 1e-2, tolerance: 1e-4 }.run(add, |x, w| x + w);
        assert!(add(&x, &random(3, &[3, 4])).is_err());
    }
}
