//! One document through a session, from the step that asks for it to the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fesc_mpc::{Party, Role};
use fesc_net::{Channel, NetError};
use fesc_ring::Prg;

use super::keys::SessionKeys;
use super::{Finished, RunOptions, Visit};
use crate::blocks::disk::BlockReader;
use crate::blocks::{BlockSource, BlocksAhead, FreshBlocks};
use crate::run::{Ahead, run_client_with};
use crate::schedule::Schedule;
use crate::session::error::{RefusalKind, Result, SessionError};
use crate::session::handshake::{Accept, Granted, Greeting, Purpose, Reply, Step};
use crate::session::keyring::{KeyPurpose, Shelf};
use crate::session::message::Talk;
use crate::session::provider::Provider;
use crate::session::record::Recorder;
use crate::session::report::{Report, Times};
use crate::session::server::admission::ticket;
use crate::session::source::stores::{Claim, StoreDirectory};
use crate::session::source::{self, Source, Timed};
use crate::session::{VERSION, dealer, hello, phase};
use crate::setup::ClientSetup;
use crate::watch::{Doing, Watch};

/// How long a client tries to open its second connection, and how often.
const JOINING: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(50);

/// Blocks of the linear layers that wait for their use, at most: one is 70 MB at Mamba-base.
const BLOCKS: usize = 2;

/// Where the client's blocks of the linear layers come from.
enum Blocks<'a> {
    /// Made when they are needed.
    Fresh,
    /// Made by a thread, a few ahead.
    Ahead,
    /// Made before, on disk.
    OnDisk(BlockReader<'a>),
}

impl<'a> Blocks<'a> {
    fn open(
        self,
        schedule: &Schedule,
        setup: &'a Arc<ClientSetup>,
        prg: &mut Prg,
    ) -> Result<Box<dyn BlockSource + 'a>> {
        Ok(match self {
            Blocks::Fresh => Box::new(FreshBlocks::new(setup, prg.fork())),
            Blocks::Ahead => Box::new(BlocksAhead::start(Arc::clone(setup), schedule, BLOCKS, prg.fork())?),
            Blocks::OnDisk(kept) => Box::new(kept),
        })
    }
}

/// What the server has agreed to.
struct Agreed {
    granted: Granted,
    /// Hash of the handshake.
    transcript: [u8; 32],
    claim: Option<(StoreDirectory, Claim)>,
}

impl Visit {
    /// Classifies one document. The server learns its bucket.
    ///
    /// # Errors
    /// If the document or the options do not fit what the server offers, or the session fails.
    pub fn classify(mut self, ids: &[u32], options: &RunOptions, watch: &mut dyn Watch) -> Result<Finished> {
        let bucket = self.bucket(ids.len())?;
        let schedule = Arc::new(self.schedule(bucket, options.reveal)?);
        let shapes = schedule.keys();
        let shelf = options.keys.as_deref().filter(|_| !shapes.is_empty()).map(|state| Shelf::open(state, Role::P0));
        let shelf = shelf.transpose()?;
        let held = SessionKeys::find(shelf.as_ref(), &shapes, self.purpose(bucket), &mut self.prg)?;
        let (agreed, held) = self.agree(bucket, options, held)?;
        watch.doing(Doing::Correlations);
        let (mut source, blocks) = self.source(options, agreed, &schedule)?;
        let (mut held, mut keys) = held.ready(&mut self.channel, &mut self.prg, watch)?;
        let (timed, clock) = Timed::new(source.take());
        let setup = self.start.elapsed().as_secs_f64();
        let run = Instant::now();
        // On the disk before the first message of the protocol.
        held.begin()?;
        let mut party = Party::new(Role::P0, self.channel, Box::new(timed));
        party.channel().begin(phase::ONLINE);
        let mut record = Recorder::new(&mut party, watch, options.verify);
        let ahead = !matches!(options.provider, Provider::Inline);
        let (setup_of, prg) = (&self.known.setup, &mut self.prg);
        let mut blocks = blocks.open(&schedule, setup_of, prg)?;
        let ahead_of = Ahead { blocks: &mut *blocks, keys: &mut keys };
        let answer = run_client_with(&mut party, &schedule, setup_of, ids, prg, ahead_of, &mut record);
        drop(blocks);
        let answer = source.explain(answer.map_err(SessionError::from))?;
        let times = Times {
            setup,
            run: run.elapsed().as_secs_f64(),
            waited: clock.seconds(),
            blocks: record.blocks(),
            ahead,
            total: 0.0,
        };
        let seen = record.join(&mut party)?;
        let generated = source.finish()?;
        let keys = held.end(&keys, party.channel(), prg);
        let times = Times { total: self.start.elapsed().as_secs_f64(), ..times };
        let report = Report::new(party.channel().stats(), generated.as_ref(), times);
        Ok(Finished { answer, bucket, report, keys, seen, known: self.known })
    }

    /// Asks for the run, and compares the handshakes.
    fn agree<'k>(
        &mut self,
        bucket: usize,
        options: &RunOptions,
        keys: SessionKeys<'k>,
    ) -> Result<(Agreed, SessionKeys<'k>)> {
        let (reveal, verify) = (options.reveal, options.verify);
        let mut claim = None;
        let provider = match &options.provider {
            Provider::Inline => Provider::Inline,
            Provider::Ahead => Provider::Ahead,
            Provider::Dealer(_) => Provider::Dealer(()),
            Provider::Prepared(place) => {
                let opened = place.stores()?;
                let path = place.directory.display().to_string();
                // Ours before the server hears of it: another process on this directory takes another one.
                let claimed = opened.claim_any(&self.note(bucket, reveal))?;
                let claimed = claimed.ok_or(SessionError::NothingPrepared { path, bucket })?;
                let id = claimed.id();
                claim = Some((opened, claimed));
                Provider::Prepared(id)
            }
        };
        let (terms, wish) = (self.offer.terms.clone(), keys.wish());
        let accept = Accept { terms, bucket, reveal, provider, verify, keys: wish };
        self.talk.tell(&mut self.channel, "step", &Step::Run(accept))?;
        let granted = self.talk.hear::<Reply<Granted>>(&mut self.channel, "answer")?.granted();
        let (granted, claim) = match (granted, claim) {
            (Err(refused @ SessionError::Refused { kind: RefusalKind::Keys, .. }), _) => {
                // The server does not have the other half: this one is worth nothing.
                keys.discard()?;
                return Err(refused);
            }
            (Err(refused @ SessionError::Refused { kind: RefusalKind::Prepared, .. }), Some((stores, claim))) => {
                // The server does not have the other half: this one is worth nothing.
                stores.discard(claim)?;
                return Err(refused);
            }
            (granted, claim) => (granted?, claim),
        };
        let transcript = self.talk.compare(&mut self.channel)?;
        let keys = keys.granted(granted.keys)?;
        Ok((Agreed { granted, transcript, claim }, keys))
    }

    fn source<'a>(
        &mut self,
        options: &RunOptions,
        agreed: Agreed,
        schedule: &'a Arc<Schedule>,
    ) -> Result<(Source, Blocks<'a>)> {
        let limit = options.ready_bytes;
        Ok(match (&options.provider, agreed.claim) {
            (Provider::Ahead, _) => {
                let second = self.join(agreed.granted)?;
                let prg = self.fresh.generator()?;
                (source::ahead(Role::P0, second, Arc::clone(schedule), limit, prg)?, Blocks::Ahead)
            }
            (Provider::Dealer(dial), _) => {
                let third = dealer::reach(dial, Role::P0, &agreed.transcript)?;
                (source::dealer(Role::P0, third, Arc::clone(schedule), limit)?, Blocks::Ahead)
            }
            (Provider::Prepared(_), Some((stores, claim))) => {
                let id = claim.id();
                let used = stores.mark_used(claim, Role::P0)?;
                let kept = BlockReader::new(used.directory.path(), id.0, schedule);
                (source::prepared(used, &mut self.channel)?, Blocks::OnDisk(kept))
            }
            (Provider::Inline | Provider::Prepared(_), _) => {
                (source::inline(Role::P0, &mut self.channel, &mut self.prg)?, Blocks::Fresh)
            }
        })
    }

    /// What keys of this visit are for.
    fn purpose(&self, bucket: usize) -> KeyPurpose {
        KeyPurpose {
            server: self.dial.identity(),
            client: self.dial.shown(),
            plan: self.offer.terms.plan.clone(),
            bucket,
            age: Duration::from_secs(self.offer.keys_s),
        }
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
}
