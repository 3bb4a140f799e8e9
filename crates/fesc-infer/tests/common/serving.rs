//! A server on a socket, with a model so small that a session takes a moment.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fesc_infer::session::cache::Cache;
use fesc_infer::session::client::{Place, RunOptions, Visit};
use fesc_infer::session::keyring::KeyLimits;
use fesc_infer::session::public::Hosted;
use fesc_infer::session::server::access::AccessOptions;
use fesc_infer::session::server::{Audience, Event, Limits, Options, Server};
use fesc_infer::session::source::stores::Amount;
use fesc_infer::session::{Dial, Provider, Randomness, RefusalKind, SessionError};
use fesc_infer::{Doing, Reveal, ServerSetup, Unwatched};
use fesc_model::Shape;
use fesc_model::twin::Twin;
use fesc_net::{ClientSecurity, Config, Listener, ServerSecurity};
use fesc_ring::Prg;

use super::{shape, twin};

/// Why sessions failed, in words, and how many runs were laid out.
#[derive(Clone, Default)]
pub struct Failures(Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>);

impl Failures {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub fn laid_out(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }
}

impl Audience for Failures {
    fn event(&self, _: u64, event: Event<'_>) {
        match event {
            Event::Failed(error) => self.0.lock().unwrap().push(error.to_string()),
            Event::Doing(Doing::Schedule) => _ = self.1.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
    }
}

pub fn small_twin() -> Twin {
    twin(Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, norm_groups: 1, ..shape() }, 40, 5)
}

pub fn model() -> ServerSetup {
    ServerSetup::new(small_twin(), [7; 32]).unwrap()
}

/// One session at once, and one prepared.
pub fn limits() -> Limits {
    Limits {
        sessions: 1,
        tokens: 128,
        time: Duration::from_secs(120),
        reply_timeout: Duration::from_secs(20),
        prepared: Amount { stores: 1, bytes: 1 << 30 },
        prepared_days: 1,
        keys: KeyLimits { bytes: 1 << 30, client_bytes: 1 << 29, age: Duration::from_secs(3600) },
        queue_bytes: 64 << 20,
        encrypted_bytes: 1 << 30,
        grace: Duration::from_secs(1),
    }
}

/// The same generators in every run, one after the other.
pub fn fresh(seed: u8) -> Randomness {
    let prg = Mutex::new(Prg::from_seed([seed; 16]));
    Randomness::from_source(move || Ok(prg.lock().unwrap().fork()))
}

/// A directory of prepared correlations, and beside it the list of those that were used.
pub fn place(directory: &Path) -> Place {
    Place { directory: directory.to_path_buf(), state: directory.with_extension("state") }
}

/// A run that shows the label.
pub fn label(provider: Provider<Dial, Place>) -> RunOptions {
    RunOptions { reveal: Reveal::Label, provider, ready_bytes: 64 << 20, verify: false, keys: None }
}

/// A server of labels for everybody, with its state in a directory.
pub fn options(limits: Limits, store: Option<&Path>, state: &Path) -> Options {
    Options {
        limits,
        reveals: vec![Reveal::Label],
        access: AccessOptions {
            clients: None,
            state: state.to_path_buf(),
            log: state.join("sessions.jsonl"),
            log_bytes: 1 << 20,
        },
        store: store.map(Path::to_path_buf),
        dealer: None,
        insecure_verify: false,
        code: |_| 3,
    }
}

/// Runs `visit` with the way to a server, and stops the server.
pub fn with_server<T>(limits: Limits, store: Option<&Path>, visit: impl FnOnce(&Dial, &Failures) -> T) -> T {
    let state = tempfile::tempdir().unwrap();
    serve(options(limits, store, state.path()), visit)
}

/// The same with options.
pub fn serve<T>(options: Options, visit: impl FnOnce(&Dial, &Failures) -> T) -> T {
    let failures = Failures::default();
    let hosted = Hosted::new(model(), None).unwrap();
    let server = Arc::new(Server::new(hosted, options, Box::new(failures.clone())).unwrap());
    let listener = Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, Config::default()).unwrap();
    let (address, security) = (listener.address().to_string(), ClientSecurity::InsecurePlaintext);
    let dial = Dial { address, security, config: Config::default(), cancel: None };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&listener, &fresh(1), &stop));
        // The server stops also when the visit panics: the scope waits for it.
        let visited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| visit(&dial, &failures)));
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        visited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

pub fn visit(dial: &Dial, cache: &Path) -> Result<Visit, SessionError> {
    let cache = Cache::open(cache).unwrap();
    Visit::start(dial, &cache, None, 1 << 30, &fresh(2), &mut Unwatched)
}

/// The same, as soon as the server has seen that the visit before is over.
pub fn visit_soon(dial: &Dial, cache: &Path) -> Visit {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match visit(dial, cache) {
            Err(SessionError::Refused { kind: RefusalKind::Busy, .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(50));
            }
            other => break other.unwrap(),
        }
    }
}
