//! A model's weights, held to the bound of the projections' masks before anything of it is published.

use fesc_model::plan;
use fesc_model::twin::Twin;
use zeroize::Zeroizing;

use super::CkksProjection;
use crate::schedule::{Reveal, Schedule};
use crate::setup::Matrix;
use crate::{InferError, Result};

/// Refuses a model whose weights are too large for projections under encryption, before anything of it is
/// published. The bound is the same for every length.
///
/// # Errors
/// If a projection can have a larger result than is masked.
pub(crate) fn check_weights(twin: &Twin) -> Result<()> {
    let outline = twin.outline()?;
    if outline.plan().projection != plan::Projection::Ckks || outline.classes() == 0 {
        return Ok(());
    }
    let schedule = Schedule::new(outline, 1, Reveal::Label)?;
    for (layer, segment) in schedule.blocks_in_order() {
        for matrix in Matrix::ALL {
            CkksProjection::new(&schedule, layer, matrix, &segment)?.check(twin)?;
        }
    }
    Ok(())
}

impl CkksProjection {
    /// Refuses a twin whose weights give larger results than are masked.
    fn check(&self, twin: &Twin) -> Result<()> {
        let own = Integers::of(twin, self)?;
        self.bounded(&|r, c| own.weight(r, c), &|c, r| own.tap(c, r))
    }
}

/// A projection's integers as the twin has them.
pub(super) struct Integers<'t> {
    /// Rows of weights, one for each column of the matrix.
    rows: Zeroizing<Vec<i64>>,
    inputs: usize,
    taps: &'t [Vec<i64>],
}

impl<'t> Integers<'t> {
    pub fn of(twin: &'t Twin, projection: &CkksProjection) -> Result<Self> {
        let (layer, none) = (projection.layer, InferError::Misuse { what: "the twin", why: "it has no such layer" });
        let taps = twin.secrets(layer).ok_or(none)?.taps;
        let rows = Zeroizing::new(match projection.matrix {
            Matrix::InProj => twin.in_proj(layer)?,
            Matrix::OutProj => twin.out_proj(layer)?,
        });
        Ok(Self { inputs: rows.len() / projection.columns.max(1), rows, taps })
    }

    pub fn weight(&self, r: usize, c: usize) -> i64 {
        self.rows.get(c * self.inputs + r).copied().unwrap_or(0)
    }

    pub fn tap(&self, c: usize, r: usize) -> i64 {
        self.taps.get(r).and_then(|taps| taps.get(c)).copied().unwrap_or(0)
    }
}
