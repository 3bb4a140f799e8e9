//! Both parties' runs: one walk through the schedule, with what each brings.

use fesc_mpc::{Party, Role, Shared};
use fesc_ring::Prg;
use zeroize::Zeroizing;

use crate::flow::{Flow, Reveal, Segment};
use crate::layer::{LayerStages, Memory, Side};
use crate::pads::{Fresh, Pads};
use crate::setup::{ClientSetup, ServerSetup};
use crate::stage::{Rows, selection};
use crate::{InferError, Result};

/// Follows a run. Everything it is told is public or this party's own.
pub trait Watch {
    /// A stage begins.
    fn stage(&mut self, stage: &'static str, layer: Option<usize>, segment: usize) {
        let _ = (stage, layer, segment);
    }

    /// This party's share of the residual stream that enters a layer; `layer = layers`: of the one that
    /// leaves the last. Both shares together are the secret: whoever joins them breaks the privacy of the
    /// run.
    fn stream(&mut self, layer: usize, share: &Shared) {
        let _ = (layer, share);
    }

    /// At the end: the client's seconds for what does not depend on the document (its blocks of the linear
    /// layers).
    fn offline(&mut self, seconds: f64) {
        let _ = seconds;
    }
}

/// Follows nothing.
pub struct Unwatched;

impl Watch for Unwatched {}

/// What the client learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The label: arg-max of the exact logits, the first class at a tie.
    Label(usize),
    /// Logits after the exact floor, and the arg-max of the floors (the first class at a tie).
    Logits {
        /// At REVEAL fractional bits.
        integers: Vec<i64>,
        /// The class.
        class: usize,
    },
}

impl Answer {
    /// The class.
    pub fn class(&self) -> usize {
        match self {
            Answer::Label(class) | Answer::Logits { class, .. } => *class,
        }
    }
}

/// The client's run: `ids` are the real tokens, at most [`Flow::tokens`]. Blocks of the linear layers are
/// computed as they are needed.
///
/// # Errors
/// If the document or the setup does not fit the schedule, before anything is sent; else if the protocol
/// fails.
pub fn run_client(
    party: &mut Party,
    flow: &Flow,
    setup: &ClientSetup,
    ids: &[u32],
    prg: &mut Prg,
    watch: &mut dyn Watch,
) -> Result<Answer> {
    let mut pads = Fresh::new(setup, prg.fork());
    run_client_with(party, flow, setup, ids, prg, &mut pads, watch)
}

/// The same with blocks from elsewhere, made in the order of [`Flow::pads`].
///
/// # Errors
/// As [`run_client`].
pub fn run_client_with(
    party: &mut Party,
    flow: &Flow,
    setup: &ClientSetup,
    ids: &[u32],
    prg: &mut Prg,
    pads: &mut dyn Pads,
    watch: &mut dyn Watch,
) -> Result<Answer> {
    check_role(party, Role::P0)?;
    setup.check(flow)?;
    let (room, vocabulary) = (flow.tokens(), flow.outline().shape().vocab);
    if ids.is_empty() || ids.len() > room {
        return Err(InferError::Document { tokens: ids.len(), room });
    }
    if let Some((index, &id)) = ids.iter().enumerate().find(|(_, id)| **id as usize >= vocabulary) {
        return Err(InferError::Token { index, id, vocabulary });
    }
    // Padding is row 0: real tokens do not see it, and pooling leaves it out.
    let mut padded = Zeroizing::new(ids.to_vec());
    padded.resize(room, 0);
    let select = Zeroizing::new(selection(flow.outline().shape().pooling, ids.len(), room));
    let mut embed = |party: &mut Party, s: &Segment| {
        let ids = padded.get(s.first..s.first + s.tokens).unwrap_or_default();
        let rows = setup.rows(ids)?;
        let rows = match setup.table() {
            Some(table) => Rows::Client { ids, rows: &rows, table, prg },
            None => Rows::Public(&rows),
        };
        flow.embed(s).run(party, rows)
    };
    let stream = embedding(party, flow, &mut embed, watch)?;
    let stream = layers(party, flow, &mut Side::Client(pads), stream, watch)?;
    let logits = logits(party, flow, stream, Some(&select), None, watch)?;
    watch.offline(pads.seconds());
    let nothing = InferError::Misuse { what: "the answer", why: "it was not opened to the client" };
    reveal(party, flow, &logits, watch)?.ok_or(nothing)
}

/// The server's run. It learns nothing, not even the answer.
///
/// # Errors
/// If the setup does not fit the schedule, before anything is sent; else if the protocol fails.
pub fn run_server(party: &mut Party, flow: &Flow, setup: &ServerSetup, watch: &mut dyn Watch) -> Result<()> {
    check_role(party, Role::P1)?;
    setup.client_setup().check(flow)?;
    let head = setup.head().ok_or(InferError::Misuse { what: "the model", why: "it has no classifier" })?;
    let mut embed = |party: &mut Party, s: &Segment| {
        let rows = setup.owner().map_or(Rows::Nothing, Rows::Server);
        flow.embed(s).run(party, rows)
    };
    let stream = embedding(party, flow, &mut embed, watch)?;
    let stream = layers(party, flow, &mut Side::Server(setup), stream, watch)?;
    let logits = logits(party, flow, stream, None, Some((&head.weights, &head.bias)), watch)?;
    reveal(party, flow, &logits, watch)?;
    Ok(())
}

fn check_role(party: &Party, role: Role) -> Result<()> {
    if party.role() == role {
        return Ok(());
    }
    Err(InferError::Misuse { what: "the party", why: "the client runs as P0, the server as P1" })
}

/// The stream from its segments.
fn join(flow: &Flow, parts: &[Shared]) -> Result<Shared> {
    let whole = Shared::concat(&parts.iter().collect::<Vec<_>>())?;
    crate::error::check("values of the stream", flow.tokens() * flow.outline().shape().d_model, whole.len())?;
    Ok(whole)
}

fn cut(flow: &Flow, stream: &Shared, segment: &Segment) -> Result<Shared> {
    let width = flow.outline().shape().d_model;
    Ok(stream.slice(segment.first * width..(segment.first + segment.tokens) * width)?)
}

fn embedding(
    party: &mut Party,
    flow: &Flow,
    embed: &mut dyn FnMut(&mut Party, &Segment) -> Result<Shared>,
    watch: &mut dyn Watch,
) -> Result<Shared> {
    let mut parts = Vec::new();
    for segment in flow.segments() {
        watch.stage("embedding", None, segment.index);
        parts.push(embed(party, &segment)?);
    }
    join(flow, &parts)
}

fn layers(
    party: &mut Party,
    flow: &Flow,
    side: &mut Side<'_>,
    mut stream: Shared,
    watch: &mut dyn Watch,
) -> Result<Shared> {
    let layers = flow.outline().shape().layers;
    for layer in 0..layers {
        watch.stream(layer, &stream);
        let (mut memory, mut parts) = (Memory::default(), Vec::new());
        for segment in flow.segments() {
            let stages = LayerStages::new(flow, layer, &segment)?;
            parts.push(stages.run(party, side, &mut memory, &cut(flow, &stream, &segment)?, watch)?);
        }
        stream = join(flow, &parts)?;
    }
    watch.stream(layers, &stream);
    Ok(stream)
}

/// Final norm, pooling, head.
fn logits(
    party: &mut Party,
    flow: &Flow,
    stream: Shared,
    select: Option<&[u64]>,
    head: Option<(&[i64], &[i64])>,
    watch: &mut dyn Watch,
) -> Result<Shared> {
    let mut pooled: Option<Shared> = None;
    for segment in flow.segments() {
        watch.stage("final_norm", None, segment.index);
        let states = flow.final_norm(&segment).run(party, cut(flow, &stream, &segment)?)?;
        watch.stage("pool", None, segment.index);
        let own = select.map(|s| s.get(segment.first..segment.first + segment.tokens).unwrap_or_default());
        let part = flow.pool(&segment).run(party, own, &states)?;
        pooled = Some(match pooled {
            Some(sum) => sum.add(&part)?,
            None => part,
        });
    }
    drop(stream);
    let pooled = pooled.ok_or(InferError::Size { what: "segments", expected: 1, got: 0 })?;
    watch.stage("head", None, 0);
    flow.head().run(party, pooled, head)
}

fn reveal(party: &mut Party, flow: &Flow, logits: &Shared, watch: &mut dyn Watch) -> Result<Option<Answer>> {
    watch.stage("reveal", None, 0);
    Ok(match flow.reveal() {
        Reveal::Label => flow.label().run(party, logits)?.map(Answer::Label),
        Reveal::Logits => flow.floor()?.run(party, logits)?.map(|integers| {
            let class = fesc_model::metrics::largest(&integers).unwrap_or(0);
            Answer::Logits { integers, class }
        }),
    })
}
