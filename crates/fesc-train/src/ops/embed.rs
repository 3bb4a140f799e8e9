//! Rows of the embedding. Backward adds every token's gradient to its row, in the order of the tokens.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::{tensor, values, with_values, wrong};

/// The operation.
pub struct Embed {
    /// The tokens.
    pub ids: Arc<[u32]>,
}

fn width(dims: &[usize]) -> Result<usize> {
    match dims {
        [_, width] if *width > 0 => Ok(*width),
        _ => Err(wrong("an embedding that is no matrix")),
    }
}

impl CustomOp1 for Embed {
    fn name(&self) -> &'static str {
        "embed"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let table = values(storage, layout)?;
        let width = width(layout.dims())?;
        let mut out = Vec::with_capacity(self.ids.len() * width);
        for &id in &*self.ids {
            let at = id as usize * width;
            let row = table.get(at..at + width).ok_or_else(|| wrong(&format!("token {id}, which has no row")))?;
            out.extend_from_slice(row);
        }
        Ok((CpuStorage::F32(out), (self.ids.len(), width).into()))
    }

    fn bwd(&self, table: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let width = width(table.dims())?;
        let mut out = vec![0.0; table.elem_count()];
        with_values(&grad.contiguous()?, |grad| {
            for (&id, grad) in self.ids.iter().zip(grad.chunks_exact(width)) {
                // The forward pass took this row.
                let Some(row) = out.get_mut(id as usize * width..(id as usize + 1) * width) else { continue };
                row.iter_mut().zip(grad).for_each(|(row, g)| *row += g);
            }
            Ok(())
        })?;
        tensor(out, table.shape()).map(Some)
    }
}

/// `table[ids]`: one row per token.
pub fn embed(table: &Tensor, ids: Arc<[u32]>) -> Result<Tensor> {
    table.apply_op1(Embed { ids })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::ops::testing::{Check, random};

    #[test]
    fn agrees_with_candle_and_with_differences() {
        let (table, scale) = (random(1, &[5, 3]), random(2, &[3]));
        let ids: Arc<[u32]> = [4, 1, 1, 0, 4, 4].into();
        let index = Tensor::new(&*ids, &candle_core::Device::Cpu).unwrap();
        Check { x: &table, w: &scale, step: 1e-2, tolerance: 1e-4 }
            .run(|t, s| embed(t, ids.clone())?.broadcast_mul(s), |t, s| t.index_select(&index, 0)?.broadcast_mul(s));
        assert!(embed(&table, [5].into()).is_err());
    }
}
