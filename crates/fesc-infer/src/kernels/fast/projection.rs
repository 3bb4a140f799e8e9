//! A matrix of a layer by RLWE: what [`Linear`] needs, found in what the parties have.

use fesc_mpc::{Ledger, Party, Shared};
use fesc_rlwe::linear::Block;

use super::{Bias, Linear};
use crate::blocks::BlockId;
use crate::run::ServerKit;
use crate::schedule::{Schedule, Segment};
use crate::setup::Matrix;
use crate::stage::{Kit, Projection, Rescale, Side, Widths};
use crate::{InferError, Result};

/// A projection of one layer on one segment.
pub struct RlweProjection {
    layer: usize,
    matrix: Matrix,
    segment: usize,
    widths: Widths,
    linear: Linear,
    /// The last rounding, where nothing else rounds the parts.
    leave: Option<Rescale>,
}

impl RlweProjection {
    pub(crate) fn new(schedule: &Schedule, layer: usize, matrix: Matrix, segment: &Segment) -> Result<Self> {
        let (outline, widths, params) = (schedule.outline(), schedule.widths(), schedule.params());
        let (shape, f) = (outline.shape(), outline.frac());
        let linear = matrix.shape(shape)?;
        let (linear, leave) = match matrix {
            Matrix::InProj => (Linear::new(params, linear, segment.before, segment.tokens, widths.columns())?, None),
            Matrix::OutProj => {
                let from = f + schedule.forms(layer)?.scales.out_weight;
                let leave = Rescale::new(outline.ring(), from, f, segment.tokens * shape.d_model);
                (Linear::new(params, linear, 0, segment.tokens, std::iter::once(0..shape.d_model))?, Some(leave))
            }
        };
        Ok(Self { layer, matrix, segment: segment.index, widths, linear, leave })
    }
}

impl Projection for RlweProjection {
    fn declare(&self, ledger: &mut Ledger) -> Result<()> {
        self.linear.declare(ledger);
        Ok(self.leave.map_or(Ok(()), |leave| leave.declare(ledger))?)
    }

    fn past(&self) -> usize {
        self.linear.overlap()
    }

    fn ahead(&self) -> &[Block] {
        self.linear.blocks()
    }

    fn run(&self, party: &mut Party, kit: Kit<'_, '_>, x: &Shared) -> Result<Vec<Shared>> {
        let Self { layer, matrix, segment, .. } = *self;
        let parts = match kit {
            Side::Client(kit) => {
                let mut take = |index: usize| {
                    let found = self.linear.blocks().get(index);
                    let &block = found.ok_or(InferError::Size { what: "blocks", expected: index + 1, got: index })?;
                    kit.blocks.take(&BlockId { layer, matrix, segment, index, block })
                };
                self.linear.run(party, Side::Client(&mut take), x)?
            }
            Side::Server(ServerKit { setup, .. }) => {
                let (vectors, server) = (setup.vectors(layer)?, setup.matrix(layer, matrix)?);
                let [_, x_first, _, _, dt_first] = self.widths.columns().map(|columns| columns.start);
                let biases = match matrix {
                    Matrix::InProj => vec![
                        Bias { first: x_first, values: &vectors.conv_bias },
                        Bias { first: dt_first, values: &vectors.step_bias },
                    ],
                    Matrix::OutProj => Vec::new(),
                };
                self.linear.run(party, Side::Server((&server, &biases)), x)?
            }
        };
        match self.leave {
            Some(leave) => parts.into_iter().map(|part| Ok(leave.run(party, part)?)).collect(),
            None => Ok(parts),
        }
    }
}
