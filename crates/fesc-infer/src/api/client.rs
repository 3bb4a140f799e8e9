//! The client as a library: text in, class out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fesc_model::Tokenizer;
use fesc_mpc::{Party, Role};
use fesc_net::{Channel, ClientSecurity, Config, Fingerprint, Identity};
use zeroize::Zeroizing;

use super::Server;
use crate::run::{Answer, run_client, run_server};
use crate::schedule::{MAX_TOKENS, Reveal, Schedule};
use crate::session::bucket::bucket;
use crate::session::cache::Cache;
use crate::session::client::{Finished, RunOptions, Visit};
use crate::session::source::two_party;
use crate::session::{Dial, Provider, Randomness, Report, Result, SessionError};
use crate::watch::Unwatched;

/// No public part of a model is larger.
pub const SETUP_LIMIT: u64 = 16 << 30;

/// Correlations that are kept ready, in bytes.
const READY: usize = 1 << 30;

/// What a client learnt of a document, and what that cost.
#[derive(Debug, Clone)]
pub struct Classification {
    /// What was revealed.
    pub answer: Answer,
    /// The class's name, if the model has names.
    name: Option<String>,
    /// Tokens of the document.
    pub tokens: usize,
    /// Tokens of the run: what the server knows of the length.
    pub bucket: usize,
    /// Time and traffic; `None` inside one process.
    pub report: Option<Report>,
}

impl Classification {
    /// The class, by number.
    pub fn class(&self) -> usize {
        self.answer.class()
    }

    /// The class's name, or its number where the model has no names.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.class().to_string())
    }
}

/// Where the other party is.
enum Peer {
    /// Behind a network.
    Network { dial: Dial, cache: Cache },
    /// In this process: no sockets, and no privacy from whoever owns the process.
    Memory(Arc<crate::session::server::Server>),
}

/// Classifies documents on a server without showing them.
///
/// Cost: a connection and a whole protocol run for each document; the model's public part is downloaded once
/// and kept. Not promised: anything against a server that leaves the protocol.
pub struct Client {
    peer: Peer,
    reveal: Reveal,
    keys: Option<PathBuf>,
}

impl Client {
    /// A client of the server at `address` (`host:port`) that must have this fingerprint; the model's public
    /// part is kept in the user's cache directory. Nothing is sent yet.
    ///
    /// # Errors
    /// If there is no cache directory.
    pub fn connect(address: &str, pin: Fingerprint) -> Result<Self> {
        Ok(Self::with_cache(address, pin, Cache::of_user()?))
    }

    /// The same with the public part kept in a cache of the caller's.
    pub fn with_cache(address: &str, pin: Fingerprint, cache: Cache) -> Self {
        let security = ClientSecurity::Tls(pin);
        let dial = Dial { address: address.into(), security, config: Config::default(), cancel: None };
        Self { peer: Peer::Network { dial, cache }, reveal: Reveal::Label, keys: None }
    }

    /// Shows this certificate to the server, for servers that have a list of clients.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        if let Peer::Network { dial, .. } = &mut self.peer
            && let ClientSecurity::Tls(pin) | ClientSecurity::TlsAs(pin, _) = dial.security
        {
            dial.security = ClientSecurity::TlsAs(pin, Arc::new(identity));
        }
        self
    }

    /// Keeps this client's CKKS keys in a state directory between sessions, for plans that need some and
    /// servers that keep them. Leave the directory out of backups.
    #[must_use]
    pub fn keys(self, state: &Path) -> Self {
        Self { keys: Some(state.into()), ..self }
    }

    /// Asks for logits instead of the label; the server must allow it.
    #[must_use]
    pub fn reveal(self, reveal: Reveal) -> Self {
        Self { reveal, ..self }
    }

    /// Both parties in this process, over memory: for tests and examples.
    pub fn in_memory(server: &Server) -> Self {
        Self { peer: Peer::Memory(server.shared()), reveal: Reveal::Label, keys: None }
    }

    /// Classifies a text. The server learns its length bucket and when it came.
    ///
    /// # Errors
    /// If the text is empty, longer than the server takes, or the session fails.
    pub fn classify(&self, text: &str) -> Result<Classification> {
        let watch = &mut Unwatched;
        let encode =
            |tokenizer: Tokenizer| -> Result<_> { Ok(Zeroizing::new(tokenizer.encode(text, MAX_TOKENS)?.ids)) };
        match &self.peer {
            Peer::Network { dial, cache } => {
                let visit = Visit::start(dial, cache, None, SETUP_LIMIT, &Randomness::os(), watch)?;
                let ids = encode(visit.known().tokenizer()?)?;
                let (reveal, provider) = (self.reveal, Provider::Ahead);
                let keys = self.keys.clone();
                let options = RunOptions { reveal, provider, ready_bytes: READY, verify: false, keys };
                let Finished { answer, bucket, report, known, .. } = visit.classify(&ids, &options, watch)?;
                let name = known.label(answer.class()).map(String::from);
                Ok(Classification { answer, name, tokens: ids.len(), bucket, report: Some(report) })
            }
            Peer::Memory(server) => {
                let hosted = server.hosted();
                let ids = encode(hosted.tokenizer()?)?;
                let bucket = bucket(ids.len()).ok_or(SessionError::Empty)?;
                let schedule = Schedule::new(&hosted.outline, bucket, self.reveal)?;
                let answer = self.run_in_memory(server, &schedule.with_embedding(hosted.setup.embedding()), &ids)?;
                let name = hosted.outline.labels().get(answer.class()).cloned();
                Ok(Classification { answer, name, tokens: ids.len(), bucket, report: None })
            }
        }
    }

    /// Both halves of a run, the server's in a thread.
    fn run_in_memory(
        &self,
        server: &crate::session::server::Server,
        schedule: &Schedule,
        ids: &[u32],
    ) -> Result<Answer> {
        let (mut ours, mut theirs) = Channel::memory_pair();
        let mut prgs = [Randomness::os().generator()?, Randomness::os().generator()?];
        let [prg, peer_prg] = &mut prgs;
        let setup = &server.hosted().setup;
        std::thread::scope(|scope| {
            let peer = scope.spawn(move || -> Result<()> {
                let source = two_party(Role::P1, &mut theirs, peer_prg)?;
                let mut party = Party::new(Role::P1, theirs, Box::new(source));
                Ok(run_server(&mut party, schedule, setup, &mut Unwatched)?)
            });
            let run = || -> Result<Answer> {
                let source = two_party(Role::P0, &mut ours, prg)?;
                let mut party = Party::new(Role::P0, ours, Box::new(source));
                Ok(run_client(&mut party, schedule, setup.client_setup(), ids, prg, &mut Unwatched)?)
            };
            let answer = run();
            let served = peer.join().unwrap_or_else(|_| Err(SessionError::Died("the server's thread".into())));
            let answer = answer?;
            served.map(|()| answer)
        })
    }
}
