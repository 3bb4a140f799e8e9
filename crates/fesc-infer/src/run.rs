//! Both parties' runs: one walk through the schedule, with what each brings.

use fesc_hybrid::keys::{ClientKeys, ServerKeys};
use fesc_mpc::{Party, Role, Shared};
use fesc_ring::Prg;
use zeroize::Zeroizing;

use crate::block::{Block, Memory};
use crate::blocks::{BlockSource, FreshBlocks};
use crate::keys::KeySets;
use crate::schedule::{Reveal, Schedule, Segment};
use crate::setup::{ClientSetup, ServerSetup};
use crate::stage::{HeadSecrets, Kit, Rows, Side, Stage, selection};
use crate::watch::{Doing, Watch};
use crate::{InferError, Result};

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

/// What the client brings to the stages of a run.
pub struct ClientKit<'a> {
    /// Hints and table.
    pub setup: &'a ClientSetup,
    /// The tokens, padded to the schedule's length.
    pub ids: &'a [u32],
    /// The pooling vector.
    pub select: &'a [u64],
    /// Prepared blocks of the linear layers.
    pub blocks: &'a mut dyn BlockSource,
    /// Randomness of the queries to the table.
    pub prg: &'a mut Prg,
    /// CKKS keys, where the plan has kernels under encryption.
    pub keys: &'a mut KeySets<ClientKeys>,
}

/// What the server brings to the stages of a run.
pub struct ServerKit<'a> {
    /// Weights and secrets.
    pub setup: &'a ServerSetup,
    /// The client's CKKS keys, where the plan has kernels under encryption.
    pub keys: &'a KeySets<ServerKeys>,
}

/// What the client made before the document was known.
pub struct Ahead<'a> {
    /// Blocks of the linear layers, in the order of [`Schedule::blocks`].
    pub blocks: &'a mut dyn BlockSource,
    /// CKKS keys of [`Schedule::keys`], which the server has.
    pub keys: &'a mut KeySets<ClientKeys>,
}

/// The client's run: `ids` are the real tokens, at most [`Schedule::tokens`]. Blocks of the linear layers are
/// computed as they are needed.
///
/// # Errors
/// If the document or the setup does not fit the schedule, before anything is sent; else if the protocol
/// fails.
pub fn run_client(
    party: &mut Party,
    schedule: &Schedule,
    setup: &ClientSetup,
    ids: &[u32],
    prg: &mut Prg,
    watch: &mut dyn Watch,
) -> Result<Answer> {
    let mut blocks = FreshBlocks::new(setup, prg.fork());
    let ahead = Ahead { blocks: &mut blocks, keys: &mut KeySets::default() };
    run_client_with(party, schedule, setup, ids, prg, ahead, watch)
}

/// The same with blocks from elsewhere, and with keys.
///
/// # Errors
/// As [`run_client`].
pub fn run_client_with(
    party: &mut Party,
    schedule: &Schedule,
    setup: &ClientSetup,
    ids: &[u32],
    prg: &mut Prg,
    ahead: Ahead<'_>,
    watch: &mut dyn Watch,
) -> Result<Answer> {
    check_role(party, Role::P0)?;
    setup.check(schedule)?;
    let (room, vocabulary) = (schedule.tokens(), schedule.outline().shape().vocab);
    if ids.is_empty() || ids.len() > room {
        return Err(InferError::Document { tokens: ids.len(), room });
    }
    if let Some((index, &id)) = ids.iter().enumerate().find(|(_, id)| **id as usize >= vocabulary) {
        return Err(InferError::Token { index, id, vocabulary });
    }
    // Padding is row 0: real tokens do not see it, and pooling leaves it out.
    let mut padded = Zeroizing::new(ids.to_vec());
    padded.resize(room, 0);
    let select = Zeroizing::new(selection(schedule.outline().shape().pooling, ids.len(), room));
    let Ahead { blocks, keys } = ahead;
    let mut kit = ClientKit { setup, ids: &padded, select: &select, blocks, prg, keys };
    let logits = logits(party, schedule, Side::Client(&mut kit), watch)?;
    watch.offline(kit.blocks.seconds());
    let nothing = InferError::Misuse { what: "the answer", why: "it was not opened to the client" };
    reveal(party, schedule, &logits, watch)?.ok_or(nothing)
}

/// The server's run. It learns nothing, not even the answer.
///
/// # Errors
/// If the setup does not fit the schedule, before anything is sent; else if the protocol fails.
pub fn run_server(party: &mut Party, schedule: &Schedule, setup: &ServerSetup, watch: &mut dyn Watch) -> Result<()> {
    run_server_with(party, schedule, setup, &KeySets::default(), watch)
}

/// The same with the client's keys.
///
/// # Errors
/// As [`run_server`].
pub fn run_server_with(
    party: &mut Party,
    schedule: &Schedule,
    setup: &ServerSetup,
    keys: &KeySets<ServerKeys>,
    watch: &mut dyn Watch,
) -> Result<()> {
    check_role(party, Role::P1)?;
    setup.client_setup().check(schedule)?;
    let logits = logits(party, schedule, Side::Server(&ServerKit { setup, keys }), watch)?;
    reveal(party, schedule, &logits, watch)?;
    Ok(())
}

fn check_role(party: &Party, role: Role) -> Result<()> {
    if party.role() == role {
        return Ok(());
    }
    Err(InferError::Misuse { what: "the party", why: "the client runs as P0, the server as P1" })
}

/// The stream from its segments.
fn join(schedule: &Schedule, parts: &[Shared]) -> Result<Shared> {
    let whole = Shared::concat(&parts.iter().collect::<Vec<_>>())?;
    crate::error::check("values of the stream", schedule.tokens() * schedule.outline().shape().d_model, whole.len())?;
    Ok(whole)
}

fn cut(schedule: &Schedule, stream: &Shared, segment: &Segment) -> Result<Shared> {
    let width = schedule.outline().shape().d_model;
    Ok(stream.slice(segment.first * width..(segment.first + segment.tokens) * width)?)
}

/// The rows of one segment's tokens.
fn embed(party: &mut Party, schedule: &Schedule, kit: Kit<'_, '_>, segment: &Segment) -> Result<Shared> {
    let stage = schedule.embed(segment);
    let kit = match kit {
        Side::Client(kit) => kit,
        Side::Server(kit) => return stage.run(party, Side::Server(kit.setup.owner())),
    };
    let ids = kit.ids.get(segment.first..segment.first + segment.tokens).unwrap_or_default();
    let rows = kit.setup.rows(ids)?;
    let rows = match kit.setup.table() {
        Some(table) => Rows::Encrypted { ids, rows: &rows, table, prg: kit.prg },
        None => Rows::Public(&rows),
    };
    stage.run(party, Side::Client(rows))
}

/// Everything but the last step: embedding, blocks, final norm, pooling, head.
fn logits(party: &mut Party, schedule: &Schedule, mut kit: Kit<'_, '_>, watch: &mut dyn Watch) -> Result<Shared> {
    let mut parts = Vec::new();
    for segment in schedule.segments() {
        watch.doing(Doing::Stage(Stage::Embedding, None, segment.index));
        parts.push(embed(party, schedule, kit.again(), &segment)?);
    }
    let mut stream = join(schedule, &parts)?;
    drop(parts);
    let layers = schedule.outline().shape().layers;
    for layer in 0..layers {
        watch.stream(layer, &stream);
        let (mut memory, mut parts) = (Memory::default(), Vec::new());
        for segment in schedule.segments() {
            let block = Block::new(schedule, layer, &segment)?;
            let part = cut(schedule, &stream, &segment)?;
            parts.push(block.run(party, kit.again(), &mut memory, &part, watch)?);
        }
        stream = join(schedule, &parts)?;
    }
    watch.stream(layers, &stream);
    pooled(party, schedule, stream, kit, watch)
}

/// Final norm, pooling, head.
fn pooled(
    party: &mut Party,
    schedule: &Schedule,
    stream: Shared,
    mut kit: Kit<'_, '_>,
    watch: &mut dyn Watch,
) -> Result<Shared> {
    let mut pooled: Option<Shared> = None;
    for segment in schedule.segments() {
        watch.doing(Doing::Stage(Stage::FinalNorm, None, segment.index));
        let states = schedule.final_norm(&segment).run(party, cut(schedule, &stream, &segment)?)?;
        watch.doing(Doing::Stage(Stage::Pool, None, segment.index));
        let select = match kit.again() {
            Side::Client(kit) => {
                Side::Client(kit.select.get(segment.first..segment.first + segment.tokens).unwrap_or_default())
            }
            Side::Server(_) => Side::Server(()),
        };
        let part = schedule.pool(&segment).run(party, select, &states)?;
        pooled = Some(match pooled {
            Some(sum) => sum.add(&part)?,
            None => part,
        });
    }
    drop(stream);
    let pooled = pooled.ok_or(InferError::Size { what: "segments", expected: 1, got: 0 })?;
    watch.doing(Doing::Stage(Stage::Head, None, 0));
    let secrets = match kit {
        Side::Client(_) => Side::Client(()),
        Side::Server(kit) => {
            let head = kit.setup.head().ok_or(InferError::Misuse { what: "the model", why: "it has no classifier" })?;
            Side::Server(HeadSecrets { weights: &head.weights, bias: &head.bias })
        }
    };
    schedule.head().run(party, secrets, pooled)
}

fn reveal(party: &mut Party, schedule: &Schedule, logits: &Shared, watch: &mut dyn Watch) -> Result<Option<Answer>> {
    watch.doing(Doing::Stage(Stage::Reveal, None, 0));
    Ok(match schedule.reveal() {
        Reveal::Label => schedule.label().run(party, logits)?.map(Answer::Label),
        Reveal::Logits => schedule.floor()?.run(party, logits)?.map(|integers| {
            let class = fesc_model::metrics::largest(&integers).unwrap_or(0);
            Answer::Logits { integers, class }
        }),
    })
}
