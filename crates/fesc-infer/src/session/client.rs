//! One visit of a client: connect, agree, get the public part, and then classify one document or prepare.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fesc_mpc::provider::Correlations;
use fesc_mpc::{Party, Role};
use fesc_net::{Channel, ClientSecurity, Config, NetError, Ticket, connect_with_ticket};
use fesc_ring::Prg;

use super::bucket::bucket;
use super::cache::Cache;
use super::core::{self, Answer, Blocks, ClientSetup, Flow};
use super::dealer;
use super::error::{RefusalKind, Result, SessionError};
use super::fresh::Fresh;
use super::handshake::{
    Accept, Batch, Granted, Greeting, Offer, Provider, Purpose, Reply, RevealChoice, Step, VERSION, prepared_id,
};
use super::hex::Hex32;
use super::lines::Lines;
use super::message::{Talk, parse};
use super::public::Known;
use super::record::{Recorder, Stream};
use super::report::{Doing, Progress, Report, Times};
use super::server::seats::ticket;
use super::source::shelf::{Note, Promise, Shelf, Spent};
use super::source::{self, Timed};
use super::{hello, nonce, phase, stored, tag};
use crate::kept::{Keeper, Kept};

/// How long a client tries to open its second connection, and how often.
const JOINING: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(50);

/// How to reach somebody.
#[derive(Debug, Clone)]
pub struct Dial {
    /// `host:port`.
    pub address: String,
    /// Who it must be.
    pub security: ClientSecurity,
    /// Limits of the channel.
    pub config: Config,
    /// Who may cut the connection, if anybody.
    pub lines: Option<Lines>,
}

impl Dial {
    pub(super) fn connect(&self, hello: &[u8; 32]) -> Result<Channel> {
        self.connect_as(None, hello)
    }

    fn connect_as(&self, ticket: Option<&Ticket>, hello: &[u8; 32]) -> Result<Channel> {
        let mut channel = connect_with_ticket(&self.address, &self.security, ticket, hello, &self.config)?;
        if let Some(lines) = &self.lines {
            lines.add(channel.hangup()?);
        }
        channel.phase(phase::SETUP);
        Ok(channel)
    }

    /// A name for who it must be, for notes on prepared correlations.
    fn identity(&self) -> String {
        match &self.security {
            ClientSecurity::Tls(pin) | ClientSecurity::TlsAs(pin, _) => pin.to_string(),
            ClientSecurity::InsecurePlaintext => format!("plaintext {}", self.address),
        }
    }
}

/// Where a client keeps prepared correlations, and, apart from them, which of them it has used.
#[derive(Debug, Clone)]
pub struct Place {
    /// The correlations.
    pub directory: PathBuf,
    /// What must not be forgotten: not to be put back from a copy.
    pub state: PathBuf,
}

impl Place {
    fn shelf(&self) -> Result<Shelf> {
        Shelf::open(&self.directory, Spent::open(&self.state, Role::P0)?)
    }
}

/// Where a client takes correlations from.
#[derive(Debug, Clone)]
pub enum Choice {
    /// Made with the server when needed, on the same connection.
    Inline,
    /// Made with the server ahead, on a second connection; this side keeps at most this many bytes of them.
    Ahead(usize),
    /// From a third process; this side keeps at most this many bytes of them.
    Dealer(Box<Dial>, usize),
    /// From a directory that `prepare` filled.
    Prepared(Place),
}

/// What came of a visit.
pub struct Finished {
    /// What the client learnt.
    pub answer: Answer,
    /// Tokens of the run.
    pub bucket: usize,
    /// What it cost.
    pub report: Report,
    /// With verification: the residual stream that enters each layer, and that leaves the last.
    pub streams: Option<Vec<Stream>>,
    /// The public part, to be used again.
    pub known: Arc<Known>,
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
    fresh: Fresh,
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
        fresh: &Fresh,
        progress: &mut dyn Progress,
    ) -> Result<Self> {
        let start = Instant::now();
        progress.doing(Doing::Handshake);
        let mut channel = dial.connect(&hello())?;
        let mut talk = Talk::default();
        let (fresh, mut prg) = (fresh.clone(), fresh.generator()?);
        let nonce = nonce(&mut prg);
        let greeting = Greeting { version: VERSION, nonce, purpose: Purpose::Session };
        talk.tell(&mut channel, "greeting", &greeting)?;
        let answer = talk.hear_any(&mut channel, "offer")?;
        // The version comes first: a later one may change all the rest.
        if let Some(theirs) =
            answer.pointer("/ok/version").and_then(serde_json::Value::as_u64).filter(|v| *v != VERSION)
        {
            return Err(SessionError::Version { ours: VERSION, theirs });
        }
        let offer = parse::<Reply<Offer>>(answer, "offer")?.granted()?;
        offer.check(setup_limit)?;
        if let Some(expected) = expected.filter(|e| *e != offer.terms.model) {
            let (expected, got) = (expected.to_string(), offer.terms.model.to_string());
            let remedy = "this server has another model than the one asked for";
            return Err(SessionError::WrongModel { expected, got, remedy });
        }
        let known = match cache.find(offer.terms.model)? {
            Some(known) => known,
            None => {
                progress.doing(Doing::Setup(offer.setup_bytes));
                talk.tell(&mut channel, "step", &Step::Setup)?;
                cache.fill(offer.terms.model, offer.setup_bytes, &mut channel, &mut prg)?
            }
        };
        if known.outline_digest != offer.terms.outline {
            let (ours, theirs) = (known.outline_digest.to_string(), offer.terms.outline.to_string());
            return Err(SessionError::Mismatch { what: "the outline", ours, theirs });
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

    fn note(&self, bucket: usize, reveal: RevealChoice) -> Note {
        Note { model: self.known.id, bucket, reveal, peer: Some(self.dial.identity()) }
    }

    /// Classifies one document. The server learns its bucket.
    pub fn classify(
        mut self,
        ids: &[u32],
        reveal: RevealChoice,
        choice: &Choice,
        verify: bool,
        progress: &mut dyn Progress,
    ) -> Result<Finished> {
        let bucket = self.bucket(ids.len())?;
        let table = self.offer.terms.embedding;
        let flow = Arc::new(core::flow(&self.known.outline, bucket, reveal.into(), table)?);
        let mut shelf = None;
        let provider = match choice {
            Choice::Inline => Provider::Inline,
            Choice::Ahead(_) => Provider::Ahead,
            Choice::Dealer(..) => Provider::Dealer,
            Choice::Prepared(place) => {
                let opened = place.shelf()?;
                let path = place.directory.display().to_string();
                // Ours before the server hears of it: another process on this directory takes another one.
                let claim = opened.claim_any(&self.note(bucket, reveal))?;
                let claim = claim.ok_or(SessionError::NothingPrepared { path, bucket })?;
                let id = claim.id();
                shelf = Some((opened, claim));
                Provider::Prepared(id)
            }
        };
        let terms = self.offer.terms.clone();
        self.talk.tell(&mut self.channel, "step", &Step::Run(Accept { terms, bucket, reveal, provider, verify }))?;
        let granted = self.talk.hear::<Reply<Granted>>(&mut self.channel, "answer")?.granted();
        let (granted, shelf) = match (granted, shelf) {
            (Err(refused @ SessionError::Refused { kind: RefusalKind::Prepared, .. }), Some((shelf, claim))) => {
                // The server does not have the other half: this one is worth nothing.
                shelf.discard(claim)?;
                return Err(refused);
            }
            (granted, shelf) => (granted?, shelf),
        };
        let transcript = self.talk.compare(&mut self.channel)?;
        progress.doing(Doing::Correlations);
        let mut blocks = if matches!(choice, Choice::Inline) { Blocks::Fresh } else { Blocks::Ahead };
        let mut source = match (choice, shelf) {
            (Choice::Ahead(limit), _) => {
                let second = self.join(granted)?;
                source::ahead(Role::P0, second, Arc::clone(&flow), *limit, self.fresh.generator()?)?
            }
            (Choice::Dealer(dial, limit), _) => {
                let third = dealer::reach(dial, Role::P0, &transcript)?;
                source::dealer(Role::P0, third, Arc::clone(&flow), *limit)?
            }
            (Choice::Prepared(_), Some((shelf, claim))) => {
                let id = claim.id();
                let burnt = shelf.burn(claim, Role::P0)?;
                blocks = Blocks::Kept(Kept::new(burnt.ashes.path(), id.0, &flow));
                source::prepared(burnt, &mut self.channel)?
            }
            (Choice::Inline | Choice::Prepared(_), _) => source::inline(Role::P0, &mut self.channel, &mut self.prg)?,
        };
        let (timed, clock) = Timed::new(source.take());
        let setup = self.start.elapsed().as_secs_f64();
        let run = Instant::now();
        let mut party = Party::new(Role::P0, self.channel, Box::new(timed));
        party.channel().begin(phase::ONLINE);
        let mut record = Recorder::new(progress, verify);
        let ahead = !matches!(choice, Choice::Inline);
        let answer = core::client(&mut party, &flow, &self.known.setup, ids, blocks, &mut self.prg, &mut record);
        let answer = source.explain(answer)?;
        let times = Times {
            setup,
            run: run.elapsed().as_secs_f64(),
            waited: clock.seconds(),
            blocks: record.blocks(),
            ahead,
            total: 0.0,
        };
        let streams = record.join(party.channel())?;
        let generated = source.finish()?;
        let times = Times { total: self.start.elapsed().as_secs_f64(), ..times };
        let report = Report::new(party.channel().stats(), generated.as_ref(), times);
        Ok(Finished { answer, bucket, report, streams, known: self.known })
    }

    /// Opens the second connection of a session.
    fn join(&self, granted: Granted) -> Result<Channel> {
        let problem = "no token for the second connection".to_string();
        let token = granted.token.ok_or(SessionError::Malformed { what: "answer", problem })?;
        let (ticket, until) = (ticket(token), Instant::now() + JOINING);
        // A server that strangers flood may drop a connection before it has seen the ticket.
        let mut channel = loop {
            match self.dial.connect_as(Some(&ticket), &hello()) {
                Err(SessionError::Net(NetError::Closed { .. } | NetError::Io { .. })) if Instant::now() < until => {
                    std::thread::sleep(AGAIN);
                }
                connected => break connected?,
            }
        };
        let greeting = Greeting { version: VERSION, nonce: self.nonce, purpose: Purpose::Join(token) };
        Talk::default().tell(&mut channel, "greeting", &greeting)?;
        Ok(channel)
    }

    /// Makes correlations for `count` later runs, on both sides. Returns their names.
    pub fn prepare(
        mut self,
        bucket: usize,
        reveal: RevealChoice,
        count: u32,
        place: &Place,
        progress: &mut dyn Progress,
    ) -> Result<(Vec<Hex32>, Report)> {
        let bucket = self.bucket(bucket)?;
        let table = self.offer.terms.embedding;
        let flow = core::flow(&self.known.outline, bucket, reveal.into(), table)?;
        let shelf = place.shelf()?;
        let batch = Batch { terms: self.offer.terms.clone(), bucket, reveal, count };
        self.talk.tell(&mut self.channel, "step", &Step::Prepare(batch.clone()))?;
        self.talk.hear::<Reply<Granted>>(&mut self.channel, "answer")?.granted()?;
        self.talk.compare(&mut self.channel)?;
        let note = self.note(bucket, reveal);
        let nonces = [self.nonce, self.offer.nonce];
        let making = Making {
            role: Role::P0,
            flow: &flow,
            batch: &batch,
            nonces,
            note: &note,
            room: None,
            setup: Some(&self.known.setup),
        };
        let (made, seconds) = making.run(&mut self.channel, &shelf, &mut self.prg, progress)?;
        let total = self.start.elapsed().as_secs_f64();
        let times = Times { setup: total - seconds, run: seconds, waited: seconds, total, ..Times::default() };
        Ok((made, Report::new(self.channel.stats(), None, times)))
    }
}

/// Correlations between two blocks of the linear layers, when both are prepared: a layer has some sixty of
/// the ones and a few of the others.
const BETWEEN: usize = 8;

/// Either side's part of preparing.
pub(super) struct Making<'a> {
    pub role: Role,
    pub flow: &'a Flow,
    pub batch: &'a Batch,
    /// The client's, then the server's.
    pub nonces: [Hex32; 2],
    pub note: &'a Note,
    /// The room that the stores take, where somebody counts.
    pub room: Option<Promise>,
    /// The client's, with which it makes its blocks of the linear layers.
    pub setup: Option<&'a ClientSetup>,
}

impl Making<'_> {
    /// Makes all stores; returns their names and the seconds after the set-up.
    pub fn run(
        mut self,
        channel: &mut Channel,
        shelf: &Shelf,
        prg: &mut Prg,
        progress: &mut dyn Progress,
    ) -> Result<(Vec<Hex32>, f64)> {
        let mut maker = source::two_party(self.role, channel, prg)?;
        channel.phase(phase::OFFLINE);
        let start = Instant::now();
        let mut made = Vec::new();
        for index in 0..self.batch.count {
            progress.doing(Doing::Preparing(index + 1, self.batch.count));
            let id = prepared_id(self.batch, self.nonces, index);
            let mut draft = shelf.draft(id, self.role, self.note)?;
            let mut keeper = self.setup.map(|setup| (Keeper::new(draft.path(), id.0, setup), self.flow.pads()));
            for (number, request) in self.flow.demand().enumerate() {
                let request = request?;
                let half = maker.take(channel, &request)?;
                draft.store.append(&request, &half)?;
                // Now and then a block: all of them at the end would keep the server waiting.
                if let Some((keeper, pads)) = keeper.as_mut().filter(|_| number.is_multiple_of(BETWEEN))
                    && let Some(pad) = pads.next()
                {
                    keeper.keep(&pad?, prg)?;
                }
            }
            if let Some((mut keeper, mut pads)) = keeper {
                pads.try_for_each(|pad| keeper.keep(&pad?, prg))?;
            }
            stored(channel, id)?;
            // The client first: if one of the two dies here, a half is left at the client, which deletes it
            // when the server does not know it. A half at the server would take its room for ever. And the
            // client hears when the server has it: a session that asks for it too early would be refused, and
            // the client would delete a good store.
            match self.role {
                Role::P0 => {
                    draft.commit()?;
                    channel.send(tag::KEPT, Vec::new())?;
                    channel.recv(tag::KEPT, 0)?;
                }
                Role::P1 => {
                    channel.recv(tag::KEPT, 0)?;
                    draft.commit()?;
                    channel.send(tag::KEPT, Vec::new())?;
                }
            }
            self.room.iter_mut().for_each(Promise::kept);
            made.push(id);
        }
        Ok((made, start.elapsed().as_secs_f64()))
    }
}
