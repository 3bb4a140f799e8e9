//! The schedule of one inference: which stages, in which order, at what cost. Public, the same for both
//! parties.
//!
//! ```text
//! for every segment                embedding
//! for every layer, every segment   norm, in_proj, silu, steps, scan, gate, gated_norm, out_proj
//! for every segment                final_norm, pool
//! once                             head, reveal
//! ```
//!
//! A segment is 2,048 tokens, or the whole document where its scan is under encryption and keeps its state
//! ([`fesc_model::plan::Scan::segment`]); what a layer carries from one to the next is the convolution's past
//! and the scan's state. Memory therefore grows with the document only by the residual stream, 8 bytes a
//! value.

use fesc_hybrid::keys::KeyShape;
use fesc_hybrid::work::Work;
use fesc_model::outline::scale::{HEAD, REVEAL};
use fesc_model::outline::{LayerForms, NormForm, Outline};
use fesc_mpc::{Cost, Ledger, Request};
use fesc_rlwe::Params;
use fesc_scan::Span;

use std::sync::Arc;

use crate::block::Block;
use crate::blocks::BlockId;
use crate::crossings::Crossings;
use crate::kernels;
use crate::keys::KeySets;
use crate::setup::Matrix;
use crate::stage::{Embed, Embedding, Floor, Head, Label, Norm, Pool, Stage, Widths};
use crate::{InferError, Result};

/// The longest schedule.
pub const MAX_TOKENS: usize = 1 << 20;

/// What the client learns, the less first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reveal {
    /// The label alone.
    Label,
    /// Logits floored to REVEAL fractional bits. Repeated, they are a channel to extract the model.
    Logits,
}

impl Reveal {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Label, Self::Logits];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Logits => "logits",
        }
    }
}

/// The cost of one stage of one segment.
#[derive(Debug, Clone)]
pub struct StageCost {
    /// Which.
    pub stage: Stage,
    /// The layer, where it belongs to one.
    pub layer: Option<usize>,
    /// The segment.
    pub segment: usize,
    /// Bytes each way, and the rounds that it adds to the run.
    pub online: Cost,
    /// Its correlations, in the order of their use.
    pub demand: Vec<Request>,
}

/// What a server computes under encryption in one stage of one segment.
#[derive(Clone)]
pub struct StageWork {
    /// Which.
    pub stage: Stage,
    /// The layer.
    pub layer: usize,
    /// The segment.
    pub segment: usize,
    /// What is computed.
    pub work: Work,
}

/// Some tokens of the document that are computed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub index: usize,
    pub first: usize,
    pub tokens: usize,
    /// Rows of the past that the convolution reads.
    pub before: usize,
    pub last: bool,
}

impl Segment {
    /// What of it a scan must know.
    pub fn span(&self) -> Span {
        Span { tokens: self.tokens, carry_in: self.index > 0, carry_out: !self.last }
    }
}

/// A piece of the schedule.
#[derive(Clone, Copy)]
enum Place {
    Embed(Segment),
    Layer(usize, Segment),
    Last(Segment),
    End,
}

/// Writes the cost of one stage.
pub(crate) type Declare<'a> = &'a dyn Fn(&mut Ledger) -> Result<()>;
/// Takes the stages of a place: which, layer, segment, cost.
type Visit<'a> = &'a mut dyn FnMut(Stage, Option<usize>, usize, Declare<'_>) -> Result<()>;

/// The schedule.
#[derive(Clone)]
pub struct Schedule {
    outline: Outline,
    digest: [u8; 32],
    params: Params,
    forms: Vec<LayerForms>,
    last: NormForm,
    tokens: usize,
    reveal: Reveal,
    embedding: Embedding,
    crossings: Arc<Crossings>,
}

impl Schedule {
    /// The schedule of a model for documents of up to `tokens` tokens, with an encrypted embedding.
    ///
    /// # Errors
    /// If the length is 0 or too large, the model has no classifier, or a form can not be built.
    pub fn new(outline: &Outline, tokens: usize, reveal: Reveal) -> Result<Self> {
        if tokens == 0 || tokens > MAX_TOKENS {
            return Err(InferError::Length { tokens, most: MAX_TOKENS });
        }
        kernels::supported(outline.plan())?;
        let params = Params::linear()?;
        if outline.classes() == 0 {
            return Err(InferError::Misuse { what: "the model", why: "it has no classifier" });
        }
        let forms = (0..outline.shape().layers).map(|i| outline.layer(i)).collect::<Result<_, _>>()?;
        let (digest, last, embedding) = (outline.digest()?, outline.last()?, Embedding::Encrypted);
        let mut schedule = Self {
            outline: outline.clone(),
            digest,
            params,
            forms,
            last,
            tokens,
            reveal,
            embedding,
            crossings: Arc::default(),
        };
        if outline.plan().encrypts() {
            let segments: Vec<Segment> = schedule.segments().collect();
            schedule.crossings = Arc::new(Crossings::new(outline, &segments)?);
        }
        Ok(schedule)
    }

    /// What is under encryption.
    pub(crate) fn crossings(&self) -> &Arc<Crossings> {
        &self.crossings
    }

    /// The CKKS keys that a client must make and send before it runs this.
    pub fn keys(&self) -> KeySets<KeyShape> {
        self.crossings.keys()
    }

    /// The same with the kind of embedding given.
    #[must_use]
    pub fn with_embedding(self, embedding: Embedding) -> Self {
        Self { embedding, ..self }
    }

    /// The outline.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Its digest.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Tokens of the schedule: the bucket, not the document.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// What the client learns.
    pub fn reveal(&self) -> Reveal {
        self.reveal
    }

    /// How the client gets rows of the table.
    pub fn embedding(&self) -> Embedding {
        self.embedding
    }

    /// Degree and modulus of the linear layers.
    pub fn params(&self) -> Params {
        self.params
    }

    pub(crate) fn forms(&self, layer: usize) -> Result<&LayerForms> {
        let got = self.forms.len();
        self.forms.get(layer).ok_or(InferError::Size { what: "layers of the schedule", expected: layer + 1, got })
    }

    pub(crate) fn widths(&self) -> Widths {
        Widths::new(self.outline.shape())
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + use<> {
        let (tokens, past) = (self.tokens, self.outline.shape().conv_width - 1);
        let most = self.outline.plan().scan.segment();
        (0..tokens.div_ceil(most)).map(move |index| {
            let first = index * most;
            let last = first + most >= tokens;
            Segment { index, first, tokens: most.min(tokens - first), before: past.min(first), last }
        })
    }

    pub(crate) fn embed(&self, segment: &Segment) -> Embed {
        Embed::new(self.params, self.embedding, self.outline.shape().d_model, self.outline.frac(), segment.tokens)
    }

    pub(crate) fn final_norm(&self, segment: &Segment) -> Box<dyn Norm> {
        kernels::norm(&self.outline, &self.last, self.outline.frac(), segment.tokens)
    }

    pub(crate) fn pool(&self, segment: &Segment) -> Pool {
        Pool::new(self.params.ring(), self.outline.shape().d_model, segment.tokens)
    }

    pub(crate) fn head(&self) -> Head {
        let (shape, frac) = (self.outline.shape(), self.outline.frac());
        Head::new(self.params.ring(), shape.d_model, self.outline.classes(), frac)
    }

    pub(crate) fn label(&self) -> Label {
        Label::new(self.params.ring(), self.outline.classes())
    }

    pub(crate) fn floor(&self) -> Result<Floor> {
        Floor::new(self.params.ring(), self.outline.frac() + HEAD - REVEAL, self.outline.classes())
    }

    /// Every layer on every segment.
    pub(crate) fn blocks_in_order(&self) -> impl Iterator<Item = (usize, Segment)> + '_ {
        let layers = 0..self.outline.shape().layers;
        layers.flat_map(|layer| self.segments().map(move |segment| (layer, segment)))
    }

    fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let blocks = self.blocks_in_order().map(|(layer, segment)| Place::Layer(layer, segment));
        let start = self.segments().map(Place::Embed);
        start.chain(blocks).chain(self.segments().map(Place::Last)).chain([Place::End])
    }

    /// Shows the stages of one place, in order.
    fn declare(&self, place: Place, visit: Visit<'_>) -> Result<()> {
        match place {
            Place::Embed(s) => visit(Stage::Embedding, None, s.index, &|l| self.embed(&s).declare(l)),
            Place::Layer(layer, s) => {
                let block = Block::new(self, layer, &s)?;
                block.declare(&mut |stage, declare| visit(stage, Some(layer), s.index, declare))
            }
            Place::Last(s) => {
                visit(Stage::FinalNorm, None, s.index, &|l| self.final_norm(&s).declare(l))?;
                visit(Stage::Pool, None, s.index, &|l| self.pool(&s).declare(l))
            }
            Place::End => {
                visit(Stage::Head, None, 0, &|l| self.head().declare(l))?;
                visit(Stage::Reveal, None, 0, &|l| match self.reveal {
                    Reveal::Label => self.label().declare(l),
                    Reveal::Logits => self.floor()?.declare(l),
                })
            }
        }
    }

    /// The cost of every stage, in the order of execution. Sums are those of the whole run, rounds too.
    ///
    /// # Errors
    /// If a stage does not fit the ring.
    pub fn costs(&self) -> Result<Vec<StageCost>> {
        let (mut ledger, mut costs) = (Ledger::new(), Vec::new());
        for place in self.places() {
            self.declare(place, &mut |stage, layer, segment, declare| {
                let (before, taken) = (ledger.cost(), ledger.demand().len());
                declare(&mut ledger)?;
                let (after, demand) = (ledger.cost(), ledger.demand().get(taken..).unwrap_or_default().to_vec());
                let online = Cost {
                    p0_to_p1_bytes: after.p0_to_p1_bytes - before.p0_to_p1_bytes,
                    p1_to_p0_bytes: after.p1_to_p0_bytes - before.p1_to_p0_bytes,
                    rounds: after.rounds - before.rounds,
                };
                costs.push(StageCost { stage, layer, segment, online, demand });
                Ok(())
            })?;
        }
        Ok(costs)
    }

    /// What the server computes under encryption, in the order of execution; nothing in a plan without CKKS.
    ///
    /// # Errors
    /// If a stage does not fit the ring.
    pub fn works(&self) -> Result<Vec<StageWork>> {
        self.works_of(self.outline.shape().layers)
    }

    /// The same of the first layers.
    pub(crate) fn works_of(&self, layers: usize) -> Result<Vec<StageWork>> {
        let mut works = Vec::new();
        let encrypts = self.outline.plan().encrypts();
        for (layer, s) in self.blocks_in_order().filter(|(layer, _)| encrypts && *layer < layers) {
            let block = Block::new(self, layer, &s)?;
            works.extend(block.works().map(|(stage, work)| StageWork { stage, layer, segment: s.index, work }));
        }
        Ok(works)
    }

    /// Logarithm of the statistical distance of an inference from one in which masked ciphertexts tell
    /// nothing: the sum over all conversions. Nothing in a plan without CKKS.
    ///
    /// # Errors
    /// If a stage does not fit the ring.
    pub fn log_distance(&self) -> Result<Option<f64>> {
        let works = self.works()?;
        let sum: f64 = works.iter().map(|w| w.work.log_distance.exp2()).sum();
        Ok((!works.is_empty()).then(|| sum.log2().min(0.0)))
    }

    /// Every correlation in the order in which a run takes them, made segment by segment as they are asked
    /// for.
    pub fn demand(&self) -> impl Iterator<Item = Result<Request>> + '_ {
        self.places().flat_map(|place| {
            let mut ledger = Ledger::new();
            let declared = self.declare(place, &mut |_, _, _, declare| declare(&mut ledger));
            let requests: Vec<_> = ledger.demand().iter().cloned().map(Ok).collect();
            requests.into_iter().chain(declared.err().map(Err))
        })
    }

    /// Every block of the client's linear layers in the order in which a run takes them.
    pub fn blocks(&self) -> impl Iterator<Item = Result<BlockId>> + '_ {
        self.blocks_in_order().flat_map(|(layer, segment)| {
            let blocks = |matrix: Matrix| -> Result<Vec<BlockId>> {
                let projection = kernels::projection(self, layer, matrix, &segment)?;
                let pad = |(index, &block)| BlockId { layer, matrix, segment: segment.index, index, block };
                Ok(projection.ahead().iter().enumerate().map(pad).collect())
            };
            Matrix::ALL.map(blocks).into_iter().flat_map(|made| match made {
                Ok(pads) => pads.into_iter().map(Ok).collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            })
        })
    }
}
