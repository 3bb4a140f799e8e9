//! One block of the model on one segment: the protocol, written once over the stages for both parties.
//!
//! It names no kernel: what a plan chooses stands behind the traits of [`crate::stage`].

use fesc_hybrid::verify::{Deviation, Witness};
use fesc_hybrid::work::Work;
use fesc_model::twin::Twin;
use fesc_mpc::{Party, Shared};
use fesc_scan::{Carry, Packet};

use crate::kernels::Kernels;
use crate::keys;
use crate::schedule::{Declare, Schedule, Segment};
use crate::stage::{Gate, Kit, Side, Stage, StepSecrets};
use crate::watch::{Doing, Watch};
use crate::{InferError, Result};

/// What a layer carries from one segment to the next.
#[derive(Default)]
pub(crate) struct Memory {
    /// The last normed tokens, which the convolution reads.
    past: Option<Shared>,
    /// The scan's state.
    carry: Option<Carry>,
}

/// One layer on one segment.
pub(crate) struct Block {
    layer: usize,
    segment: Segment,
    kernels: Kernels,
    gate: Gate,
}

impl Block {
    pub(crate) fn new(schedule: &Schedule, layer: usize, segment: &Segment) -> Result<Self> {
        let (outline, forms) = (schedule.outline(), schedule.forms(layer)?);
        let gate = Gate::new(outline.ring(), forms, outline.frac(), segment.tokens * schedule.widths().inner);
        Ok(Self { layer, segment: *segment, kernels: Kernels::new(schedule, layer, segment)?, gate })
    }

    /// Shows every stage with its cost, in order.
    pub(crate) fn declare(&self, visit: &mut dyn FnMut(Stage, Declare<'_>) -> Result<()>) -> Result<()> {
        let k = &self.kernels;
        visit(Stage::Norm, &|l| k.norm.declare(l))?;
        visit(Stage::InProj, &|l| k.in_proj.declare(l))?;
        visit(Stage::Silu, &|l| k.activations.declare_silu(l))?;
        visit(Stage::Steps, &|l| k.activations.declare_steps(l))?;
        visit(Stage::Scan, &|l| Ok(k.scan.declare(l)?))?;
        visit(Stage::Gate, &|l| self.gate.declare(l))?;
        visit(Stage::GatedNorm, &|l| k.gated_norm.declare(l))?;
        visit(Stage::OutProj, &|l| k.out_proj.declare(l))
    }

    /// What the server computes under encryption, in order.
    pub(crate) fn works(&self) -> impl Iterator<Item = (Stage, Work)> + '_ {
        let k = &self.kernels;
        let before = k.in_proj.work().map(|work| (Stage::InProj, work));
        let scans = k.scan.works().into_iter().map(|work| (Stage::Scan, work));
        before.into_iter().chain(scans).chain(k.out_proj.work().map(|work| (Stage::OutProj, work)))
    }

    /// How far what was computed under encryption is from the same in the clear, in order.
    pub(crate) fn deviations(
        &self,
        twin: &Twin,
        witnesses: &mut dyn Iterator<Item = &Witness>,
    ) -> Result<Vec<(Stage, Deviation)>> {
        let k = &self.kernels;
        let mut found = Vec::new();
        for (stage, kernel) in
            [(Stage::InProj, Some(&k.in_proj)), (Stage::Scan, None), (Stage::OutProj, Some(&k.out_proj))]
        {
            let Some(kernel) = kernel else {
                found.extend(k.scan.deviations(witnesses)?.into_iter().map(|deviation| (stage, deviation)));
                continue;
            };
            if kernel.work().is_some() {
                let none = InferError::Size { what: "circuits of a run", expected: found.len() + 1, got: found.len() };
                let witness = witnesses.next().ok_or(none)?;
                found.extend(kernel.deviation(twin, witness)?.map(|deviation| (stage, deviation)));
            }
        }
        Ok(found)
    }

    /// The stream of the segment with the block's output added.
    pub(crate) fn run(
        &self,
        party: &mut Party,
        mut kit: Kit<'_, '_>,
        memory: &mut Memory,
        stream: &Shared,
        watch: &mut dyn Watch,
    ) -> Result<Shared> {
        let k = &self.kernels;
        let mut enter = |stage| watch.doing(Doing::Stage(stage, Some(self.layer), self.segment.index));
        enter(Stage::Norm);
        let normed = k.norm.run(party, stream.clone())?;
        enter(Stage::InProj);
        let normed = self.with_past(memory, normed)?;
        let parts = k.in_proj.run(party, kit.again(), &normed)?;
        drop(normed);
        let [z, x, b, c, dt]: [Shared; 5] = parts.try_into().map_err(|parts: Vec<_>| InferError::Size {
            what: "parts of a projection",
            expected: 5,
            got: parts.len(),
        })?;
        enter(Stage::Silu);
        let active = k.activations.silu(party, [z, x, b, c])?;
        enter(Stage::Steps);
        let vectors = match kit.again() {
            Side::Client(_) => Side::Client(()),
            Side::Server(kit) => Side::Server(kit.setup.vectors(self.layer)?),
        };
        let secrets = match vectors {
            Side::Client(()) => Side::Client(()),
            Side::Server(v) => Side::Server(StepSecrets { rates: &v.rates, thresholds: &v.thresholds }),
        };
        let (delta, z) = k.activations.steps(party, secrets, dt)?;
        enter(Stage::Scan);
        let packet = Packet { x: active.x, b: active.b, c: active.c, delta, z };
        let skip = vectors.server().map(|v| &v.skip[..]);
        let keys = keys::of(kit.again().keys(), |k| &mut k.scan, |k| &k.scan);
        let (y, carry) = k.scan.run(party, keys, &packet, skip, memory.carry.as_ref())?;
        memory.carry = carry;
        drop(packet);
        enter(Stage::Gate);
        let gated = self.gate.run(party, &y, &active.gate)?;
        drop((y, active.gate));
        enter(Stage::GatedNorm);
        let gated = k.gated_norm.run(party, gated)?;
        enter(Stage::OutProj);
        let mut out = k.out_proj.run(party, kit.again(), &gated)?;
        let out = out.pop().ok_or(InferError::Size { what: "parts of a projection", expected: 1, got: 0 })?;
        Ok(out.add(stream)?)
    }

    /// The past in front of the segment; the end of the segment becomes the past of the next.
    fn with_past(&self, memory: &mut Memory, normed: Shared) -> Result<Shared> {
        let width = normed.len() / self.segment.tokens.max(1);
        let past = memory.past.take();
        if !self.segment.last {
            let keep = self.kernels.in_proj.past().min(self.segment.tokens) * width;
            memory.past = Some(normed.slice(normed.len() - keep..normed.len())?);
        }
        Ok(match past {
            Some(past) => Shared::concat(&[&past, &normed])?,
            None => normed,
        })
    }
}
