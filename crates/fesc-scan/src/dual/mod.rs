//! The block dual form on shares: `fesc_model::twin`'s scan, step by step, in one pass over a segment.
//!
//! All chunks and heads of a segment go through each step together, so rounds do not grow with tokens. Steps,
//! with `cs` the sums of z inside a chunk (local) and s.* the layer's scales; `->` is one rounding:
//!
//! | step | computes | scale |
//! |---|---|---|
//! | exp | right, left factors of every level of the halving tree, col, row; decays | s.exp |
//! | open | B, C, X, right, row, decay, and the exps that are multiplied by Delta | |
//! | products | S = C B^T | 2 s.bc -> s.score |
//! | | left = exp Delta; col = exp Delta | s.exp + 22 -> 22; -> s.column |
//! | open | S, left, col | |
//! | products | Lt = right left (diagonal Delta) | s.exp + 22 -> 22 |
//! | | V = col o X | s.column + s.x -> s.weighted |
//! | open | Lt, V | |
//! | products | M = S o Lt, the server adds D | s.score + 22 -> s.mixed |
//! | | states B^T V | s.bc + s.weighted -> s.state |
//! | open | M, states | |
//! | products | Y = M X; H = decay states | s.mixed + s.x; s.exp + s.state -> s.state |
//! | open, product | C H | s.bc + s.state -> s.mixed + s.x - s.exp |
//! | open, product | Y + row o (C H) | s.mixed + s.x -> s.scanned |
//!
//! Decays are those between the ends of chunks. A carry enters as a state before the first chunk whose own
//! sum is 0; the state after the last chunk is one more sum. The last chunk is padded with zeros; fewer
//! tokens than a chunk are one chunk of that many. One chunk alone has no states.
//!
//! Every integer is one that the twin may give: an exact product, then the floor or the ceiling of a
//! quotient. (S, M X, chunk states, H and C H ask for rounded correlations: from `fesc_rlwe`'s coefficients
//! engine these five products may be off by a few units of the last place, before they are rounded.) What is
//! public (a factor that is exp(0), the diagonal of the decay matrix) enters as a constant.
//!
//! Cost: [`Dual::steps`]. What the parties see: tensors under masks that are used once, and the messages of
//! the truncations and exps. Not guaranteed: a right result when a value leaves its range; calibration must
//! keep tensors inside (the twin checks).

mod layout;
mod run;
mod segment;
mod tree;
mod wiring;

use fesc_model::Shape;
use fesc_model::outline::{Exponential, LayerForms, Scales, scale};
use fesc_mpc::protocol::{Opened, Rescale};
use fesc_mpc::{Cost, Ledger, Request};
use fesc_ring::Ring;

use self::segment::Segment;
use self::tree::{Factor, Level, Target};
use self::wiring::{Dims, Wiring};
use crate::{Result, ScanError};

/// The block dual kernel for one segment of a fixed number of tokens.
#[derive(Debug, Clone)]
pub struct Dual {
    dims: Dims,
    ring: Ring,
    scales: Scales,
    chunk: Exponential,
    document: Exponential,
    segment: Segment,
    levels: Vec<Level>,
    /// The exps of each chunk, for every head the same.
    factors: Vec<Vec<Factor>>,
    wiring: Wiring,
}

/// One step of the schedule.
enum Action<'a> {
    Exp(&'a Exponential, usize),
    Start,
    Open(Vec<usize>),
    Round { from: u32, to: u32, count: usize },
}

impl Dual {
    /// A kernel for `tokens` of one segment, with a state that enters (`carry_in`) or is handed on
    /// (`carry_out`).
    ///
    /// # Errors
    /// For 0 tokens or more than a segment has, and for shapes and scales that do not fit together.
    pub fn new(shape: &Shape, forms: &LayerForms, tokens: usize, carry_in: bool, carry_out: bool) -> Result<Self> {
        Self::with_chunk(shape, forms, scale::CHUNK, tokens, carry_in, carry_out)
    }

    /// With chunks of another size than the twin's: for the cost model and tests.
    pub(crate) fn with_chunk(
        shape: &Shape,
        forms: &LayerForms,
        chunk: usize,
        tokens: usize,
        carry_in: bool,
        carry_out: bool,
    ) -> Result<Self> {
        if tokens == 0 || tokens > scale::SEGMENT || chunk == 0 {
            return Err(ScanError::Tokens { tokens, most: scale::SEGMENT });
        }
        let &Shape { heads, head_dim, groups, state, .. } = shape;
        if heads * head_dim * groups * state == 0 || !heads.is_multiple_of(groups) {
            let why = "all must be positive, and the groups must divide the heads";
            return Err(ScanError::Shape { heads, head_dim, groups, state, why });
        }
        let s = &forms.scales;
        let carried = i64::from(s.mixed) + i64::from(s.x) - i64::from(s.exp);
        if carried < 0 {
            return Err(ScanError::Scale { what: "C H", bits: carried });
        }
        for form in [&forms.chunk, &forms.document] {
            crate::error::check("fractional bits of exp", s.exp as usize, form.out_frac() as usize)?;
        }
        let dims = Dims { groups, per_group: heads / groups, head_dim, state };
        let segment = Segment::new(tokens, chunk, carry_in, carry_out);
        let levels = tree::levels(segment.q);
        let factors: Vec<Vec<Factor>> = (0..segment.chunks)
            .map(|c| tree::factors(&levels, segment.real(c), segment.entered(c), segment.kept(c)))
            .collect();
        let times_delta = |f: &&Factor| matches!(f.to, Target::Left { .. } | Target::Column { .. });
        let scaled = heads * factors.iter().flatten().filter(times_delta).count();
        let ring = scale::RING;
        let wiring = Wiring::new(s, &dims, &segment, &levels, scaled);
        let (chunk, document) = (forms.chunk.clone(), forms.document.clone());
        Ok(Self { dims, ring, scales: *s, chunk, document, segment, levels, factors, wiring })
    }

    /// The cost by step, in order; the sum of the bytes and of the rounds is that of
    /// [`crate::Scan::declare`].
    ///
    /// # Errors
    /// As [`crate::Scan::declare`].
    pub fn steps(&self) -> Result<Vec<(&'static str, Cost)>> {
        let cost = |action: &Action<'_>| {
            let mut ledger = Ledger::new();
            self.declare_one(action, &mut ledger).map(|()| ledger.cost())
        };
        let all = self.schedule().into_iter().map(|(name, action)| Ok((name, cost(&action)?)));
        all.filter(|step| step.as_ref().map_or(true, |(_, cost)| cost.rounds > 0)).collect()
    }

    fn declare_one(&self, action: &Action<'_>, ledger: &mut Ledger) -> Result<()> {
        let bundle = &self.wiring.bundle;
        match action {
            Action::Exp(form, count) => crate::exponential::declare_exponential(self.ring, form, *count, ledger)?,
            Action::Start => ledger.need(Request::Bundle(bundle.clone())),
            Action::Open(masks) if masks.is_empty() => {}
            Action::Open(masks) => Opened::declare_open(bundle, masks, ledger),
            &Action::Round { from, to, count } => Rescale::new(self.ring, from, to, count).declare(ledger)?,
        }
        Ok(())
    }

    /// What [`crate::Scan::run`] sends, in its order.
    fn schedule(&self) -> Vec<(&'static str, Action<'_>)> {
        let (w, s, d, seg) = (&self.wiring, &self.scales, &self.dims, &self.segment);
        let (heads, tile) = (d.heads(), layout::triangle(seg.q));
        let tokens = seg.q * d.inner();
        let states = d.state * d.inner();
        let chunks_if = |some: bool| if some { seg.chunks } else { 0 };
        let to = |f: fn(&Target) -> bool| self.factors.iter().flatten().filter(|x| f(&x.to)).count() * heads;
        let lefts = to(|t| matches!(t, Target::Left { .. }));
        let columns = to(|t| matches!(t, Target::Column { .. })) + seg.kept_chunks() * heads;
        let exps = self.factors.iter().map(Vec::len).sum::<usize>() * heads;
        let decays = if w.chain.is_some() { heads * layout::triangle(seg.states() - 1) } else { 0 };
        let c = &w.chunks;
        let round = |from, to, count| Action::Round { from, to, count };
        let (delta, sum) = (scale::DELTA, s.mixed + s.x);

        let mut inputs = vec![c.b, c.c, c.x];
        inputs.extend(c.entered.map(|e| e.row));
        inputs.extend(w.factors.iter().flat_map(|f| [f.left, f.right]));
        inputs.extend(w.levels.iter().map(|l| l.left));
        inputs.extend(w.chain.map(|c| c.left));
        let second = [c.score].into_iter().chain(w.levels.iter().map(|l| l.right)).chain(c.kept.map(|k| k.column));
        let third = [c.lower].into_iter().chain(c.kept.map(|k| k.weighted));
        let fourth = [c.mixed].into_iter().chain(w.chain.map(|c| c.right));
        let chained = if w.chain.is_some() { seg.states() * states } else { 0 };
        vec![
            ("exp inside chunks", Action::Exp(&self.chunk, exps)),
            ("exp between chunks", Action::Exp(&self.document, decays)),
            ("", Action::Start),
            ("open B, C, X and exps", Action::Open(inputs)),
            ("round C B^T", round(2 * s.bc, s.score, seg.chunks * d.groups * tile)),
            ("round left factors", round(s.exp + delta, delta, lefts)),
            ("round col", round(s.exp + delta, s.column, columns)),
            ("open C B^T, left factors, col", Action::Open(second.collect())),
            ("round Lt", round(s.exp + delta, delta, seg.chunks * heads * tile)),
            ("round col o X", round(s.column + s.x, s.weighted, chunks_if(c.kept.is_some()) * tokens)),
            ("open Lt, col o X", Action::Open(third.collect())),
            ("round M", round(s.score + delta, s.mixed, seg.chunks * heads * tile)),
            ("round chunk states", round(s.bc + s.weighted, s.state, seg.kept_chunks() * states)),
            ("open M, chunk states", Action::Open(fourth.collect())),
            ("round H", round(s.exp + s.state, s.state, chained)),
            ("open H", Action::Open(c.entered.map(|e| e.state).into_iter().collect())),
            ("round C H", round(s.bc + s.state, sum - s.exp, chunks_if(c.entered.is_some()) * tokens)),
            ("open C H", Action::Open(c.entered.map(|e| e.carried).into_iter().collect())),
            ("round y", round(sum, s.scanned, seg.tokens * d.inner())),
        ]
    }
}
