//! The same under the paper's plan, with keys that would be kept: at every kind of message, and at every
//! message with ciphertexts. Whatever is cut, no keys stay that would serve again. Every message of a run is
//! cut in memory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fesc_infer::kernels::private_plan;
use fesc_infer::session::cache::Cache;
use fesc_infer::session::client::{Finished, RunOptions, Visit};
use fesc_infer::session::public::Hosted;
use fesc_infer::session::server::{Limits, Server};
use fesc_infer::session::{Dial, Provider, Randomness, SessionError, dealer};
use fesc_infer::{ServerSetup, Unwatched};
use fesc_model::Shape;
use fesc_model::twin::{Rounding, Twin};
use fesc_net::{ClientSecurity, Config, Fingerprint, Listener, ServerSecurity};

use super::common::serving::{label, limits, options};
use super::common::{document, shape, twin_by};
use super::socket::{Cut, Ended, Line, Told, Way, by_peer};

/// Messages with ciphertexts: masked ones come down, uploads go up.
const CIPHERTEXTS: [u16; 2] = [0x0701, 0x0702];
/// A public key, and the evaluation keys.
const KEYS: [u16; 2] = [0x0705, 0x0706];
/// Keys are ready, and at the end kept.
const READY: u16 = 0x0688;

/// The paper's plan but for its scan, which has the largest keys: it is killed as a process (`fesc/tests`).
fn model() -> Twin {
    let small = Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, groups: 1, norm_groups: 1, ..shape() };
    twin_by(private_plan("paper,scan=dual").unwrap(), small, 40, 1)
}

fn listener() -> Listener {
    Listener::bind("127.0.0.1:0", ServerSecurity::InsecurePlaintext, Config::default()).unwrap()
}

fn dial(address: &str) -> Dial {
    let security = ClientSecurity::InsecurePlaintext;
    Dial { address: address.into(), security, config: Config::default(), cancel: None }
}

/// Every file below the directories of keys and of lists, by name.
fn files(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state).into_iter().flatten().map(|e| e.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// What is there besides lists of what was used, budgets and the log: kept keys.
fn keys(state: &Path) -> Vec<PathBuf> {
    let known = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        ["clients", "server.lock"].contains(&name)
            || ["retired-", "spent-", "usage.", "sessions."].iter().any(|start| name.starts_with(start))
    };
    files(state).into_iter().filter(|path| !known(path)).collect()
}

/// The last message that is about keys. What follows it costs nobody its keys.
fn settled(tags: &[u16]) -> usize {
    tags.iter().rposition(|tag| *tag == READY).unwrap()
}

/// Where to cut one way, up to there: the first message of every kind, the last that is about keys, and all
/// with ciphertexts.
fn places(tags: &[u16]) -> Vec<usize> {
    let tags = &tags[..=settled(tags)];
    let ends = |tag: &u16| {
        let same: Vec<usize> = (0..tags.len()).filter(|i| tags[*i] == *tag).collect();
        match tag {
            tag if CIPHERTEXTS.contains(tag) => same,
            tag if KEYS.contains(tag) || *tag == READY => vec![same[0], same[same.len() - 1]],
            _ => vec![same[0]],
        }
    };
    let all: BTreeSet<usize> = tags.iter().collect::<BTreeSet<_>>().into_iter().flat_map(ends).collect();
    all.into_iter().collect()
}

/// How a session that may have been cut ended: at the client, at the server, and which tags went.
type Seen = (Result<Finished, SessionError>, Ended, [Vec<u16>; 2]);

/// Cuts sessions at these places: both sides end by it, and leave no keys.
fn cut_all(
    states: &[PathBuf; 2],
    tags: &[Vec<u16>; 2],
    places: fn(&[u16]) -> Vec<usize>,
    session: &dyn Fn(Cut) -> Seen,
) {
    // Whether the server hears more after it has said that keys are kept.
    let waits = settled(&tags[0]) + 1 < tags[0].len();
    for (way, tags) in [Way::ToServer, Way::ToClient].into_iter().zip(tags) {
        for at in places(tags) {
            let (ran, there, _) = session(Some((way, at)));
            let what = format!("{way:?}, message {at} of {}, tag {:#06x}", tags.len(), tags[at]);
            // At the end both say that keys are kept: the client has its answer before, and the server is
            // content before its word arrives.
            let end = at == settled(tags);
            match &ran {
                Ok(finished) => assert!(end && !finished.keys.kept, "{what}: a result without all messages"),
                Err(e) => assert!(by_peer(e) && !end, "{what}: the client says {e}"),
            }
            let last = way == Way::ToClient && end;
            match &there {
                Ok(()) => assert!(last, "{what}: the server is content without all messages"),
                Err(e) => assert!(e.is_empty() && (!last || waits), "{what}: the server says {e}"),
            }
            let [ours, theirs] = states.each_ref().map(|state| keys(state));
            assert!(ours.is_empty(), "{what}: {ours:?}");
            assert_eq!(theirs.len(), usize::from(last), "{what}: {theirs:?}");
            // Nobody will name them; they would go with their age.
            theirs.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        }
    }
}

#[test]
fn a_session_of_the_papers_plan_that_is_cut_anywhere_leaves_no_keys() {
    let place = tempfile::tempdir().unwrap();
    let states = ["ours", "theirs"].map(|name| place.path().join(name));
    let client = Fingerprint::of(b"a client");
    std::fs::create_dir(&states[1]).unwrap();
    std::fs::write(states[1].join("clients"), format!("one {client} sessions=unlimited\n")).unwrap();
    let [third, listener] = [listener(), listener().taking_everybody_for(client)];
    let third_dial = dial(&third.address().to_string());
    std::thread::spawn(move || dealer::serve(&third, &Randomness::os(), &AtomicBool::new(false), &|_| {}));
    let mut options = options(Limits { sessions: 4, ..limits() }, None, &states[1]);
    options.access.clients = Some(states[1].join("clients"));
    options.dealer = Some(third_dial.clone());
    let (tell, told) = channel();
    let hosted = Hosted::new(ServerSetup::new(model(), [7; 32]).unwrap(), None).unwrap();
    let server = Arc::new(Server::new(hosted, options, Box::new(Told(Mutex::new(tell)))).unwrap());
    let line = Line::to(listener.address().to_string());
    let stop = Arc::new(AtomicBool::new(false));
    let (serving, stopped) = (Arc::clone(&server), Arc::clone(&stop));
    let serving = std::thread::spawn(move || serving.run(&listener, &Randomness::os(), &stopped));

    let (cache, ids, to) = (Cache::open(&place.path().join("cache")).unwrap(), document(20, 1), dial(&line.address));
    let choice = RunOptions { keys: Some(states[0].clone()), ..label(Provider::Dealer(third_dial)) };
    let session = |cut: Cut| {
        *line.cut.lock().unwrap() = cut;
        let visit = Visit::start(&to, &cache, None, 1 << 30, &Randomness::os(), &mut Unwatched);
        let ran = visit.and_then(|visit| visit.classify(&ids, &choice, &mut Unwatched));
        let there = told.recv_timeout(Duration::from_secs(20)).unwrap();
        (ran, there, line.went.recv().unwrap())
    };
    let whole = |reused: bool| {
        let (ran, there, tags) = session(None);
        there.unwrap();
        let Finished { answer, keys: used, .. } = ran.unwrap();
        assert_eq!(answer.class(), model().classify(&ids, &mut Rounding::nearest()).unwrap().class);
        assert!(used.kept && used.reused == reused, "{used:?}");
        assert_eq!(states.each_ref().map(|state| keys(state).len()), [1, 1]);
        tags
    };
    let forget = || states.iter().flat_map(|s| keys(s)).for_each(|file| std::fs::remove_file(file).unwrap());

    // The public part is there from the first session on.
    whole(false);
    let again = whole(true);
    forget();
    let fresh = whole(false);
    forget();
    for (way, kinds) in fresh.iter().zip([&[CIPHERTEXTS[1], KEYS[0], KEYS[1], READY][..], &[CIPHERTEXTS[0], READY]]) {
        kinds.iter().for_each(|tag| assert!(way.contains(tag), "{tag:#06x} is seen"));
    }
    cut_all(&states, &fresh, places, &session);
    // Kept keys are gone with a session that dies behind its mark; none of these were there before.
    let with_kept = |cut: Cut| {
        whole(false);
        session(cut)
    };
    let first = |tags: &[u16]| tags.iter().position(|tag| CIPHERTEXTS.contains(tag)).into_iter().collect();
    cut_all(&states, &again, first, &with_kept);
    whole(false);
    stop.store(true, Ordering::Relaxed);
    serving.join().unwrap().unwrap();
}
