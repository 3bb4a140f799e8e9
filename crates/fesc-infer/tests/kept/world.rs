//! A server with a list on a socket, its clients, and their disks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fesc_infer::session::VERSION;
use fesc_infer::session::cache::Cache;
use fesc_infer::session::client::{Finished, KeyUse, MyKeys, RunOptions, Visit, order};
use fesc_infer::session::handshake::{Accept, Granted, Greeting, Offer, Purpose, Reply, Step};
use fesc_infer::session::keyring::{KeyLimits, Order, Wish};
use fesc_infer::session::message::Talk;
use fesc_infer::session::public::Hosted;
use fesc_infer::session::server::{Limits, Server};
use fesc_infer::session::{Dial, Hex32, Provider, Randomness, RefusalKind, SessionError, dealer, hello};
use fesc_infer::{Reveal, Schedule, ServerSetup, Unwatched, Watch};
use fesc_model::Shape;
use fesc_model::plan::Projection;
use fesc_model::twin::{Plan, Twin};
use fesc_net::{ClientSecurity, Config, Identity, Listener, ServerSecurity, connect};

use super::common::serving::{Failures, label, limits, options};
use super::common::{document, shape, twin_by};

const ENCRYPTED: Plan = Plan { projection: Projection::Ckks, ..Plan::FAST };

pub fn model() -> Twin {
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, norm_groups: 1, ..shape() };
    twin_by(ENCRYPTED, small, 40, 5)
}

pub fn schedule() -> Schedule {
    Schedule::new(model().outline().unwrap(), 128, Reveal::Label).unwrap()
}

/// A dealer, a server with a list, and three clients; the server's disk and the clients' outlive a server.
pub struct World {
    place: tempfile::TempDir,
    identity: [PathBuf; 2],
    clients: [Arc<Identity>; 3],
    dealer: String,
    pub ids: Vec<u32>,
}

impl World {
    pub fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let identity = ["server.key", "server.crt"].map(|name| place.path().join(name));
        Identity::generate().unwrap().save(&identity[0], &identity[1]).unwrap();
        let clients: [_; 3] = std::array::from_fn(|_| Arc::new(Identity::generate().unwrap()));
        let listener = Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, Config::default()).unwrap();
        let dealer = listener.address().to_string();
        // It ends with the process of the tests.
        std::thread::spawn(move || dealer::serve(&listener, &Randomness::os(), &AtomicBool::new(false), &|_| {}));
        let world = Self { place, identity, clients, dealer, ids: document(20, 5) };
        world.budgets(["unlimited"; 3]);
        world
    }

    /// Writes the list, with so many sessions a day for each client.
    pub fn budgets(&self, sessions: [&str; 3]) {
        let line = |(n, sessions): (usize, &str)| {
            format!("client-{n} {} sessions={sessions}\n", self.clients[n].fingerprint())
        };
        let list: String = sessions.into_iter().enumerate().map(line).collect();
        std::fs::write(self.path("clients"), list).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub fn third(&self) -> Dial {
        let security = ClientSecurity::InsecurePlaintext;
        Dial { address: self.dealer.clone(), security, config: Config::default(), cancel: None }
    }

    /// Serves while `visit` runs, with a list or without.
    pub fn serve<T>(&self, keys: KeyLimits, listed: bool, visit: impl FnOnce(&Session<'_>) -> T) -> T {
        self.serve_within(Limits { keys, ..limits() }, listed, visit).unwrap()
    }

    /// The same within these limits, with four seats, if the server starts.
    pub fn serve_within<T>(
        &self,
        limits: Limits,
        listed: bool,
        visit: impl FnOnce(&Session<'_>) -> T,
    ) -> Result<T, SessionError> {
        let mut options = options(Limits { sessions: 4, ..limits }, None, &self.path("state"));
        options.access.clients = listed.then(|| self.path("clients"));
        options.dealer = Some(self.third());
        let failures = Failures::default();
        let hosted = Hosted::new(ServerSetup::new(model(), [7; 32]).unwrap(), None).unwrap();
        let server = Arc::new(Server::new(hosted, options, Box::new(failures.clone()))?);
        let identity = Identity::load(&self.identity[0], &self.identity[1]).unwrap();
        let pin = identity.fingerprint();
        let listener = Listener::bind("127.0.0.1:0", ServerSecurity::Tls(identity), Config::default()).unwrap();
        let (address, stop) = (listener.address().to_string(), AtomicBool::new(false));
        let dial = |who: Option<usize>| {
            let security = match who {
                Some(n) => ClientSecurity::TlsAs(pin, Arc::clone(&self.clients[n])),
                None => ClientSecurity::Tls(pin),
            };
            Dial { address: address.clone(), security, config: Config::default(), cancel: None }
        };
        let session = Session { world: self, failures, dials: [Some(0), Some(1), Some(2), None].map(dial) };
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| server.run(&listener, &Randomness::os(), &stop));
            // The server stops also when the visit panics: the scope waits for it.
            let visited = catch_unwind(AssertUnwindSafe(|| visit(&session)));
            stop.store(true, Ordering::Relaxed);
            serving.join().unwrap().unwrap();
            Ok(visited.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    /// Files of the server's keys, or of those of a client.
    pub fn files(&self, state: &str) -> Vec<PathBuf> {
        let directories = ["keys-server", "keys-client"].map(|name| self.path(state).join(name));
        let files = directories.iter().filter_map(|d| std::fs::read_dir(d).ok()).flatten();
        let mut files: Vec<PathBuf> = files.map(|e| e.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Files at the server, and at each of the clients.
    pub fn counts(&self) -> [usize; 4] {
        ["state", "state-0", "state-1", "state-2"].map(|name| self.files(name).len())
    }
}

/// A client without a certificate.
pub const STRANGER: usize = 3;

/// A server that runs.
pub struct Session<'a> {
    world: &'a World,
    pub failures: Failures,
    dials: [Dial; 4],
}

impl Session<'_> {
    pub fn state(&self, who: usize) -> PathBuf {
        self.world.path(&format!("state-{who}"))
    }

    pub fn options(&self, keys: Option<PathBuf>) -> RunOptions {
        RunOptions { keys, ..label(Provider::Dealer(self.world.third())) }
    }

    pub fn run(&self, who: usize, keys: Option<PathBuf>, watch: &mut dyn Watch) -> Result<Finished, SessionError> {
        let cache = Cache::open(&self.world.path("cache")).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        let visit = loop {
            match Visit::start(&self.dials[who], &cache, None, 1 << 30, &Randomness::os(), watch) {
                Err(SessionError::Refused { kind: RefusalKind::Busy, .. }) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                visit => break visit?,
            }
        };
        visit.classify(&self.world.ids, &self.options(keys), watch)
    }

    /// A document of a client that keeps its keys.
    pub fn classify(&self, who: usize) -> Result<Finished, SessionError> {
        self.run(who, Some(self.state(who)), &mut Unwatched)
    }

    pub fn keys(&self, who: usize) -> KeyUse {
        self.classify(who).unwrap().keys
    }

    pub fn order(&self, who: usize, what: &Order) -> Result<MyKeys, SessionError> {
        order(&self.dials[who], &self.state(who), what, &Randomness::os())
    }

    /// What the server says to a wish, by a client that has no keys at all.
    pub fn ask(&self, who: usize, keys: Option<Wish>) -> Result<Granted, SessionError> {
        let Dial { address, security, config, .. } = &self.dials[who];
        let mut channel = connect(address, security, &hello(), config)?;
        let mut talk = Talk::default();
        let greeting = Greeting { version: VERSION, nonce: Hex32([4; 32]), purpose: Purpose::Session };
        talk.tell(&mut channel, "greeting", &greeting)?;
        let terms = talk.hear::<Reply<Offer>>(&mut channel, "offer")?.granted()?.terms;
        let (reveal, provider) = (Reveal::Label, Provider::Dealer(()));
        let accept = Accept { terms, bucket: 128, reveal, provider, verify: false, keys };
        talk.tell(&mut channel, "step", &Step::Run(accept))?;
        talk.hear::<Reply<Granted>>(&mut channel, "answer")?.granted()
    }

    /// Waits until the server has seen that a client is gone.
    pub fn failed(&self, times: usize) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(20);
        while self.failures.all().len() < times && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.failures.all()
    }
}

pub fn refused<T>(result: Result<T, SessionError>) -> (RefusalKind, String) {
    match result {
        Err(SessionError::Refused { kind, message }) => (kind, message),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was granted"),
    }
}

pub fn wish(kept: Option<Hex32>) -> Option<Wish> {
    Some(Wish { shape: Hex32(schedule().keys().digest()), kept, keep: true })
}

/// The name of the keys in a file.
pub fn name(path: &Path) -> Hex32 {
    path.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}
