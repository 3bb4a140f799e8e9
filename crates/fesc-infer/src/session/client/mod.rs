//! One visit of a client: connect, agree, get the public part, and then classify one document or prepare.

mod classify;
mod keys;
mod orders;

pub use keys::KeyUse;
pub use orders::{MyKeys, order};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use fesc_mpc::Role;
use fesc_net::Channel;
use fesc_ring::Prg;

use super::bucket::bucket;
use super::cache::Cache;
use super::dial::Dial;
use super::error::{Result, SessionError};
use super::handshake::{Batch, Granted, Greeting, Offer, Purpose, Reply, Step};
use super::hex::Hex32;
use super::message::{Talk, parse};
use super::prepare::Preparation;
use super::provider::Provider;
use super::public::Known;
use super::randomness::Randomness;
use super::record::Seen;
use super::report::{Report, Times};
use super::source::stores::{Note, StoreDirectory, UsedList};
use super::{VERSION, hello, nonce};
use crate::run::Answer;
use crate::schedule::{Reveal, Schedule};
use crate::watch::{Doing, Watch};

/// Where a client keeps prepared correlations, and, apart from them, which of them it has used.
#[derive(Debug, Clone)]
pub struct Place {
    /// The correlations.
    pub directory: PathBuf,
    /// What must not be forgotten: not to be put back from a copy.
    pub state: PathBuf,
}

impl Place {
    fn stores(&self) -> Result<StoreDirectory> {
        StoreDirectory::open(&self.directory, UsedList::open(&self.state, Role::P0)?)
    }
}

/// What a client asks of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// What it learns.
    pub reveal: Reveal,
    /// Where correlations come from.
    pub provider: Provider<Dial, Place>,
    /// This side keeps at most this many bytes of correlations that are made ahead.
    pub ready_bytes: usize,
    /// The server is to give its shares away afterwards, for a check of the program.
    pub verify: bool,
    /// The state directory in which CKKS keys are kept between sessions, where the plan needs some and the
    /// server keeps this client's. Without one they serve one session.
    pub keys: Option<PathBuf>,
}

/// What came of a visit.
pub struct Finished {
    /// What the client learnt.
    pub answer: Answer,
    /// Tokens of the run.
    pub bucket: usize,
    /// What it cost.
    pub report: Report,
    /// The CKKS keys of the session.
    pub keys: KeyUse,
    /// With verification: what both parties' shares say of the run.
    pub seen: Option<Seen>,
    /// The public part, to be used again.
    pub known: Arc<Known>,
}

/// A server that was greeted, and what it offers.
struct Met {
    channel: Channel,
    talk: Talk,
    nonce: Hex32,
    offer: Offer,
    /// Of this connection.
    prg: Prg,
}

/// Connects, greets and hears the offer.
fn meet(dial: &Dial, fresh: &Randomness) -> Result<Met> {
    let mut channel = dial.connect(&hello())?;
    let mut talk = Talk::default();
    let mut prg = fresh.generator()?;
    let nonce = nonce(&mut prg);
    let greeting = Greeting { version: VERSION, nonce, purpose: Purpose::Session };
    talk.tell(&mut channel, "greeting", &greeting)?;
    let answer = talk.hear_any(&mut channel, "offer")?;
    // The version comes first: a later one may change all the rest.
    if let Some(theirs) = answer.pointer("/ok/version").and_then(serde_json::Value::as_u64).filter(|v| *v != VERSION) {
        return Err(SessionError::Version { ours: VERSION, theirs });
    }
    let offer = parse::<Reply<Offer>>(answer, "offer")?.granted()?;
    Ok(Met { channel, talk, nonce, offer, prg })
}

/// A client that is connected and has the model's public part.
pub struct Visit {
    dial: Dial,
    channel: Channel,
    talk: Talk,
    nonce: Hex32,
    offer: Offer,
    known: Arc<Known>,
    start: Instant,
    fresh: Randomness,
    /// Of the first connection.
    prg: Prg,
}

impl Visit {
    /// Connects, hears the offer, and takes the public part from the cache or from the server. Nothing of a
    /// document is needed yet, and nothing is sent of it. `expected` refuses any other model.
    pub fn start(
        dial: &Dial,
        cache: &Cache,
        expected: Option<Hex32>,
        setup_limit: u64,
        fresh: &Randomness,
        watch: &mut dyn Watch,
    ) -> Result<Self> {
        let start = Instant::now();
        watch.doing(Doing::Handshake);
        let Met { mut channel, mut talk, nonce, offer, mut prg } = meet(dial, fresh)?;
        let fresh = fresh.clone();
        offer.check(setup_limit)?;
        if let Some(expected) = expected.filter(|e| *e != offer.terms.model) {
            let (expected, got) = (expected.to_string(), offer.terms.model.to_string());
            let remedy = "this server has another model than the one asked for";
            return Err(SessionError::WrongModel { expected, got, remedy });
        }
        let known = match cache.find(offer.terms.model)? {
            Some(known) => known,
            None => {
                watch.doing(Doing::Setup(offer.setup_bytes));
                talk.tell(&mut channel, "step", &Step::Setup)?;
                cache.fill(offer.terms.model, offer.setup_bytes, &mut channel, &mut prg)?
            }
        };
        if known.outline_digest != offer.terms.outline {
            let (ours, theirs) = (known.outline_digest.to_string(), offer.terms.outline.to_string());
            return Err(SessionError::Mismatch { what: "the outline", ours, theirs });
        }
        if known.outline.plan().name() != offer.terms.plan {
            let (ours, theirs) = (known.outline.plan().name(), offer.terms.plan);
            return Err(SessionError::Mismatch { what: "the plan", ours, theirs });
        }
        let (ours, theirs) = (known.setup.embedding(), offer.terms.embedding);
        if ours != theirs {
            let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
            return Err(SessionError::Mismatch { what: "the embedding", ours, theirs });
        }
        Ok(Self { dial: dial.clone(), channel, talk, nonce, offer, known: Arc::new(known), start, fresh, prg })
    }

    /// What the server offers.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// The model's public part.
    pub fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// The bucket of a document of so many tokens, if the server takes it.
    pub fn bucket(&self, tokens: usize) -> Result<usize> {
        if tokens == 0 {
            return Err(SessionError::Empty);
        }
        let limit = self.offer.max_tokens;
        let needed = bucket(tokens);
        needed.filter(|b| *b <= limit).ok_or(SessionError::TooManyTokens { tokens, bucket: needed.unwrap_or(0), limit })
    }

    fn note(&self, bucket: usize, reveal: Reveal) -> Note {
        let plan = self.offer.terms.plan.clone();
        Note { model: self.known.id, plan, bucket, reveal, peer: Some(self.dial.identity()) }
    }

    fn schedule(&self, bucket: usize, reveal: Reveal) -> Result<Schedule> {
        Ok(Schedule::new(&self.known.outline, bucket, reveal)?.with_embedding(self.offer.terms.embedding))
    }

    /// Makes correlations for `count` later runs, on both sides. Returns their names.
    pub fn prepare(
        mut self,
        bucket: usize,
        reveal: Reveal,
        count: u32,
        place: &Place,
        watch: &mut dyn Watch,
    ) -> Result<(Vec<Hex32>, Report)> {
        let bucket = self.bucket(bucket)?;
        let schedule = self.schedule(bucket, reveal)?;
        let stores = place.stores()?;
        let batch = Batch { terms: self.offer.terms.clone(), bucket, reveal, count };
        self.talk.tell(&mut self.channel, "step", &Step::Prepare(batch.clone()))?;
        self.talk.hear::<Reply<Granted>>(&mut self.channel, "answer")?.granted()?;
        self.talk.compare(&mut self.channel)?;
        let note = self.note(bucket, reveal);
        let nonces = [self.nonce, self.offer.nonce];
        let making = Preparation {
            role: Role::P0,
            schedule: &schedule,
            batch: &batch,
            nonces,
            note: &note,
            room: None,
            setup: Some(&self.known.setup),
        };
        let (made, seconds) = making.run(&mut self.channel, &stores, &mut self.prg, watch)?;
        let total = self.start.elapsed().as_secs_f64();
        let times = Times { setup: total - seconds, run: seconds, waited: seconds, total, ..Times::default() };
        Ok((made, Report::new(self.channel.stats(), None, times)))
    }
}
