//! What of a schedule is under CKKS: kernels cut for its shapes, their keys, and how much crosses between
//! shares and ciphertexts in one inference. Public, and the same for both parties.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use fesc_hybrid::backend::{Backend, Chain, Count};
use fesc_hybrid::ckks::server::EvaluationKeyPlan;
use fesc_hybrid::ckks::{Params, sets};
use fesc_hybrid::keys::KeyShape;
use fesc_hybrid::project::{InProjection, Layout, Pairing, Projection};
use fesc_model::outline::Outline;
use fesc_model::{Shape, plan};
use fesc_scan::hescan::ScanShape;
use fesc_scan::{Geometries, Totals};

use crate::keys::KeySets;
use crate::schedule::Segment;
use crate::{InferError, Result};

/// Fewest features of a row in the slots.
const LEAST_SEGMENT: usize = 64;

/// The kernels of a schedule that are under encryption.
#[derive(Default)]
pub(crate) struct Crossings {
    /// Scans of all segments.
    pub scan: Option<Geometries>,
    pub projections: Option<Projections>,
    totals: Option<Totals>,
}

/// Both projections, by the number of rows that they take.
pub(crate) struct Projections {
    pub params: Params,
    pub chain: Chain,
    inputs: BTreeMap<usize, (InProjection, Arc<Count>)>,
    outputs: BTreeMap<usize, (Projection, Arc<Count>)>,
    plan: EvaluationKeyPlan,
}

impl Crossings {
    pub fn new(outline: &Outline, segments: &[Segment]) -> Result<Self> {
        let (plan, shape) = (outline.plan(), outline.shape());
        let mut crossings = Self::default();
        let (mut values, mut masked) = (0, 0);
        if let plan::Scan::HeScan(kernel) = plan.scan {
            let tokens = segments.iter().map(|s| s.tokens).sum();
            if segments.len() > 1 && !plan.scan.carries() {
                return Err(InferError::Length { tokens, most: plan.scan.segment() });
            }
            let &Shape { heads, head_dim, groups, state, .. } = shape;
            let spans: Vec<_> = segments.iter().map(Segment::span).collect();
            let scan = Geometries::new(ScanShape { tokens, heads, head_dim, groups, state }, kernel, &spans)?;
            Totals { values, masked } = scan.totals();
            crossings.scan = Some(scan);
        }
        if plan.projection == plan::Projection::Ckks {
            let projections = Projections::new(shape, segments)?;
            for segment in segments {
                let (rows, results) = (segment.before + segment.tokens, projections.results(segment)?);
                values += (rows * shape.d_model + segment.tokens * shape.inner()) as u64;
                masked += (results * projections.params.degree()) as u64;
            }
            crossings.projections = Some(projections);
        }
        let layers = shape.layers as u64;
        crossings.totals = (values > 0).then_some(Totals { values: values * layers, masked: masked * layers });
        Ok(crossings)
    }

    /// What an inference converts in all.
    pub fn totals(&self) -> Totals {
        self.totals.unwrap_or(Totals { values: 1, masked: 1 })
    }

    /// The client's keys.
    pub fn keys(&self) -> KeySets<KeyShape> {
        KeySets {
            project: self.projections.as_ref().map(|p| KeyShape::new(p.params.clone(), p.plan.clone())),
            scan: self.scan.as_ref().map(|scan| scan.keys().clone()),
        }
    }
}

impl Projections {
    fn new(shape: &Shape, segments: &[Segment]) -> Result<Self> {
        let params = sets::PROJECT.params().map_err(fesc_hybrid::HybridError::from)?;
        let chain = Chain::of(&params);
        // As many rows as taps at least, however few tokens there are.
        let layout = |tokens: usize| {
            let room = tokens.max(2 * shape.conv_width);
            let fitting = Layout::fitting(params.slots(), room, Pairing::Tokens, LEAST_SEGMENT, sets::BOUNDARY);
            Layout { tokens, ..fitting }
        };
        let convolved = shape.inner()..shape.inner() + shape.conv_dim();
        let (mut inputs, mut outputs) = (BTreeMap::new(), BTreeMap::new());
        let mut plan = EvaluationKeyPlan::default();
        let mut needs = |count: &Count| plan.join(&count.operations().key_plan());
        for segment in segments {
            let rows = segment.before + segment.tokens;
            if let Entry::Vacant(entry) = inputs.entry(rows) {
                let taps = shape.conv_width;
                let kernel = InProjection::new(layout(rows), shape.d_model, shape.proj_dim(), convolved.clone(), taps)?;
                let count = Count::new(chain.clone());
                let fresh = |_| Ok(count.fresh(kernel.level()));
                kernel.run(&count, &|_, _| 1.0, &|_, _| 1.0, &|_| 0.0, &fresh)?;
                needs(&count);
                entry.insert((kernel, Arc::new(count)));
            }
            if let Entry::Vacant(entry) = outputs.entry(segment.tokens) {
                let kernel = Projection::new(layout(segment.tokens), shape.inner(), shape.d_model)?;
                let count = Count::new(chain.clone());
                kernel.run(&count, &|_, _| 1.0, &|_| Ok(count.fresh(kernel.level())))?;
                needs(&count);
                entry.insert((kernel, Arc::new(count)));
            }
        }
        Ok(Self { params, chain, inputs, outputs, plan })
    }

    /// HEInProj with HEConv of a segment and its past, and its count.
    pub fn input(&self, segment: &Segment) -> Result<&(InProjection, Arc<Count>)> {
        self.inputs.get(&(segment.before + segment.tokens)).ok_or(UNPLANNED)
    }

    /// HEOutProj of a segment, and its count.
    pub fn output(&self, segment: &Segment) -> Result<&(Projection, Arc<Count>)> {
        self.outputs.get(&segment.tokens).ok_or(UNPLANNED)
    }

    fn results(&self, segment: &Segment) -> Result<usize> {
        Ok(self.input(segment)?.0.results() + self.output(segment)?.0.results())
    }
}

const UNPLANNED: InferError = InferError::Misuse { what: "the schedule", why: "it has no such segment" };

#[cfg(test)]
mod tests;
