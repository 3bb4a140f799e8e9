//! One block of the model on one segment (design 6): the protocol, written once over the stages for both
//! parties.

use fesc_mpc::{Party, Shared};
use fesc_scan::{Carry, Dual, Packet, Scan};

use crate::flow::{Declare, Flow, Segment};
use crate::pads::{Pad, Pads};
use crate::setup::{Matrix, ServerSetup};
use crate::stage::{Activate, Bias, Gate, Half, Linear, Norm, Rescale, StepSecrets, Steps, Widths};
use crate::{InferError, Result, Watch};

/// What a party brings to the layers.
pub(crate) enum Side<'a> {
    /// The client: prepared blocks.
    Client(&'a mut dyn Pads),
    /// The server: weights and RLWE secrets.
    Server(&'a ServerSetup),
}

/// What a layer carries from one segment to the next.
#[derive(Default)]
pub(crate) struct Memory {
    /// The last normed tokens, which the convolution reads.
    past: Option<Shared>,
    /// The scan's state.
    carry: Option<Carry>,
}

/// The stages of one layer and one segment.
pub(crate) struct LayerStages {
    layer: usize,
    segment: Segment,
    widths: Widths,
    norm: Norm,
    in_proj: Linear,
    activate: Activate,
    steps: Steps,
    scan: Dual,
    gate: Gate,
    gated: Norm,
    out_proj: Linear,
    leave: Rescale,
}

impl LayerStages {
    pub(crate) fn new(flow: &Flow, layer: usize, segment: &Segment) -> Result<Self> {
        let (outline, forms, widths, tokens) = (flow.outline(), flow.forms(layer)?, flow.widths(), segment.tokens);
        let (shape, ring, f, s) = (outline.shape(), outline.ring(), outline.frac(), &forms.scales);
        Ok(Self {
            layer,
            segment: *segment,
            widths,
            norm: Norm::new(ring, &forms.norm, f, tokens),
            in_proj: Self::linear(flow, Matrix::InProj, segment)?,
            activate: Activate::new(ring, forms, f, &widths, tokens)?,
            steps: Steps::new(ring, forms, f, shape.heads, tokens),
            scan: Dual::new(shape, forms, tokens, segment.index > 0, !segment.last)?,
            gate: Gate::new(ring, forms, f, tokens * widths.inner),
            gated: Norm::new(ring, &forms.gated, s.gated, tokens * shape.norm_groups),
            out_proj: Self::linear(flow, Matrix::OutProj, segment)?,
            leave: Rescale::new(ring, f + s.out_weight, f, tokens * shape.d_model),
        })
    }

    /// One of the linear layers.
    pub(crate) fn linear(flow: &Flow, matrix: Matrix, segment: &Segment) -> Result<Linear> {
        let shape = flow.outline().shape();
        let linear = matrix.shape(shape)?;
        match matrix {
            Matrix::InProj => {
                Linear::new(flow.params(), linear, segment.before, segment.tokens, flow.widths().columns())
            }
            Matrix::OutProj => Linear::new(flow.params(), linear, 0, segment.tokens, std::iter::once(0..shape.d_model)),
        }
    }

    /// Shows every stage with its cost, in order.
    pub(crate) fn declare(&self, visit: &mut dyn FnMut(&'static str, Declare<'_>) -> Result<()>) -> Result<()> {
        visit("norm", &|l| self.norm.declare(l))?;
        visit("in_proj", &|l| {
            self.in_proj.declare(l);
            Ok(())
        })?;
        visit("silu", &|l| self.activate.declare(l))?;
        visit("steps", &|l| self.steps.declare(l))?;
        visit("scan", &|l| Ok(self.scan.declare(l)?))?;
        visit("gate", &|l| self.gate.declare(l))?;
        visit("gated_norm", &|l| self.gated.declare(l))?;
        visit("out_proj", &|l| {
            self.out_proj.declare(l);
            Ok(self.leave.declare(l)?)
        })
    }

    /// The stream of the segment with the block's output added.
    pub(crate) fn run(
        &self,
        party: &mut Party,
        side: &mut Side<'_>,
        memory: &mut Memory,
        stream: &Shared,
        watch: &mut dyn Watch,
    ) -> Result<Shared> {
        let mut enter = |stage| watch.stage(stage, Some(self.layer), self.segment.index);
        enter("norm");
        let normed = self.norm.run(party, stream.clone())?;
        enter("in_proj");
        let normed = self.with_past(memory, normed)?;
        let parts = self.project(party, side, Matrix::InProj, &normed)?;
        drop(normed);
        let [z, x, b, c, dt]: [Shared; 5] = parts.try_into().map_err(|parts: Vec<_>| InferError::Size {
            what: "parts of a projection",
            expected: 5,
            got: parts.len(),
        })?;
        enter("silu");
        let active = self.activate.run(party, [z, x, b, c])?;
        enter("steps");
        let secrets = match side {
            Side::Client(_) => None,
            Side::Server(setup) => Some(setup.secrets(self.layer)?),
        };
        let of_steps = secrets.map(|s| StepSecrets { rates: &s.rates, thresholds: &s.thresholds });
        let (delta, z) = self.steps.run(party, dt, of_steps)?;
        enter("scan");
        let packet = Packet { x: active.x, b: active.b, c: active.c, delta, z };
        let (y, carry) = self.scan.run(party, &packet, secrets.map(|s| &s.skip[..]), memory.carry.as_ref())?;
        memory.carry = carry;
        drop(packet);
        enter("gate");
        let gated = self.gate.run(party, &y, &active.gate)?;
        drop((y, active.gate));
        enter("gated_norm");
        let gated = self.gated.run(party, gated)?;
        enter("out_proj");
        let mut out = self.project(party, side, Matrix::OutProj, &gated)?;
        let out = out.pop().ok_or(InferError::Size { what: "parts of a projection", expected: 1, got: 0 })?;
        Ok(self.leave.run(party, out)?.add(stream)?)
    }

    /// The past in front of the segment; the end of the segment becomes the past of the next.
    fn with_past(&self, memory: &mut Memory, normed: Shared) -> Result<Shared> {
        let width = normed.len() / self.segment.tokens.max(1);
        let past = memory.past.take();
        if !self.segment.last {
            let keep = self.in_proj.overlap().min(self.segment.tokens) * width;
            memory.past = Some(normed.slice(normed.len() - keep..normed.len())?);
        }
        Ok(match past {
            Some(past) => Shared::concat(&[&past, &normed])?,
            None => normed,
        })
    }

    fn project(&self, party: &mut Party, side: &mut Side<'_>, matrix: Matrix, x: &Shared) -> Result<Vec<Shared>> {
        let linear = match matrix {
            Matrix::InProj => &self.in_proj,
            Matrix::OutProj => &self.out_proj,
        };
        match side {
            Side::Client(pads) => {
                let (layer, segment) = (self.layer, self.segment.index);
                let mut take = |index: usize| {
                    let found = linear.blocks().get(index);
                    let &block = found.ok_or(InferError::Size { what: "blocks", expected: index + 1, got: index })?;
                    pads.take(&Pad { layer, matrix, segment, index, block })
                };
                linear.run(party, Half::Client(&mut take), x)
            }
            Side::Server(setup) => {
                let (secrets, server) = (setup.secrets(self.layer)?, setup.matrix(self.layer, matrix)?);
                let [_, x_first, _, _, dt_first] = self.widths.columns().map(|columns| columns.start);
                let biases = match matrix {
                    Matrix::InProj => vec![
                        Bias { first: x_first, values: &secrets.conv_bias },
                        Bias { first: dt_first, values: &secrets.step_bias },
                    ],
                    Matrix::OutProj => Vec::new(),
                };
                linear.run(party, Half::Server(&server, &biases), x)
            }
        }
    }
}
