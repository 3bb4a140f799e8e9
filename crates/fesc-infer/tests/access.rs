//! Who may ask: listed certificates, budgets, and what is kept of both when the server is killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::document;
use common::serving::*;
use fesc_infer::Unwatched;
use fesc_infer::session::cache::Cache;
use fesc_infer::session::client::Visit;
use fesc_infer::session::public::Hosted;
use fesc_infer::session::server::access::{Ending, Line};
use fesc_infer::session::server::{Limits, Options, Server};
use fesc_infer::session::{Dial, Provider, Randomness, RefusalKind, SessionError, dealer};
use fesc_net::{ClientSecurity, Config, Fingerprint, Identity, Listener, ServerSecurity};

/// Set in the process that is the server.
const PLACE: &str = "FESC_TEST_SERVER_PLACE";
/// Sessions at once of that server.
const SEATS: usize = 3;

/// A server with TLS and a list, in a process of its own: `server_process` of this file, run by itself.
struct Process {
    child: Child,
    address: String,
    /// A process that prints to nobody would end.
    _said: ChildStdout,
}

impl Process {
    fn start(place: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "server_process", "--nocapture"])
            .env(PLACE, place)
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "the server ended");
            if let Some((_, address)) = line.split_once("listening ") {
                break address.trim().to_string();
            }
        };
        Self { child, address, _said: said.into_inner() }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Not a test: the server of the tests below, which run this file again with a place for it.
#[test]
fn server_process() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let identity = Identity::load(&place.join("server.key"), &place.join("server.crt")).unwrap();
    let limits = Limits { sessions: SEATS, ..limits() };
    let mut options = options(limits, None, &place.join("state"));
    options.access.clients = Some(place.join("clients"));
    let address = std::fs::read_to_string(place.join("dealer")).unwrap();
    options.dealer = Some(plain(&address));
    let server = Server::new(Hosted::new(model(), None).unwrap(), options, Box::new(Failures::default()));
    let listener = Listener::bind("127.0.0.1:0", ServerSecurity::Tls(identity), Config::default()).unwrap();
    println!("listening {}", listener.address());
    std::io::stdout().flush().unwrap();
    Arc::new(server.unwrap()).run(&listener, &Randomness::os(), &AtomicBool::new(false)).unwrap();
}

/// A client with a certificate of its own, or without one.
fn dial(address: &str, pin: Fingerprint, identity: Option<&Arc<Identity>>) -> Dial {
    let security = match identity {
        Some(identity) => ClientSecurity::TlsAs(pin, Arc::clone(identity)),
        None => ClientSecurity::Tls(pin),
    };
    Dial { address: address.into(), security, config: Config::default(), cancel: None }
}

/// Without TLS: the dealer of these tests.
fn plain(address: &str) -> Dial {
    let security = ClientSecurity::InsecurePlaintext;
    Dial { address: address.into(), security, config: Config::default(), cancel: None }
}

fn classify(dial: &Dial, dealer: &str, cache: &Path, ids: &[u32]) -> Result<usize, SessionError> {
    let cache = Cache::open(cache).unwrap();
    let visit = Visit::start(dial, &cache, None, 1 << 30, &Randomness::os(), &mut Unwatched)?;
    // A dealer, so that 200 sessions take seconds: nothing here depends on who makes correlations.
    let choice = label(Provider::Dealer(plain(dealer)));
    visit.classify(ids, &choice, &mut Unwatched).map(|f| f.answer.class())
}

fn refused(result: Result<usize, SessionError>) -> RefusalKind {
    match result {
        Err(SessionError::Refused { kind, .. }) => kind,
        other => panic!("{other:?}"),
    }
}

fn log(place: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(place.join("state/sessions.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What each of three clients may ask for.
const EACH: [usize; 3] = [80, 70, 50];

/// Three listed clients, their dealer, and what became of their sessions.
struct Crowd<'a> {
    place: &'a Path,
    dealer: String,
    pin: Fingerprint,
    clients: [Arc<Identity>; 3],
    ids: Vec<u32>,
    /// How often each client was granted a session that ended well.
    granted: [AtomicUsize; 3],
    /// Sessions that were lost with the server.
    lost: AtomicUsize,
}

impl<'a> Crowd<'a> {
    fn new(place: &'a Path) -> Self {
        let listener = Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, Config::default()).unwrap();
        let dealer = listener.address().to_string();
        std::fs::write(place.join("dealer"), &dealer).unwrap();
        // It ends with the process of the tests.
        std::thread::spawn(move || dealer::serve(&listener, &Randomness::os(), &AtomicBool::new(false), &|_| {}));
        let server_identity = Identity::generate().unwrap();
        server_identity.save(&place.join("server.key"), &place.join("server.crt")).unwrap();
        let clients: [_; 3] = std::array::from_fn(|_| Arc::new(Identity::generate().unwrap()));
        let list: String = clients
            .iter()
            .zip(EACH)
            .enumerate()
            .map(|(n, (identity, each))| format!("client-{n} {} sessions={each}\n", identity.fingerprint()))
            .collect();
        std::fs::write(place.join("clients"), list).unwrap();
        let (granted, lost) = ([0, 1, 2].map(|_| AtomicUsize::new(0)), AtomicUsize::new(0));
        Self { place, dealer, pin: server_identity.fingerprint(), clients, ids: document(20, 5), granted, lost }
    }

    fn granted(&self) -> [usize; 3] {
        [0, 1, 2].map(|n: usize| self.granted[n].load(Ordering::Relaxed))
    }

    /// One document of a client with this certificate.
    fn ask(&self, address: &str, identity: Option<&Arc<Identity>>, cache: &str) -> Result<usize, SessionError> {
        classify(&dial(address, self.pin, identity), &self.dealer, &self.place.join(cache), &self.ids)
    }

    /// All clients at once until their budgets are used; `half`: until 90 sessions ended, then `stop` is set.
    fn run(&self, address: &str, half: bool, stop: &AtomicBool) {
        std::thread::scope(|scope| {
            for n in 0..3 {
                scope.spawn(move || self.ask_until(n, address, half, stop));
            }
            if half {
                // In the middle of the sessions.
                let total = || self.granted().iter().sum::<usize>();
                let until = Instant::now() + Duration::from_secs(300);
                while total() < 90 {
                    assert!(Instant::now() < until && self.lost.load(Ordering::Relaxed) == 0, "{} sessions", total());
                    std::thread::sleep(Duration::from_millis(5));
                }
                stop.store(true, Ordering::Relaxed);
            }
        });
    }

    fn ask_until(&self, n: usize, address: &str, half: bool, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match self.ask(address, Some(&self.clients[n]), &format!("cache-{n}")) {
                Ok(_) => {
                    self.granted[n].fetch_add(1, Ordering::Relaxed);
                }
                Err(SessionError::Refused { kind: RefusalKind::Budget, .. }) => break,
                Err(SessionError::Refused { kind: RefusalKind::Busy, .. }) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(_) if half => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// A server that is killed in the middle of the sessions.
    fn run_until_killed(&self) {
        let server = Process::start(self.place);
        let (address, stop) = (server.address.clone(), AtomicBool::new(false));
        let killer = std::thread::scope(|scope| {
            let killing = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                server.kill();
            });
            self.run(&address, true, &stop);
            killing.join()
        });
        killer.unwrap();
    }
}

/// Three clients, 200 sessions, and a server that is killed in the middle of them.
#[test]
fn counts_and_log_lines_are_right_after_a_kill() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path();
    let crowd = Crowd::new(place);
    crowd.run_until_killed();
    let before = crowd.granted();
    let server = Process::start(place);
    crowd.run(&server.address, false, &AtomicBool::new(false));
    for client in &crowd.clients {
        assert_eq!(refused(crowd.ask(&server.address, Some(client), "cache")), RefusalKind::Budget);
    }
    let lines = log(place);
    for (n, each) in EACH.into_iter().enumerate() {
        let of = |ending: Ending| {
            let name = format!("client-{n}");
            lines.iter().filter(|l| l.client.as_ref() == Some(&name) && l.result == ending).count()
        };
        // What a client saw end well is `done` or `lost`: its answer comes before the server writes the line,
        // and the kill may fall between the two. Other lost sessions may have ended for the server, or not
        // have been granted yet.
        let (done, begun) = (of(Ending::Done), of(Ending::Done) + of(Ending::Lost) + of(Ending::Failed));
        assert_eq!(begun, each, "client {n}: its whole budget and no more, one line each");
        assert!(done + of(Ending::Lost) >= crowd.granted()[n], "client {n}");
        assert!(of(Ending::Refused) >= 1, "client {n}");
    }
    // A seat is free only after its line is written, whoever takes it next.
    assert!(lines.iter().filter(|l| l.result == Ending::Lost).count() <= SEATS);
    assert_eq!(lines.iter().filter(|l| l.result != Ending::Refused).count(), 200);
    let mut names: Vec<&str> = lines.iter().map(|l| l.session.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), lines.len(), "no session twice");
    assert!(lines.iter().all(|l| l.plan == "fast" && l.bucket == 128 && l.reveal == "label" && l.kind == "run"));
    assert!(lines.iter().filter(|l| l.result == Ending::Done).all(|l| l.code == 0 && l.bytes > Some(1000)));
    println!("granted before the kill {before:?}, lost {}", crowd.lost.load(Ordering::Relaxed));

    // Taken off the list a moment ago; never on it; without a certificate.
    std::fs::write(place.join("clients"), "").unwrap();
    let stranger = Arc::new(Identity::generate().unwrap());
    for identity in [Some(&crowd.clients[0]), Some(&stranger), None] {
        assert_eq!(refused(crowd.ask(&server.address, identity, "cache")), RefusalKind::NotListed);
    }
    assert_eq!(log(place).len(), lines.len(), "strangers do not fill the log");
    server.kill();
}

/// A flood of connections that say nothing, all the time, while a session opens its second connection.
#[test]
fn a_flood_of_strangers_does_not_keep_a_second_connection_out() {
    let root = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let pin = identity.fingerprint();
    let options: Options = options(limits(), None, &root.path().join("state"));
    let hosted = Hosted::new(model(), None).unwrap();
    let server = Arc::new(Server::new(hosted, options, Box::new(Failures::default())).unwrap());
    let listener = Listener::bind("127.0.0.1:0", ServerSecurity::Tls(identity), Config::default()).unwrap();
    let (address, stop, ended) = (listener.address().to_string(), AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&listener, &Randomness::os(), &stop));
        let cache = Cache::open(&root.path().join("cache")).unwrap();
        let dial = dial(&address, pin, None);
        let visit = Visit::start(&dial, &cache, None, 1 << 30, &Randomness::os(), &mut Unwatched).unwrap();
        // At most 30 seconds of at most one connection in 2 ms.
        let flood = scope.spawn(|| {
            let mut silent = std::collections::VecDeque::new();
            for _ in 0..15_000 {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                silent.extend(TcpStream::connect(&address).ok());
                if silent.len() > 200 {
                    silent.pop_front();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        std::thread::sleep(Duration::from_millis(200));
        let choice = label(Provider::Ahead);
        let finished = visit.classify(&document(20, 5), &choice, &mut Unwatched);
        ended.store(true, Ordering::Relaxed);
        flood.join().unwrap();
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        finished.unwrap();
    });
}
