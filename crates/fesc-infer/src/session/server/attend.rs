//! One client, from its first message to its last.

mod run;

use std::io::Write;
use std::time::{Duration, Instant};

use fesc_mpc::Role;
use fesc_net::{Channel, Fingerprint, Pending};
use fesc_ring::Prg;

use super::access::{Asked, Client};
use super::admission::Admission;
use super::{Event, Server};
use crate::schedule::{Reveal, Schedule};
use crate::session::VERSION;
use crate::session::download::Upload;
use crate::session::error::{RefusalKind, Result, SessionError};
use crate::session::handshake::{Batch, Granted, Greeting, Offer, Purpose, Refusal, Reply, Step};
use crate::session::hex::Hex32;
use crate::session::keyring::{Listing, Order};
use crate::session::message::{Talk, parse};
use crate::session::prepare::Preparation;
use crate::session::public::unsent;
use crate::session::randomness::Randomness;
use crate::session::report::{Report, Times};
use crate::session::source::stores::{Amount, Note, bytes_of};
use crate::session::{hello, nonce, phase};
use crate::watch::{Doing, Watch};

/// How long a session waits for its second connection.
const JOINING: Duration = Duration::from_secs(30);

/// The public part is sent at most this often in one visit: a client needs it once.
const MOST_SETUPS: u32 = 2;

/// Serves one connection. `None`: it was no session of its own, or one in which nothing was computed.
pub(super) fn attend(server: &Server, number: u64, pending: Pending, fresh: &Randomness) -> Result<Option<Report>> {
    let start = Instant::now();
    let mut channel = pending.establish_seen(&hello(), |ticket| {
        ticket.iter().for_each(|ticket| server.admission.show(number, *ticket));
    })?;
    let mut prg = fresh.generator()?;
    let shown = channel.peer_fingerprint();
    channel.phase(phase::SETUP);
    let mut talk = Talk::default();
    let greeting = talk.hear_any(&mut channel, "greeting")?;
    // Before anything is told. A list that cannot be read admits nobody.
    if let Err(Refusal { kind, message }) = server.access.admit(shown)? {
        refuse::<Offer>(&mut talk, &mut channel, kind, message.clone())?;
        return Err(SessionError::RefusedHere { kind, message });
    }
    // The version comes first: a later one may change all the rest.
    let theirs = greeting.get("version").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if theirs != VERSION {
        let message = format!("version {theirs} of sessions; this server speaks {VERSION}, update the older one");
        refuse::<Offer>(&mut talk, &mut channel, RefusalKind::Mismatch, message)?;
        return Err(SessionError::Version { ours: VERSION, theirs });
    }
    let greeting: Greeting = parse(greeting, "greeting")?;
    if let Purpose::Join(token) = greeting.purpose {
        // It belongs to its session from now on. One that nobody awaits is closed without a word.
        server.admission.leave(number);
        drop(server.admission.join(token, shown, channel));
        return Ok(None);
    }
    if !server.admission.admit(number, channel.hangup()?) {
        let (kind, message) = if server.admission.closed() {
            (RefusalKind::Stopping, "this server is about to stop".to_string())
        } else {
            let limit = server.options.limits.sessions;
            (RefusalKind::Busy, format!("this server is busy: it takes {limit} sessions at once; try again later"))
        };
        refuse::<Offer>(&mut talk, &mut channel, kind, message.clone())?;
        return Err(SessionError::RefusedHere { kind, message });
    }
    let offer = server.offer(nonce(&mut prg));
    talk.tell(&mut channel, "offer", &Reply::Ok(offer.clone()))?;
    let visit = Visit { server, number, talk, channel, offer, theirs: greeting.nonce, start, shown, fresh };
    visit.serve(&mut prg)
}

fn refuse<T: serde::Serialize>(
    talk: &mut Talk,
    channel: &mut Channel,
    kind: RefusalKind,
    message: String,
) -> Result<()> {
    talk.tell(channel, "refusal", &Reply::<T>::Refused(Refusal { kind, message }))
}

/// Tells the audience.
struct Teller<'a>(&'a Server, u64);

impl Watch for Teller<'_> {
    fn doing(&mut self, doing: Doing) {
        self.0.audience.event(self.1, Event::Doing(doing));
    }
}

/// An upload that goes on as long as the client takes it: a client that stops is silent.
struct Taken<'a> {
    upload: Upload<'a>,
    admission: &'a Admission,
    number: u64,
    told: Instant,
}

impl Write for Taken<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.upload.write(bytes)?;
        // Often enough for any limit, and not for every few bytes.
        if self.told.elapsed() > Duration::from_millis(100) {
            self.told = Instant::now();
            self.admission.extend_deadline(self.number);
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.upload.flush()
    }
}

/// What a client may have, to be counted when it is granted.
#[derive(Clone)]
struct Ask {
    session: [u8; 8],
    client: Option<Client>,
    asked: Asked,
}

struct Visit<'a> {
    server: &'a Server,
    number: u64,
    talk: Talk,
    channel: Channel,
    offer: Offer,
    /// The client's nonce.
    theirs: Hex32,
    start: Instant,
    /// Of the client's certificate.
    shown: Option<Fingerprint>,
    fresh: &'a Randomness,
}

impl Visit<'_> {
    fn serve(mut self, prg: &mut Prg) -> Result<Option<Report>> {
        let mut setups = 0;
        self.server.admission.listen(self.number);
        loop {
            match self.talk.hear::<Step>(&mut self.channel, "step")? {
                Step::Setup if setups < MOST_SETUPS => {
                    setups += 1;
                    self.setup()?;
                    // The last window is still under way, and has its time before the client can speak.
                    self.server.admission.extend_deadline(self.number);
                }
                Step::Setup => {
                    let problem = "it asks for the public part again and again".into();
                    return Err(SessionError::Malformed { what: "step", problem });
                }
                Step::Run(accept) => return self.run(&accept, prg).map(Some),
                Step::Prepare(batch) => return self.prepare(&batch, prg).map(Some),
                Step::Keys(order) => return self.keys(&order).map(|()| None),
            }
        }
    }

    fn teller(&self) -> Teller<'_> {
        Teller(self.server, self.number)
    }

    fn setup(&mut self) -> Result<()> {
        let hosted = &self.server.hosted;
        self.teller().doing(Doing::Setup(hosted.bytes));
        self.server.admission.extend_deadline(self.number);
        let upload = Upload::new(&mut self.channel, hosted.bytes);
        let mut taken = Taken { upload, admission: &self.server.admission, number: self.number, told: Instant::now() };
        hosted.write(&mut taken)?;
        taken.upload.finish().map_err(unsent)
    }

    /// Refuses what must be refused, else grants it and compares the handshakes.
    fn answer(&mut self, checked: Result<Granted, Refusal>) -> Result<[u8; 32]> {
        let granted = match checked {
            Ok(granted) => granted,
            Err(refusal) => {
                self.talk.tell(&mut self.channel, "answer", &Reply::<Granted>::Refused(refusal.clone()))?;
                return Err(SessionError::RefusedHere { kind: refusal.kind, message: refusal.message });
            }
        };
        self.talk.tell(&mut self.channel, "answer", &Reply::Ok(granted))?;
        self.server.admission.listen(self.number);
        let transcript = self.talk.compare(&mut self.channel)?;
        self.server.admission.clear_deadline(self.number);
        Ok(transcript)
    }

    fn note(&self, bucket: usize, reveal: Reveal) -> Note {
        let plan = self.offer.terms.plan.clone();
        Note { model: self.server.hosted.id, plan, bucket, reveal, peer: self.shown.map(|f| f.to_string()) }
    }

    /// Costs seconds for a large model under encryption: not for a client that is refused anyway.
    fn schedule(&self, bucket: usize, reveal: Reveal) -> Result<Schedule> {
        self.teller().doing(Doing::Schedule);
        Ok(Schedule::new(&self.server.hosted.outline, bucket, reveal)?.with_embedding(self.offer.terms.embedding))
    }

    /// Whether the client may have the session, before anything is made for it.
    fn ask(&self, kind: &str, bucket: usize, reveal: Reveal, prg: &mut Prg) -> Result<Result<Ask, Refusal>> {
        let asked = Asked { kind: kind.into(), bucket, plan: self.offer.terms.plan.clone(), reveal };
        // Asked again: a download may have taken an hour since the greeting.
        let client = match self.server.access.admit(self.shown)? {
            Ok(client) => client,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let session = prg.public_bytes();
        let allowed = self.server.access.allows(session, client.as_ref(), &asked)?;
        Ok(allowed.map(|()| Ask { session, client, asked }))
    }

    /// Counts the session, if the client may still have it. It is on the disk before the client hears of it.
    fn charge(&self, ask: Ask) -> Result<Result<(), Refusal>> {
        let Ask { session, client, asked } = ask;
        self.server.access.charge(self.number, session, client.as_ref(), asked)
    }

    /// The certificate of a client that is on the list: what is kept for it is bound to that.
    fn listed(&self) -> Result<Option<Fingerprint>> {
        Ok(self.server.access.admit(self.shown)?.ok().flatten().map(|client| client.fingerprint))
    }

    /// Shows or deletes the client's kept keys. Nothing is computed, so nothing is counted.
    fn keys(mut self, order: &Order) -> Result<()> {
        let Some(client) = self.listed()? else {
            let (kind, message) =
                (RefusalKind::NotOffered, "this server keeps keys of listed clients alone".to_string());
            refuse::<Listing>(&mut self.talk, &mut self.channel, kind, message.clone())?;
            return Err(SessionError::RefusedHere { kind, message });
        };
        let listing = self.server.keyring.obey(order, &client.to_string())?;
        self.talk.tell(&mut self.channel, "answer", &Reply::Ok(listing))
    }

    fn prepare(mut self, batch: &Batch, prg: &mut Prg) -> Result<Report> {
        let Self { server, number, .. } = self;
        let checked = self.offer.admits_batch(batch);
        let (Some(stores), Ok(())) = (&server.stores, &checked) else {
            let nothing =
                Refusal { kind: RefusalKind::NotOffered, message: "this server keeps no correlations".into() };
            return Err(self.answer(checked.and(Err(nothing))).err().unwrap_or_else(|| not_offered("store")));
        };
        let ask = match self.ask("prepare", batch.bucket, batch.reveal, prg)? {
            Ok(ask) => ask,
            Err(refusal) => return Err(self.answer(Err(refusal)).err().unwrap_or_else(|| not_offered("store"))),
        };
        let schedule = self.schedule(batch.bucket, batch.reveal)?;
        server.expire(stores)?;
        let (each, limit) = (bytes_of(&schedule, Role::P1)?, server.options.limits.prepared);
        let room = match stores.reserve(batch.count as usize, each, limit)? {
            Ok(room) => room,
            Err(Amount { stores, bytes }) => {
                let (Batch { count, .. }, kind) = (batch, RefusalKind::Full);
                let message = format!(
                    "no room for {count} prepared sessions of {each} bytes: at most {} and {} bytes are kept; use some, or ask \
                     for fewer or shorter ones",
                    limit.stores, limit.bytes
                );
                refuse::<Granted>(&mut self.talk, &mut self.channel, kind, message.clone())?;
                // What others keep here is not for this client: only the log has it.
                let message = format!("{message} ({stores} of {bytes} bytes wait here or are being made)");
                return Err(SessionError::RefusedHere { kind, message });
            }
        };
        let charged = self.charge(ask)?;
        self.answer(charged.map(|()| Granted { token: None, keys: None }))?;
        let note = self.note(batch.bucket, batch.reveal);
        let nonces = [self.theirs, self.offer.nonce];
        let making = Preparation {
            role: Role::P1,
            schedule: &schedule,
            batch,
            nonces,
            note: &note,
            room: Some(room),
            setup: None,
        };
        let (_, seconds) = making.run(&mut self.channel, stores, prg, &mut Teller(server, number))?;
        let total = self.start.elapsed().as_secs_f64();
        let times = Times { setup: total - seconds, run: seconds, waited: seconds, total, ..Times::default() };
        Ok(Report::new(self.channel.stats(), None, times))
    }
}

/// What the offer has already ruled out.
fn not_offered(what: &str) -> SessionError {
    SessionError::Malformed { what: "step", problem: format!("it asks for a {what} that is not offered") }
}
