//! Somebody on the wire: whole sessions over plain sockets, with every frame of every connection kept on its
//! way.
//!
//! A session knows nothing of it. The links are client to server (both connections of `ahead`), client to
//! dealer, server to dealer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fesc_infer::audit::End;
use fesc_infer::session::cache::Cache;
use fesc_infer::session::client::{Finished, Place, RunOptions, Visit};
use fesc_infer::session::public::Hosted;
use fesc_infer::session::server::{Audience, Event, Limits, Options, Server};
use fesc_infer::session::source::stores::Amount;
use fesc_infer::session::{Dial, Provider, Randomness, Report, dealer};
use fesc_infer::{Reveal, ServerSetup, Unwatched};
use fesc_net::frame::Header;
use fesc_net::{ClientSecurity, Config, Fingerprint, HEADER_BYTES, Listener, ServerSecurity};

use super::common::serving::{fresh, options};

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub from: End,
    pub to: End,
    /// Connections of a link are numbered as they come.
    pub connection: usize,
    pub tag: u16,
    pub payload: Vec<u8>,
}

type Heard = Arc<Mutex<Vec<Frame>>>;

/// Forwards connections of one link and keeps their frames.
struct Tee {
    address: String,
    stop: Arc<AtomicBool>,
    heard: Heard,
    thread: JoinHandle<()>,
}

impl Tee {
    fn new(target: String, from: End, to: End) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, heard) = (Arc::new(AtomicBool::new(false)), Heard::default());
        let (stopped, kept) = (Arc::clone(&stop), Arc::clone(&heard));
        let thread = std::thread::spawn(move || {
            let mut forwarders = Vec::new();
            for (connection, client) in listener.incoming().enumerate() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let (near, far) = (client.unwrap(), TcpStream::connect(&target).unwrap());
                for (reader, writer, from, to) in [(&near, &far, from, to), (&far, &near, to, from)] {
                    let (reader, writer) = (reader.try_clone().unwrap(), writer.try_clone().unwrap());
                    let kept = Arc::clone(&kept);
                    let keep = move |tag, payload| {
                        kept.lock().unwrap().push(Frame { from, to, connection, tag, payload });
                    };
                    forwarders.push(std::thread::spawn(move || forward(reader, writer, keep)));
                }
            }
            forwarders.into_iter().for_each(|f| f.join().unwrap());
        });
        Self { address, stop, heard, thread }
    }

    fn dial(&self) -> Dial {
        Dial {
            address: self.address.clone(),
            security: ClientSecurity::InsecurePlaintext,
            config: Config::default(),
            cancel: None,
        }
    }

    /// Everything, when both ends are gone.
    fn finish(self) -> Vec<Frame> {
        self.stop.store(true, Ordering::Relaxed);
        // It waits for a connection; this one tells it to look.
        drop(TcpStream::connect(&self.address).unwrap());
        self.thread.join().unwrap();
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, keep: impl Fn(u16, Vec<u8>)) {
    let mut head = [0; HEADER_BYTES];
    while from.read_exact(&mut head).is_ok() {
        let header = Header::parse(&head);
        let mut payload = vec![0; header.len as usize];
        if from.read_exact(&mut payload).is_err() {
            break;
        }
        // BlockReader before it is passed on: what an end has acted on is in the list.
        keep(header.tag.0, payload.clone());
        if to.write_all(&[&head[..], &payload].concat()).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Where correlations come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Inline,
    Ahead,
    Prepared,
    Dealer,
}

/// What a session said, and what its ends counted.
pub struct Transcript {
    pub frames: Vec<Frame>,
    /// The client's visits: one, or the one that prepared and the one that classified.
    pub client: Vec<Report>,
    /// The server's side of them.
    pub server: Vec<Report>,
    pub finished: Finished,
}

struct Notes(Arc<Mutex<Vec<Report>>>);

impl Audience for Notes {
    fn event(&self, _: u64, event: Event<'_>) {
        match event {
            Event::Done(report) => self.0.lock().unwrap().push(report),
            Event::Failed(error) => eprintln!("server: {error}"),
            _ => {}
        }
    }
}

fn listener() -> Listener {
    Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, Config::default()).unwrap()
}

/// One document through a server of its own; all randomness is from fixed seeds. `verify`: the server gives
/// its shares away.
pub fn session(setup: ServerSetup, ids: &[u32], reveal: Reveal, mode: Mode, verify: bool) -> Transcript {
    session_with(setup, ids, reveal, mode, verify, &[1, 9, 2].map(fresh))
}

/// The same with the generators of server, dealer and client.
pub fn session_with(
    setup: ServerSetup,
    ids: &[u32],
    reveal: Reveal,
    mode: Mode,
    verify: bool,
    generators: &[Randomness; 3],
) -> Transcript {
    let mut all = sessions(setup, ids, reveal, mode, verify, generators, 1);
    let (frames, client, server) = (all.frames, all.client, all.server);
    Transcript { frames, client, server, finished: all.finished.remove(0) }
}

/// Two sessions of a client that is on the server's list, with correlations from a dealer: one that brings
/// its CKKS keys, and one that uses them again.
pub fn kept_sessions(setup: ServerSetup, ids: &[u32], reveal: Reveal) -> [Transcript; 2] {
    let all = sessions(setup, ids, reveal, Mode::Dealer, false, &[1, 9, 2].map(fresh), 2);
    let mut finished = all.finished.into_iter();
    [0, 1].map(|n| {
        // Each session has one connection of each link.
        let own = all.frames.iter().filter(|f| f.connection == n).map(|f| Frame { connection: 0, ..f.clone() });
        let (client, server) = (vec![all.client[n]], vec![all.server[n]]);
        Transcript { frames: own.collect(), client, server, finished: finished.next().unwrap() }
    })
}

/// What several sessions said.
struct All {
    frames: Vec<Frame>,
    client: Vec<Report>,
    server: Vec<Report>,
    finished: Vec<Finished>,
}

/// One document, so many times. More than once: the client is listed, and its keys are kept.
fn sessions(
    setup: ServerSetup,
    ids: &[u32],
    reveal: Reveal,
    mode: Mode,
    verify: bool,
    generators: &[Randomness; 3],
    times: usize,
) -> All {
    let places: [_; 4] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let [cache, ours, theirs, state] = places.each_ref().map(tempfile::TempDir::path);
    let client = Fingerprint::of(b"a client");
    let (stop, reports) = (AtomicBool::new(false), Arc::default());
    let listeners = [listener().taking_everybody_for(client), listener()];
    let [to_server, client_dealer, server_dealer] = [
        (&listeners[0], End::Client, End::Server),
        (&listeners[1], End::Client, End::Dealer),
        (&listeners[1], End::Server, End::Dealer),
    ]
    .map(|(listener, from, to)| Tee::new(listener.address().to_string(), from, to));
    let limits = Limits {
        // The prepared session's second visit may come before the first one's seat is free.
        sessions: 2,
        tokens: 128,
        time: Duration::from_secs(300),
        reply_timeout: Duration::from_secs(20),
        prepared: Amount { stores: 1, bytes: 1 << 30 },
        prepared_days: 1,
        keys: super::common::serving::limits().keys,
        queue_bytes: 256 << 20,
        // By formula a run takes 1.6 GiB, and two may be there at once.
        encrypted_bytes: 4 << 30,
        grace: Duration::from_secs(5),
    };
    let mut options = Options {
        reveals: vec![Reveal::Label, Reveal::Logits],
        dealer: Some(server_dealer.dial()),
        insecure_verify: verify,
        ..options(limits, Some(theirs), state)
    };
    if times > 1 {
        std::fs::write(state.join("clients"), format!("one {client} sessions=unlimited\n")).unwrap();
        options.access.clients = Some(state.join("clients"));
    }
    let audience = Box::new(Notes(Arc::clone(&reports)));
    let server = Arc::new(Server::new(Hosted::new(setup, None).unwrap(), options, audience).unwrap());
    let (client, finished) = std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&listeners[0], &generators[0], &stop));
        let dealing = scope.spawn(|| dealer::serve(&listeners[1], &generators[1], &stop, &|_| {}));
        // The others stop also when the visit panics: the scope waits for them.
        let visited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let third = client_dealer.dial();
            visit(&to_server.dial(), third, cache, ours, ids, reveal, mode, verify, &generators[2], times)
        }));
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        dealing.join().unwrap().unwrap();
        visited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    drop(listeners);
    let frames = [to_server, client_dealer, server_dealer].into_iter().flat_map(Tee::finish).collect();
    let server = std::mem::take(&mut *reports.lock().unwrap());
    All { frames, client, server, finished }
}

#[allow(clippy::too_many_arguments)]
fn visit(
    dial: &Dial,
    third: Dial,
    cache: &Path,
    ours: &Path,
    ids: &[u32],
    reveal: Reveal,
    mode: Mode,
    verify: bool,
    generators: &Randomness,
    times: usize,
) -> (Vec<Report>, Vec<Finished>) {
    let cache = Cache::open(cache).unwrap();
    let start = || Visit::start(dial, &cache, None, 1 << 30, generators, &mut Unwatched).unwrap();
    let place = Place { directory: ours.join("stores"), state: ours.join("state") };
    let mut reports = Vec::new();
    let provider = match mode {
        Mode::Inline => Provider::Inline,
        Mode::Ahead => Provider::Ahead,
        Mode::Dealer => Provider::Dealer(third),
        Mode::Prepared => {
            reports.push(start().prepare(128, reveal, 1, &place, &mut Unwatched).unwrap().1);
            Provider::Prepared(place)
        }
    };
    let keys = (times > 1).then(|| ours.join("state"));
    let options = RunOptions { reveal, provider, ready_bytes: 256 << 20, verify, keys };
    let finished: Vec<Finished> =
        (0..times).map(|_| start().classify(ids, &options, &mut Unwatched).unwrap()).collect();
    reports.extend(finished.iter().map(|f| f.report));
    (reports, finished)
}
