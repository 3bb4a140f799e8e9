//! One vector per document of a packed batch: the mean of its rows, or its last row.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Layout as Strides, Result, Shape, Tensor};
use fesc_model::Pooling;

use super::{Layout, sized, tensor, values, with_values, wrong};

/// The operation.
pub struct Pool {
    /// The documents; none may be empty.
    pub layout: Arc<Layout>,
    /// What of each is taken.
    pub pooling: Pooling,
}

impl Pool {
    fn width(&self, dims: &[usize]) -> Result<usize> {
        let [rows, width] = dims else { return Err(wrong("pooled states that are no matrix")) };
        sized("the rows to pool", *rows, self.layout.rows())?;
        Ok(*width)
    }
}

impl CustomOp1 for Pool {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Strides) -> Result<(CpuStorage, Shape)> {
        let width = self.width(layout.dims())?;
        let x = values(storage, layout)?;
        let documents = self.layout.documents();
        let mut out = vec![0.0; documents.len() * width];
        for (out, document) in out.chunks_exact_mut(width).zip(documents) {
            let rows = &x[document.start * width..document.end * width];
            match self.pooling {
                Pooling::Last => out.copy_from_slice(&rows[rows.len() - width..]),
                Pooling::Mean => {
                    let mut sum = vec![0.0f64; width];
                    for row in rows.chunks_exact(width) {
                        sum.iter_mut().zip(row).for_each(|(sum, v)| *sum += f64::from(*v));
                    }
                    out.iter_mut().zip(sum).for_each(|(out, sum)| *out = (sum / document.len() as f64) as f32);
                }
            }
        }
        Ok((CpuStorage::F32(out), (documents.len(), width).into()))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let width = self.width(x.dims())?;
        let mut out = vec![0.0; x.elem_count()];
        with_values(&grad.contiguous()?, |grad| {
            for (grad, document) in grad.chunks_exact(width).zip(self.layout.documents()) {
                let (from, share) = match self.pooling {
                    Pooling::Last => (document.end - 1, 1.0),
                    Pooling::Mean => (document.start, 1.0 / document.len() as f32),
                };
                for row in out[from * width..document.end * width].chunks_exact_mut(width) {
                    row.iter_mut().zip(grad).for_each(|(row, g)| *row = g * share);
                }
            }
            Ok(())
        })?;
        tensor(out, x.shape()).map(Some)
    }
}

/// Pools the rows of every document. No document may be empty.
pub fn pool(x: &Tensor, layout: Arc<Layout>, pooling: Pooling) -> Result<Tensor> {
    if layout.documents().iter().any(|d| d.is_empty()) {
        return Err(wrong("a document without tokens"));
    }
    x.apply_op1(Pool { layout, pooling })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::ops::testing::{Check, random};

    #[test]
    fn agrees_with_elementary_operations_and_with_differences() {
        let (x, w) = (random(1, &[6, 3]), random(2, &[3]));
        let layout = Arc::new(Layout::new([1, 3, 2]));
        for pooling in [Pooling::Mean, Pooling::Last] {
            let elementary = |x: &Tensor, w: &Tensor| {
                let one = |d: &std::ops::Range<usize>| match pooling {
                    Pooling::Mean => x.narrow(0, d.start, d.len())?.mean_keepdim(0),
                    Pooling::Last => x.narrow(0, d.end - 1, 1),
                };
                let rows = layout.documents().iter().map(one).collect::<Result<Vec<_>>>()?;
                Tensor::cat(&rows, 0)?.broadcast_mul(w)
            };
            Check { x: &x, w: &w, step: 1e-2, tolerance: 1e-4 }
                .run(|x, w| pool(x, layout.clone(), pooling)?.broadcast_mul(w), elementary);
        }
        assert!(pool(&x, Arc::new(Layout::new([6, 0])), Pooling::Mean).is_err());
        assert!(pool(&x, Arc::new(Layout::new([5])), Pooling::Mean).is_err());
    }
}
