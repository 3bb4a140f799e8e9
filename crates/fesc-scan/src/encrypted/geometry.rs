//! What depends on shapes alone: the kernel and its set, which values of the packet there are, and where they
//! lie.

use std::collections::BTreeSet;
use std::sync::Arc;

use fesc_ckks::Params;
use fesc_ckks::server::EvaluationKeyPlan;
use fesc_ckks::sets::Set;
use fesc_hybrid::backend::{Backend, Chain, Count};
use fesc_hybrid::boundary::{Encoding, Layout};
use fesc_hybrid::keys::KeyShape;
use fesc_model::plan::HeScanKernel;

use super::document::Span;
use crate::Result;
use crate::hescan::cut::{Chosen, Packing, Wanted, choose};
use crate::hescan::{HeScan, Lane, ScanShape, Value};

/// A tensor that goes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Delta x.
    X,
    /// Products of decays.
    Decays,
    B,
    C,
    /// The state that enters.
    State,
}

impl Kind {
    pub(super) const ALL: [Self; 5] = [Self::X, Self::Decays, Self::B, Self::C, Self::State];

    fn of(value: Value) -> Self {
        match value {
            Value::X(_) => Self::X,
            Value::A(_) | Value::Decays { .. } => Self::Decays,
            Value::B(_) => Self::B,
            Value::C(_) => Self::C,
            Value::State(_) => Self::State,
        }
    }
}

/// The product of decays of a head over tokens `from .. to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Range {
    pub head: u32,
    pub from: u32,
    pub to: u32,
}

/// The kernel for one shape, cut and numbered.
pub struct Geometry {
    chosen: Chosen,
    params: Params,
    chain: Chain,
    /// Inputs of the kernel by tensor.
    inputs: [Vec<usize>; 5],
    /// Where an input of the kernel is among all tensors'.
    places: Vec<usize>,
    /// All products of decays; in order of token and head where a kernel takes single ones.
    ranges: Vec<Range>,
    single: bool,
    /// Results of the kernel that hold outputs, and those that hold the state that is handed on.
    outputs: Vec<usize>,
    states: Vec<usize>,
}

impl Geometry {
    /// The best cut of a kernel for a shape, of a whole document. Both parties find the same.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(shape: ScanShape, kernel: HeScanKernel) -> Result<Arc<Self>> {
        let whole = Span { tokens: shape.tokens, carry_in: false, carry_out: false };
        Self::of_span(shape, whole, kernel, None)
    }

    /// The same of some tokens of a document, on a set.
    pub(super) fn of_span(shape: ScanShape, span: Span, kernel: HeScanKernel, set: Option<Set>) -> Result<Arc<Self>> {
        let shape = ScanShape { tokens: span.tokens, ..shape };
        let packing = match kernel {
            HeScanKernel::Hybrid => Packing::Hybrid,
            HeScanKernel::Lanes => Packing::Lanes,
            HeScanKernel::Chunks => Packing::Chunks,
            HeScanKernel::Dual => Packing::Dual,
        };
        let carries = [span.carry_in, span.carry_out];
        let wanted = |packing| Wanted { carries, set, packed: true, ..Wanted::new(packing) };
        let chosen = match choose(&wanted(packing), shape) {
            // A few tokens have no leaf of four.
            Err(_) if packing == Packing::Hybrid => choose(&wanted(Packing::Lanes), shape)?,
            chosen => chosen?,
        };
        let params = chosen.set.params().map_err(fesc_hybrid::HybridError::from)?;
        let mut inputs: [Vec<usize>; 5] = Default::default();
        let (mut found, mut single) = (BTreeSet::new(), true);
        for i in 0..chosen.kernel.inputs() {
            let lanes = chosen.kernel.lanes(i);
            let mut values = lanes.iter().flatten().flatten();
            // One kind to a ciphertext; one without values holds zeros of any.
            let kind = values.clone().next().map_or(Kind::X, |v| Kind::of(*v));
            inputs[kind as usize].push(i);
            if kind == Kind::Decays && values.clone().any(|v| matches!(v, Value::Decays { .. })) {
                single = false;
                found.extend(values.by_ref().filter_map(|v| match *v {
                    Value::Decays { head, from, to } => Some(Range { head, from, to }),
                    _ => None,
                }));
            }
        }
        let ranges = if single {
            let tokens = 0..shape.tokens as u32;
            let heads = 0..shape.heads as u32;
            tokens.flat_map(|t| heads.clone().map(move |head| Range { head, from: t, to: t + 1 })).collect()
        } else {
            found.into_iter().collect()
        };
        let mut places = vec![0; chosen.kernel.inputs()];
        inputs.iter().flatten().enumerate().for_each(|(place, &i)| places[i] = place);
        let (chain, kernel) = (Chain::of(&params), &chosen.kernel);
        let (states, outputs) = (0..kernel.results()).partition(|&i| kernel.holds_state(i));
        Ok(Arc::new(Self { chosen, params, chain, inputs, places, ranges, single, outputs, states }))
    }

    /// The shape.
    pub fn shape(&self) -> &ScanShape {
        self.chosen.kernel.shape()
    }

    /// The kernel, its set and its cut.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// What the kernel does.
    pub fn count(&self) -> &Count {
        &self.chosen.count
    }

    /// The set.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Its evaluation keys.
    pub fn key_plan(&self) -> EvaluationKeyPlan {
        self.chosen.count.operations().key_plan()
    }

    /// The client's keys for it.
    pub fn keys(&self) -> KeyShape {
        KeyShape::new(self.params.clone(), self.key_plan())
    }

    /// Distinct values that go up.
    pub fn values(&self) -> u64 {
        Kind::ALL.iter().map(|&kind| self.tensor(kind) as u64).sum()
    }

    /// Ciphertexts that come down.
    pub fn results(&self) -> usize {
        self.chosen.kernel.results()
    }

    /// Whether a state enters, and whether the last one is handed on.
    pub(super) fn carried(&self) -> [bool; 2] {
        self.chosen.kernel.carried()
    }

    /// Results with outputs, and with states.
    pub(super) fn results_by_kind(&self) -> (usize, usize) {
        (self.outputs.len(), self.states.len())
    }

    /// The outputs in the slots of one of the results that hold some.
    pub(super) fn outputs(&self, i: usize) -> Vec<Lane<u32>> {
        self.outputs.get(i).map_or_else(Vec::new, |&i| self.chosen.kernel.outputs(i))
    }

    /// The states, `i E + e`, in the slots of one of the results that hold some.
    pub(super) fn states(&self, i: usize) -> Vec<Lane<u32>> {
        let outputs = self.tensor(Kind::X) as u32;
        let named = self.states.get(i).map_or_else(Vec::new, |&i| self.chosen.kernel.outputs(i));
        named.into_iter().map(|lane| lane.map(|name| name.and_then(|n| n.checked_sub(outputs)))).collect()
    }

    /// Coefficients that are masked.
    pub fn masked(&self) -> u64 {
        (self.results() * self.params.degree()) as u64
    }

    /// The canonical scale of a level.
    pub(super) fn scale(&self, level: usize) -> f64 {
        self.chain.scale(level)
    }

    /// The scale of results.
    pub(super) fn result_scale(&self) -> f64 {
        self.scale(self.floor()) * self.chosen.kernel.result_scale()
    }

    /// The level of results.
    pub(super) fn floor(&self) -> usize {
        fesc_ckks::sets::BOUNDARY
    }

    /// Where input `i` of the kernel is among the inputs of all tensors.
    pub(super) fn place(&self, i: usize) -> usize {
        self.places.get(i).copied().unwrap_or(usize::MAX)
    }

    /// All products of decays.
    pub(super) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Values of a tensor.
    pub(super) fn tensor(&self, kind: Kind) -> usize {
        let s = self.shape();
        match kind {
            Kind::X => s.tokens * s.channels(),
            Kind::Decays => self.ranges.len(),
            Kind::B | Kind::C => s.tokens * s.groups * s.state,
            Kind::State if self.carried()[0] => s.state * s.channels(),
            Kind::State => 0,
        }
    }

    /// How the ciphertexts of a tensor are made.
    pub(super) fn encodings(&self, kind: Kind) -> Vec<Encoding> {
        let kernel = &self.chosen.kernel;
        let encoding = |&i: &usize| {
            let level = kernel.level(i);
            Encoding { level, scale: self.scale(level), parts: kernel.parts(i) }
        };
        self.inputs[kind as usize].iter().map(encoding).collect()
    }

    /// Where the values of a tensor lie.
    pub(super) fn layout(self: &Arc<Self>, kind: Kind) -> Layout {
        let (own, count) = (self.clone(), self.inputs[kind as usize].len());
        Layout::made(&self.params, self.tensor(kind), count, move |j| own.lanes(kind, j))
    }

    fn lanes(&self, kind: Kind, j: usize) -> Vec<[Option<u32>; 2]> {
        let Some(&i) = self.inputs[kind as usize].get(j) else { return Vec::new() };
        let lanes = self.chosen.kernel.lanes(i);
        lanes.into_iter().map(|lane| lane.map(|value| value.and_then(|v| self.number(v)))).collect()
    }

    /// The number of a value in its tensor.
    fn number(&self, value: Value) -> Option<u32> {
        match value {
            Value::X(v) | Value::B(v) | Value::C(v) | Value::State(v) => Some(v),
            Value::A(v) if self.single => Some(v),
            Value::A(v) => {
                let (t, head) = (v / self.shape().heads as u32, v % self.shape().heads as u32);
                self.find(Range { head, from: t, to: t + 1 })
            }
            Value::Decays { head, from, to } => self.find(Range { head, from, to }),
        }
    }

    fn find(&self, range: Range) -> Option<u32> {
        self.ranges.binary_search(&range).ok().map(|at| at as u32)
    }
}
