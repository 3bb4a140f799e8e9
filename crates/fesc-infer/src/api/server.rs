//! The server as a library: a classifier in, a running service out.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fesc_model::{Classifier, Plan};
use fesc_net::{Config, Fingerprint, Identity, Listener, ServerSecurity};
use fesc_ring::memory::give_back;

use crate::schedule::Reveal;
use crate::session::keyring::KeyLimits;
use crate::session::public::Hosted;
use crate::session::server::access::AccessOptions;
use crate::session::server::state::{self, Master};
use crate::session::server::{self, Audience, Limits, Options};
use crate::session::source::stores::Amount;
use crate::session::{Randomness, Result, SessionError};
use crate::setup::ServerSetup;
use crate::stage::Embedding;

/// How a server is made of a classifier.
pub struct ServerBuilder {
    classifier: Classifier,
    plan: Plan,
    embedding: Embedding,
    state: Option<PathBuf>,
    options: Options,
    audience: Box<dyn Audience>,
}

impl ServerBuilder {
    /// Which kernel computes each stage; `fast` unless told.
    #[must_use]
    pub fn plan(self, plan: Plan) -> Self {
        Self { plan, ..self }
    }

    /// Where master seed, identity, budgets, clients' CKKS keys and the log of sessions are kept, so that
    /// clients keep their downloads and their pin when the server starts again. Without it they end with the
    /// server.
    #[must_use]
    pub fn state(self, directory: &Path) -> Self {
        Self { state: Some(directory.into()), ..self }
    }

    /// Serves the clients of this list only.
    #[must_use]
    pub fn clients(mut self, list: &Path) -> Self {
        self.options.access.clients = Some(list.into());
        self
    }

    /// The most that clients may learn.
    #[must_use]
    pub fn reveal(mut self, most: Reveal) -> Self {
        self.options.reveals = Reveal::ALL.into_iter().filter(|r| *r <= most).collect();
        self
    }

    /// Whether the table of the embedding is secret.
    #[must_use]
    pub fn embedding(self, embedding: Embedding) -> Self {
        Self { embedding, ..self }
    }

    /// Who hears of sessions that begin, end and fail.
    #[must_use]
    pub fn audience(self, audience: Box<dyn Audience>) -> Self {
        Self { audience, ..self }
    }

    /// Everything else: limits, stores, a dealer.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Publishes the model: makes what clients download. The weights leave memory; they are in a file that
    /// only this process can read.
    ///
    /// # Errors
    /// If the plan cannot be run, the classifier has no calibration or does not fit the ring, or the state
    /// directory cannot be used.
    pub fn build(self) -> Result<Server> {
        let Self { classifier, plan, embedding, state, mut options, audience } = self;
        let temporary = if state.is_none() {
            Some(
                tempfile::tempdir()
                    .map_err(|source| SessionError::Io { path: "temporary directory".into(), source })?,
            )
        } else {
            None
        };
        let place = state.or_else(|| temporary.as_ref().map(|t| t.path().to_path_buf())).unwrap_or_default();
        let Master { seed, replaced } = state::master(&place, &mut Randomness::os().generator()?)?;
        let (twin, tokenizer) = (classifier.twin(plan)?, classifier.tokenizer_json().to_string());
        // The twin shares the weights.
        drop(classifier);
        let setup = ServerSetup::in_directory(&twin, *seed, embedding, &place)?;
        drop(twin);
        give_back();
        if options.access.state.as_os_str().is_empty() {
            options.access.state.clone_from(&place);
        }
        if options.access.log.as_os_str().is_empty() {
            options.access.log = place.join("sessions.jsonl");
        }
        let hosted = Hosted::new(setup, Some(tokenizer))?;
        let server = server::Server::new(hosted, options, audience)?;
        Ok(Server { server: Arc::new(server), place, replaced, _temporary: temporary })
    }
}

/// A model that is ready to be served.
pub struct Server {
    server: Arc<server::Server>,
    place: PathBuf,
    replaced: Vec<String>,
    /// Deleted with the server.
    _temporary: Option<tempfile::TempDir>,
}

impl Server {
    /// A server of this classifier: labels only, four sessions at once, documents of up to 4,096 tokens, no
    /// limit on memory under encryption.
    pub fn builder(classifier: Classifier) -> ServerBuilder {
        let limits = Limits {
            sessions: 4,
            tokens: 4096,
            time: Duration::from_secs(7200),
            reply_timeout: Duration::from_secs(60),
            prepared: Amount { stores: 64, bytes: 20 << 30 },
            prepared_days: 30,
            keys: KeyLimits { bytes: 20 << 30, client_bytes: 2 << 30, age: Duration::from_secs(30 * 86_400) },
            queue_bytes: 1 << 30,
            encrypted_bytes: u64::MAX,
            grace: Duration::from_secs(10),
        };
        let access = AccessOptions { clients: None, state: PathBuf::new(), log: PathBuf::new(), log_bytes: 8 << 20 };
        let options = Options {
            limits,
            reveals: vec![Reveal::Label],
            access,
            store: None,
            dealer: None,
            insecure_verify: false,
            code: |_| 1,
        };
        let (plan, embedding, audience) = (Plan::FAST, Embedding::Encrypted, Box::new(()));
        ServerBuilder { classifier, plan, embedding, state: None, options, audience }
    }

    /// Master seeds of other versions in the state directory, which are not used.
    pub fn replaced_seeds(&self) -> &[String] {
        &self.replaced
    }

    /// The model's id.
    pub fn model(&self) -> String {
        self.server.model().to_string()
    }

    /// Bytes that a client downloads once.
    pub fn public_bytes(&self) -> u64 {
        self.server.hosted().bytes
    }

    pub(crate) fn shared(&self) -> Arc<server::Server> {
        Arc::clone(&self.server)
    }

    /// Listens with the identity of the state directory; port 0 takes a free one.
    ///
    /// # Errors
    /// If the address is taken, or the identity cannot be read.
    pub fn listen(&self, address: &str) -> Result<Listening<'_>> {
        let identity = state::identity(&self.place)?;
        self.listen_as(address, identity, Config::default())
    }

    /// The same with an identity and limits of connections of the caller's.
    ///
    /// # Errors
    /// If the address is taken.
    pub fn listen_as(&self, address: &str, identity: Identity, config: Config) -> Result<Listening<'_>> {
        let pin = identity.fingerprint();
        let listener = Listener::bind(address, ServerSecurity::Tls(identity), config)?;
        Ok(Listening { server: self, listener, pin: Some(pin) })
    }

    /// Without TLS, for measurements.
    ///
    /// # Errors
    /// If the address is taken.
    pub fn listen_in_plaintext(&self, address: &str, config: Config) -> Result<Listening<'_>> {
        let listener = Listener::bind(address, ServerSecurity::InsecurePlaintext, config)?;
        Ok(Listening { server: self, listener, pin: None })
    }

    /// The identity of its state directory.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn identity(&self) -> Result<Identity> {
        state::identity(&self.place)
    }
}

/// A server with an address.
pub struct Listening<'a> {
    server: &'a Server,
    listener: Listener,
    pin: Option<Fingerprint>,
}

impl Listening<'_> {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// What clients must pin; `None` without TLS.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.pin
    }

    /// Serves until `stop` is set, and then until the sessions that run have ended or the grace is over.
    ///
    /// # Errors
    /// If the listener fails.
    pub fn run(&self, stop: &AtomicBool) -> Result<(), SessionError> {
        self.server.server.run(&self.listener, &Randomness::os(), stop)
    }
}
