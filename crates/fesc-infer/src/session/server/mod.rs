//! The server: a thread for each client, limits on all of them together.
//!
//! | limit | what happens beyond it |
//! |---|---|
//! | sessions at once | the client is told that the server is busy |
//! | connections at once, time to say what they want | the one that has been silent longest is closed |
//! | tokens of a run | the client is told before it sends anything |
//! | time of a session | the session's connections are cut |
//! | time to speak of terms: what it wants, its step, the hash of the handshake | the session is cut |
//! | idle time in a run | the channel's own limits ([`fesc_net::Config`]) |
//! | prepared correlations, in stores and in bytes | the client is told |
//! | age of prepared correlations | they are deleted, at the start and when a client asks |
//! | kept keys, in bytes for a client and for all | the client is told before it makes them |
//! | age of kept keys | they are deleted, at the start and when a client asks |
//! | clients, and their runs of a day ([`access`]) | the client is told |
//!
//! A fault, even a panic, in one client's thread ends that session and nothing else.

pub mod access;
pub(super) mod admission;
mod attend;
mod keys;
mod memory;
pub mod state;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fesc_hybrid::ckks;
use fesc_mpc::Role;
use fesc_net::{Listener, Pending};
use fesc_ring::memory::give_back;

use super::VERSION;
use super::dial::Dial;
use super::error::{Result, SessionError};
use super::handshake::{Offer, Terms};
use super::hex::Hex32;
use super::keyring::{KeyLimits, Keyring};
use super::provider::Provider;
use super::public::Hosted;
use super::randomness::Randomness;
use super::report::Report;
use super::source::stores::{Amount, StoreDirectory, UsedList};
use crate::kernels;
use crate::schedule::{Reveal, Schedule};
use crate::watch::Doing;
use access::{Access, AccessOptions};
pub use admission::descriptors;
use admission::{Admission, Cut};
use memory::Memory;

/// How often the listener looks at its clock.
const LOOK: Duration = Duration::from_millis(100);

/// Tokens of the shortest run.
const SHORTEST: usize = 128;

/// How long the threads of sessions that were cut may take to see it.
const CUTTING: Duration = Duration::from_secs(10);

/// Limits on all clients together.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Sessions at once.
    pub sessions: usize,
    /// Tokens of a run.
    pub tokens: usize,
    /// Time of a session.
    pub time: Duration,
    /// Time in which a client must speak, each time that it is its turn in the handshake; four times that to
    /// take a window of the public part, and to speak after the last.
    pub reply_timeout: Duration,
    /// Prepared correlations that may wait for their use.
    pub prepared: Amount,
    /// Days after which prepared correlations that nobody has used are deleted.
    pub prepared_days: u32,
    /// CKKS keys that are kept for clients.
    pub keys: KeyLimits,
    /// Bytes of correlations that a session keeps ahead.
    pub queue_bytes: usize,
    /// Bytes of memory that all sessions together may take under encryption: clients' CKKS keys, and
    /// ciphertexts while they are computed on.
    pub encrypted_bytes: u64,
    /// How long sessions may go on after the server was told to stop.
    pub grace: Duration,
}

/// What a server does besides its limits.
#[derive(Debug, Clone)]
pub struct Options {
    /// Limits.
    pub limits: Limits,
    /// What clients may learn.
    pub reveals: Vec<Reveal>,
    /// Who may ask, and where the server keeps what it must not forget.
    pub access: AccessOptions,
    /// Where prepared correlations are kept, if they are.
    pub store: Option<PathBuf>,
    /// The dealer that this server trusts, if any.
    pub dealer: Option<Dial>,
    /// Give shares of hidden values to clients that ask: for checks of the program, never for service.
    pub insecure_verify: bool,
    /// The exit code of an error, for the log of sessions.
    pub code: fn(&SessionError) -> u8,
}

/// What happens in a session.
#[derive(Debug)]
pub enum Event<'a> {
    /// It was granted: tokens, what the client learns, where correlations come from.
    Granted(usize, Reveal, Provider),
    /// It does this now.
    Doing(Doing),
    /// It is over; what it cost.
    Done(Report),
    /// It failed.
    Failed(&'a SessionError),
}

/// Who is told what happens. Called from the threads of all clients.
pub trait Audience: Send + Sync {
    /// In session `number` this happened.
    fn event(&self, number: u64, event: Event<'_>) {
        let _ = (number, event);
    }
}

/// Hears nothing.
impl Audience for () {}

/// A server.
pub struct Server {
    hosted: Hosted,
    options: Options,
    terms: Terms,
    admission: Admission,
    stores: Option<StoreDirectory>,
    keyring: Keyring,
    memory: Memory,
    access: Access,
    numbers: AtomicU64,
    audience: Box<dyn Audience>,
}

impl Server {
    /// A server of one model. Stores that an earlier process left half-made or used are deleted, and those
    /// that are too old. A plan whose shortest run does not fit the memory under encryption is refused.
    pub fn new(hosted: Hosted, options: Options, audience: Box<dyn Audience>) -> Result<Self> {
        let plan = hosted.outline.plan();
        let terms = Terms {
            model: hosted.id,
            plan: plan.name(),
            outline: hosted.outline_digest,
            kernels: Hex32(kernels::digest(plan)?),
            embedding: hosted.setup.embedding(),
        };
        let memory = Memory::new(options.limits.encrypted_bytes);
        if plan.encrypts() {
            let least = Schedule::new(&hosted.outline, SHORTEST, Reveal::Label)?.encrypted_memory()?;
            memory.fits(least).map_err(|lack| lack.useless(&plan.name(), SHORTEST))?;
        }
        let access = Access::open(&options.access)?;
        let state = &options.access.state;
        let stores = options
            .store
            .as_deref()
            .map(|store| StoreDirectory::open(store, UsedList::open(state, Role::P1)?))
            .transpose()?;
        let keyring = Keyring::open(state, options.limits.keys)?;
        let admission = Admission::new(options.limits.sessions, options.limits.time, options.limits.reply_timeout);
        let numbers = AtomicU64::new(0);
        let server = Self { hosted, options, terms, admission, stores, keyring, memory, access, numbers, audience };
        server.stores.as_ref().map(|stores| server.expire(stores)).transpose()?;
        Ok(server)
    }

    /// Deletes prepared correlations that are too old; returns the days that they may have.
    fn expire(&self, stores: &StoreDirectory) -> Result<u32> {
        let days = self.options.limits.prepared_days;
        stores.expire(Duration::from_secs(86_400 * u64::from(days)))?;
        Ok(days)
    }

    /// What it serves.
    pub fn hosted(&self) -> &Hosted {
        &self.hosted
    }

    /// The model id.
    pub fn model(&self) -> Hex32 {
        self.hosted.id
    }

    fn offer(&self, nonce: Hex32) -> Offer {
        let mut providers = vec!["ahead".to_string(), "inline".to_string()];
        providers.extend(self.options.dealer.as_ref().map(|_| "dealer".to_string()));
        providers.extend(self.stores.as_ref().map(|_| "prepared".to_string()));
        Offer {
            version: VERSION,
            nonce,
            terms: self.terms.clone(),
            setup_bytes: self.hosted.bytes,
            max_tokens: self.options.limits.tokens,
            reveals: self.options.reveals.clone(),
            providers,
            insecure_verify: self.options.insecure_verify,
            keys_s: self.options.limits.keys.age.as_secs(),
        }
    }

    /// Serves until `stop` is set, then lets sessions go on for the grace of the limits. Every connection has
    /// a generator of its own from `fresh`.
    pub fn run(self: &Arc<Self>, listener: &Listener, fresh: &Randomness, stop: &AtomicBool) -> Result<()> {
        let mut until = None;
        loop {
            self.admission.expire();
            if stop.load(Ordering::Relaxed) {
                // New sessions are told that it stops. The listener goes on: those that run may await their
                // second connection.
                self.admission.close();
                let until = *until.get_or_insert_with(|| Instant::now() + self.options.limits.grace);
                if self.admission.empty() || Instant::now() >= until {
                    break;
                }
            }
            let pending = match listener.accept_within(LOOK) {
                Ok(Some(pending)) => pending,
                Ok(None) => continue,
                Err(e) => {
                    // Too many open files, or a client that left at once: the sessions that are here must go
                    // on.
                    self.audience.event(0, Event::Failed(&e.into()));
                    std::thread::sleep(LOOK);
                    continue;
                }
            };
            let number = 1 + self.numbers.fetch_add(1, Ordering::Relaxed);
            let Some(place) = pending.hangup().ok().and_then(|line| self.admission.enter(number, line)) else {
                // Dropping it closes the connection: there are too many to talk to each.
                continue;
            };
            let (server, fresh) = (Arc::clone(self), fresh.clone());
            let spawned = std::thread::Builder::new().name("client".into()).spawn(move || {
                server.one(number, pending, &fresh);
                drop(place);
            });
            if let Err(e) = spawned {
                let error = SessionError::Died(format!("no thread for a client: {e}"));
                self.audience.event(0, Event::Failed(&error));
            }
        }
        self.admission.cut_all();
        // Cut channels end their threads at the next message.
        let until = Instant::now() + CUTTING;
        while !self.admission.empty() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// One client's thread.
    fn one(&self, number: u64, pending: Pending, fresh: &Randomness) {
        let ended = catch_unwind(AssertUnwindSafe(|| attend::attend(self, number, pending, fresh)));
        let result = ended.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(SessionError::Died(text.into()))
        });
        // A session's memory is the system's again before the next one. Strangers had none, and cost no more
        // than they must.
        if self.admission.seated(number) {
            ckks::memory::release();
            give_back();
        }
        // Seen from its thread, a cut session ended because its connection did.
        let result = match (result, self.admission.was_cut(number)) {
            (Err(_), Some(Cut::Time)) => Err(SessionError::TimeLimit(self.options.limits.time)),
            (Err(_), Some(Cut::Silence(within))) => Err(SessionError::Silent(within)),
            (result, _) => result,
        };
        let (code, bytes) = match &result {
            Ok(report) => (0, report.as_ref().map(Report::bytes)),
            Err(error) => ((self.options.code)(error).max(1), None),
        };
        // Its line is in the log before its seat is another's.
        if let Err(unwritten) = self.access.finish(number, code, bytes) {
            self.audience.event(number, Event::Failed(&unwritten));
        }
        self.admission.leave(number);
        match result {
            Ok(None) => {}
            Ok(Some(report)) => self.audience.event(number, Event::Done(report)),
            Err(error) => self.audience.event(number, Event::Failed(&error)),
        }
    }
}
