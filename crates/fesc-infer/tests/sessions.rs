//! Sessions from outside: a server on a socket, and clients that do not behave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::*;
use fesc_infer::ServerSetup;
use fesc_infer::session::cache::Cache;
use fesc_infer::session::client::{Choice, Dial, Visit};
use fesc_infer::session::handshake::RevealChoice;
use fesc_infer::session::public::Hosted;
use fesc_infer::session::server::{Audience, Event, Limits, Options, Server};
use fesc_infer::session::{SessionError, Silent};
use fesc_model::Shape;
use fesc_model::twin::Rounding;
use fesc_net::{ClientSecurity, Config, Listener, ServerSecurity};
use fesc_ring::Prg;

struct Nobody;

impl Audience for Nobody {
    fn event(&self, _: u64, _: Event<'_>) {}
}

fn model() -> ServerSetup {
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, norm_groups: 1, ..shape() };
    ServerSetup::new(twin(small, 40, 5), [7; 32]).unwrap()
}

/// Runs `visit` with the way to a server of one session at once, and stops the server.
fn with_server<T>(store: Option<&Path>, prepared: usize, visit: impl FnOnce(&Dial) -> T) -> T {
    let limits = Limits {
        sessions: 1,
        tokens: 128,
        time: Duration::from_secs(120),
        prepared,
        queue_bytes: 64 << 20,
        grace: Duration::from_secs(1),
    };
    let store = store.map(Path::to_path_buf);
    let options = Options { limits, reveals: vec![RevealChoice::Label], store, dealer: None, insecure_verify: false };
    let server = Arc::new(Server::new(Hosted::new(model(), None).unwrap(), options, Box::new(Nobody)).unwrap());
    let listener = Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, Config::default()).unwrap();
    let (address, security) = (listener.address().to_string(), ClientSecurity::InsecurePlaintext);
    let dial = Dial { address, security, config: Config::default() };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&listener, &mut Prg::from_seed([1; 16]), &stop));
        // The server stops also when the visit panics: the scope waits for it.
        let visited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| visit(&dial)));
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        visited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn visit(dial: &Dial, cache: &Path) -> Result<Visit, SessionError> {
    let cache = Cache::open(cache).unwrap();
    Visit::start(dial, &cache, None, 1 << 30, &mut Prg::from_seed([2; 16]), &mut Silent)
}

#[test]
fn silent_connections_keep_nobody_out() {
    let cache = tempfile::tempdir().unwrap();
    let ids = document(20, 5);
    let class = with_server(None, 0, |dial| {
        // More than a server of one session has places for; each would be heard for 10 seconds.
        let _silent: Vec<TcpStream> = (0..30).map(|_| TcpStream::connect(&dial.address).unwrap()).collect();
        let visit = visit(dial, cache.path()).unwrap();
        // And again before the second connection.
        let _more: Vec<TcpStream> = (0..30).map(|_| TcpStream::connect(&dial.address).unwrap()).collect();
        let mut prg = Prg::from_seed([3; 16]);
        let choice = Choice::Ahead(64 << 20);
        let finished = visit.classify(&ids, RevealChoice::Label, &choice, false, &mut prg, &mut Silent);
        finished.unwrap().answer.class()
    });
    assert_eq!(class, model().twin().classify(&ids, &mut Rounding::nearest()).unwrap().class);
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn prepared_correlations_are_used_once_and_nothing_of_them_stays() {
    let places: [_; 3] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let [cache, ours, theirs] = places.each_ref().map(tempfile::TempDir::path);
    let (ids, mut prg) = (document(20, 5), Prg::from_seed([4; 16]));
    with_server(Some(theirs), 1, |dial| {
        // A visit holds the only seat until the server has seen its end.
        let visit = || loop {
            match visit(dial, cache) {
                Err(SessionError::Refused { .. }) => std::thread::sleep(Duration::from_millis(50)),
                other => break other.unwrap(),
            }
        };
        let two = visit().prepare(128, RevealChoice::Label, 2, ours, &mut prg, &mut Silent);
        assert!(matches!(two, Err(SessionError::Refused { .. })), "the server keeps one");
        visit().prepare(128, RevealChoice::Label, 1, ours, &mut prg, &mut Silent).unwrap();
        let again = visit().prepare(128, RevealChoice::Label, 1, ours, &mut prg, &mut Silent);
        assert!(matches!(again, Err(SessionError::Refused { .. })), "there is no room for another");
        let choice = Choice::Prepared(ours.to_path_buf());
        let mut classify = || visit().classify(&ids, RevealChoice::Label, &choice, false, &mut prg, &mut Silent);
        let class = classify().unwrap().answer.class();
        assert_eq!(class, model().twin().classify(&ids, &mut Rounding::nearest()).unwrap().class);
        assert!(matches!(classify(), Err(SessionError::NothingPrepared { .. })));
    });
    assert_eq!((entries(ours), entries(theirs)), (0, 0));
}
