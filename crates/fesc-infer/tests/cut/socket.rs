//! Over a socket, in whole sessions on prepared correlations: the store is used, and nothing of it is left.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fesc_infer::session::cache::Cache;
use fesc_infer::session::client::Visit;
use fesc_infer::session::public::Hosted;
use fesc_infer::session::server::{Audience, Event, Limits, Server};
use fesc_infer::session::{Dial, Provider, SessionError};
use fesc_infer::{Reveal, Unwatched};
use fesc_mpc::MpcError;
use fesc_net::{ClientSecurity, Config, Listener, ServerSecurity};

use super::common::document;
use super::common::serving::{self, fresh, label, limits, options};
use super::{gone, model, of_channel};

/// The tag with which two stores agree: whoever has sent it has marked its store as used.
const AGREED: u16 = 0x0404;

/// Frames between two cuts, after the stores have agreed. Every message of a run is cut in memory.
const STRIDE: usize = 9;

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToServer,
    ToClient,
}

/// Where a line is cut: in place of this frame.
pub type Cut = Option<(Way, usize)>;

/// Forwards connections frame by frame, one after the other, and tells the tags that went each way.
pub struct Line {
    pub address: String,
    pub cut: Arc<Mutex<Cut>>,
    pub went: Receiver<[Vec<u16>; 2]>,
}

impl Line {
    pub fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (tell, went) = channel();
        let cut: Arc<Mutex<Cut>> = Arc::default();
        let told = Arc::clone(&cut);
        std::thread::spawn(move || {
            for client in listener.incoming().map(Result::unwrap) {
                let server = TcpStream::connect(&server).unwrap();
                [&client, &server].iter().for_each(|s| s.set_nodelay(true).unwrap());
                let cut = *told.lock().unwrap();
                let at = |way| cut.and_then(|(w, at)| (w == way).then_some(at));
                let (up, down) = (at(Way::ToServer), at(Way::ToClient));
                let (c, s) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let up = std::thread::spawn(move || forward(client, server, up));
                let down = forward(s, c, down);
                if tell.send([up.join().unwrap(), down]).is_err() {
                    break;
                }
            }
        });
        Self { address, cut, went }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, cut: Option<usize>) -> Vec<u16> {
    let (mut tags, mut header) = (Vec::new(), [0; 16]);
    while from.read_exact(&mut header).is_ok() {
        if cut == Some(tags.len()) {
            let _ = [&from, &to].map(|s| s.shutdown(Shutdown::Both));
            break;
        }
        let length = u32::from_le_bytes(*header.last_chunk().unwrap()) as usize;
        let mut frame = header.to_vec();
        frame.resize(16 + length, 0);
        if from.read_exact(&mut frame[16..]).is_err() || to.write_all(&frame).is_err() {
            break;
        }
        tags.push(u16::from_le_bytes([header[0], header[1]]));
    }
    let _ = to.shutdown(Shutdown::Write);
    tags
}

/// How a session ended at the server: well, or by the peer's end, or by something else.
pub type Ended = Result<(), String>;

/// Tells the test how sessions end.
pub struct Told(pub Mutex<Sender<Ended>>);

impl Audience for Told {
    fn event(&self, _: u64, event: Event<'_>) {
        let ended = match event {
            Event::Done(_) => Ok(()),
            Event::Failed(error) => Err(if by_peer(error) { String::new() } else { error.to_string() }),
            _ => return,
        };
        self.0.lock().unwrap().send(ended).unwrap();
    }
}

pub fn by_peer(error: &SessionError) -> bool {
    match error {
        SessionError::Net(e) | SessionError::Mpc(MpcError::Net(e)) => gone(e),
        SessionError::Infer(e) => of_channel(e).is_some_and(gone),
        _ => false,
    }
}

/// Copies the stores of a store directory.
fn copy(from: &Path, to: &Path) {
    for store in std::fs::read_dir(from).unwrap().map(|e| e.unwrap()) {
        let target = to.join(store.file_name());
        std::fs::create_dir(&target).unwrap();
        for file in std::fs::read_dir(store.path()).unwrap().map(|e| e.unwrap()) {
            std::fs::copy(file.path(), target.join(file.file_name())).unwrap();
        }
    }
}

/// Empties a store directory and says what was on it.
fn emptied(stores: &Path) -> Vec<String> {
    let stores = std::fs::read_dir(stores).unwrap().map(|e| e.unwrap());
    let names = stores.map(|store| {
        std::fs::remove_dir_all(store.path()).unwrap();
        store.file_name().into_string().unwrap()
    });
    names.collect()
}

#[test]
fn a_session_that_is_cut_ends_on_both_sides_and_burns_its_store() {
    // Every correlation that is taken is a file that is deleted durably: in memory that costs nothing.
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let [cache, ours, theirs, kept, kept_there] =
        ["cache", "ours", "theirs", "kept", "kept-there"].map(|name| place.path().join(name));
    [&kept, &kept_there].iter().for_each(|d| std::fs::create_dir(d).unwrap());
    let limits = Limits { sessions: 4, ..limits() };
    let state = place.path().join("state");
    let options = options(limits, Some(&theirs), &state);
    let (tell, told) = channel();
    let hosted = Hosted::new(model(), None).unwrap();
    let server = Arc::new(Server::new(hosted, options, Box::new(Told(Mutex::new(tell)))).unwrap());
    let listener = Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, Config::default()).unwrap();
    let (address, stop) = (listener.address().to_string(), Arc::new(AtomicBool::new(false)));
    let (serving, stopped) = (Arc::clone(&server), Arc::clone(&stop));
    let serving = std::thread::spawn(move || serving.run(&listener, &fresh(1), &stopped));

    let (cache, ids) = (Cache::open(&cache).unwrap(), document(20, 1));
    let line = Line::to(address);
    let security = ClientSecurity::InsecurePlaintext;
    let dial = Dial { address: line.address.clone(), security, config: Config::default(), cancel: None };
    let visit = || Visit::start(&dial, &cache, None, 1 << 30, &fresh(2), &mut Unwatched);
    let stores = serving::place(&ours);
    visit().unwrap().prepare(128, Reveal::Label, 1, &stores, &mut Unwatched).unwrap();
    told.recv().unwrap().unwrap();
    line.went.recv().unwrap();
    copy(&ours, &kept);
    copy(&theirs, &kept_there);

    emptied(&ours);
    emptied(&theirs);
    let lists = [stores.state.join("spent-client.jsonl"), state.join("spent-server.jsonl")];
    let unused = lists.each_ref().map(|list| std::fs::read(list).unwrap());

    let choice = label(Provider::Prepared(stores.clone()));
    let session = |cut| {
        // The same store again on both sides, which no operator may do: here it saves making one for every
        // cut.
        copy(&kept, &ours);
        copy(&kept_there, &theirs);
        lists.iter().zip(&unused).for_each(|(list, text)| std::fs::write(list, text).unwrap());
        *line.cut.lock().unwrap() = cut;
        let ran = visit().and_then(|visit| visit.classify(&ids, &choice, &mut Unwatched).map(|f| f.answer.class()));
        let there = told.recv_timeout(Duration::from_secs(20)).unwrap();
        (ran, there, line.went.recv().unwrap(), emptied(&ours), emptied(&theirs))
    };
    let (ran, there, tags, ..) = session(None);
    ran.unwrap();
    there.unwrap();
    for (way, tags) in [Way::ToServer, Way::ToClient].into_iter().zip(&tags) {
        let agreed = tags.iter().position(|t| *t == AGREED).unwrap();
        let later = (agreed + 1..tags.len()).step_by(STRIDE);
        for at in (0..=agreed).chain(later).chain([tags.len() - 1]) {
            let (ran, there, _, here, store) = session(Some((way, at)));
            let what = format!("{way:?}, frame {at} of {}", tags.len());
            match &ran {
                Ok(_) => assert_eq!(way, Way::ToServer, "{what}: the client has a result without all frames"),
                Err(e) => assert!(by_peer(e), "{what}: the client says {e}"),
            }
            match &there {
                Ok(()) => assert_eq!(way, Way::ToClient, "{what}: the server is content without all frames"),
                Err(e) => assert!(e.is_empty(), "{what}: the server says {e}"),
            }
            let whole = |stores: &[String]| stores.iter().all(|name| !name.contains('.'));
            assert!(whole(&here) && whole(&store), "{what}: {here:?} {store:?}");
            if at > agreed {
                assert!(here.is_empty() && store.is_empty(), "{what}: a used store is still there");
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    serving.join().unwrap().unwrap();
}
