//! One document, from the client's step to the end of the run.

use std::sync::Arc;
use std::time::Instant;

use fesc_mpc::{Party, Role};
use fesc_ring::Prg;

use super::super::Event;
use super::super::admission::Awaited;
use super::super::keys::SessionKeys;
use super::super::memory::Held;
use super::{Ask, JOINING, Teller, Visit, not_offered};
use crate::run::run_server_with;
use crate::schedule::Schedule;
use crate::session::error::{RefusalKind, Result, SessionError};
use crate::session::handshake::{Accept, Granted, Refusal};
use crate::session::provider::Provider;
use crate::session::record::Recorder;
use crate::session::report::{Report, Times};
use crate::session::source::stores::{Claim, Claimed};
use crate::session::source::{self, Source, Timed};
use crate::session::{dealer, nonce, phase};
use crate::watch::{Doing, Watch};

/// What a run that may take place takes with it.
struct Admitted<'a> {
    schedule: Arc<Schedule>,
    /// Prepared correlations.
    claim: Option<Claim>,
    keys: SessionKeys<'a>,
    /// Memory for what is under encryption.
    held: Held,
    ask: Ask,
}

fn refuse<T>(kind: RefusalKind, message: impl Into<String>) -> Result<Result<T, Refusal>> {
    Ok(Err(Refusal { kind, message: message.into() }))
}

impl<'a> Visit<'a> {
    /// Whether a run may take place. Nothing is counted yet.
    fn judge(&self, accept: &Accept, prg: &mut Prg) -> Result<Result<Admitted<'a>, Refusal>> {
        if let Err(refusal) = self.offer.admits(accept) {
            return Ok(Err(refusal));
        }
        let ask = match self.ask("run", accept.bucket, accept.reveal, prg)? {
            Ok(ask) => ask,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let claim = match self.claim(accept)? {
            Ok(claim) => claim,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let schedule = Arc::new(self.schedule(accept.bucket, accept.reveal)?);
        let held = match self.server.memory.reserve(schedule.encrypted_memory()?) {
            Ok(held) => held,
            Err(lack) => return Ok(Err(lack.refusal(&self.offer.terms.plan, accept.bucket))),
        };
        let (wish, purpose) = (accept.keys.as_ref(), (self.offer.terms.plan.as_str(), accept.bucket));
        let keyring = &self.server.keyring;
        let keys = SessionKeys::judge(keyring, &schedule.keys(), wish, self.listed()?, purpose, prg)?;
        Ok(keys.map(|keys| Admitted { schedule, claim, keys, held, ask }))
    }

    /// The prepared correlations that the client names.
    fn claim(&self, accept: &Accept) -> Result<Result<Option<Claim>, Refusal>> {
        let (Provider::Prepared(id), Some(stores)) = (accept.provider, &self.server.stores) else {
            return Ok(Ok(None));
        };
        let days = self.server.expire(stores)?;
        match stores.claim(id, &self.note(accept.bucket, accept.reveal))? {
            Claimed::Mine(mine) => Ok(Ok(Some(mine))),
            // As when a client comes again before its lost session is seen: the store is still good.
            Claimed::Busy => {
                refuse(RefusalKind::Busy, "another session has these correlations at this moment; try again later")
            }
            Claimed::Absent => {
                let text = format!(
                    "there are no such correlations here: they were made for something else, or are older than {days} days"
                );
                refuse(RefusalKind::Prepared, text)
            }
            Claimed::Used => {
                let text = "these correlations were used before: one side has put a copy of its directory back";
                refuse(RefusalKind::Prepared, text)
            }
        }
    }

    pub(super) fn run(mut self, accept: &Accept, prg: &mut Prg) -> Result<Report> {
        let Self { server, number, .. } = self;
        let mut judged = self.judge(accept, prg)?;
        if let Ok(admitted) = &judged
            && let Err(refusal) = self.charge(admitted.ask.clone())?
        {
            judged = Err(refusal);
        }
        let token = (accept.provider == Provider::Ahead).then(|| nonce(prg));
        // Awaited before the client knows the token: it may come at once.
        let awaited = token.filter(|_| judged.is_ok()).map(|t| server.admission.expect(t, self.shown));
        let granted = judged.as_ref().map(|admitted| Granted { token, keys: admitted.keys.grant() });
        let transcript = self.answer(granted.map_err(Refusal::clone))?;
        let Admitted { schedule, claim, keys, held: memory, .. } = judged.map_err(|_| not_offered("run"))?;
        server.audience.event(number, Event::Granted(accept.bucket, accept.reveal, accept.provider));
        self.teller().doing(Doing::Correlations);
        let mut source = self.source(accept.provider, awaited, claim, &schedule, transcript, prg)?;
        let mut teller = Teller(server, number);
        let told = &mut |done, all| teller.doing(Doing::Keys(done, all));
        // Before the keys are said to be ready, which the client's run waits for.
        schedule.reserve_buffers()?;
        let (mut held, keys) = keys.load(&schedule.keys(), &mut self.channel, prg, told)?;
        let (timed, clock) = Timed::new(source.take());
        let setup = self.start.elapsed().as_secs_f64();
        let run = Instant::now();
        // On the disk before the first message of the protocol.
        held.begin()?;
        let mut party = Party::new(Role::P1, self.channel, Box::new(timed));
        party.channel().begin(phase::ONLINE);
        let mut record = Recorder::new(&mut party, &mut teller, accept.verify && server.options.insecure_verify);
        let ended = run_server_with(&mut party, &schedule, &server.hosted.setup, &keys, &mut record);
        source.explain(ended.map_err(SessionError::from))?;
        drop((keys, memory));
        let times = Times { setup, run: run.elapsed().as_secs_f64(), waited: clock.seconds(), ..Times::default() };
        record.give_away(&mut party)?;
        let generated = source.finish()?;
        held.end(party.channel())?;
        let times = Times { total: self.start.elapsed().as_secs_f64(), ..times };
        Ok(Report::new(party.channel().stats(), generated.as_ref(), times))
    }

    fn source(
        &mut self,
        provider: Provider,
        awaited: Option<Awaited<'_>>,
        claim: Option<Claim>,
        schedule: &Arc<Schedule>,
        transcript: [u8; 32],
        prg: &mut Prg,
    ) -> Result<Source> {
        let Self { server, number, .. } = *self;
        let (limit, schedule) = (server.options.limits.queue_bytes, Arc::clone(schedule));
        match (provider, awaited, claim) {
            (Provider::Ahead, Some(awaited), _) => {
                let second = awaited.wait(JOINING).ok_or(SessionError::NoSecondConnection(JOINING))?;
                server.admission.line(number, second.hangup()?);
                source::ahead(Role::P1, second, schedule, limit, self.fresh.generator()?)
            }
            (Provider::Dealer(()), ..) => {
                let dial = server.options.dealer.as_ref().ok_or_else(|| not_offered("dealer"))?;
                let third = dealer::reach(dial, Role::P1, &transcript)?;
                server.admission.line(number, third.hangup()?);
                source::dealer(Role::P1, third, schedule, limit)
            }
            (Provider::Prepared(_), _, claim) => {
                let (stores, claim) = server.stores.as_ref().zip(claim).ok_or_else(|| not_offered("store"))?;
                let used = stores.mark_used(claim, Role::P1)?;
                source::prepared(used, &mut self.channel)
            }
            (Provider::Inline | Provider::Ahead, ..) => source::inline(Role::P1, &mut self.channel, prg),
        }
    }
}
